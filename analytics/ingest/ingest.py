"""Brings what the servers wrote into the stored history, however often and in whatever order it runs.

An event is stored once per hour of landing, whichever files of that hour bring it; a server writes it into one hour.
New or changed landing files are found by the manifests. Their hours are made anew from all their landing files; where
some of those are gone by now, rows that are not there yet are added. Files are written first, then the manifest names
them, then what it named before is deleted: a crash in between leaves strays, which the next run sweeps away.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from analytics.ingest import manifest
from analytics.ingest.curated import facts_of, rows_of, write_hours
from analytics.ingest.landing import (
    LINE_BYTES_LEAST,
    HourWork,
    How,
    LandedHours,
    batches,
    by_hour,
    family_landing,
    landing_path,
    pieces,
    unpacks,
    work_to_do,
)
from analytics.ingest.lines import events, is_unreadable, not_in, once, unreadable
from analytics.spark.failures import SPARK_FAILURES, Failures
from analytics.spark.progress import Progress
from analytics.spark.schemas import CORRUPT, line_schema
from analytics.spark.small import session_for
from analytics.spark.storage import Storage
from analytics.spark.threads import at_once
from history.columns import RowFamily
from history.schemas import FAMILIES, SCHEMA_VERSION

#: The lock of the stored history.
STORED_HISTORY: Final = "curated"

#: What stands for the lines that a compressed file has no more.
CUT_OFF: Final = "cut off"

#: How lines of JSON are read.
LINE_OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "ignoreCorruptFiles": "false"}
)

#: A landing file: its day, its hour and its name.
_File = tuple[str, str, str]


class Ingested(NamedTuple):
    """What an ingest did."""

    hours: int = 0
    files: int = 0
    lines: int = 0
    rows: int = 0
    corrupt_lines: int = 0
    #: The newest version of the shapes among the rows.
    schema_version: int = 0

    def plus(self, other: "Ingested") -> "Ingested":
        """Return both together."""
        sums = (mine + others for mine, others in zip(self[:-1], other[:-1], strict=True))
        return Ingested(*sums)._replace(schema_version=max(self.schema_version, other.schema_version))

    @property
    def duplicates(self) -> int:
        """Lines that repeat an event."""
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


def ingest(places: Places, show: Progress, families: Iterable[RowFamily] = tuple(FAMILIES.values())) -> Ingested:
    """Read all that has landed and was not read yet; running it again does nothing.

    A family that cannot be read keeps none of the others waiting; raises SomeFailed at the end.
    """
    total = Ingested()
    failures = Failures(show)
    with places.stored.writing(STORED_HISTORY), at_once(places.spark) as pool:
        results = [(family, pool.submit(ingest_family, places, family)) for family in families]
        for family, result in results:
            done = Ingested()
            with failures.collecting(family.name, message=f"{family.name}: failed"):
                done = result.result()
            if done.files:
                show(f"{family.name}: {done}")
            if done.schema_version > SCHEMA_VERSION:
                show(newer_rows(family, done.schema_version))
            total = total.plus(done)
    failures.raise_if_any()
    return total


def newer_rows(family: RowFamily, version: int) -> str:
    """Return the warning about rows that may have columns which are not known here, and so are not stored."""
    return f"{family.name}: rows of schema version {version}, newer than {SCHEMA_VERSION}: upgrade rmq-analytics"


def ingest_family(places: Places, family: RowFamily) -> Ingested:
    """Read what has landed of one family; raises one of FAILURES."""
    days = manifest.load_days(places.stored, family.name)
    sweep(places.stored, family, days)
    total = Ingested()
    for batch in batches(work_to_do(_landed(places, family), days)):
        here = places._replace(spark=session_for(places.spark, sum(hour.size for hour in batch) // LINE_BYTES_LEAST))
        total = total.plus(ingest_batch(here, family, batch))
    return total


def _landed(places: Places, family: RowFamily) -> LandedHours:
    return by_hour(places.landing.files(family_landing(family.name)))


def ingest_batch(places: Places, family: RowFamily, batch: Sequence[HourWork]) -> Ingested:
    """Read hours of a listing; where files of it are gone by now, what is left of them."""
    try:
        return _absorb_files(places, family, batch)
    except SPARK_FAILURES:
        landed = _landed(places, family)
        present = {(date, hour, file.name) for (date, hour), files in landed.items() for file in files}
        if present.issuperset(_files(batch)):
            raise
    # A server whose disk is full deletes its oldest files, whoever is about to read them.
    days = manifest.load_days(places.stored, family.name)
    sweep(places.stored, family, days)
    hours = {(each.date, each.hour) for each in batch}
    total = Ingested()
    for again in batches(work_to_do({hour: landed[hour] for hour in hours & landed.keys()}, days)):
        total = total.plus(_absorb_files(places, family, again))
    return total


def sweep(stored: Storage, family: RowFamily, days: manifest.Days) -> None:
    """Delete what interrupted runs have left; raises ManifestMissing where nothing says what else there is."""
    manifest.prepare_manifests(stored, family.name)
    folder = manifest.family_folder(family.name)
    stored.delete(f"{folder}/_temporary")
    for path in manifest.strays(stored.files(folder), days):
        stored.delete(path)


def _absorb_files(places: Places, family: RowFamily, work: Sequence[HourWork]) -> Ingested:
    """Read the landing files of hours, and make their rows count.

    What is readable of a compressed file that is cut off is worth having; an error of the disk is no end of a file.
    """
    files = _files(work)
    try:
        return absorb(places, family, read_lines(places, family, files), work)
    except SPARK_FAILURES:
        cut_off = _cut_off(places, family, files)
        if not cut_off:
            raise
    lines = read_lines(places, family, cut_off, ignoreCorruptFiles="true")
    if whole := [file for file in files if file not in cut_off]:
        lines = lines.unionByName(read_lines(places, family, whole))
    return absorb(places, family, lines, work, cut_off)


def _files(work: Iterable[HourWork]) -> list[_File]:
    return [(hour.date, hour.hour, file.name) for hour in work for file in hour.files]


def _cut_off(places: Places, family: RowFamily, files: Iterable[_File]) -> list[_File]:
    """Return the compressed files that do not unpack."""
    compressed = [file for file in files if file[-1].endswith(".gz")]
    contents = ((file, places.landing.read(landing_path(family.name, *file))) for file in compressed)
    return [file for file, content in contents if content is not None and not unpacks(content)]


def read_lines(places: Places, family: RowFamily, files: Iterable[_File], **options: str) -> DataFrame:
    """Return the lines of landing files: the family's columns, `_corrupt`, `file`, and the partition columns."""
    uris = [places.landing.uri(landing_path(family.name, *file)) for file in files]
    reader = (
        places.spark.read.schema(file_schema(family))
        .options(**{**LINE_OPTIONS, **options})
        .option("basePath", places.landing.uri(family_landing(family.name)))
    )
    return reader.json(uris).withColumn("file", F.col("_metadata.file_name"))


