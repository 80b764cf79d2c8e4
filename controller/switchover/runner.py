"""Carries a switchover out: it observes, lets the rules decide, and performs, until it has ended.

Clients are released whatever happens: at the end of the hold's phases, when the task ends, and by the hold's own limit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from controller.decisions.election import ElectionResult
from controller.failover.election_runner import ElectionOutcome
from controller.failover.requests import BrokerRequests
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.log_ends import LogEnd, LogEndQuery, LogEnds
from controller.roles.checkers import RoleCheckers
from controller.roles.holds import HOLD_MS_MAX, RoleHolds
from controller.roles.serving import ServingConfirmations
from controller.switchover import rules
from controller.switchover.events import switchover_entered
from controller.switchover.switchover import HOLDING, Switchover, SwitchoverPhase
from remoting.clock import Clock
from remoting.protocol.errors import RequestRefused
from serving.telemetry.events import Emit

#: Phases that need to know where logs end, and how soon they ask again.
_QUERIES_S: Final = {SwitchoverPhase.CATCH_UP: 0.25, SwitchoverPhase.DRAIN: 0.01, SwitchoverPhase.VERIFY: 0.25}
#: The other phases look again so soon: at what this process knows.
_LOOKS_S: Final = 0.01


class SwitchoverParts(NamedTuple):
    """What a switchover works with."""

    control: BrokerRequests
    holds: RoleHolds
    serving: ServingConfirmations
    checkers: RoleCheckers
    query_log_ends: Callable[[LogEndQuery], Awaitable[LogEnds]]
    clock: Clock
    emit: Emit


class SwitchoverRun:
    """One switchover, which only this object changes."""

    def __init__(self, switchover: Switchover, parts: SwitchoverParts, held: Callable[[int], None]) -> None:
        """`held` is told for how many ms clients were held."""
        self.switchover = switchover
        self._parts, self._held = parts, held
        self._term = parts.control.group.term
        #: What showed that the new master has begun its epoch; it may have started anew since.
        self._began = ""

    async def run(self) -> None:
        """Carry it out until it has ended."""
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
            self._parts.holds.release(self.switchover.broker_name)

    def _enter(self, turn: rules.Turn) -> None:
        clock, before = self._parts.clock, self.switchover
        after = before.entered(turn.phase, turn.evidence, clock.now_ms(), clock.unix_ms(), turn.problem)
        if after.phase in HOLDING and after.held_since_ms != before.held_since_ms:
            self._parts.holds.hold(after.broker_name, clock.now_ms() + HOLD_MS_MAX)
        elif after.phase not in HOLDING:
            self._parts.holds.release(after.broker_name)
        self.switchover = after
        if after.is_held and before.held_for_ms is None and after.held_for_ms is not None:
            self._held(after.held_for_ms)
        self._parts.emit(switchover_entered(before, after))

    async def _perform(self) -> None:
        """Hold the election that a phase begins with."""
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
            unheld=self._parts.checkers.not_down(BrokerKey(switchover.broker_name, switchover.old_master)),
            ends=ends,
            is_confirmed=broker_set is not None and self._parts.serving.is_confirmed(broker_set),
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
        is_confirmed = epoch is not None and control.elections.has_confirmed(key.broker_name, epoch, key.broker_id)
        return "it has confirmed its role" if is_confirmed else ""

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
