"""Which rows the remote store gets only after others, whoever waits for either: a release after final offsets. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from controller.offsets.storage.dirty_offsets import DirtyTable
from controller.offsets.storage.formats.records import FlushedRow
from controller.offsets.values import GroupTopic


class FlushHold:
    """What one change waits for; all of its rows share it, so it takes no more memory than they do."""

    __slots__ = ("left", "rows")

    def __init__(self, rows: AbstractSet[GroupTopic], first: Mapping[GroupTopic, dict[int, int]]) -> None:
        #: The rows of the change.
        self.rows: Final = rows
        #: By row that comes first, what the store lacks of it: per queue id, up to which record of the journal.
        self.left: Final = dict(first)


class FlushOrder:
    """Changes that wait, each as a whole: a session that is stored as gone gives its locks up, as they do themselves.

    A row that comes first must not wait for another one.
    """

    def __init__(self, dirty: DirtyTable) -> None:
        self._dirty = dirty
        #: By row that waits, for what it does.
        self._holds: dict[GroupTopic, dict[FlushHold, None]] = {}
        #: By row that comes first, for what it does.
        self._first: dict[GroupTopic, dict[FlushHold, None]] = {}

    def note(self, rows: AbstractSet[GroupTopic], before: AbstractSet[GroupTopic]) -> FlushHold | None:
        """Let these rows wait for what is dirty of those before them; return what `withdraw` takes, None: nothing is.

        Call it before the change is dirty that has to wait. What becomes dirty later of the rows before need not come
        first, and may. Linear in the rows and what is dirty of them.
        """
        dirty = self._dirty.rows
        first = {
            of: {queue_id: each.number for queue_id, each in dirty[of].offsets.items()}
            for of in before - rows
            if of in dirty
        }
        if not first:
            return None
        hold = FlushHold(rows, first)
        for of in rows:
            self._holds.setdefault(of, {})[hold] = None
        for of in first:
            self._first.setdefault(of, {})[hold] = None
        return hold

    def withdraw(self, hold: FlushHold) -> None:
        """Forget a change that was not made."""
        for of in tuple(hold.left):
            self._passed(of, hold)

    def is_held(self, of: GroupTopic) -> bool:
        """Return whether a row waits for others."""
        return of in self._holds

    def behind_first(self, rows: Iterable[GroupTopic]) -> Iterator[GroupTopic]:
        """Yield rows in their order, each once, and before each of them what it waits for."""
        looked: set[FlushHold] = set()
        given: set[GroupTopic] = set()
        for of in rows:
            for hold in tuple(self._holds.get(of, ())):
                if hold not in looked:
                    looked.add(hold)
                    # Some may be flushed before the next one is wanted.
                    yield from _new(tuple(hold.left), given)
            yield from _new((of,), given)

    def flushed(self, row: FlushedRow) -> None:
        """Let nothing wait any more for what the store has of a row now."""
        for hold in tuple(self._first.get(row.of, ())):
            numbers = hold.left[row.of]
            for queue_id, number in row.numbers.items():
                if numbers.get(queue_id, number + 1) <= number:
                    del numbers[queue_id]
            if not numbers:
                self._passed(row.of, hold)

    def forget_clean(self) -> None:
        """Let nothing wait for what is not dirty any more, whoever has flushed it; linear in what comes first.

        Another manager may have taken it from the journal while this one did not lead.
        """
        for of in tuple(self._first):
            row = self._dirty.rows.get(of)
            dirty = () if row is None else row.offsets
            for hold in tuple(self._first[of]):
                numbers = hold.left[of]
                for queue_id in [each for each in numbers if each not in dirty]:
                    del numbers[queue_id]
                if not numbers:
                    self._passed(of, hold)

    def give_up(self, of: GroupTopic) -> None:
        """Let nothing wait for a row that cannot be written."""
        for hold in tuple(self._first.get(of, ())):
            self._passed(of, hold)

    def _passed(self, of: GroupTopic, hold: FlushHold) -> None:
        _discard(self._first, of, hold)
        del hold.left[of]
        if not hold.left:
            for each in hold.rows:
                _discard(self._holds, each, hold)


def _new(rows: Iterable[GroupTopic], given: set[GroupTopic]) -> Iterator[GroupTopic]:
    for of in rows:
        if of not in given:
            given.add(of)
            yield of


def _discard(table: dict[GroupTopic, dict[FlushHold, None]], of: GroupTopic, hold: FlushHold) -> None:
    holds = table[of]
    del holds[hold]
    if not holds:
        del table[of]
