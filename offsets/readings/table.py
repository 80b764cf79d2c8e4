"""The offsets of one answer to 43 as text: compared as bytes, kept as differences, decoded where they are wanted. Pure.

A broker writes an entry where it wrote it before, and most entries stand still: so both answers are split at their
entries, and those that differ are found by one comparison of bytes each.

    trail = Trail()
    changes, stored = trail.take(offsets_text(answer), now_ms)
    trail.offsets[GroupTopic("group", "topic")]     # {0: 17, 1: 20}

Source: docs/protocol/broker-admin.md 15.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

import msgspec

from offsets.values import GroupTopic, QueueOffsets
from remoting.admin.offset_table import decode_offsets
from remoting.protocol.errors import BodyError
from remoting.protocol.object_keys import with_quoted_keys
from remoting.protocol.shapes.broker_admin import OFFSET_KEY_SEPARATOR

#: A trail stores all entries once in so long, and what changes in between; once an hour if nothing does.
FULL_MS: Final = 60_000
IDLE_FULL_MS: Final = 60 * FULL_MS

_BETWEEN: Final = b'},"'
_BEFORE_VALUE: Final = b'":{'
_SEPARATOR: Final = OFFSET_KEY_SEPARATOR.encode()
#: An entry without the quote before it and the brace behind it, as brokers write those that are used here. Topics have
#: no @; names with quotes, backslashes and braces are read by nobody.
_ENTRY: Final = re.compile(rb'[^"\\{}@]++@[^"\\{}]++":\{(?:"?[0-9]{1,9}"?:[0-9]{1,18}(?:,(?="?[0-9])|$))*+', re.DOTALL)
#: The least work of zlib: numbers take a third of their text even so.
_LEVEL: Final = 1


class Change(NamedTuple):
    """The values of one entry before and after, without braces; None where there was, or is, none."""

    before: bytes | None
    after: bytes | None


class StoredTable(msgspec.Struct, frozen=True, array_like=True):
    """One reading of a table as it is stored: all of its entries, or what differs from the reading before."""

    is_full: bool
    #: zlib of entries as `offsets_text` has them: all, or those that are new or changed.
    entries: bytes
    #: Keys of entries that are gone.
    gone: tuple[bytes, ...] = ()


def offsets_text(body: bytes, table: str) -> bytes | None:
    """Return the entries of a table in an answer, without the braces around them; None if the answer has no such table.

    Raises BodyError for an answer that was cut.
    """
    name = b'"%b":{' % table.encode()
    if (start := body.find(name)) < 0 and name[:-2] in body:
        # No broker writes blanks into an answer; another server may.
        body = _without_blanks(body)
        start = body.find(name)
    while start > 0 and body[start - 1 : start] == b"\\":
        start = body.find(name, start + 1)
    if start < 0:
        return None
    start += len(name)
    if body.startswith(b"}", start):
        return b""
    end = body.find(b"}}", start)
    while end >= 0 and body[end + 2 : end + 3] not in (b",", b"}"):
        end = body.find(b"}}", end + 1)
    if end < 0 or not body.endswith(b"}"):
        raise BodyError(f"the {table} of a response of {len(body)} bytes has no end")
    return body[start : end + 1]


def _without_blanks(body: bytes) -> bytes:
    try:
        return msgspec.json.format(with_quoted_keys(body), indent=-1)
    except msgspec.DecodeError as error:
        raise BodyError(f"a response of {len(body)} bytes is no JSON: {error}") from None


def split_entries(text: bytes) -> list[bytes]:
    """Return the entries of a table, each without the quote before it and the brace behind it."""
    return text[1:-1].split(_BETWEEN) if text else []


def changes_between(before: bytes, after: bytes) -> dict[bytes, Change]:
    """Return what differs between two tables, by key; entries that are not written as usual are left out."""
    if before == after:
        return {}
    old, new = split_entries(before), split_entries(after)
    if len(old) == len(new):
        pairs = [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]
        if all(_key(former) == _key(entry) for former, entry in pairs):
            return dict(_changes(_values(former for former, _ in pairs), _values(entry for _, entry in pairs)))
    known = frozenset(old)
    kept = known.intersection(new)
    return dict(_changes(_values(known - kept), _values(entry for entry in new if entry not in kept)))


def decoded_key(key: bytes) -> GroupTopic:
    """Return whom a key of an entry names; a group that broadcasts keeps its suffix."""
    topic, _, group = key.decode(errors="replace").partition(OFFSET_KEY_SEPARATOR)
    return GroupTopic(group, topic)


def decoded_value(value: bytes | None) -> QueueOffsets:
    """Return offsets by queue id; none for None."""
    return {} if value is None else decode_offsets(b"{%b}" % value)


def unpacked(stored: Iterable[StoredTable]) -> dict[bytes, bytes]:
    """Return the values by key of a table that is full, and of all changes up to one reading.

    Raises zlib.error for damaged bytes.
    """
    values: dict[bytes, bytes] = {}
    for table in stored:
        values.update(_values(split_entries(zlib.decompress(table.entries))))
        for key in table.gone:
            values.pop(key, None)
    return values


class TableOffsets(Mapping[GroupTopic, QueueOffsets]):
    """The offsets of one reading; unpacked at the first look, decoded at each."""

    def __init__(self, stored: tuple[StoredTable, ...]) -> None:
        """Take a table that is full, and all changes up to this reading."""
        self._stored = stored

    @cached_property
    def _values(self) -> Mapping[GroupTopic, bytes]:
        return {decoded_key(key): value for key, value in unpacked(self._stored).items()}

    def text(self) -> bytes:
        """Return the entries as `offsets_text` does."""
        return entries_text(unpacked(self._stored))

    def __getitem__(self, key: GroupTopic) -> QueueOffsets:
        """Return the offsets of a group in a topic; raises KeyError if it had none."""
        return decoded_value(self._values[key])

    def __iter__(self) -> Iterator[GroupTopic]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Trail:
    """The table of one broker from reading to reading: the newest text, and what older readings are made of."""

    def __init__(self, former: bytes | None = None) -> None:
        """Begin anew, or behind the entries of an earlier reading."""
        #: Of the newest reading.
        self.text = former or b""
        self._has_text = former is not None
        #: Of the newest reading.
        self.offsets = TableOffsets(())
        #: How many entries the newest reading has, and those that are not written as usual.
        self.entries = self.left_out = 0
        #: When a reading differed last from the one before it, monotonic ms; None: none has.
        self.changed_ms: int | None = None
        self._stored: list[StoredTable] = []
        self._full_ms = 0

    def take(self, text: bytes, now_ms: int, *, is_full: bool = False) -> tuple[Mapping[bytes, Change], StoredTable]:
        """Take a reading; return what has changed since the one before, and the reading as it is stored.

        It is stored in full once in FULL_MS, if anything has changed since, and if that is wanted.
        """
        changes = changes_between(self.text, text) if self._has_text else {}
        self._has_text = True
        if changes:
            self.changed_ms = now_ms
        full_ms = FULL_MS if changes or len(self._stored) > 1 else IDLE_FULL_MS
        if is_full or not self._stored or now_ms - self._full_ms >= full_ms:
            self._stored, self._full_ms = [], now_ms
            stored = StoredTable(is_full=True, entries=zlib.compress(text, _LEVEL))
        else:
            gone = tuple(key for key, change in changes.items() if change.after is None)
            moved = {key: change.after for key, change in changes.items() if change.after is not None}
            stored = StoredTable(is_full=False, entries=zlib.compress(entries_text(moved), _LEVEL), gone=gone)
        self.text = text
        if (entries := text.count(_BETWEEN) + bool(text)) != self.entries:
            self.entries, self.left_out = entries, entries - len(_values(split_entries(text)))
        if changes or stored.is_full:
            self._stored.append(stored)
            self.offsets = TableOffsets(tuple(self._stored))
        return changes, stored

    def entry_keys(self) -> Iterator[bytes]:
        return iter(_values(split_entries(self.text)))


def entries_text(values: Mapping[bytes, bytes]) -> bytes:
    """Return entries as `offsets_text` does."""
    entries = _BETWEEN.join(b"%b%b%b" % (key, _BEFORE_VALUE, value) for key, value in values.items())
    return b'"%b}' % entries if entries else b""


def same_entries(one: bytes, other: bytes) -> bool:
    """Return whether two brokers have the same entries, in whatever order."""
    return one == other or frozenset(split_entries(one)) == frozenset(split_entries(other))


def _key(entry: bytes) -> bytes:
    return entry[: entry.find(_BEFORE_VALUE)]


def _values(entries: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the value of each usual entry by its key."""
    usual = (entry.partition(_BEFORE_VALUE) for entry in entries if _ENTRY.fullmatch(entry) is not None)
    return {key: value for key, _, value in usual}


def _changes(before: Mapping[bytes, bytes], after: Mapping[bytes, bytes]) -> Iterator[tuple[bytes, Change]]:
    for key, value in after.items():
        yield key, Change(before.get(key), value)
    for key in before.keys() - after.keys():
        yield key, Change(before[key], None)
