"""How Spark works through a small history: there planning and compiling take longer than the work."""

from collections.abc import Iterable
from functools import cache
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from analytics.spark.storage import StoredFile

#: A history is small up to so many rows, and so many bytes of files.
ROWS_MAX: Final = 100_000
BYTES_MAX: Final = 16 * 1024**2

_SETTINGS: Final = {
    # Rows are in one place from the start, so nothing is shuffled or sent to all, and no stage is planned anew.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Plans run once over some rows: to compile them would not pay.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def is_small(files: Iterable[StoredFile]) -> bool:
    """Return whether these are the files of a small history."""
    return sum(file.size for file in files) <= BYTES_MAX


def session_for(spark: SparkSession, rows: int) -> SparkSession:
    """Return the session that is best for so many rows: of few it makes simple plans, and compiles none."""
    return _quick_session(spark) if rows <= ROWS_MAX else spark


@cache
def _quick_session(spark: SparkSession) -> SparkSession:
    quick = spark.newSession()
    for key, value in _SETTINGS.items():
        quick.conf.set(key, value)
    return quick


def in_one_piece(rows: DataFrame) -> DataFrame:
    """Read a small table now, into one partition in memory."""
    return rows.coalesce(1).localCheckpoint()
