"""Readings of many brokers' offsets: what they take of a core and of memory, and what their files take of a day.

    python benchmarks/offset_readings.py                     (eight minutes, into benchmarks/CONTROLLER.md)
    python benchmarks/offset_readings.py --seconds 10        (prints only)

A process of its own plays the masters and a replica of each, at ports of their own on loopback; another one reads them
as an offset manager does, into files. Processor time is that of the reader, so it does not matter what else runs on the
machine. Every offset that moves does so between two readings, once in all queues of some groups, as groups consume, and
once in queues here and there. Each log moves between two readings.

What the readings cost a broker is measured at a Java broker with as many offsets, which is read again and again.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import uvloop
from controller_results import keep, row, table
from offset_losses import MANY_OFFSETS, LoneSite, make_many_offsets
from offset_ways import OFFSET_WAYS
from peers.jars import V5_1, V5_5_1
from servers import REPOSITORY, Stolen

sys.path.insert(0, str(REPOSITORY))

from offsets.readings.reader import MasterReader, read_offsets
from offsets.readings.readings import Readings
from offsets.sets.followed import FollowedSet, SetMaster, SetMember
from offsets.sets.following import Following
from offsets.values import SetName
from remoting.admin.client import AdminClient, AdminLimits
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import BrokerRequestCode, RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.frame import decode, encode
from serving.telemetry.events import Counted, Event

BROKERS: Final = 100
KEYS: Final = 1_000
QUEUES: Final = 10
PERIOD_MS: Final = 5_000
MOVED: Final = 0.05
GOAL_SHARE: Final = 0.25
GOAL_MB: Final = 250
#: Of a core of the broker.
GOAL_BROKER_SHARE: Final = 0.01
#: Readings before those that count, and those that count: a broker's code is compiled by then.
WARM_READINGS, COUNTED_READINGS = 1_500, 1_000
#: So long the broker is left alone, to see what it needs without us.
ALONE_S: Final = 20
#: Of the readings that are due.
DONE_SHARE: Final = 0.95
#: The last minute is full by then.
WARM_S: Final = 65
MINUTES_OF_AN_HOUR: Final = 60
HOURS_KEPT: Final = 14 * 24
SPREADS: Final = ("groups", "queues", "none")
_BODY: Final = bytes(1000)


def message(place: int) -> bytes:
    """Return the message at a place of any log: all have the same length."""
    head = struct.pack(">iIiiqqiq", -626843481, 7, 0, 0, place // MESSAGE_BYTES, place, 0, 1_700_000_000_000)
    rest = struct.pack(">8sq8siqi", b"", 1_700_000_000_000, b"", 0, 0, len(_BODY)) + _BODY + b"\x06orders\x00\x00"
    return struct.pack(">i", 4 + len(head) + len(rest)) + head + rest


MESSAGE_BYTES = 1
MESSAGE_BYTES = len(message(0))


class Broker:
    """A master and its replica; some offsets have moved each time the master is read."""

    def __init__(self, number: int, spread: str) -> None:
        self._random = random.Random(number)  # noqa: S311  # what moves need not be secret
        self._number, self._spread, self._end = number, spread, 0
        self._names = [f"topic-of-orders-{key:05d}@group-of-readers-{key % 100:05d}" for key in range(KEYS)]
        self._offsets = [[10**8 + 977_777 * key % 10**8 + queue for queue in range(QUEUES)] for key in range(KEYS)]
        self._entries = [self._entry(key) for key in range(KEYS)]
        topics: dict[str, list[str]] = {}
        for name in self._names:
            topic, _, group = name.partition("@")
            topics.setdefault(group, []).append(topic)
        self._head = f'"dataVersion":{{"counter":7}},"groupTopicMap":{json.dumps(topics)}'.encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_master: bool) -> None:
        """Answer requests until the connection closes."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                prefix = await reader.readexactly(4)
                length = int.from_bytes(prefix)
                request = decode(prefix + await reader.readexactly(length), 0, length)
                code, body = self._answer(request, is_master=is_master)
                writer.write(encode(RemotingCommand(code, opaque=request.opaque, flag=1, body=body)))

    def _answer(self, request: RemotingCommand, *, is_master: bool) -> tuple[int, bytes]:
        match request.code:
            case BrokerRequestCode.GET_ALL_CONSUMER_OFFSET:
                return 0, self._moved() if is_master else self._body()
            case BrokerRequestCode.GET_BROKER_RUNTIME_INFO:
                state = {f"key{number}": "1 2 3" for number in range(50)} | {"bootTimestamp": "1700000000000"}
                limits = {"commitLogMinOffset": "0", "commitLogMaxOffset": str(self._end)}
                return 0, json.dumps({"table": state | limits}).encode()
            case RequestCode.GET_BROKER_EPOCH_CACHE:
                fields = {"brokerName": f"broker-{self._number}", "brokerId": 0, "maxOffset": self._end}
                return 0, json.dumps(fields | {"epochList": [{"epoch": 1, "startOffset": 0}]}).encode()
            case BrokerRequestCode.VIEW_MESSAGE_BY_ID:
                return 0, message(int((request.ext_fields or {})["offset"]))
            case BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST:
                return 206, b""
            case _:
                return 0, b""

    def _moved(self) -> bytes:
        places: Any = range(KEYS * QUEUES)
        self._end += 9 * MESSAGE_BYTES
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
        return self._body()

    def _body(self) -> bytes:
        offsets = b",".join(self._entries)
        return b'{%b,"offsetTable":{%b},"pullOffsetTable":{%b}}' % (self._head, offsets, offsets)

    def _entry(self, key: int) -> bytes:
        queues = ",".join(f"{queue}:{offset}" for queue, offset in enumerate(self._offsets[key]))
        return f'"{self._names[key]}":{{{queues}}}'.encode()


