"""The life of a server that is reached over HTTP alone: it opens, is ready, drains and closes, and each step is logged.

`process.py` has that of a server for RocketMQ peers.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic

from remoting.protocol.addresses import host_and_port, is_loopback
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind
from serving.http.admin_access import CLIENT_PROPERTY, PROPERTY, HttpTokens
from serving.logging import server_events as events
from serving.metrics.health import Health, Serving
from serving.metrics.server_counters import ServerCounters
from serving.process import background_tasks
from serving.process.admin_token_file import AdminTokenFile
from serving.process.background_tasks import BackgroundTask
from serving.process.process import Runtime, bound_http_socket, settled_memory
from serving.process.recording import recording_of
from serving.process.system_limits import raised_file_limit, room_for_connections

if TYPE_CHECKING:
    from serving.http.endpoints import Endpoint
    from serving.http.server import HttpServer

#: Connections at one time: clients keep one each.
CONNECTIONS_MAX: Final = 1_000


class HttpProcess(Generic[Config]):
    """What such a server has around its own parts.

    In this order: `open`, `start_http`, `serve`, `drain`, `close`.
    """

    def __init__(
        self,
        kind: ServerKind[Config],
        config: Config,
        counters: ServerCounters,
        runtime: Runtime,
        client_token_file: str = "",
    ) -> None:
        self._kind = kind
        self._config = config
        self._counters = counters
        self._clock = runtime.clock
        self._logs = runtime.logs
        self._tasks = runtime.tasks
        self._signals = runtime.signals
        self._started_ms = self._clock.now_ms()
        self._draining_ms = 0
        self._admin_token = AdminTokenFile(config.http_admin_token_file, self._logs, PROPERTY)
        self._client_token = AdminTokenFile(client_token_file, self._logs, CLIENT_PROPERTY)
        self._watches = [
            each.watch
            for each, path in (
                (self._admin_token, config.http_admin_token_file),
                (self._client_token, client_token_file),
            )
            if path
        ]
        # Whoever reaches loopback is on this machine; an operator who wants more sets a file.
        is_local = is_loopback(config.http_bind_address)
        self._tokens = HttpTokens(
            self._admin_token.token,
            self._client_token.token if client_token_file else None,
            is_open=not self._watches and is_local,
            loopback_hosts=() if is_local else None,
        )
        self.health = Health()
        #: None where nothing is recorded.
        self.recording = recording_of(kind, config, config.http_port, self._logs) if config.history_dir else None
        self._server: HttpServer | None = None

    def open(self) -> None:
        """Take the port, so that one in use ends the start, read the tokens, and take signals; raises StartFailed."""
        self._connections_max = min(CONNECTIONS_MAX, room_for_connections(raised_file_limit()))
        self._admin_token.load_first()
        self._client_token.load_first()
        self._socket = bound_http_socket(self._config.http_bind_address, self._config.http_port)
        self._signals.listen()

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()[:2]
        return host_and_port(host, port)

    async def start_http(self, load: "Callable[[], Sequence[Endpoint]]") -> None:
        """Serve the paths that `load` returns; it runs in a thread, as it imports the HTTP libraries."""
        start = await asyncio.to_thread(self._load_http, load, self._socket)
        self._server = await start()

    def _load_http(
        self, load: "Callable[[], Sequence[Endpoint]]", port: socket.socket
    ) -> "Callable[[], Awaitable[HttpServer]]":
        from serving.http.server import make_app, start_http  # noqa: PLC0415  # aiohttp: slower than all before

        endpoints = load()
        app = make_app(self._kind, endpoints, self._counters, self._logs, self._tokens)
        return lambda: start_http(app, port, self._connections_max)

    async def serve(self, *own: BackgroundTask, named: Mapping[str, BackgroundTask] = MappingProxyType({})) -> None:
        """Be ready and run the background tasks until the stop signal; each is known by its name."""
        free_memory = settled_memory()
        self.health.serving = Serving.READY
        self._logs.write(
            events.SERVER_READY, http_addr=self.address, duration_ms=self._clock.now_ms() - self._started_ms
        )
        works: dict[str, BackgroundTask] = {
            **{task.__name__.strip("_"): task for task in own},
            **named,
            **{f"watch_token_{number}": watch for number, watch in enumerate(self._watches)},
            "measure_lag": lambda: background_tasks.measure_lag(self._counters),
            "write_held_lines": lambda: background_tasks.write_held_lines(self._logs),
            "give_memory_back": lambda: background_tasks.give_memory_back(free_memory.give_back),
        }
        if self.recording is not None:
            self.recording.start(self.address)
        tasks = [self._tasks.keep_running(task, name) for name, task in works.items()]
        await self._signals.stop.wait()
        for each in tasks:
            each.cancel()

    def drain(self) -> None:
        self._draining_ms = self._clock.now_ms()
        self.health.serving = Serving.DRAINING
        self._logs.write(events.SERVER_DRAINING, reason="signal")

    async def close(self, *others: Callable[[], Awaitable[None]]) -> None:
        """Answer accepted requests and close the port; then close the others, which no request needs any more."""
        if self._server is not None:
            await self._server.stop()
        else:
            self._socket.close()
        for close in others:
            await close()
        if self.recording is not None:
            await self.recording.close()
        self._logs.write(events.SERVER_STOPPED, duration_ms=self._clock.now_ms() - self._draining_ms)
