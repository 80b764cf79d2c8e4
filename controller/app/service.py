"""Wires a controller: its engine, the store and the sockets that it works with, and what any server has around them.

Answers to `ControllerStartup`. Nothing of RocketMQ's rules is here.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controller.app.controller_core import ControllerCore
from controller.callbacks.callers import ProgramCaller, WebhookCaller
from controller.callbacks.delivered import DeliveredMasters
from controller.callbacks.service import RoleCallbacks
from controller.config import CONTROLLER, ControllerConfig, permitted_peers
from controller.endpoint_slices.api_server import ApiServer
from controller.endpoint_slices.service import EndpointSlices
from controller.failover.events import BrokerFailed, BrokersCleaned, BrokerSetExpired
from controller.failover.stored_elections import StoredElections
from controller.failure_detection.heartbeats import BrokerKey, LastHeartbeat
from controller.observability.analytics_results import ResultsReader
from controller.observability.log_events import DECLARED
from controller.role_probe.service import RoleProbe
from controller.roles.changes import RoleChanges
from controller.roles.events import RoleAnswers
from controller.scaling.autoscaler.findings import AnalysisOutlook
from controller.scaling.execution.service import QueueScaling, ScalingOptions
from controller.scaling.watching.policy_source import PolicySource
from controller.scaling.watching.service import Autoscaler
from controller.sets.broker_set import BrokerSet
from controller.switchover.rolling_restarts import RollingRestarts
from controller.switchover.service import Switchovers
from controller.wire.broker_queries import LogEndQueries, SwitchoverQueries
from controller.wire.handlers import BODY_LIMITS, BROKER_CODES, ReplicaInfoCache
from controller.wire.role_check_port import RoleCheckPort
from history.heartbeats import Heartbeat, HeartbeatAggregator
from history.recorder import Recorder
from history.rows import BrokerRef, Moment
from history.schemas import TICK_INTERVAL_MS
from remoting.background_tasks import Report, on_loop
from remoting.clock import Clock, SystemClock
from remoting.protocol.addresses import host_and_port
from remoting.protocol.codes import RequestCode
from remoting.protocol.shapes.controller import BrokerHeartbeatHeader
from remoting.server.limits import ServerOptions
from remoting.server.oneway_fast_path import OnewayKind
from remoting.server.server import BindError, RemotingServer
from serving.config.callback_target import is_url, program_of
from serving.config.service_sets import ServiceSet, ServiceSetsRefused, service_sets
from serving.config.stored_config import StoredConfig
from serving.metrics.server_counters import ServerCounters
from serving.process.event_log import AttributedDispatcher, ServerEventLog
from serving.process.own_address import address_towards_others, advertised_host, is_own_host, warn_of_loopback
from serving.process.process import Runtime, ServerProcess
from serving.process.start import StartFailed
from serving.telemetry.events import Emit, Event
from serving.telemetry.telemetry import Telemetry
from store.embedded import EmbeddedStore
from store.store import ControllerMember, SetStore, StoreBackend, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from serving.http.paths import Endpoint
    from serving.process.background_tasks import BackgroundTask


def member_of(config: ControllerConfig, port: int) -> ControllerMember:
    """Return this controller as the group and `/v1/controllers` show it; `port` is 0 while it does not listen yet.

    Raises StartFailed for a controller on etcd that would advertise a loopback address because it found no other: all
    such controllers would be one.
    """
    address = config.advertised_address
    if not address:
        if config.controller_store == "etcd" and address_towards_others(config.bind_address) is None:
            raise StartFailed(
                f"no address of this machine was found at which others reach it, and bindAddress is "
                f"{config.bind_address}: set advertisedAddress to host:port, as others reach this controller"
            )
        address = host_and_port(advertised_host(config.bind_address), port or config.listen_port)
    return ControllerMember(id=config.controller_id or address, address=address)


def logged_id(config: ControllerConfig, host_name: str) -> str:
    """Return the id of this controller before it is started: that of the group, or the host's name without address."""
    host = address_towards_others(config.bind_address)
    return config.controller_id or config.advertised_address or host_and_port(host or host_name, config.listen_port)


