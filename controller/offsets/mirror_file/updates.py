"""What is written into the file of the mirror, and what comes out of it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from controller.offsets.mirror.changes import MirrorChanges
from controller.offsets.mirror.kept_rewinds import RewindChanges, Rewinds
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import Regression
from controller.offsets.mirror.saved_offsets import SavedOffsets
from controller.offsets.mirror_file.clock_leaps import ClockLeaps


@dataclass(frozen=True, slots=True, kw_only=True)
class SetUpdate:
    """What is new of one broker set."""

    #: The newest reading, with all that `changes` have.
    saved: SavedOffsets
    #: Since the last update, in their order; None: what they are is found by comparison with the file.
    changes: Sequence[MirrorChanges] | None = ()
    #: Last readings of former runs that are not settled; None if they are the same as at the last update.
    former_runs: Sequence[SavedOffsets] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorUpdate:
    """What is new since the last update; stored in one transaction."""

    sets: dict[SetName, SetUpdate] = field(default_factory=dict)
    regressions: Sequence[Regression] = ()
    rewinds: Mapping[SetName, RewindChanges] = field(default_factory=dict)
    #: Since when nobody shows a set, Unix ms; None for one that is shown again.
    absent_since_ms: dict[SetName, int | None] = field(default_factory=dict)
    #: Sets of which everything is removed.
    dropped: Sequence[SetName] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return not (self.sets or self.regressions or self.rewinds or self.absent_since_ms or self.dropped)


class LoadedSet(NamedTuple):
    """A broker set as it is in the file."""

    set_name: SetName
    saved: SavedOffsets
    former_runs: tuple[SavedOffsets, ...]
    absent_since_ms: int | None


class LoadedMirror(NamedTuple):
    """All that the file has of the newest state."""

    sets: Sequence[LoadedSet]
    #: The oldest first.
    regressions: Sequence[Regression]
    leaps: ClockLeaps = ClockLeaps()
    #: When the process that had the file last has read its clock last, Unix ms; None: the file is new.
    clock_unix_ms: int | None = None
    rewinds: Mapping[SetName, Rewinds] = MappingProxyType({})
