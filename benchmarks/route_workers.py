"""What route workers bring and cost, for `benchmarks/ROUTE_WORKERS.md`.

    make bench-route-workers                    (about 15 minutes)
    python benchmarks/route_workers.py --quick  (two pairs of everything, prints only)

All on one machine of two cores, which the generator shares, so twice the rate cannot be seen here: therefore also the
processor time of a query, with servers and generator on a core each, and a model for more cores.
"""

import argparse
import os
import resource
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from controller_results import row, table, taken
from load import TOPIC, frames, generator, held, run, warm
from peers.wire import SUCCESS, Caller
from rows import paced, route_load
from servers import REPOSITORY, Server, Stolen, java, ours

WATCH_ROUTE_FETCHES = 20105

RESULTS = REPOSITORY / "benchmarks" / "ROUTE_WORKERS.md"
COMMAND = "make bench-route-workers"
WORKERS = 2
SECONDS = 4.0
CONNECTIONS = (16, 256)
CORES = (4, 8, 16)
WORKERS_MAX = 8
GOAL_RATIO = 1.2
GOAL_COST = 1.1
GOAL_P99_MS = 1.5
CLUSTER_S = 60.0
PAIRS, QUICK_PAIRS = 10, 2


class Cost(NamedTuple):
    """Processor time of one query in microseconds: of the process that answers, of all of the server, of who asks."""

    answering_us: float
    all_us: float
    asking_us: float


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for file in found for each in file.read_text().split()]


def cpu_s(pid: int) -> float:
    return Server("", 0, pid).cpu_seconds()


def ended_children_s() -> float:
    """Return the processor time of all generators so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def pinned(server: Server, core: int) -> None:
    for pid in (server.pid, *children(server.pid)):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})


def with_workers(folder: Path, workers: int) -> AbstractContextManager[Server]:
    return ours(folder, "--route-workers", str(workers))


def rates(folder: Path, pairs: int) -> Iterator[str]:
    """Yield the lines of the comparison of rates, by turns."""
    registered = frames(folder, "register", "--brokers", 1, "--topics", 100)
    query = frames(folder, "route", TOPIC)
    yield from table("connections", "routeWorkers=0", f"routeWorkers={WORKERS}", "ratio", "Java 5.5.0", "reached")
    with (
        with_workers(folder, 0) as one,
        with_workers(folder, WORKERS) as many,
        java(folder) as other,
        held(one, registered),
        held(many, registered),
        held(other, registered),
    ):
        for connections in CONNECTIONS:
            found: dict[Server, list[float]] = {one: [], many: [], other: []}
            for server in found:
                warm(server, query, connections=connections)
            for number in range(pairs):
                for server in found if number % 2 == 0 else reversed(found):
                    found[server].append(run(server, query, connections=connections, seconds=SECONDS).qps)
            ratio = median(m / o for m, o in zip(found[many], found[one], strict=True))
            figures = [f"{median(found[server]) / 1000:.1f}k/s" for server in (one, many, other)]
            reached = "yes" if ratio >= GOAL_RATIO else "**no**"
            yield row(connections, figures[0], f"**{figures[1]}**", f"{ratio:.2f}", figures[2], reached)


def costs(folder: Path, pairs: int) -> tuple[Cost, Cost]:
    """Return what a query costs without and with one worker, by turns; server and generator have a core each."""
    registered = frames(folder, "register", "--brokers", 1, "--topics", 100)
    query = frames(folder, "route", TOPIC)
    generator()
    own = os.sched_getaffinity(0)
    found: dict[int, list[Cost]] = {0: [], 1: []}
    try:
        with (
            with_workers(folder, 0) as none,
            with_workers(folder, 1) as one,
            held(none, registered),
            held(one, registered),
        ):
            os.sched_setaffinity(0, {1})
            for server in (none, one):
                pinned(server, 0)
                warm(server, query)
            for _ in range(pairs):
                for workers, server in ((0, none), (1, one)):
                    pids = [server.pid, *children(server.pid)]
                    before = [cpu_s(pid) for pid in pids]
                    asked_s = ended_children_s()
                    measured = run(server, query, seconds=SECONDS, settle_s=0)
                    used = [cpu_s(pid) - earlier for pid, earlier in zip(pids, before, strict=True)]
                    seconds = (max(used), sum(used), ended_children_s() - asked_s)
                    queries = measured.qps * SECONDS
                    found[workers].append(Cost(*(1e6 * each / queries for each in seconds)))
    finally:
        os.sched_setaffinity(0, own)
    without, with_one = (Cost(*(median(each) for each in zip(*found[n], strict=True))) for n in (0, 1))
    return without, with_one


def passed_on_us(folder: Path) -> float:
    """Return the server's processor time for a query that a worker asks it about, as the first after each change."""
    registered = frames(folder, "register", "--brokers", 1, "--topics", 100)
    query = frames(folder, "route", TOPIC)
    with with_workers(folder, 1) as server, held(server, registered):
        # Whoever fetches a watched route is noted, so no worker keeps it.
        watched = Caller(f"127.0.0.1:{server.port}").request(WATCH_ROUTE_FETCHES, {"topic": TOPIC, "keepMs": "60000"})
        assert watched.code == SUCCESS, watched
        run(server, query, seconds=1)
        before = cpu_s(server.pid)
        queries = run(server, query, seconds=SECONDS, settle_s=0).qps * SECONDS
        return 1e6 * (cpu_s(server.pid) - before) / queries


