"""What differs between a master's answer and what is saved of it: compared as text, decoded where it differs. Pure.

Most groups stand still from one reading to the next, and an entry that has not changed stands where it stood: it costs
one comparison of bytes. Nothing of an answer counts before all of it was read.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller.offsets.entry_keys import EntryKey, shown
from controller.offsets.mirror.changes import EntryMoves, MovedEntries, OffsetMove, ReadState, RefusedOffsets
from controller.offsets.mirror.saved_offsets import (
    RawTable,
    SavedOffsets,
    UnusableOffsets,
    usable_key,
    usable_offsets,
)
from remoting.admin.offset_table import EntryReader, OffsetTable, RawEntry

#: How much is done before the caller is let go on with something else, about a millisecond: in entries that are equal.
SLICE_WORK: Final = 1000
#: An entry that differs costs as much as so many that are equal.
_DIFFERENT_WORK: Final = 20
#: The same for one with the same queues as before.
_MOVED_WORK: Final = 10

#: Entries that are compared together first: of so few neighbours often none has moved.
_BLOCK: Final = 8
_BETWEEN: Final = b","

#: So many digits are never more than Java's long.
_SURE_DIGITS: Final = 18

_NOTHING: Final = (RawTable(is_lmq=False), RawTable(is_lmq=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterReading:
    """An answer of a master to 43, and when and of which run it is."""

    read: ReadState
    table: OffsetTable
    #: When it was requested, monotonic ms of this process.
    requested_ms: int


class Comparison:
    """Compares a reading with what is saved, a slice at a time."""

    def __init__(self, former: SavedOffsets | None, reading: MasterReading) -> None:
        self.former = former
        self._reading = reading
        self._found: SavedOffsets | None = None
        self.moved = MovedEntries()

    @property
    def found(self) -> SavedOffsets:
        """What is to be saved, once all slices are done."""
        assert self._found is not None, "nothing is found before all slices are done"
        return self._found

    def slices(self) -> Iterator[None]:
        """Compare, and yield after each slice.

        Raises BodyError for an answer that is no table of offsets, or was cut: nothing is found then.
        """
        table = self._reading.table
        former = _NOTHING if self.former is None else self.former.tables
        offsets = table.reader()
        walk = _TableWalk(former[0], self.moved)
        yield from walk.slices(offsets)
        yield from offsets.check_end()
        lmq_walk = _TableWalk(former[1], self.moved)
        yield from lmq_walk.slices(table.lmq_reader())
        self._found = SavedOffsets(
            read=self._reading.read,
            tables=(walk.table(), lmq_walk.table()),
            requested_ms=self._reading.requested_ms,
        )


class _TableWalk:
    """Goes through one table of an answer beside the saved one."""

    def __init__(self, former: RawTable, moved: MovedEntries) -> None:
        self._former = former
        self._moved = moved
        self._entries: list[bytes] = []
        self._keys: list[bytes] = []
        self._places: dict[bytes, int] = {}
        self._unusable: dict[bytes, bytes | None] = {}
        self._twice: set[bytes] = set()
        self._found_again = 0

    def table(self) -> RawTable:
        """Return what was found."""
        return RawTable(self._former.is_lmq, self._entries, self._keys, self._places, self._unusable)

    def slices(self, reader: EntryReader | None) -> Iterator[None]:
        """Go through all entries, and yield after each slice."""
        former, place, work = self._former, 0, 0
        entries, keys, end = former.entries, former.keys, len(former.entries)
        # All entries so far have the keys of those at the same places.
        is_in_place = not former.unusable
        while reader is not None:
            is_block = is_in_place and place % _BLOCK == 0 and place + _BLOCK <= end
            if is_block and reader.skip(_BETWEEN.join(entries[place : place + _BLOCK])):
                self._keep_block(place)
                place += _BLOCK
                work += _BLOCK
            elif place < end and reader.skip(entries[place]):
                self._keep(keys[place], entries[place], place)
                place += 1
                work += 1
            elif place < end and self._moved_in_place(reader, place):
                place += 1
                work += _MOVED_WORK
            elif (entry := reader.next_entry()) is not None:
                place = self._differs(entry, place)
                is_in_place = False
                work += _DIFFERENT_WORK
            else:
                break
            if work >= SLICE_WORK:
                work = 0
                yield None
        self._refuse_twice()
        if self._found_again < end:
            yield from self._vanished()

    def _keep(self, key: bytes, text: bytes, place: int) -> None:
        """Take over an entry whose text is that of the saved one at a place."""
        if self._add(key, text) and key in self._former.unusable:
            # It may have been refused for another one of the same key.
            self._compare(RawEntry(text, key, self._former.value_at(place)), self._former.unusable[key])

    def _keep_block(self, place: int) -> None:
        """Take over entries whose text is that of the saved ones from a place on, all of which were in place so far."""
        former, behind = self._former, place + _BLOCK
        self._entries += former.entries[place:behind]
        self._keys += former.keys[place:behind]
        self._places.update(zip(former.keys[place:behind], range(place, behind), strict=True))
        self._found_again += _BLOCK

    def _moved_in_place(self, reader: EntryReader, place: int) -> bool:
        """Take an entry that stands where it stood, with the same queues in the same order; return whether it is one.

        Of all that differ, these are by far the most.
        """
        former, key = self._former, self._former.keys[place]
        if key in former.unusable or (value := reader.value_under(key)) is None:
            return False
        moves = moves_in_place(former.value_at(place), value)
        text = b'"%b":%b' % (key, value)
        if moves is None or not reader.skip(text):
            return False
        self._add(key, text)
        advanced, decreased = moves
        entry = usable_key(key, former.is_lmq)
        if advanced:
            self._moved.advanced.append(EntryMoves(entry, advanced, key))
        if decreased:
            self._moved.decreased.append(EntryMoves(entry, decreased, key))
        return True

    def _add(self, key: bytes, text: bytes) -> bool:
        """Add an entry to what was found; return whether it is the first one with its key."""
        if key in self._places:
            self._twice.add(key)
            return False
        self._places[key] = len(self._entries)
        self._entries.append(text)
        self._keys.append(key)
        self._found_again += key in self._former.places
        return True

    def _differs(self, entry: RawEntry, place: int) -> int:
        """Take an entry that has changed, is new, or stands elsewhere; return where the next one is expected."""
        former_place = self._former.places.get(entry.key)
        if former_place is not None and self._former.entries[former_place] == entry.text:
            self._keep(entry.key, entry.text, former_place)
        elif self._add(entry.key, entry.text):
            self._compare(entry, None if former_place is None else self._former.last_usable(entry.key))
        return place if former_place is None or former_place < place else former_place + 1

    def _refuse_twice(self) -> None:
        """Refuse entries of which there are several: which one counts is unknown, and what they moved is nothing."""
        former = self._former
        for key in self._twice:
            is_known = key in former.unusable or key in self._unusable
            self._unusable[key] = former.last_usable(key) if key in former.places else None
            if not is_known:
                reason = "it occurs more than once: which one counts is unknown"
                self._moved.refused.append(RefusedOffsets(shown(key.decode(errors="replace")), reason))
        if self._twice:
            moved, keys = self._moved, frozenset(map(self._entry_key, self._twice))
            for entries in (moved.advanced, moved.new, moved.decreased, moved.vanished):
                entries[:] = [each for each in entries if each.key not in keys]

    def _entry_key(self, key: bytes) -> EntryKey | None:
        try:
            return usable_key(key, self._former.is_lmq)
        except UnusableOffsets:
            return None

    def _compare(self, entry: RawEntry, former: bytes | None) -> None:
        is_lmq = self._former.is_lmq
        try:
            key = usable_key(entry.key, is_lmq)
            after = usable_offsets(entry.value, is_lmq)
        except UnusableOffsets as error:
            self._unusable[entry.key] = former
            if entry.key not in self._former.unusable:
                self._moved.refused.append(RefusedOffsets(shown(entry.key.decode(errors="replace")), str(error)))
        else:
            add_moves(key, entry.key, moves_between(self._offsets_before(former), after), self._moved)

    def _offsets_before(self, value: bytes | None) -> Mapping[int, int]:
        """Return the offsets of a saved value; none where it is not readable: no reading would count any more."""
        try:
            return {} if value is None else usable_offsets(value, self._former.is_lmq)
        except UnusableOffsets:
            return {}

    def _vanished(self) -> Iterator[None]:
        """Find entries that are not there any more."""
        former, work = self._former, 0
        for key in former.keys:
            work += 1
            if key not in self._places and (value := former.last_usable(key)) is not None:
                work += _DIFFERENT_WORK
                moves = moves_between(self._offsets_before(value), {})
                add_moves(usable_key(key, former.is_lmq), key, moves, self._moved)
            if work >= SLICE_WORK:
                work = 0
                yield None


def moves_in_place(former: bytes, value: bytes) -> tuple[list[OffsetMove], list[OffsetMove]] | None:
    """Return what advanced and what decreased between two values with the same queues in the same order.

    That is how values differ most often; None for other ones. The former one is usable: what is equal in both needs no
    look.
    """
    pieces, former_pieces = value[1:-1].split(b","), former[1:-1].split(b",")
    if len(pieces) != len(former_pieces) or value[:1] != b"{" or former[:1] != b"{":
        return None
    advanced: list[OffsetMove] = []
    decreased: list[OffsetMove] = []
    for piece, former_piece in zip(pieces, former_pieces, strict=True):
        if piece != former_piece:
            queue_id, _, after = piece.partition(b":")
            former_id, _, before = former_piece.partition(b":")
            if queue_id != former_id or len(after) > _SURE_DIGITS:
                return None
            # What is saved has to be readable: a number of JSON has no leading zero.
            has_leading_zero = after[:1] == b"0" and len(after) > 1
            if has_leading_zero or not (queue_id.isdigit() and before.isdigit() and after.isdigit()):
                return None
            offset, former_offset = int(after), int(before)
            if offset > former_offset:
                advanced.append(OffsetMove(int(queue_id), former_offset, offset))
            elif offset < former_offset:
                decreased.append(OffsetMove(int(queue_id), former_offset, offset))
    return advanced, decreased


def moves_between(before: Mapping[int, int], after: Mapping[int, int]) -> list[OffsetMove]:
    """Return what moved between two values of an entry."""
    moves = [
        OffsetMove(queue_id, former, offset)
        for queue_id, offset in after.items()
        if (former := before.get(queue_id)) != offset
    ]
    return moves + [OffsetMove(each, before[each], None) for each in before.keys() - after.keys()]


def add_moves(key: EntryKey, raw_key: bytes, moves: Iterable[OffsetMove], moved: MovedEntries) -> None:
    """Add the moves of an entry to the lists of their kinds."""
    advanced, new, decreased, vanished = kinds = tuple[list[OffsetMove], ...](([], [], [], []))
    for move in moves:
        _, before, after = move
        if before is None:
            new.append(move)
        elif after is None:
            vanished.append(move)
        else:
            (advanced if after > before else decreased).append(move)
    lists = (moved.advanced, moved.new, moved.decreased, moved.vanished)
    for found, entries in zip(kinds, lists, strict=True):
        if found:
            entries.append(EntryMoves(key, found, raw_key))
