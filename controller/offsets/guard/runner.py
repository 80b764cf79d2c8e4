"""Sets the offsets at a new master right: reads, decides in rounds, writes and verifies. The edge.

The order keeps what the rules rely on: the offset table is read first and the queues afterwards, so a queue's end is
never older than the offset that is compared with it. Each write is preceded by the question whether the broker is
still the master that this run is for, at the moment the request leaves.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from controller.offsets.guard.boundaries import CLOCK_MARGIN_MS, Boundary
from controller.offsets.guard.candidates import (
    KnownGroups,
    SavedTable,
    ShownTable,
    TableKey,
    candidates_of,
    groups_with_offsets,
    shows_pop,
)
from controller.offsets.guard.group_kinds import pulling_among
from controller.offsets.guard.log_facts import NO_BOUNDARY, MasterLog, SavedMoment, boundary_of, can_pop, facts_of
from controller.offsets.guard.master_queries import PAUSE_S, MasterQueries, NoMaster, NotServing
from controller.offsets.guard.message_looks import look_at_all
from controller.offsets.guard.outcomes import (
    Guarded,
    GuardObserver,
    GuardReport,
    Outcome,
    StillMaster,
    is_overtaken,
    is_reset,
    may_set_back,
    verified,
    verified_unanswered,
)
from controller.offsets.guard.plan import GuardPlan, MessageLook
from controller.offsets.guard.rules import (
    GuardDecision,
    OffsetCandidate,
    OffsetKeeping,
    Reason,
    Tail,
    not_raised,
    raises,
)
from controller.offsets.guard.unreset import UnresetGroups, UnresetQueues, awaits_members
from remoting.admin.client import AdminClient
from remoting.admin.offsets import OffsetCommit, commit_offset
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import BodyError, ConnectionRefused, InvokeError, NotSent, Refused
from remoting.slices import in_slices

#: What is decided or counted between two moments at which others run.
SLICE_CANDIDATES: Final = 200

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardLimits:
    """Limits of one run."""

    #: A run ends then; what was not reached is reported.
    run_ms: int = 10_000
    #: So long after its beginning it looks at no more messages, and decides about the queues that it has looked at.
    looks_ms: int = 7_000
    #: Requests under way to the broker; the client's own limits bound them too.
    requests_max: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedBroker:
    """A new master, or one that was started again, and what its predecessor had."""

    broker_name: str
    address: str
    #: A copy that nobody changes: a run goes through it in slices.
    saved: SavedTable
    moment: SavedMoment
    tail: Tail
    #: The promotion, or the start, was seen as it happened; not found at a start of this process.
    is_recent: bool
    #: The offsets were read so long ago that a group without members may have been deleted since.
    is_stale: bool
    #: So it was for the first run at this promotion: members of groups are sent back after this one too.
    awaits_members: bool


class EarlyEnd:
    """Ends one run before its time, because another one is to begin; what was not reached is reported."""

    def __init__(self) -> None:
        self.reason = ""
        self._limit: asyncio.Timeout | None = None

    def end(self, reason: str) -> None:
        """End the run now, or as soon as it begins."""
        self.reason = reason
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time())

    def begin(self, limit: asyncio.Timeout) -> None:
        """Take the time limit of the run, which begins; raises TimeoutError where it is to end already."""
        if self.reason:
            raise TimeoutError
        self._limit = limit

    def close(self) -> None:
        """Take that the run has ended."""
        self._limit = None


class _ResetMeanwhile(NotSent):
    """An operator has reset the queue since the run began."""


class OffsetGuard:
    """Guards one broker at a time; several runs at different brokers may be under way."""

    def __init__(
        self,
        admin: AdminClient,
        clock: Clock,
        observer: GuardObserver,
        limits: GuardLimits | None = None,
        *,
        writes: bool = True,
    ) -> None:
        """Guard by requests of `admin`; without `writes` it decides and reports, and changes nothing at any broker."""
        self._admin = admin
        self._clock = clock
        self._observer = observer
        self._limits = limits or GuardLimits()
        self._writes = writes
        #: Of the last run; None: nothing is left.
        self.unreset: UnresetGroups | None = None

    async def guard(
        self, broker: GuardedBroker, is_still_master: StillMaster, early_end: EarlyEnd | None = None
    ) -> GuardReport:
        """Set the offsets at a broker right, within `run_ms`, and return what was done; never raises for the broker.

        What is left until members come is in `unreset` then.
        """
        began_ms, early_end = self._clock.now_ms(), early_end or EarlyEnd()
        report = GuardReport(broker_name=broker.broker_name, address=broker.address)
        run = _GuardRun(
            MasterQueries(self._admin, broker.broker_name, broker.address),
            broker,
            is_still_master,
            self._limits,
            self._observer if self._writes else None,
            self._clock,
        )
        try:
            async with asyncio.timeout(self._limits.run_ms / 1000) as limit:
                early_end.begin(limit)
                await run.run()
            report.failure = run.looks_error or None
        except TimeoutError:
            why = early_end.reason or f"{broker.address} was not finished within {self._limits.run_ms} ms"
            report.failure = f"{why}, {run.state}"
        except (Refused, InvokeError, BodyError, NoMaster) as error:
            report.failure = f"{run.state}: {error}"
        finally:
            early_end.close()
        self.unreset = run.unreset()
        async for part in in_slices(run.results(), SLICE_CANDIDATES):
            for guarded in part:
                report.add(guarded)
                if guarded.outcome is Outcome.NOT_REACHED and report.failure is None:
                    report.failure = f"{broker.address} has not taken all offsets: {guarded.detail}"
                self._observer.guarded(broker.broker_name, guarded)
        report.took_ms = self._clock.now_ms() - began_ms
        return report


class _GuardRun:
    """One run: what was decided, and what has become of it so far."""

    def __init__(
        self,
        queries: MasterQueries,
        broker: GuardedBroker,
        is_still_master: StillMaster,
        limits: GuardLimits,
        writes_to: GuardObserver | None,
        clock: Clock,
    ) -> None:
        self._queries = queries
        #: Who is to know of each write; None: nothing is written.
        self._writes_to = writes_to
        self._broker = broker
        self._is_still_master = is_still_master
        self._limits = limits
        self._clock = clock
        self._topics: set[str] = set()
        self._decided: list[tuple[OffsetCandidate, GuardDecision]] = []
        #: By queue: messages before this offset were in the log that was read.
        self._read_until: dict[tuple[str, int], int] = {}
        #: By place in the list above.
        self._outcomes: dict[int, tuple[Outcome, str]] = {}
        self._written: dict[int, bool] = {}
        #: Places where the broker did not answer a request to write, or was busy.
        self._not_taken: set[int] = set()
        #: Places whose commit the broker has not answered.
        self._unanswered: list[int] = []
        self._to_write: list[int] = []
        self._has_reset = False
        #: None: it was not requested.
        self._can_reset: bool | None = None
        self._unreset = UnresetQueues()
        self._boundary: Boundary = NO_BOUNDARY
        #: What the run is at, for the report of a failure.
        self.state = "it requested where the log parts"
        #: Why not all queues were looked at; "" if all were.
        self.looks_error = ""

    async def run(self) -> None:
        """Do everything; raises as AdminClient.call where nothing can be decided."""
        begun_s = asyncio.get_running_loop().time()
        log = await self._log()
        popping = set[str]()
        async for keys in in_slices(self._broker.saved, SLICE_CANDIDATES):
            self._topics.update(key.topic for key in keys)
            popping.update(key.group for key in keys if shows_pop(key))
        self.state = "it read the offset table"
        shown = await self._queries.shown(self._topics)
        groups = await self._groups(popping, can_pop=can_pop(log) or self._broker.is_stale)
        facts = replace(
            facts_of(
                self._broker.moment,
                log,
                self._broker.tail,
                is_recent=self._broker.is_recent,
                has_pulls=shown.has_pulls,
            ),
            loses_popped=groups.can_pop and await self._queries.loses_popped(),
        )
        self._boundary = boundary_of(self._broker.moment, log)
        plan = GuardPlan(self._boundary, facts)
        async for candidates in in_slices(candidates_of(self._broker.saved, shown, groups), SLICE_CANDIDATES):
            for candidate in candidates:
                plan.add(candidate)
        self.state = "it looked at messages"
        try:
            async with asyncio.timeout_at(begun_s + self._limits.looks_ms / 1000):
                if not plan.is_complete:
                    await look_at_all(plan, self._queries, self._limits.requests_max)
        except TimeoutError:
            # What was looked at by then is decided and written.
            self.looks_error = f"{self._queries.address} has not shown all messages within {self._limits.looks_ms} ms"
        await self._decide(plan)
        self.state = "it wrote offsets"
        await self._write_all()

    async def _log(self) -> MasterLog:
        """Return what proves the age of messages; a broker that is busy for a moment is requested again until it ends.

        It served before the run began.
        """
        while True:
            try:
                found = await self._queries.log(self._broker.moment)
                latest_unix_ms = self._clock.unix_ms() + self._limits.run_ms + CLOCK_MARGIN_MS
                return replace(found, latest_unix_ms=latest_unix_ms)
            except NotServing as error:
                self.state = f"it requested where the log parts: {error}"
            await asyncio.sleep(PAUSE_S)

    async def _groups(self, popping: set[str], *, can_pop: bool) -> KnownGroups:
        """Return how groups consume; their members are requested whether they pull."""
        pulling = frozenset[str]()
        if can_pop:
            self.state = "it requested of clients whether they pull"
            saved = groups_with_offsets(self._broker.saved)
            pulling = await pulling_among(self._queries, saved - popping, self._limits.requests_max)
        return KnownGroups(popping=popping, pulling=pulling, can_pop=can_pop)

    def results(self) -> Iterable[Guarded]:
        """Yield what has become of each candidate, as far as it was decided."""
        for place, (candidate, decision) in enumerate(self._decided):
            outcome, detail = self._outcomes.get(place, (Outcome.NOT_REACHED, ""))
            yield Guarded(candidate=candidate, decision=decision, outcome=outcome, detail=detail)

    def unreset(self) -> UnresetGroups | None:
        """Return the groups whose members have to be sent back; None if there is none, or it was long ago."""
        if not self._broker.awaits_members or self._can_reset is None:
            return None
        groups = self._unreset.groups(can_reset=self._can_reset)
        if not groups:
            return None
        return UnresetGroups(boundary=self._boundary, groups=groups, can_reset=self._can_reset)

    async def _each(self, items: Iterable[Item], work: Callable[[Item], Awaitable[None]]) -> None:
        """Do `work` for each item, `requests_max` at a time."""
        left = iter(items)

        async def worker() -> None:
            for item in left:
                await work(item)

        await all_results(worker() for _ in range(self._limits.requests_max))

    async def _decide(self, plan: GuardPlan) -> None:
        self.state = "it looked at the messages before offsets that it raises"
        decided = list[tuple[OffsetCandidate, GuardDecision, GuardDecision | None]]()
        raised = defaultdict[tuple[str, int], set[int]](set)
        async for part in in_slices(plan.decisions(), SLICE_CANDIDATES):
            for candidate, decision in part:
                if_pulling = self._if_awaited(plan, candidate, decision)
                decided.append((candidate, decision, if_pulling))
                for each in filter(None, (decision, if_pulling)):
                    if each.offset is not None and raises(candidate, each):
                        raised[candidate.queue].add(each.offset)
        await self._each(raised.items(), partial(self._prove, plan))
        async for slice_ in in_slices(decided, SLICE_CANDIDATES):
            for candidate, decision, if_pulling in slice_:
                self._take_decision(candidate, self._proved(candidate, decision))
                if if_pulling is not None:
                    self._unreset.decided(candidate, self._proved(candidate, if_pulling))

    def _if_awaited(self, plan: GuardPlan, candidate: OffsetCandidate, decision: GuardDecision) -> GuardDecision | None:
        """Return what is done once the members of a group show that they pull; None where they are not awaited."""
        if decision.reason is Reason.MAY_BE_RESET:
            self._unreset.leave_alone(candidate)
        elif candidate.keeping is OffsetKeeping.POP and self._writes_to is not None:
            if_pulling = plan.if_pulling(candidate)
            return if_pulling if awaits_members(decision, if_pulling) else None
        return None

    async def _prove(self, plan: GuardPlan, raised: tuple[tuple[str, int], set[int]]) -> None:
        """Find the highest of the offsets to which a queue is raised whose message was in the log that was read.

        All below it are proved by that, so the highest one is looked at first. Where the log parts proves nothing here:
        a topic that was made anew after the reading has old messages as well.
        """
        queue, offsets = raised[0], sorted(raised[1])
        first, end = 0, len(offsets)
        place = end - 1
        while first < end:
            if await self._was_read(plan, MessageLook(*queue, offsets[place] - 1)):
                self._read_until[queue], first = offsets[place], place + 1
            else:
                end = place
            place = (first + end) // 2

    async def _was_read(self, plan: GuardPlan, look: MessageLook) -> bool:
        try:
            found = plan.first_looks.get(look) or await self._queries.look(look, needs_store_time=False)
        except (Refused, InvokeError, BodyError):
            return False
        if found.message is None:
            return look.offset < found.min_offset
        log_end = self._broker.moment.log_end
        return log_end is not None and found.message.physical_offset < log_end

    def _proved(self, candidate: OffsetCandidate, decision: GuardDecision) -> GuardDecision:
        """Return a decision that raises an offset only if the message before it was in the log that was read."""
        is_proved = (decision.offset or 0) <= self._read_until.get(candidate.queue, 0)
        return decision if is_proved or not raises(candidate, decision) else not_raised(candidate, decision)

    def _take_decision(self, candidate: OffsetCandidate, decision: GuardDecision) -> None:
        place = len(self._decided)
        self._decided.append((candidate, decision))
        if decision.offset is None:
            self._outcomes[place] = (Outcome.NOTHING, "")
        elif self._writes_to is None:
            self._outcomes[place] = (Outcome.WITHHELD, "")
        else:
            self._to_write.append(place)
            self._has_reset |= is_reset(decision)

    async def _write_all(self) -> None:
        if self._has_reset or not self._unreset.is_empty:
            self._can_reset = await self._queries.can_reset()
        if not self._to_write:
            return
        before = await self._queries.shown(self._topics)
        await self._each(self._to_write, lambda place: self._write(place, before))
        self.state = "it verified offsets"
        after = await self._queries.shown(self._topics)
        async for written in in_slices(self._written.items(), SLICE_CANDIDATES):
            for place, was_reset in written:
                candidate, decision = self._decided[place]
                self._outcomes[place] = (verified(decision, _shown(after, candidate), was_reset=was_reset), "")
        async for unanswered in in_slices(self._unanswered, SLICE_CANDIDATES):
            for place in unanswered:
                self._verify_unanswered(place, before, after)

    def _verify_unanswered(self, place: int, before: ShownTable, after: ShownTable) -> None:
        candidate, decision = self._decided[place]
        shown = _shown(before, candidate), _shown(after, candidate)
        _, why = self._outcomes[place]
        self._outcomes[place] = (verified_unanswered(decision, *shown, can_reset=bool(self._can_reset)), why)

    async def _write(self, place: int, before: ShownTable) -> None:
        candidate, decision = self._decided[place]
        if is_overtaken(candidate, decision, _shown(before, candidate)):
            self._outcomes[place] = (Outcome.MOVED_ON, "")
            return
        assert decision.offset is not None, "only decisions with an offset are written"
        of_queue = candidate.group, candidate.topic, candidate.queue_id, decision.offset
        # Also before a reset: the answer shows whether somebody else has reset the queue, and not every release shows a
        # reset in its table.
        commit = partial(self._queries.call, commit_offset(*of_queue))
        stored = await self._send(place, commit, instead=None)
        if stored is OffsetCommit.RESET_PENDING:
            self._outcomes[place] = (Outcome.RESET_PENDING, "")
        elif stored is not None and is_reset(decision):
            await self._reset(place, decision.offset)
        elif stored is not None:
            self._written[place] = False
        elif self._outcomes[place][0] is Outcome.UNVERIFIED:
            self._unanswered.append(place)
            if is_reset(decision):
                self._unreset.sent_without_reset(candidate, decision.offset)

    async def _reset(self, place: int, offset: int) -> None:
        """Reset what was committed, where the broker can; members are sent back as they come where it has not."""
        candidate, decision = self._decided[place]
        if not self._can_reset:
            self._written[place] = False
            self._unreset.sent_without_reset(candidate, offset)
            return
        self._outcomes[place] = (Outcome.RESET_MISSING, "")
        of_queue = candidate.group, candidate.topic, candidate.queue_id, offset
        reset_to = await self._send(place, partial(self._queries.reset, *of_queue), instead=Outcome.RESET_MISSING)
        if reset_to is not None:
            self._written[place] = True
            self._decided[place] = (candidate, replace(decision, offset=reset_to))
        elif place in self._not_taken:
            self._unreset.sent_without_reset(candidate, offset)

    async def _send(
        self, place: int, write: Callable[[Callable[[], None]], Awaitable[Item]], *, instead: Outcome | None
    ) -> Item | None:
        """Return the answer to a write that becomes UNVERIFIED as it leaves; None without one.

        Where the broker has not taken it for certain, the outcome is `instead`, or says why.
        """
        try:
            return await write(partial(self._leaves, place))
        except _ResetMeanwhile as error:
            self._outcomes[place] = (Outcome.MOVED_ON, error.reason)
        except NotSent as error:
            self._outcomes[place] = (instead or Outcome.ROLE_CHANGED, error.reason)
        except Refused as error:
            if error.code == ResponseCode.SYSTEM_BUSY:
                self._not_taken.add(place)
                instead = instead or Outcome.NOT_REACHED
            self._outcomes[place] = (instead or Outcome.REFUSED, str(error))
        except ConnectionRefused as error:
            self._not_taken.add(place)
            self._outcomes[place] = (instead or Outcome.NOT_REACHED, str(error))
        except (InvokeError, BodyError) as error:
            self._not_taken.add(place)
            self._outcomes[place] = (Outcome.UNVERIFIED, str(error))
        return None

    def _leaves(self, place: int) -> None:
        """Take that a write is about to leave; raises NotSent where it is not wanted any more."""
        candidate, decision = self._decided[place]
        assert self._writes_to is not None, "nothing is to be written otherwise"
        if not self._is_still_master():
            raise NotSent(self._broker.address, "it is not the master any more")
        if self._writes_to.is_reset_since(candidate):
            raise _ResetMeanwhile(self._broker.address, "an operator has reset it by this manager meanwhile")
        if decision.offset is not None and may_set_back(candidate, decision):
            self._writes_to.sets_back(candidate, decision.offset)
        # From here on the run may end before the answer comes.
        self._outcomes[place] = (Outcome.UNVERIFIED, "")


def _shown(table: ShownTable, candidate: OffsetCandidate) -> int | None:
    key = TableKey(candidate.group, candidate.topic, candidate.keeping is OffsetKeeping.BROADCAST)
    return table.offset(key, candidate.queue_id)
