"""The rolling restarts of one controller: what operators request, and what happens by itself while this one leads.

What is decided is stored before anything is done, so that the next leader goes on in the stored phase. Nobody restarts
a broker from here: the operator, or a tool of the operator's, does, as soon as its id is named.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec

from controller.failover.requests import BrokerRequests
from controller.switchover.events import RESTARTS, RollingRestartBegun, RollingRestartLookFailed, restart_entered
from controller.switchover.record import BrokerId, SwitchoverPhase, SwitchoverRequest
from controller.switchover.rolling_restart import (
    RestartFacts,
    RestartPhase,
    RollingRestart,
    aborted,
    decode_restart,
    encode_restart,
    next_decision,
    waits_behind,
)
from controller.switchover.service import SetNotFound, SwitchoverRefused, Switchovers
from remoting.clock import Clock
from remoting.protocol.addresses import host_number
from remoting.protocol.errors import RequestRefused
from serving.shapes.scaling import Remark
from serving.telemetry.events import Emit, Measure
from store.document_store import DocumentStore
from store.documents import DocumentKind
from store.store import StoreError

#: Between two looks.
LOOK_S: Final = 1.0
#: How many run at one time: each asks a broker once a second.
RUNNING_MAX: Final = 100
#: Brokers that a request may name.
BROKERS_MAX: Final = 1_000
#: Fewer brokers cannot take turns.
_BROKERS_MIN: Final = 2
#: Who requests the switchovers.
REQUESTED_BY: Final = "rolling restart"


class RestartRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A requested rolling restart."""

    #: Brokers to restart; without them all of the set.
    broker_ids: Annotated[tuple[BrokerId, ...], msgspec.Meta(max_length=BROKERS_MAX)] = ()
    #: It waits while so many restarts of the cluster are under way that were begun before it. Sets with brokers on one
    #: host are never restarted at one time.
    cluster_restarts_max: Annotated[int, msgspec.Meta(ge=1, le=RUNNING_MAX)] = 1
    requested_by: Remark = ""
    reason: Remark = ""


class RestartRefused(Exception):
    """Nothing was begun or changed; the text says why, and what to do."""


class RestartNotFound(Exception):
    def __init__(self, broker_name: str) -> None:
        super().__init__(f"{broker_name} has no rolling restart")


