"""One record of the journal as bytes: changes of offsets, and which of the former ones the remote store has. Pure.

Names and writers are written once for each record, since a batch is mostly of one client. Numbers of the format are
those of `RECORD_FORMAT`; whoever changes the shape changes that.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.storage.dirty_offsets import DirtyOffset
from controller.offsets.values import GroupTopic, OffsetSource, QueueKey, StoredOffset

RECORD_FORMAT: Final = 1
#: Stands for the number of the record itself.
OWN_NUMBER: Final = 0

#: Offset, reset epoch, source, writer (index), token, Unix ms.
_Value = tuple[int, int, OffsetSource, int, int, int]


#: Index of the names, queue id, number, after, deleted.
_Entry = tuple[int, int, int, _Value | None, _Value | None]
#: Index of the names, queue id, number.
_Flushed = tuple[int, int, int]


class _Record(msgspec.Struct, array_like=True, gc=False):
    names: list[GroupTopic]
    writers: list[str]
    entries: list[_Entry]
    flushed: list[_Flushed]


class FlushedRow(NamedTuple):
    """What the remote store has of one row: per queue, the record of the journal up to which it has everything."""

    of: GroupTopic
    numbers: dict[int, int]


class JournalEntry(NamedTuple):
    """One offset that a record has."""

    key: QueueKey
    dirty: DirtyOffset


class JournalRecord(NamedTuple):
    """What one transaction of the journal has stored. What was flushed precedes the entries."""

    entries: Sequence[JournalEntry]
    flushed: Sequence[FlushedRow]


class _Indexes:
    """Names and writers in the order in which they occur first."""

    def __init__(self) -> None:
        self.names: Final[dict[GroupTopic, int]] = {}
        self.writers: Final[dict[str, int]] = {}

    def value(self, each: StoredOffset | None) -> _Value | None:
        if each is None:
            return None
        writer = self.writers.setdefault(each.writer, len(self.writers))
        return each.offset, each.reset_epoch, each.source, writer, each.token, each.unix_ms

    def name(self, of: GroupTopic) -> int:
        return self.names.setdefault(of, len(self.names))


def encoded_changes(changes: Iterable[OffsetChange], flushed: Iterable[FlushedRow]) -> bytes:
    """Return a record of new changes and of what was flushed."""
    indexes = _Indexes()
    value, name = indexes.value, indexes.name
    entries = [
        (name(of), queue_id, OWN_NUMBER, value(after), value(before) if after is None else None)
        for (of, queue_id), before, after in changes
    ]
    return _encoded(indexes, entries, flushed)


def encoded_snapshot(rows: Iterable[tuple[GroupTopic, Mapping[int, DirtyOffset]]]) -> bytes:
    """Return a record that stands for all records up to its own: everything that is dirty."""
    indexes = _Indexes()
    value, name = indexes.value, indexes.name
    entries = [
        (name(of), queue_id, each.number, value(each.after), value(each.deleted))
        for of, offsets in rows
        for queue_id, each in offsets.items()
    ]
    return _encoded(indexes, entries, ())


def _encoded(indexes: _Indexes, entries: list[_Entry], flushed: Iterable[FlushedRow]) -> bytes:
    removed = [(indexes.name(row.of), queue_id, number) for row in flushed for queue_id, number in row.numbers.items()]
    return _encode(_Record(list(indexes.names), list(indexes.writers), entries, removed))


def decoded(body: bytes, number: int) -> JournalRecord:
    """Return what a record holds; raises ValueError or IndexError if it is none."""
    record = _decode(body)
    names = record.names
    entries = []
    for name, queue_id, own_number, after, deleted in record.entries:
        dirty = DirtyOffset(_stored(after, record.writers), _stored(deleted, record.writers), own_number or number)
        entries.append(JournalEntry(QueueKey(names[name], queue_id), dirty))
    flushed: dict[GroupTopic, FlushedRow] = {}
    for name, queue_id, upto in record.flushed:
        of = names[name]
        flushed.setdefault(of, FlushedRow(of, {})).numbers[queue_id] = upto
    return JournalRecord(entries, tuple(flushed.values()))


def _stored(value: _Value | None, writers: Sequence[str]) -> StoredOffset | None:
    if value is None:
        return None
    offset, epoch, source, writer, token, unix_ms = value
    return StoredOffset(offset, epoch, source, writers[writer], token, unix_ms)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Record).decode
