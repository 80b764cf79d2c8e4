"""Records of the journal: written and read without loss, and refused where they are damaged."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_offset_builders import a_commit, a_deletion, an_offset, offsets, row_name, row_names

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.storage.dirty_offsets import DirtyOffset
from controller.offsets.storage.formats.records import FlushedRow, decoded, encoded_changes, encoded_snapshot
from controller.offsets.values import QueueKey

keys = st.builds(QueueKey, row_names, st.integers(0, 1_023))
changes = st.lists(st.builds(OffsetChange, keys, st.none() | offsets, st.none() | offsets), max_size=5)


@given(changes)
def test_changes_are_read_as_they_were_written(wanted):
    record = decoded(encoded_changes(wanted, ()), 7)
    assert [(key, dirty.after) for key, dirty in record.entries] == [(key, after) for key, _, after in wanted]
    assert [dirty.deleted for _, dirty in record.entries] == [b if a is None else None for _, b, a in wanted]
    assert {dirty.number for _, dirty in record.entries} <= {7}


@given(st.dictionaries(row_names, st.dictionaries(st.integers(0, 99), st.integers(1, 2**60), min_size=1), max_size=4))
def test_flushed_rows_are_read_as_they_were_written(rows):
    flushed = [FlushedRow(of, numbers) for of, numbers in rows.items()]
    assert list(decoded(encoded_changes((), flushed), 7).flushed) == flushed


def test_snapshot_has_the_numbers_of_its_offsets():
    dirty = {0: DirtyOffset(an_offset(5), an_offset(90, epoch=2), 3), 4: DirtyOffset(None, an_offset(1), 6)}
    record = decoded(encoded_snapshot([(row_name(), dirty)]), 9)
    assert {key.queue_id: each for key, each in record.entries} == dirty


def test_names_are_written_once_for_a_batch():
    batch = [a_commit(each, queue_id=each) for each in range(100)]
    assert encoded_changes(batch, ()).count(b"payments") == 1
    assert len(encoded_changes(batch, ())) < 100 * 40


def test_record_cut_anywhere_is_refused():
    body = encoded_changes([a_commit(), a_deletion(an_offset())], [FlushedRow(row_name(), {0: 1})])
    for length in range(len(body)):
        with pytest.raises((ValueError, IndexError, msgspec.DecodeError)):
            decoded(body[:length], 1)


@given(st.binary(max_size=60))
def test_anything_else_is_refused_or_is_a_record(body):
    with contextlib.suppress(ValueError, IndexError, msgspec.DecodeError):
        decoded(body, 1)
