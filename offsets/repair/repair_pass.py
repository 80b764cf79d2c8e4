"""One pass over the offsets of a new master: read, decide by the rules, write in batches, read back. The edge.

    one = RepairPass(at, known, changed_ms, allowed, clock)
    await one.prepare()                      # raises NotServing until the broker serves as master
    await one.repair()                       # again with the groups in `one.waiting`, as their members come
    one.queues, one.right                    # what became of each

The offset table is read before everything that is compared with it, and again once it is a second old. Each batch is
written within WRITTEN_WITHIN_MS of the table that it was decided by, or not at all: a process that was paused between
decision and write has nothing to say any more. Right before a request leaves it is asked once more whether this manager
leads and the broker is still the master.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec.structs import replace

from offsets.at_broker import BROKER_FAILURES, AtBroker, BrokerLog, BrokerOptions, ShownOffsets, for_all
from offsets.proof import Fingerprint, LogBefore, Proved, begins_behind, first_behind, proved_offset
from offsets.readings.reading import KnownBefore
from offsets.repair.rules import LASTED_MS, Before, BrokerNow, Decision, QueueNow, ahead_of, decide, may_push
from offsets.repair.runs import RepairedQueue
from offsets.values import OFFSET_MAX, GroupKind, GroupMembers, GroupTopic, QueueKey
from remoting.clock import Clock
from remoting.protocol.errors import ConnectionRefused, InvokeError, NotSent, Refused
from serving.shapes.offsets import Outcome

#: Decided at a time before it is written.
BATCH_MS: Final = 100
#: A table of offsets that is older is read again before more is decided by it.
TABLE_MS_MAX: Final = 1_000
#: A decision that was not sent by then, counted from the table that it was decided by, is not sent at all.
WRITTEN_WITHIN_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class Allowed:
    #: Whether offsets of a group may be written.
    writes: Callable[[str], bool]
    #: Raises NotSent unless this manager leads, and the broker is the master.
    check: Callable[[], None]
    #: What becomes of a queue whose group went on behind where the logs have parted, up to an offset.
    behind: Callable[[QueueKey, int], Outcome]


@dataclass(slots=True)
class _QueueLooks:
    """What messages of one queue have shown."""

    #: The highest offset that may be pushed in the queue: its proof counts for lower ones.
    highest: int = 0
    proved: Proved | None = None
    #: From this offset on, messages are known to lie behind what the last master did not write.
    behind_from: int = OFFSET_MAX
    #: From where the parting was searched, and what was found.
    searched_from: int = -1
    parted_at: int | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, slots=True)
class _Write:
    queue: RepairedQueue
    decision: Decision


class RepairPass:
    """One broker, one change of its set's master, and what has become of each queue so far."""

    def __init__(
        self,
        at: AtBroker,
        master_epoch: int | None,
        known: KnownBefore,
        changed_ms: int,
        allowed: Allowed,
        clock: Clock,
    ) -> None:
        self._at, self._master_epoch, self._known, self._changed_ms = at, master_epoch, known, changed_ms
        self._allowed, self._clock = allowed, clock
        self._options = BrokerOptions()
        self._log: BrokerLog | None = None
        #: From where on messages that were read before are not in its log; None: no loss is known.
        self.lost_from: int | None = None
        #: A message of the log that was read last is in its log.
        self.is_known_log = False
        self._before: Before | None = None
        #: Fingerprints that the log of this process has shown.
        self._seen: set[Fingerprint] = set()
        self._members: dict[str, GroupMembers] = {}
        self._looks: dict[tuple[str, int], _QueueLooks] = defaultdict(_QueueLooks)
        self._table = ShownOffsets({}, frozenset())
        self._read_ms = 0
        self._sent = False
        #: What the broker has not answered.
        self._unanswered: dict[QueueKey, _Write] = {}
        #: All queues but those that are right without a look at messages or members.
        self.queues: dict[QueueKey, RepairedQueue] = {}
        #: How many these are.
        self.right = 0
        #: Groups of which more is decided once their members come.
        self.waiting: set[str] = set()
        #: When the first write left, monotonic ms; None: none did.
        self.first_write_ms: int | None = None

    async def prepare(self) -> BrokerLog:
        """Prove the log of the broker; raises NotServing and OtherBroker."""
        self._options = await self._at.options()
        former, self._log = self._log, await self._at.log(self._master_epoch)
        log = self._log
        if former is not None and former.boot_unix_ms != log.boot_unix_ms:
            self._seen.clear()
        newest = self._known.readings[-1]
        before = LogBefore(self._known.fingerprints, newest.second_end, newest.epochs)
        proof = await self._at.prove(before, log.now, self._seen)
        self.lost_from, self.is_known_log = proof.parted_at, bool(proof.same_until)
        if self.lost_from is not None and not self.is_known_log:
            # It may be a log from before the one that was read last, which goes on behind what matches of it.
            older = await self._at.prove(LogBefore(self._known.lost, 0, None), log.now, self._seen)
            proof = proof._replace(parted_at=older.same_until or self.lost_from)
        own = [reading for reading in self._known.readings if reading.run == newest.run]
        marks = [reading.fingerprint for reading in own if reading.fingerprint is not None]
        proof = proof.of_run(marks, own[0].first_end, lasted=self._changed_ms - newest.ended_ms <= LASTED_MS)
        self._before = Before(self._known, proof, self._changed_ms)
        return log

    @property
    def is_prepared(self) -> bool:
        return self._before is not None

    @property
    def before(self) -> Before:
        """What is known from before the change, with its proof."""
        assert self._before is not None, "prepare comes first"
        return self._before

    async def repair(self, groups: Collection[str] | None = None) -> None:
        """Decide and write the offsets of all groups, or of some. Raises as AdminClient.call where nothing is read."""
        await self._read_table()
        # A topic may have been made anew since an earlier look.
        self._looks.clear()
        by_group = self._to_decide(groups)
        self._members = {}
        left = iter(by_group.items())
        while True:
            writes: list[_Write] = []
            await for_all(self._batch(left), partial(self._decide_group, writes))
            if not writes and self._is_over(by_group):
                break
            await self._write_all(writes)
            if self._clock.now_ms() - self._read_ms > TABLE_MS_MAX:
                await self._read_table()
        await self._verify()

    def _batch(self, left: Iterator[tuple[str, list[QueueKey]]]) -> Iterator[tuple[str, list[QueueKey]]]:
        """Yield groups for BATCH_MS."""
        until_ms = self._clock.now_ms() + BATCH_MS
        for group in left:
            yield group
            if self._clock.now_ms() >= until_ms:
                return

    def _is_over(self, by_group: Collection[str]) -> bool:
        return len(self._members) >= len(by_group)

    def _to_decide(self, groups: Collection[str] | None) -> dict[str, list[QueueKey]]:
        """Return the queues for which members or messages are asked, by group; others are right, and counted."""
        before, found = self.before, defaultdict[str, list[QueueKey]](list)
        is_parted = before.proof.parted_at is not None
        for key in before.keys(self._table.offsets):
            if groups is not None and key.group not in groups:
                continue
            shown, newest = self._table.offset(key), before.offset(before.newest, key)
            kind = before.newest.kinds.get(key.group)
            may_pop = self._options.pops_in_kv and self._can_pop and kind is not GroupKind.PULL
            if is_parted or (newest is not None and (shown is None or shown < newest or may_pop)):
                found[key.group].append(key)
                if may_push(before, key, shown):
                    looks = self._looks[key.topic, key.queue_id]
                    looks.highest = max(looks.highest, before.saved(key) or 0)
            elif groups is None:
                self.right += 1
        return found

    @property
    def _can_pop(self) -> bool:
        return self._log is None or self._log.can_pop

    async def _read_table(self) -> None:
        self._read_ms = self._clock.now_ms()
        self._table = await self._at.shown()

    async def _decide_group(self, writes: list[_Write], group: tuple[str, list[QueueKey]]) -> None:
        name, keys = group
        members = await self._at.members(name, can_pop=self._can_pop)
        self._members[name] = members
        self.waiting.discard(name)
        for key in keys:
            if GroupTopic(key.group, key.topic) in self._table.unreadable:
                decision = Decision(Outcome.NOT_PROVED, why="the offsets of the group in this topic are not readable")
                self._take(key, None, decision, writes)
                continue
            shown = self._table.offset(key)
            try:
                decision = await self._decide(key, shown, members)
            except BROKER_FAILURES as error:
                decision = Decision(Outcome.NOT_PROVED, why=str(error), waits=True)
            # Where logs have parted, members that come later may be ahead of what they have committed.
            is_parted = self.before.proof.parted_at is not None
            if decision.waits or (is_parted and members.kind is GroupKind.UNKNOWN):
                self.waiting.add(name)
            self._take(key, shown, decision, writes)

    async def _decide(self, key: QueueKey, shown: int | None, members: GroupMembers) -> Decision:
        before = self.before
        queue = QueueNow(key, shown, members, None, None)
        if may_push(before, key, shown) and members.kind is GroupKind.PULL and not before.pops(key.group):
            queue = queue._replace(proved=await self._prove(key, shown or 0))
        if before.proof.parted_at is not None:
            parted_at = await self._parted_at(key, ahead_of(before, queue), before.proof.parted_at)
            queue = queue._replace(parted_at=parted_at)
        broker = BrokerNow(
            resets_on_server=self._options.resets_on_server,
            pops_in_kv=self._options.pops_in_kv and self._can_pop,
            behind=self._allowed.behind(key, ahead_of(before, queue)),
        )
        return decide(before, queue, broker)

    async def _prove(self, key: QueueKey, shown: int) -> Proved:
        reading, saved = self.before.reading, self.before.saved(key)
        assert reading is not None, "only what may be pushed is proved"
        assert saved is not None, "only what may be pushed is proved"
        looks, same_from = self._looks[key.topic, key.queue_id], self.before.proof.same_from
        place_of = partial(self._at.place, key.topic, key.queue_id)
        # Behind the proved part of the log another message may lie where there was one.
        was_there = max(reading.first_end, min(reading.second_end, self.before.proof.same_until))
        prove = partial(proved_offset, place_of, first_end=reading.first_end, second_end=was_there)
        async with looks.turn:
            if same_from and shown < looks.behind_from:
                if not await begins_behind(place_of, shown, same_from):
                    why = "it would pass over messages from before the last master led, which no epochs prove"
                    return Proved(None, why)
                looks.behind_from = shown
            if looks.proved is None:
                looks.proved = await prove(max(looks.highest, saved))
            if (found := looks.proved.at(saved)) is not None:
                return found
        return await prove(saved)

    async def _parted_at(self, key: QueueKey, ahead: int, parted_at: int) -> int | None:
        """Return the first offset of a queue behind the parting, as far as one went on there; None if it has none."""
        if parted_at == 0:
            return 0
        looks = self._looks[key.topic, key.queue_id]
        async with looks.turn:
            is_known = looks.parted_at is not None and (
                ahead <= looks.parted_at or looks.parted_at < looks.searched_from
            )
            if not is_known:
                looks.searched_from = ahead
                looks.parted_at = await first_behind(partial(self._at.place, key.topic, key.queue_id), ahead, parted_at)
            return looks.parted_at

    def _take(self, key: QueueKey, shown: int | None, decision: Decision, writes: list[_Write]) -> None:
        now = QueueNow(key, shown, self._members[key.group], None, None)
        is_parted = self.before.proof.parted_at is not None
        ahead = ahead_of(self.before, now) if is_parted else self.before.offset(self.before.newest, key)
        outcome = decision.outcome
        is_write = outcome in (Outcome.PUSHED, Outcome.SET_BACK)
        if is_write and not self._allowed.writes(key.group):
            is_write, outcome = False, Outcome.WOULD_CHANGE
        queue = RepairedQueue(key.group, key.topic, key.queue_id, outcome, ahead, shown, decision.offset, decision.why)
        former = self.queues.get(key)
        if former is not None and former.outcome in (Outcome.PUSHED, Outcome.SET_BACK) and outcome is Outcome.RIGHT:
            return
        self.queues[key] = queue
        if is_write:
            # Until it was read back.
            self.queues[key] = replace(queue, outcome=Outcome.FAILED, why="it was not sent in time")
            writes.append(_Write(queue, decision))

    async def _write_all(self, writes: list[_Write]) -> None:
        until_ms = self._read_ms + WRITTEN_WITHIN_MS
        await for_all(writes, partial(self._write, until_ms))

    async def _write(self, until_ms: int, write: _Write) -> None:
        queue, decision = write.queue, write.decision
        assert decision.offset is not None, "a write has an offset"

        def before_send() -> None:
            self._allowed.check()
            if (now_ms := self._clock.now_ms()) > until_ms:
                raise NotSent(self._at.address, "it was decided too long ago")
            if self.first_write_ms is None:
                self.first_write_ms = now_ms
            self._sent = True

        try:
            if not await self._at.commit(queue.key, decision.offset, before_send):
                why = "a reset waits for the group's next pull"
                self.queues[queue.key] = replace(queue, outcome=Outcome.RIGHT, why=why)
                return
            if decision.sends_members:
                await self._at.send_members(queue.key, decision.offset, before_send)
        except NotSent as error:
            # Looked at once more with the groups whose members are awaited.
            self.waiting.add(queue.group)
            self._fail(queue, error.reason)
        except (Refused, ConnectionRefused) as error:
            self._fail(queue, str(error))
        except InvokeError as error:
            self._unanswered[queue.key] = write
            self._fail(queue, str(error))
        else:
            self.queues[queue.key] = queue

    async def _verify(self) -> None:
        """Read back what was written; what was not answered is known only then."""
        if not self._sent:
            return
        self._sent, unanswered, self._unanswered = False, self._unanswered, {}
        try:
            await self._read_table()
        except BROKER_FAILURES as error:
            for queue in list(self.queues.values()):
                if queue.outcome is Outcome.PUSHED:
                    self.queues[queue.key] = replace(queue, outcome=queue.outcome, why=f"not read back: {error}")
            return
        for queue in list(self.queues.values()):
            shown = self._table.offset(queue.key)
            if (write := unanswered.get(queue.key)) is not None:
                # Whether members were sent back does not show.
                is_there = shown == queue.offset and not write.decision.sends_members
                self.queues[queue.key] = (
                    write.queue
                    if is_there
                    else replace(queue, outcome=Outcome.FAILED, why=f"{queue.why}; it shows {shown}")
                )
            elif queue.outcome is Outcome.PUSHED and (shown is None or shown < (queue.offset or 0)):
                self._fail(queue, f"a member has overwritten it: the broker shows {shown}")

    def _fail(self, queue: RepairedQueue, why: str) -> None:
        self.queues[queue.key] = replace(queue, outcome=Outcome.FAILED, why=why)
