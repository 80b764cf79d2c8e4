"""Measures ingest and analyses, and writes benchmarks/ANALYTICS.md.

    make bench-analytics      (or: PYTHONPATH=tests python benchmarks/analyses.py [options])

One day of 300 brokers, seen by three NameServers, goes the whole way: landing files of JSON, ingest, all analyses,
report. Thirty days of the same are written straight into the stored history: for A2 and A5 over all raw rows, for a
month's report of kept parts, and for how times grow with days and brokers. Times are those of the work; Spark's start
is told beside. About 30 minutes and 6 GB of disk on two cores.
"""

import argparse
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from synthetic.generator import Truth, record
from synthetic.landing import SEGMENT_US, line, moment
from synthetic.plan import Plan, Server, brokers
from synthetic.plants import flaps, joint_failure, renewal_outages, storm

from analytics.days import DAY_US, HOUR_US, date_at, span_of
from analytics.ingest import Places, ingest
from analytics.job import Job, Span
from analytics.jobs import load_jobs
from analytics.manifest import WHOLE_DAY, Day, Hour, save_day, unit_folder
from analytics.publish import Latest
from analytics.runner import Run, run_jobs
from analytics.session import SparkOptions, start_session
from analytics.storage import LocalStorage
from history.schemas import FAMILIES

#: What the issue asks for, on two cores.
DAY_SECONDS_MAX = 120
REPORT_SECONDS_MAX = 30
RAW_SECONDS_MAX = 240
MEMORY_GIB_MAX = 6

SERVERS = 3
BEATS_A_DAY = 2880
FIRST_DAY = "2026-03-02"


class Measured(NamedTuple):
    """One line of a table."""

    what: str
    rows: int
    seconds: float
    goal_seconds: float | None = None

    def text(self, cores: int) -> str:
        """Return it as a line of Markdown."""
        goal = "" if self.goal_seconds is None else ("reached" if self.seconds <= self.goal_seconds else "MISSED")
        limit = "" if self.goal_seconds is None else f"<= {self.goal_seconds:.0f} s"
        speed = f"{self.rows / self.seconds / cores:,.0f}"
        return f"| {self.what} | {self.rows:,} | {self.seconds:.1f} | {speed} | {limit} | {goal} |"


class Bench:
    """Takes times, and tells of them as they come."""

    def __init__(self, spark: SparkSession, cores: int) -> None:
        self.spark = spark
        self.cores = cores
        self.lines: list[str] = []

    def title(self, text: str) -> None:
        """Begin a table."""
        self.lines += [
            "",
            f"## {text}",
            "",
            "| what | recorded rows | s | rows/s/core | goal | |",
            "|---|---|---|---|---|---|",
        ]
        print(f"\n{text}", flush=True)

    def take(self, what: str, rows: int, work: Callable[[], object], goal_seconds: float | None = None) -> None:
        """Do some work once and note how long it took."""
        began = time.perf_counter()
        work()
        self.note(Measured(what, rows, time.perf_counter() - began, goal_seconds))

    def note(self, measured: Measured) -> None:
        """Add a line."""
        self.lines.append(measured.text(self.cores))
        print(measured.text(self.cores), flush=True)


def main() -> None:
    """Measure everything and write the page."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="bench-analytics-", dir=options.folder) as folder:
        began = time.perf_counter()
        spark = start_session(SparkOptions(master=f"local[{options.cores}]", driver_memory=options.driver_memory))
        spark.range(1).count()
        started = time.perf_counter() - began
        bench = Bench(spark, options.cores)
        root = Path(folder)
        one_day(bench, root / "day", options.brokers)
        many_days(bench, root / "month", options.brokers, options.days)
        many_brokers(bench, root / "large", options.brokers, options.large)
        _write(Path(options.file), bench, options, started)
        spark.stop()


def one_day(bench: Bench, root: Path, count: int) -> None:
    """Measure a day's ingest and all analyses, from JSON to results."""
    rows = land_a_day(root, count)
    storage = LocalStorage(root)
    bench.title(f"One day, {count} brokers, {SERVERS} NameServers, from JSON to results")
    began = time.perf_counter()
    work = partial(ingest, Places(bench.spark, storage, storage), print)
    bench.take("ingest", rows, work)
    bench.take("ingest once more: nothing to do", rows, work)
    of_day = time.perf_counter()
    results = _run(bench.spark, storage, load_jobs(), days_from(0, 1))
    ended = time.perf_counter()
    for each in results:
        bench.note(Measured(f"{each.job} {each.name}, beside another one", each.input_rows, each.duration_seconds))
    bench.note(Measured("all analyses", rows, ended - of_day))
    bench.note(Measured("all of it", rows, ended - began, DAY_SECONDS_MAX))
    shutil.rmtree(root)


