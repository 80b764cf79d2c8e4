"""Threads that have Spark do two things at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final

from pyspark.sql import SparkSession

from analytics.spark.failures import FAILURES

#: While Spark plans one thing it has time to compute another one.
AT_ONCE: Final = 2


@contextmanager
def at_once(spark: SparkSession) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that run jobs; who is interrupted leaves at once, and does not wait for what Spark is at."""
    # Not by `with`, which waits however it is left.
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        yield pool
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        # Who ends us may have ended Spark's Java with us.
        with suppress(*FAILURES):
            spark.sparkContext.cancelAllJobs()
        raise
    except BaseException:
        # The lock is ours until the last of them has ended.
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()
