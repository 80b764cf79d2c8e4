"""Small tables of the history, written by hand: every column has a default, a test writes what it is about."""

import itertools

import pyarrow as pa
from synthetic.frames import frames

from analytics.shared.job import Span
from history.schemas import FAMILIES

#: Monday, 2026-03-02 00:00 UTC, Unix us.
MONDAY_US = 1_772_409_600_000_000
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US

_numbers = itertools.count()


def days(count, first=0):
    """The span of so many days, the first one a Monday."""
    return Span(MONDAY_US + first * DAY_US, MONDAY_US + (first + count) * DAY_US)


def row(event_type, at_us, **values):
    """One row; `at_us` counts from Monday."""
    return {
        "schema_version": 1,
        "event_id": f"hand-{next(_numbers):06d}",
        "event_type": event_type,
        "event_time": MONDAY_US + at_us,
        "ns_id": "ns-1",
        "boot_id": "ns-1-1",
        "cluster": "c",
        "source": "namesrv",
        **values,
    }


def tables(spark, **families):
    """Tables of all families; those that are not given are empty."""
    for family, rows in families.items():
        names = {column.name for column in FAMILIES[family].all_columns}
        strange = {name for row in rows for name in row} - names
        assert not strange, f"{family} has no columns {strange}"
    return frames(spark, families)


def found(job, inputs, span):
    """What a job publishes of these inputs, as dictionaries."""
    return published(job, [job.parts(inputs, span)], span)


def published(job, parts, span):
    """What a job publishes of these parts, which are stored in between, as the runner does it."""
    stored = pa.concat_tables([part.toArrow() for part in parts])
    frame = parts[0].sparkSession.createDataFrame(stored, parts[0].schema)
    result = job.result(frame, span)
    assert result.columns == ["cluster", *(column.name for column in job.columns)]
    return [row.asDict() for row in result.collect()]
