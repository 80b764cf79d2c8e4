"""The rows of the table: what each measures, on which servers, and which goal it has."""

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from load import TOPIC, answer_to, built, frames, held, run, warm
from servers import REPOSITORY, Server, echo, java, ours, rust, rust_binary

PACED = REPOSITORY / "benchmarks" / "paced.py"
ROUTE_CLIENTS = REPOSITORY / "benchmarks" / "askers.c"


class Plan(NamedTuple):
    """How much is measured."""

    runs: int
    seconds: float
    #: Of the rows that simulate a cluster.
    cluster_seconds: float
    #: Only the comparisons that take little.
    quick: bool


class Row(NamedTuple):
    """One line of the table."""

    number: str
    work: str
    goal: str
    figures: str
    reached: bool


def peers(folder: Path) -> list[tuple[str, Callable[[], contextlib.AbstractContextManager[Server]]]]:
    """Return the servers that are compared, ours first."""
    named: list[tuple[str, Callable[[], contextlib.AbstractContextManager[Server]]]] = [
        ("ours", lambda: ours(folder)),
        ("java", lambda: java(folder)),
    ]
    if rust_binary():
        named.append(("rust", lambda: rust(folder)))
    return named


# Route queries: rows 1 to 3


class Work(NamedTuple):
    """A route query in one shape of load, and how many times faster than the others it has to be."""

    number: str
    text: str
    binary: bool
    connections: int
    depth: int
    over_java: float
    over_rust: float = 0.0
    over_echo: float = 0.0
    #: Its p99 has to be at most this share of either peer's.
    p99_share: float = 0.0


ONE_BROKER = (
    Work("1", "route, 1 broker, 8 queues, 16 connections, depth 1, JSON", False, 16, 1, 2.2, 2.0, 0.65, 0.5),
    Work("2a", "same, depth 8", False, 16, 8, 2.5),
    Work("2b", "same, 256 connections, depth 1", False, 256, 1, 1.4),
    Work("2c", "same as 1, binary headers", True, 16, 1, 2.0),
)
MANY_BROKERS = (Work("3", "route over 65 brokers, 16 connections, depth 1", False, 16, 1, 2.5, 2.5),)


def query_of(folder: Path, work: Work) -> Path:
    """Return the file of a route query."""
    return frames(folder, "route", TOPIC, *(["--binary"] if work.binary else []))


def routes(folder: Path, plan: Plan, works: tuple[Work, ...], brokers: int) -> Iterator[Row]:
    """Compare route queries over a number of broker sets."""
    registered = frames(folder, "register", "--brokers", brokers, "--topics", 100)
    results: dict[tuple[str, str], list] = {}
    warm_s: dict[tuple[str, str], list[float]] = {}
    queries = {work: query_of(folder, work) for work in works}
    answer = folder / f"answer-{brokers}.bin"
    servers = peers(folder)
    for _ in range(plan.runs):
        for name, start in servers:
            with start() as server, held(server, registered):
                if name == "ours":
                    answer.write_bytes(answer_to(server, queries[works[0]]))
                for work in works:
                    shape = {"connections": work.connections, "depth": work.depth}
                    key = work.number, name
                    warm_s.setdefault(key, []).append(warm(server, queries[work], **shape))
                    results.setdefault(key, []).append(run(server, queries[work], seconds=plan.seconds, **shape))
        with echo(folder, answer) as server:
            warm(server, queries[works[0]])
            measured = run(server, queries[works[0]], seconds=plan.seconds)
            results.setdefault((works[0].number, "echo"), []).append(measured)
    for work in works:
        yield _compared(
            work,
            {name: runs for (number, name), runs in results.items() if number == work.number},
            {name: max(each) for (number, name), each in warm_s.items() if number == work.number},
        )


def warm_after(seconds: dict[str, float]) -> str:
    """Return how long each server was loaded before it was measured."""
    return "warm after " + ", ".join(f"{name} {longest:g} s" for name, longest in seconds.items())


