"""What differs between two readings of a master's offsets. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.masters import MasterRun, SetName


class OffsetMove(NamedTuple):
    """The offset of one queue before and after; None where there is none, which is not 0."""

    queue_id: int
    before: int | None
    after: int | None


class EntryMoves(NamedTuple):
    """What moved of a group in a topic."""

    key: EntryKey
    moves: Sequence[OffsetMove]
    #: The key as the broker has written it, with its escapes.
    raw_key: bytes


class RefusedOffsets(NamedTuple):
    """Offsets of a broker that cannot be used: they stay as they were before."""

    #: As the broker has written it, cut where it is long.
    key: str
    reason: str


@dataclass(slots=True, kw_only=True)
class MovedEntries:
    """What moved, by the kind of move; an entry with moves of several kinds is in several lists."""

    advanced: list[EntryMoves] = field(default_factory=list)
    #: Where there was nothing before.
    new: list[EntryMoves] = field(default_factory=list)
    #: Within one run, a group that goes back; between two, what the guard is for.
    decreased: list[EntryMoves] = field(default_factory=list)
    #: Where there is nothing any more.
    vanished: list[EntryMoves] = field(default_factory=list)
    #: What is not readable, once when it becomes so.
    refused: list[RefusedOffsets] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be stored or shown."""
        return not (self.advanced or self.new or self.decreased or self.vanished or self.refused)


class ReadState(NamedTuple):
    """In which run offsets were read, and when."""

    run: MasterRun
    #: When they were requested, and when they had come, Unix ms of this process.
    requested_unix_ms: int
    answered_unix_ms: int
    #: Where the broker's log ended, requested after them; None if it does not say. They are of messages before it.
    log_max_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorChanges:
    """What a reading has changed in the mirror of a broker set."""

    set_name: SetName
    #: None for the first reading.
    former: ReadState | None
    now: ReadState
    moved: MovedEntries

    @property
    def is_same_run(self) -> bool:
        """Whether both readings are of the same run of the same master."""
        return self.former is not None and self.former.run == self.now.run

    @property
    def is_same_memory(self) -> bool:
        """Whether an offset that went back was set back by somebody: both readings are of the same memory."""
        return self.former is not None and self.now.run.has_memory_of(self.former.run)
