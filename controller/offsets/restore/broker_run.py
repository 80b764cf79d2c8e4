"""Writes offsets at one master: reads, decides, writes and reads back. The edge.

Each write is preceded by the question whether the broker is still the master that this run is for, and this manager
serves, at the moment the request leaves. Every queue ends with an outcome, whenever the run ends.
"""

import itertools
from collections.abc import Sequence
from typing import Final

from controller.offsets.guard.candidates import TableKey
from controller.offsets.guard.master_queries import MasterQueries
from controller.offsets.guard.outcomes import StillMaster
from controller.offsets.guard.plan import MessageLook
from controller.offsets.restore.broker_facts import BROKER_FAILURES, BrokerFacts, each_of, read_facts
from controller.offsets.restore.rules import (
    GroupState,
    decide_restored,
    is_still_right,
    needs_proof,
    proved,
    verified_restore,
)
from controller.offsets.restore.values import PlannedOffset, RestoreOptions, RestoreStatus, WantedOffset
from remoting.admin.admin_request import AdminRequest
from remoting.admin.offsets import OffsetCommit, commit_offset, committed_offset, reset_offset
from remoting.protocol.errors import BodyError, ConnectionRefused, InvokeError, NotSent, Refused

_TIME_OVER: Final = "the time was over before it was sent"
_NOT_LOOKED_AT: Final = "the time was over before the message before it was looked at"


