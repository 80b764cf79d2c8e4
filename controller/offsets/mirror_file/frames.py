"""What the file of the mirror has of a broker set: whole tables, and changes of them, as bytes. Pure.

A table or a change is a list of entries: whether it is of a light message queue, the key as the broker has written it
(a first reading after a restart of this process is compared with it byte by byte), and queue ids with their offsets,
absolute, so that a later change counts whatever was before it. msgpack in zlib: names repeat, and zlib has a checksum.
"""

import zlib
from collections.abc import Mapping
from typing import Final

import msgspec

from controller.offsets.entry_keys import EntryKey, EntryKind
from controller.offsets.mirror.changes import MovedEntries, ReadState
from controller.offsets.mirror.saved_offsets import (
    RawTable,
    SavedOffsets,
    UnusableOffsets,
    usable_key,
    usable_offsets,
)

#: Whether it is of a light message queue, and its key as the broker has written it.
RawKey = tuple[bool, bytes]
#: By queue id; None for a queue that has lost its offset, in changes alone.
QueueOffsets = dict[int, int | None]
OffsetFrame = dict[RawKey, QueueOffsets]

_Entry = tuple[bool, bytes, list[int | None]]
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[_Entry])
#: Few of the bytes are text that repeats: a higher level takes longer and saves nothing.
_LEVEL: Final = 3


class UnreadableFrame(ValueError):
    """Bytes of the file are no offsets."""


def encoded_frame(frame: OffsetFrame) -> bytes:
    """Return the bytes of a table or a change."""
    entries = [
        (is_lmq, key, [each for queue in offsets.items() for each in queue]) for (is_lmq, key), offsets in frame.items()
    ]
    return zlib.compress(_ENCODER.encode(entries), _LEVEL)


def decoded_frame(body: bytes) -> OffsetFrame:
    """Return the table or the change of some bytes; raises UnreadableFrame."""
    try:
        entries = _DECODER.decode(zlib.decompress(body))
    except (zlib.error, msgspec.DecodeError) as error:
        raise UnreadableFrame(str(error)) from None
    frame: OffsetFrame = {}
    for is_lmq, key, queues in entries:
        if len(queues) % 2:
            raise UnreadableFrame(f"an entry has {len(queues)} numbers: queue ids and offsets come in pairs")
        frame[is_lmq, key] = dict(zip(queues[::2], queues[1::2], strict=True))  # type: ignore[arg-type]  # checked below
        if None in frame[is_lmq, key]:
            raise UnreadableFrame("an entry has a queue without an id")
    return frame


def merge(frame: OffsetFrame, later: OffsetFrame) -> None:
    """Let a later change count in a table or an earlier change."""
    for key, offsets in later.items():
        known = frame.get(key)
        if known is None:
            frame[key] = dict(offsets)
        else:
            known.update(offsets)


def drop_absent(table: OffsetFrame) -> None:
    """Leave out of a table what has no offset any more."""
    for key in [key for key, offsets in table.items() if None in offsets.values()]:
        left = {queue_id: offset for queue_id, offset in table[key].items() if offset is not None}
        if left:
            table[key] = dict(left)
        else:
            del table[key]


def table_of(saved: SavedOffsets) -> OffsetFrame:
    """Return all that a reading has, also of entries that it could not use and that were usable before.

    Raises UnusableOffsets for a reading that was saved although it is not readable: a fault of this process.
    """
    table: OffsetFrame = {}
    for raw in saved.tables:
        for key in raw.keys:
            if (value := raw.last_usable(key)) is not None and (offsets := usable_offsets(value, raw.is_lmq)):
                table[raw.is_lmq, key] = dict(offsets)
    return table


def saved_of(table: OffsetFrame, read: ReadState) -> SavedOffsets:
    """Return a table as if it had been read; raises UnreadableFrame if it holds what is never read."""
    raw = _raw_table(table, is_lmq=False), _raw_table(table, is_lmq=True)
    return SavedOffsets(read=read, tables=raw)


def by_entry(table: OffsetFrame) -> dict[EntryKey, Mapping[int, int]]:
    """Return the offsets of a table by whom they belong to; raises UnreadableFrame for a key that names nobody."""
    try:
        return {
            usable_key(key, is_lmq): {queue_id: offset for queue_id, offset in offsets.items() if offset is not None}
            for (is_lmq, key), offsets in table.items()
        }
    except UnusableOffsets as error:
        raise UnreadableFrame(str(error)) from None


def frame_of(moved: MovedEntries) -> OffsetFrame:
    """Return what moved."""
    frame: OffsetFrame = {}
    for entries in (moved.advanced, moved.new, moved.decreased, moved.vanished):
        for key, moves, raw_key in entries:
            offsets = frame.setdefault((key.kind is EntryKind.LMQ, raw_key), {})
            for queue_id, _, after in moves:
                offsets[queue_id] = after
    return frame


def difference(former: OffsetFrame, table: OffsetFrame) -> OffsetFrame:
    """Return the change that makes one table of another."""
    changed: OffsetFrame = {}
    for key, offsets in table.items():
        if (before := former.get(key)) != offsets:
            known = before or {}
            lost: QueueOffsets = dict.fromkeys(known.keys() - offsets.keys())
            moved = {queue_id: offset for queue_id, offset in offsets.items() if known.get(queue_id) != offset}
            changed[key] = moved | lost
    for key in former.keys() - table.keys():
        changed[key] = dict.fromkeys(former[key])
    return changed


def _raw_table(table: OffsetFrame, *, is_lmq: bool) -> RawTable:
    entries: list[bytes] = []
    keys: list[bytes] = []
    for (is_of_lmq, key), offsets in table.items():
        if is_of_lmq is is_lmq:
            value = _raw_value(offsets, is_lmq=is_lmq)
            try:
                usable_key(key, is_lmq)
                usable_offsets(value, is_lmq)
            except UnusableOffsets as error:
                raise UnreadableFrame(str(error)) from None
            keys.append(key)
            entries.append(b'"%b":%b' % (key, value))
    return RawTable(is_lmq, entries, keys, {key: place for place, key in enumerate(keys)})


def _raw_value(offsets: QueueOffsets, *, is_lmq: bool) -> bytes:
    if is_lmq:
        return b"%d" % (offsets.get(0) or 0)
    return ("{" + ",".join(f"{queue_id}:{offsets[queue_id]}" for queue_id in sorted(offsets)) + "}").encode()