def beside_registrations(folder: Path, pairs: int) -> Iterator[str]:
    """Yield the lines of what clients wait while 300 brokers register 10,000 topics each, by turns."""
    found: dict[int, list[dict]] = {0: [], WORKERS: []}
    for _ in range(pairs):
        for workers, all_figures in found.items():
            with (
                with_workers(folder, workers) as server,
                paced(server, "brokers", brokers=300, topics=10_000, every=30, seconds=CLUSTER_S + 20),
                route_load(folder, server, CLUSTER_S) as figures_of,
            ):
                all_figures.append(figures_of())
    yield from table("routeWorkers", "routes p99, ms", "longest, ms", "errors", "reached")
    for workers, all_figures in found.items():
        p99 = median(each["p99_ms"] for each in all_figures)
        longest = max(each["max_ms"] for each in all_figures)
        reached = ("yes" if p99 <= GOAL_P99_MS else "**no**") if workers else "-"
        yield row(workers, f"{p99:.2f}", f"{longest:.1f}", sum(each["errors"] for each in all_figures), reached)


def clients(folder: Path, seconds: float) -> Iterator[str]:
    """Yield the lines of many clients that ask rarely."""
    yield from table("routeWorkers", "memory of all processes", "p99, ms", "longest, ms", "errors")
    for workers in (0, WORKERS):
        with (
            with_workers(folder, workers) as server,
            held(server, frames(folder, "register", "--brokers", 1, "--topics", 100)),
            paced(server, "clients", connections=15_000, topics=3, every=30, seconds=seconds) as figures_of,
        ):
            found = figures_of()
            memory = sum(Server("", 0, pid).memory_mb() for pid in (server.pid, *children(server.pid)))
        yield row(workers, f"{memory:.0f} MB", f"{found['p99_ms']:.2f}", f"{found['max_ms']:.1f}", found["errors"])


def model(cost: Cost, passed_us: float) -> Iterator[str]:
    """Yield the lines of what more cores would answer."""
    yield from table("cores", "workers", "queries, at most", "changes a second that fill the server's core")
    for cores in CORES:
        workers = min(cores - 1, WORKERS_MAX)
        yield row(cores, workers, f"{workers / cost.answering_us:.2f}M/s", f"{1e6 / (workers * passed_us):,.0f}")


def page(folder: Path, pairs: int) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Route workers"
    yield ""
    yield taken(COMMAND)
    yield ""
    yield f"## Rate of one topic's route, {pairs} times by turns"
    yield ""
    yield f"Goal: {GOAL_RATIO} times one process. Servers, workers and generator share two cores; each server is warm."
    yield ""
    yield from rates(folder, pairs)
    without, with_one = costs(folder, pairs)
    ratio = with_one.answering_us / without.answering_us
    yield ""
    yield "## Processor time of a query"
    yield ""
    yield f"Server and workers on one core, generator on the other. Goal: within {GOAL_COST} times."
    yield ""
    yield from table("", "of the process that answers, us", "of the server and its worker, us", "reached")
    yield row("routeWorkers=0", f"{without.answering_us:.2f}", f"{without.all_us:.2f}", "-")
    reached = "yes" if ratio <= GOAL_COST else "**no**"
    yield row("routeWorkers=1", f"{with_one.answering_us:.2f} ({ratio:.2f} x)", f"{with_one.all_us:.2f}", reached)
    limit = 2e6 / (with_one.all_us + with_one.asking_us)
    passed_us = passed_on_us(folder)
    yield ""
    yield (
        f"The generator itself takes {with_one.asking_us:.2f} us: two cores that never wait do {limit / 1000:.0f}k/s, "
        f"{limit * without.answering_us / 1e6:.2f} times one process."
    )
    yield ""
    yield f"A query about which a worker asks takes {passed_us:.0f} us of the server."
    yield ""
    yield "## Beside 300 brokers that register 10,000 topics each"
    yield ""
    yield f"5,000 routes a second are asked for. Goal: p99 at most {GOAL_P99_MS} ms."
    yield ""
    yield from beside_registrations(folder, max(1, pairs // 5))
    yield ""
    yield "## 15,000 clients with three topics each, every 30 s"
    yield ""
    yield from clients(folder, CLUSTER_S if pairs > QUICK_PAIRS else 30)
    yield ""
    yield "## More cores, calculated"
    yield ""
    yield (
        "From the processor time above, without the clients' own. What ends it: after a change each worker asks the\n"
        "server once for each form of the route that its clients want (of one form here), and the server has one core\n"
        "for that, for registrations and for first queries; beyond eight workers the option ends."
    )
    yield ""
    yield from model(with_one, passed_us)


def main() -> None:
    """Measure, print, and write the page if it is a full one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as name, Stolen() as stolen:
        for line in page(Path(name), QUICK_PAIRS if options.quick else PAIRS):
            print(line, flush=True)
            lines.append(line)
    lines += ["", f"{stolen.percent:.1f} % of the machine's time was given to others by its host."]
    if not options.quick:
        RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
