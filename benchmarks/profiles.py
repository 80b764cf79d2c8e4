"""Profiles what a route query and an unchanged registration cost inside the server, and writes `benchmarks/profiles/`.

    python benchmarks/profiles.py

One connection of the real server is given the bytes as its event loop would, with a transport that takes answers and
sends nothing, so that the system's part does not show. Times under a profiler are long; their shares count.
"""

import asyncio
import cProfile
import io
import pstats
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import uvloop
from load import TOPIC, frames
from servers import REPOSITORY

from namesrv.core.route_state import RouteState
from namesrv.settings.config import NameServerConfig
from namesrv.settings.durable_settings import DurableSettings
from namesrv.settings.kv_config import KvConfig
from namesrv.wire.broker_requests import BrokerRequestHandler
from namesrv.wire.cooperative_runner import CooperativeRunner
from namesrv.wire.operator_requests import OperatorRequestHandler
from namesrv.wire.request_table import BROKER_CODES, RequestTable
from namesrv.wire.route_requests import RouteRequestHandler
from remoting.background_tasks import BackgroundTasks
from remoting.clock import SystemClock
from remoting.server.connection import Connection
from remoting.server.limits import ServerLimits, ServerOptions
from remoting.server.server import RemotingServer
from serving.process.event_log import AttributedDispatcher

PROFILES: Final = REPOSITORY / "benchmarks" / "profiles"
#: What uvloop hands over at once.
CHUNK_BYTES: Final = 256_000
LINES: Final = 18


class Silent:
    """Observes everything and says nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class Taking(Silent):
    """A transport that counts answers."""

    def __init__(self) -> None:
        self.answers = 0

    def get_extra_info(self, name: str) -> tuple[str, int]:
        """Return an address."""
        del name
        return "127.0.0.1", 1

    def write(self, data: bytes) -> None:
        """Take an answer."""
        del data
        self.answers += 1


class Bench:
    """One connection to a server that has no socket."""

    def __init__(self, tasks: BackgroundTasks) -> None:
        config = NameServerConfig()
        state = RouteState(config)
        settings = DurableSettings(config, KvConfig(), Silent(), state.configure, lambda _: None)
        clock = SystemClock()
        runner = CooperativeRunner()
        requests = RequestTable(
            BrokerRequestHandler(state, settings, clock, runner, _ignore),
            RouteRequestHandler(state, settings, clock, runner),
            OperatorRequestHandler(state, settings, runner, _ignore),
        )
        options = ServerOptions(urgent=frozenset({105}), limits=ServerLimits(frame_bytes_max=2**26))
        server = RemotingServer(
            AttributedDispatcher(requests, BROKER_CODES, busiest=105),
            Silent(),
            tasks,
            SystemClock(),
            options,
        )
        transport: Any = Taking()
        self.transport, self.connection = transport, Connection(server)
        self.connection.connection_made(transport)

    async def send(self, frame: bytes) -> None:
        """Hand over a request and wait for its answer."""
        wanted = self.transport.answers + 1
        for at in range(0, len(frame), CHUNK_BYTES):
            self.connection.data_received(frame[at : at + CHUNK_BYTES])
        while self.transport.answers < wanted:  # noqa: ASYNC110  # a turn of the loop is what is waited for
            await asyncio.sleep(0)


def split(data: bytes) -> list[bytes]:
    """Return the frames of a file."""
    out, at = [], 0
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4])
        out.append(data[at:end])
        at = end
    return out


def _ignore(_: object) -> None:
    """Run no effect."""


def _fail(name: str, error: BaseException) -> None:
    raise RuntimeError(name) from error


async def profile(name: str, first: list[bytes], repeated: list[bytes], count: int) -> None:
    """Write the profile of sending `repeated` again and again."""
    async with BackgroundTasks(_fail) as tasks:
        bench = Bench(tasks)
        for frame in (*first, *repeated, *repeated):
            await bench.send(frame)
        began = time.perf_counter()
        for number in range(count):
            await bench.send(repeated[number % len(repeated)])
        each_us = (time.perf_counter() - began) / count * 1e6
        profiler = cProfile.Profile()
        profiler.enable()
        for number in range(count):
            await bench.send(repeated[number % len(repeated)])
        profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime").print_stats(LINES)
    (PROFILES / f"{name}.txt").write_text(
        f"{name}: {count} requests, {each_us:.1f} us each without the profiler.\n{text.getvalue().rstrip()}\n"
    )
    print(f"{name}: {each_us:.1f} us each")


async def main(folder: Path) -> None:
    """Write both profiles."""
    PROFILES.mkdir(exist_ok=True)
    registered = split(frames(folder, "register", "--brokers", 1, "--topics", 100).read_bytes())
    await profile("route-query", registered, split(frames(folder, "route", TOPIC).read_bytes()), 50_000)
    unchanged = split(frames(folder, "register", "--topics", 10_000, "--versions", 8).read_bytes())
    await profile("unchanged-registration", unchanged[:1], unchanged, 400)


with tempfile.TemporaryDirectory() as temporary:
    uvloop.run(main(Path(temporary)))
