"""A controller without sockets: its control, handlers, log, counts and HTTP side over a store of its own.

The clock advances only by `pass_ms`; `effects` has what the controller requests of its edge.
"""

import asyncio
import json
import socket

import aiohttp
from yarl import URL

from controller.app.controller_core import failover
from controller.config import CONTROLLER, ControllerConfig
from controller.decisions.recovery import Recovery
from controller.failover.election_log import ElectionLog
from controller.failover.events import NotifyRoleChanged, ProbeBroker
from controller.failover.fences import Fences
from controller.failover.group import Group
from controller.failover.set_writer import ClusterState
from controller.failover.stored_elections import StoredElections
from controller.failure_detection.detector import FailureDetector
from controller.failure_detection.heartbeats import BrokerKey, HeartbeatTable
from controller.failure_detection.hosts import HostLiveness
from controller.failure_detection.senders import Reachability
from controller.failure_detection.suspicion import ProbeOutcome
from controller.http.views import views_of
from controller.observability.log_events import DECLARED
from controller.observability.metrics import ControllerMetrics, ControllerMetricSources
from controller.roles.broker_roles import BrokerRoles, RoleCheckers, RoleHolds, ServingConfirmations
from controller.roles.changes import RoleChanges
from controller.scaling.autoscaler.findings import AnalysisOutlook
from controller.scaling.execution.events import resize_measures
from controller.scaling.execution.service import QueueScaling, ScalingOptions
from controller.scaling.watching.policy_source import PolicySource
from controller.scaling.watching.service import Autoscaler
from controller.switchover.rolling_restarts import RollingRestarts
from controller.switchover.service import Switchovers
from controller.wire.handlers import Handlers, ReplicaInfoCache
from fakes.admin_token import ADMIN_TOKEN
from fakes.clock import FakeClock
from fakes.lines import Lines
from fakes.simulated_brokers import SimulatedBrokers
from remoting.background_tasks import on_loop
from remoting.client import RemotingClient
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, RequestRefused
from remoting.server.observer import ConnectionKind
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import ServerStatistics
from serving.config.stored_config import StoredConfig
from serving.http.admin_access import AdminToken, HttpTokens
from serving.http.paths import endpoints_of
from serving.http.server import make_app, start_http
from serving.logging.logs import Logs, json_line
from serving.metrics.health import Health, Serving
from serving.metrics.server_counters import ServerCounters
from serving.process.background_tasks import logged_tasks
from serving.process.event_log import ServerEventLog
from serving.telemetry.telemetry import Telemetry
from store.embedded import EmbeddedStore
from store.store import ControllerMember, SetStore

CLUSTER = "C"
SET = "broker-a"
ME = ControllerMember(id="n0", address="10.0.0.1:9878")


def at(broker_id):
    return f"10.0.0.{10 + broker_id}:30911"


class APeer:
    """The other end of a connection."""

    def __init__(self, number, host=None, forwarded=None):
        self.id = number
        self.socket_peer = f"{host or f'10.0.0.{number}'}:50000"
        self.peer = self.socket_peer if forwarded is None else f"{forwarded}:50000"
        self.kind = ConnectionKind.UNKNOWN


def new_control(controller):
    """Return a controller that has just started, on what is stored, and the detection that it begins with."""
    controller.live, controller.reachability = HeartbeatTable(), Reachability()
    controller.checkers = RoleCheckers(controller.clock)
    hosts = HostLiveness(lambda host: ME.address == f"{host}:9878")
    controller.detector = FailureDetector(controller.live, hosts, controller.store.is_master, controller.clock.now_ms())
    controller.fences = Fences(controller.detector, controller.checkers.not_down)
    return failover(
        ClusterState(
            store=controller.store,
            group=controller.group,
            live=controller.live,
            detector=controller.detector,
            recovery=Recovery(controller.live),
            fences=controller.fences,
            clock=controller.clock,
            config=lambda: controller.settings.config,
            perform=controller._perform,
            emit=controller.telemetry.emit,
            start=controller._start,
        ),
        controller.elections,
        controller.reachability,
        controller._log_ends,
        controller._confirmed_on,
        controller._record,
    )


