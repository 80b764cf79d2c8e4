"""Wires a NameServer and owns every task of it: listeners, scan, certificate watch, shutdown.

Answers to `NamesrvController`. Nothing of RocketMQ's rules is here; what can be decided without a loop is elsewhere.
"""

import asyncio
import contextlib
import gc
import importlib
import platform
import resource
import signal
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final

from namesrv import event_catalogue as catalogue
from namesrv.config import NAMESRV, NameServerConfig
from namesrv.handlers import Handlers
from namesrv.health import Health, Serving
from namesrv.http_views import ViewSources
from namesrv.journal import Attributed, Journal
from namesrv.kv_config import KvConfig
from namesrv.logs import Logs, open_logs
from namesrv.one_by_one import OneByOne
from namesrv.perform import Performer
from namesrv.route_state import RouteState
from namesrv.server_counts import ServerCounts
from namesrv.settings import Settings
from remoting.client import RemotingClient
from remoting.clock import Clock, SystemClock
from remoting.codes import RequestCode, SerializeType
from remoting.errors import RemotingError
from remoting.limits import ServerLimits
from remoting.observer import CloseReason, Peer
from remoting.server import RemotingServer, ServerOptions
from remoting.statistics import timer_ns
from remoting.tls import TlsContexts, TlsError, client_context
from serving import __version__, tls_options
from serving.config_sources import IgnoredKey
from serving.config_text import listed_properties
from serving.start import NotStarted

#: A timer of the loop that comes late tells how long the loop was held.
_LAG_TIMER_MS: Final = 100
_HELD_LINES_S: Final = 1.0
_FREE_MEMORY_LOOK_S: Final = 10.0
#: A scan that comes later than this was held up with everything else: nobody could be heard meanwhile.
_STANDSTILL_MS: Final = 1000
#: Java looks at certificate files as often.
_CERTIFICATE_LOOK_S: Final = 0.5
#: Files that are not connections of peers: the HTTP side's connections, notifications, KV and logs.
_FILES_RESERVED: Final = 512
_FILES_WANTED: Final = 10_240
#: How long the last log lines may take to be written.
_LOG_CLOSE_S: Final = 2.0


async def serve(config: NameServerConfig, kv: KvConfig, ignored: tuple[IgnoredKey, ...]) -> None:
    """Serve until SIGTERM or SIGINT; SIGHUP reads certificates again. Raises NotStarted."""
    clock = SystemClock()
    ns_id = f"{socket.gethostname()}:{config.listen_port}"
    logs = open_logs(config.log_format, config.log_level, clock, ns_id=ns_id, version=__version__)
    logs.write(catalogue.SERVER_STARTED, python=platform.python_version(), config=listed_properties(NAMESRV, config))
    for key in ignored:
        logs.write(
            catalogue.OPTION_IGNORED,
            property=key.key,
            path=key.path,
            line=key.line,
            reason=key.why.value,
            error=str(key),
        )
    not_started: list[BaseException] = []
    try:
        async with asyncio.TaskGroup() as tasks:
            await NameServer(config, kv, clock, logs, tasks).run()
    except* NotStarted as group:
        logs.write(catalogue.SERVER_START_FAILED, error=str(group.exceptions[0]))
        not_started += group.exceptions
    except* Exception as group:
        logs.write(catalogue.SERVER_FAILED, exc_info=group)
        raise
    finally:
        logs.close(_LOG_CLOSE_S)
    # Raised there, some releases of Python 3.11 would put it into a group again.
    for error in not_started:
        raise error


