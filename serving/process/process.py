"""The life of a server in this process: it opens, is ready, drains and closes, and each step is logged.

What it serves is the business of each server, which walks through the steps of `ServerProcess` or `HttpProcess` and
does its own between them. Logs, tasks and signals come from above, so that two servers can share a process.
"""

import asyncio
import contextlib
import gc
import platform
import socket
import stat
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol

import msgspec

from remoting.background_tasks import BackgroundTasks
from remoting.client import RemotingClient
from remoting.clock import Clock, SystemClock
from remoting.protocol.addresses import NamedAddress, host_and_port, is_loopback, named_addresses
from remoting.protocol.codes import SerializeType
from remoting.protocol.errors import RemotingError
from remoting.server.limits import ServerLimits, ServerOptions
from remoting.server.observer import ServerObserver
from remoting.server.request_processor import Dispatcher
from remoting.server.server import RemotingServer
from serving import __version__
from serving.config import security_options
from serving.config.console_options import READER_PROPERTY
from serving.config.server_config import Config, ServerConfig
from serving.config.server_kind import ServerKind, listed_properties
from serving.config.sources import IgnoredKey
from serving.durable_file import others_may
from serving.http.admin_access import CLIENT_PROPERTY, HttpTokens
from serving.logging import server_events as events
from serving.logging.logs import STDOUT, Logs, open_logs
from serving.logging.writer import LineWriter
from serving.metrics.health import Health, Serving
from serving.metrics.server_counters import ServerCounters
from serving.process import background_tasks
from serving.process.admin_token_file import AdminTokenFile
from serving.process.background_tasks import BackgroundTask, logged_tasks
from serving.process.broker_access import broker_client
from serving.process.server_certificate import ServerCertificate
from serving.process.signals import Signals
from serving.process.start import StartFailed
from serving.process.system_limits import raised_file_limit, room_for_connections, usable_memory_bytes, with_shares

if TYPE_CHECKING:
    from serving.http.paths import Endpoint
    from serving.http.server import HttpServer
    from serving.process.allocator import FreeMemory
    from serving.process.recording import Measure, Recording

#: Streams of the HTTP side have this part of the files at most.
_STREAM_SHARE: Final = 8
#: Connections at one time of a server that is reached over HTTP alone: clients keep one each.
HTTP_CONNECTIONS_MAX: Final = 1_000
#: What the kernel takes of answers that a client does not read, in bytes, or twice that: by itself it takes megabytes,
#: which no limit of ours would see.
HTTP_SEND_BYTES: Final = 128 * 1024

#: How long the last log lines may take to be written.
_LOG_CLOSE_S: Final = 2.0


class Runtime(msgspec.Struct, frozen=True):
    """What a server gets from its process."""

    clock: Clock
    logs: Logs
    #: Owns every task of the server; none of them ends it by failing.
    tasks: BackgroundTasks
    signals: Signals
    #: As `Shared.ready`.
    ready: Callable[[str], str] = lambda _: ""


class Shared(msgspec.Struct, frozen=True):
    """What all servers of a process have together."""

    signals: Signals
    stdout: LineWriter
    #: Takes the address of a console from each server that is ready, blank for none; returns the line to announce once
    #: all are.
    ready: Callable[[str], str]


class Server(Protocol):
    """A server that was made and is to be run."""

    async def run(self) -> None:
        """Serve until the stop signal, then stop in order; raises StartFailed."""


