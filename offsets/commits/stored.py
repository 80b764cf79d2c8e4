"""What a client's offset belongs to, and what is stored of it: as values, and as bytes in files and in etcd. Pure.

Of two values of a queue the one of the higher reset epoch counts, then the higher offset; a deletion is a value in an
epoch of its own. So a value can be stored again, or late, and nothing ever goes back: memory, the local file and etcd
are brought together by `is_newer` alone. Source: docs/protocol/offsets.md 7.

A row is JSON: `{"v":2,"writers":["c1"],"queues":{"0":[5280,0,"client",0,1700000000000]}}`, per queue the offset (-1: it
was deleted), reset epoch, source, index of the writer, Unix ms. Its key is a path of five escaped names: `%` stands for
all but letters, digits, `.`, `_`, `-` and `~`, so a slash in a name ends no part. A record is one batch of changes in
MessagePack; names and writers are in it once.
"""

import enum
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from offsets.values import NAME_CHARACTERS_MAX, OFFSET_MAX, QUEUES_MAX
from remoting.protocol.plain_text import is_plain

#: The longest writer: a row of QUEUES_MAX queues with one each fits into a request to etcd.
WRITER_BYTES_MAX: Final = 400
#: In place of an offset: it was deleted. Readers get that there is none.
DELETED: Final = -1
#: How long it stays stored that an offset was deleted: a client that has read the old one must not store it again.
DELETED_KEPT_MS: Final = 7 * 24 * 3_600_000
#: The number of a lead takes three digits of a reset epoch.
_LEADS: Final = 1000


class RowName(NamedTuple):
    """Whose offsets are stored together: those of one group in one topic on one broker set."""

    cluster: str
    namespace: str
    group: str
    topic: str
    broker_name: str


class Source(enum.StrEnum):
    """Who determined an offset."""

    #: A client committed what it has consumed.
    CLIENT = "client"
    #: An operator has reset or deleted it.
    OPERATOR = "operator"


class StoredOffset(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The next offset to consume and its source, or its deletion."""

    #: 0 to OFFSET_MAX, or DELETED.
    offset: int
    #: A reset raises it; commits of an earlier epoch are refused.
    reset_epoch: int = 0
    source: Source = Source.CLIENT
    #: The client id, or the operator.
    writer: str = ""
    #: When it was stored.
    unix_ms: int = 0

    @property
    def is_deleted(self) -> bool:
        """Whether there is no offset; only the epoch counts then."""
        return self.offset < 0


class Change(NamedTuple):
    name: RowName
    queue_id: int
    before: StoredOffset | None
    after: StoredOffset


def shown(stored: StoredOffset | None) -> StoredOffset | None:
    """Return what readers see of a value: nothing if it was deleted."""
    return None if stored is None or stored.is_deleted else stored


def is_newer(value: StoredOffset, than: StoredOffset | None) -> bool:
    return than is None or (value.reset_epoch, value.offset) > (than.reset_epoch, than.offset)


def begin_epoch(offset: int, before: StoredOffset | None, *, writer: str, unix_ms: int, lead: int) -> StoredOffset:
    """Return an operator's offset in a new reset epoch, in which nothing that was committed or read before counts.

    The epoch has the time in it, so an older copy of the store never gives it again, and the number of the lead in its
    last digits: two managers that reset one queue, each unseen by the other, give different ones.
    """
    least = max((0 if before is None else before.reset_epoch) + 1, unix_ms * _LEADS)
    return StoredOffset(offset, least + (lead - least) % _LEADS, Source.OPERATOR, writer, unix_ms)


def problem_of_names(name: RowName) -> str:
    """Return what is wrong with the names of a row; blank if nothing is. The namespace may be empty."""
    for field, text in zip(RowName._fields, name, strict=True):
        word = field.replace("_", " ")
        if not text.strip() and (text or field != "namespace"):
            return f"the {word} is blank: name it"
        if len(text) > NAME_CHARACTERS_MAX:
            return f"the {word} has {len(text)} characters, at most {NAME_CHARACTERS_MAX} are allowed: {text[:40]!r}..."
        if not is_plain(text):
            return f"the {word} contains characters that cannot be shown: {text!r}"
    return ""


def problem_of_writer(writer: str) -> str:
    """Return what is wrong with a writer; blank if nothing is."""
    if not writer.strip():
        return "the writer is blank: name the client or the operator"
    if not is_plain(writer):
        return f"the writer contains characters that cannot be shown: {writer!r}"
    if (size := len(msgspec.json.encode(writer)) - len('""')) > WRITER_BYTES_MAX:
        return f"the writer takes {size} bytes, at most {WRITER_BYTES_MAX} are allowed: {writer[:40]!r}..."
    return ""


def problem_of_queue(queue_id: int, offset: int) -> str:
    """Return what is wrong with a queue id or an offset; blank if nothing is."""
    if not 0 <= queue_id < QUEUES_MAX:
        return f"queue id {queue_id} is not in 0 to {QUEUES_MAX - 1}"
    if offset < 0:
        return f"offset {offset} is negative: an offset that is not known is left out, never stored"
    return f"offset {offset} is above {OFFSET_MAX}" if offset > OFFSET_MAX else ""


# As bytes

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
        writers = [sys.intern(writer) for writer in record.writers]
        for name, queue_id, value in record.entries:
            yield record.names[name], queue_id, _stored(value, writers)
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