def _compared(work: Work, results: dict[str, list], warm_s: dict[str, float]) -> Row:
    qps = {name: median(each.qps for each in runs) for name, runs in results.items()}
    p99 = {name: median(each.p99_us for each in runs) / 1000 for name, runs in results.items()}
    wanted = {"java": work.over_java, "rust": work.over_rust, "echo": work.over_echo}
    goals = [f">= {factor} x {name}" for name, factor in wanted.items() if factor]
    reached = all(qps["ours"] >= factor * qps[name] for name, factor in wanted.items() if name in qps)
    if work.p99_share:
        goals.append(f"p99 <= {work.p99_share} x either's")
        reached &= all(p99["ours"] <= work.p99_share * p99[name] for name in ("java", "rust") if name in p99)
    parts = [f"**ours {qps['ours'] / 1000:.1f}k/s, p99 {p99['ours']:.2f} ms**"]
    parts += [
        f"{name} {qps[name] / 1000:.1f}k/s, p99 {p99[name]:.2f} ms ({qps['ours'] / qps[name]:.2f} x)"
        for name in ("java", "rust", "echo")
        if name in qps
    ]
    parts.append(warm_after(warm_s))
    return Row(work.number, work.text, "; ".join(goals), "; ".join(parts), reached)


# Registrations: rows 4 and 5

REGISTRATIONS = (
    ("4", "registration of 10,000 topics, nothing changed, 2 connections", 0, 2, {"java": 10, "rust": 100}),
    ("5a", "same, one topic changed, 1 connection", 1, 1, {"java": 3}),
    ("5b", "same, all topics changed, 1 connection", 10_000, 1, {"java": 1}),
)


def registrations_of(folder: Path, change: int) -> Path:
    """Return the file of large registrations, each of which changes so many topics."""
    return frames(folder, "register", "--topics", 10_000, "--versions", 8, "--change", change)


def registrations(folder: Path, plan: Plan) -> Iterator[Row]:
    """Compare how fast large registrations are taken."""
    results: dict[tuple[str, str], list[float]] = {}
    warm_s: dict[tuple[str, str], float] = {}
    for _ in range(plan.runs):
        for name, start in peers(folder):
            with start() as server:
                for number, _, change, connections, wanted in REGISTRATIONS:
                    if name in wanted or name == "ours":
                        sent = registrations_of(folder, change)
                        took_s = warm(server, sent, connections=connections)
                        warm_s[number, name] = max(took_s, warm_s.get((number, name), 0))
                        measured = run(server, sent, connections=connections, seconds=plan.seconds)
                        results.setdefault((number, name), []).append(measured.qps)
    for number, text, _, _, wanted in REGISTRATIONS:
        rate = {name: median(rates) for (row, name), rates in results.items() if row == number}
        parts = [f"**ours {rate['ours']:.0f}/s**"]
        parts += [f"{name} {rate[name]:.0f}/s ({rate['ours'] / rate[name]:.1f} x)" for name in wanted if name in rate]
        parts.append(warm_after({name: took_s for (row, name), took_s in warm_s.items() if row == number}))
        reached = all(rate["ours"] >= factor * rate[name] for name, factor in wanted.items() if name in rate)
        goal = "; ".join(f">= {factor} x {name}" for name, factor in wanted.items())
        yield Row(number, text, goal, "; ".join(parts), reached)


# A cluster at its pace: rows 6, 7, 9, 10


@contextlib.contextmanager
def paced(server: Server, kind: str, **options: float) -> Iterator[Callable[[], dict]]:
    """Start peers that send at a pace and yield, when they are ready, what waits for their figures."""
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, str(PACED), str(server.port), kind, *words]
    # Real brokers work elsewhere: what they compute here must not keep the clients' clock from running.
    command = ["nice", "-n", "10", *command] if kind == "brokers" else command
    with _ready(command, options["seconds"]) as figures:
        yield figures


@contextlib.contextmanager
def route_load(folder: Path, server: Server, seconds: float) -> Iterator[Callable[[], dict]]:
    """Ask for a route 5,000 times a second meanwhile; the figures say how long that took."""
    words = [str(server.port), str(frames(folder, "route", TOPIC)), "-c", "16", "-q", "5000", "-s", str(seconds)]
    with _ready([str(built(ROUTE_CLIENTS)), *words], seconds) as figures:
        yield figures


