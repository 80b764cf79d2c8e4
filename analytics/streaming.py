"""Ingest by Structured Streaming: reads each landing file as soon as it is sealed, instead of when somebody asks.

A query of its own for each family, with a checkpoint of its own. The checkpoint says which files a query has taken,
the manifest which of them count; a batch that is repeated after a crash finds its files in the manifest, or its events
in the rows, and adds nothing twice. Batch ingest may run between two streams: both go by the same manifests.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from analytics.ingest import STORED_HISTORY, Ingested, Places, absorb, file_schema, line_options, sweep
from analytics.landing import PATH_GLOB, HourWork, How, family_landing
from analytics.manifest import Day, LandedFile, load_days
from analytics.progress import Progress
from history.schemas import Family

#: Rises when a query changes so that it cannot go on from an older checkpoint.
CHECKPOINT_VERSION: Final = 1

#: One micro-batch takes so many files at most: what a crash repeats, and what has to fit into memory and disk.
FILES_PER_BATCH_MAX: Final = 500

#: Older files than this, seen from the newest one, are left to the batch ingest.
FILE_AGE_MAX: Final = "30d"

_HOUR_OF_PATH: Final = r"/date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/[^/]*$"


def take_what_is_there(places: Places, families: Iterable[Family], say: Progress) -> None:
    """Read all files that the checkpoints do not know yet, and return."""
    for family in families:
        query = _writer(places, family, say).trigger(availableNow=True).start()
        _wait(query)


def follow(places: Places, families: Iterable[Family], every_seconds: float, say: Progress) -> None:
    """Read files as they come, until a query fails or the process is told to stop."""
    with ExitStack() as running:
        for family in families:
            query = _writer(places, family, say).trigger(processingTime=f"{every_seconds} seconds").start()
            running.callback(query.stop)
        places.spark.streams.awaitAnyTermination()


def checkpoint(family: Family) -> str:
    """Return where a family's query keeps what it has taken."""
    return f"checkpoints/ingest-{family.name}/v{CHECKPOINT_VERSION}"


def _wait(query: StreamingQuery) -> None:
    try:
        query.awaitTermination()
    finally:
        query.stop()


def _writer(places: Places, family: Family, say: Progress) -> DataStreamWriter:
    landing = family_landing(family.name)
    # A query on a folder that is not there fails; the servers make it with their first file.
    places.landing.make_folder(landing)
    lines = (
        places.spark.readStream.schema(file_schema(family))
        .options(**line_options(family))
        .option("pathGlobFilter", PATH_GLOB)
        .option("maxFilesPerTrigger", FILES_PER_BATCH_MAX)
        .option("maxFileAge", FILE_AGE_MAX)
        .json(places.landing.uri(landing))
    )
    writer = _with_origin(lines).writeStream.queryName(f"ingest-{family.name}")
    writer = writer.option("checkpointLocation", places.stored.uri(checkpoint(family)))
    return writer.foreachBatch(_batch(places, family, say))


def _with_origin(lines: DataFrame) -> DataFrame:
    """Add which file each line is of, and its hour."""
    path = F.col("_metadata.file_path")
    return lines.withColumns(
        {
            "date": F.regexp_extract(path, _HOUR_OF_PATH, 1),
            "hour": F.regexp_extract(path, _HOUR_OF_PATH, 2),
            "file": F.col("_metadata.file_name"),
            "_size": F.col("_metadata.file_size"),
            "_modified_ms": F.unix_millis("_metadata.file_modification_time"),
        }
    )


def _batch(places: Places, family: Family, say: Progress) -> Callable[[DataFrame, int], None]:
    """Return what is done with each micro-batch."""

    def take(lines: DataFrame, _number: int) -> None:
        # A stream has a session of its own.
        own = places._replace(spark=lines.sparkSession)
        lines.persist()
        try:
            with places.stored.writing(STORED_HISTORY):
                done = _take(own, family, lines)
        finally:
            lines.unpersist()
        if done.files:
            say(f"{family.name}: {done}")

    return take


def _take(places: Places, family: Family, lines: DataFrame) -> Ingested:
    days = load_days(places.stored, family.name)
    sweep(places.stored, family, days)
    files = lines.select("date", "hour", "file", "_size", "_modified_ms").distinct().collect()
    came: dict[tuple[str, str], set[LandedFile]] = {}
    for row in files:
        day = days.get(row.date, Day())
        known = day.hours[row.hour].files if row.hour in day.hours else ()
        file = LandedFile(row.file, row["_size"], row["_modified_ms"])
        if row.date and not day.deleted and file not in known:
            came.setdefault((row.date, row.hour), set()).add(file)
    if not came:
        return Ingested()
    work = [HourWork(date, hour, How.ADD, tuple(sorted(new))) for (date, hour), new in sorted(came.items())]
    named = {(each.date, each.hour, file.name) for each in work for file in each.files}
    return absorb(places, family, lines.where(_is_one_of(named)), work)


def _is_one_of(named: set[tuple[str, str, str]]) -> Column:
    keys = ["/".join(each) for each in sorted(named)]
    return F.concat_ws("/", "date", "hour", "file").isin(keys)
