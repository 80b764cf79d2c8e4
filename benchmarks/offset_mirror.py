"""The mirror of many brokers' offsets: what it takes of a core and of memory, and what its changes would fill.

    python benchmarks/offset_mirror.py                     (about two minutes, into benchmarks/CONTROLLER.md)
    python benchmarks/offset_mirror.py --seconds 10        (prints only)

A process of its own plays the brokers, each at its own port on loopback; another one mirrors them with the poller and
the client of the product into its file. What is kept of a day is what the changes of the run take as they are, for an
hour, and merged to one a minute, for the rest. Processor time is that of the mirror's process, so it does not matter
what else runs on the machine. Every offset that moves does so between two readings, once in all queues of some groups,
as groups consume, and once in queues here and there, where each entry has one or two.
"""

import argparse
import asyncio
import contextlib
import json
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvloop
from controller_results import keep, row, table
from servers import REPOSITORY, Stolen

sys.path.insert(0, str(REPOSITORY))

from controller.offsets.mirror.changes import MirrorChanges
from controller.offsets.mirror.kept_rewinds import KeptRewinds
from controller.offsets.mirror.masters import MirroredMaster, SetName
from controller.offsets.mirror.poller import MirrorPoller, MirrorRuntime, PollerOptions, PollReport
from controller.offsets.mirror.regressions import RegressionLog
from controller.offsets.mirror_file.clock_leaps import ClockLeaps
from controller.offsets.mirror_file.keeper import KeeperParts, MirrorKeeper
from controller.offsets.mirror_file.mirror_file import FILE_NAME, open_mirror
from controller.offsets.mirror_file.thinning import HOUR_MS
from remoting.admin.client import AdminClient, AdminLimits
from remoting.background_tasks import BackgroundTasks
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import BrokerRequestCode, RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import decode, encode

BROKERS: Final = 100
KEYS: Final = 1_000
QUEUES: Final = 10
PERIOD_MS: Final = 5_000
MOVED: Final = 0.05
GOAL_SHARE: Final = 0.15
GOAL_MB: Final = 400
#: Of the readings that are due.
DONE_SHARE: Final = 0.95
#: How often the mirror's loop is to be free, and is looked at.
TICK_S: Final = 0.01
#: A machine on which the brokers are not all read within this is too busy to measure anything.
ALL_READ_S: Final = 60
SECONDS_OF_A_DAY: Final = 86_400
#: How what moves is spread: over whole entries, over single queues, or nothing moves.
SPREADS: Final = ("groups", "queues", "none")


