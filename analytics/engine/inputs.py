"""What an analysis gets for a span: the rows of the span, of the time just before it, and the last ones before that."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from threading import Lock
from types import MappingProxyType
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics.ingest.closing import KEYS, Closings, before_day, close_days, last_rows, rows_before
from analytics.ingest.curated import all_there, hours_of, paths_of, rows_in
from analytics.ingest.manifest import Days, load_days
from analytics.shared.days import DAY_US, HOUR_US, date_at
from analytics.shared.job import Job, Span
from analytics.spark.schemas import no_rows, row_schema
from analytics.spark.small import in_one_piece, session_for
from analytics.spark.storage import Storage
from history.columns import RowFamily
from history.schemas import FAMILIES

#: How much before a span its inputs begin.
LOOK_BACK_US: Final = HOUR_US

#: A snapshot counts for the day on which it ended: one of many topics may have begun well before midnight.
_LOOK_BACK_OF: Final[Mapping[str, int]] = MappingProxyType({"route_snapshot": 2 * HOUR_US})


class Stored(NamedTuple):
    """The stored history as it is when a run begins."""

    spark: SparkSession
    storage: Storage
    #: RowFamily -> its days.
    days: Mapping[str, Days]
    #: RowFamily -> the last rows of its days.
    closings: Mapping[str, Closings]
    #: What was read or made for one job and serves others, by family, or by analysis for its parts.
    tables: dict[tuple[str, Span], DataFrame]
    #: Family or analysis -> held by who makes its tables.
    making: Mapping[str, Lock]
    #: The history is small: it is read once, into memory.
    small: bool


def open_stored(spark: SparkSession, storage: Storage, jobs: Iterable[Job], span: Span) -> Stored:
    """Look at what these jobs read, and see to it that the days before and of a span have left their last rows."""
    families = sorted({name for job in jobs for name in job.inputs})
    days = {name: load_days(storage, name) for name in families}
    session = session_for(spark, sum(hour.rows for each in days.values() for hour in hours_of(each, span).values()))
    closings = {name: close_days(session, storage, FAMILIES[name], days[name], span) for name in families}
    return Stored(session, storage, days, closings, {}, defaultdict(Lock), session is not spark)


def inputs_of(stored: Stored, job: Job, span: Span) -> dict[str, DataFrame]:
    """Return what a job needs for its parts of a span."""
    return {name: _rows(stored, FAMILIES[name], span) for name in job.inputs}


def with_look_back(family: str, span: Span) -> Span:
    """Return the span with the time before it that its inputs have whole."""
    return Span(span.start_us - _LOOK_BACK_OF.get(family, LOOK_BACK_US), span.end_us)


def ingredients(stored: Stored, job: Job, span: Span) -> list[object]:
    """Return what changes whenever the inputs of a span do, as JSON takes it."""
    known: list[object] = []
    for name in job.inputs:
        hours = hours_of(stored.days[name], with_look_back(name, span))
        known.append([name, sorted((key, hour.rows, hour.digest) for key, hour in hours.items())])
        known.append(sorted((date, closing.digest) for date, closing in _before(stored, name, span).items()))
    return known


def rows_at_most(stored: Stored, job: Job, span: Span) -> int:
    """Return how many rows the hours of a span have; those at its ends may have some outside of it."""
    return sum(hour.rows for name in job.inputs for hour in hours_of(stored.days[name], span).values())


def is_known(stored: Stored, job: Job, span: Span) -> bool:
    """Return whether the rows of a span are all there still."""
    return all(all_there(stored.days[name], with_look_back(name, span)) for name in job.inputs)


def _rows(stored: Stored, family: RowFamily, span: Span) -> DataFrame:
    key = (family.name, span)
    with stored.making[family.name]:
        if key not in stored.tables:
            rows = _read(stored, family, span)
            if rows is None:
                rows = no_rows(stored.spark, row_schema(family))
            elif stored.small:
                rows = in_one_piece(rows)
            stored.tables[key] = rows
    return stored.tables[key]


def _read(stored: Stored, family: RowFamily, span: Span) -> DataFrame | None:
    """Return what an analysis gets of a family; None if nobody recorded any."""
    wide = with_look_back(family.name, span)
    days = stored.days[family.name]
    midnight_us = span.start_us // DAY_US * DAY_US
    closings = _before(stored, family.name, span)
    if not closings and not paths_of(days, wide._replace(start_us=min(midnight_us, wide.start_us))):
        return None
    rows = rows_in(stored.spark, stored.storage, family, days, wide)
    if family.name not in KEYS:
        return rows
    before = rows_before(stored.spark, stored.storage, family, closings)
    if midnight_us < wide.start_us:
        of_day = rows_in(stored.spark, stored.storage, family, days, Span(midnight_us, wide.start_us))
        before = before.unionByName(of_day)
    earlier = before.where(F.col("event_time") < F.timestamp_micros(F.lit(wide.start_us)))
    return rows.unionByName(last_rows(earlier, KEYS[family.name]))


def _before(stored: Stored, family: str, span: Span) -> Closings:
    return before_day(stored.closings.get(family, {}), date_at(span.start_us))
