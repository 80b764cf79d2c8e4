"""Runs analyses over a window: parts of its days, kept or made now, then one result that is published."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from analytics.engine.inputs import Stored, is_known, open_stored, rows_at_most
from analytics.engine.parts import keep_parts, make_parts, read_parts
from analytics.engine.publication import LatestRun, Made, publish
from analytics.ingest.ingest import STORED_HISTORY
from analytics.shared.days import date_at, is_whole_day, joined, spans_by_day
from analytics.shared.job import Job, Span
from analytics.spark.failures import FAILURES, Failures
from analytics.spark.progress import Progress, unix_us
from analytics.spark.storage import Storage

#: The lock of parts and results.
RESULTS: Final = "results"

#: While Spark plans one job it has time to compute another one.
JOBS_AT_ONCE: Final = 2


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
        with _at_once(spark) as pool:
            results = [pool.submit(run_job, stored, job, run) for job in jobs]
            for number, (job, result) in enumerate(zip(jobs, results, strict=True), 1):
                where = f"{number}/{len(jobs)} {job.id} {job.name}"
                with failures.collecting(job.id, message=f"{where}: failed"):
                    latest = result.result()
                    published.append(latest)
                    rows = f"{latest.row_count} rows of {latest.input_rows} recorded ones"
                    show(f"{where}: {rows} in {latest.duration_seconds:.1f} s")
    failures.raise_if_any()
    return published


@contextmanager
def _at_once(spark: SparkSession) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that run jobs; who is interrupted leaves at once, and does not wait for what Spark is at."""
    # Not by `with`, which waits however it is left.
    pool = ThreadPoolExecutor(JOBS_AT_ONCE)
    try:
        yield pool
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        # Who ends us may have ended Spark's Java with us.
        with suppress(*FAILURES):
            spark.sparkContext.cancelAllJobs()
        raise
    except BaseException:
        # The lock is ours until the last of them has ended.
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def run_job(stored: Stored, job: Job, run: Run) -> LatestRun:
    """Run one job and publish its result."""
    started_us = unix_us()
    gathered = _from_rows(stored, job, run.span) if run.raw else _from_parts(stored, job, run.span)
    # Kept, and cut from its plan: Spark would analyse all steps to the parts anew for each step of the result, which
    # took half the time of a run. A part that is lost with an executor fails this job, until its next run.
    parts = gathered.parts.localCheckpoint() if gathered.worth_keeping else gathered.parts
    made = Made(run.run_id, run.span, gathered.input_rows, gathered.days, started_us)
    return publish(stored.storage, job, job.result(parts, run.span), made)


class _Gathered(NamedTuple):
    parts: DataFrame
    input_rows: int
    days: int
    #: They come from rows: a result that looks at them twice must not make them twice.
    worth_keeping: bool


def _from_rows(stored: Stored, job: Job, span: Span) -> _Gathered:
    """Make the parts of a window from its rows: of days in a row at once, which Spark plans and compiles only once."""
    days = [day for day in spans_by_day(span) if rows_at_most(stored, job, day) and is_known(stored, job, day)]
    rows = sum(rows_at_most(stored, job, day) for day in days)
    return _Gathered(
        _united(stored, job, [make_parts(stored, job, each) for each in joined(days)]), rows, len(days), True
    )


def _from_parts(stored: Stored, job: Job, span: Span) -> _Gathered:
    """Take the kept parts of whole days, and make those of the days that are cut by the window's ends."""
    days = spans_by_day(span)
    kept = keep_parts(stored, job, filter(is_whole_day, days))
    whole = [kept[date_at(day.start_us)] for day in days if is_whole_day(day) and date_at(day.start_us) in kept]
    cut = [day for day in days if not is_whole_day(day)]
    from_rows = [_from_rows(stored, job, day) for day in cut]
    parts = [read_parts(stored.spark, stored.storage, job, whole), *(each.parts for each in from_rows)]
    return _Gathered(
        parts=_united(stored, job, parts),
        input_rows=sum(each.input_rows for each in whole) + sum(each.input_rows for each in from_rows),
        days=len(whole) + sum(each.days for each in from_rows),
        worth_keeping=any(each.days for each in from_rows),
    )


def _united(stored: Stored, job: Job, parts: Iterable[DataFrame]) -> DataFrame:
    together = read_parts(stored.spark, stored.storage, job, ())
    for each in parts:
        together = together.unionByName(each)
    return together