class Broker:
    """The offsets of one broker; some have moved each time they are read."""

    def __init__(self, number: int, spread: str) -> None:
        self._random = random.Random(number)  # noqa: S311  # what moves need not be secret
        self._spread = spread
        self._names = [f"topic-of-orders-{key:05d}@group-of-readers-{key % 100:05d}" for key in range(KEYS)]
        self._offsets = [[10**8 + 977_777 * key % 10**8 + queue for queue in range(QUEUES)] for key in range(KEYS)]
        self._entries = [self._entry(key) for key in range(KEYS)]
        topics: dict[str, list[str]] = {}
        for name in self._names:
            topic, _, group = name.partition("@")
            topics.setdefault(group, []).append(topic)
        self._head = f'"dataVersion":{{"counter":7}},"groupTopicMap":{json.dumps(topics)}'.encode()
        state = {"brokerVersionDesc": "V5_5_0", "bootTimestamp": "1700000000000", "commitLogMaxOffset": "900"}
        state |= {f"key{number}": "1 2 3" for number in range(50)}
        self._runtime = json.dumps({"table": state}).encode()
        epochs = {"brokerName": f"broker-{number}", "clusterName": "c", "brokerId": 0, "maxOffset": 900}
        self._epochs = json.dumps(epochs | {"epochList": [{"epoch": 1, "startOffset": 0}]}).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the connection closes."""
        while prefix := await _or_nothing(reader.read(4)):
            length = int.from_bytes(prefix)
            request = decode(prefix + await reader.readexactly(length), 0, length)
            body = self._runtime
            if request.code == BrokerRequestCode.GET_ALL_CONSUMER_OFFSET:
                body = self._moved()
            elif request.code == RequestCode.GET_BROKER_EPOCH_CACHE:
                body = self._epochs
            writer.write(encode(RemotingCommand(0, opaque=request.opaque, flag=1, body=body)))

    def _moved(self) -> bytes:
        places = range(KEYS * QUEUES)
        if self._spread == "groups":
            keys = self._random.sample(range(KEYS), round(KEYS * MOVED))
            places = [key * QUEUES + queue for key in keys for queue in range(QUEUES)]
        elif self._spread == "queues":
            places = self._random.sample(places, round(KEYS * QUEUES * MOVED))
        else:
            places = []
        for place in places:
            self._offsets[place // QUEUES][place % QUEUES] += self._random.randrange(1, 500)
        for key in {place // QUEUES for place in places}:
            self._entries[key] = self._entry(key)
        offsets = b",".join(self._entries)
        return b'{%b,"offsetTable":{%b},"pullOffsetTable":{%b}}' % (self._head, offsets, offsets)

    def _entry(self, key: int) -> bytes:
        queues = ",".join(f"{queue}:{offset}" for queue, offset in enumerate(self._offsets[key]))
        return f'"{self._names[key]}":{{{queues}}}'.encode()


async def _or_nothing(read: Awaitable[bytes]) -> bytes:
    try:
        return await read
    except ConnectionError:
        return b""


async def serve(spread: str) -> None:
    """Play all brokers, and print their ports."""
    servers = [await asyncio.start_server(Broker(number, spread).serve, "127.0.0.1", 0) for number in range(BROKERS)]
    print(json.dumps([each.sockets[0].getsockname()[1] for each in servers]), flush=True)
    await asyncio.Event().wait()


class Counter:
    """Counts what the mirror hands on, and hands it to the file."""

    def __init__(self, sets: int) -> None:
        self._sets = sets
        self.keeper: MirrorKeeper | None = None
        self._read: set[SetName] = set()
        self.all_read = asyncio.Event()
        self.polls = self.failures = self.moves = self.entries = self.body_bytes = self.stores = 0

    def numbers(self) -> dict[str, int]:
        """Return what was counted so far."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int) and name != "_sets"}

    async def offsets_changed(self, changes: MirrorChanges) -> None:
        """Count changes, and have them stored."""
        for entries in (changes.moved.advanced, changes.moved.new):
            self.entries += len(entries)
            self.moves += sum(len(each.moves) for each in entries)
        assert self.keeper is not None, "the file is opened first"
        self.keeper.changed(changes)

    def stored(self, _file_bytes: int) -> None:
        """Count a write."""
        self.stores += 1

    def store_failed(self, error: str) -> None:
        """Report a write that failed."""
        self.failures += 1
        print(error, file=sys.stderr)

    def loaded(self, sets: int, entries: int, regressions: int, duration_ms: int) -> None:
        """Take that the file is open."""

    def began_without_file(self) -> None:
        """Report that the file cannot be opened yet."""
        print("the file cannot be opened yet", file=sys.stderr)

    def clock_leapt(self, leap_ms: int) -> None:
        """Report a clock that leaps ahead."""
        print(f"the clock has leapt by {leap_ms} ms", file=sys.stderr)

    def clock_set_back(self, sets: int) -> None:
        """Report a clock that is set back."""
        print(f"the clock was set back under {sets} sets", file=sys.stderr)

    def moved_aside(self, error: str) -> None:
        """Report a damaged file."""
        print(error, file=sys.stderr)

    def polled(self, report: PollReport) -> None:
        """Count a reading."""
        self._read.add(report.master.set_name)
        if len(self._read) == self._sets:
            self.all_read.set()
        self.polls += 1
        self.body_bytes += report.body_bytes

    def poll_failed(self, _master: MirroredMaster, _error: Exception) -> None:
        """Count a reading that failed."""
        self.failures += 1


