"""Lets the guard run at every broker that becomes master or starts again, while this manager serves. The edge.

A change of masters takes the copy of what the mirror has at once, in the same turn of the event loop: the next reading
is one of the new master. What no change shows is found each second: a new run that the mirror has read, what the mirror
had stored when this process started, and what was waiting when this manager began to serve.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from controller.offsets.app.guard_turns import EndedEarly, GuardTurns
from controller.offsets.app.guarding_parts import GuardedMirror, GuardingParts, GuardRunObserver
from controller.offsets.app.member_resetting import MemberResetting
from controller.offsets.config import GuardMode
from controller.offsets.entry_keys import EntryKey
from controller.offsets.guard.master_queries import NotServing
from controller.offsets.guard.outcomes import Guarded, GuardObserver, GuardReport, Outcome
from controller.offsets.guard.rules import OffsetCandidate, Tail
from controller.offsets.guard.runner import EarlyEnd, GuardedBroker, GuardLimits, OffsetGuard
from controller.offsets.guard_runs.occasions import (
    CAUSES,
    OUTDATED_MS,
    GuardCause,
    GuardOccasion,
    Notice,
    former_reading,
    is_run_of,
    occasion_of,
    oldest_former_reading,
)
from controller.offsets.guard_runs.run_log import GuardRun, GuardRunLog, RunResult
from controller.offsets.guard_runs.saved_tables import SavedTableReading, set_back_since
from controller.offsets.guard_runs.schedule import GuardSchedule, RunEnd
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import SetQueue
from controller.offsets.topology.values import MasterChange, MasterChangeKind, SetMaster
from remoting.admin.client import AdminClient, AdminLimits
from remoting.slices import in_slices

if TYPE_CHECKING:
    from serving.process.background_tasks import BackgroundTask

#: How often it looks for what no change has shown.
LOOK_S: Final = 1.0
#: Sets that are looked at between two moments at which others run.
_SETS_AT_ONCE: Final = 500
#: Of all runs together. A broker answers most of these within milliseconds. One that hangs takes up to 32 until they
#: time out: up to seven of them hold up no others, eight hold up all.
ADMIN_LIMITS: Final = AdminLimits(requests_max=256, requests_per_peer_max=32)


class _EndedRun(NamedTuple):
    """A run, what it has done, and its result as far as it does not depend on whether another one follows."""

    run: GuardRun
    report: GuardReport
    result: RunResult
    #: What ended it, if that is a fault of this process.
    fault: Exception | None = None


class _ObservedRun(GuardObserver):
    """Takes what a run does, for what is shown of it and for what observes it."""

    def __init__(self, run: GuardRun, observer: GuardRunObserver, mirror: GuardedMirror) -> None:
        self._run = run
        self._observer = observer
        self._mirror = mirror

    def is_reset_since(self, candidate: OffsetCandidate) -> bool:
        """Return whether the mirror knows of a reset since the run began, or of one that was to be written then.

        A queue of which it knew that before has another decision already.
        """
        return self._mirror.is_reset_unseen(self._queue(candidate), self._run.began_unix_ms)

    def sets_back(self, candidate: OffsetCandidate, offset: int) -> None:
        """Let the mirror know of an offset that is about to be set back."""
        self._mirror.guard_writes(self._queue(candidate), offset)

    def guarded(self, broker_name: str, guarded: Guarded) -> None:
        """Take one offset."""
        self._run.guarded(broker_name, guarded)
        self._observer.guarded(self._run, guarded)

    def _queue(self, candidate: OffsetCandidate) -> SetQueue:
        return SetQueue(self._run.set_name, EntryKey(candidate.topic, candidate.group), candidate.queue_id)


class Guarding:
    """Runs of the guard at the brokers of all sets."""

    def __init__(self, parts: GuardingParts, mode: GuardMode, tail: Tail) -> None:
        """Listen to changes; write to brokers only where the mode is act.

        `tail` is what consumers may have read of a lost log (Tail).
        """
        self._clock, self._tasks, self._observer = parts.clock, parts.tasks, parts.observer
        self._mirror, self._following, self._serves = parts.mirror, parts.following, parts.serves
        self._other_leads = parts.other_leads
        self._admin = AdminClient(parts.client, ADMIN_LIMITS)
        self._turns = GuardTurns(parts.client)
        self._member_resets = MemberResetting(parts)
        self._mode, self._writes, self._tail = mode, mode == "act", tail
        self._schedule = GuardSchedule()
        self._ends: dict[SetName, EarlyEnd] = {}
        #: When it was known last who is master, monotonic ms.
        self._known_ms: int | None = None
        #: Since when sets are without a master, monotonic ms.
        self._lost_ms: dict[SetName, int] = {}
        #: What the last runs have done.
        self.runs = GuardRunLog()
        self._following.listeners.append(self)

    @property
    def waiting(self) -> int:
        """Sets that wait for a run: for its time, for their broker, or for their turn."""
        return self._schedule.waiting + self._turns.waiting

    @property
    def running(self) -> int:
        """Sets with a run."""
        return self._turns.at_work

    @property
    def awaiting_members(self) -> int:
        """Brokers at which members are awaited after a run, to be sent back."""
        return self._member_resets.at_work

    def masters_changed(self, changes: Sequence[MasterChange]) -> None:
        """Take the copy of what was saved of each set with a new run, and begin to set it right."""
        for change in changes:
            if change.kind is MasterChangeKind.REMOVED:
                self._forget(change)
            elif change.kind is MasterChangeKind.LOST and change.before is not None:
                self._lost_ms[_set_name(change.before)] = self._clock.now_ms()
            elif change.after is not None and (cause := CAUSES.get(change.kind)) is not None:
                self._look_at(change.after, cause)
        self._begin()

    def work(self) -> "list[BackgroundTask]":
        """Return what runs for as long as the manager serves."""
        return [self.look]

    def stop(self) -> None:
        """Let no run wait for its broker or its turn any more, as the process ends; the others end by themselves."""
        self._turns.stop()
        self._member_resets.stop()

    async def look(self) -> None:
        """Look for what no change has shown, each second for ever."""
        while True:
            await self._look_at_all()
            self._begin()
            await asyncio.sleep(LOOK_S)

    async def _look_at_all(self) -> None:
        if not self._following.is_fresh():
            return
        self._known_ms = self._clock.now_ms()
        async for part in in_slices(list(self._following.sets.values()), _SETS_AT_ONCE):
            for each in part:
                if each.master is not None:
                    self._look_at(each.master, GuardCause.NEW_RUN)
        if self._other_leads():
            self._schedule.led_elsewhere(self._clock.now_ms())
        for occasion, is_undecided in self._schedule.drop_outdated(self._clock.now_ms()):
            if is_undecided:
                self._end(
                    self._undecided(
                        occasion, "it was not known who is master, the mirror could not read it, or no manager led"
                    )
                )
            self._settle(occasion)

    def _look_at(self, master: SetMaster, cause: GuardCause) -> None:
        set_name = _set_name(master)
        lost_ms = self._lost_ms.pop(set_name, None)
        saved = self._mirror.saved(set_name)
        if saved is None:
            return
        run = saved.read.run
        is_of_master = is_run_of(run, master)
        if is_of_master and (self._mode == "off" or self._schedule.forget_settled(set_name, saved)):
            self._mirror.settle(set_name, run)
        if self._mode == "off":
            return
        before = self._mirror.saved_before(set_name, run)
        newest, oldest = former_reading(master, saved, before), oldest_former_reading(master, saved, before)
        if newest is None or oldest is None:
            return
        former = self._schedule.saved_for_next(set_name, newest, oldest)
        if is_of_master and run.has_memory_of(newest.read.run):
            self._end_early(set_name, "it is the same process as before")
            self._mirror.settle(set_name, run)
            return
        if is_of_master and run.has_memory_of(former.read.run):
            # Another one was master in between, and what groups have committed there is not in this memory.
            former = oldest
        notice = Notice(
            cause=cause,
            now_ms=self._clock.now_ms(),
            unix_ms=self._clock.unix_ms(),
            known_ms=self._known_ms,
            lost_ms=lost_ms,
            down_ms=None if is_of_master else self._mirror.down_since(set_name),
            boot_unix_ms=run.boot_unix_ms if is_of_master else master.boot_unix_ms,
        )
        occasion = occasion_of(set_name, notice, master, former, self._mirror.rewinds(set_name))
        if self._schedule.add(occasion) and (end := self._ends.get(set_name)) is not None:
            end.end("the master has changed again")

    def _end_early(self, set_name: SetName, reason: str) -> None:
        """Forget a set, and end a run that is under way."""
        if self._schedule.forget(set_name) and (end := self._ends.get(set_name)) is not None:
            end.end(reason)

    def _forget(self, change: MasterChange) -> None:
        if change.before is None:
            return
        set_name = _set_name(change.before)
        self._lost_ms.pop(set_name, None)
        self._end_early(set_name, "the broker set was removed")

    def _settle(self, occasion: GuardOccasion) -> None:
        saved = self._mirror.saved(occasion.set_name)
        if saved is not None and is_run_of(saved.read.run, occasion.master):
            self._mirror.settle(occasion.set_name, saved.read.run)

    def _begin(self) -> None:
        """Begin the runs that wait; each waits for its broker and for its turn by itself."""
        if not self._serves():
            return
        for set_name in self._schedule.names_waiting(self._clock.now_ms(), self._may_begin):
            # One of a set that was removed, and is found again, may not have ended yet.
            if set_name not in self._ends and (occasion := self._schedule.begin(set_name)) is not None:
                self._ends[set_name] = EarlyEnd()
                self._tasks.start(self._run(occasion, self._ends[set_name]), "offset guard")

    def _may_begin(self, occasion: GuardOccasion) -> bool:
        """Return whether the broker can be guarded now: who is master is known, and that it is no former one again."""
        if not self._following.is_fresh() or not self._following.is_master(occasion.master):
            return False
        if not occasion.may_be_same_process:
            return True
        saved = self._mirror.saved(occasion.set_name)
        return saved is not None and is_run_of(saved.read.run, occasion.master)

    async def _run(self, occasion: GuardOccasion, early_end: EarlyEnd) -> None:
        """Set the offsets of one set right, and let the next one begin."""
        end = RunEnd.FAILED
        ended: _EndedRun | None = None
        try:
            ended = await self._guard_in_turn(occasion, early_end)
            end = RunEnd.ROLE_CHANGED if ended is None else _end_of(ended.report)
        finally:
            del self._ends[occasion.set_name]
            now_ms, unix_ms = self._clock.now_ms(), self._clock.unix_ms()
            is_given_up = self._schedule.end(occasion, now_ms=now_ms, unix_ms=unix_ms, end=end)
            if ended is not None:
                self._end(ended, is_given_up=is_given_up)
            self._begin()
        if ended is not None and ended.fault is not None:
            raise ended.fault

    async def _guard_in_turn(self, occasion: GuardOccasion, early_end: EarlyEnd) -> _EndedRun | None:
        """Set the offsets of one set right once its broker serves and it is its turn; None if it is not to be done."""
        try:
            async with self._turns.turn(occasion, early_end, lambda: self._may_wait(occasion)):
                return await self._guard(occasion, early_end) if self._is_wanted(occasion) else None
        except EndedEarly:
            return None
        except NotServing as error:
            return self._undecided(occasion, str(error)) if self._is_wanted(occasion) else None

    def _may_wait(self, occasion: GuardOccasion) -> bool:
        return self._is_wanted(occasion) and not occasion.is_outdated(self._clock.now_ms())

    def _is_wanted(self, occasion: GuardOccasion) -> bool:
        return self._serves() and self._may_begin(occasion)

    def _undecided(self, occasion: GuardOccasion, why: str) -> _EndedRun:
        """Return a run that never began, as it is reported."""
        run = self.runs.begin(occasion, self._clock.unix_ms(), is_recent=False, writes=self._writes)
        self._observer.guard_began(run)
        failure = f"no run could begin within {OUTDATED_MS // 1000} s, and what was saved is too old now: {why}"
        master = occasion.master
        report = GuardReport(broker_name=master.broker_name, address=master.address, failure=failure)
        return _EndedRun(run, report, RunResult.NOT_DECIDED)

    def _end(self, ended: _EndedRun, *, is_given_up: bool = False) -> None:
        run, report, result, _ = ended
        self.runs.end(run, report, RunResult.GIVEN_UP if is_given_up and result is RunResult.FAILED else result)
        self._observer.guard_ended(run, report)

    async def _guard(self, occasion: GuardOccasion, early_end: EarlyEnd) -> _EndedRun:
        began_ms = self._clock.now_ms()
        is_recent = occasion.is_recent(began_ms)
        run = self.runs.begin(occasion, self._clock.unix_ms(), is_recent=is_recent, writes=self._writes)
        self._observer.guard_began(run)
        try:
            report = await self._perform(run, occasion, began_ms, early_end)
        except Exception as fault:  # noqa: BLE001  # raised again once the run is reported
            report = GuardReport(
                broker_name=occasion.master.broker_name,
                address=occasion.master.address,
                failure=f"a fault of this manager, see background_task_failed in the log: {fault!r}",
                took_ms=self._clock.now_ms() - began_ms,
            )
            return _EndedRun(run, report, RunResult.FAILED, fault)
        return _EndedRun(run, report, _result_of(report, early_end))

    async def _perform(self, run: GuardRun, occasion: GuardOccasion, began_ms: int, early_end: EarlyEnd) -> GuardReport:
        # At the beginning of the run: an operator may have reset queues since its occasion.
        resets = set_back_since(
            self._mirror.regressions,
            occasion.set_name,
            occasion.saved.read.answered_unix_ms,
            self._mirror.unseen_resets(occasion.set_name, occasion.saved.read.requested_unix_ms),
        )
        reading = SavedTableReading(occasion.saved, occasion.rewinds, resets)
        for _ in reading.slices():
            await asyncio.sleep(0)
        broker = GuardedBroker(
            broker_name=occasion.master.broker_name,
            address=occasion.master.address,
            saved=reading.table,
            moment=occasion.moment,
            tail=self._tail_of(occasion),
            is_recent=run.is_recent,
            is_stale=occasion.is_stale(began_ms, run.began_unix_ms),
            awaits_members=occasion.is_recent(self._schedule.first_run_ms(occasion, began_ms)),
        )
        self._member_resets.end_former(occasion.set_name, occasion.master)
        observed = _ObservedRun(run, self._observer, self._mirror)
        guard = OffsetGuard(self._admin, self._clock, observed, GuardLimits(), writes=self._writes)
        report = await guard.guard(broker, lambda: self._may_write(occasion.master), early_end)
        if guard.unreset is not None:
            self._member_resets.begin(
                run,
                guard.unreset,
                may_write=lambda: self._may_write(occasion.master),
                is_over=lambda: self._is_over(occasion.master),
            )
        return report

    def _tail_of(self, occasion: GuardOccasion) -> Tail:
        """Return whether consumers may have read what a new master does not have."""
        followed, epoch = self._following.sets.get(occasion.master.broker_name), occasion.moment.epoch
        unclean_epoch = None if followed is None else followed.unclean_epoch
        is_unclean = unclean_epoch is not None and epoch is not None and epoch < unclean_epoch
        return Tail.LOST if is_unclean else self._tail

    def _is_over(self, master: SetMaster) -> bool:
        """Return whether another broker is known to be master, or the set is gone."""
        followed = self._following.sets.get(master.broker_name)
        return followed is None or followed.master not in (None, master)

    def _may_write(self, master: SetMaster) -> bool:
        return self._serves() and self._following.is_master(master)


def _set_name(master: SetMaster) -> SetName:
    return SetName(master.cluster, master.broker_name)


def _result_of(report: GuardReport, early_end: EarlyEnd) -> RunResult:
    end = _end_of(report)
    if end is RunEnd.COMPLETE:
        return RunResult.COMPLETE
    return RunResult.ENDED if early_end.reason or end is RunEnd.ROLE_CHANGED else RunResult.FAILED


def _end_of(report: GuardReport) -> RunEnd:
    if not report.is_incomplete:
        return RunEnd.COMPLETE
    is_failed = report.failure is not None or report.outcomes[Outcome.NOT_REACHED]
    return RunEnd.FAILED if is_failed else RunEnd.ROLE_CHANGED
