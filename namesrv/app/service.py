"""Wires a NameServer: its tables and rules, what any server has around them, and the two things it does by itself.

Answers to `NamesrvController`. Nothing of RocketMQ's rules is here; what can be decided without a loop is elsewhere.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from namesrv.app.connection_cleanup import LostConnections
from namesrv.app.effect_runner import Performer
from namesrv.core.expiry import ExpirySchedule
from namesrv.core.route_query_counters import RouteCounts
from namesrv.core.route_state import RouteState
from namesrv.observability.broker_counters import BrokerCounters
from namesrv.observability.event_log import Journal
from namesrv.observability.log_events import SCAN_SKIPPED
from namesrv.recording.route_recorder import RouteRecorder
from namesrv.settings.config import NAMESRV, NameServerConfig
from namesrv.settings.durable_settings import DurableSettings
from namesrv.settings.kv_config import KvConfig
from namesrv.wire.broker_requests import BrokerRequests
from namesrv.wire.cooperative_runner import CooperativeRunner
from namesrv.wire.operator_requests import OperatorRequests
from namesrv.wire.request_table import BODY_LIMITS, BROKER_CODES, RequestTable
from namesrv.wire.route_requests import RouteRequests
from remoting.protocol.codes import RequestCode
from remoting.server.limits import ServerOptions
from remoting.server.observer import CloseReason
from remoting.server.statistics import timer_ns
from serving.process.event_log import AttributedDispatcher, ConnectionWatch
from serving.process.process import Runtime, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

    from namesrv.http.views import Views
    from serving.http.endpoints import Endpoint


class NameServer:
    """One NameServer with all its parts."""

    def __init__(self, config: NameServerConfig, kv: KvConfig, runtime: Runtime) -> None:
        """Wire it; raises StartFailed."""
        self._clock, self._logs, self._tasks = runtime.clock, runtime.logs, runtime.tasks
        self._state = RouteState(config)
        self._counters = BrokerCounters(self._state.tables.brokers.clusters)
        self._process = ServerProcess(NAMESRV, config, self._counters, runtime)
        self._journal = Journal(self._logs, self._counters, config)
        self._settings = DurableSettings(
            config, kv, self._journal, self._follow, lambda topic: self._state.route_cache.drop((topic,))
        )
        if self._process.recording is not None:
            self._journal.history = RouteRecorder(self._process.recording.recorder, self._state, self._settings)
        self._client = self._process.make_client()
        self._performer = Performer(self._tasks, self._client, self, self._journal)
        self._runner = CooperativeRunner()
        self._route_counters = RouteCounts()
        perform = self._performer.perform
        requests = RequestTable(
            BrokerRequests(self._state, self._settings, self._clock, self._runner, perform),
            RouteRequests(self._state, self._settings, self._clock, self._runner, self._route_counters),
            OperatorRequests(self._state, self._settings, self._runner, perform),
        )
        self._server = self._process.make_listener(
            AttributedDispatcher(requests, BROKER_CODES, RequestCode.GET_ROUTEINFO_BY_TOPIC),
            ConnectionWatch(self._journal, self._lost),
            ServerOptions(
                urgent=frozenset({RequestCode.GET_ROUTEINFO_BY_TOPIC}),
                cached_code=RequestCode.GET_ROUTEINFO_BY_TOPIC,
                body_limits=BODY_LIMITS,
                is_protected=self._state.tables.live.has_registered_over,
            ),
            queued_requests_max=config.default_thread_pool_queue_capacity,
        )
        self._gone = LostConnections(self._state.tables, self._forget, self._tasks)
        self._closing = False

    async def run(self) -> None:
        """Serve until told to stop, then stop in order. Raises StartFailed."""
        host, port = await self._process.open()
        serialize_type = self._settings.config.serialize_type
        self._logs.announce(f"The Name Server boot success. serializeType={serialize_type}, address {host}:{port}")
        await self._process.start_http(self._site)
        if (history := self._journal.history) is None:
            await self._process.serve(self._scan)
        else:
            await self._process.serve(
                self._scan, history.take_snapshots, measure=partial(history.measure, self._route_counters)
            )
        await self._process.drain(self._settings.config)
        self._closing = True
        await self._process.close(self._client.close)

    def _site(self) -> "tuple[Sequence[Endpoint], Views]":
        """Return the paths and their views; in a thread, because what they import takes long."""
        # prometheus-client and the schemas of all answers: peers do not wait for them.
        from namesrv.http.endpoints import ENDPOINTS  # noqa: PLC0415
        from namesrv.http.views import Views, ViewSources  # noqa: PLC0415
        from namesrv.observability.metrics import Metrics, MetricSources  # noqa: PLC0415

        measured = MetricSources(
            state=self._state,
            settings=self._settings,
            route_counts=self._route_counters,
            statistics=self._server.statistics,
            counters=self._counters,
            logs=self._logs,
            health=self._process.health,
            recorder=self._process.recording.recorder if self._process.recording is not None else None,
            task_failures=self._tasks.failures,
            clock=self._clock,
        )
        sources = ViewSources(
            state=self._state,
            settings=self._settings,
            health=self._process.health,
            clock=self._clock,
            metrics=Metrics(measured),
            served_at=self._server.address,
        )
        return ENDPOINTS, Views(sources)

    # What happens by itself

    async def _scan(self) -> None:
        """Look for silent brokers at their deadlines, and at each interval."""
        live, expiry = self._state.tables.live, ExpirySchedule(self._clock.now_ms())
        while True:
            interval_ms = self._settings.config.scan_not_active_broker_interval_ms
            await asyncio.sleep(expiry.wait_ms(self._clock.now_ms(), live.earliest_ms, interval_ms) / 1000)
            now_ms = self._clock.now_ms()
            if (late_ms := expiry.pause_ms(now_ms, interval_ms)) is not None:
                self._logs.write(SCAN_SKIPPED, late_ms=late_ms)
            elif expiry.is_due(now_ms, live.earliest_ms, interval_ms):
                began_ns = timer_ns()
                self._performer.perform(await self._runner.run_first(self._state.expiry_steps(now_ms)))
                self._counters.expiry_scan.observe((timer_ns() - began_ns) / 1e9)

    # What the parts call

    def _follow(self, config: NameServerConfig) -> None:
        """Let the parts that keep an option of their own follow the configuration."""
        self._state.configure(config)
        self._process.follow(config)

    def _lost(self, connection_id: int) -> None:
        # Where we close the connections, no broker left: nobody is to be told of a master that is gone.
        if not self._closing:
            self._gone.put(connection_id)

    async def _forget(self, connection_id: int) -> None:
        """Remove the brokers of a lost connection."""
        steps = self._state.connection_loss_steps(connection_id, self._clock.now_ms())
        self._performer.perform(await self._runner.run_first(steps))

    def close_connection(self, connection_id: int) -> None:
        """Close the connection of a broker that was given up."""
        if self._state.tables.live.of_connection(connection_id):
            # A broker has registered over it again since the scan.
            return
        self._server.close_connection(connection_id, CloseReason.IDLE)

    def probe_connection(self, connection_id: int) -> None:
        """Find out whether a connection over which a broker registered before still has another end."""
        self._server.probe_connection(connection_id)
