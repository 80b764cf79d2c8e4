"""What each command of `rmq-analytics` does. Imported when the options are known to be good: Spark takes its time."""

import argparse

from pyspark.sql import SparkSession

from analytics.compaction import compact as compact_days
from analytics.ingest import Places
from analytics.ingest import ingest as ingest_landing
from analytics.jobs import job_id, load_jobs
from analytics.options import require_history, require_output, settings, window
from analytics.progress import to_stderr, unix_us
from analytics.retention import forget
from analytics.runner import Run, run_id_at, run_jobs
from analytics.session import SparkOptions, start_session
from analytics.storage import open_storage
from analytics.streaming import follow, take_what_is_there
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
    chosen = [job_id(asked) for asked in options.job]
    now_us = unix_us()
    span = window(options.start, options.end, now_us)
    output = options.output or options.history
    require_output(output)
    spark = _spark(options)
    jobs = load_jobs(chosen) if chosen else load_jobs()
    run_jobs(spark, open_storage(output, spark), jobs, Run(run_id_at(now_us), span, options.raw), to_stderr)


def compact(options: argparse.Namespace) -> None:
    """Compact days that are over, then forget days that are old."""
    places = _places(options)
    compact_days(places, unix_us(), to_stderr)
    forget(places, unix_us(), to_stderr)


def _places(options: argparse.Namespace) -> Places:
    require_history(options.history)
    spark = _spark(options)
    landing = open_storage(options.history, spark)
    return Places(spark, landing, open_storage(options.output, spark) if options.output else landing)


def _spark(options: argparse.Namespace) -> SparkSession:
    to_stderr(f"starting Spark on {options.master}")
    return start_session(
        SparkOptions(master=options.master, driver_memory=options.driver_memory, conf=settings(options.conf))
    )