def new_roles(controller):
    """Return the roles of brokers as a controller knows them that has just started."""

    async def is_master(address):
        return address in controller.masters

    serving = ServingConfirmations(
        controller.group,
        controller.clock,
        controller._start,
        is_master,
        lambda change, after_ms: controller.serving_reported.append((change, after_ms)),
    )
    return BrokerRoles(
        controller.control, serving, RoleHolds(controller.clock, lambda *_: None), controller.checkers, controller.clock
    )


class InProcessController(SimulatedBrokers):
    """A broker uses the connection with the number of its id; its port answers a reachability check if `reaches`."""

    #: Takes the heartbeats of members, as what records them does.
    record_heartbeat = staticmethod(lambda *_: None)
    #: Where requests come from; None: each from a host of its own.
    peer_host = None
    #: The host that a PROXY header before them names; None: there is none.
    forwarded_host = None

    def __init__(self, folder, **settings):
        super().__init__()
        settings.setdefault("config_store_path", str(folder / "controller.properties"))
        # What operators change in files, tests change by request.
        settings.setdefault("config_white_list", "adoptUnknownBrokers;enableElectUncleanMaster")
        self.config = ControllerConfig(**settings)
        self.clock = FakeClock()
        self.lines = Lines()
        self.logs = Logs(self.lines, json_line(), self.clock, {})
        self.counters = ServerCounters()
        self.journal = ServerEventLog(CONTROLLER, self.logs, self.counters, self.config)
        self.telemetry = Telemetry(self.logs, DECLARED, requester=self.journal.requester)
        self.settings = StoredConfig(CONTROLLER, self.config, self.journal, lambda _: None)
        self.backend = EmbeddedStore(folder / "store", on_loop(self.telemetry.emit), on_loop(self._task_failed))
        self.replica_infos = ReplicaInfoCache()
        self.role_changes = RoleChanges(self.clock)
        self.store = SetStore(self.backend, self.replica_infos, self.role_changes)
        self.group = Group("g", ME, self.clock, self.store)
        self.elections = ElectionLog(ME.address)
        self.stored_elections = StoredElections(self.elections, self.group, self.backend, self.clock)
        #: Changes whose masters are known to serve.
        self.serving_reported = []
        self.tasks = set()
        self.control = new_control(self)
        self.roles = new_roles(self)
        self.handlers = Handlers(self.control, self.settings, self.clock, self.replica_infos)
        self.statistics = ServerStatistics()
        self.health = Health()
        self.background = logged_tasks(self.logs)
        self.background.failures["a_task"] = 0
        #: What analyses have published.
        self.results = ()
        #: Resizes under way.
        self.resizes = ()
        #: What a probe measures.
        self.probe_measures = ()
        #: What calls onRoleChange.
        self.callbacks = None
        self.metrics = self.new_metrics()
        self.session = None

    def new_metrics(self):
        """Return the metrics, which read what the controller has at a scrape."""
        return ControllerMetrics(
            ControllerMetricSources(
                statistics=self.statistics,
                counters=self.counters,
                logs=self.logs,
                health=self.health,
                task_failures=self.background.failures,
                control=self.control,
                clock=self.clock,
                results=lambda: self.results,
                telemetry=self.telemetry,
                measures=(
                    lambda: self.callbacks.measures() if self.callbacks is not None else (),
                    lambda: self.probe_measures,
                    lambda: (*self.autoscaler.measures(), *self.restarts.measures()),
                    lambda: resize_measures(self.resizes, self.clock.unix_ms()) if self.group.is_leader else (),
                ),
            )
        )

    def restart(self):
        """Let the controller know nothing but what is stored."""
        self.control = new_control(self)
        self.roles = new_roles(self)
        self.handlers = Handlers(self.control, self.settings, self.clock, self.replica_infos)
        self.control.monitor.take_over()

    def count(self, counter):
        """Return the counts of a counter that are not 0."""
        return {labels: count for labels, count in self.telemetry.counters[counter].counts().items() if count}

    def _task_failed(self, name, error):
        self.loop.call_exception_handler({"message": name, "exception": error})

    def _record(self, *heartbeat):
        self.record_heartbeat(*heartbeat)

    def _start(self, work):
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def __aenter__(self):
        self.loop = asyncio.get_running_loop()
        self.client = RemotingClient(self.clock)
        self.scaling = QueueScaling(
            group=self.group,
            sets=self.store,
            backend=self.backend,
            client=self.client,
            clock=self.clock,
            options=lambda: ScalingOptions.of(self.settings.config),
            emit=self.telemetry.emit,
            begin=self._start,
        )
        self.autoscaler = self.new_autoscaler()
        self.plan()
        await self.backend.join(ME, self.group)
        await self.store.load()
        self.group.ready(self.group.term)
        await self.scaling.look()
        self.health.serving = Serving.READY
        return self

    def new_autoscaler(self, policy_file=""):
        """Return an autoscaler that looks when a test lets it."""
        policies = PolicySource(str(policy_file), self.scaling.documents, self.telemetry.emit)
        return Autoscaler(self.scaling, policies, lambda _: AnalysisOutlook())

    def plan(self):
        """Wire switchovers and rolling restarts; brokers answer by `log_ends`, `all_ack` and `boots`."""
        emit, start = self.telemetry.emit, self._start
        self.switchovers = Switchovers(self.control, self.roles, self._log_ends, self._all_ack, self.clock, emit, start)
        documents, check_leads = self.scaling.documents, self.scaling.check_leads
        self.restarts = RollingRestarts(
            self.control, self.switchovers, documents, check_leads, self._boot, self.clock, emit, start
        )

    async def __aexit__(self, *_):
        await self.done()
        if self.session is not None:
            await self.session.close()
            await self.server.stop()
        await self.client.close()
        await self.backend.close()
        self.logs.close(1)

    async def done(self):
        """Wait for everything that nobody waits for."""
        while self.tasks:
            await asyncio.gather(*self.tasks)

    # Requests

    async def request(self, code, fields=None, body=b"", *, over=9):
        """Return the answer to a request, as the server would send it."""
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in fields.items()}
        request = RemotingCommand(code, opaque=1, ext_fields=texts, body=body)
        try:
            answer = self.handlers.dispatch(request, APeer(over, self.peer_host, self.forwarded_host))
            if isinstance(answer, PreparedResponse):
                return request.reply(ext_fields=answer.ext_fields, body=answer.body)
            return answer if isinstance(answer, RemotingCommand) else await answer
        except RequestRefused as refused:
            return request.refusal(refused)
        except BodyError as error:
            return request.reply(1, remark=str(error))

    async def apply(self, broker_id, *, name=SET, cluster=CLUSTER, code=None, address=None):
        fields = {"clusterName": cluster, "brokerName": name, "appliedBrokerId": broker_id}
        fields |= {"registerCheckCode": f"{address or at(broker_id)};{code or broker_id}"}
        return await self.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, fields, over=broker_id)

    async def register(self, broker_id, *, name=SET, cluster=CLUSTER, address=None):
        fields = {"clusterName": cluster, "brokerName": name, "brokerId": broker_id}
        fields |= {"brokerAddress": address or at(broker_id)}
        return await self.request(RequestCode.CONTROLLER_REGISTER_BROKER, fields, over=broker_id)

    async def heartbeat(self, *broker_ids, name=SET, cluster=CLUSTER, over=None, **fields):
        for broker_id in broker_ids:
            report = {"clusterName": cluster, "brokerName": name, "brokerId": broker_id, "brokerAddr": at(broker_id)}
            report |= {"epoch": 1, "maxOffset": 100, "heartbeatTimeoutMills": 10_000} | fields
            answer = await self.request(RequestCode.BROKER_HEARTBEAT, report, over=over or broker_id)
            assert answer.code == 0, answer

    async def elect(self, broker_id, *, name=SET, cluster=CLUSTER, designate=False):
        fields = {"clusterName": cluster, "brokerName": name, "brokerId": broker_id, "designateElect": designate}
        return await self.request(RequestCode.CONTROLLER_ELECT_MASTER, fields, over=broker_id if broker_id > 0 else 9)

    async def report(self, members, *, master=1, master_epoch=1, epoch=1, name=SET):
        fields = {"brokerName": name, "masterBrokerId": master, "masterEpoch": master_epoch}
        body = json.dumps({"syncStateSet": list(members), "syncStateSetEpoch": epoch}).encode()
        return await self.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, fields, body, over=master)

    async def info(self, name=SET):
        return await self.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": name})

    async def clean(self, ids=None, *, name=SET, living=False, **fields):
        fields = {"brokerName": name, "isCleanLivingBroker": living} | fields
        if ids is not None:
            fields["brokerControllerIdsToClean"] = ids
        return await self.request(RequestCode.CLEAN_BROKER_DATA, fields)

    async def a_set(self, *broker_ids, name=SET, in_sync=None):
        """Let brokers join; the first leads at epoch 1, and those in sync are reported."""
        for broker_id in broker_ids:
            assert (await self.apply(broker_id, name=name)).code == 0
            assert (await self.register(broker_id, name=name)).code == 0
            # An empty log.
            await self.heartbeat(broker_id, name=name, epoch=-1, maxOffset=0)
        assert (await self.elect(broker_ids[0], name=name)).code == 0
        members = list(in_sync or broker_ids)
        if members != [broker_ids[0]]:
            assert (await self.report(members, master=broker_ids[0], name=name)).code == 0
        return self.stored(name)

    def stored(self, name=SET):
        return self.store.get(name)

    async def publish_roles(self):
        """Publish the changes of masters; those that have changed to master are confirmed."""
        taken = self.role_changes.take()
        for change in taken:
            self.roles.serving.role_changed(change)
        await self.done()
        return taken

    # Time

    async def pass_ms(self, ms, *, beating=(), name=SET):
        """Advance the clock: brokers and sets are scanned each 100 ms, the `beating` send a heartbeat each second."""
        for passed in range(100, ms + 100, 100):
            self.clock.pass_ms(100)
            if passed % 1000 == 0:
                await self.heartbeat(*beating, name=name)
            self.control.monitor.look_at_brokers()
            self.control.monitor.look_at_sets()
            await self.done()

    async def lose(self, *broker_ids):
        """Close the connections of brokers one after another, and refuse the probes that follow: they fail."""
        for broker_id in broker_ids:
            self.control.monitor.connection_lost(broker_id)
            await self.pass_ms(100)
            for probe in self.take_probes():
                self.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
            await self.done()
            assert self.live.get(BrokerKey(SET, broker_id)) is None

    def take_probes(self):
        """Take and return the probes that have not been sent."""
        found = [each.probe for each in self.effects if isinstance(each, ProbeBroker)]
        self.effects[:] = [each for each in self.effects if not isinstance(each, ProbeBroker)]
        return found

    def notices(self):
        return [each for each in self.effects if isinstance(each, NotifyRoleChanged)]

    def events(self, name):
        return [line for line in self.lines.decoded() if line["event"] == name]

    # HTTP

    async def serve_http(self):
        port = socket.create_server(("127.0.0.1", 0))
        views = views_of(
            self.health,
            self.metrics.text,
            self.settings,
            self.clock,
            self.control,
            self.roles,
            self.stored_elections,
            self.autoscaler,
            self.switchovers,
            self.restarts,
            self.callbacks,
        )
        tokens = HttpTokens(AdminToken(ADMIN_TOKEN), loopback_hosts=())
        self.server = await start_http(
            make_app(CONTROLLER, endpoints_of(*views), self.counters, self.logs, tokens), port
        )
        self.session = aiohttp.ClientSession()
        return self

    async def get(self, path, method="GET", **kwargs):
        """Return status and body; JSON bodies decoded."""
        url = URL(f"http://127.0.0.1:{self.server.port}{path}", encoded=True)
        async with self.session.request(method, url, **kwargs) as response:
            is_json = response.content_type == "application/json" and method != "HEAD"
            return response.status, await (response.json() if is_json else response.text())
