"""The product's controller in a process of virtual time: its engine, and its store on etcd, as they run in production.

Nothing is decided here. What is handed in are the clock, the way to brokers, the channel to etcd and threads; what
happens is told to the world, which checks it.
"""

import asyncio

from controller.app.controller_core import ControllerCore
from controller.config import CONTROLLER, ControllerConfig
from controller.failover.events import (
    BrokerFailed,
    ElectionHeld,
    FailureDetectionSuspended,
    LeadershipGained,
    LeadershipLost,
    StoreFailed,
)
from controller.roles.changes import RoleChanges
from controller.switchover.events import RollingRestartEnded, RollingRestartPhaseEntered, SwitchoverPhaseEntered
from controller.switchover.rolling_restart import RestartPhase
from controller.switchover.rolling_restarts import RollingRestarts
from controller.switchover.service import Switchovers
from controller.wire.broker_queries import LogEndQueries, SwitchoverQueries
from controller.wire.handlers import ReplicaInfoCache
from remoting.background_tasks import BackgroundTasks
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, RequestRefused
from remoting.server.response_cache import PreparedResponse
from serving.config.stored_config import StoredConfig
from simulation.etcd import Channel
from simulation.links import Client
from simulation.processes import Process
from store.document_store import DocumentStore
from store.documents import DocumentKind
from store.etcd.etcd_store import EtcdOptions, EtcdStore, System
from store.store import ControllerMember, SetStore, StoreError

CLUSTER = "DefaultCluster"
ETCD = EtcdOptions(endpoints=("e0:2379", "e1:2379"), group="g")


def config_of(settings):
    return ControllerConfig(
        controller_store="etcd",
        etcd_endpoints=";".join(ETCD.endpoints),
        controller_group=ETCD.group,
        adopt_unknown_brokers=True,
        enable_elect_unclean_master=settings.profile == "unclean",
    )


class Controller:
    def __init__(self, world, index):
        self.world = world
        self.index = index
        self.me = ControllerMember(id=f"n{index}", address=f"10.0.1.{index}:9878")
        self.runs = 0
        self.process = None
        self.is_up = False
        self.is_cut_from_store = False
        #: What etcd has told meanwhile.
        self.held_news = []
        #: By how much later answers of etcd come.
        self.slow_store_ms = 0
        #: What becomes of the next calls to etcd: (of a commit only, what, ms).
        self.next_calls = []
        #: Threads that have made a call whose outcome is not known.
        self.unknown_of = set()
        #: The next call of such a kind finds it standing still: (kind, ms, what follows).
        self.freeze_at_call = None

    def is_own_host(self, host):
        return self.world.settings.are_beside and host in (f"10.0.0.{self.index + 1}", f"b{self.index}.set")

    # The process

    def start(self):
        if self.is_up:
            return
        self.runs += 1
        self.is_up, self.next_calls, self.held_news = True, [], []
        self.unknown_of.clear()
        self.fine_since_ms = self.world.now_ms
        self.process = Process(self.world, 1_000_000 + 77_777 * self.index)
        self.process.receive(self._begin)

    def _begin(self):
        world, process = self.world, self.process
        config, watcher = world.config, Watcher(self, process)
        self.tasks = BackgroundTasks(watcher.task_failed)
        system = System(lambda address, _: Channel(self, process, address), process.threads)
        self.backend = EtcdStore(ETCD, process, watcher.tell, watcher.task_failed, system)
        replica_infos, role_changes = ReplicaInfoCache(), RoleChanges(process)
        self.engine = ControllerCore(
            self.me,
            clock=process,
            tasks=self.tasks,
            client=Client(self, process),
            backend=self.backend,
            store=SetStore(self.backend, replica_infos, role_changes),
            replica_infos=replica_infos,
            role_changes=role_changes,
            settings=StoredConfig(CONTROLLER, config, watcher, lambda _: None),
            emit=watcher.tell,
            is_own_host=self.is_own_host,
            stop=asyncio.Event(),
        )
        self.engine.begin(self.engine.join(self.me))
        self.tasks.keep_running(self.engine.look_at_brokers, "look_at_brokers")
        self.tasks.keep_running(self.engine.look_at_sets, "look_at_sets")
        if world.settings.is_planned:
            self._plan(watcher, Client(self, process))

    def _plan(self, watcher, client):
        """Wire what operators plan, as `app/service.py` does."""
        engine, queries = self.engine, SwitchoverQueries(client)
        query = LogEndQueries(client).query
        self.switchovers = Switchovers(
            engine.control, engine.roles, query, queries.all_ack, self.process, watcher.tell, engine.begin
        )
        self.documents, self.has_documents = DocumentStore(self.backend, [DocumentKind.ROLLING_RESTART]), False
        self.restarts = RollingRestarts(
            control=engine.control,
            switchovers=self.switchovers,
            documents=self.documents,
            check_leads=self.check_leads,
            query_boot=queries.boot_unix_ms,
            clock=self.process,
            emit=watcher.tell,
            start=engine.begin,
        )
        self.tasks.keep_running(engine.publish_role_changes, "publish_role_changes")
        self.tasks.keep_running(self.restarts.look_at_restarts, "look_at_restarts")

    def check_leads(self):
        self.engine.group.check_leads()
        if not self.has_documents:
            raise StoreError("documents are being loaded")

    async def load_documents(self):
        while not self.has_documents:
            try:
                await self.documents.load()
                self.has_documents = True
            except StoreError:
                await asyncio.sleep(0.5)

    def crash(self):
        self.is_up = False
        if self.process is not None:
            self.process.kill()

    @property
    def is_frozen(self):
        return self.is_up and self.process.is_frozen

    def freeze(self):
        if self.is_up:
            self.process.freeze()

    def thaw(self):
        if self.is_frozen:
            self.fine_since_ms = self.world.now_ms
            self.process.thaw()

    def resign(self, then):
        """Stop in order, as at SIGTERM."""

        async def stop():
            await self.engine.resign()
            await self.engine.close()
            await self.backend.close()
            self.world.at(self.world.now_ms, then)

        self.process.receive(lambda: self.tasks.start(stop(), "stop"))

    def receive(self, act, *args):
        """Let something come to it."""
        if self.is_up:
            self.process.receive(act, *args)

    # The store

    def fate_of_call(self, path, request):
        is_commit = path.endswith("/Txn") and any(b"/sets/" in _key_of(op) for op in request.success)
        if self.freeze_at_call is not None and path.endswith(self.freeze_at_call[0]):
            (_, for_ms, then), self.freeze_at_call = self.freeze_at_call, None
            then()
            self.freeze()
            self.world.at(self.world.now_ms + for_ms, self.thaw)
        for each in self.next_calls:
            if is_commit or not each[0]:
                self.next_calls.remove(each)
                return each[1:]
        return "", 0

    def failed(self, thread, failure):
        """Take note of a call of a thread that came to nothing, or of which nobody knows."""
        if failure.is_unknown:
            self.unknown_of.add(thread)

    def sends(self, request, thread):
        """Fail if a thread sends again what may be stored already: it would take its own entry for that of another."""
        is_once = any(op.HasField("request_put") and b"/members/" not in op.request_put.key for op in request.success)
        if thread in self.unknown_of and is_once:
            self.world.fail("%s sends a transaction again whose outcome is not known", self.me.id)

    def mend_store(self):
        self.is_cut_from_store = False
        held, self.held_news = self.held_news, []
        for each in held:
            each()

    # Requests

    @property
    def leads(self):
        return self.engine.group.is_leader

    def heartbeat(self, header, peer):
        self.engine.handlers.take_heartbeat(header, peer)

    def closed(self, connection_id):
        self.engine.connection_lost(connection_id)

    def take(self, request, peer, reply):
        """Answer a request as the server does, which tells a peer why it is refused."""
        try:
            answer = self.engine.handlers.dispatch(request, peer)
        except (RequestRefused, BodyError) as error:
            answer = _refusal(request, error)
        if isinstance(answer, PreparedResponse):
            answer = request.reply(ext_fields=answer.ext_fields, body=answer.body)
        if isinstance(answer, RemotingCommand):
            reply(answer)
        else:
            self.tasks.start(_finish(request, answer, reply), "request")


