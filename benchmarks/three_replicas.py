"""What a killed master costs a set of three replicas: acknowledged messages, and how long nothing is sent.

    make bench-replicas                                          (about an hour, into benchmarks/CONTROLLER.md)
    python benchmarks/three_replicas.py --minutes 9 --results F  (a slice: its kills are added to the file F)
    python benchmarks/three_replicas.py --results F --write      (what F has, into benchmarks/CONTROLLER.md)
    python benchmarks/three_replicas.py --tree FOLDER ...        (with the controllers of other checkouts)

Each setting has a set of three Java brokers 5.5.0 of its own. A producer sends in several threads. The master is killed
while one of the slaves stands still for a moment, as in a collection of garbage: the other slave alone has what was
acknowledged meanwhile, where an acknowledgement does not need all that are in sync. A gap is the time from the kill to
the first message that another broker acknowledges. Lost is what was acknowledged and is not found by a scan of the
whole topic in the end.
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from controller_results import keep, row, table
from failover_steps import last_election
from failover_subjects import SCAN_S, Versions
from peers.clients import Load
from peers.controllers import OurController
from peers.lab import Lab
from peers.processes import Process
from peers.servers import Broker
from peers.waiting import wait_until
from replicated import UNIX, VERY_LONG_S, ReplicatedSet
from servers import REPOSITORY

#: How brokers acknowledge, by the name of the setting.
SETTINGS: dict[str, dict[str, object]] = {
    "allAckInSyncStateSet=true": {"allAckInSyncStateSet": True},
    "allAckInSyncStateSet=false, inSyncReplicas=2": {"allAckInSyncStateSet": False, "inSyncReplicas": 2},
}
KILLS = 50
#: Between two kills of a set: beats and offsets settle, and the producer sends.
STEADY_S = 2
#: How long a slave stands still before its master is killed, and after it: in all less than a beat is overdue.
STILL_BEFORE_S, STILL_AFTER_S = 0.2, 0.3
GAP_MAX_S = 90
THREADS, INTERVAL_MS = 4, 5
#: More than fits between two processes: a slave that stands still lacks it, and does not find it at its port.
PADDING_BYTES = 8 * 1024
OK = re.compile(r"^OK (\d+) (\S+) (\d+)", re.MULTILINE)


class Kill(NamedTuple):
    """When a master was killed, and how long it took until another was elected, and had acknowledged a message."""

    unix_ms: int
    elected_ms: int
    gap_ms: int


@dataclass
class Subject:
    """A set of three brokers with its controller."""

    setting: str
    tree: Path
    folder: Path
    lab: Lab = field(init=False)
    controller: OurController = field(init=False)
    brokers: ReplicatedSet = field(init=False)
    load: Load = field(init=False)
    kills: list[Kill] = field(default_factory=list)
    restarted: Broker | None = None

    def start(self) -> "Subject":
        """Start everything but the producer; returns at once, `ready` waits."""
        self.lab = Lab(self.folder)
        self.controller = controller = self.lab.kept(_ControllerOf(self.tree, self.folder)).start()
        wait_until(controller.serves, seconds=VERY_LONG_S, what="the controller serves")
        namesrv = self.lab.name_server("namesrv")
        self.brokers = ReplicatedSet(
            self.lab,
            Versions(),
            name=f"set-{self.folder.name}",
            namesrv=namesrv,
            controllers=[controller],
            count=3,
            **SETTINGS[self.setting],
        )
        self.brokers.start()
        return self

    def ready(self) -> None:
        """Wait until the set is complete, and send."""
        self.brokers.wait_until_complete()
        self.load = self.brokers.load(threads=THREADS, padding=PADDING_BYTES, **{"interval-ms": INTERVAL_MS})

    def run(self, kills: int, end: float) -> list[dict[str, Any]]:
        """Return what came of some kills, none of which begins after `end`."""
        self.ready()
        while len(self.kills) < kills and time.monotonic() < end:
            try:
                self.kill()
            except AssertionError as error:
                # What was seen until then counts, and the rest of the slice is lost.
                print(f"  {self.setting}: {error}", file=sys.stderr, flush=True)
                break
        return list(self.results())

    def kill(self) -> None:
        """Kill the master once the set is complete, and start it again."""
        if self.restarted is not None:
            self.restarted.ready()
        self.brokers.wait_until_complete()
        time.sleep(STEADY_S)
        victim, slow = self.brokers.master, self.brokers.slaves[len(self.kills) % 2]
        position = self.load.process.position()
        slow.process.pause()
        time.sleep(STILL_BEFORE_S)
        killed_ms = UNIX.unix_ms()
        victim.process.kill()
        time.sleep(STILL_AFTER_S)
        slow.process.resume()
        sent_ms = self._first_sent(victim, position)
        elected_ms = last_election(self.controller, self.brokers.name)["unixMs"]
        kill = Kill(killed_ms, elected_ms - killed_ms, sent_ms - killed_ms)
        self.kills.append(kill)
        print(f"  {self.setting}: kill {len(self.kills)}, {kill}", file=sys.stderr, flush=True)
        self.restarted = victim.start()

    def _first_sent(self, victim: Broker, position: int) -> int:
        def found() -> int | None:
            acknowledged = OK.findall(self.load.process.text(position))
            return next((int(unix_ms) for unix_ms, _, port in acknowledged if int(port) != victim.port), None)

        return wait_until(found, seconds=GAP_MAX_S, what="a message acknowledged by another broker")

    def results(self) -> Iterator[dict[str, Any]]:
        """Yield what came of each kill: everything acknowledged is looked for."""
        if not self.kills:
            return
        if self.restarted is not None:
            self.restarted.ready()
        self.brokers.wait_until_complete()
        self.load.stop()
        acknowledged = {key: int(unix_ms) for unix_ms, key, _ in OK.findall(self.load.process.text())}
        scan = self.lab.scan("scan", namesrv=[self.brokers.namesrv.address], topic=self.brokers.topic)
        missing, end = set(acknowledged), time.monotonic() + SCAN_S
        while missing and time.monotonic() < end:
            missing = acknowledged.keys() - set(scan.keys(seconds=SCAN_S) or ())
        before_ms = 0
        for killed_ms, elected_ms, gap_ms in self.kills:
            # What the dead master acknowledged may be noted a moment after its end.
            until_ms = killed_ms + gap_ms - 1
            sent = {key for key, unix_ms in acknowledged.items() if before_ms < unix_ms <= until_ms}
            before_ms = until_ms
            yield {
                "setting": self.setting,
                "commit": commit_of(self.tree),
                "elected_ms": elected_ms,
                "gap_ms": gap_ms,
                "acknowledged": len(sent),
                "lost": len(sent & missing),
            }


class _ControllerOf(OurController):
    """The controller of a checkout."""

    def __init__(self, tree: Path, folder: Path) -> None:
        super().__init__(folder)
        self._tree = tree

    def _launch(self) -> Process:
        command = [sys.executable, "-m", "controller", "-c", self._file]
        env = os.environ | {"PYTHONPATH": str(self._tree), "HOME": str(self.folder)}
        return Process(self.name, command, folder=self.folder, env=env)


def commit_of(tree: Path) -> str:
    """Return the commit that a checkout has, and by what its controller elects."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tree).stdout.strip()
    places = ("controller/log_ends.py", "controller/failure_detection/log_ends.py")
    queries = any((tree / place).exists() for place in places)
    return f"{commit}, {'queries the living' if queries else 'by the last heartbeats'}"