#: Variables that Kubernetes gives to each pod.
HOST_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
PORT_VARIABLE: Final = "KUBERNETES_SERVICE_PORT"


def make_endpoint_slices(
    core: ControllerCore, config: ControllerConfig, environment: Mapping[str, str], emit: Emit
) -> EndpointSlices:
    """Return what publishes the sets of the file that the configuration names; raises StartFailed."""
    host, port = environment.get(HOST_VARIABLE, ""), environment.get(PORT_VARIABLE, "")
    if not host or not (port.isascii() and port.isdigit()):
        raise StartFailed(f"kubernetesSetsFile is for pods: {HOST_VARIABLE} and {PORT_VARIABLE} name no API server")
    server = ApiServer(host, int(port), Path(config.kubernetes_credentials_path).expanduser())
    services = _services_in(Path(config.kubernetes_sets_path).expanduser())
    return EndpointSlices(core.group, core.store, SystemClock(), server, services, emit)


def _services_in(path: Path) -> tuple[ServiceSet, ...]:
    try:
        return tuple(service_sets(path.read_bytes()))
    except OSError as error:
        raise StartFailed(f"kubernetesSetsFile: {path} cannot be read: {error.strerror or error}") from None
    except ServiceSetsRefused as refusal:
        raise StartFailed(f"kubernetesSetsFile: {path}: {refusal}") from None


#: Variables of the controller's own options, passwords among them.
_HIDDEN_PREFIX: Final = "RMQ_"


def names_sets(value: str) -> Callable[[str], bool]:
    """Return what tells whether `onRoleChangeSets` names a set."""
    names = {name for each in value.split(";") if (name := each.strip())}
    prefixes = tuple(name[:-1] for name in names if name.endswith("*"))
    return lambda broker_name: not names or broker_name in names or broker_name.startswith(prefixes)


def _caller(config: ControllerConfig, clock: Clock) -> ProgramCaller | WebhookCaller:
    target = config.on_role_change
    if is_url(target):
        return WebhookCaller(target, config.on_role_change_token_path)
    threads = ThreadPoolExecutor(config.on_role_change_calls_max, thread_name_prefix="onRoleChange")
    return ProgramCaller(program_of(target), threads, _HIDDEN_PREFIX, clock)


