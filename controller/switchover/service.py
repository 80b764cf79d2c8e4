"""The switchovers of one controller: what operators request, which one of each set is under way, and the last ones.

They are kept in memory of the leader: a switchover takes seconds, and each state that it stores is an ordinary one. If
the leader fails, its holds are gone with it, and what is stored decides who serves. Clients are released whatever
happens: at the end of the hold's phases, when the task ends, and by the hold's own limit.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from controller.decisions.election import ElectionResult
from controller.failover.election_runner import ElectionOutcome
from controller.failover.requests import BrokerRequests
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.log_ends import LogEnd, LogEndQuery, LogEnds
from controller.roles.broker_roles import HOLD_MS_MAX, BrokerRoles
from controller.sets.broker_set import BrokerSet
from controller.switchover import events, rules
from controller.switchover.events import switchover_entered
from controller.switchover.record import HOLDING, Switchover, SwitchoverPhase, SwitchoverRequest
from remoting.clock import Clock
from remoting.protocol.errors import RequestRefused
from serving.telemetry.events import Emit, Measure

#: Phases that need to know where logs end, and how soon they ask again.
_QUERIES_S: Final = {SwitchoverPhase.CATCH_UP: 0.25, SwitchoverPhase.DRAIN: 0.01, SwitchoverPhase.VERIFY: 0.25}
#: The other phases look again so soon: at what this process knows.
_LOOKS_S: Final = 0.01


class SwitchoverRun:
    """One switchover, which only this object changes."""

    def __init__(self, switchover: Switchover, parts: "Switchovers") -> None:
        self.switchover, self._parts = switchover, parts
        self._term = parts.control.group.term
        #: What showed that the new master has begun its epoch; it may have started anew since.
        self._began = ""

    async def run(self) -> None:
        try:
            while not self.switchover.has_ended:
                turn = rules.next_turn(self.switchover, await self._facts())
                if turn.phase is self.switchover.phase:
                    await asyncio.sleep(_QUERIES_S.get(turn.phase, _LOOKS_S))
                    continue
                self._enter(turn)
                await self._perform()
        except Exception as error:
            # It is reported by who runs the task, with its traceback.
            fault = f"a fault of the controller: {type(error).__name__}"
            self._enter(rules.Turn(SwitchoverPhase.FAILED, fault, fault))
            raise
        finally:
            self._parts.roles.holds.release(self.switchover.broker_name)

    def _enter(self, turn: rules.Turn) -> None:
        clock, before = self._parts.clock, self.switchover
        after = before.entered(turn.phase, turn.evidence, clock.now_ms(), clock.unix_ms(), turn.problem)
        if after.phase in HOLDING and after.held_since_ms != before.held_since_ms:
            self._parts.roles.holds.hold(after.broker_name, clock.now_ms() + HOLD_MS_MAX)
        elif after.phase not in HOLDING:
            self._parts.roles.holds.release(after.broker_name)
        self.switchover = after
        if after.is_held and before.held_for_ms is None and after.held_for_ms is not None:
            self._parts.record_hold(after.held_for_ms)
        self._parts.emit(switchover_entered(before, after))

    async def _perform(self) -> None:
        name, control = self.switchover.broker_name, self._parts.control
        if self.switchover.phase is SwitchoverPhase.ELECT:
            elected = await self._elected(control.switch_over(name, self.switchover.new_master))
            if elected.broker_id is not None or self._leads:
                self._enter(rules.after_election(self.switchover, elected))
        elif self.switchover.phase is SwitchoverPhase.ROLL_BACK:
            turn = rules.after_roll_back(self.switchover, await self._elect_old())
            if turn.phase is not SwitchoverPhase.ROLL_BACK:
                self._enter(turn)

    async def _elect_old(self) -> rules.Elected:
        problem = rules.problem_of_roll_back(self.switchover, await self._facts(queries=True))
        if problem:
            return rules.Elected(None, problem)
        name, old = self.switchover.broker_name, self.switchover.old_master
        return await self._elected(self._parts.control.switch_back(name, old))

    async def _elected(self, election: Awaitable[ElectionOutcome]) -> rules.Elected:
        """Return who leads after an election; None if it was refused, or is not known to be stored."""
        try:
            outcome = await election
        except RequestRefused as refused:
            return rules.Elected(None, str(refused))
        if outcome.result is ElectionResult.NEW_MASTER:
            self.switchover = replace(self.switchover, new_epoch=outcome.broker_set.master_epoch)
        return rules.Elected(outcome.broker_set.master, outcome.reason)

    async def _facts(self, *, queries: bool = False) -> rules.SwitchoverFacts:
        control, switchover = self._parts.control, self.switchover
        asks = queries or switchover.phase in _QUERIES_S
        ends = await self._log_ends() if asks else {}
        broker_set = control.store.get(switchover.broker_name)
        members = broker_set.replicas if broker_set is not None else {}
        self._began = self._began or self._shows_epoch(ends)
        return rules.SwitchoverFacts(
            now_ms=self._parts.clock.now_ms(),
            leads=self._leads,
            broker_set=broker_set,
            failed=[i for i in members if self._has_failed(i)],
            unheld=self._parts.roles.checkers.not_down(BrokerKey(switchover.broker_name, switchover.old_master)),
            ends=ends,
            is_confirmed=broker_set is not None and self._parts.roles.serving.is_confirmed(broker_set),
            began=self._began,
        )

    def _shows_epoch(self, ends: Mapping[int, LogEnd]) -> str:
        """Return what shows that the new master has begun its epoch, blank if nothing does.

        Where the epoch before has no messages its list of epochs does not change, and its log alone shows it.
        """
        control, switchover = self._parts.control, self.switchover
        key = BrokerKey(switchover.broker_name, switchover.new_master)
        last = control.live.get(key) or control.detector.last_of_failed(key)
        if last is not None and last.epoch > switchover.old_epoch:
            return f"its heartbeat says epoch {last.epoch}"
        # Before its election a slave may have copied more than its master had when it answered.
        old = ends.get(switchover.old_master) if switchover.new_epoch is not None else None
        if last is not None and old is not None and last.max_offset > old.max_offset:
            return f"its heartbeat says that its log ends at {last.max_offset}, that of the old master {old.max_offset}"
        epoch = switchover.new_epoch
        election = None if epoch is None else control.elections.beginning(key.broker_name, epoch)
        notified = None if election is None else election.notified.get(key.broker_id)
        return "it has confirmed its role" if notified is not None and notified.result == "ok" else ""

    @property
    def _leads(self) -> bool:
        """This controller leads, and did without a break since the switchover began."""
        group = self._parts.control.group
        return group.is_leader and group.leads_in(self._term)

    def _has_failed(self, broker_id: int) -> bool:
        key = BrokerKey(self.switchover.broker_name, broker_id)
        return self._parts.control.detector.failed_broker(key) is not None

    async def _log_ends(self) -> Mapping[int, LogEnd]:
        broker_set = self._parts.control.store.get(self.switchover.broker_name)
        if broker_set is None:
            return {}
        both = (self.switchover.old_master, self.switchover.new_master)
        query = LogEndQuery(
            broker_name=broker_set.broker_name,
            addresses={i: broker_set.replicas[i].address for i in both if i in broker_set.replicas},
            in_sync=both,
            # Who confirms what is not of interest here, so no properties are queried.
            others=0,
        )
        return (await self._parts.query_log_ends(query)).by_id


#: How many switchovers are shown.
SWITCHOVERS_MAX: Final = 1_000
#: How many run at one time: each asks two brokers up to 100 times a second while clients are held.
RUNNING_MAX: Final = 50


class SetNotFound(Exception):
    def __init__(self, broker_name: str) -> None:
        super().__init__(f"there is no broker set {broker_name}")


class SwitchoverRefused(Exception):
    """Nothing was begun; the text says why, and what to do."""


class Switchovers:
    def __init__(
        self,
        control: BrokerRequests,
        roles: BrokerRoles,
        query_log_ends: Callable[[LogEndQuery], Awaitable[LogEnds]],
        query_all_ack: Callable[[str], Awaitable[bool | None]],
        clock: Clock,
        emit: Emit,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]],
    ) -> None:
        """`query_all_ack`: does a broker acknowledge only what everybody in sync has; None without an answer."""
        self.control, self.roles, self.query_log_ends, self.clock, self.emit = (
            control,
            roles,
            query_log_ends,
            clock,
            emit,
        )
        self._query_all_ack, self._start = query_all_ack, start
        #: Those under way and the last ones, the newest last.
        self._runs: deque[SwitchoverRun] = deque(maxlen=SWITCHOVERS_MAX)
        #: Sets whose switchover is being checked.
        self._beginning: set[str] = set()
        self._longest_hold_ms = 0

    def __iter__(self) -> Iterator[Switchover]:
        return (each.switchover for each in reversed(self._runs))

    def measures(self) -> Iterator[Measure]:
        yield Measure(events.LONGEST_HOLD, self._longest_hold_ms / 1000)

    def record_hold(self, milliseconds: int) -> None:
        self._longest_hold_ms = max(self._longest_hold_ms, milliseconds)

    def of_set(self, broker_name: str) -> Switchover | None:
        return next((each for each in self if each.broker_name == broker_name), None)

    async def begin(self, broker_name: str, request: SwitchoverRequest) -> Switchover:
        """Begin a switchover, which goes on by itself; raises NotLeader, SetNotFound, and SwitchoverRefused."""
        try:
            return await self._begin(broker_name, request)
        except SwitchoverRefused as refused:
            self.emit(events.SwitchoverRefused(broker=broker_name, problem=str(refused)))
            raise

    async def _begin(self, broker_name: str, request: SwitchoverRequest) -> Switchover:
        self._check_free(broker_name)
        self._beginning.add(broker_name)
        try:
            needs = await self._needs(broker_name, request)
        finally:
            self._beginning.discard(broker_name)
        found = rules.find_next_master(needs)
        problem = found.problem or rules.problem_of_loss(needs)
        if found.broker_id is None or problem:
            raise SwitchoverRefused(problem)
        switchover = self._made(needs, request, found.broker_id)
        run = SwitchoverRun(switchover, self)
        self._runs.append(run)
        self.emit(events.SwitchoverBegun(switchover=switchover))
        self._start(run.run())
        return switchover

    def _check_free(self, broker_name: str) -> None:
        self.control.group.check_leads()
        if self.control.store.get(broker_name) is None:
            raise SetNotFound(broker_name)
        running = [each for each in self if not each.has_ended]
        if broker_name in self._beginning or any(each.broker_name == broker_name for each in running):
            raise SwitchoverRefused(f"a switchover of {broker_name} is already running: wait for its end")
        if len(running) + len(self._beginning) >= RUNNING_MAX:
            raise SwitchoverRefused(f"{RUNNING_MAX} switchovers are running: wait for one to end")

    async def _needs(self, broker_name: str, request: SwitchoverRequest) -> rules.SwitchoverNeeds:
        control = self.control
        broker_set = control.store.get(broker_name)
        assert broker_set is not None, "it has just been found"
        is_all_ack = await self._query_all_ack(broker_set.master_address) if broker_set.master_address else None
        control.group.check_leads()
        if (broker_set := control.store.get(broker_name)) is None:
            raise SetNotFound(broker_name)
        return rules.SwitchoverNeeds(
            broker_set=broker_set,
            trusted=control.detector.electable(broker_name, self.clock.now_ms()),
            wanted=request.broker_id,
            is_held=self._is_checked(broker_set),
            is_all_ack=is_all_ack,
            accepts_loss=request.accept_loss,
        )

    def _is_checked(self, broker_set: BrokerSet) -> bool:
        """Return whether somebody checks the role of the master, so that a hold holds clients."""
        master = broker_set.master
        return master is not None and self.roles.checkers.is_checked(BrokerKey(broker_set.broker_name, master))

    def _made(self, needs: rules.SwitchoverNeeds, request: SwitchoverRequest, new_master: int) -> Switchover:
        broker_set, clock = needs.broker_set, self.clock
        assert broker_set.master is not None, "the rule has found the next master beside it"
        unix_ms = clock.unix_ms()
        return Switchover(
            id=f"{broker_set.broker_name}.{unix_ms}",
            broker_name=broker_set.broker_name,
            cluster=broker_set.cluster,
            request=request,
            old_master=broker_set.master,
            new_master=new_master,
            old_epoch=broker_set.master_epoch,
            is_held=needs.is_held,
            is_all_ack=bool(needs.is_all_ack),
            warnings=rules.warnings_of(needs),
            created_unix_ms=unix_ms,
            phase_since_ms=clock.now_ms(),
            phase_since_unix_ms=unix_ms,
        )
