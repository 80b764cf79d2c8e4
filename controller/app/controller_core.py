"""A controller without sockets and files: its sets and heartbeats, its leadership, and its background work.

The clock, the client and the store are arguments, so that everything that decides and applies runs the same over real
ones and over those of a test. Answers to `ControllerManager`; `service.py` has what any server has around it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from controller.config import ControllerConfig
from controller.decisions.recovery import Recovery
from controller.failover.election_log import ElectionLog
from controller.failover.election_runner import Confirmations, ElectionRunner
from controller.failover.events import (
    CheckReachability,
    Effect,
    LeadershipGained,
    LeadershipLost,
    NotifyRoleChanged,
    ProbeBroker,
    StoreFailed,
)
from controller.failover.fences import Fences
from controller.failover.group import Group
from controller.failover.monitor import LOOK_MS, Monitor
from controller.failover.requests import BrokerRequests, HeartbeatRecorder
from controller.failover.set_writer import ClusterState, SetWriter
from controller.failure_detection.detector import FailureDetector
from controller.failure_detection.heartbeats import BrokerKey, HeartbeatTable
from controller.failure_detection.hosts import HostLiveness
from controller.failure_detection.log_ends import LogEndQuery, LogEnds
from controller.failure_detection.senders import Reachability
from controller.roles.broker_roles import BrokerRoles, RoleCheckers, RoleHolds, ServingConfirmations
from controller.roles.changes import RoleChange, RoleChanges
from controller.roles.events import HoldEnded, MasterChanged, MasterServes
from controller.wire.broker_prober import BrokerProber
from controller.wire.broker_queries import LogEndQueries, ServingQueries
from controller.wire.handlers import Handlers, ReplicaInfoCache
from controller.wire.role_notifier import RoleNotifier
from remoting.background_tasks import BackgroundTasks, is_failure
from remoting.client import Requester
from remoting.clock import Clock
from serving.config.stored_config import StoredConfig
from serving.telemetry.events import Emit
from store.store import ControllerMember, SetStore, StoreBackend, StoreError

#: How often sets without master are looked for.
_SETS_LOOK_S: Final = 0.25
#: How soon a store that could not be reached is called again.
STORE_AGAIN_S: Final = 0.5
#: A new leader publishes thousands of masters: requests are served in between.
_CHANGES_AT_ONCE: Final = 50
#: How often a new leader tries to load before it lets another one lead.
_LOADS_MAX: Final = 5


def failover(
    state: ClusterState,
    log: ElectionLog,
    reachability: Reachability,
    query_log_ends: Callable[[LogEndQuery], Awaitable[LogEnds]],
    query_confirmed_on: Callable[[str], Awaitable[int | None]],
    record_heartbeat: HeartbeatRecorder | None,
) -> BrokerRequests:
    """`query_confirmed_on` returns on how many replicas the broker at an address confirms a message."""
    writer = SetWriter(state)
    confirmations = Confirmations(state.live, state.clock, state.start, query_confirmed_on)
    elections = ElectionRunner(state, writer, log, confirmations, query_log_ends)
    monitor = Monitor(state, writer, elections, reachability)
    return BrokerRequests(state, writer, elections, monitor, record_heartbeat)


class ControllerCore:
    """One controller, which takes requests, signs of life and connections that end, and does the rest by itself."""

    def __init__(
        self,
        me: ControllerMember,
        *,
        clock: Clock,
        tasks: BackgroundTasks,
        client: Requester,
        backend: StoreBackend,
        store: SetStore,
        replica_infos: ReplicaInfoCache,
        role_changes: RoleChanges,
        settings: StoredConfig[ControllerConfig],
        emit: Emit,
        is_own_host: Callable[[str], bool],
        stop: asyncio.Event,
        record_heartbeat: HeartbeatRecorder | None = None,
    ) -> None:
        """`role_changes` are what `store` reports of masters; `stop` is set once this controller is to end."""
        self._clock, self._tasks, self._backend, self._stop, self._emit = clock, tasks, backend, stop, emit
        self.store, self.live = store, HeartbeatTable()
        self.group = Group(settings.config.controller_group, me, clock, store, self._elected, self._deposed)
        self._elections = ElectionLog(me.address)
        reachability = Reachability()
        reached, begin = reachability.reached, self.begin
        self._prober = BrokerProber(begin, client, emit, reached)
        self._notifier = RoleNotifier(begin, client, self._elections, clock, emit, reached, self._is_current)
        detector = FailureDetector(self.live, HostLiveness(is_own_host), store.is_master, clock.now_ms())
        checkers, queries = RoleCheckers(clock), LogEndQueries(client)
        self.control = failover(
            ClusterState(
                store=store,
                group=self.group,
                live=self.live,
                detector=detector,
                recovery=Recovery(self.live),
                fences=Fences(detector, checkers.not_down),
                clock=clock,
                config=lambda: settings.config,
                perform=self._perform,
                emit=emit,
                start=begin,
            ),
            self._elections,
            reachability,
            queries.query,
            queries.confirmed_on,
            record_heartbeat,
        )
        self._role_changes = role_changes
        #: Takes changes of masters while this controller leads: the new one may still be a slave for some hundred ms.
        self.role_changed: Callable[[RoleChange], None] | None = None
        serving = ServingConfirmations(self.group, clock, begin, ServingQueries(client).is_master, self._master_serves)
        self.roles = BrokerRoles(self.control, serving, RoleHolds(clock, self._hold_ended), checkers, clock)
        self._replica_infos = replica_infos
        self.handlers = Handlers(self.control, settings, clock, replica_infos)
        #: Set once this controller has led.
        self.led = asyncio.Event()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[bool]:
        """Do something that nobody waits for; if it fails, that ends nothing else."""
        return self._tasks.start(work, getattr(work, "__name__", "work").strip("_"))

    def _perform(self, effect: Effect) -> None:
        match effect:
            case NotifyRoleChanged():
                self._notifier.notify(effect)
            case ProbeBroker():
                self._prober.probe(effect)
            case CheckReachability():
                self._prober.check_reachability(effect)

    def _is_current(self, effect: NotifyRoleChanged, recipient: BrokerKey) -> bool:
        """Return whether a broker is still to hear who leads: in this epoch, and in the same process."""
        stored, failed = self.store.get(effect.broker_name), self.control.detector.failed_broker(recipient)
        is_over = stored is None or stored.master_epoch != effect.master_epoch
        return not is_over and (failed is None or failed.may_go_on)

    # The group

    async def join(self, me: ControllerMember) -> None:
        """Belong to the controllers of the store; a store that cannot be reached is called again."""
        self.group.me = me
        self._elections.controller_address = me.address
        while True:
            try:
                await self._backend.join(me, self.group)
            except StoreError as error:
                self._emit(StoreFailed(broker="", error=str(error)))
            except BaseException as error:  # without it this controller never leads
                if not is_failure(error):
                    raise
                self._tasks.report("join", error)
            else:
                return
            await asyncio.sleep(STORE_AGAIN_S)

    async def resign(self) -> None:
        """Let another controller lead; whoever waits here for a change is answered first."""
        self.store.changes.close()
        try:
            await self._backend.resign()
        except StoreError as error:
            self._emit(StoreFailed(broker="", error=str(error)))

    async def close(self) -> None:
        self.roles.clear()
        await self._notifier.close()

    def _elected(self) -> None:
        self.begin(self._lead(self.group.term))

    def _deposed(self) -> None:
        self.store.changes.end_waits()
        self._replica_infos.clear()
        self.control.deposed()
        self.roles.clear()
        self._emit(LeadershipLost(group=self.group.name, leader=self.group.leader))

    async def _lead(self, term: int) -> None:
        """Take over, again where that fails: who was elected and does not lead keeps others from it."""
        while True:
            if await self._tasks.attempt(self._take_over(term), "take_over"):
                return
            await asyncio.sleep(STORE_AGAIN_S)

    async def _take_over(self, term: int) -> None:
        """Know all that is stored, and lead, unless this controller ceased to lead before."""
        began_ms = self._clock.now_ms()
        if not await self._load(term):
            return
        for broker_name, problem in self.store.problems().items():
            self._emit(StoreFailed(broker=broker_name, error=problem))
        self.group.ready(term)
        self.control.monitor.take_over()
        self._role_changes.repeat(self.store.sets())
        self.led.set()
        if self.group.is_leader:
            lasted_ms, sets = self._clock.now_ms() - began_ms, sum(1 for _ in self.store.sets())
            self._emit(LeadershipGained(group=self.group.name, duration_ms=lasted_ms, broker_sets=sets))

    async def _load(self, term: int) -> bool:
        """Know all that is stored; false if this controller leads no longer. Who cannot load lets others try."""
        tries = 0
        while self.group.leads_in(term) and not self._stop.is_set():
            try:
                await self.store.load(lambda: self.group.leads_in(term))
            except StoreError as error:
                self._emit(StoreFailed(broker="", error=str(error)))
            except Exception as error:  # noqa: BLE001  # whatever it is, it is reported
                self._tasks.report("load", error)
            else:
                return self.group.leads_in(term)
            tries += 1
            if tries % _LOADS_MAX == 0:
                self._backend.pass_on()
            await asyncio.sleep(STORE_AGAIN_S)
        return False

    # What happens by itself

    async def look_at_brokers(self) -> None:
        while True:
            await asyncio.sleep(LOOK_MS / 1000)
            self.control.monitor.look_at_brokers()

    async def look_at_sets(self) -> None:
        while True:
            await asyncio.sleep(_SETS_LOOK_S)
            self.control.monitor.look_at_sets()

    async def publish_role_changes(self) -> None:
        """Publish changes of masters for ever, while this controller leads; what a leader has stored comes in order."""
        while True:
            await self._role_changes.wait()
            for number, change in enumerate(self._role_changes.take(), 1):
                if self.group.leads_in(self.group.term):
                    self.roles.serving.role_changed(change)
                    if self.role_changed is not None:
                        self.role_changed(change)
                    self._emit(MasterChanged(change=change, ago_ms=max(0, self._clock.unix_ms() - change.unix_ms)))
                if number % _CHANGES_AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _master_serves(self, change: RoleChange, after_ms: int) -> None:
        self._emit(MasterServes(change=change, after_ms=after_ms))

    def _hold_ended(self, broker_name: str, held_ms: int) -> None:
        if (broker_set := self.store.get(broker_name)) is not None:
            self._emit(HoldEnded(broker_set=broker_set, held_ms=held_ms))

    def connection_lost(self, connection_id: int) -> None:
        self.control.monitor.connection_lost(connection_id)