async def serve(
    kind: ServerKind[Config],
    config: Config,
    ignored: Sequence[IgnoredKey],
    make: Callable[[Runtime], Server],
    shared: Shared,
    own_id: str = "",
) -> None:
    """Run the server that `make` returns until the signals say to stop, and log its life. Raises StartFailed.

    Each line has `own_id`; blank for the name of the host and the port.
    """
    clock = SystemClock()
    bound = {kind.id_key: own_id or f"{socket.gethostname()}:{config.listen_port}", "version": __version__}
    logs = open_logs(shared.stdout, config.log_format, config.log_level, clock, bound)
    logs.write(events.SERVER_STARTED, python=platform.python_version())
    logs.write(events.SERVER_CONFIGURED, config=listed_properties(kind, config))
    if others_may(stat.S_IWOTH, Path(config.config_store_path)):
        logs.write(events.FILE_EXPOSED, path=config.config_store_path, error="any user may write it")
    for key in ignored:
        keys = {"property": key.key, "path": key.path, "line": key.line}
        logs.write(events.OPTION_IGNORED, **keys, reason=key.why.value, error=str(key))
    start_failures: list[BaseException] = []
    try:
        async with logged_tasks(logs) as tasks:
            await make(Runtime(clock, logs, tasks, shared.signals, shared.ready)).run()
    except* StartFailed as group:
        logs.write(events.SERVER_START_FAILED, error=str(group.exceptions[0]))
        start_failures += group.exceptions
    except* Exception as group:
        logs.write(events.SERVER_FAILED, exc_info=group)
        raise
    finally:
        logs.finish()
    # Raised there, some releases of Python 3.11 would put it into a group again.
    for error in start_failures:
        raise error


async def serve_together(*servers: Callable[[Shared], Coroutine[Any, Any, None]]) -> None:
    """Run servers until SIGTERM or SIGINT; one that does not start, or fails, ends all. Raises StartFailed."""
    consoles: list[str] = []

    def ready(console: str) -> str:
        consoles.append(console)
        found = " and ".join(sorted(filter(None, consoles)))
        return f"The console is at {found}" if found and len(consoles) == len(servers) else ""

    shared = Shared(Signals(), LineWriter(STDOUT), ready)
    start_failures: list[BaseException] = []
    try:
        async with asyncio.TaskGroup() as tasks:
            for serve_one in servers:
                tasks.create_task(serve_one(shared))
    except* StartFailed as group:
        start_failures += group.exceptions
    finally:
        shared.stdout.close(_LOG_CLOSE_S)
    for error in start_failures:
        raise error


class _Process(ABC, Generic[Config]):
    """What any server has around its own parts."""

    def __init__(
        self, kind: ServerKind[Config], config: Config, counters: ServerCounters, runtime: Runtime, port: int
    ) -> None:
        self._kind = kind
        #: As it was at the start.
        self._config = config
        self._counters = counters
        self._clock = runtime.clock
        self._logs = runtime.logs
        self._tasks = runtime.tasks
        self._signals = runtime.signals
        self._ready = runtime.ready
        self._started_ms = self._clock.now_ms()
        self._draining_ms = 0
        self._admin_token = AdminTokenFile(config.http_admin_token_file, self._logs)
        self._http_socket: socket.socket | None = None
        self._stop_http: list[Callable[[], Awaitable[None]]] = []
        self.health = Health()
        #: None where nothing is recorded.
        self.recording: Recording | None = None
        if config.history_dir:
            from serving.process.recording import recording_of  # noqa: PLC0415  # off by default

            self.recording = recording_of(kind, config, port, self._logs)

    async def _open_http(self, load: "Callable[[], Sequence[Endpoint]]", port: socket.socket) -> None:
        """Serve the paths that `load` returns; it runs in a thread, because what it imports takes long."""
        for start in await asyncio.to_thread(self._load_http, load, port):
            self._stop_http.append((await start()).stop)

    @abstractmethod
    def _load_http(
        self, load: "Callable[[], Sequence[Endpoint]]", port: socket.socket
    ) -> "list[Callable[[], Awaitable[HttpServer]]]":
        """Return what starts each port of the HTTP side."""

    async def _serve(
        self, works: Mapping[str, BackgroundTask], address: str, console: str = "", **keys: object
    ) -> None:
        """Be ready and run the background tasks, each known by its name, until the stop signal."""
        free_memory = settled_memory()
        self.health.serving = Serving.READY
        self._logs.write(events.SERVER_READY, **keys, duration_ms=self._clock.now_ms() - self._started_ms)
        if line := self._ready(console):
            self._logs.announce(line)
        if self.recording is not None:
            self.recording.start(address)
        every: dict[str, BackgroundTask] = {
            **works,
            "measure_lag": lambda: background_tasks.measure_lag(self._counters),
            "write_held_lines": lambda: background_tasks.write_held_lines(self._logs),
            "give_memory_back": lambda: background_tasks.give_memory_back(free_memory.give_back),
        }
        tasks = [self._tasks.keep_running(task, name) for name, task in every.items()]
        await self._signals.stop.wait()
        for task in tasks:
            task.cancel()

    def _be_unready(self, **keys: object) -> None:
        self._draining_ms = self._clock.now_ms()
        self.health.serving = Serving.DRAINING
        self._logs.write(events.SERVER_DRAINING, reason="signal", **keys)

    async def _close(self, *parts: Callable[[], Awaitable[None]]) -> None:
        for close in parts:
            await close()
        if self.recording is not None:
            await self.recording.close()
        self._logs.write(events.SERVER_STOPPED, duration_ms=self._clock.now_ms() - self._draining_ms)


