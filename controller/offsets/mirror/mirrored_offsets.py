"""What others use of the mirror: the newest offsets of each broker set, those of a moment, and what went back. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.masters import MasterRun, SetName
from controller.offsets.mirror.regressions import KnownResets, RegressionLog
from controller.offsets.mirror.saved_offsets import SavedEntry, SavedOffsets
from controller.offsets.mirror.statuses import MirrorStatus


class MomentNotKept(ValueError):
    """The offsets of a broker set at a moment are not known: it is before all that is kept of it."""

    def __init__(self, set_name: SetName, unix_ms: int, *, kept_since_unix_ms: int | None) -> None:
        self.set_name, self.unix_ms, self.kept_since_unix_ms = set_name, unix_ms, kept_since_unix_ms
        since = "nothing is kept of it" if kept_since_unix_ms is None else f"they are kept since {kept_since_unix_ms}"
        super().__init__(f"the offsets of {set_name} at {unix_ms} (Unix ms) are not known: {since}")


class MirrorFileFailed(Exception):
    """The file of the mirror cannot be read now; the text names it and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastOffsets:
    """The offsets of a broker set as they were at a moment."""

    #: When they were read last for certain, Unix ms: not later than the moment. For moments before this process, and
    #: those more than an hour ago, it is when their newest change was read, or up to a minute before that; up to an
    #: hour where moments are more than a day ago.
    unix_ms: int
    by_entry: Mapping[EntryKey, Mapping[int, int]]

    def entries(self) -> Iterator[SavedEntry]:
        """Yield each group in a topic with its offsets by queue id; a queue without an offset is absent."""
        return (SavedEntry(key, offsets) for key, offsets in self.by_entry.items())


class MirroredOffsets(Protocol):
    """The mirror of all broker sets, used in the event loop."""

    @property
    def regressions(self) -> RegressionLog:
        """What went back."""

    @property
    def resets(self) -> KnownResets:
        """Takes what an operator resets by this service, before the broker gets it."""

    def saved(self, set_name: SetName) -> SavedOffsets | None:
        """Return the newest reading of a broker set; None before the first."""

    def saved_before(self, set_name: SetName, run: MasterRun) -> tuple[SavedOffsets, ...]:
        """Return the last readings of runs before this one that were not settled, the oldest first."""

    def settle(self, set_name: SetName, run: MasterRun) -> None:
        """Forget what earlier runs had: it was dealt with in this run."""

    async def at(self, set_name: SetName, unix_ms: int) -> PastOffsets:
        """Return the offsets of a moment; raises MomentNotKept and MirrorFileFailed."""

    def rewinds(self, set_name: SetName) -> dict[tuple[EntryKey, int], int]:
        """Return the highest offset of each queue that somebody has set back or deleted, by entry and queue id."""

    def statuses(self) -> list[MirrorStatus]:
        """Return how old the mirror of each set is, by name."""
