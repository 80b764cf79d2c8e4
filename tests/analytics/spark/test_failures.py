"""Things that are done one after the other, each whatever became of those before it."""

import pytest

from analytics.spark.failures import Failures, SomeFailed
from analytics.spark.storage import BadStorage


def test_failure_is_printed_at_once_and_raised_at_the_end_and_the_rest_is_done():
    done, failed = [], []
    failures = Failures(failed.append)
    for name, why in (("a", OSError("no space left")), ("b", None), ("c", BadStorage("torn"))):
        with failures.collecting(name, message=f"{name}: failed" if name == "a" else ""):
            if why:
                raise why
            done.append(name)
    assert (done, failed) == (["b"], ["a: failed"])
    with pytest.raises(SomeFailed, match=r"^a: no space left; c: torn$"):
        failures.raise_if_any()


def test_where_nothing_failed_nothing_is_raised():
    failures = Failures(pytest.fail)
    with failures.collecting("a", message="a: failed"):
        pass
    failures.raise_if_any()


def test_what_is_a_fault_of_the_whole_run_ends_it():
    failures = Failures(pytest.fail)
    with pytest.raises(ValueError, match="a bug"), failures.collecting("a", message="a: failed"):
        raise ValueError("a bug")
