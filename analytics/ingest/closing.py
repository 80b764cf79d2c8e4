"""How each day ended: the last rows of each broker, topic or server, which the analyses of later days begin with.

A broker that registered a week ago and has not changed since has one row, of that day. So that nobody has to
read a week for it, each day leaves its last rows in a small table. They are additive: what was known at a midnight
are the last rows of the tables of all days before.
"""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.ingest.curated import append_table, rows_of
from analytics.ingest.kept_days import KeptDay, KeptDays
from analytics.ingest.manifest import Day, Days
from analytics.shared.days import date_at, earlier
from analytics.shared.job import Span
from analytics.spark.schemas import row_schema
from analytics.spark.storage import Storage
from history.columns import RowFamily

#: Family -> columns by which its last rows are kept: a row that describes a state until the next one comes. Of other
#: families an analysis needs no more than the hours before.
KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "heartbeat": ("ns_id", "cluster", "broker_name", "broker_id", "event_type"),
        "broker_state": ("ns_id", "cluster", "broker_name", "broker_id", "event_type"),
        "role_address": ("ns_id", "cluster", "broker_name", "role_address", "event_type"),
        # One operation of a topic runs at a time.
        "scaling": ("topic",),
        # The reason names what is missing when recording resumes.
        "ns_lifecycle": ("ns_id", "event_type", "reason"),
    }
)

#: Older last rows are forgotten.
REMEMBERED_DAYS: Final = 30

CLOSING: Final = "closing/v1"


class Closing(KeptDay, frozen=True, kw_only=True):
    """The last rows of one family on one day."""

    #: What the day was made of when they were taken.
    of: str
    #: Changes with the rows, and only then.
    digest: int


#: Day -> its last rows.
Closings = Mapping[str, Closing]


def closings_of(storage: Storage, family: RowFamily) -> KeptDays[Closing]:
    """Return where the last rows of a family are kept."""
    return KeptDays(storage, dict[str, Closing], CLOSING, "family", family.name)


def last_rows(rows: DataFrame, keys: Iterable[str]) -> DataFrame:
    """Return the last row of each key; of rows of the same moment the one with the greatest event id."""
    keys = list(keys)
    latest = rows.groupBy(*keys).agg(F.max("event_time").alias("_latest"))
    # Few keys, many rows: the first pass keeps a number for each key, the second one passes few rows on.
    mine = [F.col(f"r.{key}").eqNullSafe(F.col(f"k.{key}")) for key in keys]
    at_latest = rows.alias("r").join(
        F.broadcast(latest).alias("k"), on=[*mine, F.col("r.event_time") == F.col("k._latest")], how="left_semi"
    )
    whole = F.struct(*rows.columns)
    return at_latest.groupBy(*keys).agg(F.max_by(whole, "event_id").alias("_row")).select("_row.*")


def close_days(spark: SparkSession, storage: Storage, family: RowFamily, days: Days, span: Span) -> Closings:
    """Take the last rows of the days that a span may have to know of, where that was not done or they have changed.

    Return those of all these days.
    """
    if family.name not in KEYS:
        return {}
    known = closings_of(storage, family).load()
    first, last = earlier(date_at(span.start_us), REMEMBERED_DAYS), date_at(span.end_us - 1)
    there = [date for date, day in days.items() if first <= date < last and not day.deleted]
    stale = [date for date in there if date not in known or known[date].of != _of(family, days[date])]
    if stale:
        known = _close(spark, storage, family, {date: days[date] for date in stale}, known)
    return {date: known[date] for date in sorted(known) if first <= date < last}


def before_day(closings: Closings, date: str) -> Closings:
    """Return the last rows of the days that a day remembers."""
    first = earlier(date, REMEMBERED_DAYS)
    return {each: closing for each, closing in closings.items() if first <= each < date}


def rows_before(spark: SparkSession, storage: Storage, family: RowFamily, closings: Closings) -> DataFrame:
    """Return the last rows of all these days."""
    return rows_of(spark, storage, family, [path for closing in closings.values() for path in closing.paths])


def _close(
    spark: SparkSession, storage: Storage, family: RowFamily, days: Days, known: Mapping[str, Closing]
) -> dict[str, Closing]:
    """Write the last rows of some days in one go."""
    kept = closings_of(storage, family)
    kept.sweep(known)
    tables = [
        rows_of(spark, storage, family, day.parquet_files).withColumn("date", F.lit(date)) for date, day in days.items()
    ]
    every = tables[0]
    for table in tables[1:]:
        every = every.unionByName(table)
    # By the row's own day too: a file of 23:59 has rows of the next day, and those must not hide this day's last.
    ended = last_rows(
        every.withColumn("_own_day", F.unix_date(F.to_date("event_time"))), (*KEYS[family.name], "date", "_own_day")
    )
    fresh = append_table(ended.drop("_own_day").repartition("date"), storage, kept.folder, by=("date",))
    digests = _digests(spark, storage, family, kept.folder, fresh)
    made = {
        date: Closing(
            of=_of(family, day),
            digest=digests.get(date, 0),
            paths=tuple(path for path in fresh if f"/date={date}/" in path),
        )
        for date, day in days.items()
    }
    after = {**known, **made}
    kept.save(after)
    for date in made.keys() & known.keys():
        for path in known[date].paths:
            storage.delete(path)
    return after


def _digests(
    spark: SparkSession, storage: Storage, family: RowFamily, folder: str, paths: Iterable[str]
) -> dict[str, int]:
    uris = [storage.uri(path) for path in paths]
    if not uris:
        return {}
    schema = row_schema(family).add("date", "string")
    rows = spark.read.schema(schema).option("basePath", storage.uri(folder)).parquet(*uris)
    digest = F.bit_xor(F.xxhash64(*row_schema(family).fieldNames())).alias("digest")
    return {row.date: row.digest for row in rows.groupBy("date").agg(digest).collect()}


def _of(family: RowFamily, day: Day) -> str:
    """Return what changes with the rows of a day or with the keys whose last ones are kept, and only then."""
    hours = sorted((name, hour.rows, hour.digest) for name, hour in day.hours.items())
    return json.dumps([KEYS[family.name], hours])
