"""Wires an offset manager. Each part adds a line to what runs, what is shown, what is measured, and what is closed."""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from offsets.at_broker import REQUESTS_MAX, UNSIGNED_REQUESTS
from offsets.catalogues import DECLARED, SERVER
from offsets.commits.log_file import EmbeddedStore, LogFile
from offsets.commits.service import CommitStore, OffsetService
from offsets.config import OFFSET_MANAGER, OffsetManagerConfig
from offsets.lead import Lead
from offsets.order.declared import Declared, DeclaredFile, DeclaredStore
from offsets.order.service import OrderService
from offsets.readings.readings import Readings
from offsets.repair.service import Repairer
from offsets.restore.lag import LagReader
from offsets.restore.operations import Operations
from offsets.restore.restorer import Restorer
from offsets.sets.by_controllers import ControllerFollowing
from offsets.sets.by_name_servers import NameServerFollowing
from offsets.sets.following import Following
from remoting.admin.client import AdminClient, AdminLimits
from remoting.background_tasks import BackgroundTasks
from remoting.client import Requester
from remoting.clock import BootClock, Clock
from remoting.protocol.addresses import host_and_port
from serving.config.checks import listed_keys
from serving.config.name_patterns import NamePattern
from serving.metrics.server_counters import ServerCounters
from serving.process.broker_access import broker_client
from serving.process.own_address import address_towards_others, advertised_host, warn_of_loopback
from serving.process.process import HttpProcess, Runtime
from serving.process.start import StartFailed
from serving.telemetry.events import Event, Measure
from serving.telemetry.telemetry import Telemetry
from store.store import ControllerMember, StoreError

if TYPE_CHECKING:
    from serving.http.paths import Endpoint
    from serving.process.background_tasks import BackgroundTask

#: Requests of repairs and restores under way.
WRITES_MAX = 256


class OffsetManager:
    """One offset manager with all its parts."""

    def __init__(self, config: OffsetManagerConfig, runtime: Runtime) -> None:
        """Wire it; raises StartFailed."""
        # Leases go on while the host is suspended: other managers go by them meanwhile.
        runtime = replace(runtime, clock=BootClock())
        clock, self._logs, self._tasks = runtime.clock, runtime.logs, runtime.tasks
        self._config, self._clock = config, clock
        self._counters = ServerCounters()
        self._process = HttpProcess(OFFSET_MANAGER, config, self._counters, runtime, config.client_token_file)
        recording = self._process.recording
        self._recorder = None if recording is None else recording.recorder
        self._telemetry = Telemetry(self._logs, DECLARED, self._recorder)
        emit = self._telemetry.emit
        client = broker_client(config, clock, self._logs, self._telemetry.counters[UNSIGNED_REQUESTS])
        self._lead, store, declared = stores_of(config, clock, self._tasks, emit)
        self._following = following_of(config, client, clock, emit)
        self._commits = OffsetService(store, self._lead, clock, self._tasks, emit, config.offsets_max)
        store_path = Path(config.store_path)
        self._readings = Readings(client, self._following, clock, emit, self._tasks.report, config)
        admin = AdminClient(client, AdminLimits(requests_max=WRITES_MAX, requests_per_peer_max=REQUESTS_MAX))
        self._repairer = Repairer(
            admin,
            clock,
            emit,
            store_path / "repairs",
            known_before=self._readings.known_before,
            parted=self._readings.parted,
            is_leading=self._lead.is_leading,
            is_master=self._following.is_master,
            acts_for=_is_named(config.repair_groups) if config.repair == "act" else lambda _: False,
            tasks=self._tasks,
        )
        self._following.listeners.append(self._repairer.changed)
        self._readings.restarted.append(self._repairer.restarted)
        self._operations = Operations(store_path / "operations", lambda: self._lead.me.address, emit)
        self._restorer = Restorer(
            admin, self._readings, self._following, self._operations, clock, emit, self._lead.is_leading
        )
        self._lags = LagReader(admin, clock)
        self._order = OrderService(
            self._following,
            self._lead,
            Declared(declared, emit),
            client,
            self._tasks,
            clock,
            emit,
            replays=config.lock_replay == "on",
        )
        #: Run until the stop signal, by the names that logs and metrics have.
        self._work: dict[str, BackgroundTask] = {
            "follow_masters": self._follow_masters,
            "readings": self._readings.run,
            "order": self._order.run,
        }
        self._measures: list[Callable[[], Iterable[Measure]]] = [
            self._lead.measures,
            self._following.measures,
            self._readings.measures,
            self._repairer.measures,
            self._commits.measures,
            self._order.measures,
        ]
        #: Called in this order once no request is served any more: offsets are stored before the lead is given up.
        self._closing: list[Callable[[], Awaitable[None]]] = [
            self._repairer.close,
            self._readings.close,
            self._commits.close,
            self._lead.resign,
            client.close,
            self._lead.close,
        ]

    async def run(self) -> None:
        """Serve until the stop signal, then stop in order. Raises StartFailed."""
        self._process.open()
        me = member_of(self._config, self._process.address)
        if not self._config.advertised_address:
            warn_of_loopback(self._config.http_bind_address, self._logs)
        self._lead.start(me)
        await self._process.start_http(self._site)
        await self._process.serve(self._work)
        self._process.drain()
        await self._process.close(*self._closing)

    async def _follow_masters(self) -> None:
        """Follow for ever, once everything is loaded with which the first changes are compared."""
        await self._repairer.load()
        await self._readings.load()
        await self._following.run()

    def _site(self) -> "Sequence[Endpoint]":
        """Return the paths; in a thread, because what they import takes long."""
        from offsets.http.commits import CommitViews  # noqa: PLC0415
        from offsets.http.manager_views import ManagerViews, check_ready  # noqa: PLC0415
        from offsets.http.order import OrderViews  # noqa: PLC0415
        from offsets.http.readings import ReadingViews  # noqa: PLC0415
        from offsets.http.repairs import RepairViews  # noqa: PLC0415
        from offsets.http.restores import RestoreViews  # noqa: PLC0415
        from serving.http.paths import endpoints_of  # noqa: PLC0415
        from serving.http.server_views import ConfigViews, ProbeViews  # noqa: PLC0415
        from serving.telemetry.exposition import HttpServerMetrics, ProcessSources  # noqa: PLC0415

        sources = ProcessSources(
            counters=self._counters,
            telemetry=self._telemetry,
            measures=self._measures,
            logs=self._logs,
            health=self._process.health,
            task_failures=self._tasks.failures,
            recorder=self._recorder,
        )
        return endpoints_of(
            ProbeViews(lambda: check_ready(self._process.health, self._lead), HttpServerMetrics(SERVER, sources).text),
            ConfigViews(OFFSET_MANAGER, lambda: self._config),
            ManagerViews(self._config, self._lead, self._following, self._commits),
            ReadingViews(self._readings),
            RepairViews(self._repairer, self._lead, self._following, self._config.repair),
            RestoreViews(
                self._restorer,
                self._operations,
                self._lags,
                self._readings,
                self._following,
                self._commits,
                self._lead,
            ),
            CommitViews(self._commits, secrets.token_hex(4)),
            OrderViews(self._order, self._lead, self._clock, follows_brokers=self._config.follows_brokers),
        )


