"""Brings what the servers wrote into the stored history, each event once, however often and in whatever order it runs.

New or changed landing files are found by the manifests. Their hours are made anew from all their landing files; where
some of those are gone by now, rows that are not there yet are added. Files are written first, then the manifest names
them, then what it named before is deleted: a crash in between leaves strays, which the next run sweeps away.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from analytics.curated import facts_of, rows_of, write_hours
from analytics.landing import HourWork, How, batches, by_hour, family_landing, landing_path, pieces, work_to_do
from analytics.lines import events, is_unreadable, not_in, once, unreadable
from analytics.manifest import (
    CORRUPT_LINES_KEPT,
    CorruptLine,
    Day,
    Days,
    Hour,
    family_folder,
    load_days,
    save_day,
    strays,
)
from analytics.progress import Progress
from analytics.schemas import CORRUPT, line_schema
from analytics.storage import Storage
from history.schemas import FAMILIES, Family

#: The lock of the stored history.
STORED_HISTORY: Final = "curated"


#: Families that servers write compressed.
COMPRESSED: Final = frozenset({"route_snapshot"})


class Ingested(NamedTuple):
    """What an ingest did."""

    hours: int = 0
    files: int = 0
    lines: int = 0
    rows: int = 0
    corrupt_lines: int = 0

    def plus(self, other: "Ingested") -> "Ingested":
        """Return both together."""
        return Ingested(*(mine + others for mine, others in zip(self, other, strict=True)))

    @property
    def duplicates(self) -> int:
        """Lines that told of an event once more."""
        return self.lines - self.corrupt_lines - self.rows

    def __str__(self) -> str:
        return (
            f"{self.hours} hours from {self.files} files: {self.rows} rows, "
            f"{self.duplicates} duplicates, {self.corrupt_lines} unreadable lines"
        )


class Places(NamedTuple):
    """Where an ingest reads and writes."""

    spark: SparkSession
    #: The history folder of the servers.
    landing: Storage
    #: Where the stored history and the results are; may be the same folder.
    stored: Storage


def ingest(places: Places, say: Progress, families: Iterable[Family] = tuple(FAMILIES.values())) -> Ingested:
    """Read all that has landed and was not read yet; running it again does nothing."""
    total = Ingested()
    with places.stored.writing(STORED_HISTORY):
        for family in families:
            done = ingest_family(places, family)
            if done.files:
                say(f"{family.name}: {done}")
            total = total.plus(done)
    return total


def ingest_family(places: Places, family: Family) -> Ingested:
    """Read what has landed of one family."""
    days = load_days(places.stored, family.name)
    sweep(places.stored, family, days)
    landed = by_hour(places.landing.files(family_landing(family.name)))
    total = Ingested()
    for batch in batches(work_to_do(landed, days)):
        lines = read_lines(places, family, batch)
        total = total.plus(absorb(places, family, lines, batch))
    return total


def sweep(stored: Storage, family: Family, days: Days) -> None:
    """Delete what interrupted runs have left."""
    folder = family_folder(family.name)
    stored.delete(f"{folder}/_temporary")
    for path in strays(stored.files(folder), days):
        stored.delete(path)


def read_lines(places: Places, family: Family, work: Iterable[HourWork]) -> DataFrame:
    """Return the lines of landing files: the family's columns, `_corrupt`, `file`, and the partition columns."""
    uris = [
        places.landing.uri(landing_path(family.name, hour.date, hour.hour, file.name))
        for hour in work
        for file in hour.files
    ]
    reader = (
        places.spark.read.schema(file_schema(family))
        .options(**line_options(family))
        .option("basePath", places.landing.uri(family_landing(family.name)))
    )
    return reader.json(uris).withColumn("file", F.col("_metadata.file_name"))


def file_schema(family: Family) -> StructType:
    """Return what is read from landing files: their lines, and the columns that their folders stand for."""
    return line_schema(family).add("date", "string").add("hour", "string")


def line_options(family: Family) -> dict[str, str]:
    """Return how lines of JSON are read, in batches and in streams."""
    return {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": CORRUPT,
        # A compressed file that is cut off would end the run; its readable lines are worth having. Elsewhere an error
        # of the disk must not pass for the end of a file.
        "ignoreCorruptFiles": str(family.name in COMPRESSED).lower(),
    }