def file_schema(family: RowFamily) -> StructType:
    """Return what is read from landing files: their lines, and the columns that their folders stand for."""
    return line_schema(family).add("date", "string").add("hour", "string")


def absorb(
    places: Places, family: RowFamily, lines: DataFrame, work: Sequence[HourWork], cut_off: Collection[_File] = ()
) -> Ingested:
    """Write the rows of hours that are read in the same way, and make them count.

    A file that is cut off stands for one more line that cannot be read.
    """
    days = manifest.load_days(places.stored, family.name)
    observation = Observation()
    rows = events(lines.observe(observation, *_counts()), family)
    if work[0].how is How.ADD:
        rows = not_in(rows, _known_ids(places, family, days, work))
    paths = write_hours(once(rows, pieces(work)), places.stored, family)
    seen, corrupt = _seen(observation, lines, family)
    read = _read_of(places, family, paths, _with_cut_off(corrupt, cut_off))
    for date in sorted({hour.date for hour in work}):
        of_date = [hour for hour in work if hour.date == date]
        _make_count(places.stored, family, days.get(date, manifest.Day()), of_date, read)
    return Ingested(
        hours=len(work),
        files=len(_files(work)),
        lines=seen["lines"] + len(cut_off),
        rows=sum(each.rows for each in read.values()),
        corrupt_lines=seen["corrupt"] + len(cut_off),
        schema_version=seen["newest"] or 0,
    )


def _counts() -> list[Column]:
    return [
        F.count(F.lit(1)).alias("lines"),
        F.count_if(is_unreadable()).alias("corrupt"),
        F.max(F.when(~is_unreadable(), F.col("schema_version"))).alias("newest"),
    ]


#: `<date>/<hour>` -> how many lines of it cannot be read, and some of them.
_Corrupt = Mapping[str, tuple[int, list[manifest.CorruptLine]]]