class HttpProcess(_Process[Config]):
    """What a server has around its own parts that is reached over HTTP alone.

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
        super().__init__(kind, config, counters, runtime, config.http_port)
        client_token = AdminTokenFile(client_token_file, self._logs, CLIENT_PROPERTY)
        self._token_files = [each for each in (self._admin_token, client_token) if each.path]
        # Whoever reaches loopback is on this machine; an operator who wants more sets a file.
        is_local = is_loopback(config.http_bind_address)
        self._tokens = HttpTokens(
            self._admin_token.token,
            client_token.token if client_token_file else None,
            is_open=not self._token_files and is_local,
            loopback_hosts=() if is_local else None,
        )

    def open(self) -> None:
        """Take the port, so that one in use ends the start, read the tokens, and take signals; raises StartFailed."""
        self._connections_max = min(HTTP_CONNECTIONS_MAX, room_for_connections(raised_file_limit()))
        for file in self._token_files:
            file.load_first()
        self._http_socket = bound_http_socket(self._config.http_bind_address, self._config.http_port)
        self._signals.listen()

    @property
    def address(self) -> str:
        assert self._http_socket is not None, "it is open"
        return host_and_port(*self._http_socket.getsockname()[:2])

    async def start_http(self, load: "Callable[[], Sequence[Endpoint]]") -> None:
        """Serve the paths that `load` returns."""
        assert self._http_socket is not None, "it is open"
        await self._open_http(load, self._http_socket)

    def _load_http(
        self, load: "Callable[[], Sequence[Endpoint]]", port: socket.socket
    ) -> "list[Callable[[], Awaitable[HttpServer]]]":
        from serving.http.server import make_app, start_http  # noqa: PLC0415  # aiohttp: slower than all before

        app = make_app(self._kind, load(), self._counters, self._logs, self._tokens)
        return [partial(start_http, app, port, self._connections_max)]

    async def serve(self, works: Mapping[str, BackgroundTask]) -> None:
        """Be ready and run the background tasks until the stop signal; each is known by its name."""
        watches = {f"watch_token_{number}": file.watch for number, file in enumerate(self._token_files)}
        await self._serve({**works, **watches}, self.address, http_addr=self.address)

    def drain(self) -> None:
        self._be_unready()

    async def close(self, *others: Callable[[], Awaitable[None]]) -> None:
        """Answer accepted requests and close the port; then close the others, which no request needs any more."""
        await self._close(*self._stop_http, *others)


class ServerProcess(_Process[Config]):
    """What a server of RocketMQ peers has around its own parts.

    In this order: `make_listener`, `open`, `start_http`, `serve`, `drain`, `close`.
    """

    def __init__(
        self,
        kind: ServerKind[Config],
        config: Config,
        counters: ServerCounters,
        runtime: Runtime,
        http_streams_max: int = 0,
    ) -> None:
        """Let clients hold so many connections of the HTTP side open all the time, or fewer if files are short."""
        super().__init__(kind, config, counters, runtime, config.listen_port)
        self._file_limit = raised_file_limit()
        #: Connections of the HTTP side that clients may hold open all the time.
        self.http_streams_max = min(http_streams_max, self._file_limit // _STREAM_SHARE)
        self._certificate = ServerCertificate(
            security_options.tls_settings_of(config), self._clock, self._logs, counters
        )
        self._read_token = AdminTokenFile(config.console_read_token_file, self._logs, READER_PROPERTY)
        #: For look-ups alone.
        self._lookup_socket: socket.socket | None = None
        self._serving_http: asyncio.Task[None] | None = None

    def make_listener(
        self, dispatcher: Dispatcher, observer: ServerObserver, options: ServerOptions, queued_requests_max: int
    ) -> RemotingServer:
        """Return what will serve RocketMQ peers; limits and form of answers are those of the configuration."""
        options = msgspec.structs.replace(
            options,
            limits=_limits(self._config, self._connections_max(), queued_requests_max),
            serialize_type=SerializeType[self._config.serialize_type],
        )
        tls = None if self._config.tls_server_mode == "disabled" else self._certificate.contexts
        self._listener = RemotingServer(dispatcher, observer, self._tasks, self._clock, options, tls)
        return self._listener

    async def open(self, plain_port: int = 0, lookup_port: int = 0) -> tuple[str, int]:
        """Serve peers, take signals, and return the address of the first port; raises StartFailed.

        Peers have a second port with plain answers, and HTTP one for look-ups alone, unless these are 0.
        """
        config = self._config
        self._certificate.load_first()
        self._admin_token.load_first()
        self._read_token.load_first()
        if config.http_port:
            self._http_socket = bound_http_socket(config.http_bind_address, config.http_port)
            if lookup_port:
                self._lookup_socket = bound_http_socket(config.http_bind_address, lookup_port)
        try:
            await self._listener.start(config.bind_address, config.listen_port)
            if plain_port:
                await self._listener.listen_plain(config.bind_address, plain_port)
        except RemotingError as error:
            raise StartFailed(str(error)) from error
        self._signals.listen()
        self._signals.at_hangup(self._certificate.load)
        return self._listener.address

    def start_http(self, load: "Callable[[], Sequence[Endpoint]]") -> None:
        """Serve the paths that `load` returns from the first connection on, if there is a port for them.

        Until then the server does without the libraries of its HTTP side, which are a third of its memory.
        """
        if self._http_socket is not None:
            work = partial(self._serve_http, load, self._http_socket)
            self._serving_http = self._tasks.keep_running(work, "serve_http")

    async def _serve_http(self, load: "Callable[[], Sequence[Endpoint]]", port: socket.socket) -> None:
        await _first_connection([each for each in (port, self._lookup_socket) if each is not None])
        # As at the start: the collector does not look through what stays.
        gc.disable()
        try:
            await self._open_http(load, port)
        finally:
            gc.freeze()
            gc.enable()
        await asyncio.Event().wait()

    def _load_http(
        self, load: "Callable[[], Sequence[Endpoint]]", port: socket.socket
    ) -> "list[Callable[[], Awaitable[HttpServer]]]":
        from serving.http.connections import CONNECTIONS_MAX  # noqa: PLC0415  # aiohttp, as below
        from serving.http.server import make_app, start_http  # noqa: PLC0415  # aiohttp: slower than all before

        config, endpoints = self._config, load()
        hosts = named_addresses(config.console_hosts) or () if is_loopback(config.http_bind_address) else None
        tokens = HttpTokens(self._admin_token.token, loopback_hosts=hosts)
        app = make_app(self._kind, endpoints, self._counters, self._logs, tokens)
        if config.console_enable:
            from serving.http.console.site import Console  # noqa: PLC0415  # aiohttp, as above

            reader = self._read_token.token
            Console(self._kind.program, config, tokens, reader, self._clock, self._counters, self._logs).add_to(app)
        starts: list[Callable[[], Awaitable[HttpServer]]] = [
            partial(start_http, app, port, CONNECTIONS_MAX + self.http_streams_max)
        ]
        if self._lookup_socket is not None:
            lookups = [each for each in endpoints if each.is_lookup]
            lookup_app = make_app(self._kind, lookups, self._counters, self._logs, tokens)
            starts.append(partial(start_http, lookup_app, self._lookup_socket))
        return starts

    async def serve(self, *own: BackgroundTask, measure: "Measure" = dict) -> None:
        """Be ready and run the background tasks until the stop signal; `measure` returns the sizes of the tables."""
        host, port = self._listener.address
        config, address = self._config, f"{host}:{port}"
        assert len({task.__name__ for task in own}) == len(own), "each is known by its name"
        works = {task.__name__.strip("_"): task for task in own}
        works["watch_certificate"] = self._certificate.watch
        if config.http_admin_token_file:
            works["watch_admin_token"] = self._admin_token.watch
        if config.console_read_token_file:
            works["watch_read_token"] = self._read_token.watch
        if (recording := self.recording) is not None:
            works["tick"] = lambda: recording.tick(measure, self._listener.statistics, self._counters)
        has_http = self._http_socket is not None
        http = host_and_port(config.http_bind_address, config.http_port)
        await self._serve(
            works,
            address,
            f"http://{http}/ui/" if has_http and config.console_enable else "",
            addr=address,
            http_addr=f"{config.http_bind_address}:{config.http_port}" if has_http else None,
        )

    async def drain(self, config: Config) -> None:
        self._be_unready(connections=len(self._listener.connections))
        self._listener.drain()
        if config.enable_shutdown_gracefully:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(config.shutdown_wait_time_seconds):
                    await self._signals.force_stop.wait()

    async def close(self, *others: Callable[[], Awaitable[None]]) -> None:
        """Answer accepted requests and close; then close the others, which no request needs any more."""
        if self._serving_http is not None:
            self._serving_http.cancel()
            await asyncio.wait([self._serving_http])
        await self._close(self._listener.close, *others, *self._stop_http)
        for port in (self._http_socket, self._lookup_socket):
            if port is not None:
                port.close()

    def follow(self, config: Config) -> None:
        """Let the parts that keep an option of their own follow the configuration."""
        self._listener.idle_seconds = config.server_channel_max_idle_time_seconds
        self._logs.set_level(config.log_level)

    def make_client(self, peers: Sequence[NamedAddress] = (), servers: frozenset[str] = frozenset()) -> RemotingClient:
        """Return what sends requests of ours; `peers` and `servers` as in `broker_client`. Raises StartFailed."""
        unsigned = self._counters.unsigned_requests
        return broker_client(self._config, self._clock, self._logs, unsigned, peers, servers)

    def _connections_max(self) -> int:
        """Return how many connections leave room for other files; log it if those are fewer than connectionsMax."""
        limit = self._file_limit
        room = room_for_connections(limit - self.http_streams_max)
        if room < self._config.connections_max:
            self._logs.write(events.FILES_LIMITED, connections_max=room, limit=limit)
        return min(room, self._config.connections_max)


def bound_http_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that a port in use ends the start before peers are served; raises StartFailed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family)
    except OSError as error:
        raise StartFailed(f"cannot listen on {host}:{port} for HTTP: {error.strerror or error}") from error
    # Connections take it over when the kernel takes them, which may be long before the HTTP side is loaded.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HTTP_SEND_BYTES)
    return bound


async def _first_connection(ports: Sequence[socket.socket]) -> None:
    """Return once a client waits at one of the ports; it is not accepted."""
    loop, comes = asyncio.get_running_loop(), asyncio.Event()
    for port in ports:
        loop.add_reader(port, comes.set)
    try:
        await comes.wait()
    finally:
        for port in ports:
            loop.remove_reader(port)


def settled_memory() -> "FreeMemory":
    """Treat memory as requests need it, now that all is loaded that stays; return what gives it back."""
    from serving.process.allocator import FreeMemory, keep_freed_memory  # noqa: PLC0415  # ctypes: peers wait for it

    keep_freed_memory()
    free_memory = FreeMemory()
    gc.freeze()
    # Requests leave no cycles, and what the tables hold is not looked through; collecting often finds nothing.
    gc.set_threshold(50_000, 20, 100)
    gc.enable()
    return free_memory


def _limits(config: ServerConfig, connections_max: int, queued_requests_max: int) -> ServerLimits:
    low, high = config.write_buffer_bytes
    config = with_shares(config, usable_memory_bytes())
    return ServerLimits(
        frame_bytes_max=config.frame_bytes_max,
        partial_frame_bytes_max=config.partial_frame_bytes_max,
        response_buffer_bytes_max=config.response_buffer_bytes_max,
        queued_bytes_max=config.queued_bytes_max,
        connections_max=connections_max,
        backlog=config.server_socket_backlog,
        idle_seconds=config.server_channel_max_idle_time_seconds,
        response_buffer_low_bytes=low,
        response_buffer_high_bytes=high,
        queued_requests_max=queued_requests_max,
        socket_send_bytes=config.server_socket_snd_buf_bytes,
        socket_receive_bytes=config.server_socket_rcv_buf_bytes,
    )
