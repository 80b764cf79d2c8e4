"""Measures ingest and analyses, and writes benchmarks/ANALYTICS.md.

    make bench-analytics                                           (all of it: three quarters of an hour, 3 GB of disk)
    PYTHONPATH=tests python benchmarks/analyses.py --only day      (a part alone; the page keeps the other parts)
    PYTHONPATH=tests python benchmarks/analyses.py --only raw --only report

first-report  one hour of three brokers, 395 rows, in a new process: Spark's start, ingest, all analyses, page
day           one day of 300 brokers, seen by three NameServers: landing files of JSON, ingest, all analyses
raw           A2 and A5 over the raw rows of ever more days, up to thirty
report        all analyses of thirty days from the kept parts of days, and the page
brokers       A2 and A5 over the raw rows of one day of ever more brokers

Times are those of the work; Spark's start is told beside, but for `first-report`. Raw rows of many days are written
straight as stored ones.
"""

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from stored_days import FIRST_DAY, SERVERS, heartbeats, store_days
from synthetic.first_hour import first_hour
from synthetic.generator import Truth, record
from synthetic.landing import SEGMENT_US, line, moment
from synthetic.plan import Plan, Server, brokers
from synthetic.plants import correlated_failure, flaps, renewal_outages, storm

from analytics.cli.report import report
from analytics.cli.session import start_session
from analytics.engine.publication import LatestRun
from analytics.engine.registry import load_jobs
from analytics.engine.runner import Run, run_jobs
from analytics.ingest.ingest import Places, ingest
from analytics.shared.days import DAY_US, HOUR_US, iso, span_of
from analytics.shared.job import Job, Span
from analytics.spark.storage import LocalStorage

#: What the issue asks for, on two cores.
FIRST_REPORT_SECONDS_MAX = 20
DAY_SECONDS_MAX = 90
REPORT_SECONDS_MAX = 30
RAW_SECONDS_MAX = 240
MEMORY_GIB_MAX = 6

#: Writing the rows of many days is no measurement, but nobody waits for it for long.
STORING_SECONDS_MAX = 240

#: The parts, with the titles of their sections; the page has them in this order.
PARTS = {
    "first-report": "An hour of history, from the start of a process to its first report",
    "day": "One day, from JSON to results",
    "raw": "Ever more days of raw rows",
    "report": "A month's report, from parts of days",
    "brokers": "Ever more brokers, one day of raw rows",
}


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

    def __init__(self, spark: SparkSession, options: argparse.Namespace, folder: Path, started: float) -> None:
        self.spark = spark
        self.options = options
        self.folder = folder
        #: Seconds that Spark took to start.
        self.started = started
        self.lines: list[str] = []
        self._month: LocalStorage | None = None

    def take(self, what: str, rows: int, work: Callable[[], object], goal_seconds: float | None = None) -> None:
        """Do some work once and note how long it took."""
        began = time.perf_counter()
        work()
        self.note(Measured(what, rows, time.perf_counter() - began, goal_seconds))

    def note(self, measured: Measured) -> None:
        """Add a line."""
        self.lines.append(measured.text(self.options.cores))
        print(self.lines[-1], flush=True)

    def month(self) -> LocalStorage:
        """Return the stored rows of all days, which are written once."""
        if self._month is None:
            self._month = LocalStorage(self.folder / "month")
            began = time.perf_counter()
            store_days(self.folder / "month", self.options.days, self.options.brokers, self.options.cores)
            took = time.perf_counter() - began
            verdict = "" if took <= STORING_SECONDS_MAX else f": more than {STORING_SECONDS_MAX} s"
            print(f"{self.options.days} days stored in {took:.0f} s{verdict}", flush=True)
        return self._month


def main() -> None:
    """Measure what was asked for and write its sections of the page."""
    options = _options()
    # Whoever ends it finds no gigabytes left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    with tempfile.TemporaryDirectory(prefix="bench-analytics-", dir=options.folder) as folder:
        began = time.perf_counter()
        spark = start_session(f"local[{options.cores}]", driver_memory=options.driver_memory)
        spark.range(1).count()
        bench = Bench(spark, options, Path(folder), time.perf_counter() - began)
        for part in options.only or PARTS:
            print(f"\n{PARTS[part]}", flush=True)
            bench.lines = []
            _MEASURES[part](bench)
            _write(Path(options.file), PARTS[part], _section(bench))
        spark.stop()


def first_report(bench: Bench) -> None:
    """Measure a new process that goes from landing files to the page."""
    root, plan = bench.folder / "hour", first_hour()
    rows = land(root, plan)
    work = partial(_in_a_new_process, bench, "update", "--history", str(root), "--to", iso(plan.end_us))
    bench.take("**all of it**", rows, work, FIRST_REPORT_SECONDS_MAX)


def one_day(bench: Bench) -> None:
    """Measure a day's ingest and all analyses, from JSON to results."""
    root = bench.folder / "day"
    rows = land_a_day(root, bench.options.brokers)
    storage = LocalStorage(root)
    began = time.perf_counter()
    work = partial(ingest, Places(bench.spark, storage, storage), print)
    bench.take("ingest", rows, work)
    of_day = time.perf_counter()
    results = _run(bench.spark, storage, load_jobs(), days_from(0, 1))
    ended = time.perf_counter()
    bench.note(Measured("all analyses", rows, ended - of_day))
    bench.note(Measured("**ingest and all analyses**", rows, ended - began, DAY_SECONDS_MAX))
    for each in results:
        bench.note(Measured(f"{each.job} {each.name}, beside another one", each.input_rows, each.duration_seconds))
    bench.take("ingest once more: nothing to do", rows, work)
    shutil.rmtree(root)


