"""A row as JSON: `{"v":1,"writers":["c1"],"queues":{"0":[5280,0,"client",0,0,1700000000000]}}`. Pure.

Per queue: offset (-1: it was deleted), reset epoch, source, index of the writer, fencing token, Unix ms. Another `v` is
another shape, and is not written over.
"""

import sys
from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from controller.offsets.values import DELETED, OFFSET_MAX, QUEUES_MAX, OffsetSource, StoredOffset

ROW_VERSION: Final = 1

_Long = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
_Offset = Annotated[int, msgspec.Meta(ge=DELETED, le=OFFSET_MAX)]
_QueueId = Annotated[int, msgspec.Meta(ge=0, lt=QUEUES_MAX)]


class _Queue(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    offset: _Offset
    reset_epoch: _Long
    source: OffsetSource
    writer: _Long
    token: _Long
    unix_ms: _Long


class _Row(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    v: int
    writers: list[str]
    queues: dict[_QueueId, _Queue]


class _Version(msgspec.Struct):
    v: int


class UnreadableRow(ValueError):
    """A value that is no row of this release; the text says why."""


def encoded_row(queues: Mapping[int, StoredOffset]) -> bytes:
    """Return the offsets of a row as they are stored, the queues in their order."""
    writers: dict[str, int] = {}
    row = {
        queue_id: _Queue(
            each.offset,
            each.reset_epoch,
            each.source,
            writers.setdefault(each.writer, len(writers)),
            each.token,
            each.unix_ms,
        )
        for queue_id, each in sorted(queues.items())
    }
    return _encode(_Row(ROW_VERSION, list(writers), row))


def decoded_row(value: bytes) -> dict[int, StoredOffset]:
    """Return the offsets of a row by queue id; raises UnreadableRow."""
    try:
        return _queues(_decode(value))
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError) as error:
        raise UnreadableRow(_why(value, error)) from None


def _queues(row: _Row) -> dict[int, StoredOffset]:
    if row.v != ROW_VERSION:
        raise UnreadableRow(_of_version(row.v))
    writers = [sys.intern(each) for each in row.writers]
    return {
        queue_id: StoredOffset(
            each.offset, each.reset_epoch, each.source, writers[each.writer], each.token, each.unix_ms
        )
        for queue_id, each in row.queues.items()
    }


def _why(value: bytes, error: Exception) -> str:
    """Return what is wrong; a later release may have another shape, and then says its version."""
    try:
        version = msgspec.json.decode(value, type=_Version).v
    except (msgspec.DecodeError, UnicodeDecodeError):
        version = ROW_VERSION
    return str(error) if version == ROW_VERSION else _of_version(version)


def _of_version(version: int) -> str:
    return f"it has version {version}, and this release reads version {ROW_VERSION}: run the release that wrote it"


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Row).decode
