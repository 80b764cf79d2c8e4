"""What the file of the mirror does not have yet. Pure, and bounded: what is too much is found by comparison instead."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.changes import MirrorChanges
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import REGRESSIONS_MAX, Regression
from controller.offsets.mirror_file.updates import MirrorUpdate, SetUpdate

#: Entries that have changed and wait, of all sets; 300 bytes each.
WAITING_ENTRIES_MAX: Final = 200_000


class Mirrors(Protocol):
    """The mirrors of all sets."""

    @property
    def set_names(self) -> AbstractSet[SetName]:
        """All sets that have one."""

    def mirror_of(self, set_name: SetName) -> BrokerMirror | None:
        """Return the mirror of a set; None if there is none."""


class WaitingChanges:
    """What is new since the last update."""

    def __init__(self) -> None:
        self._changes: dict[SetName, list[MirrorChanges]] = {}
        #: Of all changes.
        self._entries = 0
        #: Sets whose changes are found by comparison.
        self._behind: set[SetName] = set()
        #: Sets whose former runs have changed.
        self._runs: set[SetName] = set()
        #: Sets of which only the time of the reading and the end of the log are new.
        self._reads: set[SetName] = set()
        self._regressions: list[Regression] = []
        self._absent_since_ms: dict[SetName, int | None] = {}
        self._dropped: set[SetName] = set()

    def add(self, changes: MirrorChanges) -> None:
        """Add what a reading has changed."""
        moved, name = changes.moved, changes.set_name
        if not changes.is_same_run:
            self._runs.add(name)
        if name not in self._behind:
            self._changes.setdefault(name, []).append(changes)
            self._entries += sum(map(len, (moved.advanced, moved.new, moved.decreased, moved.vanished)))
        if self._entries > WAITING_ENTRIES_MAX:
            self.fall_behind([*self._changes])

    def add_runs(self, name: SetName) -> None:
        """Note that the former runs of a set have changed."""
        self._runs.add(name)

    def add_read(self, name: SetName) -> None:
        """Note that a set was read again, and its log has another end."""
        self._reads.add(name)

    def add_regressions(self, regressions: Iterable[Regression]) -> None:
        """Add what went back; the oldest go above REGRESSIONS_MAX."""
        self._regressions += regressions
        del self._regressions[:-REGRESSIONS_MAX]

    def add_absence(self, name: SetName, since_ms: int | None) -> None:
        """Note since when nobody shows a set; None for one that is shown again."""
        self._absent_since_ms[name] = since_ms

    def fall_behind(self, names: Iterable[SetName]) -> None:
        """Let changes of sets be found by comparison."""
        for name in names:
            self._behind.add(name)
            for each in self._changes.pop(name, ()):
                moved = each.moved
                self._entries -= sum(map(len, (moved.advanced, moved.new, moved.decreased, moved.vanished)))

    def drop(self, name: SetName) -> None:
        """Have a set removed."""
        self.fall_behind([name])
        for names in (self._behind, self._runs, self._reads):
            names.discard(name)
        self._absent_since_ms.pop(name, None)
        self._dropped.add(name)

    def update(self, mirrors: Mirrors) -> MirrorUpdate:
        """Return all that waits, with the newest offsets."""
        names = self._changes.keys() | self._behind | self._runs | self._reads
        found = ((name, mirrors.mirror_of(name)) for name in names)
        return MirrorUpdate(
            sets={name: update for name, mirror in found if mirror and (update := self._update_of(name, mirror))},
            regressions=self._regressions,
            absent_since_ms=self._absent_since_ms,
            dropped=[*self._dropped],
        )

    def put_back(self, update: MirrorUpdate) -> None:
        """Let an update that could not be stored wait again."""
        self.fall_behind(update.sets)
        self._runs.update(name for name, each in update.sets.items() if each.former_runs is not None)
        later = self._regressions
        self._regressions = [*update.regressions]
        self.add_regressions(later)
        self._absent_since_ms = {**update.absent_since_ms, **self._absent_since_ms}
        self._dropped.update(update.dropped)

    def _update_of(self, name: SetName, mirror: BrokerMirror) -> SetUpdate | None:
        if mirror.saved is None:
            return None
        changes: Sequence[MirrorChanges] | None = self._changes.get(name, ())
        return SetUpdate(
            saved=mirror.saved,
            changes=None if name in self._behind else changes,
            former_runs=mirror.former_runs if name in self._runs else None,
        )
