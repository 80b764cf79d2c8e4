"""What a repair found and did, as it is kept and shown: its queues, and what it was decided by. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from offsets.readings.reading import KnownBefore, Reading, ReplicaReading
from offsets.values import GroupTopic, QueueKey, QueueOffsets, SetName
from serving.shapes.offsets import Outcome

#: Runs that are kept.
RUNS_MAX: Final = 100
#: Queues that a run lists; those that are right already are only counted.
QUEUES_MAX: Final = 100_000


class RepairedQueue(msgspec.Struct, frozen=True, array_like=True):
    """What became of the offset of a group in a queue."""

    group: str
    topic: str
    queue_id: int
    outcome: Outcome
    #: Up to where the group went on before the change, as far as it is known; None: not at all.
    before: int | None
    #: What the new master showed; None: no offset.
    shown: int | None
    #: What was, or is to be, written; None for nothing.
    offset: int | None = None
    why: str = ""

    @property
    def key(self) -> QueueKey:
        return QueueKey(self.group, self.topic, self.queue_id)

    @property
    def messages_again(self) -> int:
        """Messages that are read again unless it is pushed, or once it is set back: those that were read since."""
        if self.offset is None:
            return 0
        shown = self.shown or 0
        return max(self.offset - shown, shown - max(self.before or 0, self.offset), 0)

    @property
    def messages_skipped(self) -> int:
        """Messages that may be skipped unless the group is set back, as others lie where it had read."""
        return 0 if self.offset is None else max((self.before or 0) - self.offset, 0)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One repair of the offsets of a set after a change of its master."""

    number: int
    cluster: str
    broker_name: str
    #: Of the new master.
    address: str
    master_epoch: int | None
    #: What has happened to the master.
    cause: str
    began_unix_ms: int
    took_ms: int
    #: From the beginning to the first write; None: nothing was written.
    first_write_ms: int | None
    #: When the reading ended whose offsets were compared, Unix ms.
    read_unix_ms: int
    #: Where the logs have parted; None: no loss is known.
    parted_at: int | None
    #: Queues with each outcome, those too that are right already.
    counts: dict[str, int]
    #: All others.
    queues: tuple[RepairedQueue, ...]
    #: Why nothing, or not all, was decided; blank: all was.
    problem: str = ""
    #: It would write what is `would change`: nobody has let it.
    applied_unix_ms: int | None = None
    applied_by: str = ""

    @property
    def set_name(self) -> SetName:
        return SetName(self.cluster, self.broker_name)

    @property
    def messages_again(self) -> int:
        """Messages of queues that would change: see there."""
        return sum(queue.messages_again for queue in self.queues if queue.outcome is Outcome.WOULD_CHANGE)

    @property
    def messages_skipped(self) -> int:
        """Messages of queues that would change: see there."""
        return sum(queue.messages_skipped for queue in self.queues if queue.outcome is Outcome.WOULD_CHANGE)

    def count(self, *outcomes: Outcome) -> int:
        return sum(self.counts.get(outcome.value, 0) for outcome in outcomes)


class KeptRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with what it was decided by, so that it can be decided again."""

    run: Run
    #: Of the groups that the run lists; its monotonic times, as the next one, are of the process that wrote it.
    known: KnownBefore
    changed_ms: int


def known_of(known: KnownBefore, names: Iterable[GroupTopic]) -> KnownBefore:
    """Return what is known of some groups in topics."""
    names = list(names)
    groups = {name.group for name in names}
    return replace(
        known,
        readings=tuple(
            replace(
                reading,
                offsets=_offsets(reading, names),
                kinds={group: reading.kinds[group] for group in groups if group in reading.kinds},
            )
            for reading in known.readings
        ),
        replica_readings=tuple(replace(copy, offsets=_offsets(copy, names)) for copy in known.replica_readings),
    )


def counts_of(queues: Sequence[RepairedQueue], right: int) -> dict[str, int]:
    """Return how many queues have each outcome, with those that were right without a look."""
    counts = Counter(queue.outcome.value for queue in queues)
    counts[Outcome.RIGHT.value] += right
    return {outcome.value: counts[outcome.value] for outcome in Outcome if counts[outcome.value]}


def _offsets(reading: Reading | ReplicaReading, names: Iterable[GroupTopic]) -> dict[GroupTopic, QueueOffsets]:
    return {name: found for name in names if (found := reading.offsets.get(name)) is not None}
