"""Which rows the remote store gets no later than others, whoever waits for either: final offsets before a release."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from controller.offsets.storage.dirty_offsets import DirtyTable
from controller.offsets.values import GroupTopic


class FlushOrder:
    """Rows that come first, until they are written."""

    def __init__(self, dirty: DirtyTable) -> None:
        self._dirty = dirty
        #: By row, those that come before it.
        self._before: dict[GroupTopic, set[GroupTopic]] = {}

    def note(self, rows: Iterable[GroupTopic], before: AbstractSet[GroupTopic]) -> None:
        """Let what is dirty of rows come before all of these rows. Call it before the change is dirty that has to wait.

        What becomes dirty later need not come first, and may.
        """
        if first := before & self._dirty.rows.keys():
            for of in rows:
                self._before.setdefault(of, set()).update(first)

    def ordered(self, names: Sequence[GroupTopic]) -> Sequence[GroupTopic]:
        """Return rows in their order, each once, behind those that come before any of them."""
        first = {each: None for of in names for each in self._before.get(of, ())}
        return [*first, *(of for of in names if of not in first)] if first else names

    def forget_written(self) -> None:
        """Forget the rows that are not dirty any more."""
        dirty = self._dirty.rows.keys()
        self._before = {of: left for of, before in self._before.items() if (left := before & dirty)}
