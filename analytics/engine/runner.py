"""Runs analyses over a window: parts of its days, kept or made now, then one result that is published."""

from collections.abc import Iterable
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from analytics.engine.inputs import Stored, is_known, open_stored, rows_at_most
from analytics.engine.parts import keep_parts, make_parts, read_parts
from analytics.engine.publication import LatestRun, Made, publish, result_columns
from analytics.ingest.ingest import STORED_HISTORY
from analytics.shared.days import date_at, is_whole_day, joined, spans_by_day
from analytics.shared.job import Job, Span
from analytics.spark.failures import Failures
from analytics.spark.progress import Progress, unix_us
from analytics.spark.schemas import no_rows, struct_of
from analytics.spark.storage import Storage
from analytics.spark.threads import at_once

#: The lock of parts and results.
RESULTS: Final = "results"


class Run(NamedTuple):
    """What is to be run."""

    #: Later runs have greater ones.
    run_id: str
    span: Span
    #: Make all parts from rows, and leave those that are kept alone.
    raw: bool = False


def run_jobs(spark: SparkSession, storage: Storage, jobs: Iterable[Job], run: Run, show: Progress) -> list[LatestRun]:
    """Run these jobs; return what was published, in their order.

    Raises SomeFailed at the end if some of them failed; the others are published.
    """
    jobs = tuple(jobs)
    published: list[LatestRun] = []
    failures = Failures(show)
    with storage.writing(RESULTS), storage.reading(STORED_HISTORY):
        stored = open_stored(spark, storage, jobs, run.span)
        with at_once(spark) as pool:
            # Those that share the parts of others come last, when these are there.
            in_turn = sorted(jobs, key=lambda job: bool(job.parts_id))
            submitted = {job.id: pool.submit(run_job, stored, job, run) for job in in_turn}
            for number, job in enumerate(jobs, 1):
                where = f"{number}/{len(jobs)} {job.id} {job.name}"
                with failures.collecting(job.id, message=f"{where}: failed"):
                    latest = submitted[job.id].result()
                    published.append(latest)
                    rows = f"{latest.row_count} rows of {latest.input_rows} recorded ones"
                    show(f"{where}: {rows} in {latest.duration_seconds:.1f} s")
    failures.raise_if_any()
    return published


def run_job(stored: Stored, job: Job, run: Run) -> LatestRun:
    """Run one job and publish its result."""
    started_us = unix_us()
    gathered = _from_rows(stored, job, run.span) if run.raw else _from_parts(stored, job, run.span)
    made = Made(run.run_id, run.span, gathered.input_rows, gathered.days, started_us)
    if gathered.parts:
        result = job.result(reduce(DataFrame.unionByName, gathered.parts), run.span)
    else:
        result = no_rows(stored.spark, struct_of(result_columns(job)))
    return publish(stored.storage, job, result, made)


class _Gathered(NamedTuple):
    parts: list[DataFrame]
    input_rows: int
    days: int


def _from_rows(stored: Stored, job: Job, span: Span) -> _Gathered:
    """Make the parts of a window from its rows: of days in a row at once, which Spark plans and compiles only once."""
    days = [day for day in spans_by_day(span) if rows_at_most(stored, job, day) and is_known(stored, job, day)]
    rows = sum(rows_at_most(stored, job, day) for day in days)
    return _Gathered([make_parts(stored, job, each) for each in joined(days)], rows, len(days))


def _from_parts(stored: Stored, job: Job, span: Span) -> _Gathered:
    """Take the kept parts of whole days, and make those of the days that are cut by the window's ends."""
    days = spans_by_day(span)
    kept = keep_parts(stored, job, filter(is_whole_day, days))
    whole = [kept[date_at(day.start_us)] for day in days if is_whole_day(day) and date_at(day.start_us) in kept]
    cut = [day for day in days if not is_whole_day(day)]
    from_rows = [_from_rows(stored, job, day) for day in cut]
    return _Gathered(
        parts=[*read_parts(stored, job, whole), *(made for each in from_rows for made in each.parts)],
        input_rows=sum(each.input_rows for each in whole) + sum(each.input_rows for each in from_rows),
        days=len(whole) + sum(each.days for each in from_rows),
    )