def many_days(bench: Bench) -> None:
    """Measure A2 and A5 over raw rows of ever more days."""
    storage, count, days = bench.month(), bench.options.brokers, bench.options.days
    for job in load_jobs(["A2", "A5"]):
        for some in sorted({1, max(1, days // 4), max(1, days // 2), days}):
            goal = RAW_SECONDS_MAX if some == days else None
            work = partial(_run, bench.spark, storage, [job], days_from(0, some), raw=True)
            bench.take(f"{job.id} {job.name}, {some} days", heartbeats(count, some), work, goal)


def a_report(bench: Bench) -> None:
    """Measure a month's results from parts, and the page."""
    storage, window = bench.month(), days_from(0, bench.options.days)
    rows = heartbeats(bench.options.brokers, bench.options.days)
    work = partial(_run, bench.spark, storage, load_jobs(), window)
    bench.take("all analyses, first time: parts of all days are made", rows, work)
    began = time.perf_counter()
    bench.take("all analyses again: parts are there", rows, work)
    place = argparse.Namespace(output=str(bench.folder / "month"), file=str(bench.folder / "report.html"))
    bench.take("the page", rows, partial(report, place))
    bench.note(Measured("**results and page, from parts**", rows, time.perf_counter() - began, REPORT_SECONDS_MAX))
    words = ["--output", str(bench.folder / "month"), "--from", iso(window.start_us), "--to", iso(window.end_us)]
    in_a_new_process = partial(_in_a_new_process, bench, "run", *words)
    bench.take("results once more, in a new process: with Spark's start, and Java not warm", rows, in_a_new_process)


def many_brokers(bench: Bench) -> None:
    """Measure a day of ever more brokers."""
    count, large = bench.options.brokers, bench.options.large
    for some in sorted({count, (count + large) // 2, large}):
        storage = LocalStorage(bench.folder / str(some))
        store_days(bench.folder / str(some), 1, some, 1)
        for job in load_jobs(["A2", "A5"]):
            work = partial(_run, bench.spark, storage, [job], days_from(0, 1), raw=True)
            bench.take(f"{job.id} {job.name}, {some} brokers", heartbeats(some, 1), work)
        shutil.rmtree(bench.folder / str(some))


def _in_a_new_process(bench: Bench, *words: str) -> None:
    spark = ["--master", f"local[{bench.options.cores}]", "--driver-memory", bench.options.driver_memory]
    subprocess.run([sys.executable, "-m", "analytics", *words, *spark], check=True)


_MEASURES: Mapping[str, Callable[[Bench], None]] = {
    "first-report": first_report,
    "day": one_day,
    "raw": many_days,
    "report": a_report,
    "brokers": many_brokers,
}


def _run(
    spark: SparkSession, storage: LocalStorage, jobs: Iterable[Job], window: Span, *, raw: bool = False
) -> list[LatestRun]:
    return run_jobs(spark, storage, jobs, Run("bench", window, raw), print)


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
        correlated_failure(keys[half : half + 3], span.start_us + 15 * HOUR_US, span.start_us + 16 * HOUR_US),
        flaps(keys[-1], span.start_us + 3 * HOUR_US, every_us=HOUR_US // 10, count=8),
    )
    return land(root, plan)


def land(root: Path, plan: Plan) -> int:
    """Write the landing files of a plan, as its servers would; return how many rows they have."""
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


def _memory_gib() -> float:
    """Return the most memory that this process and Spark's Java have held together."""
    peak = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            status_of = dict(each.split(":", 1) for each in status.read_text().splitlines() if ":" in each)
        except OSError:
            continue
        if str(os.getpid()) in (status_of["Pid"].strip(), status_of["PPid"].strip()):
            peak += int(status_of.get("VmHWM", "0 kB").split()[0])
    return peak / 1024**2


def _section(bench: Bench) -> list[str]:
    """Return the section of the part that was just measured."""
    options = bench.options
    memory = _memory_gib()
    verdict = "reached" if memory <= MEMORY_GIB_MAX else "**MISSED**"
    machine = f"{options.cores} cores, {platform.machine()}, Python {platform.python_version()}"
    spark = f"Spark {bench.spark.version}, driver memory {options.driver_memory}"
    goal = f"goal <= {MEMORY_GIB_MAX} GiB: {verdict}"
    return [
        f"{datetime.now(UTC):%Y-%m-%d}: {options.brokers} brokers, {SERVERS} NameServers, {machine}, {spark}.",
        f"Spark's start, {bench.started:.1f} s, is not in the times.",
        f"Memory at most so far, Java and Python together: {memory:.1f} GiB ({goal}).",
        "",
        "| what | recorded rows | s | rows/s/core | goal | |",
        "|---|---|---|---|---|---|",
        *bench.lines,
    ]


def _write(path: Path, title: str, section: Iterable[str]) -> None:
    """Put a section into the page, in the place of what it said before; other sections stay as they are."""
    sections: dict[str, str] = {}
    if path.exists():
        for text in path.read_text(encoding="utf-8").split("\n## ")[1:]:
            known, _, rest = text.partition("\n")
            sections[known] = rest.strip()
    sections[title] = "\n".join(section)
    text = "".join(f"\n## {each}\n\n{sections[each]}\n" for each in PARTS.values() if each in sections)
    path.write_text(_HEAD + text, encoding="utf-8")
    print(f"\n{path}")


_HEAD = """# How fast the analyses are

Written by `make bench-analytics`, or part by part with `--only`. `rows/s/core` are recorded rows, heartbeats mostly, by
second and core.
"""


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part; may be given more than once")
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
