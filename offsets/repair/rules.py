"""What is done with each offset after the master of a set has changed. Pure.

**No write raises a group above what it had committed at its master and its members have read.** An offset is raised
only if all of this holds; what would need a second proof is reported:

- A reading of the last minute before the change, and of the last master that was read, is proved: the log of the new
  master is the same up to the first end of that reading (`offsets.proof`). The offset of the newest such reading
  counts, or less where a later reading shows less: a rewind or a reset that a reading shows. Where a later reading
  shows none, the offset was deleted.
- The new master still shows what it showed when it was read as a replica after that reading, and nothing but copies
  had changed that before: it has only not copied since. Whatever else changed it is newer.
- The group pulls: all its members say so now. Below the offset of a group that pops lie messages that nobody has
  acknowledged. Where a member holds the queue, the offset is raised no further than that member is.
- Without epochs, all messages that it would pass over lie behind a message that this last master wrote: a replica that
  had led before may have kept a tail of its own below.
- The message before the offset lies below the first end of that reading (`proof.proved_offset`), so it is no
  message of a topic that was made anew since.

Where the logs have parted, groups are sent to the first message behind that place. That is mostly lower than what is
shown, and then needs no proof. Where it is higher, the offset is raised no further than above.

Source: docs/protocol/offsets.md 8.2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from offsets.proof import LogProof, Proved
from offsets.readings.reading import KnownBefore, Reading, ReplicaReading
from offsets.values import GroupKind, GroupMembers, GroupTopic, QueueKey, is_pop_retry, is_writable
from remoting.protocol.group_kinds import is_of_brokers
from serving.shapes.offsets import Outcome

#: A reading that ended longer before the change proves nothing: a reset since is not known.
READ_WITHIN_MS: Final = 60_000
#: A master whose machine loses power, and with it the end of its log, does not serve again within this time.
LASTED_MS: Final = 20_000
#: Where logs have parted, groups are sent back by themselves so long after the change.
SENT_BACK_WITHIN_MS: Final = 60_000


class Decision(NamedTuple):
    outcome: Outcome
    #: What is to be written; None for nothing.
    offset: int | None = None
    #: Members that are online are sent there (222).
    sends_members: bool = False
    why: str = ""
    #: It can still be decided once members are connected.
    waits: bool = False


class QueueNow(NamedTuple):
    """What decides about the offset of a group in a queue."""

    key: QueueKey
    #: None: the new master has no offset.
    shown: int | None
    group: GroupMembers
    #: Where the lost messages began in the queue; None: the logs have not parted.
    parted_at: int | None
    #: None: not needed, or not looked at.
    proved: Proved | None


@dataclass(frozen=True, slots=True)
class BrokerNow:
    """What a repair may do at the new master."""

    #: It sends members to an offset by itself (222).
    resets_on_server: bool
    #: What groups popped is in a store of its own, which no replica copies.
    pops_in_kv: bool
    #: What becomes of a group that went on behind the parting: SET_BACK if the change was noticed as it happened, less
    #: than SENT_BACK_WITHIN_MS ago, or an operator wants it; NOT_PROVED if it has read more since an operator looked.
    behind: Outcome


@dataclass(slots=True)
class Before:
    """What is known from before the change, with its proof."""

    known: KnownBefore
    proof: LogProof
    #: When the change was noticed, monotonic ms.
    changed_ms: int
    #: Whose offsets may be pushed; None: no reading is recent and proved.
    reading: Reading | None = field(init=False)
    _later: Sequence[Reading] = field(init=False)
    _copies: Sequence[ReplicaReading] = field(init=False)
    _popping: frozenset[str] = field(init=False)
    #: Offsets that were looked up: those of a reading are decoded at each look.
    _decoded: dict[tuple[int, GroupTopic], Mapping[int, int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        recent = [
            reading
            for reading in self.known.readings
            if reading.run == self.newest.run
            and 0 <= self.changed_ms - reading.ended_ms <= READ_WITHIN_MS
            and self.proof.proves(reading.first_end)
        ]
        self.reading = reading = recent[-1] if recent else None
        self._later = () if reading is None else [r for r in self.known.readings if r.began_ms >= reading.ended_ms]
        self._copies = [] if reading is None else sorted(self.known.replica_readings, key=lambda copy: copy.began_ms)
        self._popping = frozenset(
            name.group for reading in self.known.readings for name in reading.offsets if is_pop_retry(name)
        )

    @property
    def newest(self) -> Reading:
        return self.known.readings[-1]

    def offset(self, reading: Reading | ReplicaReading, key: QueueKey) -> int | None:
        name = GroupTopic(key.group, key.topic)
        found = self._decoded.get((id(reading), name))
        if found is None:
            found = self._decoded[id(reading), name] = reading.offsets.get(name, {})
        return found.get(key.queue_id)

    def why_nothing(self) -> str:
        """Return why nothing may be pushed."""
        return self.proof.problem or "no reading of the minute before the change is proved to be of this log"

    def keys(self, shown: Mapping[GroupTopic, Mapping[int, int]]) -> Iterator[QueueKey]:
        """Yield each queue of each group that a decision is needed for."""
        readings = (self.newest,) if self.reading is None else (self.newest, self.reading)
        names = dict.fromkeys(name for reading in readings for name in reading.offsets)
        if self.proof.parted_at is not None:
            names.update(dict.fromkeys(shown))
        for name in names:
            if not is_writable(name) or is_of_brokers(name.group):
                continue
            queues = set(shown.get(name, ()) if self.proof.parted_at is not None else ())
            for reading in readings:
                queues.update(reading.offsets.get(name, ()))
            for queue_id in sorted(queues):
                yield QueueKey(name.group, name.topic, queue_id)

    def pops(self, group: str) -> bool:
        """Return whether a reading shows that a group pops."""
        return group in self._popping or any(r.kinds.get(group) is GroupKind.POP for r in self.known.readings)

    def saved(self, key: QueueKey) -> int | None:
        """Return the greatest offset that may be pushed, if its message proves it; None for none."""
        if self.reading is None:
            return None
        saved = self.offset(self.reading, key)
        for reading in self._later:
            later = self.offset(reading, key)
            if saved is None or later is None:
                return None
            saved = min(saved, later)
        return saved

    def was_copied(self) -> bool:
        """Return whether this broker was read as a replica after the reading whose offsets count."""
        return self.reading is not None and any(copy.began_ms >= self.reading.ended_ms for copy in self._copies)

    def is_old_copy(self, key: QueueKey, shown: int | None) -> bool:
        """Return whether the new master shows what it had as a replica, and nothing but its copies had changed that.

        A copy that was made between two looks at the replica has at least what the master had at the reading before
        the first of them. Less was committed to the replica itself, or was copied after somebody had set it back.
        """
        reading = self.reading
        assert reading is not None, "asked only of what may be pushed"
        if shown is not None and not any(copy.ended_ms <= reading.began_ms for copy in self._copies):
            return False
        former: ReplicaReading | None = None
        has_later = False
        for copy in self._copies:
            value = self.offset(copy, key)
            if former is not None and value != self.offset(former, key):
                floor = self._read_before(former, key)
                if value is None or floor is None or value < floor:
                    return False
            former = copy
            if copy.began_ms >= reading.ended_ms:
                has_later = True
                if value != shown:
                    return False
        return has_later

    def _read_before(self, copy: ReplicaReading, key: QueueKey) -> int | None:
        """Return what the master had before a look at its replica; None if nothing is known."""
        earlier = [reading for reading in self.known.readings if reading.ended_ms <= copy.began_ms]
        return self.offset(earlier[-1], key) if earlier else None


def may_push(before: Before, key: QueueKey, shown: int | None) -> bool:
    """Return whether messages have to be looked at before it is known whether an offset is pushed."""
    saved = before.saved(key)
    return saved is not None and (shown is None or shown < saved) and before.is_old_copy(key, shown)


def ahead_of(before: Before, queue: QueueNow) -> int:
    """Return up to where a group went on in a queue: where its members are now, or what it has committed anywhere."""
    held = queue.group.positions.get((queue.key.topic, queue.key.queue_id))
    # What a member holds is what it commits next, whatever was committed before: nobody has to be sent to less.
    return max(before.offset(before.newest, queue.key) or 0, queue.shown or 0) if held is None else held


def decide(before: Before, queue: QueueNow, broker: BrokerNow) -> Decision:
    """Return what is done with the offset of a group in a queue."""
    if queue.parted_at is not None and ahead_of(before, queue) > queue.parted_at:
        return _behind_parting(before, queue, queue.parted_at, broker)
    return _same_log(before, queue, broker)


def _same_log(before: Before, queue: QueueNow, broker: BrokerNow) -> Decision:
    """Decide where a group has not gone beyond what is left of the log."""
    key, shown, group = queue.key, queue.shown, queue.group
    newest = before.offset(before.newest, key)
    is_pull = group.kind is GroupKind.PULL or before.newest.kinds.get(key.group) is GroupKind.PULL
    pops = before.pops(key.group) or not is_pull
    if newest is None or (shown is not None and shown >= newest):
        if pops and broker.pops_in_kv and newest is not None and group.kind is not GroupKind.BROADCAST:
            why = "it pops, or may pop, and what it has not acknowledged is at the former master (KV service)"
            return Decision(Outcome.NOT_PROVED, why=why)
        return Decision(Outcome.RIGHT)
    if queue.proved is not None and newest <= queue.proved.min_offset:
        return Decision(Outcome.RIGHT, why="the messages before it have expired")
    if group.kind is GroupKind.BROADCAST:
        return Decision(Outcome.RIGHT, why="it broadcasts: members keep their offsets")
    return _not_raised(before, queue) or _raised(before, queue)


def _not_raised(before: Before, queue: QueueNow) -> Decision | None:
    """Return why an older offset than what was read stays, whatever its group says; None if it may be raised."""
    key, shown = queue.key, queue.shown
    if before.reading is None:
        return Decision(Outcome.NOT_PROVED, why=before.why_nothing())
    saved = before.saved(key)
    if saved is None or (shown is not None and shown >= saved):
        return Decision(Outcome.RIGHT, why="no proved reading has more")
    if not before.was_copied():
        return Decision(Outcome.NOT_PROVED, why="this broker was not read as a replica after the last proved reading")
    if not before.is_old_copy(key, shown):
        return Decision(Outcome.RIGHT, why="the offset changed here after the last reading, so it stays")
    return None


def _raised(before: Before, queue: QueueNow) -> Decision:
    """Decide for an offset that this broker has only not copied since it was read."""
    key, group, saved = queue.key, queue.group, before.saved(queue.key)
    if before.pops(key.group) or group.kind is GroupKind.POP:
        return Decision(Outcome.NOT_PROVED, why="it pops: messages below its offset may not be acknowledged")
    if group.kind is GroupKind.UNKNOWN:
        return Decision(Outcome.NOT_PROVED, why="no member is online, or one does not show that it pulls", waits=True)
    if queue.proved is None or queue.proved.until is None or saved is None:
        why = "the message before it was not looked at" if queue.proved is None else queue.proved.why
        return Decision(Outcome.NOT_PROVED, why=why)
    offset = _held_at_most(queue, min(queue.proved.until, saved))
    if queue.shown is not None and offset <= queue.shown:
        return Decision(Outcome.RIGHT, why="already at the highest proved offset")
    return Decision(Outcome.PUSHED, offset=offset)


def _held_at_most(queue: QueueNow, offset: int) -> int:
    """Return an offset, or where the member is that holds the queue: nobody shows better what was read."""
    return min(offset, queue.group.positions.get((queue.key.topic, queue.key.queue_id), offset))


def _behind_parting(before: Before, queue: QueueNow, parted_at: int, broker: BrokerNow) -> Decision:
    """Decide where a group went on behind the place where the logs have parted."""
    key, shown, group = queue.key, queue.shown, queue.group
    if group.kind is GroupKind.BROADCAST:
        return Decision(Outcome.RIGHT, why="it broadcasts: members keep their offsets")
    if before.pops(key.group) or group.kind is GroupKind.POP:
        return Decision(Outcome.NOT_PROVED, why="it pops, and went on behind where the logs have parted")
    if group.kind is GroupKind.UNKNOWN and group.is_online:
        return Decision(Outcome.NOT_PROVED, why="a member does not show that it pulls", waits=True)
    offset = _kept(before, queue, parted_at)
    if offset is None:
        why = "it has no offset here and none is proved: it would begin where its policy says"
        return Decision(Outcome.NOT_PROVED, why=why, waits=group.kind is GroupKind.UNKNOWN)
    if not group.is_online and offset == shown:
        return Decision(Outcome.RIGHT, waits=True)
    if group.is_online and not broker.resets_on_server:
        why = "members are online, and this broker cannot send them back: restart them, then repair again"
        return Decision(Outcome.NOT_PROVED, offset=None, why=why)
    why = "it has gone on since, and would read that again (allowBack)" if broker.behind is Outcome.NOT_PROVED else ""
    return Decision(broker.behind, offset=offset, sends_members=group.is_online, why=why)


def _kept(before: Before, queue: QueueNow, parted_at: int) -> int | None:
    """Return where a group goes on that went beyond the parting; None: nothing is known.

    Never beyond what the former master had: a member may be at less than an older copy shows, and be sent forward.
    """
    if parted_at == 0:
        return 0
    newest, saved = before.offset(before.newest, queue.key), before.saved(queue.key)
    known = [] if queue.shown is None else [queue.shown]
    proved = None if queue.proved is None or queue.group.kind is not GroupKind.PULL else queue.proved.until
    if proved is not None and saved is not None and before.is_old_copy(queue.key, queue.shown):
        known.append(_held_at_most(queue, min(proved, saved)))
    return None if newest is None or not known else min(parted_at, newest, max(known))
