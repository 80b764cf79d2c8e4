"""How fast `rmq history` tells a route of any second of a month, at 300 brokers with 10,000 topics each.

    make bench-history                                   (about ten minutes; into benchmarks/HISTORY.md)
    python benchmarks/time_machine.py --days 2 --asks 5  (prints only)

The history is written first, by `recorded_month.py`. Then the command is run as an operator runs it, with Python's
start, and each route it tells is compared with what the plan of these days says.
"""

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from recorded_month import (
    ALTERED_AN_HOUR,
    FIRST_SNAPSHOT_US,
    HOUR_US,
    LEAVE_AN_HOUR,
    PERM,
    PROCESSES,
    RACK,
    RACK_HOUR,
    SECOND_US,
    TUNED_AN_HOUR,
    Kind,
    Plan,
    Size,
    address_of,
    write_days,
)
from servers import REPOSITORY

from history.landing import LANDING

RESULTS: Final = REPOSITORY / "benchmarks" / "HISTORY.md"
GOAL_S: Final = 2.0
BEGAN: Final = datetime(2026, 10, 1, tzinfo=UTC)
#: Whole runs are those that the page is written of.
WHOLE: Final = Size(30, 300, 10_000)
ASKS: Final = 100


class Timed(NamedTuple):
    """How long one kind of question took, each time."""

    what: str
    seconds: list[float]

    @property
    def is_reached(self) -> bool:
        """Tell whether no question took too long."""
        return max(self.seconds) < GOAL_S

    def line(self) -> str:
        """Return it as a line of the table."""
        times = f"{statistics.median(self.seconds):.2f} | {max(self.seconds):.2f}"
        return f"| {self.what} | {len(self.seconds)} | {times} | {'yes' if self.is_reached else '**no**'} |"


class Querying:
    """Asks the command, and knows the answers."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._dice = random.Random(2)  # noqa: S311  # the same questions each time
        self._topics = plan.topics()

    def table(self, asks: int) -> list[Timed]:
        """Ask everything."""
        plan = self._plan
        # Snapshots come two minutes after the start, and each hour from then on; before the next one most is read.
        hours = [self._dice.randrange(1, 24 * plan.size.days) for _ in range(10)]
        ends = [plan.began_us + hour * HOUR_US + FIRST_SNAPSHOT_US - SECOND_US for hour in hours]
        seconds = (plan.ended_us - plan.began_us) // SECOND_US
        randomly = [plan.began_us + self._dice.randrange(60, seconds) * SECOND_US for _ in range(asks)]
        # All brokers have registered half a minute after the start.
        first, last = plan.began_us + 40 * SECOND_US, plan.ended_us - SECOND_US
        return [
            Timed("a route at a random second", [self.route(at_us) for at_us in randomly]),
            Timed("a route in the second before a snapshot", [self.route(at_us) for at_us in ends]),
            Timed("a route in the first minute", [self.route(first) for _ in range(3)]),
            Timed("a route in the last second", [self.route(last) for _ in range(3)]),
            Timed("`--diff` of two seconds", [self.diff(*each) for each in zip(randomly, ends, strict=False)]),
            Timed("`timeline` of the hour of an incident", [self.timeline(day) for day in range(plan.size.days)]),
        ]

    def route(self, at_us: int) -> float:
        """Ask for a topic's route; return the seconds it took."""
        topic = self._dice.choice(self._topics)
        took, out = self._run("route", topic, "--body", "--at", _text(at_us))
        answer = json.loads(out)
        stops = self._plan.restart_us
        if not any(each.kind is Kind.STOPS and each.unix_us <= at_us < stops for each in self._plan.all):
            assert answer["doubt"] == "", answer["doubt"]
        body = json.loads(answer["route"]) if answer["route"] else {"queueDatas": [], "brokerDatas": []}
        queues = {each["brokerName"]: each["readQueueNums"] for each in body["queueDatas"]}
        true = self._plan.route(topic, at_us)
        assert queues == true, f"{topic} at {_text(at_us)}: {set(queues.items()) ^ set(true.items())}"
        assert all(each["perm"] == PERM for each in body["queueDatas"])
        addresses = {each["brokerName"]: each["brokerAddrs"] for each in body["brokerDatas"]}
        assert addresses == {name: {"0": address_of(int(name.removeprefix("broker-")))} for name in true}
        return took

    def diff(self, first_us: int, second_us: int) -> float:
        """Ask what is different; return the seconds it took."""
        topic = self._dice.choice(self._topics)
        took, out = self._run("route", topic, "--at", _text(first_us), "--diff", _text(second_us), "-o", "json")
        changed = {(row["change"], row["brokerName"], row["readQueueNums"]) for row in json.loads(out)["items"]}
        sides = [self._plan.route(topic, at_us) for at_us in (first_us, second_us)]
        true = {
            (change, name, queues)
            for change, (mine, other) in (("removed", sides), ("added", sides[::-1]))
            for name, queues in mine.items()
            if other.get(name) != queues
        }
        assert changed == true, topic
        return took

    def timeline(self, day: int) -> float:
        """Ask for the story of a broker of the rack that fell silent; return the seconds it took."""
        hour_us = self._plan.began_us + (24 * day + RACK_HOUR) * HOUR_US
        number = self._dice.randrange(min(RACK, self._plan.size.brokers))
        span = ("--from", _text(hour_us), "--to", _text(hour_us + HOUR_US))
        took, out = self._run("timeline", f"broker-{number}", *span, "-o", "json")
        lines = [row["event"] for row in json.loads(out)["items"]]
        assert any(" expires: " in line for line in lines), out
        assert any(line.startswith("registers") for line in lines), out
        return took

    def _run(self, *words: str) -> tuple[float, str]:
        command = [sys.executable, "-m", "rmq", "--history", str(self._folder), "history", *words]
        began = time.perf_counter()
        ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True, text=True)
        return time.perf_counter() - began, ended.stdout