def _seen(observation: Observation, lines: DataFrame, family: RowFamily) -> tuple[dict[str, Any], _Corrupt]:
    """Return what an observation has counted, and the lines that cannot be read."""
    try:
        counts = observation.get
    except SPARK_FAILURES:
        # Spark leaves out what turns out to be empty while it works, and what would have counted with it.
        return _counted(lines, family)
    return counts, _corrupt(lines, family) if counts["corrupt"] else {}


def _counted(lines: DataFrame, family: RowFamily) -> tuple[dict[str, Any], _Corrupt]:
    """Return the counts of lines, and those that cannot be read, with one reading of the files."""
    kept = lines.persist()
    try:
        (counts,) = kept.agg(*_counts()).collect()
        return counts.asDict(), _corrupt(kept, family) if counts["corrupt"] else {}
    finally:
        kept.unpersist()


class _Read(NamedTuple):
    paths: list[str]
    rows: int
    digest: int
    corrupt_lines: int
    corrupt: tuple[manifest.CorruptLine, ...]


_NOTHING: Final = _Read([], 0, 0, 0, ())


def _known_ids(places: Places, family: RowFamily, days: manifest.Days, work: Iterable[HourWork]) -> DataFrame:
    """Return the ids of the events that the hours in question have already; of a compacted day, those of all of it."""
    units = {(each.date, unit) for each in work for unit in (each.hour, manifest.WHOLE_DAY)}
    paths = [path for date, unit in sorted(units) if date in days for path in days[date].stored.get(unit, ())]
    return rows_of(places.spark, places.stored, family, paths).select("event_id")


def _corrupt(lines: DataFrame, family: RowFamily) -> _Corrupt:
    found: dict[str, tuple[int, list[manifest.CorruptLine]]] = {}
    for row in unreadable(lines, family, manifest.CORRUPT_LINES_KEPT).collect():
        _, kept = found.setdefault(f"{row.date}/{row.hour}", (row["count"], []))
        kept.append(manifest.CorruptLine(row.file, row.line))
    return found


def _with_cut_off(corrupt: _Corrupt, files: Iterable[_File]) -> _Corrupt:
    found = dict(corrupt)
    for date, hour, name in files:
        count, kept = found.get(f"{date}/{hour}", (0, []))
        found[f"{date}/{hour}"] = (count + 1, [*kept, manifest.CorruptLine(name, CUT_OFF)])
    return found


def _read_of(places: Places, family: RowFamily, paths: Mapping[str, list[str]], corrupt: _Corrupt) -> dict[str, _Read]:
    """Return what was read, by `<date>/<hour>`, as it is found in the files just written."""
    facts = facts_of(places.spark, places.stored, family, [path for each in paths.values() for path in each])
    read = {}
    for key in {*paths, *corrupt}:
        rows, digest = facts.get(key, (0, 0))
        count, kept = corrupt.get(key, (0, []))
        read[key] = _Read(paths.get(key, []), rows, digest, count, tuple(sorted(kept)))
    return read


def _make_count(
    stored: Storage, family: RowFamily, day: manifest.Day, work: Iterable[HourWork], read: Mapping[str, _Read]
) -> None:
    """Let what was written for hours of one day count, and delete what it stands for."""
    hours: dict[str, manifest.Hour] = {}
    paths: dict[str, list[str]] = {}
    replaced: list[str] = []
    date = ""
    for each in work:
        date = each.date
        came = read.get(f"{date}/{each.hour}", _NOTHING)
        before = day.stored.get(each.hour, ())
        adding = each.how is How.ADD
        hours[each.hour] = _hour_after(
            day.hours.get(each.hour, manifest.Hour()) if adding else manifest.Hour(), each, came
        )
        paths[each.hour] = [*before, *came.paths] if adding else came.paths
        replaced += [] if adding else before
    manifest.save_day(stored, family.name, date, day.with_hours(hours, paths))
    for path in replaced:
        stored.delete(path)


def _hour_after(before: manifest.Hour, work: HourWork, came: _Read) -> manifest.Hour:
    read = {file.name for file in work.files}
    kept = [line for line in before.corrupt if line.file not in read]
    return manifest.Hour(
        files=tuple(sorted((*(file for file in before.files if file.name not in read), *work.files))),
        rows=before.rows + came.rows,
        digest=before.digest ^ came.digest,
        corrupt_lines=before.corrupt_lines - (len(before.corrupt) - len(kept)) + came.corrupt_lines,
        corrupt=(*kept, *came.corrupt)[: manifest.CORRUPT_LINES_KEPT],
    )
