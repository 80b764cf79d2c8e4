"""Reads and writes the rows of the history as Parquet, by the manifests that say which files count."""

from collections.abc import Iterable, Iterator
from typing import Final
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.ingest.lines import hour_facts
from analytics.ingest.manifest import WHOLE_DAY, Days, Hour, family_folder
from analytics.shared.days import DAY_US, HOUR_US, date_at, hour_at
from analytics.shared.job import Span
from analytics.spark.schemas import no_rows, row_schema
from analytics.spark.storage import Storage
from history.columns import RowFamily

#: What Hadoop's name of a file begins with.
_BASENAME: Final = "mapreduce.output.basename"

#: A landing file is in the folder of the hour of its first row, and may hold rows of the next one.
_SPILL_US: Final = HOUR_US


def rows_of(spark: SparkSession, storage: Storage, family: RowFamily, paths: Iterable[str]) -> DataFrame:
    """Return the rows of Parquet files; columns that came later than a file are null."""
    schema = row_schema(family)
    uris = [storage.uri(path) for path in paths]
    return spark.read.schema(schema).parquet(*uris) if uris else no_rows(spark, schema)


def rows_in(spark: SparkSession, storage: Storage, family: RowFamily, days: Days, span: Span) -> DataFrame:
    """Return the rows of a span."""
    rows = rows_of(spark, storage, family, paths_of(days, span))
    at = F.col("event_time")
    start, end = (F.timestamp_micros(F.lit(each)) for each in span)
    return rows.where((at >= start) & (at < end))


def paths_of(days: Days, span: Span) -> list[str]:
    """Return the files that may hold rows of a span."""
    wanted = set(_hours(span))
    dates = {hour[:10] for hour in wanted}
    return [
        path
        for date, day in days.items()
        if date in dates
        for unit, paths in sorted(day.stored.items())
        if unit == WHOLE_DAY or f"{date}/{unit}" in wanted
        for path in paths
    ]


def hours_of(days: Days, span: Span) -> dict[str, Hour]:
    """Return the hours that may hold rows of a span, by `<date>/<hour>`."""
    found = {}
    for name in _hours(span):
        date, _, hour = name.partition("/")
        if date in days and hour in days[date].hours:
            found[name] = days[date].hours[hour]
    return found


def _hours(span: Span) -> Iterator[str]:
    first = (span.start_us - _SPILL_US) // HOUR_US * HOUR_US
    return (hour_at(at_us) for at_us in range(first, span.end_us, HOUR_US))


def all_there(days: Days, span: Span) -> bool:
    """Return whether retention has deleted none of the days that a span needs."""
    first = span.start_us - _SPILL_US
    dates = {date_at(at_us) for at_us in (*range(first, span.end_us, DAY_US), span.end_us - 1)}
    return not any(days[date].deleted for date in dates if date in days)


def write_hours(rows: DataFrame, storage: Storage, family: RowFamily) -> dict[str, list[str]]:
    """Add files to the hours that rows belong to; return them by `<date>/<hour>`. No manifest names them yet."""
    found: dict[str, list[str]] = {}
    for path in append_table(rows, storage, family_folder(family.name), by=("date", "hour")):
        date, hour = (part.partition("=")[2] for part in path.split("/")[-3:-1])
        found.setdefault(f"{date}/{hour}", []).append(path)
    return found


def facts_of(
    spark: SparkSession, storage: Storage, family: RowFamily, paths: Iterable[str]
) -> dict[str, tuple[int, int]]:
    """Return rows and digest of the hours in Parquet files, by `<date>/<hour>`."""
    uris = [storage.uri(path) for path in paths]
    if not uris:
        return {}
    base = storage.uri(family_folder(family.name))
    rows = spark.read.schema("event_id string, date string, hour string").option("basePath", base).parquet(*uris)
    return {f"{row.date}/{row.hour}": (row.rows, row.digest) for row in hour_facts(rows).collect()}


def append_table(rows: DataFrame, storage: Storage, folder: str, by: Iterable[str] = ()) -> list[str]:
    """Write rows as Parquet files, in a folder below for each value of `by`; return their paths.

    The files have a name of this write's own: the Java of a killed process may go on writing for a moment, and its
    files must not count.
    """
    mark = f"part-{uuid4().hex}"
    writer = rows.write.mode("append").option(_BASENAME, mark)
    writer.partitionBy(*by).parquet(storage.uri(folder))
    return [file.path for file in storage.files(folder) if file.path.rpartition("/")[2].startswith(mark)]
