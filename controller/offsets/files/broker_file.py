"""The offset files of a broker: consumerOffset.json and lmqConsumerOffset.json, with their `.bak`. Pure.

Answers to `ConsumerOffsetManager` and `LmqConsumerOffsetManager`. 4.9 writes `offsetTable` alone; 5.x adds
`dataVersion` and `groupTopicMap`, which it makes of the table, and 5.5 `pullOffsetTable`. 5.5 begins a line for each
queue, older releases one for all queues of an entry; none minds the other. Source: docs/protocol/offsets.md 5.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from controller.offsets.entry_keys import EntryKey, EntryKind, OddEntryKey, entry_key_text, parse_entry_key, shown
from controller.offsets.files.entries import (
    EntryRefused,
    RefusedEntry,
    SourceText,
    checked_offset,
    queue_offsets,
    read_source,
    table_of,
    twice_used,
)
from controller.offsets.files.json_text import JsonObject, ObjectMember
from remoting.protocol.shapes.broker_admin import LMQ_OFFSET_TABLE, OFFSET_TABLE, PULL_OFFSET_TABLE

_DATA_VERSION: Final = "dataVersion"
_GROUP_TOPICS: Final = "groupTopicMap"

#: Offsets by queue id.
Offsets = Mapping[int, int]
#: Puts the queues of an entry, or the topics of a group, in brackets.
_Layout = Callable[[str, Iterable[str]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsVersion:
    """How often the offsets of a broker have changed (5.x): of two files the one with the larger counter is newer."""

    counter: int
    state_version: int = 0
    #: Unix ms.
    timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOffsets:
    """What a broker has stored. None is a table or field that its release does not have, which is not an empty one."""

    offsets: Mapping[EntryKey, Offsets]
    #: With it the broker is one of 5.x.
    version: OffsetsVersion | None = None
    #: Positions pulled from (5.5); they are not committed.
    pull_offsets: Mapping[EntryKey, Offsets] | None = None
    #: Of light message queues: of each the offset of its only queue.
    lmq_offsets: Mapping[EntryKey, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFile:
    """A file that was read: what it has, and entries that are not used."""

    found: BrokerOffsets
    refused: tuple[RefusedEntry, ...] = ()


def parse_broker_file(data: bytes) -> BrokerFile:
    """Return what a file of any release has; raises OffsetFileError if it cannot be used as a whole.

    A file without `offsetTable` is such a one: that nothing is stored is written as an empty table.
    """
    source, fields = read_source(data)
    reader = _BrokerFileReader(source)
    offsets = reader.offsets(fields, OFFSET_TABLE)
    if offsets is None:
        raise source.error(f"{OFFSET_TABLE} is missing: this is no offset file of a broker", 0)
    found = BrokerOffsets(
        offsets=offsets,
        version=reader.version(fields),
        pull_offsets=reader.offsets(fields, PULL_OFFSET_TABLE),
        lmq_offsets=reader.lmq_offsets(fields),
    )
    return BrokerFile(found=found, refused=tuple(reader.refused))


def emit_broker_file(content: BrokerOffsets) -> bytes:
    """Return a file as a broker writes it, and reads it.

    Raises OddEntryKey for a name that no key can hold, and for a key in a table of another kind.
    """
    fields: list[str] = []
    layout = _on_one_line if content.pull_offsets is None else _on_lines
    if (version := content.version) is not None:
        numbers = {
            "counter": version.counter,
            "stateVersion": version.state_version,
            "timestamp": version.timestamp,
        }
        fields.append(_field(_DATA_VERSION, _numbers(numbers, depth=2)))
        topics = _topics_by_group(content.offsets).items()
        lists = {group: layout("[]", map(_quoted, names)) for group, names in topics}
        fields.append(_field(_GROUP_TOPICS, _members(lists, depth=2)))
    if content.lmq_offsets is not None:
        entries = {_key_text(key, is_lmq=True): offset for key, offset in content.lmq_offsets.items()}
        fields.append(_field(LMQ_OFFSET_TABLE, _numbers(entries, depth=2)))
    fields.append(_field(OFFSET_TABLE, _offset_table(content.offsets, layout)))
    if content.pull_offsets is not None:
        fields.append(_field(PULL_OFFSET_TABLE, _offset_table(content.pull_offsets, layout)))
    return _lines("{}", fields, depth=1).encode()


class _BrokerFileReader:
    """Reads the tables of one file, and keeps what it refuses."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.refused: list[RefusedEntry] = []

    def offsets(self, fields: Mapping[str, ObjectMember], name: str) -> dict[EntryKey, Offsets] | None:
        """Return a table of offsets by queue id."""
        if (members := table_of(fields, name, self.source)) is None:
            return None
        found: dict[EntryKey, Offsets] = {}
        for key, member in self._entries(members, name):
            try:
                found[key] = queue_offsets(member.value, member.at)
            except EntryRefused as error:
                self._refuse(name, member, error)
        return found

    def lmq_offsets(self, fields: Mapping[str, ObjectMember]) -> dict[EntryKey, int] | None:
        """Return the table of light message queues."""
        name = LMQ_OFFSET_TABLE
        if (members := table_of(fields, name, self.source)) is None:
            return None
        found: dict[EntryKey, int] = {}
        for key, member in self._entries(members, name):
            try:
                found[key] = checked_offset(member.value, "the queue", member.at)
            except EntryRefused as error:
                self._refuse(name, member, error)
        return found

    def version(self, fields: Mapping[str, ObjectMember]) -> OffsetsVersion | None:
        """Return the version; raises OffsetFileError for one that is none: then the file is damaged."""
        if (member := fields.get(_DATA_VERSION)) is None:
            return None
        if not isinstance(member.value, JsonObject):
            raise self.source.error(f"{_DATA_VERSION} is no object", member.at)
        numbers: dict[str, int] = {}
        for each in member.value.members:
            if isinstance(each.key, str) and type(each.value) is int:
                numbers[each.key] = each.value
        if "counter" not in numbers:
            raise self.source.error(f"{_DATA_VERSION} has no counter", member.at)
        return OffsetsVersion(
            counter=numbers["counter"],
            state_version=numbers.get("stateVersion", 0),
            timestamp=numbers.get("timestamp", 0),
        )

    def _entries(self, members: list[ObjectMember], table: str) -> Iterable[tuple[EntryKey, ObjectMember]]:
        """Yield entries with keys that name somebody, and only once."""
        twice = twice_used(each.key for each in members if isinstance(each.key, str))
        for member in members:
            if not isinstance(member.key, str):
                self._refuse(table, member, EntryRefused("the key is no string", member.at))
            elif member.key in twice:
                reason = "it occurs more than once: which one counts is unknown"
                self._refuse(table, member, EntryRefused(reason, member.at))
            else:
                try:
                    yield parse_entry_key(member.key, is_lmq=table == LMQ_OFFSET_TABLE), member
                except OddEntryKey as error:
                    self._refuse(table, member, EntryRefused(str(error), member.at))

    def _refuse(self, table: str, member: ObjectMember, error: EntryRefused) -> None:
        key = member.key if isinstance(member.key, str) else ""
        self.refused.append(self.source.refused(table, key, error))