def stores_of(
    config: OffsetManagerConfig, clock: Clock, tasks: BackgroundTasks, emit: Callable[[Event], None]
) -> tuple[Lead, CommitStore, DeclaredStore]:
    """Return the lead, and where commits and declared orderly groups are; raises StartFailed."""
    folder = Path(config.store_path)
    try:
        if config.store == "embedded":
            return Lead(clock, emit), EmbeddedStore(folder, clock, tasks, emit), DeclaredFile(folder)
        # They load gRPC, which takes a while and which nothing else needs.
        from offsets.commits.etcd_rows import EtcdRows  # noqa: PLC0415
        from offsets.commits.write_behind import WriteBehind  # noqa: PLC0415
        from offsets.etcd_lead import EtcdLead  # noqa: PLC0415
        from offsets.order.declared_in_etcd import DeclaredKey  # noqa: PLC0415
        from store.etcd.client import etcd_options  # noqa: PLC0415

        lead = EtcdLead(etcd_options(config, config.manager_group), clock, emit, tasks.report)
        commits = WriteBehind(
            LogFile(folder, "etcd", clock, emit),
            EtcdRows(lead, clock),
            clock,
            tasks,
            emit,
            flush_interval_ms=config.flush_interval_ms,
            dirty_keys_max=config.dirty_keys_max,
            is_written_through=_is_named(config.write_through_groups),
        )
        return lead, commits, DeclaredKey(lead, clock)
    except StoreError as error:
        raise StartFailed(str(error)) from error


def _is_named(patterns: str) -> Callable[[str], bool]:
    """Return whether patterns name a group; asked for each change, many times a second."""
    compiled = [NamePattern(pattern) for pattern in sorted(listed_keys(patterns))]
    return lru_cache(50_000)(lambda group: any(pattern.matches(group) for pattern in compiled))


def following_of(
    config: OffsetManagerConfig, client: Requester, clock: Clock, emit: Callable[[Event], None]
) -> Following:
    """Return the masters by controllers or by NameServers, whichever are configured."""
    if config.controller_http_addr:
        return ControllerFollowing(config.controller_http_addr.split(";"), clock, emit)
    if config.namesrv_addr:
        return NameServerFollowing(config.namesrv_addr.split(";"), client, clock, emit)
    return Following(clock, emit)


def member_of(config: OffsetManagerConfig, bound_address: str) -> ControllerMember:
    """Return this manager as others and clients know it.

    Raises StartFailed for a manager on etcd that would advertise a loopback address because it found no other.
    """
    address = config.advertised_address
    if not address:
        if config.store == "etcd" and address_towards_others(config.http_bind_address) is None:
            raise StartFailed(
                "no address of this machine was found at which clients reach it: set advertisedAddress to host:port"
            )
        port = int(bound_address.rpartition(":")[2])
        address = host_and_port(advertised_host(config.http_bind_address), port)
    return ControllerMember(id=config.manager_id or address, address=address)


def logged_id(config: OffsetManagerConfig, host_name: str) -> str:
    """Return the id of this manager before it is started."""
    host = address_towards_others(config.http_bind_address)
    return config.manager_id or config.advertised_address or host_and_port(host or host_name, config.http_port)