class NameServer:
    """One NameServer with all its parts."""

    def __init__(
        self, config: NameServerConfig, kv: KvConfig, clock: Clock, logs: Logs, tasks: asyncio.TaskGroup
    ) -> None:
        self._clock = clock
        self._logs = logs
        self._tasks = tasks
        self._started_ms = clock.now_ms()
        self._health = Health()
        self._counts = ServerCounts()
        self._journal = Journal(logs, self._counts, config)
        self._state = RouteState(config)
        self._settings = Settings(
            config, kv, self._journal, self._follow, lambda topic: self._state.answers.drop((topic,))
        )
        self._tls = TlsContexts(tls_options.settings_of(config), clock)
        self._client = self._make_client(config)
        self._performer = Performer(tasks, self._client, self._close_connection, self._journal)
        self._handlers = Handlers(self._state, self._settings, clock, self._performer.perform)
        self._server = RemotingServer(
            Attributed(self._handlers),
            _DepartureWatch(self._journal, self._lost),
            tasks,
            clock,
            _server_options(config, self._connections_max(config)),
            None if config.tls_server_mode == "disabled" else self._tls,
        )
        #: Lost connections whose brokers are still to be removed.
        self._gone = OneByOne(self._forget, self._tasks.create_task)
        self._stop = asyncio.Event()
        self._closing = False

    async def run(self) -> None:
        """Serve until told to stop, then stop in order. Raises NotStarted."""
        config = self._settings.config
        self._load_certificate(config.tls_server_mode == "enforcing")
        http_socket = _bound(config.http_bind_address, config.http_port) if config.http_port else None
        try:
            await self._server.start(config.bind_address, config.listen_port)
        except RemotingError as error:
            raise NotStarted(str(error)) from error
        host, port = self._server.address
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._load_certificate)
        self._logs.announce(
            f"The Name Server boot success. serializeType={config.serialize_type}, address {host}:{port}"
        )
        http_stop = await self._start_http(http_socket, (host, port)) if http_socket else None
        self._settle_memory()
        self._health.serving = Serving.READY
        self._logs.write(
            catalogue.SERVER_READY,
            addr=f"{host}:{port}",
            http_addr=f"{config.http_bind_address}:{config.http_port}" if http_socket else None,
            duration_ms=self._clock.now_ms() - self._started_ms,
        )
        chores = [
            self._tasks.create_task(keep_up(chore, self._logs))
            for chore in (
                self._scan,
                self._measure_lag,
                self._write_held_lines,
                self._watch_certificate,
                self._give_memory_back,
            )
        ]
        await self._stop.wait()
        for chore in chores:
            chore.cancel()
        await self._shut_down(http_stop)

    def _settle_memory(self) -> None:
        """Treat memory as requests need it, now that all is loaded that stays."""
        allocator: Any = importlib.import_module("namesrv.allocator")
        allocator.keep_freed_memory()
        self._free_memory = allocator.FreeMemory()
        gc.freeze()
        # Requests leave no cycles, and what the tables hold is not looked through; collecting often finds nothing.
        gc.set_threshold(50_000, 20, 100)
        gc.enable()

    async def _start_http(self, listener: socket.socket, served_at: tuple[str, int]) -> Callable[[], Awaitable[None]]:
        """Start the HTTP side and return what stops it; peers are served while its libraries are loaded."""
        http_api: Any = await asyncio.to_thread(importlib.import_module, "namesrv.http_api")
        metrics: Any = await asyncio.to_thread(importlib.import_module, "namesrv.metrics")
        measured = metrics.MetricSources(
            state=self._state,
            settings=self._settings,
            route_counts=self._handlers.route_counts,
            statistics=self._server.statistics,
            counts=self._counts,
            logs=self._logs,
            health=self._health,
            clock=self._clock,
            version=__version__,
        )
        sources = ViewSources(
            state=self._state,
            settings=self._settings,
            health=self._health,
            clock=self._clock,
            metrics=metrics.Metrics(measured),
            served_at=served_at,
        )
        app = http_api.make_app(sources, self._counts, self._logs, __version__)
        server = await http_api.start_http(app, listener)
        stop: Callable[[], Awaitable[None]] = server.stop
        return stop

    async def _shut_down(self, http_stop: Callable[[], Awaitable[None]] | None) -> None:
        """Send peers elsewhere, answer what was asked, close."""
        began_ms = self._clock.now_ms()
        config = self._settings.config
        self._health.serving = Serving.DRAINING
        self._logs.write(catalogue.SERVER_DRAINING, reason="signal", connections=len(self._server.connections))
        self._server.drain()
        if config.enable_shutdown_gracefully:
            self._stop.clear()
            # A second signal ends the wait.
            await _wait_at_most(self._stop, config.shutdown_wait_time_seconds)
        self._closing = True
        await self._server.close()
        await self._client.close()
        if http_stop:
            await http_stop()
        self._logs.write(catalogue.SERVER_STOPPED, duration_ms=self._clock.now_ms() - began_ms)

    # What happens by itself

    async def _scan(self) -> None:
        """Look for silent brokers at each interval."""
        looked_ms = self._clock.now_ms()
        skipped = False
        while True:
            interval_ms = self._settings.config.scan_not_active_broker_interval_ms
            await asyncio.sleep(interval_ms / 1000)
            now_ms = self._clock.now_ms()
            late_ms = now_ms - looked_ms - interval_ms
            looked_ms = now_ms
            # After a standstill of this process its brokers only seem silent: they get one interval to be heard.
            skipped = late_ms > _STANDSTILL_MS and not skipped
            if skipped:
                self._logs.write(catalogue.SCAN_SKIPPED, late_ms=late_ms)
            else:
                began_ns = timer_ns()
                self._performer.perform(await self._handlers.slices.do(self._state.scanning(now_ms)))
                self._counts.expiry_scan.observe((timer_ns() - began_ns) / 1e9)

    async def _measure_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + _LAG_TIMER_MS / 1000
            await asyncio.sleep(_LAG_TIMER_MS / 1000)
            self._counts.event_loop_lag.observe(max(0.0, loop.time() - due_s))

    async def _write_held_lines(self) -> None:
        while True:
            await asyncio.sleep(_HELD_LINES_S)
            self._logs.write_held()

    async def _watch_certificate(self) -> None:
        while True:
            await asyncio.sleep(_CERTIFICATE_LOOK_S)
            if await asyncio.to_thread(self._tls.changed):
                self._load_certificate()

    async def _give_memory_back(self) -> None:
        while True:
            await asyncio.sleep(_FREE_MEMORY_LOOK_S)
            await asyncio.to_thread(self._free_memory.give_back)

    # What the parts call

    def _follow(self, config: NameServerConfig) -> None:
        """Let the parts that keep an option of their own follow the configuration."""
        self._state.configure(config)
        self._server.idle_seconds = config.server_channel_max_idle_time_seconds
        self._logs.set_level(config.log_level)

    def _lost(self, connection_id: int) -> None:
        if self._closing:
            # We close the connections, no broker left: nobody is to be told of a master that is gone.
            return
        if not self._state.tables.live.of_connection(connection_id):
            return
        self._gone.put(connection_id)

    async def _forget(self, connection_id: int) -> None:
        """Remove the brokers of a lost connection."""
        try:
            steps = self._state.losing(connection_id, self._clock.now_ms())
            self._performer.perform(await self._handlers.slices.do(steps))
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told, and other brokers leave
            self._logs.write(catalogue.CHORE_FAILED, chore="forget", exc_info=error)

    def _close_connection(self, connection_id: int) -> None:
        if self._state.tables.live.of_connection(connection_id):
            # A broker has registered over it again since the scan.
            return
        self._server.close_connection(connection_id, CloseReason.IDLE)

    def _connections_max(self, config: NameServerConfig) -> int:
        """Return how many connections leave room for other files; the next one is refused, and that is told."""
        limit = raised_file_limit()
        room = max(1, limit - _FILES_RESERVED)
        if room < config.connections_max:
            self._logs.write(catalogue.FILES_LIMITED, connections_max=room, limit=limit)
        return min(room, config.connections_max)

    # TLS

    def _load_certificate(self, must_load: bool = False) -> None:  # noqa: FBT001, FBT002  # also a signal's callback
        settings = self._tls.settings
        error = self._tls.reload()
        if error is not None:
            if must_load:
                raise NotStarted(f"tls.server.mode=enforcing needs a certificate: {error}")
            self._logs.write(catalogue.CERTIFICATE_LOAD_FAILED, certificate="server", path=error.path, error=str(error))
        elif expiry_s := self._tls.certificate_expiry_unix_s:
            self._counts.certificate_expiry["server"] = expiry_s
            expires = datetime.fromtimestamp(expiry_s, UTC).isoformat()
            self._logs.write(
                catalogue.CERTIFICATE_LOADED, certificate="server", path=settings.cert_path, expires=expires
            )

    def _make_client(self, config: NameServerConfig) -> RemotingClient:
        try:
            context = client_context(self._tls.settings) if config.tls_enable else None
        except TlsError as error:
            raise NotStarted(f"requests to brokers shall go over TLS, but: {error}") from error
        return RemotingClient(self._clock, tls=context, serialize_type=SerializeType[config.serialize_type])