class BrokerRun:
    """The offsets of one broker set that are to be written, and what has become of them so far."""

    def __init__(
        self,
        queries: MasterQueries,
        address: str,
        wanted: Sequence[WantedOffset],
        options: RestoreOptions,
        is_still_master: StillMaster,
    ) -> None:
        self._queries = queries
        self._address = address
        self._wanted = wanted
        self._options = options
        self._is_still_master = is_still_master
        self._facts: BrokerFacts | None = None
        #: In the order of what is wanted.
        self.planned: list[PlannedOffset] = [
            PlannedOffset(each.queue, None, each.offset, RestoreStatus.NOT_REACHED, _TIME_OVER) for each in wanted
        ]

    async def plan(self) -> None:
        """Decide what becomes of each queue; what the broker fails with is the reason then. Writes nothing."""
        try:
            self._facts = await read_facts(
                self._queries,
                {(each.queue.key.topic, each.queue.key.group, each.queue.queue_id) for each in self._wanted},
            )
        except BROKER_FAILURES as error:
            self.planned = [
                PlannedOffset(each.queue, None, each.offset, RestoreStatus.UNAVAILABLE, str(error))
                for each in self._wanted
            ]
            return
        doubtful = self._decide(self._facts)
        for place in itertools.chain.from_iterable(doubtful):
            # Looks may end early: what nobody has looked at is not written.
            self._becomes(place, RestoreStatus.NOT_PROVED, _NOT_LOOKED_AT)
        await each_of(doubtful, self._prove)

    async def apply(self) -> None:
        """Write what is ready, and read it back; may be cancelled: the outcomes are true then, too."""
        if self._facts is None or not self.ready:
            return
        places = [place for place, each in enumerate(self.planned) if each.status is RestoreStatus.READY]
        for place in places:
            self._becomes(place, RestoreStatus.NOT_REACHED, _TIME_OVER)
        topics = {self.planned[place].queue.key.topic for place in places}
        try:
            before = await self._queries.shown(topics)
        except BROKER_FAILURES as error:
            for place in places:
                self._becomes(place, RestoreStatus.UNAVAILABLE, str(error))
            return
        sent: dict[int, bool] = {}

        async def write(place: int) -> None:
            planned = self.planned[place]
            if not is_still_right(planned, before.offset(_table_key(planned), planned.queue.queue_id)):
                self._becomes(place, RestoreStatus.MOVED_ON, "the group has moved meanwhile: look at it again")
            elif (was_reset := await self._write(place)) is not None:
                sent[place] = was_reset

        await each_of(places, write)
        await self._verify(topics, sent)

    @property
    def ready(self) -> bool:
        """Whether something is to be written."""
        return any(each.status is RestoreStatus.READY for each in self.planned)

    def _decide(self, facts: BrokerFacts) -> list[list[int]]:
        """Decide what becomes of each queue; return what needs proof by queue, the highest offset first."""
        by_queue: dict[tuple[str, int], list[int]] = {}
        for place, wanted in enumerate(self._wanted):
            key, queue_id = wanted.queue.key, wanted.queue.queue_id
            shown = facts.queue(key.topic, key.group, queue_id)
            planned = decide_restored(wanted, shown, self._options, can_reset=facts.can_reset)
            self.planned[place] = planned
            if needs_proof(wanted, shown, planned, self._options):
                by_queue.setdefault((key.topic, queue_id), []).append(place)
        return [sorted(each, key=lambda place: -(self.planned[place].new or 0)) for each in by_queue.values()]

    async def _prove(self, places: Sequence[int]) -> None:
        """Look at messages of one queue until one is old enough: all before it are, too."""
        for number, place in enumerate(places):
            await self._look(place)
            if self.planned[place].status is RestoreStatus.READY:
                for other in places[number:]:
                    self._becomes(other, RestoreStatus.READY, "")
                return

    async def _look(self, place: int) -> None:
        planned, message = self.planned[place], None
        assert planned.new, "the first offset of all needs no proof"
        look = MessageLook(planned.queue.key.topic, planned.queue.queue_id, planned.new - 1)
        try:
            message = (await self._queries.look(look, needs_store_time=True)).message
        except BROKER_FAILURES as error:
            self._becomes(place, RestoreStatus.NOT_PROVED, f"the message before it cannot be read: {error}")
            return
        self.planned[place] = proved(self._wanted[place], planned, message)

    async def _write(self, place: int) -> bool | None:
        """Return whether members were sent to the offset, too; None if the broker has not taken it for certain."""
        planned, facts = self.planned[place], self._facts
        assert planned.new is not None, "it was ready"
        assert facts is not None, "it was planned"
        key = planned.queue.key
        of_queue = key.group, key.topic, planned.queue.queue_id, planned.new
        # Also before a reset: not every release shows a reset in its table.
        stored = await self._send(place, commit_offset(*of_queue))
        if stored is None:
            return None
        state = facts.groups[key.group]
        is_online = isinstance(state, GroupState) and state.is_online
        reset = reset_offset(*of_queue).mapped(lambda _: OffsetCommit.STORED)
        if stored is OffsetCommit.RESET_PENDING:
            if not (facts.can_reset and await self._shows_its_reset(planned)):
                why = "a reset that was requested before waits for the group's next pull"
                self._becomes(place, RestoreStatus.RESET_PENDING, why)
                return None
            return None if await self._send(place, reset) is None else is_online
        if not (facts.can_reset and is_online):
            return False
        if await self._send(place, reset) is None:
            # The commit was taken: members may overwrite it, or have read from it.
            why = f"stored, and members that are online were not sent there: {self.planned[place].reason}"
            self._becomes(place, RestoreStatus.UNVERIFIED, why)
            return None
        return True

    async def _shows_its_reset(self, planned: PlannedOffset) -> bool:
        """Return whether the reset that waits is the offset that was shown before: it is what is to be put right."""
        key = planned.queue.key
        try:
            waiting = await self._queries.call(committed_offset(key.group, key.topic, planned.queue.queue_id))
        except BROKER_FAILURES:
            return False
        return waiting is not None and waiting == planned.old

    async def _send(self, place: int, request: AdminRequest[OffsetCommit]) -> OffsetCommit | None:
        """Return the answer to a write that becomes UNVERIFIED as it leaves; None without one."""

        def before_send() -> None:
            if not self._is_still_master():
                raise NotSent(self._address, "it is not the master any more, or this manager does not serve any more")
            # From here on the run may end before the answer comes.
            self._becomes(place, RestoreStatus.UNVERIFIED, "it was sent, and not read back")

        try:
            return await self._queries.call(request, before_send)
        except NotSent as error:
            self._becomes(place, RestoreStatus.ROLE_CHANGED, error.reason)
        except (Refused, ConnectionRefused) as error:
            self._becomes(place, RestoreStatus.REFUSED, str(error))
        except (InvokeError, BodyError) as error:
            self._becomes(place, RestoreStatus.UNVERIFIED, str(error))
        return None

    async def _verify(self, topics: set[str], sent: dict[int, bool]) -> None:
        if not sent:
            return
        try:
            after = await self._queries.shown(topics)
        except BROKER_FAILURES as error:
            for place in sent:
                self._becomes(place, RestoreStatus.UNVERIFIED, f"it was sent, and not read back: {error}")
            return
        for place, was_reset in sent.items():
            planned = self.planned[place]
            shown = after.offset(_table_key(planned), planned.queue.queue_id)
            self.planned[place] = verified_restore(planned, shown, was_reset=was_reset)

    def _becomes(self, place: int, status: RestoreStatus, reason: str) -> None:
        former = self.planned[place]
        self.planned[place] = PlannedOffset(former.queue, former.old, former.new, status, reason)


def _table_key(planned: PlannedOffset) -> TableKey:
    key = planned.queue.key
    return TableKey(key.group, key.topic)
