"""Records of brokers that keep offsets in RocksDB."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.offsets.entry_keys import EntryKey, EntryKind
from controller.offsets.files.json_text import OffsetFileError
from controller.offsets.files.rocksdb_record import emit_offset_record, parse_offset_record
from controller.offsets.values import OFFSET_MAX

VALUE = b'{"offsetTable":{"0":5,"1":6}}'


def test_record_has_offsets_by_queue():
    assert parse_offset_record(b"TopicTest@g1", VALUE) == (EntryKey("TopicTest", "g1"), {0: 5, 1: 6})


def test_record_is_written_as_a_broker_writes_it():
    assert emit_offset_record(EntryKey("TopicTest", "g1"), {0: 5, 1: 6}) == (b"TopicTest@g1", VALUE)


@given(st.dictionaries(st.integers(0, 99), st.integers(0, OFFSET_MAX)), st.sampled_from('ü{",:组'))
def test_record_is_read_as_it_was_written(offsets, name):
    key = EntryKey(name, name, EntryKind.BROADCAST)
    assert parse_offset_record(*emit_offset_record(key, offsets)) == (key, offsets)


def test_record_that_is_cut_anywhere_is_an_error():
    for cut in range(len(VALUE)):
        with pytest.raises(OffsetFileError):
            parse_offset_record(b"t@g", VALUE[:cut])


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (b"t", VALUE, "no @"),
        (b"t@\xff", VALUE, "no UTF-8"),
        (b"t@g", b"{}", "offsetTable is missing"),
        (b"t@g", b'{"offsetTable":{"0":-5}}', "'t@g': queue 0 has offset -5"),
    ],
)
def test_odd_record_is_an_error(key, value, error):
    with pytest.raises(OffsetFileError, match=error):
        parse_offset_record(key, value)
