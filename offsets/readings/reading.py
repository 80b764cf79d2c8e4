"""What one reading of a broker is. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from offsets.proof import Fingerprint
from offsets.values import GroupKind, GroupTopic, QueueKey, QueueOffsets, SetName
from remoting.admin.log_epochs import LogEpoch


class MasterRun(NamedTuple):
    """One life of a process as master of a set, in one epoch: what it keeps in memory lasts so long."""

    #: `host:port`.
    address: str
    #: None where no controller elects.
    master_epoch: int | None
    #: When the process began, Unix ms by its own clock; None if it does not tell.
    boot_unix_ms: int | None


class Parting(NamedTuple):
    """Where the log of a new master has parted from the logs of all runs before: messages of theirs behind it are lost.

    They may come back, with a disk or another replica: so what was read of them is kept, and no repair goes by it.
    """

    #: When it was found.
    unix_ms: int
    place: int
    #: Of the new master; it may be known without its start.
    run: MasterRun

    def has_lost(self, run: MasterRun, unix_ms: int) -> bool:
        """Return whether what was read of a run at a moment, behind the place, is lost."""
        is_own = run[:2] == self.run[:2] and self.run.boot_unix_ms in (None, run.boot_unix_ms)
        return unix_ms <= self.unix_ms and not is_own


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingHead:
    """A reading of the master of a set but for its offsets: the end of its log was read before and after them."""

    #: `host:port`.
    master: str
    #: None where no controller elects.
    master_epoch: int | None
    #: When the process of the master began, Unix ms by its own clock.
    boot_unix_ms: int | None
    #: Before the first request was sent, and after the last answer came: monotonic ms, and Unix ms of this machine.
    began_ms: int
    ended_ms: int
    ended_unix_ms: int
    #: Where the log ended before and after the offsets were read.
    first_end: int
    second_end: int
    #: Where each master epoch begins in the log; None where no controller elects.
    epochs: tuple[LogEpoch, ...] | None
    #: Messages below `second_end` that were not known before, by place.
    fingerprints: tuple[Fingerprint, ...] = ()
    #: Of groups whose members were asked, as far as it is known by now; others are UNKNOWN. In files with full tables.
    kinds: Mapping[str, GroupKind] = field(default_factory=dict)
    #: In files, the last partings of the set.
    partings: tuple[Parting, ...] = ()

    @property
    def run(self) -> MasterRun:
        """Who was read."""
        return MasterRun(self.master, self.master_epoch, self.boot_unix_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(ReadingHead):
    """The offsets of all groups at the master of a set."""

    set_name: SetName
    offsets: Mapping[GroupTopic, QueueOffsets]

    @property
    def fingerprint(self) -> Fingerprint | None:
        """The newest message that is known to lie below `second_end`; None if none was found since the last reading."""
        return self.fingerprints[-1] if self.fingerprints else None

    def offset(self, key: QueueKey) -> int | None:
        return self.offsets.get(GroupTopic(key.group, key.topic), {}).get(key.queue_id)


def reading_of(
    head: ReadingHead, set_name: SetName, offsets: Mapping[GroupTopic, QueueOffsets], **changed: object
) -> Reading:
    """Return a reading of a head, some fields of which are others."""
    values = {one.name: getattr(head, one.name) for one in fields(ReadingHead)} | changed
    return Reading(set_name=set_name, offsets=offsets, **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReading:
    """The offsets of all groups that a slave showed, requested after a reading of its master had ended."""

    #: `host:port` of the slave.
    address: str
    began_ms: int
    ended_ms: int
    offsets: Mapping[GroupTopic, QueueOffsets]

    def offset(self, key: QueueKey) -> int | None:
        return self.offsets.get(GroupTopic(key.group, key.topic), {}).get(key.queue_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBefore:
    """What is known of a set from before its master changed: everything that a repair decides by."""

    #: Of the last minute before the change, the newest last; at least the newest one of all, however old it is.
    readings: tuple[Reading, ...]
    #: Readings of the broker that is master now, while it was a slave, the newest last.
    replica_readings: tuple[ReplicaReading, ...]
    #: All that are kept of the log, by place.
    fingerprints: tuple[Fingerprint, ...]
    #: Of logs that parted from it, by place: a replica may still have one of them.
    lost: tuple[Fingerprint, ...] = ()