def many_days(bench: Bench, root: Path, count: int, days: int) -> None:
    """Measure a month: raw rows, parts, and the report's input."""
    storage = LocalStorage(root)
    for day in range(days):
        store_a_day(bench.spark, storage, day, count)
    bench.title(f"{days} days, {count} brokers, {SERVERS} NameServers, raw rows")
    grown = sorted({1, max(1, days // 4), days})
    for job in load_jobs(["A2", "A5"]):
        for some in grown:
            goal = RAW_SECONDS_MAX if some == days else None
            rows = heartbeats(count, some)
            work = partial(_run, bench.spark, storage, [job], days_from(0, some), raw=True)
            bench.take(f"{job.id} {job.name}, {some} days", rows, work, goal)
    bench.title(f"{days} days, {count} brokers, from parts")
    rows, window = heartbeats(count, days), days_from(0, days)
    work = partial(_run, bench.spark, storage, load_jobs(), window)
    bench.take("all analyses, first time: parts of all days are made", rows, work)
    bench.take("all analyses again: parts are there", rows, work, REPORT_SECONDS_MAX)
    shutil.rmtree(root)


def many_brokers(bench: Bench, root: Path, count: int, large: int) -> None:
    """Measure a day of ever more brokers."""
    bench.title("One day of raw rows, more brokers")
    for some in sorted({count, (count + large) // 2, large}):
        storage = LocalStorage(root / str(some))
        store_a_day(bench.spark, storage, 0, some)
        for job in load_jobs(["A2", "A5"]):
            work = partial(_run, bench.spark, storage, [job], days_from(0, 1), raw=True)
            bench.take(f"{job.id} {job.name}, {some} brokers", heartbeats(some, 1), work)
        shutil.rmtree(root / str(some))


def _run(
    spark: SparkSession, storage: LocalStorage, jobs: Iterable[Job], window: Span, *, raw: bool = False
) -> list[Latest]:
    return run_jobs(spark, storage, jobs, Run("bench", window, raw), print)


def heartbeats(count: int, days: int) -> int:
    """Return how many beats the generated days have."""
    return count * SERVERS * BEATS_A_DAY * days


def days_from(first: int, count: int) -> Span:
    """Return so many days as a window."""
    start_us = span_of(FIRST_DAY).start_us + first * DAY_US
    return Span(start_us, start_us + count * DAY_US)


def land_a_day(root: Path, count: int) -> int:
    """Write the landing files of a day on which things go wrong, as servers would; return how many rows they have."""
    span = days_from(0, 1)
    some = brokers(count, drop=0.0005)
    keys = [broker.key for broker in some]
    half = count // 2
    plan = Plan(start_us=span.start_us, end_us=span.end_us, brokers=some).with_plants(
        *(renewal_outages(key, *span, mean_up_us=8 * HOUR_US, mean_down_us=HOUR_US // 4) for key in keys[: count // 3]),
        storm(keys[half : half + max(6, count // 8)], span.start_us + 9 * HOUR_US),
        joint_failure(keys[half : half + 3], span.start_us + 15 * HOUR_US, span.start_us + 16 * HOUR_US),
        flaps(keys[-1], span.start_us + 3 * HOUR_US, every_us=HOUR_US // 10, count=8),
    )
    return sum(_land_server(root, plan, server) for server in plan.servers)


def _land_server(root: Path, plan: Plan, server: Server) -> int:
    held: dict[str, tuple[int, list[bytes]]] = {}
    number = rows = 0
    for family, row in record(plan, server, Truth()):
        began, lines = held.setdefault(family, (row["event_time"], []))
        if row["event_time"] - began >= SEGMENT_US:
            number += 1
            _seal(root, family, began, f"{server.name}-1-{number}", lines)
            lines = []
            held[family] = (row["event_time"], lines)
        lines.append(line(family, row))
        rows += 1
    for family, (began, lines) in held.items():
        number += 1
        _seal(root, family, began, f"{server.name}-1-{number}", lines)
    return rows


def _seal(root: Path, family: str, began_us: int, name: str, lines: list[bytes]) -> None:
    date, hour = moment(began_us)[:13].split("T")
    path = root / f"landing/v1/family={family}/date={date}/hour={hour}/{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(lines))


def store_a_day(spark: SparkSession, storage: LocalStorage, day: int, count: int) -> None:
    """Write a day straight into the stored history: beats with jitter and losses, ticks, and who was there."""
    for family, rows in (
        ("heartbeat", beats_of(spark, day, count)),
        ("ns_tick", ticks_of(spark, day)),
        ("broker_state", registrations_of(spark, day, count)),
        ("ns_lifecycle", starts_of(spark, day)),
    ):
        date = date_at(days_from(day, 1).start_us)
        folder = unit_folder(family, date, WHOLE_DAY)
        rows.write.parquet(storage.uri(folder))
        paths = tuple(file.path for file in storage.files(folder))
        stored = spark.read.parquet(*(storage.uri(path) for path in paths)).count()
        hours = {f"{hour:02}": Hour(rows=stored // 24, digest=day + hour + 1) for hour in range(24)}
        save_day(storage, family, date, Day(hours=hours, stored={WHOLE_DAY: paths}))


def _enveloped(rows: DataFrame, family: str, event_type: str, at_us: str, server: str) -> DataFrame:
    """Add the envelope; `at_us` and `server` are SQL expressions over the columns there are."""
    told = rows.selectExpr(
        "*",
        "1L AS schema_version",
        f"'{event_type}' AS event_type",
        f"timestamp_micros({at_us}) AS event_time",
        f"({at_us}) - {days_from(0, 1).start_us} AS mono_us",
        f"concat('ns-', {server}) AS ns_id",
        f"concat('ns-', {server}, '-1') AS boot_id",
        f"concat('ns-', {server}, '-1-', {family!r}, {at_us}, '-', id) AS event_id",
        "'namesrv' AS source",
    )
    there = set(told.columns)
    return told.select(
        *(
            (F.col(each.name) if each.name in there else F.lit(None)).cast(each.type.value).alias(each.name)
            for each in FAMILIES[family].all_columns
        )
    )


def beats_of(spark: SparkSession, day: int, count: int) -> DataFrame:
    """Return the beats of a day, by broker, server and time, as they are stored; one in two thousand is missing."""
    start_us = days_from(day, 1).start_us
    pieces = max(2, count // 150)
    rows = spark.range(0, heartbeats(count, 1), 1, pieces).selectExpr(
        "id",
        f"id div {BEATS_A_DAY * SERVERS} AS broker",
        f"id div {BEATS_A_DAY} % {SERVERS} AS server",
        f"id % {BEATS_A_DAY} AS beat",
        f"pmod(xxhash64(id, {day}), 200000) AS jitter_us",
        f"pmod(xxhash64(id - 1, {day}), 200000) AS jitter_before_us",
        f"pmod(xxhash64(id, {day}, 'lost'), 2000) = 0 AS lost",
        f"pmod(xxhash64(id - 1, {day}, 'lost'), 2000) = 0 AS lost_before",
    )
    told = rows.where("NOT lost").selectExpr(
        "*",
        "'DefaultCluster' AS cluster",
        "format_string('broker-%05d', broker) AS broker_name",
        "0L AS broker_id",
        "format_string('broker-%05d:10911', broker) AS broker_addr",
        "'register' AS kind",
        "(if(lost_before, 60000000, 30000000) + jitter_us - jitter_before_us) div 1000 AS interval_ms",
        "30000L AS period_ms",
        "120000L AS timeout_ms",
        "1L AS dv_counter",
    )
    return _enveloped(
        told, "heartbeat", "beat", f"{start_us} + beat * 30000000 + broker % 30 * 1000000 + jitter_us", "server"
    )


def ticks_of(spark: SparkSession, day: int) -> DataFrame:
    """Return the ticks of a day: all servers were watching all the time."""
    start_us = days_from(day, 1).start_us
    rows = spark.range(0, SERVERS * 8640, 1, 1).selectExpr(
        "id",
        "id div 8640 AS server",
        "id % 8640 AS tick",
        "10000L AS interval_ms",
        "1000L AS topics",
        "8000L AS queues",
        "200000000 + id % 8640 AS route_bytes",
        "600L AS connections",
        "2.5D AS loop_lag_ms",
        "0L AS requests_rejected",
        "300L AS brokers",
    )
    return _enveloped(rows, "ns_tick", "tick", f"{start_us} + tick * 10000000", "server")


def registrations_of(spark: SparkSession, day: int, count: int) -> DataFrame:
    """Return the state of a day: all come at its begin on the first one, and a few go and come back on each."""
    start_us = days_from(day, 1).start_us
    who = "format_string('broker-%05d', id div 3) AS broker_name"
    rows = spark.range(0, count * SERVERS, 1, 1).selectExpr(
        "id",
        who,
        "id % 3 AS server",
        "0L AS broker_id",
        "'DefaultCluster' AS cluster",
        "120000L AS timeout_ms",
        "'master' AS role",
    )
    first = _enveloped(
        rows.where("true" if day == 0 else "false"), "broker_state", "registered_first", f"{start_us} + id", "server"
    )
    some = rows.where(f"(id div 3) % 50 = {day % 50}")
    went = _enveloped(
        some.withColumn("reason", F.lit("timeout")),
        "broker_state",
        "expired",
        f"{start_us} + 43200000000 + id",
        "server",
    )
    came = _enveloped(some, "broker_state", "registered_first", f"{start_us} + 43500000000 + id", "server")
    return first.unionByName(went).unionByName(came).coalesce(1)


def starts_of(spark: SparkSession, day: int) -> DataFrame:
    """Return the start of each server, on the first day."""
    rows = spark.range(0, SERVERS if day == 0 else 0, 1, 1)
    return _enveloped(rows, "ns_lifecycle", "started", f"{days_from(day, 1).start_us} + id", "id")


def _memory_gib() -> float:
    """Return the most memory that this process and Spark's Java have held together."""
    peak = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            told = dict(each.split(":", 1) for each in status.read_text().splitlines() if ":" in each)
        except OSError:
            continue
        if str(os.getpid()) in (told["Pid"].strip(), told["PPid"].strip()):
            peak += int(told.get("VmHWM", "0 kB").split()[0])
    return peak / 1024**2


def _write(path: Path, bench: Bench, options: argparse.Namespace, started: float) -> None:
    path.write_text("\n".join([*_head(bench, options, started), *bench.lines, ""]), encoding="utf-8")
    print(f"\n{path}")


def _head(bench: Bench, options: argparse.Namespace, started: float) -> list[str]:
    machine = f"{options.cores} cores, {platform.machine()}, Python {platform.python_version()}"
    spark = f"Spark {bench.spark.version}, driver memory {options.driver_memory}"
    memory = _memory_gib()
    verdict = "reached" if memory <= MEMORY_GIB_MAX else "MISSED"
    return [
        "# How fast the analyses are",
        "",
        f"Written by `make bench-analytics` on {datetime.now(UTC):%Y-%m-%d}: {machine}, {spark}.",
        f"Spark's start, {started:.1f} s, is not in the times.",
        "",
        f"Memory at most, Java and Python together: {memory:.1f} GiB (goal <= {MEMORY_GIB_MAX} GiB: {verdict}).",
        "`rows/s/core` are recorded rows, heartbeats mostly, by second and core.",
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--brokers", type=int, default=300)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--large", type=int, default=3000, help="brokers of the largest day")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--driver-memory", default="4g")
    parser.add_argument("--folder", help="where the data goes (default: the system's temporary folder)")
    parser.add_argument("--file", default=str(Path(__file__).with_name("ANALYTICS.md")))
    return parser.parse_args()


if __name__ == "__main__":
    main()