async def serve(spread: str) -> None:
    """Play all brokers, and print their ports: of each master and its replica."""
    ports = []
    for number in range(BROKERS):
        broker = Broker(number, spread)
        for is_master in (True, False):

            async def answer(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                broker: Broker = broker,
                is_master: bool = is_master,  # noqa: FBT001  # bound here
            ) -> None:
                await broker.serve(reader, writer, is_master=is_master)

            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            ports.append(server.sockets[0].getsockname()[1])
    print(json.dumps(ports), flush=True)
    await asyncio.Event().wait()


class Tally(Counter[str]):
    """Counts events by their names."""

    def emit(self, event: Event) -> None:
        """Count an event."""
        self[event.count.labels[0] if isinstance(event, Counted) else type(event).__name__] += 1


async def read(ports: list[int], seconds: float, folder: Path) -> None:
    """Read the brokers into files in a folder, and print what that takes once the last minute is full."""
    clock, tally = SystemClock(), Tally()
    client, following = RemotingClient(clock), Following(clock, tally.emit)
    for number in range(0, len(ports), 2):
        name = SetName("c", f"broker-{number // 2}")
        master, replica = (f"127.0.0.1:{port}" for port in ports[number : number + 2])
        members = (SetMember(1, master), SetMember(2, replica))
        following.sets = {**following.sets, name.broker_name: FollowedSet(name, SetMaster(name, 1, master, 1), members)}
    readings = Readings(
        client,
        following,
        clock,
        tally.emit,
        lambda name, error: print(name, repr(error), file=sys.stderr),
        store_path=folder,
        period_ms=PERIOD_MS,
        bytes_max=1 << 40,
    )
    late: list[float] = []
    works = [asyncio.create_task(work) for work in (readings.run(), stay_fresh(following, clock), tick(late))]
    await asyncio.sleep(WARM_S)
    late.clear()
    before, began_s, used_s, bytes_before = (
        Counter(tally),
        time.perf_counter(),
        time.process_time(),
        folder_bytes(folder),
    )
    await asyncio.sleep(seconds)
    used_s, took_s = time.process_time() - used_s, time.perf_counter() - began_s
    late.sort()
    fresh = sum(replica.copies is not None for status in readings.statuses() for replica in status.replicas)
    figures = {
        "share": used_s / took_s,
        "used_s": used_s,
        "took_s": took_s,
        "memory_mb": memory_mb(),
        "readings": tally["read"] - before["read"],
        "failed": tally["failed"],
        "replicas": fresh,
        "late_p99_ms": late[len(late) * 99 // 100] * 1000,
        "minute_bytes": (folder_bytes(folder) - bytes_before) / took_s * 60,
        "full_bytes": sum(minutes[0].full_bytes for minutes in files_of(readings)),
        "events": dict(tally),
    }
    for work in works:
        work.cancel()
    await asyncio.gather(*works, return_exceptions=True)
    await client.close()
    print(json.dumps(figures), flush=True)


def files_of(readings: Readings) -> Iterator[Any]:
    """Yield the files of each set."""
    return (files.minutes for files in readings._files._sets.values())  # noqa: SLF001  # measured


async def stay_fresh(following: Following, clock: SystemClock) -> None:
    """Let it be known who is master."""
    while True:
        following.answered_ms = clock.now_ms()
        await asyncio.sleep(0.5)


async def tick(late: list[float]) -> None:
    """Note how much later than wanted the loop comes back."""
    while True:
        began_s = time.perf_counter()
        await asyncio.sleep(0.01)
        late.append(time.perf_counter() - began_s - 0.01)


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files."""
    return sum(path.stat().st_size for path in folder.glob("**/*.readings"))


def memory_mb() -> float:
    """Return the resident memory of this process."""
    found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None, "Linux says how much memory a process holds"
    return int(found[1]) / 1024


def measured(seconds: float) -> Iterator[str]:
    """Yield the lines of the part."""
    yield (
        f"{BROKERS} brokers of {KEYS * QUEUES:,} queues that groups consume ({KEYS:,} entries of {QUEUES}), and a "
        f"replica of\neach, read once in {PERIOD_MS // 1000} s for {seconds:.0f} s. {MOVED:.0%} of the queues have "
        f"moved at each reading: all of some groups, or some here\nand there. Goal: < {GOAL_SHARE:.0%} of a core, "
        f"< {GOAL_MB} MB. "
        "Files: an hour of all readings, then one for each hour of 14 days."
    )
    yield ""
    yield from table(
        "what moves", "share of a core", "ms each", "memory, MB", "readings", "failed", "files of an hour, MB",
        "of 14 days, MB", "written a day, GB", "loop late, ms: p99", "stolen", "reached",
    )  # fmt: skip
    for spread in SPREADS:
        yield _line(spread, *_measure(spread, seconds))
    yield ""
    yield (
        f"A Java broker with {MANY_OFFSETS:,} offsets is read {COUNTED_READINGS:,} times as a master and as often as a "
        f"replica; what it\nneeds without us is taken off. Goal: <= {GOAL_BROKER_SHARE:.0%} of a core."
    )
    yield ""
    yield from table(
        "brokers", "read as", "requests a reading", "a second", "KB a reading", "ms of the broker", "share of a core",
        "reached",
    )  # fmt: skip
    for version in (V5_1, V5_5_1):
        yield from cost_at_broker(version)


class CountingClient(RemotingClient):
    """Counts what it requests."""

    requests = 0

    async def invoke(self, *request: Any) -> RemotingCommand:
        """Count a request, and send it."""
        self.requests += 1
        return await super().invoke(*request)


def cost_at_broker(version: str) -> Iterator[str]:
    """Yield what it costs a Java broker to be read as a master and as a replica."""
    with tempfile.TemporaryDirectory() as name, OFFSET_WAYS["alone"].begin(Path(name), version) as managed:
        site = LoneSite(managed, version)
        make_many_offsets(site)
        for role in ("master", "replica"):
            yield asyncio.run(_read_often(version, role, site.broker.address, site.broker.process.pid))


async def _read_often(version: str, role: str, address: str, pid: int) -> str:
    clock = SystemClock()
    client = CountingClient(clock)
    admin = AdminClient(client, AdminLimits())
    reader = MasterReader(admin, clock, SetMaster(SetName("DefaultCluster", "alone"), 0, address))
    read_bytes = 0

    async def read_times(times: int) -> None:
        nonlocal read_bytes
        for _ in range(times):
            # Looks at a message each time, as in a log that moves.
            text = (
                (await reader.read(is_log_known=False)).text if role == "master" else await read_offsets(admin, address)
            )
            read_bytes += len(text)

    try:
        await read_times(WARM_READINGS)
        client.requests = read_bytes = 0
        began_s, used_s = time.monotonic(), _processor_s(pid)
        await read_times(COUNTED_READINGS)
        took_s, used_s = time.monotonic() - began_s, _processor_s(pid) - used_s
        alone_s = _processor_s(pid)
        await asyncio.sleep(ALONE_S)
        alone_share = (_processor_s(pid) - alone_s) / ALONE_S
    finally:
        await client.close()
    each_s = (used_s - alone_share * took_s) / COUNTED_READINGS
    share, requests = each_s * 1000 / PERIOD_MS, client.requests / COUNTED_READINGS
    return row(
        version,
        role,
        f"{requests:.0f}",
        f"{requests * 1000 / PERIOD_MS:.1f}",
        f"{read_bytes / COUNTED_READINGS / 1000:.0f}",
        f"{each_s * 1000:.2f}",
        f"**{share:.2%}**",
        "yes" if share <= GOAL_BROKER_SHARE else "no",
    )


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _measure(spread: str, seconds: float) -> tuple[dict[str, Any], float]:
    brokers = _started("--serve", spread)
    try:
        assert brokers.stdout is not None, "it is a pipe"
        ports = brokers.stdout.readline()
        with Stolen() as stolen, tempfile.TemporaryDirectory() as folder:
            reading = _started("--read", ports, "--seconds", str(seconds), "--folder", folder)
            try:
                output, _ = reading.communicate(timeout=120 + 3 * seconds)
            finally:
                reading.kill()
        return json.loads(output), stolen.percent
    finally:
        brokers.kill()
        brokers.wait()


def _started(*options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, __file__, *options], stdout=subprocess.PIPE, text=True)


def _line(spread: str, figures: dict[str, Any], stolen_percent: float) -> str:
    due = BROKERS * figures["took_s"] * 1000 / PERIOD_MS
    is_reached = figures["share"] < GOAL_SHARE and figures["memory_mb"] < GOAL_MB and not figures["failed"]
    # A machine that is busy with something else reads less, which takes less.
    is_reached = is_reached and figures["readings"] > DONE_SHARE * due and figures["replicas"] == BROKERS
    names = {"groups": "all queues of some groups", "queues": "some queues of many groups", "none": "nothing"}
    return row(
        names[spread],
        f"**{figures['share']:.1%}**",
        f"{figures['used_s'] / max(figures['readings'], 1) * 1000:.1f}",
        f"{figures['memory_mb']:.0f}",
        figures["readings"],
        figures["failed"],
        f"{figures['minute_bytes'] * MINUTES_OF_AN_HOUR / 1e6:.0f}",
        f"{figures['full_bytes'] * HOURS_KEPT / 1e6:.0f}",
        f"{figures['minute_bytes'] * MINUTES_OF_AN_HOUR * 24 / 1e9:.1f}",
        f"{figures['late_p99_ms']:.1f}",
        f"{stolen_percent:.0f} %",
        "yes" if is_reached else "no",
    )


def main() -> None:
    """Measure and keep, or only print; or play a part of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="how long each spread is measured; prints only")
    parser.add_argument("--serve", choices=SPREADS, help=argparse.SUPPRESS)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        uvloop.run(serve(options.serve))
    elif options.read:
        uvloop.run(read(json.loads(options.read), options.seconds, options.folder))
    elif options.seconds:
        for line in measured(options.seconds):
            print(line, flush=True)
    else:
        keep("offset_readings", "make bench-offset-readings", measured(60))


if __name__ == "__main__":
    main()
