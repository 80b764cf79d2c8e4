"""Entries of offset files: what can be taken from one, and why others cannot. Pure.

An entry is taken whole or not at all: with one queue missing, its consumers would begin anywhere in that queue.
"""

import bisect
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from controller.offsets.files.json_text import (
    JsonObject,
    Node,
    ObjectMember,
    OffsetFileError,
    OtherNumber,
    decode_text,
    parse_json,
)
from controller.offsets.values import OFFSET_MAX, QUEUES_MAX

_QUEUE_ID: Final = re.compile(r"-?[0-9]{1,10}")


class RefusedEntry(NamedTuple):
    """An entry that is not used, while others of its file are."""

    #: Which table has it, and its key as it is written.
    table: str
    key: str
    line: int
    column: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.key!a} of {self.table}: {self.reason}"


class EntryRefused(ValueError):
    """Why an entry is not used, and where that is seen."""

    def __init__(self, reason: str, at: int) -> None:
        self.at = at
        super().__init__(reason)


class SourceText:
    """The text that entries are read from: says where something stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._line_ends: list[int] = []

    def error(self, what: str, at: int) -> OffsetFileError:
        """Return the error for the whole file."""
        return OffsetFileError(what, self.text, at)

    def refused(self, table: str, key: str, error: EntryRefused) -> RefusedEntry:
        """Return the refusal of one entry."""
        # A broken file can have as many refused entries as lines: the lines are counted once.
        ends = self._line_ends = self._line_ends or [found.start() for found in re.finditer("\n", self.text)]
        line = bisect.bisect_left(ends, error.at)
        column = error.at - (ends[line - 1] if line else -1)
        return RefusedEntry(table, key, line + 1, column, str(error))


def read_source(data: bytes) -> tuple[SourceText, dict[str, ObjectMember]]:
    """Return the text of a file, and the members of its outermost object by name; raises OffsetFileError."""
    source = SourceText(decode_text(data))
    return source, fields_of(parse_json(source.text), source)


def fields_of(node: Node, source: SourceText) -> dict[str, ObjectMember]:
    """Return the members of a file's outermost object by name; raises OffsetFileError for anything else."""
    if not isinstance(node, JsonObject):
        raise source.error("this is no object, which every file of offsets is", 0)
    fields: dict[str, ObjectMember] = {}
    for member in node.members:
        if not isinstance(member.key, str):
            raise source.error("the name of a field is no string", member.at)
        if member.key in fields:
            raise source.error(f"the field {member.key} occurs twice: which one counts is unknown", member.at)
        fields[member.key] = member
    return fields


def table_of(fields: Mapping[str, ObjectMember], name: str, source: SourceText) -> list[ObjectMember] | None:
    """Return the members of a table, None if the file has none of that name; raises OffsetFileError for no object."""
    if (member := fields.get(name)) is None:
        return None
    if not isinstance(member.value, JsonObject):
        raise source.error(f"{name} is no object", member.at)
    return member.value.members


def queue_offsets(node: Node, at: int) -> dict[int, int]:
    """Return offsets by queue id; a queue id may be in quotes. Raises EntryRefused."""
    if not isinstance(node, JsonObject):
        raise EntryRefused("these are no offsets by queue id", at)
    offsets: dict[int, int] = {}
    for member in node.members:
        queue_id = _queue_id(member)
        if queue_id in offsets:
            raise EntryRefused(f"queue {queue_id} occurs twice: which offset counts is unknown", member.at)
        offsets[queue_id] = checked_offset(member.value, f"queue {queue_id}", member.at)
    return offsets


def checked_offset(node: Node, what: str, at: int) -> int:
    """Return the offset that a value is; raises EntryRefused for no number of 0 to Java's largest long."""
    # JSON's true and false are integers to Python.
    if isinstance(node, int) and not isinstance(node, bool):
        if 0 <= node <= OFFSET_MAX:
            return node
        raise EntryRefused(f"{what} has offset {node}: offsets are 0 to {OFFSET_MAX}", at)
    if isinstance(node, OtherNumber):
        raise EntryRefused(f"{what} has offset {node.text[:40]}: offsets are whole numbers, 0 to {OFFSET_MAX}", at)
    raise EntryRefused(f"{what} has no number as its offset", at)


def checked_queue_id(queue_id: int, at: int) -> int:
    """Return a queue id; raises EntryRefused for one below 0, or as large as no topic has it."""
    if not 0 <= queue_id < QUEUES_MAX:
        raise EntryRefused(f"queue id {queue_id} is not one of 0 to {QUEUES_MAX - 1}", at)
    return queue_id


def twice_used(keys: Iterable[object]) -> set[object]:
    """Return the keys that occur more than once."""
    return {key for key, times in Counter(keys).items() if times > 1}


def _queue_id(member: ObjectMember) -> int:
    key = member.key
    if isinstance(key, str) and _QUEUE_ID.fullmatch(key) is not None:
        key = int(key)
    if not isinstance(key, int) or isinstance(key, bool):
        raise EntryRefused("a queue id is no whole number", member.at)
    return checked_queue_id(key, member.at)