def slice_of(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Kill masters of all settings, until each has had its kills or the time is over."""
    end = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as closing:
        subjects = []
        wanted = itertools.product(options.setting or SETTINGS, options.tree or [REPOSITORY])
        for number, (setting, tree) in enumerate(wanted):
            subject = Subject(setting, tree, Path(folder) / f"s{number}").start()
            closing.callback(subject.lab.close)
            subjects.append(subject)
        with ThreadPoolExecutor(len(subjects)) as threads:
            return [each for results in threads.map(lambda it: it.run(options.runs, end), subjects) for each in results]


def seconds(value: float) -> str:
    """Return a duration for a table."""
    return "-" if math.isnan(value) else f"{value:.2f}"


def lines_of(results: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the table of all results."""
    yield (
        f"kill -9 of the master under load: {THREADS} threads send {PADDING_BYTES} bytes each, {INTERVAL_MS} ms after "
        f"the last answer. One slave stands still\nfrom {STILL_BEFORE_S} s before it until {STILL_AFTER_S} s after it. "
        "Each set has a controller of its own; masters of several sets\nare killed side by side. With inSyncReplicas=2 "
        "nothing is acknowledged before a slave has found the new master, for\nwhich slaves of Java look each 5 s; the "
        "controller that asks waits for the slave that stands still, as that may\nhold messages alone."
    )
    yield ""
    yield from table(
        "brokers",
        "controller",
        "kills",
        "kills that lost",
        "lost of acknowledged",
        "until elected, s: median",
        "worst",
        "gap, s: median",
        "p90",
        "worst",
    )
    for (setting, commit), kills in Counter((each["setting"], each["commit"]) for each in results).items():
        chosen = [each for each in results if (each["setting"], each["commit"]) == (setting, commit)]
        gaps = sorted(each["gap_ms"] / 1000 for each in chosen)
        lost, sent = sum(each["lost"] for each in chosen), sum(each["acknowledged"] for each in chosen)
        losing = sum(1 for each in chosen if each["lost"])
        p90 = gaps[min(len(gaps) - 1, len(gaps) * 9 // 10)]
        elected = [each["elected_ms"] / 1000 for each in chosen if "elected_ms" in each] or [math.nan]
        cells = (
            seconds(median(elected)),
            seconds(max(elected)),
            f"{median(gaps):.2f}",
            f"{p90:.2f}",
            f"{gaps[-1]:.2f}",
        )
        yield row(setting, commit, f"{kills} of {KILLS}", losing, f"{lost} of {sent}", *cells)


def main() -> None:
    """Measure a slice, or write what slices have measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=KILLS)
    parser.add_argument("--minutes", type=float, default=1_000, help="no kill begins later")
    parser.add_argument("--setting", action="append", choices=[*SETTINGS], help="only these; each time another set")
    parser.add_argument("--tree", type=Path, action="append", help="with the controller of this checkout")
    parser.add_argument("--results", type=Path, help="a file of JSON lines; what is measured is added")
    parser.add_argument("--write", action="store_true", help="measure nothing, and write what the file has")
    options = parser.parse_args()
    # Told to stop, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = [] if options.write else slice_of(options)
    if options.results is not None:
        with options.results.open("a") as file:
            file.writelines(json.dumps(each) + "\n" for each in results)
        results = [json.loads(line) for line in options.results.read_text().splitlines()]
    if options.write or (options.results is None and options.runs == KILLS):
        keep("replicas", "make bench-replicas", lines_of(results))
    else:
        print("\n".join(lines_of(results)), flush=True)


if __name__ == "__main__":
    main()
