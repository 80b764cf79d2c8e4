"""Clients and brokers that send at a pace, as real ones do: open loop, so a slow answer delays no other request.

    paced.py PORT clients --connections N --every S --topics T --seconds S
    paced.py PORT brokers --brokers N --topics M --every S --seconds S [--hold]

`clients` asks for routes: N connections, each for T topics every S seconds, spread evenly. `brokers` registers N
brokers with M topics each, then again every S seconds, spread evenly, each time with another time in mappingDataVersion
as a real 5.x broker. Both print one JSON line: requests, errors, and latencies in milliseconds from when a request was
due until its answer was whole. A line `ready` tells that all are connected, or registered.
"""

import argparse
import asyncio
import gc
import json
import struct
import time
import zlib
from collections import deque
from collections.abc import Callable

import uvloop

VERSION = 513
REGISTER_BROKER, GET_ROUTE = 103, 105
CONNECTS_AT_ONCE = 100
#: How long an answer may take.
ANSWER_S = 30
PREFIX = struct.Struct(">II")


def frame(code: int, opaque: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    """Return a request as a Java 5.5.0 peer sends it."""
    header = {"code": code, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": opaque}
    text = json.dumps(header | {"serializeTypeCurrentRPC": "JSON", "version": VERSION}, separators=(",", ":")).encode()
    return struct.pack(">II", 4 + len(text) + len(body), len(text)) + text + body


#: Told whether an answer is a success; False also for one that never came.
Answered = Callable[[bool], None]


class Peer(asyncio.Protocol):
    """One connection; answers come in the order of the requests."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._waiting: deque[Answered] = deque()
        self.lost = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Keep the way back."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Tell of the answers that are whole."""
        received = self._received
        received += data
        while len(received) >= PREFIX.size:
            length, word = PREFIX.unpack_from(received)
            end = 4 + length
            if len(received) < end:
                return
            is_success = received.find(b'"code":0,', 8, 8 + (word & 0xFFFFFF)) > 0
            del received[:end]
            self._waiting.popleft()(is_success)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what waits."""
        del exc
        self.lost = True
        self.give_up()

    @property
    def waits(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._waiting)

    def give_up(self) -> None:
        """Fail what waits."""
        while self._waiting:
            self._waiting.popleft()(False)

    def request(self, answered: Answered, *pieces: bytes) -> None:
        """Send a request; over a connection that is lost it fails at once."""
        if self.lost:
            answered(False)
            return
        self._waiting.append(answered)
        self.transport.writelines(pieces)


class Tally:
    """Latencies in milliseconds, and errors."""

    def __init__(self) -> None:
        self.latencies: list[float] = []
        self.errors = 0

    def note(self, due: float, good: bool) -> None:  # noqa: FBT001  # as the answers say it
        """Count an answer to a request that was due then."""
        self.latencies.append((time.perf_counter() - due) * 1000)
        self.errors += not good

    def line(self) -> str:
        """Return what is printed."""
        ordered = sorted(self.latencies) or [0.0]
        at = {name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] for name, share in SHARES.items()}
        return json.dumps({"requests": len(self.latencies), "errors": self.errors, **at, "max_ms": ordered[-1]})


SHARES = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}


async def connected(port: int, count: int) -> list[Peer]:
    """Open many connections, some at a time."""
    loop, room = asyncio.get_running_loop(), asyncio.Semaphore(CONNECTS_AT_ONCE)

    async def connect(number: int) -> Peer:
        # One address of loopback has too few ports for very many connections to one place.
        source = (f"127.0.0.{2 + number % 8}", 0)
        async with room:
            _, peer = await loop.create_connection(Peer, "127.0.0.1", port, local_addr=source)
            return peer

    return list(await asyncio.gather(*(connect(number) for number in range(count))))


async def paced(count: int, interval_s: float, seconds: float, send: Callable[[int, float], None]) -> None:
    """Call `send` for each number at its own offset, again every `interval_s`, for `seconds`."""
    began = time.perf_counter()
    step, at = interval_s / count, 0
    while (due := began + at * step) < began + seconds:
        if (early := due - time.perf_counter()) > 0:
            await asyncio.sleep(early)
        send(at % count, due)
        at += 1


async def clients(options: argparse.Namespace) -> Tally:
    """Ask for routes."""
    peers, tally = await connected(options.port, options.connections), Tally()
    requests = [frame(GET_ROUTE, 7, {"topic": f"bench-topic-{number}"}) for number in range(1, 1 + options.topics)]
    print("ready", flush=True)

    def query(number: int, due: float, topic: int = 0) -> None:
        def answered(good: bool) -> None:  # noqa: FBT001  # as the answers say it
            tally.note(due, good)
            if topic + 1 < len(requests):
                query(number, time.perf_counter(), topic + 1)

        peers[number].request(answered, requests[topic])

    await paced(options.connections, options.every, options.seconds, query)
    await settled(peers)
    return tally


async def settled(peers: list[Peer]) -> None:
    """Wait until all is answered, for some time; then what is not has failed."""
    end = time.perf_counter() + ANSWER_S
    while any(peer.waits for peer in peers) and time.perf_counter() < end:  # noqa: ASYNC110  # a millisecond is fine
        await asyncio.sleep(0.001)
    for peer in peers:
        peer.give_up()


class Body:
    """The registration body of brokers that all have the same topics, cheap to send with another time in it."""

    def __init__(self, topics: int) -> None:
        table = {f"bench-topic-{number}": topic(number) for number in range(topics)}
        wrapper = {
            "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000},
            "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 1_700_000_000_001},
            "topicConfigTable": table,
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": {},
        }
        text = json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}, separators=(",", ":"))
        self._before, _, self._after = text.encode().partition(b"1700000000001")

    def pieces(self, number: int, now_ms: int) -> tuple[bytes, bytes]:
        """Return the frame of one broker, its long unchanging part apart."""
        before = b"%b%d" % (self._before, now_ms)
        crc32 = zlib.crc32(self._after, zlib.crc32(before)) & 0x7FFFFFFF
        address = f"127.0.{number // 200}.{number % 200 + 1}"
        fields = {"brokerAddr": f"{address}:10911", "brokerId": "0", "brokerName": f"bench-broker-{number}"}
        fields |= {"clusterName": "bench-cluster", "haServerAddr": f"{address}:10912", "compressed": "false"}
        fields |= {"bodyCrc32": str(crc32), "enableActingMaster": "false"}
        head = frame(REGISTER_BROKER, number, fields)
        header = head[8:]
        prefix = struct.pack(">II", 4 + len(header) + len(before) + len(self._after), len(header))
        return prefix + header + before, self._after


def topic(number: int) -> dict[str, object]:
    """Return a topic as a 5.x broker sends it."""
    flags = {"attributes": {}, "order": False, "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0}
    return flags | {"readQueueNums": 8, "writeQueueNums": 8, "topicName": f"bench-topic-{number}"}


async def brokers(options: argparse.Namespace) -> Tally:
    """Register brokers, and register them again."""
    peers, first, tally = await connected(options.port, options.brokers), Tally(), Tally()
    body = Body(options.topics)

    def register(number: int, due: float, into: Tally) -> None:
        pieces = body.pieces(number, 1_700_000_000_000 + int(time.perf_counter() * 1000))
        peers[number].request(lambda good: into.note(due, good), *pieces)

    for number in range(options.brokers):
        register(number, time.perf_counter(), first)
        await settled(peers[number : number + 1])
    print("ready", flush=True)
    print(first.line(), flush=True)
    await paced(options.brokers, options.every, options.seconds, lambda number, due: register(number, due, tally))
    await settled(peers)
    tally.errors += first.errors
    return tally


def main() -> None:
    """Send, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("kind", choices=["clients", "brokers"])
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--topics", type=int, default=3)
    parser.add_argument("--every", type=float, default=30)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    # A pause of this process would look like one of the server.
    gc.disable()
    tally = uvloop.run(clients(options) if options.kind == "clients" else brokers(options))
    print(tally.line(), flush=True)


main()