async def keep_up(chore: Callable[[], Awaitable[None]], logs: Logs, pause_s: float = 1.0) -> None:
    """Do what goes on for ever; if it fails, tell it and begin again after `pause_s`, so that it ends nothing else."""
    while True:
        try:
            await chore()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told
            logs.write(catalogue.CHORE_FAILED, chore=chore.__name__.strip("_"), exc_info=error)
            await asyncio.sleep(pause_s)


class _DepartureWatch:
    """Passes everything on to the journal, and tells the state of connections that ended."""

    def __init__(self, journal: Journal, lost: Callable[[int], None]) -> None:
        self._lost = lost
        self._journal = journal
        self.connection_opened = journal.connection_opened
        self.connection_refused = journal.connection_refused
        self.connection_paused = journal.connection_paused
        self.frame_rejected = journal.frame_rejected
        self.request_rejected = journal.request_rejected
        self.handler_failed = journal.handler_failed

    def connection_closed(self, connection: Peer, reason: CloseReason) -> None:
        """Remove the brokers that registered over a connection that is gone."""
        self._journal.connection_closed(connection, reason)
        self._lost(connection.id)


def raised_file_limit() -> int:
    """Let this process open as many files as the system allows it, as Java does, and return how many those are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS says "no limit" and then refuses it.
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, _FILES_WANTED)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _server_options(config: NameServerConfig, connections_max: int) -> ServerOptions:
    low, high = config.write_buffer_bytes
    return ServerOptions(
        limits=ServerLimits(
            frame_bytes_max=config.frame_bytes_max,
            unfinished_bytes_max=config.unfinished_bytes_max,
            unread_bytes_max=config.unread_bytes_max,
            connections_max=connections_max,
            idle_seconds=config.server_channel_max_idle_time_seconds,
            unsent_bytes_low=low,
            unsent_bytes_high=high,
            queued_requests_max=config.default_thread_pool_queue_capacity,
            socket_send_bytes=config.server_socket_snd_buf_bytes,
            socket_receive_bytes=config.server_socket_rcv_buf_bytes,
        ),
        urgent=frozenset({RequestCode.GET_ROUTEINFO_BY_TOPIC}),
        serialize_type=SerializeType[config.serialize_type],
    )


def _bound(host: str, port: int) -> socket.socket:
    """Return a listening socket, so that a port that is taken ends the start before anybody is served."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise NotStarted(f"cannot listen on {host}:{port} for HTTP: {error.strerror or error}") from error


async def _wait_at_most(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
