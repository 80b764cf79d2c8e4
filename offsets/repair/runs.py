"""What a repair found and did, as it is kept and shown: its queues, and what it was decided by. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from offsets.proof import Fingerprint
from offsets.readings.reading import KnownBefore, Reading, ReplicaReading
from offsets.repair.rules import Outcome
from offsets.values import GroupKind, GroupTopic, QueueKey, SetName
from remoting.admin.log_epochs import LogEpoch

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
        """Whose it is."""
        return QueueKey(self.group, self.topic, self.queue_id)

    @property
    def messages_again(self) -> int:
        """Messages that are read again unless it is pushed, or were spared; at least."""
        return 0 if self.offset is None else max(self.offset - (self.shown or 0), 0)

    @property
    def messages_skipped(self) -> int:
        """Messages that may be skipped unless the group is set back, as others lie where it had read."""
        ahead = max(self.before or 0, self.shown or 0)
        return 0 if self.offset is None else max(ahead - self.offset, 0)


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
        """The set."""
        return SetName(self.cluster, self.broker_name)

    def count(self, *outcomes: Outcome) -> int:
        """Return how many queues have one of these outcomes."""
        return sum(self.counts.get(outcome.value, 0) for outcome in outcomes)


class KeptRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with what it was decided by, so that it can be decided again."""

    run: Run
    before: "KeptBefore"


class KeptReading(msgspec.Struct, frozen=True, array_like=True):
    """A reading, or with blank bounds that of a replica, of some groups."""

    address: str
    master_epoch: int | None
    boot_unix_ms: int | None
    began_ms: int
    ended_ms: int
    ended_unix_ms: int
    log_begin: int
    first_end: int
    second_end: int
    epochs: tuple[tuple[int, int], ...] | None
    offsets: tuple[tuple[str, str, dict[int, int]], ...]
    kinds: dict[str, GroupKind]


class KeptBefore(msgspec.Struct, frozen=True, kw_only=True):
    """What was known before the change, of some groups; monotonic times are of the process that wrote it."""

    changed_ms: int
    readings: tuple[KeptReading, ...] = ()
    replica_readings: tuple[KeptReading, ...] = ()
    fingerprints: tuple[Fingerprint, ...] = ()

    def known(self, set_name: SetName) -> KnownBefore:
        """Return it as the rules take it."""
        return KnownBefore(
            readings=tuple(_reading(kept, set_name) for kept in self.readings),
            replica_readings=tuple(
                ReplicaReading(
                    address=kept.address, began_ms=kept.began_ms, ended_ms=kept.ended_ms, offsets=_offsets(kept)
                )
                for kept in self.replica_readings
            ),
            fingerprints=self.fingerprints,
        )


def kept_before(known: KnownBefore, changed_ms: int, names: Iterable[GroupTopic]) -> KeptBefore:
    """Return what decides about some groups, as it is kept."""
    names = list(names)
    return KeptBefore(
        changed_ms=changed_ms,
        readings=tuple(
            KeptReading(
                reading.master,
                reading.master_epoch,
                reading.boot_unix_ms,
                reading.began_ms,
                reading.ended_ms,
                reading.ended_unix_ms,
                reading.log_begin,
                reading.first_end,
                reading.second_end,
                None
                if reading.epochs is None
                else tuple((epoch.epoch, epoch.start_offset) for epoch in reading.epochs),
                tuple(_of(names, reading)),
                {name.group: reading.kinds[name.group] for name in names if name.group in reading.kinds},
            )
            for reading in known.readings
        ),
        replica_readings=tuple(
            KeptReading(
                copy.address, None, None, copy.began_ms, copy.ended_ms, 0, 0, 0, 0, None, tuple(_of(names, copy)), {}
            )
            for copy in known.replica_readings
        ),
        fingerprints=tuple(known.fingerprints),
    )


def counts_of(queues: Sequence[RepairedQueue], right: int) -> dict[str, int]:
    """Return how many queues have each outcome, with those that were right without a look."""
    counts = Counter(queue.outcome.value for queue in queues)
    counts[Outcome.RIGHT.value] += right
    return {outcome.value: counts[outcome.value] for outcome in Outcome if counts[outcome.value]}


def _of(names: Sequence[GroupTopic], reading: Reading | ReplicaReading) -> Iterator[tuple[str, str, dict[int, int]]]:
    for name in names:
        if (offsets := reading.offsets.get(name)) is not None:
            yield name.group, name.topic, dict(offsets)


def _offsets(kept: KeptReading) -> dict[GroupTopic, dict[int, int]]:
    return {GroupTopic(group, topic): offsets for group, topic, offsets in kept.offsets}


def _reading(kept: KeptReading, set_name: SetName) -> Reading:
    epochs = kept.epochs
    return Reading(
        set_name=set_name,
        master=kept.address,
        master_epoch=kept.master_epoch,
        boot_unix_ms=kept.boot_unix_ms,
        began_ms=kept.began_ms,
        ended_ms=kept.ended_ms,
        ended_unix_ms=kept.ended_unix_ms,
        log_begin=kept.log_begin,
        first_end=kept.first_end,
        second_end=kept.second_end,
        epochs=None if epochs is None else tuple(LogEpoch(epoch=epoch, start_offset=start) for epoch, start in epochs),
        fingerprint=None,
        offsets=_offsets(kept),
        kinds=kept.kinds,
    )
