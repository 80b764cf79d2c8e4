"""Rows and records as bytes, in files and in etcd. Pure.

A row is JSON: `{"v":2,"writers":["c1"],"queues":{"0":[5280,0,"client",0,1700000000000]}}`, per queue the offset (-1: it
was deleted), reset epoch, source, index of the writer, Unix ms. Its key is a path of five escaped names: `%` stands for
all but letters, digits, `.`, `_`, `-` and `~`, so a slash in a name ends no part.

A record is one batch of changes in MessagePack; names and writers are in it once.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Final
from urllib.parse import quote, unquote

import msgspec

from offsets.commits.stored import DELETED, Change, RowName, Source, StoredOffset
from offsets.values import OFFSET_MAX, QUEUES_MAX

ROW_VERSION: Final = 2
_Long = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
_Offset = Annotated[int, msgspec.Meta(ge=DELETED, le=OFFSET_MAX)]
_QueueId = Annotated[int, msgspec.Meta(ge=0, lt=QUEUES_MAX)]
_Value = tuple[_Offset, _Long, Source, _Long, _Long]


class Unreadable(ValueError):
    """A key or a value that is none of this release; the text says why."""


class _Row(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    v: int
    writers: list[str]
    queues: dict[_QueueId, _Value]


class _Version(msgspec.Struct):
    v: int


class _Record(msgspec.Struct, array_like=True, gc=False):
    names: list[RowName]
    writers: list[str]
    #: Index of the name, queue id, value.
    entries: list[tuple[int, int, _Value]]


@lru_cache(maxsize=20_000)
def path_of(name: RowName) -> str:
    """Return the path of a row."""
    return "/".join(quote(text, safe="") for text in name)


def name_of(path: str) -> RowName:
    """Return whose path that is; raises Unreadable."""
    try:
        # Many rows have the same names: one copy of each.
        texts = [sys.intern(unquote(text, errors="strict")) for text in path.split("/")]
    except UnicodeDecodeError:
        raise Unreadable(f"{path} is not escaped UTF-8") from None
    # Two keys of one row would take each other's offsets back.
    if len(texts) != len(RowName._fields) or path_of(name := RowName(*texts)) != path:
        raise Unreadable(f"{path} is not the key of a row")
    return name


def encoded_row(queues: Mapping[int, StoredOffset]) -> bytes:
    """Return the offsets of a row as they are stored, the queues in their order."""
    writers: dict[str, int] = {}
    values = {queue_id: _value(queues[queue_id], writers) for queue_id in sorted(queues)}
    return _encode_row(_Row(ROW_VERSION, list(writers), values))


def decoded_row(body: bytes) -> dict[int, StoredOffset]:
    """Return the offsets of a row by queue id; raises Unreadable."""
    try:
        row = _decode_row(body)
        writers = [sys.intern(writer) for writer in row.writers]
        queues = {queue_id: _stored(value, writers) for queue_id, value in row.queues.items()}
        version = row.v
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError) as error:
        # A later release may have another shape, and then says its version.
        try:
            version = msgspec.json.decode(body, type=_Version).v
        except (msgspec.DecodeError, UnicodeDecodeError):
            version = ROW_VERSION
        if version == ROW_VERSION:
            raise Unreadable(str(error)) from None
    if version != ROW_VERSION:
        raise Unreadable(f"it has version {version}, and this release reads version {ROW_VERSION}")
    return queues


def encoded_record(changes: Iterable[Change]) -> bytes:
    """Return a record of the new values of changes."""
    names: dict[RowName, int] = {}
    writers: dict[str, int] = {}
    entries = [
        (names.setdefault(name, len(names)), queue_id, _value(after, writers)) for name, queue_id, _, after in changes
    ]
    return _encode_record(_Record(list(names), list(writers), entries))


def decoded_record(body: bytes) -> Iterator[tuple[RowName, int, StoredOffset]]:
    """Yield what a record holds; raises Unreadable."""
    try:
        record = _decode_record(body)
        for name, queue_id, value in record.entries:
            yield record.names[name], queue_id, _stored(value, record.writers)
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError) as error:
        raise Unreadable(str(error)) from None


def _value(stored: StoredOffset, writers: dict[str, int]) -> _Value:
    writer = writers.setdefault(stored.writer, len(writers))
    return stored.offset, stored.reset_epoch, stored.source, writer, stored.unix_ms


def _stored(value: _Value, writers: list[str]) -> StoredOffset:
    offset, epoch, source, writer, unix_ms = value
    return StoredOffset(offset, epoch, source, writers[writer], unix_ms)


_encode_row: Final = msgspec.json.Encoder().encode
_decode_row: Final = msgspec.json.Decoder(_Row).decode
_encode_record: Final = msgspec.msgpack.Encoder().encode
_decode_record: Final = msgspec.msgpack.Decoder(_Record).decode
