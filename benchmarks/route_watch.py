"""A thousand watchers of routes: how soon each is notified of a change, and what it takes of the NameServer.

    python benchmarks/route_watch.py                   (about two minutes, into benchmarks/ROUTE_WATCH.md)
    python benchmarks/route_watch.py --quick           (some seconds, prints only)

A broker registers with another number of queues; the time of a notice is from the answer to that registration until a
watcher has the whole event, on the clock of the machine. Watchers are in a process of their own, on the same machine.
"""

import argparse
import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

import uvloop
from controller_results import row, table, taken
from servers import REPOSITORY, START_S, Server, ours

sys.path.insert(0, str(REPOSITORY / "tests"))

from broker_messages import MASTER, registration_body

from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import encode
from remoting.protocol.frame_reader import CommandReader

RESULTS = REPOSITORY / "benchmarks" / "ROUTE_WATCH.md"
COMMAND = "make bench-route-watch"
GOAL_MS = 100
BROKERS = 8
#: An event that has not come so many seconds after the last change is missing.
LATE_S = 30
#: Queues of the first change.
FIRST_QUEUES = 100


class Plan(NamedTuple):
    """How much is measured."""

    watchers: int = 1000
    changes: int = 60
    pause_s: float = 0.5


class Notices(NamedTuple):
    """What was measured of one shape of load."""

    work: str
    delays_ms: list[float]
    missing: int
    cpu_ms_per_change: float
    idle_share: float
    kib_per_watcher: float


# The process of the watchers