@contextlib.contextmanager
def _ready(command: list[str], seconds: float) -> Iterator[Callable[[], dict]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{command} was not ready")
        yield lambda: json.loads(process.communicate(timeout=seconds + 120)[0].splitlines()[-1])
    finally:
        process.kill()
        process.wait()


def at_rest(folder: Path, server: Server, seconds: float) -> str:
    """Return what the same clients see of an echo while nothing else happens: as fast as this machine answers."""
    answer = folder / "answer-rest.bin"
    answer.write_bytes(answer_to(server, frames(folder, "route", TOPIC)))
    with echo(folder, answer) as other, route_load(folder, other, seconds) as figures_of:
        figures = figures_of()
    return f"the same clients at an idle echo p99 {figures['p99_ms']:.2f} ms, longest {figures['max_ms']:.1f} ms"


def cluster(folder: Path, plan: Plan) -> Iterator[Row]:
    """300 brokers with 10,000 topics, each registering every 30 s, and route queries meanwhile."""
    seconds = plan.cluster_seconds
    with (
        ours(folder) as server,
        paced(server, "brokers", brokers=300, topics=10_000, every=30, seconds=seconds + 20) as registered,
    ):
        before, began = server.cpu_seconds(), time.monotonic()
        time.sleep(seconds / 4)
        cpu = (server.cpu_seconds() - before) / (time.monotonic() - began)
        with route_load(folder, server, seconds / 2) as figures_of:
            scraped = _scraped(server, seconds / 2)
            routes_of = figures_of()
        memory = server.memory_mb()
        taken = registered()
        # Also while all brokers leave at once.
        time.sleep(5)
        rest = at_rest(folder, server, seconds / 8)
        note_stall("6", server)
    figures = (
        f"CPU {cpu * 100:.1f} % of a core, {memory:.0f} MB; routes p99 {routes_of['p99_ms']:.2f} ms, longest "
        f"{routes_of['max_ms']:.1f} ms; registrations p99 {taken['p99_ms']:.1f} ms; "
        f"{routes_of['errors'] + taken['errors']} errors; {scraped} scrapes; {rest}"
    )
    reached = cpu < 0.1 and memory < 1024 and routes_of["p99_ms"] < 2 and routes_of["max_ms"] < 50
    goal = "< 10 % of a core; < 1 GiB; p99 < 2 ms, longest < 50 ms"
    yield Row("6", "300 brokers x 10,000 topics every 30 s, 5,000 routes/s offered", goal, figures, reached)


def _scraped(server: Server, seconds: float) -> int:
    """Scrape each 15 s, as Prometheus does, and return how often."""
    end, count = time.monotonic() + seconds, 0
    while True:
        server.metrics()
        count += 1
        if time.monotonic() + 15 > end:
            return count
        time.sleep(15)


def large_broker(folder: Path, plan: Plan) -> Iterator[Row]:
    """One broker with 100,000 topics in one frame."""
    del plan
    with ours(folder) as server:
        command = ["nice", "-n", "10", sys.executable, str(PACED), str(server.port), "brokers"]
        command += ["--brokers", "1", "--topics", "100000"]
        with (
            held(server, frames(folder, "register", "--first", 1, "--brokers", 1, "--topics", 3)),
            route_load(folder, server, 20) as figures_of,
        ):
            printed = subprocess.run(
                [*command, "--every", "2", "--seconds", "12"], capture_output=True, text=True, check=True
            ).stdout.splitlines()
            routes_of = figures_of()
            note_stall("7", server)
        first, again = json.loads(printed[1]), json.loads(printed[2])
    figures = (
        f"first {first['max_ms'] / 1000:.2f} s, unchanged {again['p50_ms']:.1f} ms; longest route answer "
        f"{routes_of['max_ms']:.1f} ms, p99 {routes_of['p99_ms']:.2f} ms; "
        f"{first['errors'] + again['errors'] + routes_of['errors']} errors"
    )
    reached = first["max_ms"] < 1500 and again["p50_ms"] < 30 and routes_of["max_ms"] < 50
    goal = "first < 1.5 s; unchanged < 30 ms; longest route answer < 50 ms"
    yield Row("7", "one broker with 100,000 topics in one frame of 17.6 MB, 5,000 routes/s", goal, figures, reached)


def many_clients(folder: Path, plan: Plan) -> Iterator[Row]:
    """15,000 connected clients."""
    seconds = max(30.0, plan.cluster_seconds / 2)
    with (
        ours(folder) as server,
        held(server, frames(folder, "register", "--brokers", 1, "--topics", 100)),
        paced(server, "clients", connections=15_000, topics=3, every=30, seconds=seconds) as figures_of,
    ):
        answered = figures_of()
        memory = server.memory_mb()
        note_stall("9", server)
    errors = answered["errors"]
    figures = f"{memory:.0f} MB; p99 {answered['p99_ms']:.2f} ms, longest {answered['max_ms']:.1f} ms; {errors} errors"
    reached = memory < 400 and answered["p99_ms"] < 5 and not errors
    yield Row("9", "15,000 clients, 3 topics each every 30 s", "< 400 MB; p99 < 5 ms; 0 errors", figures, reached)


# How long anything holds the loop: row 10

#: By row, the bound of the highest bucket of the event loop's lag that is not empty, in milliseconds.
_stalls: dict[str, float] = {}


def note_stall(row: str, server: Server) -> None:
    """Keep how long the event loop was held at most in a row, as the server's own metric tells."""
    buckets = _buckets(server, "event_loop_lag_seconds")
    _stalls[row] = next(bound for bound, count in buckets if count == buckets[-1][1]) * 1000


def _buckets(server: Server, histogram: str) -> list[tuple[float, float]]:
    pattern = rf'{histogram}_bucket\{{le="([^"]+)"\}} ([0-9.]+)'
    return [(float(bound), float(count)) for bound, count in re.findall(pattern, server.metrics())]


def scan(folder: Path, plan: Plan) -> Iterator[Row]:
    """Measure looks for silent brokers among 10,000, and tell what held the loop longest in the rows before."""
    with (
        ours(folder, "--scan-not-active-broker-interval", "250", "--brokers-per-connection-max", "10000") as server,
        held(server, frames(folder, "register", "--brokers", 10_000, "--topics", 2), "--one"),
    ):
        before = server.metrics()
        time.sleep(plan.cluster_seconds / 4)
        after = server.metrics()
        note_stall("10", server)
    taken, looks = (
        _sample(after, f"expiry_scan_duration_seconds_{part}") - _sample(before, f"expiry_scan_duration_seconds_{part}")
        for part in ("sum", "count")
    )
    each_ms = taken / looks * 1000
    stalls = ", ".join(f"row {row} {bound:g} ms" for row, bound in _stalls.items())
    figures = f"scan {each_ms:.2f} ms (mean of {looks:.0f}); loop held at most (upper bound of the bucket): {stalls}"
    # There are buckets up to 10, 25 and 50 ms.
    limits = {"7": 50.0}
    reached = each_ms < 1 and all(bound <= limits.get(row, 10) for row, bound in _stalls.items())
    goal = "scan < 1 ms; loop held < 20 ms, < 50 ms in 7"
    yield Row(
        "10", "scan of 10,000 brokers; longest stall of the event loop, scraped each 15 s", goal, figures, reached
    )


def _sample(metrics: str, name: str) -> float:
    found = re.search(rf"{name} ([0-9.e+-]+)", metrics)
    assert found is not None
    return float(found[1])


# What it costs as things grow: row 11


def growth(folder: Path, plan: Plan) -> Iterator[Row]:
    """Cost of a query and of an unchanged registration, with few and with very many topics and brokers.

    All servers run at once and are measured in turn, or what the machine does meanwhile would look like growth.
    """
    query_frames = frames(folder, "route", TOPIC)
    small = [frames(folder, "register", "--first", 400, "--topics", 100, *more) for more in ((), ("--versions", 8))]
    queries: dict[int, list[float]] = {}
    unchanged: dict[tuple[int, int], list[float]] = {}
    many = 10_000 if plan.quick else 100_000
    with contextlib.ExitStack() as stack:
        servers = {}
        for size in ((1, 100), (1, many), (300, 100)):
            server = servers[size] = stack.enter_context(ours(folder))
            stack.enter_context(held(server, frames(folder, "register", "--brokers", size[0], "--topics", size[1])))
            stack.enter_context(held(server, small[0]))
        for _ in range(2 * plan.runs + 1):
            for (brokers, topics), server in servers.items():
                if brokers == 1:
                    queries.setdefault(topics, []).append(run(server, query_frames, seconds=plan.seconds / 2).qps)
                rate = run(server, small[1], connections=2, seconds=plan.seconds / 2).qps
                unchanged.setdefault((brokers, topics), []).append(rate)
    qps = {topics: median(rates) for topics, rates in queries.items()}
    rate_of = {size: median(rates) for size, rates in unchanged.items()}
    spread_q, spread_r = (max(each.values()) / min(each.values()) for each in (qps, rate_of))
    figures = (
        "queries "
        + ", ".join(f"{topics} topics {rate / 1000:.1f}k/s" for topics, rate in qps.items())
        + f" ({spread_q:.2f} x); registrations of 100 topics, nothing changed, beside "
        + ", ".join(f"{b} brokers x {t} topics {rate / 1000:.1f}k/s" for (b, t), rate in rate_of.items())
        + f" ({spread_r:.2f} x)"
    )
    yield Row("11", "cost as topics and brokers grow", "within 1.3 x", figures, max(spread_q, spread_r) <= 1.3)


# What recording costs: row 12


def recording(folder: Path, plan: Plan) -> Iterator[Row]:
    """Compare the cluster of row 6 with and without a recorded history, by turns."""
    cpu: dict[str, list[float]] = {}
    p99: dict[str, list[float]] = {}
    lost = 0.0
    for turn in range(plan.runs):
        for name in ("without", "with"):
            options = ("--history-dir", str(folder / f"history-{turn}")) if name == "with" else ()
            used, offered, dropped = _cluster_turn(folder, plan.cluster_seconds / 2, options)
            cpu.setdefault(name, []).append(100 * used)
            p99.setdefault(name, []).append(offered["p99_ms"])
            lost += dropped
    used_by = {name: median(each) for name, each in cpu.items()}
    slow_by = {name: median(each) for name, each in p99.items()}
    cost = used_by["with"] - used_by["without"]
    figures = (
        f"CPU {used_by['without']:.2f} % of a core without, {used_by['with']:.2f} % with it ({cost:+.2f} %); "
        f"routes p99 {slow_by['without']:.2f} ms without, {slow_by['with']:.2f} ms with it; {lost:.0f} rows dropped"
    )
    reached = cost <= 1 and slow_by["with"] <= 1.1 * slow_by["without"] and not lost
    goal = "at most 1 % of a core more; p99 within 1.1 x; no row dropped"
    yield Row(
        "12", "history recorded: 300 brokers x 10,000 topics every 30 s, 5,000 routes/s offered", goal, figures, reached
    )


def _cluster_turn(folder: Path, seconds: float, options: tuple[str, ...]) -> tuple[float, dict, float]:
    """Return the share of a core that beats alone take, what askers of routes then see, and what was dropped."""
    with (
        ours(folder, *options) as server,
        paced(server, "brokers", brokers=300, topics=10_000, every=30, seconds=2 * seconds + 10),
    ):
        before, began = server.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        used = (server.cpu_seconds() - before) / (time.monotonic() - began)
        with route_load(folder, server, seconds) as figures_of:
            seen = figures_of()
        dropped = sum(float(each) for each in re.findall(r"history_events_dropped_total\{.*\} (\S+)", server.metrics()))
    return used, seen, dropped