def _topics_by_group(keys: Iterable[EntryKey]) -> dict[str, list[str]]:
    topics: dict[str, list[str]] = {}
    for key in keys:
        if key.kind is EntryKind.CLUSTERING:
            topics.setdefault(key.group, []).append(key.topic)
    return topics


def _offset_table(table: Mapping[EntryKey, Offsets], layout: _Layout) -> str:
    return _members(
        {
            _key_text(key, is_lmq=False): layout("{}", (f"{queue_id}:{offset}" for queue_id, offset in offsets.items()))
            for key, offsets in table.items()
        },
        depth=2,
    )


def _key_text(key: EntryKey, *, is_lmq: bool) -> str:
    if (key.kind is EntryKind.LMQ) is not is_lmq:
        table = LMQ_OFFSET_TABLE if is_lmq else OFFSET_TABLE
        raise OddEntryKey(
            f"group {shown(key.group)} in topic {shown(key.topic)} is of kind {key.kind.value}: in {table} it would be "
            "read as another one"
        )
    return entry_key_text(key)


def _field(name: str, text: str) -> str:
    return f"{_quoted(name)}:{text}"


def _numbers(numbers: Mapping[str, int], depth: int) -> str:
    return _members({name: str(number) for name, number in numbers.items()}, depth)


def _members(members: Mapping[str, str], depth: int) -> str:
    return _lines("{}", (f"{_quoted(name)}:{text}" for name, text in members.items()), depth)


def _lines(brackets: str, elements: Iterable[str], depth: int) -> str:
    """Return elements in brackets, each on a line of its own behind so many tabs."""
    lines = ",".join("\n" + "\t" * depth + each for each in elements)
    end = "\n" + "\t" * (depth - 1) if lines else ""
    return f"{brackets[0]}{lines}{end}{brackets[1]}"


def _on_one_line(brackets: str, elements: Iterable[str]) -> str:
    """Return elements as releases before 5.4 write them, which begin a line only before the end of a map."""
    text = ",".join(elements)
    end = "\n\t\t" if text and brackets == "{}" else ""
    return f"{brackets[0]}{text}{end}{brackets[1]}"


def _on_lines(brackets: str, elements: Iterable[str]) -> str:
    return _lines(brackets, elements, depth=3)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
