"""Role checks over new connections: what they cost our controller, and whether elections stay as quick.

    python benchmarks/role_checks.py                   (about two minutes, into benchmarks/CONTROLLER.md)
    python benchmarks/role_checks.py --quick           (some seconds, prints only)

Ten sets of three scripted brokers send heartbeats. Processor time is that of the controller's process, so it does not
matter what else runs on the machine; what it takes without checks is subtracted. In each election the master closes all
of its connections and refuses new ones, as a killed broker does.
"""

import argparse
import os
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from controller_results import keep, row, table
from servers import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests"))

from peers.controllers import OurController
from peers.processes import free_port
from peers.replicas import Replica
from peers.waiting import wait_until

SETS = 10
REPLICAS = 3
CHECKS_A_SECOND = 1_000
THREADS = 4
GOAL_SHARE = 0.15
_TICKS = os.sysconf("SC_CLK_TCK")


class Plan(NamedTuple):
    """How much is measured."""

    seconds: float = 20
    elections: int = 8


@dataclass
class Checks:
    """Checks at an even pace from some threads, each over a new connection, as HAProxy makes them."""

    port: int
    lines: list[bytes]
    seconds_each: list[float] = field(default_factory=list)
    answers: Counter[bytes] = field(default_factory=Counter)
    failures: int = 0

    def start(self) -> "Checks":
        """Begin to check."""
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(THREADS)]
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        """End, and wait for the last answers."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        interval_s, position = THREADS / CHECKS_A_SECOND, number
        due_s = time.perf_counter() + number * interval_s / THREADS
        while not self._stop.is_set():
            time.sleep(max(0, due_s - time.perf_counter()))
            due_s += interval_s
            self._check(self.lines[position % len(self.lines)])
            position += THREADS

    def _check(self, line: bytes) -> None:
        began_s = time.perf_counter()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                connection.sendall(line)
                answer = connection.recv(400)
        except OSError:
            self.failures += 1
            return
        self.seconds_each.append(time.perf_counter() - began_s)
        self.answers[answer.split(b" ")[0].strip()] += 1


class Site:
    """A controller, and brokers that follow what it says."""

    def __init__(self, folder: Path) -> None:
        self.check_port = free_port()
        self.controller = OurController(folder, roleCheckPort=self.check_port)
        self.controller.start()
        wait_until(self.controller.serves, seconds=60, what="the controller serves")
        self.names = [f"broker-{number}" for number in range(SETS)]
        self.brokers = {
            name: [Replica(self.controller.address, name).join() for _ in range(REPLICAS)] for name in self.names
        }
        for name in self.names:
            self._lead(name)

    def _lead(self, name: str) -> None:
        """Let the first broker of a set lead, with all others in sync."""
        first = self.brokers[name][0]
        assert first.elect().code == 0
        ids = [each.broker_id for each in self.brokers[name]]
        assert first.report(ids, master_epoch=1, sync_state_set_epoch=1).code == 0

    def checks(self) -> Checks:
        """Return what checks all brokers in turn."""
        lines = [f"{name}/{each.broker_id}\n".encode() for name in self.names for each in self.brokers[name]]
        return Checks(self.check_port, lines)

    def processor_s(self) -> float:
        """Return how much processor time the controller has taken so far."""
        fields = Path(f"/proc/{self.controller.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def share(self, seconds: float) -> float:
        """Return the share of a core that the controller takes from now on."""
        before_s, began_s = self.processor_s(), time.perf_counter()
        time.sleep(seconds)
        return (self.processor_s() - before_s) / (time.perf_counter() - began_s)

    def election_s(self, name: str) -> float:
        """Kill the master of a set, and return how long it takes until another one is stored."""
        before = self.controller.set_state(name)
        master = next(each for each in self.brokers[name] if each.broker_id == before.master)
        began_s = time.perf_counter()
        master.die()

        def elected() -> bool:
            state = self.controller.set_state(name)
            return state is not None and state.master not in (None, before.master)

        wait_until(elected, seconds=60, what=f"another master of {name}")
        return time.perf_counter() - began_s

    def close(self) -> None:
        """End all."""
        for brokers in self.brokers.values():
            for each in brokers:
                each.die()
        self.controller.process.stop()


def measured(plan: Plan) -> Iterator[str]:
    """Yield the lines of the part."""
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder))
        try:
            yield from _figures(site, plan)
        finally:
            site.close()


def _figures(site: Site, plan: Plan) -> Iterator[str]:
    half = len(site.names) // 2
    idle = site.share(plan.seconds)
    without = [site.election_s(name) for name in site.names[: min(half, plan.elections)]]
    checks = site.checks().start()
    busy = site.share(plan.seconds)
    during = [site.election_s(name) for name in site.names[half : half + plan.elections]]
    checks.stop()
    share = busy - idle
    took_ms = sorted(each * 1_000 for each in checks.seconds_each)
    rate = len(took_ms) / (plan.seconds + sum(during))
    yield (
        f"{CHECKS_A_SECOND} checks a second over new connections, by turns of {SETS * REPLICAS} brokers in {SETS} "
        f"sets. Goal: <= {GOAL_SHARE:.0%} of a core,\nelections as quick as without."
    )
    yield ""
    yield from table("checks a second", "share of a core", "answered in, ms: p50", "p99", "failed", "reached")
    yield row(
        f"{rate:.0f}",
        f"**{share:.1%}** (without checks {idle:.1%})",
        f"{took_ms[len(took_ms) // 2]:.2f}",
        f"{took_ms[len(took_ms) * 99 // 100]:.2f}",
        checks.failures,
        "yes" if share <= GOAL_SHARE and not checks.failures else "no",
    )
    yield ""
    yield from table("elections", "seconds until stored", "median")
    for name, times in (("without checks", without), ("during checks", during)):
        yield row(name, " ".join(f"{each:.2f}" for each in times), f"**{median(times):.2f}**")


def main() -> None:
    """Measure and keep, or only print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="some seconds, prints only")
    if parser.parse_args().quick:
        print("\n".join(measured(Plan(seconds=3, elections=3))))
    else:
        keep("role_checks", "make bench-role-checks", measured(Plan(elections=SETS // 2)))


if __name__ == "__main__":
    main()
