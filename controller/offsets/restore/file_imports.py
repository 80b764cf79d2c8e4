"""Offset files as values that restores and imports take, and back. Pure.

A file of a broker names no broker, and one of a client no group: who imports it says which.
Source: docs/protocol/offsets.md 5.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller.offsets.entry_keys import EntryKey, EntryKind, OddEntryKey
from controller.offsets.files.broker_file import BrokerOffsets, emit_broker_file, parse_broker_file
from controller.offsets.files.client_file import emit_client_file, parse_client_file
from controller.offsets.files.json_text import OffsetFileError
from controller.offsets.files.rocksdb_record import emit_offset_record, parse_offset_record
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import SetQueue
from controller.offsets.restore.requests import RestoreRefused
from remoting.admin.message_queues import MessageQueue

#: Problems of one file that are listed.
PROBLEMS_MAX: Final = 1_000
_KINDS: Final = {
    EntryKind.BROADCAST: "the offsets of broadcasting groups are with their members",
    EntryKind.LMQ: "offsets of light queues are not imported: their ends are not known for certain",
}


class FileDialect(enum.StrEnum):
    """Who writes such a file."""

    #: consumerOffset.json, lmqConsumerOffset.json.
    BROKER = "broker"
    #: offsets.json of a client that keeps its own offsets.
    CLIENT = "client"
    #: Records of a broker with RocksDB.
    ROCKSDB = "rocksdb"


class UnusableFile(RestoreRefused):
    """A file cannot be imported, or offsets cannot be exported; the sentence names the place."""


class FileRecord(NamedTuple):
    """A record of RocksDB."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """What a file has."""

    offsets: Mapping[SetQueue, int]
    #: Why entries are not used, each with its place.
    problems: Sequence[str]


class FileOwner(NamedTuple):
    """What a file does not say of itself."""

    cluster: str
    #: Blank for files of clients.
    broker_name: str = ""
    #: Blank for files of brokers.
    group: str = ""


def import_broker_file(data: bytes, owner: FileOwner) -> ImportedFile:
    """Return what a file of a broker has; raises UnusableFile."""
    try:
        read = parse_broker_file(data)
    except OffsetFileError as error:
        raise UnusableFile(f"the file cannot be used: {error}") from None
    problems = [str(each) for each in read.refused]
    tables = [(key, offsets) for key, offsets in read.found.offsets.items()]
    tables += [(key, {0: offset}) for key, offset in (read.found.lmq_offsets or {}).items()]
    return _imported(tables, owner, problems)


def import_client_file(data: bytes, owner: FileOwner) -> ImportedFile:
    """Return what a file of a client has, as the offsets of its group; raises UnusableFile."""
    try:
        read = parse_client_file(data)
    except OffsetFileError as error:
        raise UnusableFile(f"the file cannot be used: {error}") from None
    found = {
        SetQueue(SetName(owner.cluster, queue.broker_name), EntryKey(queue.topic, owner.group), queue.queue_id): offset
        for queue, offset in read.offsets.items()
    }
    return ImportedFile(offsets=found, problems=_listed(str(each) for each in read.refused))


def import_records(records: Iterable[FileRecord], owner: FileOwner) -> ImportedFile:
    """Return what records of RocksDB have; one that cannot be used is a problem."""
    tables: dict[EntryKey, Mapping[int, int]] = {}
    problems: list[str] = []
    for number, (key, value) in enumerate(records):
        try:
            entry, offsets = parse_offset_record(key, value)
        except OffsetFileError as error:
            problems.append(f"record {number}: {error}")
            continue
        if entry in tables:
            raise UnusableFile(f"record {number}: {key!a} occurs twice: which one counts is unknown")
        tables[entry] = offsets
    return _imported(tables.items(), owner, problems)


def export_broker_file(offsets: Mapping[SetQueue, int]) -> bytes:
    """Return a file as a broker of 4.9 writes it, which all releases read; raises UnusableFile."""
    try:
        return emit_broker_file(BrokerOffsets(offsets=_by_entry(offsets)))
    except OddEntryKey as error:
        raise UnusableFile(str(error)) from None


def export_client_file(offsets: Mapping[SetQueue, int]) -> bytes:
    """Return a file as a client of one group writes it; raises UnusableFile for offsets of several."""
    groups = {queue.key.group for queue in offsets}
    if len(groups) > 1:
        raise UnusableFile("a file of a client has the offsets of one group: name it")
    return emit_client_file(
        {
            MessageQueue(topic=each.key.topic, broker_name=each.set_name.broker_name, queue_id=each.queue_id): offset
            for each, offset in offsets.items()
        }
    )


def export_records(offsets: Mapping[SetQueue, int]) -> list[FileRecord]:
    """Return records as a broker with RocksDB has them; raises UnusableFile."""
    try:
        return [FileRecord(*emit_offset_record(key, queues)) for key, queues in _by_entry(offsets).items()]
    except OddEntryKey as error:
        raise UnusableFile(str(error)) from None


def _by_entry(offsets: Mapping[SetQueue, int]) -> dict[EntryKey, dict[int, int]]:
    """Return the offsets of one broker set by entry; raises UnusableFile for those of several."""
    if len({queue.set_name for queue in offsets}) > 1:
        raise UnusableFile("a file of a broker has the offsets of one broker set: name it")
    found: dict[EntryKey, dict[int, int]] = {}
    for queue, offset in offsets.items():
        found.setdefault(queue.key, {})[queue.queue_id] = offset
    return found


def _imported(
    tables: Iterable[tuple[EntryKey, Mapping[int, int]]], owner: FileOwner, problems: list[str]
) -> ImportedFile:
    set_name = SetName(owner.cluster, owner.broker_name)
    found: dict[SetQueue, int] = {}
    for key, offsets in tables:
        if why := _KINDS.get(key.kind):
            problems.append(f"group {key.group!a} in topic {key.topic!a}: {why}")
        elif not owner.group or key.group == owner.group:
            found |= {SetQueue(set_name, key, queue_id): offset for queue_id, offset in offsets.items()}
    return ImportedFile(offsets=found, problems=_listed(problems))


def _listed(problems: Iterable[str]) -> list[str]:
    """Return the first problems, and how many there are beside."""
    every = list(problems)
    rest = len(every) - PROBLEMS_MAX
    return every if rest <= 0 else [*every[:PROBLEMS_MAX], f"and {rest} more"]