class Watcher(asyncio.Protocol):
    """One stream; notes when each event was complete."""

    def __init__(self, topic: str, arrivals: list[tuple[int, int]]) -> None:
        self._topic = topic
        self._arrivals = arrivals
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Request the events."""
        # uvloop's transports are none of asyncio's classes.
        cast("asyncio.Transport", transport).write(
            f"GET /v1/routes/watch?topic={self._topic} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        """Note what is complete."""
        now_ns = time.monotonic_ns()
        whole, end, self._rest = (self._rest + data).rpartition(b"\n\n")
        if end:
            queues = re.findall(rb'"brokerName":"broker-0","perm":6,"readQueueNums":(\d+)', whole)
            self._arrivals.extend((int(each), now_ns) for each in queues)


async def watch(port: int, watchers: int, topics: int) -> None:
    """Watch until a line on stdin says how many events there are, and they came; then print what arrived when."""
    arrivals: list[tuple[int, int]] = []
    loop = asyncio.get_running_loop()
    for number in range(watchers):
        await loop.create_connection(lambda n=number: Watcher(f"T{n % topics}", arrivals), "127.0.0.1", port)
    print("ready", flush=True)
    events = int(await asyncio.to_thread(sys.stdin.readline))
    deadline_s = time.monotonic() + LATE_S
    while len(arrivals) < events and time.monotonic() < deadline_s:  # noqa: ASYNC110  # some 0.1 s do not matter
        await asyncio.sleep(0.1)
    print(json.dumps(arrivals), flush=True)


@contextlib.contextmanager
def watching(server: Server, watchers: int, topics: int) -> Iterator["subprocess.Popen[str]"]:
    """Run watchers; they have their first events when it begins."""
    arguments = ["--watch", str(server.http_port), str(watchers), str(topics)]
    command = [sys.executable, str(Path(__file__)), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        deadline_s = time.monotonic() + START_S
        while _open_watchers(server) < watchers:
            assert time.monotonic() < deadline_s, "all watchers are open soon"
            time.sleep(0.1)
        time.sleep(1)
        try:
            yield process
        finally:
            process.kill()


def _open_watchers(server: Server) -> float:
    found = re.search(r'namesrv_watchers{watch="routes"} (\S+)', server.metrics())
    return float(found[1]) if found else 0.0


# Brokers


class Broker:
    """Registers its topics over one connection."""

    def __init__(self, server: Server, number: int, topics: int) -> None:
        self._fields = {**MASTER, "brokerName": f"broker-{number}", "brokerAddr": f"10.0.0.{number + 1}:10911"}
        self._topics = [f"T{topic}" for topic in range(max(topics, 2))]
        self._socket = socket.create_connection(("127.0.0.1", server.port))
        self._counter = 0

    def register(self, queues: int) -> int:
        """Register with so many queues of each topic; return when the answer was there, in ns."""
        self._counter += 1
        body = registration_body(*self._topics, counter=self._counter, readQueueNums=queues)
        request = RemotingCommand(RequestCode.REGISTER_BROKER, version=513, ext_fields=self._fields, body=body)
        self._socket.sendall(encode(request))
        reader, answers = CommandReader(), []
        while not answers:
            answers = reader.receive(self._socket.recv(65536))
        assert answers[0].code == 0
        return time.monotonic_ns()


def notices(folder: Path, plan: Plan, topics: int) -> Notices:
    """Measure one shape of load."""
    with ours(folder, "--route-watchers-max", str(plan.watchers + 1)) as server:
        brokers = [Broker(server, number, topics) for number in range(BROKERS)]
        for broker in brokers:
            broker.register(8)
        server.metrics()
        before_mb = server.memory_mb()
        with watching(server, plan.watchers, topics) as process:
            kib = (server.memory_mb() - before_mb) * 1024 / plan.watchers
            idle = _cpu_share(server, 5)
            cpu_s = server.cpu_seconds()
            answered = {}
            for queues in range(FIRST_QUEUES, FIRST_QUEUES + plan.changes):
                answered[queues] = brokers[0].register(queues)
                time.sleep(plan.pause_s)
            cpu_s = server.cpu_seconds() - cpu_s - idle * plan.changes * plan.pause_s
            assert process.stdin
            assert process.stdout
            process.stdin.write(f"{plan.watchers * plan.changes}\n")
            process.stdin.flush()
            arrivals = json.loads(process.stdout.readline())
    delays = sorted(max(0, at_ns - answered[queues]) / 1e6 for queues, at_ns in arrivals if queues in answered)
    missing = plan.watchers * plan.changes - len(delays)
    work = f"{plan.watchers} watchers of {topics} topic{'s' * (topics > 1)}, one change of each every {plan.pause_s} s"
    return Notices(work, delays, missing, 1000 * cpu_s / plan.changes, idle, kib)


def _cpu_share(server: Server, seconds: float) -> float:
    before_s = server.cpu_seconds()
    time.sleep(seconds)
    return (server.cpu_seconds() - before_s) / seconds


def section(plan: Plan) -> Iterator[str]:
    """Yield the lines of the page below its head."""
    yield f"Goal: p99 of a notice below {GOAL_MS} ms. A route has {BROKERS} brokers. A change is one registration."
    yield ""
    yield from table(
        "work",
        "notice, ms: p50",
        "p99",
        "longest",
        "missing",
        "processor time a change, ms",
        "share of a core, idle",
        "memory a watcher",
        "reached",
    )
    for topics in (1, 100):
        with tempfile.TemporaryDirectory() as folder:
            found = notices(Path(folder), plan, topics)
        delays = found.delays_ms
        p99 = delays[len(delays) * 99 // 100]
        yield row(
            found.work,
            f"{delays[len(delays) // 2]:.1f}",
            f"**{p99:.1f}**",
            f"{delays[-1]:.1f}",
            found.missing,
            f"{found.cpu_ms_per_change:.0f}",
            f"{found.idle_share:.1%}",
            f"{found.kib_per_watcher:.0f} KiB",
            "yes" if p99 < GOAL_MS and not found.missing else "no",
        )


def main() -> None:
    """Measure and keep, or only print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some seconds, prints only")
    parser.add_argument("--watch", nargs=3, type=int, metavar=("PORT", "WATCHERS", "TOPICS"), help="be the watchers")
    options = parser.parse_args()
    if options.watch:
        uvloop.run(watch(*options.watch))
        return
    lines = list(section(Plan(changes=8) if options.quick else Plan()))
    print("\n".join(lines))
    if not options.quick:
        head = ["# Watchers of routes", "", taken(COMMAND), ""]
        RESULTS.write_text("\n".join([*head, *lines]) + "\n")


if __name__ == "__main__":
    main()
