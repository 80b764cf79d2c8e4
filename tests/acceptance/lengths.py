"""On which controller a test runs, and in which length: short in CI, in full by `make soak`."""

import pytest
from peers.jars import V5_1, V5_5
from verdicts import Run

_SHORT = Run("ours", full=False, broker_version=V5_5)
_FULL = Run("ours", full=True, broker_version=V5_5)
_FULL_JAVA = Run("java", full=True, broker_version=V5_5)
_FULL_OLD = Run("ours", full=True, broker_version=V5_1)


def _in_soak(*runs):
    return [pytest.param(run, marks=pytest.mark.soak, id=_name(run)) for run in runs]


def _name(run):
    # "java" is the name of a mark, so that no selection by name could tell them apart.
    controller = "ours" if run.is_ours else "original"
    return "-".join([controller, *([] if run.broker_version == V5_5 else [run.broker_version])])


def _on(runs):
    return pytest.mark.parametrize("run", runs, indirect=True, scope="session")


_IN_CI = [pytest.param(_SHORT, id="short")]

#: A part of CI; in soak runs on both controllers.
everywhere = _on([*_IN_CI, *_in_soak(_FULL, _FULL_JAVA)])
#: The same, and with brokers of the oldest version that can be led.
everywhere_and_old = _on([*_IN_CI, *_in_soak(_FULL, _FULL_OLD, _FULL_JAVA)])
#: What the Java controller has nothing comparable for.
ours_everywhere = _on([*_IN_CI, *_in_soak(_FULL)])
in_soak = _on(_in_soak(_FULL, _FULL_JAVA))
ours_in_soak = _on(_in_soak(_FULL))
#: What its files alone make long or short, and the Java controller has nothing comparable for.
ours_in_ci = _on(_IN_CI)
