"""Rows and records as bytes."""

import pytest
from commit_builders import a_change, a_row, a_value
from hypothesis import given
from hypothesis import strategies as st

from offsets.commits.stored import (
    DELETED,
    RowName,
    Source,
    StoredOffset,
    Unreadable,
    decoded_record,
    decoded_row,
    encoded_record,
    encoded_row,
    name_of,
    path_of,
)
from offsets.values import OFFSET_MAX, QUEUES_MAX

NAMES = st.builds(RowName, *[st.text(st.characters(codec="utf-8"), max_size=12)] * 5)
LONGS = st.integers(0, OFFSET_MAX)
VALUES = st.builds(
    StoredOffset,
    st.integers(DELETED, OFFSET_MAX),
    LONGS,
    st.sampled_from(Source),
    st.text(st.characters(codec="utf-8"), max_size=12),
    LONGS,
)
QUEUES = st.dictionaries(st.integers(0, QUEUES_MAX - 1), VALUES, max_size=5)


@given(QUEUES)
def test_row_is_read_as_it_was_written(queues):
    assert decoded_row(encoded_row(queues)) == queues


@given(NAMES)
def test_key_names_its_row_and_no_name_ends_a_part(name):
    path = path_of(name)
    assert path.count("/") == 4
    assert name_of(path) == name


@given(st.lists(st.tuples(NAMES, st.integers(0, QUEUES_MAX - 1), VALUES), max_size=6))
def test_record_is_read_as_it_was_written(entries):
    changes = [a_change(0, queue, row=name)._replace(after=value) for name, queue, value in entries]
    assert list(decoded_record(encoded_record(changes))) == entries


def test_row_is_json_with_each_writer_once():
    queues = {
        1: a_value(5312, unix_ms=7),
        0: a_value(DELETED, epoch=9, writer="alice", source=Source.OPERATOR, unix_ms=8),
    }
    assert encoded_row(queues) == (
        b'{"v":2,"writers":["alice","client-1"],"queues":{"0":[-1,9,"operator",0,8],"1":[5312,0,"client",1,7]}}'
    )


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "truncated"),
        (b'{"v":3,"anything":1}', "version 3"),
        (b'{"v":2,"writers":[],"queues":{"0":[1,0,"client",0,0]}}', "index"),
        (b'{"v":2,"writers":["a"],"queues":{"0":[-2,0,"client",0,0]}}', ">= -1"),
        (b'{"v":2,"writers":["a"],"queues":{"1024":[1,0,"client",0,0]}}', "<= 1023"),
        (b'{"v":2,"writers":["\xff"],"queues":{}}', "utf"),
    ],
)
def test_row_that_is_none_of_this_release_says_why(body, why):
    with pytest.raises(Unreadable, match=why) as caught:
        decoded_row(body)
    assert why.lower() in str(caught.value).lower()


@pytest.mark.parametrize("path", ["a/b/c/d", "a/b/c/d/e/f", "a/b/c/d/%FF", "a/b/c/d/%65", "A//b/c/d/e"])
def test_key_of_another_kind_is_no_row(path):
    with pytest.raises(Unreadable):
        name_of(path)


def test_longest_row_fits_into_one_request_to_etcd():
    longest = {
        queue: a_value(OFFSET_MAX, epoch=OFFSET_MAX, writer=f"{queue:0>4}" + '"' * 190, unix_ms=OFFSET_MAX)
        for queue in range(QUEUES_MAX)
    }
    name = a_row(*["ß" * 255] * 3, namespace="ß" * 255, cluster="ß" * 255)
    assert len(encoded_row(longest)) + 3 * len(path_of(name)) < 1 << 20


def test_record_that_is_damaged_is_unreadable():
    body = encoded_record([a_change(5)])
    for damaged in (body[:-1], b"", body + b"\x00"):
        with pytest.raises(Unreadable):
            list(decoded_record(damaged))