async def _finish(request, awaitable, reply):
    try:
        answer = await awaitable
    except (RequestRefused, BodyError) as error:
        answer = _refusal(request, error)
    reply(answer)


def _refusal(request, error):
    return request.refusal(error) if isinstance(error, RequestRefused) else request.reply(1, remark=str(error))


def _key_of(op):
    kind = op.WhichOneof("request")
    return b"" if kind == "request_range" else getattr(op, kind).key


class Watcher:
    """Tells the world what a controller does; stands for its journal."""

    def __init__(self, controller, process):
        self.controller, self.process, self.world = controller, process, controller.world

    def __getattr__(self, name):
        # Of the store and of the settings nothing has to be known.
        return lambda *_, **__: None

    def task_failed(self, name, error):
        if not self.process.is_dead:
            self.world.note_failure(f"{self.controller.me.id}: {name} failed: {error!r}", error)

    def tell(self, event):
        match event:
            case FailureDetectionSuspended(held_ms=held_ms):
                self.world.note("%s doubts itself after %d ms", self.controller.me.id, held_ms)
            case StoreFailed(error=error):
                self.world.note("%s cannot store: %s", self.controller.me.id, error)
            case SwitchoverPhaseEntered(switchover=after):
                self.world.note("%s: switchover to %s is in %s: %s", *self._planned(after))
            case _ if not self.process.is_dead:
                self._tell_of_the_living(event)

    def _tell_of_the_living(self, event):
        match event:
            case ElectionHeld(record=record, is_new=is_new):
                self.world.set_of(record.broker_name).elected(self.controller, record, is_new=is_new)
            case BrokerFailed(failure=dead):
                self.world.set_of(dead.key.broker_name).judged_failed(self.controller, dead)
            case LeadershipGained():
                self._leads()
            case LeadershipLost():
                self.world.note("%s leads no more", self.controller.me.id)
            case RollingRestartPhaseEntered(restart=after) | RollingRestartEnded(restart=after):
                self.world.note("%s: rolling restart of %s is in %s: %s", *self._planned(after))
                if after.phase is RestartPhase.RESTART:
                    self.world.set_of(after.broker_name).named_for_restart(after.broker_id)

    def _leads(self):
        self.world.note("%s serves as leader", self.controller.me.id)
        for each in self.world.sets:
            each.leader_knows_properties = False
        self.world.look_who_leads()
        if self.world.settings.is_planned:
            self.controller.has_documents = False
            self.controller.engine.begin(self.controller.load_documents())

    def _planned(self, after):
        who = getattr(after, "new_master", None) or after.broker_id
        return self.controller.me.id, who, after.phase.value, after.steps[-1].evidence
