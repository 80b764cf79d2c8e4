"""What is saved of the offsets of one broker set: the newest reading of its master, and the last one of earlier runs.

Pure. Source: docs/protocol/offsets.md 8.2.
"""

from typing import Final, Self

from controller.offsets.mirror.changes import MirrorChanges
from controller.offsets.mirror.comparison import Comparison, MasterReading
from controller.offsets.mirror.masters import MasterRun, SetName
from controller.offsets.mirror.saved_offsets import SavedOffsets

#: Runs of which the last reading is kept until it was dealt with: a set that fails over again and again keeps the first
#: and the newest ones.
FORMER_RUNS_MAX: Final = 4


class OlderRun(ValueError):
    """A reading is of an epoch that is over: what it shows was overtaken by an election."""

    def __init__(self, set_name: SetName, *, read: int, current: int) -> None:
        super().__init__(f"offsets of {set_name} are of master epoch {read}, and epoch {current} was read already")


class BrokerMirror:
    """The offsets of one broker set."""

    def __init__(self, set_name: SetName) -> None:
        self.set_name = set_name
        #: The newest reading; None before the first.
        self.saved: SavedOffsets | None = None
        #: The last readings of runs that have ended, the oldest first, until `settle`: from them offsets are restored.
        self.former_runs: tuple[SavedOffsets, ...] = ()
        #: Nothing was read in this process yet.
        self._is_restored = False

    @classmethod
    def restored(cls, set_name: SetName, saved: SavedOffsets, former_runs: tuple[SavedOffsets, ...]) -> Self:
        """Return the mirror as an earlier process had it.

        Its first reading may be of an earlier epoch: a restart is how an operator accepts a store that was put back.
        """
        mirror = cls(set_name)
        mirror.saved, mirror.former_runs, mirror._is_restored = saved, former_runs, True
        return mirror

    def take_earlier(self, saved: SavedOffsets, former_runs: tuple[SavedOffsets, ...]) -> None:
        """Take what an earlier process had, once this one has begun without it: as runs before those read here."""
        earlier = former_runs if self._has_memory_of(saved) else (*former_runs, saved)
        read_here, self.former_runs = self.former_runs, ()
        for each in (*earlier, *read_here):
            self._keep(each)

    def compare(self, reading: MasterReading) -> Comparison:
        """Return what compares a reading with the saved one; raises OlderRun for one of an epoch that is over."""
        if self.saved is not None and not self._is_restored:
            read, current = reading.read.run.master_epoch, self.saved.read.run.master_epoch
            if read is not None and current is not None and read < current:
                raise OlderRun(self.set_name, read=read, current=current)
        return Comparison(self.saved, reading)

    def changes(self, comparison: Comparison) -> MirrorChanges:
        """Return what a reading changes, once it was compared; it is applied when that is stored."""
        former = None if comparison.former is None else comparison.former.read
        return MirrorChanges(set_name=self.set_name, former=former, now=comparison.found.read, moved=comparison.moved)

    def apply(self, comparison: Comparison) -> None:
        """Save what was read."""
        former, found = comparison.former, comparison.found
        assert former is self.saved, "nothing else is saved while a reading is compared"
        if former is not None and former.read.run != found.read.run:
            self._keep(former)
        self.saved, self._is_restored = found, False

    def take(self, reading: MasterReading) -> MirrorChanges:
        """Compare a reading and save it at once; raises BodyError and OlderRun, and nothing is changed then."""
        comparison = self.compare(reading)
        for _ in comparison.slices():
            pass
        self.apply(comparison)
        return self.changes(comparison)

    def saved_before(self, run: MasterRun) -> tuple[SavedOffsets, ...]:
        """Return the last readings of earlier runs, the oldest first: what is to be set right in this run.

        The last of them is what the master before had. Those before it were never dealt with.
        """
        if self.saved is None or self.saved.read.run == run:
            return self.former_runs
        return (*self.former_runs, self.saved)

    def settle(self, run: MasterRun) -> None:
        """Forget what earlier runs had: it was dealt with in this run, or is not wanted. Another run keeps it."""
        if self.saved is not None and self.saved.read.run == run:
            self.former_runs = ()

    def _has_memory_of(self, earlier: SavedOffsets) -> bool:
        if self.saved is None:
            return False
        first = self.former_runs[0] if self.former_runs else self.saved
        return first.read.run.has_memory_of(earlier.read.run)

    def _keep(self, former: SavedOffsets) -> None:
        kept = (*self.former_runs, former)
        if len(kept) > FORMER_RUNS_MAX:
            # The first one is from before the trouble began, and has not gone back.
            kept = (kept[0], *kept[2:])
        self.former_runs = kept