async def mirror(ports: list[int], seconds: float, folder: Path) -> None:
    """Mirror the brokers into a file in a folder, and print what that takes once all of them were read."""
    client = RemotingClient(SystemClock())
    counter = Counter(len(ports))
    async with BackgroundTasks(lambda name, error: print(name, repr(error), file=sys.stderr)) as tasks:
        poller = make_poller(client, ports, counter, tasks)
        counter.keeper = keeper = make_keeper(folder, poller, counter)
        await keeper.open()
        works = [tasks.keep_running(poller.run, "offset mirror"), tasks.keep_running(keeper.run, "mirror file")]
        async with asyncio.timeout(ALL_READ_S):
            await counter.all_read.wait()
        late: list[float] = []
        works.append(asyncio.create_task(tick(late)))
        await asyncio.sleep(2)
        first_ms = SystemClock().unix_ms()
        figures = await used(seconds, counter)
        late.sort()
        figures |= {"late_p99_ms": late[len(late) * 99 // 100] * 1000}
        for each in works:
            each.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        await keeper.close()
        print(json.dumps(figures | kept_bytes(folder, first_ms, [*poller.set_names])), flush=True)
    await client.close()


def make_poller(client: RemotingClient, ports: list[int], counter: Counter, tasks: BackgroundTasks) -> MirrorPoller:
    """Return what reads the brokers at some ports."""
    masters = [
        MirroredMaster(SetName("c", f"broker-{number}"), f"127.0.0.1:{port}", 1) for number, port in enumerate(ports)
    ]
    runtime = MirrorRuntime(
        admin=AdminClient(client, AdminLimits(requests_max=128)),
        clock=SystemClock(),
        listener=counter,
        masters=lambda: masters,
        is_fresh=lambda: True,
        tasks=tasks,
    )
    return MirrorPoller(runtime, PollerOptions(period_ms=PERIOD_MS))


def make_keeper(folder: Path, poller: MirrorPoller, counter: Counter) -> MirrorKeeper:
    """Return what writes the file."""
    parts = KeeperParts(
        folder=folder,
        bytes_max=1 << 40,
        mirrors=poller,
        regressions=RegressionLog(),
        rewinds=KeptRewinds(),
        clock=SystemClock(),
        observer=counter,
        # The file is new, and opens at once.
        opened_late=lambda _: None,
    )
    return MirrorKeeper(parts)


async def used(seconds: float, counter: Counter) -> dict[str, float]:
    """Return what this process takes from now on, and what it counts."""
    written, before = written_bytes(), counter.numbers()
    began_s, used_s = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    used_s, took_s = time.process_time() - used_s, time.perf_counter() - began_s
    counted = {name: value - before[name] for name, value in counter.numbers().items()}
    figures = {"share": used_s / took_s, "used_s": used_s, "took_s": took_s, "memory_mb": memory_mb()}
    return figures | {"written_bytes": written_bytes() - written} | counted


def written_bytes() -> int:
    """Return what this process has written to disks so far."""
    found = re.search(r"^write_bytes: (\d+)", Path("/proc/self/io").read_text(), re.MULTILINE)
    assert found is not None, "Linux says what a process writes"
    return int(found[1])


def kept_bytes(folder: Path, first_ms: int, names: list[SetName]) -> dict[str, float]:
    """Return the bytes of changes as they are and merged to one a minute, and how long a start takes to load."""
    found: dict[str, float] = {"changes": changed_bytes(folder, first_ms)}
    began_s = time.perf_counter()
    file = open_mirror(folder, SystemClock()).file
    found["load_s"] = time.perf_counter() - began_s
    for name in names:
        file.thin(name, ClockLeaps(), SystemClock().unix_ms() + 2 * HOUR_MS)
    file.close()
    return found | {"merged": changed_bytes(folder, first_ms)}


def changed_bytes(folder: Path, first_ms: int) -> int:
    """Return the bytes of all changes since a time."""
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        query = "SELECT coalesce(sum(length(body)), 0) FROM changes WHERE unix_ms >= ?"
        return int(connection.execute(query, (first_ms,)).fetchone()[0])


def memory_mb() -> float:
    """Return the resident memory of this process."""
    found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None, "Linux says how much memory a process holds"
    return int(found[1]) / 1024


async def tick(late: list[float]) -> None:
    """Note how much later than wanted the loop comes back."""
    while True:
        began_s = time.perf_counter()
        await asyncio.sleep(TICK_S)
        late.append(time.perf_counter() - began_s - TICK_S)


class Figures(NamedTuple):
    """What was measured of one spread."""

    spread: str
    figures: dict[str, Any]
    stolen_percent: float


def measured(seconds: float) -> Iterator[str]:
    """Yield the lines of the part."""
    yield (
        f"{BROKERS} brokers of {KEYS * QUEUES:,} queues that groups consume ({KEYS:,} entries of {QUEUES}), each read "
        f"once in {PERIOD_MS // 1000} s for {seconds:.0f} s.\n"
        f"{MOVED:.0%} of the queues have moved at each reading: all of some groups, or some here and there. Goal: "
        f"< {GOAL_SHARE:.0%} of a core,\n< {GOAL_MB} MB, and nothing stored for groups that stand still."
    )
    yield ""
    yield from table(
        "what moves", "share of a core", "ms each", "memory, MB", "readings", "failed", "KB each", "entries a second",
        "changes of an hour, MB", "kept of a day, GB", "written, MB/s", "load, s", "loop late, ms: p99",
        "stolen", "reached",
    )  # fmt: skip
    for spread in SPREADS:
        yield _line(_measure(spread, seconds))


def _measure(spread: str, seconds: float) -> Figures:
    brokers = _started("--serve", spread)
    try:
        assert brokers.stdout is not None, "it is a pipe"
        ports = brokers.stdout.readline()
        with Stolen() as stolen, tempfile.TemporaryDirectory() as folder:
            mirroring = _started("--mirror", ports, "--seconds", str(seconds), "--folder", folder)
            try:
                output, _ = mirroring.communicate(timeout=120 + 3 * seconds)
            finally:
                mirroring.kill()
        return Figures(spread, json.loads(output), stolen.percent)
    finally:
        brokers.kill()
        brokers.wait()


def _started(*options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, __file__, *options], stdout=subprocess.PIPE, text=True)


def _line(measured_: Figures) -> str:
    spread, figures, stolen_percent = measured_
    hour_mb = figures["changes"] / figures["took_s"] * 3600 / 1e6
    day_gb = hour_mb / 1e3 + figures["merged"] / figures["took_s"] * (SECONDS_OF_A_DAY - 3600) / 1e9
    due = BROKERS * figures["took_s"] * 1000 / PERIOD_MS
    is_reached = figures["share"] < GOAL_SHARE and figures["memory_mb"] < GOAL_MB and not figures["failures"]
    # A machine that is busy with something else reads less, which takes less.
    is_reached = is_reached and figures["polls"] > DONE_SHARE * due
    if spread == "none":
        is_reached = is_reached and figures["changes"] == 0
    names = {"groups": "all queues of some groups", "queues": "some queues of many groups", "none": "nothing"}
    return row(
        names[spread],
        f"**{figures['share']:.1%}**",
        f"{figures['used_s'] / max(figures['polls'], 1) * 1000:.1f}",
        f"{figures['memory_mb']:.0f}",
        figures["polls"],
        figures["failures"],
        f"{figures['body_bytes'] / max(figures['polls'], 1) / 1024:.0f}",
        f"{figures['entries'] / figures['took_s']:.0f}",
        f"{hour_mb:.0f}",
        f"{day_gb:.2f}",
        f"{figures['written_bytes'] / figures['took_s'] / 1e6:.2f}",
        f"{figures['load_s']:.2f}",
        f"{figures['late_p99_ms']:.1f}",
        f"{stolen_percent:.0f} %",
        "yes" if is_reached else "no",
    )


def main() -> None:
    """Measure and keep, or only print; or play a part of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="how long each spread is measured; prints only")
    parser.add_argument("--serve", choices=SPREADS, help=argparse.SUPPRESS)
    parser.add_argument("--mirror", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve(options.serve))
    elif options.mirror:
        uvloop.run(mirror(json.loads(options.mirror), options.seconds, options.folder))
    elif options.seconds:
        for line in measured(options.seconds):
            print(line, flush=True)
    else:
        keep("offset_mirror", "make bench-offset-mirror", measured(30))


if __name__ == "__main__":
    main()