class HeartbeatRecording:
    """The heartbeats that are recorded."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._clock = SystemClock()
        self._heartbeats = HeartbeatAggregator()

    def record_heartbeat(self, cluster: str, key: BrokerKey, last: LastHeartbeat, before: LastHeartbeat | None) -> None:
        """Record a heartbeat, or what its minute comes to."""
        heartbeat = Heartbeat(
            Moment(self._clock.unix_us(), self._clock.mono_us()),
            BrokerRef(cluster, key.broker_name, key.broker_id, last.address),
            "controller",
            None if before is None or before.awaits_heartbeat else last.last_contact_ms - before.last_contact_ms,
            last.timeout_ms,
            max_offset=last.max_offset,
            epoch=last.epoch,
        )
        for each in self._heartbeats.add(heartbeat):
            self._recorder.enqueue_heartbeat(each)

    def follow(self, event: Event) -> None:
        """End the minutes of brokers that have failed, or belong to their set no longer."""
        match event:
            case BrokerFailed(broker_set=BrokerSet() as broker_set, key=key):
                self._remove(broker_set, [key.broker_id])
            case BrokersCleaned(before=broker_set, gone=broker_ids):
                self._remove(broker_set, broker_ids)
            case BrokerSetExpired(broker_set=broker_set):
                self._remove(broker_set, broker_set.replicas)

    def _remove(self, broker_set: BrokerSet, broker_ids: Iterable[int]) -> None:
        for broker_id in broker_ids:
            moment = Moment(self._clock.unix_us(), self._clock.mono_us())
            for summary in self._heartbeats.remove(broker_set.cluster, broker_set.broker_name, broker_id, moment):
                self._recorder.enqueue_heartbeat(summary)


#: One answer for each tick.
_POLL_S: Final = TICK_INTERVAL_MS / 1000


class StoreSize:
    def __init__(self, backend: StoreBackend) -> None:
        self._backend = backend
        #: Bytes; None where the store has no such size, or did not answer the last time.
        self.latest: int | None = None

    async def poll_store_size(self) -> None:
        while True:
            try:
                self.latest = await self._backend.size_bytes()
            except StoreError:
                # The calls that matter report whether etcd serves.
                self.latest = None
            await asyncio.sleep(_POLL_S)


#: What each broker sends again and again: answered at once from what is known.
_URGENT: Final = frozenset({RequestCode.BROKER_HEARTBEAT, RequestCode.CONTROLLER_GET_REPLICA_INFO})


class Controller:
    def __init__(self, config: ControllerConfig, runtime: Runtime) -> None:
        self._clock, self._logs, self._tasks = runtime.clock, runtime.logs, runtime.tasks
        self._counters = ServerCounters()
        self._process = ServerProcess(CONTROLLER, config, self._counters, runtime)
        self._recorder = self._process.recording.recorder if self._process.recording is not None else None
        self._event_log = ServerEventLog(CONTROLLER, self._logs, self._counters, config)
        requester = self._event_log.requester
        self._telemetry = Telemetry(
            self._logs,
            DECLARED,
            self._recorder,
            living=lambda: {each.cluster for each in self._core.store.sets()},
            requester=requester,
        )
        self._settings = StoredConfig(CONTROLLER, config, self._event_log, self._process.follow)
        if not config.advertised_address:
            warn_of_loopback(config.bind_address, self._logs)
        peers = permitted_peers(config)
        self._client = self._process.make_client(peers)
        self._backend = self._open_store(config)
        self._stop = runtime.signals.stop
        self._size = StoreSize(self._backend)
        # Sets and their masters: what decides, and who follows the roles of brokers.
        replica_infos, role_changes = ReplicaInfoCache(), RoleChanges(self._clock)
        store = SetStore(self._backend, replica_infos, role_changes)
        self._telemetry.followers.append(RoleAnswers(self._telemetry.emit, store.get).follow)
        self._core = self._make_core(store, replica_infos, role_changes)
        roles, emit = self._core.roles, self._telemetry.emit
        self._role_checks = RoleCheckPort(roles.answer, lambda: self._core.group.is_leader, roles.checkers.record, emit)
        self._elections = StoredElections(self._core.control.elections, self._core.group, self._backend, self._clock)
        self._callbacks = self._make_callbacks() if config.on_role_change else None
        if self._callbacks is not None:
            self._core.role_changed = self._callbacks.role_changed
        has_sets = bool(config.kubernetes_sets_path)
        self._slices = make_endpoint_slices(self._core, config, os.environ, emit) if has_sets else None
        self._probe_client = self._process.make_client(peers) if config.role_probe_topic else None
        self._probe: RoleProbe | None = None
        if (client := self._probe_client) is not None:
            self._probe = RoleProbe(
                self._core.group, client, self._clock, lambda: self._settings.config, emit, self._core.begin
            )
        # Queues, and changes that operators plan.
        self._scaling = self._make_scaling()
        policies = PolicySource(config.scaling_policy_file, self._scaling.documents, emit)
        self._autoscaler = Autoscaler(self._scaling, policies, self._outlook)
        queries = SwitchoverQueries(self._client)
        # Elections share the answers to queries of a set: those of an election are its own.
        log_ends = LogEndQueries(self._client).query
        control, start, clock = self._core.control, self._core.begin, self._clock
        self._switchovers = Switchovers(control, roles, log_ends, queries.all_ack, clock, emit, start)
        self._restarts = RollingRestarts(
            control=control,
            switchovers=self._switchovers,
            documents=self._scaling.documents,
            check_leads=self._scaling.check_leads,
            query_boot=queries.boot_unix_ms,
            clock=clock,
            emit=emit,
            start=start,
        )
        self._results = ResultsReader(Path(config.analytics_dir).expanduser()) if config.analytics_dir else None
        self._server = self._make_listener(config.controller_request_thread_pool_queue_capacity)
        self._is_closing = False

    def _make_core(
        self,
        store: SetStore,
        replica_infos: ReplicaInfoCache,
        role_changes: RoleChanges,
    ) -> ControllerCore:
        heartbeats = HeartbeatRecording(self._recorder) if self._recorder is not None else None
        if heartbeats is not None:
            self._telemetry.followers.append(heartbeats.follow)
        return ControllerCore(
            member_of(self._settings.config, 0),
            clock=self._clock,
            tasks=self._tasks,
            client=self._client,
            backend=self._backend,
            store=store,
            replica_infos=replica_infos,
            role_changes=role_changes,
            settings=self._settings,
            emit=self._telemetry.emit,
            is_own_host=is_own_host,
            record_heartbeat=heartbeats.record_heartbeat if heartbeats is not None else None,
            stop=self._stop,
        )

    def _make_callbacks(self) -> RoleCallbacks:
        elections, config = self._core.control.elections, self._settings.config
        return RoleCallbacks(
            group=self._core.group,
            sets=self._core.store,
            delivered=DeliveredMasters(self._backend),
            caller=_caller(config, self._clock),
            clock=self._clock,
            config=lambda: self._settings.config,
            emit=self._telemetry.emit,
            is_named=names_sets(config.on_role_change_sets),
            explain=lambda change: elections.why(change.broker_name, change.master_epoch),
            start=self._core.begin,
        )

    def _make_scaling(self) -> QueueScaling:
        return QueueScaling(
            group=self._core.group,
            sets=self._core.store,
            backend=self._backend,
            client=self._client,
            clock=self._clock,
            options=lambda: ScalingOptions.of(self._settings.config),
            emit=self._telemetry.emit,
            begin=self._core.begin,
        )

    def _outlook(self, topic: str) -> AnalysisOutlook:
        return self._results.outlooks.of_topic(topic) if self._results is not None else AnalysisOutlook()

    def _make_listener(self, queued_requests_max: int) -> RemotingServer:
        handlers = self._core.handlers
        self._event_log.lost = self._lost
        return self._process.make_listener(
            AttributedDispatcher(handlers, BROKER_CODES, RequestCode.BROKER_HEARTBEAT),
            self._event_log,
            ServerOptions(
                urgent=_URGENT,
                cached_code=RequestCode.CONTROLLER_GET_REPLICA_INFO,
                oneway=OnewayKind(RequestCode.BROKER_HEARTBEAT, BrokerHeartbeatHeader, handlers.take_heartbeat),
                body_limits=BODY_LIMITS,
                is_protected=self._core.control.is_of_member,
            ),
            queued_requests_max=queued_requests_max,
        )

    async def run(self) -> None:
        """Serve until the stop signal, then stop in order. Raises StartFailed."""
        config = self._settings.config
        host, port = await self._process.open()
        self._listen_for_role_checks(config)
        joining = self._core.begin(self._core.join(member_of(config, port)))
        if config.controller_store == "embedded":
            # Nobody else can lead: whoever sees the next line is served.
            await joining
            await self._led_or_stopped()
        if not self._stop.is_set():
            self._logs.announce(
                f"The Controller Server boot success. serializeType={config.serialize_type}, address {host}:{port}"
            )
            self._process.start_http(self._site)
            await self._process.serve(*self._own_work(), measure=self._measure)
        joining.cancel()
        await self._elections.store_rest()
        await self._core.resign()
        await self._process.drain(self._settings.config)
        self._is_closing = True
        self._role_checks.close()
        optional = (each.close for each in (self._callbacks, self._probe_client) if each is not None)
        await self._process.close(self._core.close, *optional, self._client.close, self._backend.close)

    def _own_work(self) -> "list[BackgroundTask]":
        own: list[BackgroundTask] = [
            self._core.look_at_brokers,
            self._core.look_at_sets,
            self._core.publish_role_changes,
            self._elections.keep_elections,
            self._scaling.run,
            self._autoscaler.watch_topics,
            self._restarts.look_at_restarts,
        ]
        if self._autoscaler.policies.is_file:
            own.append(self._autoscaler.policies.watch_file)
        if self._results is not None:
            own.append(self._results.read_results)
        if self._probe is not None:
            own.append(self._probe.probe_roles)
        if self._callbacks is not None:
            own.append(self._callbacks.deliver_role_changes)
        if self._slices is not None:
            own.append(self._slices.publish_brokers)
        if self._process.recording is not None:
            own.append(self._size.poll_store_size)
        return own

    def _listen_for_role_checks(self, config: ControllerConfig) -> None:
        if config.role_check_port:
            try:
                self._role_checks.listen(config.bind_address, config.role_check_port)
            except BindError as error:
                raise StartFailed(f"roleCheckPort: {error}") from error

    def _site(self) -> "Sequence[Endpoint]":
        """Return the paths; in a thread, because what they import takes long."""
        # prometheus-client and the schemas of all answers: peers do not wait for them.
        from controller.http.views import views_of  # noqa: PLC0415
        from controller.observability.metrics import ControllerMetrics, ControllerMetricSources  # noqa: PLC0415
        from serving.http.paths import endpoints_of  # noqa: PLC0415

        parts = (
            self._switchovers,
            self._restarts,
            self._scaling,
            self._autoscaler,
            self._callbacks,
            self._slices,
            self._probe,
        )
        sources = ControllerMetricSources(
            statistics=self._server.statistics,
            counters=self._counters,
            logs=self._logs,
            health=self._process.health,
            recorder=self._recorder,
            task_failures=self._tasks.failures,
            control=self._core.control,
            telemetry=self._telemetry,
            measures=[part.measures for part in parts if part is not None],
            clock=self._clock,
            results=lambda: self._results.samples if self._results is not None else (),
        )
        views = views_of(
            self._process.health,
            ControllerMetrics(sources).text,
            self._settings,
            self._clock,
            self._core.control,
            self._core.roles,
            self._elections,
            self._autoscaler,
            self._switchovers,
            self._restarts,
            self._callbacks,
        )
        return endpoints_of(*views)

    def _measure(self) -> dict[str, int | float | None]:
        return {"brokers": self._core.live.brokers, "etcd_db_bytes": self._size.latest}

    def _open_store(self, config: ControllerConfig) -> StoreBackend:
        try:
            return open_store(config, self._clock, on_loop(self._telemetry.emit), on_loop(self._tasks.report))
        except StoreError as error:
            raise StartFailed(str(error)) from error

    async def _led_or_stopped(self) -> None:
        """Wait until this controller leads, or is to stop: its store may never be read."""
        waiting = {self._core.begin(_set(each)) for each in (self._core.led, self._stop)}
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in waiting:
            each.cancel()

    def _lost(self, connection_id: int) -> None:
        if not self._is_closing:
            self._core.connection_lost(connection_id)


def open_store(config: ControllerConfig, clock: Clock, emit: Emit, report: Report) -> StoreBackend:
    if config.controller_store == "embedded":
        return EmbeddedStore(Path(config.controller_store_path), emit, report)
    # It loads gRPC, which takes a while and which nobody else needs.
    from store.etcd.client import etcd_options  # noqa: PLC0415
    from store.etcd.etcd_store import EtcdStore  # noqa: PLC0415

    return EtcdStore(etcd_options(config, config.controller_group), clock, emit, report)


async def _set(event: asyncio.Event) -> None:
    await event.wait()
