"""Rows as JSON: written and read without loss, and what cannot be read says why."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_offset_builders import a_commit, an_offset, offsets, row_name

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.storage.formats.batches import BATCH_BYTES_MAX, KeyPut
from controller.offsets.storage.formats.checks import ChangeRefused, check_changes
from controller.offsets.storage.formats.row_keys import path_of
from controller.offsets.storage.formats.row_values import UnreadableRow, decoded_row, encoded_row
from controller.offsets.values import NAME_CHARACTERS_MAX, OFFSET_MAX, QUEUES_MAX, OffsetSource, QueueKey, StoredOffset

QUEUE = [5280, 0, "client", 0, 0, 1_800_000_000_000]


@given(st.dictionaries(st.integers(0, 1_023), offsets, max_size=6))
def test_rows_are_read_as_they_were_written(queues):
    assert decoded_row(encoded_row(queues)) == queues


def test_row_is_json_that_people_can_read():
    value = json.loads(encoded_row({1: an_offset(5312), 0: an_offset(5280)}))
    assert value["v"] == 1
    assert value["writers"] == ["10.0.0.1@7"]
    assert next(iter(value["queues"].items())) == ("0", QUEUE)


def test_row_of_a_later_release_names_the_two_versions():
    with pytest.raises(UnreadableRow, match="version 2, and this release reads version 1"):
        decoded_row(b'{"v":2,"somethingElse":{}}')
    with pytest.raises(UnreadableRow, match="version 2"):
        decoded_row(b'{"v":2,"writers":[],"queues":{}}')


@pytest.mark.parametrize(
    "queues",
    [
        {"-1": QUEUE},
        {"1024": QUEUE},
        {"x": QUEUE},
        {"0": QUEUE[:5]},
        {"0": [*QUEUE, 1]},
        {"0": [-2, *QUEUE[1:]]},
        {"0": [OFFSET_MAX + 1, *QUEUE[1:]]},
        {"0": [1.5, *QUEUE[1:]]},
        {"0": ["5280", *QUEUE[1:]]},
        {"0": [5280, 0, "somebody", 0, 0, 0]},
        {"0": [5280, 0, "client", 1, 0, 0]},
        {"0": None},
        [],
    ],
    ids=str,
)
def test_absurd_values_make_a_row_unreadable(queues):
    with pytest.raises(UnreadableRow):
        decoded_row(json.dumps({"v": 1, "writers": ["c"], "queues": queues}).encode())


def test_row_cut_anywhere_is_unreadable():
    value = encoded_row({0: an_offset(), 1: an_offset()})
    for length in range(len(value)):
        with pytest.raises(UnreadableRow):
            decoded_row(value[:length])


def test_no_utf8_is_unreadable():
    with pytest.raises(UnreadableRow):
        decoded_row(b'{"v":1,"writers":["\xff"],"queues":{}}')


def test_largest_row_within_the_limits_fits_into_one_request():
    """So nothing is acknowledged that no request takes."""
    longest = "订" * NAME_CHARACTERS_MAX
    queues = {
        queue_id: StoredOffset(
            OFFSET_MAX, OFFSET_MAX, OffsetSource.OPERATOR, longest[:-1] + chr(0x4E00 + queue_id), OFFSET_MAX, OFFSET_MAX
        )
        for queue_id in range(QUEUES_MAX)
    }
    of = row_name(longest, longest, longest, cluster=longest, namespace=longest)
    check_changes([OffsetChange(QueueKey(of, queue_id), None, each) for queue_id, each in queues.items()])
    put = KeyPut(f"/rmq-offsets/{'g' * 60}/offsets/{path_of(of)}".encode(), encoded_row(queues), 1)
    assert put.request_bytes <= BATCH_BYTES_MAX


def test_writer_that_takes_more_bytes_than_a_row_has_for_it_is_refused():
    with pytest.raises(ChangeRefused, match="takes 1020 bytes; shorten it to 765"):
        check_changes([a_commit(writer="\N{GRINNING FACE}" * 255)])
    check_changes([a_commit(writer="\N{GRINNING FACE}" * 191)])
