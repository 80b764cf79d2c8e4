"""How fast `rmq-history` tells a route of any moment of a month, at 300 brokers with 10,000 topics each.

    make bench-history                                  (about five minutes, into benchmarks/HISTORY.md)
    python benchmarks/time_machine.py --days 1 --asks 5  (prints only)

A month is made with the product's own rows: each hour a snapshot, brokers that leave and return, and topics that
change. Then the command is run for moments anywhere in it, as an operator runs it.
"""

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from servers import REPOSITORY

from history.landing import LANDING, Landing
from history.life import Life, Tick
from history.recorder import encoded
from history.rows import Moment, RowMaker
from namesrv.config import NameServerConfig
from namesrv.history_rows import RouteProperties, SetsChanged, configured, snapshot
from namesrv.registration import Registration
from namesrv.route_state import RouteState
from namesrv.tables.live_table import LiveKey
from namesrv.topic_settings import TopicSettings
from remoting.shapes.route import DataVersion

RESULTS: Final = REPOSITORY / "benchmarks" / "HISTORY.md"
HOUR_US: Final = 3_600_000_000
TICKS: Final = 360
LEAVE_AN_HOUR: Final = 5
CHANGES_AN_HOUR: Final = 200
GOAL_S: Final = 2.0
BOOT_ID: Final = "namesrv:9876-1"


class Size(NamedTuple):
    """How much there is."""

    days: int
    asks: int
    brokers: int
    topics: int


class Month:
    """A NameServer's history, written hour by hour."""

    def __init__(self, folder: Path, size: Size, began: datetime) -> None:
        self._size = size
        self._landing = Landing(folder, BOOT_ID)
        self._maker = RowMaker("namesrv_9876", 1, "namesrv")
        self._state = RouteState(NameServerConfig())
        self._state.keeps_changes = True
        self._random = random.Random(1)  # noqa: S311  # the same month each time
        self._us = int(began.timestamp()) * 1_000_000
        self._counter = 1
        for number in range(size.brokers):
            self._register(number)
        self._state.take_changes()
        self.topics = list(self._state.tables.topics.topics())

    def write(self) -> None:
        """Write all of it."""
        properties = RouteProperties(support_acting_master=False, order_message_enable=False)
        self._note(Life("started", reason="namesrv"), configured(properties))
        for _ in range(24 * self._size.days):
            self._note(configured(properties), *snapshot(self._state.tables, str(self._us)))
            for tick in range(TICKS):
                self._us += HOUR_US // TICKS
                self._note(Tick({"interval_ms": 10_000}), *self._happenings(tick))
            self._landing.seal_all()

    def _happenings(self, tick: int) -> Iterator[SetsChanged]:
        if tick % (TICKS // LEAVE_AN_HOUR) == 0:
            number = self._random.randrange(self._size.brokers)
            key = LiveKey(f"broker-{number}", f"10.0.0.{number}:10911")
            left = self._state.unregister_broker("C", key, 10**9, 0)
            yield SetsChanged(left.events, self._state.take_changes())
            yield self._register(number)
        elif tick % (TICKS // CHANGES_AN_HOUR + 1) == 0:
            yield self._register(self._random.randrange(self._size.brokers), changed=self._random.choice(self.topics))

    def _register(self, number: int, changed: str = "") -> SetsChanged:
        self._counter += 1
        topics = {f"topic-{each:05}": TopicSettings(6, 8, 8, 0) for each in range(self._size.topics)}
        if changed:
            topics[changed] = TopicSettings(6, self._random.randrange(1, 64), 8, 0)
        outcome = self._state.register_broker(
            Registration(
                cluster="C",
                broker_name=f"broker-{number}",
                broker_id=0,
                address=f"10.0.0.{number}:10911",
                data_version=DataVersion(counter=self._counter),
                topics=topics,
                connection_id=1,
            ),
            0,
        )
        assert outcome is not None, "the whole was registered"
        return SetsChanged(outcome.events, self._state.take_changes())

    def _note(self, *happenings: object) -> None:
        by_family: dict[str, list[bytes]] = {}
        moment = Moment(self._us, self._us)
        for each in happenings:
            for row in each.rows(self._maker, moment):  # type: ignore[attr-defined]  # all have it
                by_family.setdefault(row.family.name, []).append(encoded(row))
        for family, lines in by_family.items():
            self._landing.append(family, b"".join(lines), self._us)


def ask(folder: Path, topic: str, at: datetime) -> float:
    """Run the command; return the seconds it took."""
    command = [sys.executable, "-m", "timemachine", "--history", str(folder), "route", topic, "--json"]
    began = time.perf_counter()
    ended = subprocess.run(
        [*command, "--at", at.isoformat()], cwd=REPOSITORY, capture_output=True, check=True, text=True
    )
    took = time.perf_counter() - began
    said = json.loads(ended.stdout)
    assert said["doubt"] == "", said["doubt"]
    assert said["route"] is not None, f"{topic} has a route at {at}"
    return took


def main() -> None:
    """Make the month, ask, print, and keep the table of a full run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--asks", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=300)
    parser.add_argument("--topics", type=int, default=10_000)
    size = Size(**vars(parser.parse_args()))
    began = datetime(2026, 10, 1, tzinfo=UTC)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        month = Month(folder, size, began)
        written = time.perf_counter()
        month.write()
        print(f"written in {time.perf_counter() - written:.0f} s")
        files = [path for path in (folder / LANDING).rglob("*") if path.is_file()]
        megabytes = sum(path.stat().st_size for path in files) / 1e6
        dice = random.Random(2)  # noqa: S311  # the same moments each time
        moments = [began + timedelta(seconds=dice.randrange(60, 86_400 * size.days)) for _ in range(size.asks)]
        took = sorted(ask(folder, dice.choice(month.topics), at) for at in moments)
    text = f"""# Any route of a month

Taken {datetime.now(UTC):%Y-%m-%d} by `make bench-history` on {platform.machine()}, Python {platform.python_version()}.

{size.brokers} brokers with {size.topics} topics each, {size.days} days: {len(files)} files, {megabytes:.0f} MB;
each hour a snapshot, {LEAVE_AN_HOUR} brokers that leave and return, and some {CHANGES_AN_HOUR} other changes.
The whole command, {size.asks} times at random moments.

| median, s | longest, s | goal, s | reached |
|---|---|---|---|
| {statistics.median(took):.2f} | {took[-1]:.2f} | {GOAL_S:g} | {"yes" if took[-1] < GOAL_S else "**no**"} |
"""
    print(text)
    if size == Size(30, 100, 300, 10_000):
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
