"""What may go wrong with one family or one analysis while the others go on, and how the end of a run reports it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException

from analytics.spark.progress import Progress
from analytics.spark.storage import BadStorage

#: PySpark translates most exceptions of its JVM. Others, such as that of a full disk, come from the bridge to the JVM.
SPARK_FAILURES: Final[tuple[type[Exception], ...]] = (PySparkException, Py4JError)

#: None of these ends the whole run.
FAILURES: Final[tuple[type[Exception], ...]] = (*SPARK_FAILURES, BadStorage, pa.ArrowException, OSError)


def sentence(failure: Exception) -> str:
    """Return the message of a failure, without the stack of the JVM."""
    if isinstance(failure, Py4JJavaError):
        return str(failure.java_exception.toString()).partition("\n")[0]
    return str(failure)


class SomeFailed(Exception):
    """Some of what was to be done failed; the rest is done."""

    def __init__(self, why: Mapping[str, str]) -> None:
        self.why = why
        super().__init__("; ".join(f"{name}: {reason}" for name, reason in why.items()))


class Failures:
    """What has failed so far of things that are done one after the other, each whatever became of those before it."""

    def __init__(self, show: Progress) -> None:
        self._show = show
        self._why: dict[str, str] = {}

    @contextmanager
    def collecting(self, name: str, message: str = "") -> Iterator[None]:
        """Go on after the block if it fails, and note why by this name; a `message` is shown at once."""
        try:
            yield
        except FAILURES as failure:
            self._why[name] = sentence(failure)
            if message:
                self._show(message)

    def raise_if_any(self) -> None:
        """Raise SomeFailed with all that was noted, if anything was."""
        if self._why:
            raise SomeFailed(self._why)
