"""Ingest by Structured Streaming: reads each landing file as soon as it is sealed, instead of on request.

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

from analytics.ingest import ingest
from analytics.ingest.landing import BATCH_BYTES_MAX, PATH_GLOB, HourWork, How, family_landing
from analytics.ingest.manifest import Day, LandedFile, load_days
from analytics.spark.failures import Failures
from analytics.spark.progress import Progress
from history.columns import RowFamily
from history.schemas import COMPRESSED, SCHEMA_VERSION

#: Rises when a query changes so that it cannot go on from an older checkpoint.
CHECKPOINT_VERSION: Final = 1

#: Older files than this, seen from the newest one, are left to the batch ingest.
FILE_AGE_MAX: Final = "30d"

_HOUR_OF_PATH: Final = r"/date=(\d{4}-\d\d-\d\d)/hour=(\d\d)/[^/]*$"


def take_what_is_there(places: ingest.Places, families: Iterable[RowFamily], show: Progress) -> None:
    """Read all files that the checkpoints do not know yet, and return; raises SomeFailed at the end."""
    failures = Failures(show)
    for family in families:
        with failures.collecting(family.name, message=f"{family.name}: failed"):
            _wait(_writer(places, family, show).trigger(availableNow=True).start())
    failures.raise_if_any()


def follow(places: ingest.Places, families: Iterable[RowFamily], every_seconds: float, show: Progress) -> None:
    """Read files as they come, until a query fails or the process is to stop."""
    with ExitStack() as running:
        for family in families:
            query = _writer(places, family, show).trigger(processingTime=f"{every_seconds} seconds").start()
            running.callback(query.stop)
        places.spark.streams.awaitAnyTermination()


def checkpoint(family: RowFamily) -> str:
    """Return where a family's query keeps what it has taken."""
    return f"checkpoints/ingest-{family.name}/v{CHECKPOINT_VERSION}"


def _wait(query: StreamingQuery) -> None:
    try:
        query.awaitTermination()
    finally:
        query.stop()


def _writer(places: ingest.Places, family: RowFamily, show: Progress) -> DataStreamWriter:
    landing = family_landing(family.name)
    # A query on a folder that is not there fails; the servers make it with their first file.
    places.landing.make_folder(landing)
    lines = (
        places.spark.readStream.schema(ingest.file_schema(family))
        .options(**ingest.LINE_OPTIONS)
        .options(**_passed_over(family))
        .option("pathGlobFilter", PATH_GLOB)
        .option("maxBytesPerTrigger", BATCH_BYTES_MAX)
        .option("maxFileAge", FILE_AGE_MAX)
        .json(places.landing.uri(landing))
    )
    writer = _with_origin(lines).writeStream.queryName(f"ingest-{family.name}")
    writer = writer.option("checkpointLocation", places.stored.uri(checkpoint(family)))
    return writer.foreachBatch(_batch(places, family, show))


def _passed_over(family: RowFamily) -> dict[str, str]:
    """Return what must not end a query: it would begin again with the same files, and end again, for ever."""
    return {
        # A server whose disk is full deletes its oldest files.
        "ignoreMissingFiles": "true",
        # Of these the query only learns which files there are (see _take).
        "ignoreCorruptFiles": str(family.name in COMPRESSED).lower(),
    }


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


def _batch(places: ingest.Places, family: RowFamily, show: Progress) -> Callable[[DataFrame, int], None]:
    """Return what is done with each micro-batch."""
    newest = SCHEMA_VERSION

    def take(lines: DataFrame, _number: int) -> None:
        nonlocal newest
        # A stream has a session of its own.
        own = places._replace(spark=lines.sparkSession)
        lines.persist()
        try:
            with places.stored.writing(ingest.STORED_HISTORY):
                done = _take(own, family, lines)
        finally:
            lines.unpersist()
        if done.files:
            show(f"{family.name}: {done}")
        if done.schema_version > newest:
            newest = done.schema_version
            show(ingest.newer_rows(family, newest))

    return take


def _take(places: ingest.Places, family: RowFamily, lines: DataFrame) -> ingest.Ingested:
    days = load_days(places.stored, family.name)
    ingest.sweep(places.stored, family, days)
    files = lines.select("date", "hour", "file", "_size", "_modified_ms").distinct().collect()
    came: dict[tuple[str, str], set[LandedFile]] = {}
    passed_over = set()
    for row in files:
        day = days.get(row.date, Day())
        known = day.hours[row.hour].files if row.hour in day.hours else ()
        file = LandedFile(row.file, row["_size"], row["_modified_ms"])
        if row.date and not day.deleted and file not in known:
            came.setdefault((row.date, row.hour), set()).add(file)
        else:
            passed_over.add((row.date, row.hour, row.file))
    if not came:
        return ingest.Ingested()
    work = [HourWork(date, hour, How.ADD, tuple(sorted(new))) for (date, hour), new in sorted(came.items())]
    if family.name in COMPRESSED:
        # What the query has read ends in silence where a file is cut off.
        return ingest.ingest_batch(places, family, work)
    return ingest.absorb(places, family, lines.where(~_is_one_of(passed_over)) if passed_over else lines, work)


def _is_one_of(named: set[tuple[str, str, str]]) -> Column:
    keys = ["/".join(each) for each in sorted(named)]
    return F.concat_ws("/", "date", "hour", "file").isin(keys)