def _text(unix_us: int) -> str:
    return datetime.fromtimestamp(unix_us // SECOND_US, UTC).isoformat()


def _from_disk(files: list[Path]) -> None:
    """Let files that were just written be read from the disk again."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def main() -> None:
    """Write the days, ask, print, and keep the table of a whole run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=WHOLE.days)
    parser.add_argument("--brokers", type=int, default=WHOLE.brokers)
    parser.add_argument("--topics", type=int, default=WHOLE.topics)
    parser.add_argument("--asks", type=int, default=ASKS)
    options = parser.parse_args()
    size = Size(options.days, options.brokers, options.topics)
    plan = Plan(size, int(BEGAN.timestamp()) * SECOND_US)
    with tempfile.TemporaryDirectory(prefix="bench-history-") as temporary:
        folder = Path(temporary)
        began = time.perf_counter()
        write_days(folder, plan)
        wrote_s = time.perf_counter() - began
        files = [path for path in (folder / LANDING).rglob("*") if path.is_file()]
        megabytes = sum(path.stat().st_size for path in files) / 1e6
        print(f"{size.days} days: {len(files)} files, {megabytes:.0f} MB, written in {wrote_s:.0f} s", flush=True)
        _from_disk(files)
        table = Querying(folder, plan).table(options.asks)
    text = f"""# Any route of a month

Taken {datetime.now(UTC):%Y-%m-%d} by `make bench-history` on {platform.machine()}, {os.cpu_count()} cores, \
Python {platform.python_version()}.

{size.days} days of one NameServer, {size.brokers} brokers with {size.topics} topics each: {len(files)} files, \
{megabytes:.0f} MB, written by
{PROCESSES} processes in {wrote_s:.0f} s. Each hour has a snapshot, {LEAVE_AN_HOUR} brokers that leave and return, \
{ALTERED_AN_HOUR} topic that gets other queues on
all brokers, {TUNED_AN_HOUR} that get other ones on one broker, and as many that get theirs back; each day a rack of \
{RACK} brokers
is gone for minutes, and topics are made and deleted. In the middle the NameServer is restarted. No heartbeats are
written: the time machine never opens their files.

A time is that of the whole command, with Python's start. All routes were as they had been served.

| question | times | median, s | longest, s | < {GOAL_S:g} s |
|---|---|---|---|---|
{chr(10).join(each.line() for each in table)}
"""
    print(text)
    if size == WHOLE and options.asks == ASKS:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
