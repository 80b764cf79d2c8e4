"""What each command of `rmq-analytics` does. Imported when the options are known to be good: Spark takes its time."""

import argparse
from collections.abc import Callable, Mapping
from functools import partial

from pyspark.sql import SparkSession

from analytics.cli.options import limits, periods, require_history, require_stored, settings, window
from analytics.cli.report import report
from analytics.cli.session import start_session
from analytics.engine.registry import MODULES, job_id, load_jobs
from analytics.engine.retention import delete_expired
from analytics.engine.runner import Run, run_jobs
from analytics.ingest.compaction import compact as compact_days
from analytics.ingest.ingest import Places
from analytics.ingest.ingest import ingest as ingest_landing
from analytics.ingest.landing import LANDING
from analytics.ingest.manifest import CURATED
from analytics.ingest.streaming import follow, take_what_is_there
from analytics.jobs import a02_heartbeat_gaps, a05_timeout_recommendation
from analytics.jobs.a12_capacity import JOB as CAPACITY
from analytics.jobs.a12_capacity import RESOURCES, with_limits
from analytics.shared.days import iso
from analytics.spark.failures import SomeFailed
from analytics.spark.progress import to_stderr, unix_us
from analytics.spark.small import is_small
from analytics.spark.storage import Storage, local_storage, open_storage
from history.schemas import FAMILIES


def ingest(options: argparse.Namespace) -> None:
    """Read all that has landed."""
    to_stderr(f"all families: {ingest_landing(_places(options), to_stderr)}")


def stream(options: argparse.Namespace) -> None:
    """Read what lands, as it lands."""
    places = _places(options)
    if options.once:
        take_what_is_there(places, FAMILIES.values(), to_stderr)
    else:
        follow(places, FAMILIES.values(), options.every, to_stderr)


def run(options: argparse.Namespace) -> None:
    """Run analyses; each is published as soon as it is done."""
    chosen = [job_id(given) for given in options.job]
    configured = {
        CAPACITY.id: with_limits(limits(options.limit, RESOURCES)),
        **{
            each.JOB.id: each.with_periods(periods(options.period))
            for each in (a02_heartbeat_gaps, a05_timeout_recommendation)
        },
    }
    now_us = unix_us()
    span = window(options.start, options.end, now_us)
    spark, stored = _opened(options, options.output or options.history, require_stored)
    jobs = [configured.get(job.id, job) for job in load_jobs(chosen or MODULES)]
    run_jobs(spark, stored, jobs, Run(iso(now_us), span, options.raw), to_stderr)


def update(options: argparse.Namespace) -> None:
    """Read all that has landed, run the analyses and write the report; raises SomeFailed at the end.

    Spark starts once, and what it has loaded and compiled for one step is there for the next.
    """
    options.output = options.output or options.history
    steps = {"ingest": ingest, "run": run, "report": report}
    _one_after_the_other({name: partial(step, options) for name, step in steps.items()})


def compact(options: argparse.Namespace) -> None:
    """Forget days that are old, then compact days that are over: what needs room comes after what makes it.

    Raises SomeFailed when both are done, if some days or families failed.
    """
    places = _places(options)
    steps = {"delete": delete_expired, "compact": compact_days}
    _one_after_the_other({name: partial(step, places, unix_us(), to_stderr) for name, step in steps.items()})


def _one_after_the_other(steps: Mapping[str, Callable[[], object]]) -> None:
    """Take all steps, whatever of those before failed; raises SomeFailed at the end."""
    why: dict[str, str] = {}
    for task, step in steps.items():
        try:
            step()
        except SomeFailed as failed:
            why |= {f"{task} {name}": reason for name, reason in failed.why.items()}
    if why:
        raise SomeFailed(why)


def _places(options: argparse.Namespace) -> Places:
    spark, landing = _opened(options, options.history, require_history)
    return Places(spark, landing, open_storage(options.output, spark) if options.output else landing)


def _opened(
    options: argparse.Namespace, root: str, require: Callable[[Storage, str], None]
) -> tuple[SparkSession, Storage]:
    """Start Spark and open a folder; an invalid local folder is refused before Spark starts."""
    here = local_storage(root)
    if here is not None:
        require(here, root)
    # What a stream will read is not there yet.
    ends = options.task.name != "stream"
    small = ends and here is not None and is_small(here.files(LANDING) + here.files(CURATED))
    spark = _spark(options, small=small)
    storage = here or open_storage(root, spark)
    require(storage, root)
    return spark, storage


def _spark(options: argparse.Namespace, *, small: bool) -> SparkSession:
    conf = settings(options.conf)
    if SparkSession.getActiveSession() is None:
        to_stderr(f"starting Spark on {options.master}")
    return start_session(options.master, conf, driver_memory=options.driver_memory, small=small)
