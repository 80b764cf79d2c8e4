"""The whole NameServer put together: its tables and rules, the listener, the tasks.

Answers to `NamesrvController`. No rule of RocketMQ is here; whatever needs no event loop is elsewhere.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from namesrv.app.away_set_store import AwaySetStore
from namesrv.app.effect_runner import RUN_EFFECTS, EffectRunner
from namesrv.app.role_addresses import RoleAddressKeeper
from namesrv.core.departure import ExpirySchedule
from namesrv.core.route_state import GUARANTEED_PER_CONNECTION, RouteState
from namesrv.core.values.cooperative import BATCH_TOPICS
from namesrv.core.values.effects import RouteOutcome
from namesrv.http.watches import Watches
from namesrv.observability.event_log import NameServerEventLog
from namesrv.observability.log_events import SCAN_SKIPPED
from namesrv.observability.metric_catalogue import DECLARED, EXPIRY_SCAN
from namesrv.settings.config import NAMESRV, NameServerConfig
from namesrv.settings.durable_settings import DurableSettings
from namesrv.settings.kv_config import KvConfig
from namesrv.wire.broker_requests import BrokerRequestHandler
from namesrv.wire.cooperative_runner import CooperativeRunner
from namesrv.wire.operator_requests import OperatorRequestHandler
from namesrv.wire.request_table import BODY_LIMITS, BROKER_CODES, RequestTable
from namesrv.wire.route_requests import RouteRequestHandler
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from remoting.protocol.codes import RequestCode
from remoting.server.limits import ServerOptions
from remoting.server.statistics import timer_ns
from serving.metrics.server_counters import ServerCounters
from serving.process.background_tasks import SerialQueue
from serving.process.event_log import AttributedDispatcher
from serving.process.process import Runtime, ServerProcess
from serving.telemetry.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from namesrv.app.peers import Peers
    from namesrv.recording.route_recorder import RouteRecorder
    from serving.http.paths import Endpoint
    from serving.process.background_tasks import BackgroundTask
    from serving.process.recording import Recording


_REMOVE: Final = "remove_lost_brokers"
_LEARN: Final = "learn_from_peers"
_ROUTE: Final = RequestCode.GET_ROUTEINFO_BY_TOPIC


def _route_recorder(
    recording: "Recording", state: RouteState, config: NameServerConfig, kv: KvConfig
) -> "RouteRecorder":
    from namesrv.recording.route_recorder import RouteRecorder  # noqa: PLC0415  # off by default

    return RouteRecorder(recording.recorder, state, config, kv)


class ConnectionCleanup:
    """Two queues of lost connections: a large one waits for other large ones, a small one for other small ones."""

    def __init__(
        self,
        state: RouteState,
        clock: Clock,
        runner: CooperativeRunner,
        perform: Callable[[RouteOutcome[Any]], None],
        tasks: BackgroundTasks,
    ) -> None:
        self._state = state
        self._clock = clock
        self._runner = runner
        self._perform = perform
        self._small = SerialQueue(self._remove, _REMOVE, tasks)
        self._large = SerialQueue(self._remove, _REMOVE, tasks)
        self._is_stopped = False

    def put(self, connection_id: int) -> None:
        """Queue a lost connection if a broker registered over it."""
        if not self._is_stopped and self._state.tables.live.has_registered_over(connection_id):
            (self._large if self._is_large(connection_id) else self._small).put(connection_id)

    def stop(self) -> None:
        """Ignore the connections that the server closes itself: their brokers are alive."""
        self._is_stopped = True

    def _is_large(self, connection_id: int) -> bool:
        tables = self._state.tables
        members = tables.live.of_connection(connection_id)
        if len(members) > GUARANTEED_PER_CONNECTION:
            return True
        return any(len(tables.topics.of_broker(member.broker_name)) > BATCH_TOPICS for member in members)

    async def _remove(self, connection_id: int) -> None:
        steps = self._state.connection_loss_steps(connection_id, self._clock.now_ms())
        self._perform(await self._runner.run_first(steps))


class NameServer:
    def __init__(self, config: NameServerConfig, kv: KvConfig, runtime: Runtime) -> None:
        """Wire it; raises StartFailed."""
        clock, logs, tasks = self._clock, self._logs, self._tasks = runtime.clock, runtime.logs, runtime.tasks
        # What is known: tables, counters, what is recorded, settings.
        state = self._state = RouteState(config)
        self._counters = ServerCounters()
        self._telemetry = Telemetry(logs, DECLARED, living=state.tables.brokers.clusters)
        streams_max = config.route_watchers_max if config.http_port else 0
        self._process = ServerProcess(NAMESRV, config, self._counters, runtime, streams_max)
        recording = self._process.recording
        self._recorder = _route_recorder(recording, state, config, kv) if recording is not None else None
        event_log = self._event_log = NameServerEventLog(logs, self._counters, self._telemetry, config, self._recorder)
        settings = self._settings = DurableSettings(
            config, kv, event_log, self._apply_config, lambda topic: state.route_cache.drop((topic,))
        )
        # What changes it: requests, lost connections, and the scan below. Their effects wait in a queue.
        watches = self._watches = Watches(state, settings, self._process.http_streams_max, clock, event_log)
        away = self._away_sets = AwaySetStore(config.broker_set_store_path, state, clock, event_log)
        self._client = self._process.make_client()
        peers = self._peers = self._peers_of(config)
        records = event_log.record, watches.cluster.record, away.record, *([peers.record] if peers else [])
        effects = self._effects = EffectRunner(state.tables.live, event_log, tasks, *records)
        self._perform = effects.perform
        runner = self._runner = CooperativeRunner()
        self._cleanup = ConnectionCleanup(state, clock, runner, effects.perform, tasks)
        routes = self._routes = RouteRequestHandler(state, settings, clock, runner)
        if peers is not None:
            routes.learn, routes.topic_digests = peers.route, peers.views.digests.topics
            routes.start_id = peers.start_id
        requests = RequestTable(
            BrokerRequestHandler(state, settings, clock, runner, effects.perform),
            routes,
            OperatorRequestHandler(state, settings, runner, effects.perform),
        )
        event_log.lost = self._connection_lost
        # What peers reach, and what reaches them.
        self._server = self._process.make_listener(
            AttributedDispatcher(requests, BROKER_CODES, _ROUTE),
            event_log,
            ServerOptions(
                urgent=frozenset() if peers else frozenset({_ROUTE}),
                cached_code=_ROUTE,
                body_limits=BODY_LIMITS,
                audience_of=state.role_addresses.audience_of if config.role_address_file else None,
                is_protected=state.tables.live.has_registered_over,
                workers=config.route_worker_count,
                tally=state.route_cache.counts.found,
            ),
            queued_requests_max=config.default_thread_pool_queue_capacity,
        )
        if self._server.workers is not None:
            self._server.workers.report_end = event_log.route_worker_ended
        self._process.health.waits_for = self._waits_for
        # Where clients get other addresses of brokers: the rules, and checks of where these addresses lead.
        self._role_addresses = RoleAddressKeeper(
            config, state.role_addresses, self._server.reclassify, self._client, clock, event_log, tasks
        )

    async def run(self) -> None:
        """Serve until the stop signal, then stop in order. Raises StartFailed."""
        routes, cluster = self._watches.routes, self._watches.cluster
        followed: list[BackgroundTask] = [
            self._scan,
            routes.publish_route_changes,
            cluster.publish_cluster_changes,
            self._away_sets.keep_away_sets,
        ]
        self._away_sets.restore()
        if self._settings.config.role_address_file:
            # Before the first query: clients keep what they get for 30 s.
            self._role_addresses.restore()
            await self._role_addresses.read_file()
            followed += [self._role_addresses.follow_role_addresses, self._role_addresses.check_role_addresses]
        if self._peers is not None:
            # Before the port is open: queries would wait for it and fill the queue, and clients find other servers.
            await self._peers.begin()
            self._routes.has_learned = self._peers.cold.missing() > 0
            followed.append(self._peers.compare_peers)
        config = self._settings.config
        host, port = await self._process.open(config.member_port, config.lookup_port)
        running_effects = self._tasks.keep_running(
            partial(self._effects.run_effects, self._server, self._client), RUN_EFFECTS
        )
        learning = self._tasks.start(self._learn(self._peers), _LEARN) if self._peers else None
        serialize_type = config.serialize_type
        self._logs.announce(f"The Name Server boot success. serializeType={serialize_type}, address {host}:{port}")
        self._process.start_http(self._site)
        if (recorder := self._recorder) is None:
            await self._process.serve(*followed)
        else:
            followed.append(recorder.take_snapshots)
            await self._process.serve(*followed, measure=partial(recorder.measure, self._state.route_cache.counts))
        if learning is not None:
            learning.cancel()
        # Brokers that leave from now on do so because this server stops.
        await self._away_sets.store()
        self._watches.close()
        await self._process.drain(self._settings.config)
        self._cleanup.stop()
        clients = [self._client, *([self._peers.client] if self._peers is not None else [])]
        await self._process.close(*(client.close for client in clients))
        running_effects.cancel()

    def _peers_of(self, config: NameServerConfig) -> "Peers | None":
        """Return what asks the other NameServers of the option; None without any."""
        if not config.peers:
            return None
        from namesrv.app.peers import Peers  # noqa: PLC0415  # nothing of it is loaded without peers

        addresses = dict.fromkeys(filter(None, config.peers.split(";")))
        client = self._process.make_client(servers=frozenset(addresses))
        return Peers(addresses, self._state, self._settings, client, self._clock, self._event_log, self._tasks)

    def _waits_for(self) -> str:
        """Return what this server waits for before it is ready, so that the next of its peers may be restarted."""
        workers, peers = self._server.workers, self._peers
        if workers is not None and not workers.are_ready:
            return "its route workers"
        missing = peers.cold.missing() if peers is not None else 0
        return f"brokers that are registered at its peers ({missing})" if missing else ""

    async def _learn(self, peers: "Peers") -> None:
        """Answer route queries with what peers know as long as brokers are missing; then at once, as ever."""
        try:
            await peers.learn()
        finally:
            self._routes.learn = None
            self._server.processor.set_urgent((_ROUTE,))

    def _site(self) -> "Sequence[Endpoint]":
        """Return the paths; in a thread, because what they import takes long."""
        # prometheus-client and the schemas of all answers: peers do not wait for them.
        from namesrv.http.metrics import NameServerMetrics, NameServerMetricSources  # noqa: PLC0415
        from namesrv.http.views import views_of  # noqa: PLC0415
        from serving.http.paths import endpoints_of  # noqa: PLC0415

        measured = NameServerMetricSources(
            state=self._state,
            settings=self._settings,
            statistics=self._server.statistics,
            counters=self._counters,
            telemetry=self._telemetry,
            logs=self._logs,
            health=self._process.health,
            recorder=self._process.recording.recorder if self._process.recording is not None else None,
            task_failures=self._tasks.failures,
            clock=self._clock,
            watches=self._watches,
            workers=self._server.workers,
            peers=self._peers.views if self._peers else None,
        )
        health, metrics = self._process.health, NameServerMetrics(measured).text
        known = self._state, self._settings, health, self._clock, self._watches
        views = views_of(*known, self._server.address, metrics, self._routes, measured.peers)
        return endpoints_of(*views)

    async def _scan(self) -> None:
        """Remove expired brokers at their deadlines, and at each scan interval."""
        live, expiry = self._state.tables.live, ExpirySchedule(self._clock.now_ms())
        while True:
            interval_ms = self._settings.config.scan_not_active_broker_interval_ms
            await asyncio.sleep(expiry.wait_ms(self._clock.now_ms(), live.earliest_ms, interval_ms) / 1000)
            now_ms = self._clock.now_ms()
            self._state.route_fetches.end_overdue(now_ms)
            for name, losses in self._state.lost_topics.report(now_ms):
                self._event_log.topics_not_copied(name, losses)
            if (late_ms := expiry.pause_ms(now_ms, interval_ms)) is not None:
                self._logs.write(SCAN_SKIPPED, late_ms=late_ms)
            elif expiry.is_due(now_ms, live.earliest_ms, interval_ms):
                began_ns = timer_ns()
                self._perform(await self._runner.run_first(self._state.expiry_steps(now_ms)))
                self._telemetry.timers[EXPIRY_SCAN].observe((), (timer_ns() - began_ns) / 1e9)

    def _connection_lost(self, connection_id: int) -> None:
        self._state.route_fetches.close(connection_id, self._clock.now_ms())
        self._cleanup.put(connection_id)

    def _apply_config(self, config: NameServerConfig) -> None:
        """Pass another configuration to the parts that keep an option of their own."""
        self._state.configure(config)
        self._process.follow(config)
