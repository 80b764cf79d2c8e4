"""Reads and writes the rows of the history as Parquet, by the manifests that say which files count."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from analytics.job import Span
from analytics.lines import hour_facts
from analytics.manifest import WHOLE_DAY, Days, family_folder, strays
from analytics.schemas import row_schema
from analytics.storage import Storage
from history.schemas import Family

#: A landing file may hold rows of the hour after its own.
_SPILL = timedelta(hours=1)


def rows_of(spark: SparkSession, storage: Storage, family: Family, paths: Iterable[str]) -> DataFrame:
    """Return the rows of Parquet files; columns that came later than a file are null."""
    schema = row_schema(family)
    uris = [storage.uri(path) for path in paths]
    return spark.read.schema(schema).parquet(*uris) if uris else spark.createDataFrame([], schema)


def paths_of(days: Days, span: Span) -> list[str]:
    """Return the files that may hold rows of a span."""
    first = _hour_at(span.start_us) - _SPILL
    end = datetime.fromtimestamp(span.end_us / 1e6, UTC)
    paths: list[str] = []
    for date, day in days.items():
        if not f"{first:%Y-%m-%d}" <= date <= f"{end:%Y-%m-%d}":
            continue
        for unit, files in sorted(day.stored.items()):
            if unit == WHOLE_DAY or first <= datetime.fromisoformat(f"{date}T{unit}:00:00+00:00") < end:
                paths.extend(files)
    return paths


def _hour_at(moment_us: int) -> datetime:
    return datetime.fromtimestamp(moment_us / 1e6, UTC).replace(minute=0, second=0, microsecond=0)


def write_hours(rows: DataFrame, storage: Storage, family: Family) -> None:
    """Add files to the hours that rows belong to; no manifest names them yet."""
    rows.write.partitionBy("date", "hour").mode("append").parquet(storage.uri(family_folder(family.name)))


def written(storage: Storage, family: Family, days: Days) -> dict[str, list[str]]:
    """Return the files that were written and that no manifest names yet, by `<date>/<hour>`."""
    found: dict[str, list[str]] = {}
    for path in strays(storage.files(family_folder(family.name)), days):
        date, hour = (part.partition("=")[2] for part in path.split("/")[-3:-1])
        found.setdefault(f"{date}/{hour}", []).append(path)
    return found


def facts_of(spark: SparkSession, storage: Storage, family: Family, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return rows and digest of the hours in Parquet files, by `<date>/<hour>`."""
    uris = [storage.uri(path) for path in paths]
    if not uris:
        return {}
    base = storage.uri(family_folder(family.name))
    rows = spark.read.schema("event_id string, date string, hour string").option("basePath", base).parquet(*uris)
    return {f"{row.date}/{row.hour}": (row.rows, row.digest) for row in hour_facts(rows).collect()}
