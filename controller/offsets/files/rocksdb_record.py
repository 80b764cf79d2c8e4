"""The records in which a broker with RocksDB (v1) keeps offsets: a key `topic@group`, quoted queue ids. Pure.

Answers to `RocksDBOffsetSerializeWrapper`. Source: docs/protocol/broker-admin.md 15.
"""

import json
from collections.abc import Mapping

from controller.offsets.entry_keys import EntryKey, OddEntryKey, entry_key_text, parse_entry_key
from controller.offsets.files.entries import EntryRefused, queue_offsets, read_source
from controller.offsets.files.json_text import decode_text
from remoting.protocol.shapes.broker_admin import OFFSET_TABLE


def parse_offset_record(key: bytes, value: bytes) -> tuple[EntryKey, dict[int, int]]:
    """Return what a record has, by queue id; raises OffsetFileError for a record that cannot be used."""
    name = decode_text(key)
    source, fields = read_source(value)
    if (member := fields.get(OFFSET_TABLE)) is None:
        raise source.error(f"{name!a}: {OFFSET_TABLE} is missing", 0)
    try:
        return parse_entry_key(name), queue_offsets(member.value, member.at)
    except OddEntryKey as error:
        raise source.error(str(error), 0) from None
    except EntryRefused as error:
        raise source.error(f"{name!a}: {error}", error.at) from None


def emit_offset_record(key: EntryKey, offsets: Mapping[int, int]) -> tuple[bytes, bytes]:
    """Return key and value of a record; raises OddEntryKey for a name that no key can hold."""
    table = {OFFSET_TABLE: {str(queue_id): offset for queue_id, offset in offsets.items()}}
    return entry_key_text(key).encode(), json.dumps(table, separators=(",", ":")).encode()
