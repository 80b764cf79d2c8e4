"""What Spark's failures are in Python, and what they say.

PySpark translates most of what its JVM throws. What it does not know, a job that was given up because its disk is full
among that, comes as the exception of the bridge to the JVM.
"""

from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException

SPARK_FAILURES: Final[tuple[type[Exception], ...]] = (PySparkException, Py4JError)


def sentence(failure: Exception) -> str:
    """Return what went wrong, without the stack of the JVM where PySpark did not cut it off."""
    if isinstance(failure, Py4JJavaError):
        return str(failure.java_exception.toString()).partition("\n")[0]
    return str(failure)
