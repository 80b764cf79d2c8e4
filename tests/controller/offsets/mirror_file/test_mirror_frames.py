"""Tables and changes as bytes: what is read comes out again, and a change makes one table of another."""

import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirror_builders import SET, a_read, a_reading

from controller.offsets.entry_keys import EntryKey, EntryKind
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror_file.frames import (
    UnreadableFrame,
    by_entry,
    decoded_frame,
    difference,
    drop_absent,
    encoded_frame,
    frame_of,
    merge,
    saved_of,
    table_of,
)

OFFSETS = st.dictionaries(st.integers(0, 20), st.integers(0, 1 << 62), min_size=1, max_size=4)
TABLES = st.dictionaries(
    st.sampled_from(["t@g", "u@g", "t@h", "t@g@broadcast", 'odd"name@g', "ü@g", "%RETRY%g@g"]), OFFSETS, max_size=6
)


@settings(max_examples=40)
@given(st.lists(TABLES, min_size=1, max_size=4))
def test_changes_of_readings_make_the_newest_table(readings):
    mirror, table = BrokerMirror(SET), {}
    for place, each in enumerate(readings):
        moved = mirror.take(a_reading(each, unix_ms=1000 + place)).moved
        merge(table, decoded_frame(encoded_frame(frame_of(moved))))
    drop_absent(table)
    assert table == table_of(mirror.saved)
    restored = BrokerMirror.restored(SET, saved_of(table, a_read()), ())
    moved = restored.take(a_reading(readings[-1], unix_ms=2000)).moved
    assert moved.is_empty, "a restart finds what it knew"


@settings(max_examples=40)
@given(TABLES, TABLES)
def test_difference_makes_one_table_of_another(former, later):
    tables = []
    for each in (former, later):
        mirror = BrokerMirror(SET)
        mirror.take(a_reading(each))
        tables.append(table_of(mirror.saved))
    merge(tables[0], difference(*tables))
    drop_absent(tables[0])
    assert tables[0] == tables[1]


def test_light_message_queues_and_unusable_entries_keep_their_offsets():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5}}, lmq={"%LMQ%x@%LMQ%x": 7}))
    mirror.take(a_reading({"t@g": "{0:-5}"}, lmq={"%LMQ%x@%LMQ%x": 8}, unix_ms=2000))
    saved = saved_of(decoded_frame(encoded_frame(table_of(mirror.saved))), mirror.saved.read)
    assert by_entry(table_of(saved)) == {
        EntryKey("t", "g"): {0: 5},
        EntryKey("%LMQ%x", "%LMQ%x", EntryKind.LMQ): {0: 8},
    }


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense",
        zlib.compress(b"\xc1"),
        zlib.compress(msgspec.msgpack.encode([(False, b"t@g", [1])])),
        zlib.compress(msgspec.msgpack.encode([(False, b"t@g", [None, 1])])),
        encoded_frame({(False, b"t@g"): {0: 5}})[:-3],
    ],
)
def test_bytes_that_are_no_offsets_are_refused(body):
    with pytest.raises(UnreadableFrame):
        decoded_frame(body)


@pytest.mark.parametrize("frame", [{(False, b"nobody"): {0: 5}}, {(False, b"t@g"): {0: -5}}])
def test_table_of_what_is_never_read_is_refused(frame):
    with pytest.raises(UnreadableFrame):
        saved_of(frame, a_read())
