"""Offsets that jumped: back, or forward to where nothing can have been read. Pure.

Within one life of a master's process an offset goes back only if somebody commits a smaller one or deletes it. Between
two, it goes back as the memory behind it is older. Forward jumps are known only where no consumer is that fast
(READ_PER_S_MAX): how far queues go is not read.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from history.offset_families import OFFSET_JUMP
from history.rows import BrokerRef, Record
from offsets.readings.reading import Reading
from offsets.readings.table import Change, decoded_key, decoded_value
from offsets.values import is_writable
from serving.logging.events import Level
from serving.shapes.offsets import Jump, JumpCause, QueueJump
from serving.telemetry.events import Count, Counter, Event

#: Jumps that are remembered, each of one group in one topic: some 300 bytes.
JUMPS_MAX: Final = 10_000
#: Queues that one of them names.
QUEUES_MAX: Final = 64
#: A group that moves further than this in a second, in one queue, has not read what it passed.
READ_PER_S_MAX: Final = 20_000


#: Fields of a jump that are columns of its row under the same name.
_COLUMNS: Final = ("group", "topic", "removed", "messages_again", "messages_skipped", "master_epoch", "interval_ms")
#: Nobody wanted these.
UNWANTED: Final = frozenset({JumpCause.FAILOVER, JumpCause.RESTART, JumpCause.LOST})


JUMPED: Final = Counter(
    "offset_jumps",
    "Offsets at brokers that jumped, by cause.",
    ("cause",),
    known=tuple((cause.value,) for cause in JumpCause),
)
AGAIN: Final = Counter(
    "jump_messages_again",
    "Messages that groups read again after jumps, at most, by cause; without those of removed offsets.",
    ("cause",),
    known=JUMPED.known,
)
SKIPPED: Final = Counter(
    "jump_messages_skipped", "Messages that jumps have passed unread, by cause.", ("cause",), known=JUMPED.known
)


class _Jumped(Event, frozen=True, kw_only=True):
    """A line about all jumps of one cause in one reading."""

    level: ClassVar[Level | None] = None
    keys = ("broker", "cause", "groups", "queues", "messages_again", "messages_skipped", "group", "topic")
    jumps: Sequence[Jump]

    def line(self) -> dict[str, object]:
        jumps = self.jumps
        most = max(jumps, key=lambda jump: jump.messages_again + jump.messages_skipped)
        return {
            "broker": most.broker_name,
            "cause": most.cause.value,
            "groups": len({jump.group for jump in jumps}),
            "queues": sum(jump.queue_count for jump in jumps),
            "messages_again": sum(jump.messages_again for jump in jumps),
            "messages_skipped": sum(jump.messages_skipped for jump in jumps),
            "group": most.group,
            "topic": most.topic,
        }

    def counted(self) -> Iterator[Count]:
        for jump in self.jumps:
            labels = (jump.cause.value,)
            yield Count(JUMPED, labels, jump.queue_count)
            yield Count(AGAIN, labels, jump.messages_again)
            yield Count(SKIPPED, labels, jump.messages_skipped)

    def rows(self) -> Iterator[Record]:
        for jump in self.jumps:
            columns = {name: getattr(jump, name) for name in _COLUMNS}
            columns |= {"cause": jump.cause.value, "queues": jump.queue_count, "former_addr": jump.former_master}
            broker = BrokerRef(jump.cluster or None, jump.broker_name, broker_addr=jump.master)
            yield Record(OFFSET_JUMP, "jumped", broker, columns)


class OffsetsMovedBack(_Jumped, frozen=True, kw_only=True):
    """Offsets of a set jumped when its master changed or restarted (`failover`, `restart`, `lost`).

    `group` reads the most messages again.
    """

    level = Level.WARNING
    advice = "`rmq offsets status` says what a repair would change; `lost`: messages are lost as well."


class OffsetsWereSet(_Jumped, frozen=True, kw_only=True):
    """Offsets were set back, set far forward or deleted while their master ran, by a user or tool (`reset`, `deleted`).

    `group` has the most messages in between.
    """

    level = Level.INFO
    advice = (
        "None if it was intended; otherwise `rmq offsets jumps` names the groups, and `rmq offsets restore` undoes it."
    )


def jumps_between(before: Reading, after: Reading, changes: Mapping[bytes, Change]) -> list[Jump]:
    """Return what jumped from one reading to the next, of what has changed; broadcasting and light queues are left out.

    Offsets that moved as groups read are no jumps; nor is a first offset.
    """
    cause = _cause_between(before, after)
    interval_ms = max(0, after.ended_unix_ms - before.ended_unix_ms)
    passed_max = READ_PER_S_MAX * max(interval_ms, 1000) // 1000
    found = []
    for key, change in changes.items():
        if change.before is None or not is_writable(decoded_key(key)):
            continue
        now = decoded_value(change.after)
        queues = [
            QueueJump(queue_id, former, now.get(queue_id))
            for queue_id, former in decoded_value(change.before).items()
            if not former <= now.get(queue_id, -1) <= former + passed_max
        ]
        if queues:
            is_deleted = all(queue.after is None for queue in queues)
            why = cause or (JumpCause.DELETED if is_deleted else JumpCause.RESET)
            found.append(_jump(key, why, queues, before, after, interval_ms))
    return found


def told(jumps: Sequence[Jump]) -> Iterator[Event]:
    """Yield what is told about the jumps of one reading: an event for each cause."""
    for cause in JumpCause:
        if mine := [jump for jump in jumps if jump.cause is cause]:
            yield OffsetsMovedBack(jumps=mine) if cause in UNWANTED else OffsetsWereSet(jumps=mine)


def _cause_between(before: Reading, after: Reading) -> JumpCause | None:
    """Return what happened to the master between two readings; None if its process went on."""
    is_same_process = before.master == after.master and before.boot_unix_ms == after.boot_unix_ms
    if is_same_process:
        return None
    if after.first_end < before.second_end:
        return JumpCause.LOST
    is_same_master = (before.master, before.master_epoch) == (after.master, after.master_epoch)
    return JumpCause.RESTART if is_same_master else JumpCause.FAILOVER


def _jump(
    key: bytes, cause: JumpCause, queues: list[QueueJump], before: Reading, after: Reading, interval_ms: int
) -> Jump:
    group, topic = decoded_key(key)
    moves = [queue.after - queue.before for queue in queues if queue.after is not None]
    return Jump(
        unix_ms=after.ended_unix_ms,
        cluster=after.set_name.cluster,
        broker_name=after.set_name.broker_name,
        group=group,
        topic=topic,
        cause=cause,
        queue_count=len(queues),
        queues=tuple(queues[:QUEUES_MAX]),
        messages_again=-sum(move for move in moves if move < 0),
        messages_skipped=sum(move for move in moves if move > 0),
        removed=len(queues) - len(moves),
        master=after.master,
        former_master=before.master,
        master_epoch=after.master_epoch,
        interval_ms=interval_ms,
    )