def absorb(places: Places, family: Family, lines: DataFrame, work: Sequence[HourWork]) -> Ingested:
    """Write the rows of hours that are read in the same way, and make them count."""
    days = load_days(places.stored, family.name)
    seen = Observation()
    counted = lines.observe(seen, F.count(F.lit(1)).alias("lines"), F.count_if(is_unreadable()).alias("corrupt"))
    rows = events(counted, family)
    if work[0].how is How.ADD:
        rows = not_in(rows, _known_ids(places, family, days, work))
    paths = write_hours(once(rows, pieces(work)), places.stored, family)
    read = _read_of(places, family, paths, _corrupt(lines, family) if seen.get["corrupt"] else {})
    for date in sorted({hour.date for hour in work}):
        of_date = [hour for hour in work if hour.date == date]
        _make_count(places.stored, family, days.get(date, Day()), of_date, read)
    return Ingested(
        hours=len(work),
        files=sum(len(hour.files) for hour in work),
        lines=seen.get["lines"],
        rows=sum(each.rows for each in read.values()),
        corrupt_lines=seen.get["corrupt"],
    )


class _Read(NamedTuple):
    """What reading one hour brought."""

    paths: list[str]
    rows: int
    digest: int
    corrupt_lines: int
    corrupt: tuple[CorruptLine, ...]


_NOTHING: Final = _Read([], 0, 0, 0, ())


def _known_ids(places: Places, family: Family, days: Days, work: Iterable[HourWork]) -> DataFrame:
    """Return the ids of the events that the days in question have already."""
    paths = [path for date in {hour.date for hour in work} if date in days for path in days[date].parquet_files]
    return rows_of(places.spark, places.stored, family, paths).select("event_id")


def _corrupt(lines: DataFrame, family: Family) -> dict[str, tuple[int, list[CorruptLine]]]:
    """Return how many lines of each hour cannot be read, and some of them, by `<date>/<hour>`."""
    found: dict[str, tuple[int, list[CorruptLine]]] = {}
    for row in unreadable(lines, family, CORRUPT_LINES_KEPT).collect():
        _, kept = found.setdefault(f"{row.date}/{row.hour}", (row["count"], []))
        kept.append(CorruptLine(row.file, row.line))
    return found


def _read_of(
    places: Places,
    family: Family,
    paths: Mapping[str, list[str]],
    corrupt: Mapping[str, tuple[int, list[CorruptLine]]],
) -> dict[str, _Read]:
    """Return what was read, by `<date>/<hour>`, as it is found in the files just written."""
    facts = facts_of(places.spark, places.stored, family, [path for each in paths.values() for path in each])
    read = {}
    for key in {*paths, *corrupt}:
        rows, digest = facts.get(key, (0, 0))
        count, kept = corrupt.get(key, (0, []))
        read[key] = _Read(paths.get(key, []), rows, digest, count, tuple(sorted(kept)))
    return read


def _make_count(stored: Storage, family: Family, day: Day, work: Iterable[HourWork], read: Mapping[str, _Read]) -> None:
    """Let what was written for hours of one day count, and delete what it stands for."""
    hours: dict[str, Hour] = {}
    paths: dict[str, list[str]] = {}
    replaced: list[str] = []
    date = ""
    for each in work:
        date = each.date
        came = read.get(f"{date}/{each.hour}", _NOTHING)
        before = day.stored.get(each.hour, ())
        adding = each.how is How.ADD
        hours[each.hour] = _hour_after(day.hours.get(each.hour, Hour()) if adding else Hour(), each, came)
        paths[each.hour] = [*before, *came.paths] if adding else came.paths
        replaced += [] if adding else before
    save_day(stored, family.name, date, day.with_hours(hours, paths))
    for path in replaced:
        stored.delete(path)


def _hour_after(before: Hour, work: HourWork, came: _Read) -> Hour:
    read = {file.name for file in work.files}
    kept = (line for line in before.corrupt if line.file not in read)
    return Hour(
        files=tuple(sorted((*(file for file in before.files if file.name not in read), *work.files))),
        rows=before.rows + came.rows,
        digest=before.digest ^ came.digest,
        corrupt_lines=before.corrupt_lines + came.corrupt_lines,
        corrupt=(*kept, *came.corrupt)[:CORRUPT_LINES_KEPT],
    )