class RollingRestarts:
    """Begins, runs and aborts rolling restarts; one of each set at a time."""

    def __init__(
        self,
        control: BrokerRequests,
        switchovers: Switchovers,
        documents: DocumentStore,
        check_leads: Callable[[], None],
        query_boot: Callable[[str], Awaitable[int | None]],
        clock: Clock,
        emit: Emit,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]],
    ) -> None:
        """`check_leads` raises NotLeader, and StoreError until the documents are loaded.

        `query_boot` returns when the process of the broker at an address has started, Unix ms; None if it does not
        answer. `start` starts a background task.
        """
        self._control, self._switchovers, self._documents = control, switchovers, documents
        self._check_leads, self._query_boot = check_leads, query_boot
        self._clock, self._emit, self._start = clock, emit, start
        #: The look at each set that is under way.
        self._looks: dict[str, asyncio.Task[Any]] = {}
        #: The switchover that was begun for a restart, by the id of that; and why the last one failed.
        self._begun: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        #: Monotonic time at which so many failed switchovers of a restart were seen first, by its id and their number.
        self._failed_ms: dict[tuple[str, int], int] = {}
        #: By broker name.
        self._waits_for: dict[str, str] = {}
        #: They begin one after the other, in the order of their turns.
        self._beginning = asyncio.Lock()

    @property
    def waits_for(self) -> Mapping[str, str]:
        """What each restart under way waits for, by broker name, as of its last look."""
        return self._waits_for

    def measures(self) -> Iterator[Measure]:
        yield Measure(RESTARTS, len(self.under_way()))

    def under_way(self) -> list[RollingRestart]:
        """Return those that have not ended and can be read; none on a controller that does not lead."""
        try:
            self._check_leads()
        except (RequestRefused, StoreError):
            return []
        names = self._documents.names(DocumentKind.ROLLING_RESTART)
        found = (self._readable(name) for name in names)
        return [each for each in found if each is not None and not each.has_ended]

    def find(self, broker_name: str) -> RollingRestart:
        """Return the restart of a set, or its last one; raises RestartNotFound, NotLeader and StoreError."""
        self._check_leads()
        stored = self._documents.get(DocumentKind.ROLLING_RESTART, broker_name)
        if stored is None:
            raise RestartNotFound(broker_name)
        return _decoded(broker_name, stored)

    async def begin(self, broker_name: str, request: RestartRequest) -> RollingRestart:
        """Store a new one, which begins within a second; raises SetNotFound, RestartRefused, NotLeader, StoreError."""
        async with self._beginning:
            return await self._begin(broker_name, request)

    async def _begin(self, broker_name: str, request: RestartRequest) -> RollingRestart:
        self._check_leads()
        under_way = self.under_way()
        restart = self._made(
            broker_name, request, after_ms=max((each.created_unix_ms for each in under_way), default=0)
        )
        if len(under_way) >= RUNNING_MAX:
            raise RestartRefused(f"{RUNNING_MAX} rolling restarts are running: wait for one to end")

        def decide(stored: bytes | None) -> bytes:
            before = _decoded(broker_name, stored) if stored is not None else None
            if before is not None and not before.has_ended:
                raise RestartRefused(f"{before.id} is already restarting {broker_name}: wait for its end, or abort it")
            return encode_restart(restart)

        await self._documents.change(DocumentKind.ROLLING_RESTART, broker_name, decide)
        self._emit(RollingRestartBegun(restart=restart))
        return restart

    def _made(self, broker_name: str, request: RestartRequest, *, after_ms: int) -> RollingRestart:
        broker_set = self._control.store.get(broker_name)
        if broker_set is None:
            raise SetNotFound(broker_name)
        members = sorted(broker_set.replicas)
        if len(members) < _BROKERS_MIN:
            raise RestartRefused(f"{broker_name} has {len(members)} broker: no other could lead while it restarts")
        if missing := sorted(set(request.broker_ids) - set(members)):
            raise RestartRefused(f"{broker_name} has no brokers {missing}; it has {members}")
        unix_ms = max(self._clock.unix_ms(), after_ms + 1)
        return RollingRestart(
            id=f"{broker_name}.{unix_ms}",
            broker_name=broker_name,
            cluster=broker_set.cluster,
            brokers=tuple(sorted(set(request.broker_ids))) or tuple(members),
            cluster_restarts_max=request.cluster_restarts_max,
            requested_by=request.requested_by,
            reason=request.reason,
            created_unix_ms=unix_ms,
            phase_since_unix_ms=unix_ms,
        )

    async def abort(self, broker_name: str, reason: str) -> RollingRestart:
        """Name no more brokers; raises RestartNotFound, RestartRefused, NotLeader and StoreError."""
        before = self.find(broker_name)

        def decide(stored: bytes | None) -> bytes:
            now = _decoded(broker_name, stored) if stored is not None else None
            if now is None or now.has_ended:
                raise RestartRefused(f"{before.id} has already ended")
            return encode_restart(aborted(now, reason, self._clock.unix_ms()))

        changed = await self._documents.change(DocumentKind.ROLLING_RESTART, broker_name, decide)
        assert changed.after is not None, "it was stored"
        after = _decoded(broker_name, changed.after)
        self._emit(restart_entered(before, after))
        return after

    # What happens by itself

    async def look_at_restarts(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Begin a look at each set with a restart; a broker that hangs holds up the look at its own set only."""
        self._looks = {name: task for name, task in self._looks.items() if not task.done()}
        present = self.under_way()
        self._waits_for = {each.broker_name: self._waits_for.get(each.broker_name, "") for each in present}
        now_ms = self._clock.now_ms()
        failed = [(each.id, each.failed_switchovers) for each in present]
        self._failed_ms = {each: self._failed_ms.get(each, now_ms) for each in failed}
        hosts = {each.broker_name: self._hosts(each.broker_name) for each in present}
        for restart in present:
            if restart.broker_name not in self._looks:
                behind = waits_behind(restart, present, hosts)
                self._looks[restart.broker_name] = self._start(self._look_at_restart(restart, behind))

    def _hosts(self, broker_name: str) -> frozenset[str]:
        broker_set = self._control.store.get(broker_name)
        addresses = [each.address for each in broker_set.replicas.values()] if broker_set is not None else []
        return frozenset(host_number(each) or each.rpartition(":")[0].lower() for each in addresses)

    async def _look_at_restart(self, restart: RollingRestart, behind: str) -> None:
        name = restart.broker_name
        try:
            facts = await self._facts(restart, behind)
            if self._control.store.is_changing(name):
                return  # The SyncStateSet may be another one: the next look shows it.
            decision = next_decision(restart, facts)
            if decision.restart != restart:
                await self._store(restart, decision.restart)
            self._waits_for[name] = decision.waits_for
            if decision.begins_switchover:
                await self._switch_over(decision.restart)
        except (StoreError, RequestRefused, RestartRefused) as error:
            self._emit(RollingRestartLookFailed(broker=name, error=error))

    async def _store(self, before: RollingRestart, after: RollingRestart) -> None:
        def decide(stored: bytes | None) -> bytes:
            if stored != encode_restart(before):
                raise RestartRefused(f"{before.id} has changed meanwhile")
            return encode_restart(after)

        await self._documents.change(DocumentKind.ROLLING_RESTART, before.broker_name, decide)
        self._failed.pop(before.id, None)
        self._failed_ms.setdefault((after.id, after.failed_switchovers), self._clock.now_ms())
        if after.phase is not before.phase:
            self._emit(restart_entered(before, after))

    async def _switch_over(self, restart: RollingRestart) -> None:
        request = SwitchoverRequest(requested_by=REQUESTED_BY, reason=restart.reason)
        try:
            begun = await self._switchovers.begin(restart.broker_name, request)
        except (SwitchoverRefused, SetNotFound) as error:
            self._failed[restart.id] = str(error)
        else:
            self._begun[restart.id] = begun.id

    async def _facts(self, restart: RollingRestart, behind: str) -> RestartFacts:
        name = restart.broker_name
        broker_set, now_ms = self._control.store.get(name), self._clock.now_ms()
        is_switching = self._take_switchover(restart)
        boots: dict[int, int] = {}
        for broker_id in _queried(restart, behind):
            address = broker_set.replicas[broker_id].address if broker_set and broker_id in broker_set.replicas else ""
            boot_unix_ms = await self._query_boot(address) if address else None
            if boot_unix_ms is not None:
                boots[broker_id] = boot_unix_ms
        return RestartFacts(
            unix_ms=self._clock.unix_ms(),
            broker_set=self._control.store.get(name),
            trusted=self._control.detector.electable(name, self._clock.now_ms()).keys(),
            boots=boots,
            is_switching=is_switching,
            failed_switchover=self._failed.get(restart.id),
            since_failed_ms=now_ms - self._failed_ms.get((restart.id, restart.failed_switchovers), now_ms),
            behind=behind,
        )

    def _take_switchover(self, restart: RollingRestart) -> bool:
        """Return whether a switchover of the set is under way; remember why that of the restart has failed."""
        last = self._switchovers.of_set(restart.broker_name)
        if last is None:
            return False
        if last.has_ended and self._begun.get(restart.id) == last.id:
            del self._begun[restart.id]
            if last.phase is not SwitchoverPhase.DONE:
                self._failed[restart.id] = last.problem
        return not last.has_ended

    def _readable(self, broker_name: str) -> RollingRestart | None:
        try:
            return self.find(broker_name)
        except (StoreError, RestartNotFound):
            return None


def _queried(restart: RollingRestart, behind: str) -> tuple[int, ...]:
    """Return the brokers whose start is of interest: the named one, or those of which one is named next."""
    match restart.phase:
        case RestartPhase.RESTART:
            return (restart.broker_id,) if restart.broker_id is not None else ()
        case RestartPhase.IN_SYNC:
            return () if behind else restart.left
        case _:
            return ()


def _decoded(broker_name: str, stored: bytes) -> RollingRestart:
    try:
        return decode_restart(stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"the rolling restart of {broker_name} cannot be read: {error}") from None
