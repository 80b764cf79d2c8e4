"""Tables of offsets as text: what differs between two of them, and what is kept of a row of readings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_brokers import offsets_body

from offsets.readings.table import (
    Change,
    TableOffsets,
    Trail,
    changes_between,
    offsets_text,
    same_entries,
    split_entries,
)
from offsets.values import GroupTopic
from remoting.protocol.errors import BodyError

ORDERS = {"orders@g": {0: 5, 1: 7}, "bills@g": {0: 1}, "orders@h": {3: 9}}


def text_of(table):
    return offsets_text(offsets_body(table), "offsetTable")


def changed(before, after):
    return changes_between(text_of(before), text_of(after))


def test_entries_of_one_table_are_found_among_others():
    body = offsets_body(ORDERS, pulled={"orders@g": {0: 6}})

    assert split_entries(offsets_text(body, "offsetTable")) == [
        b'orders@g":{0:5,1:7',
        b'bills@g":{0:1',
        b'orders@h":{3:9',
    ]
    assert offsets_text(body, "pullOffsetTable") == b'"orders@g":{0:6}'
    assert offsets_text(body, "lmqOffsetTable") is None


def test_answer_with_blanks_is_read_as_one_without_them():
    body = b'{\n\t"offsetTable" : {\n\t\t"orders@g" : {0:5, 1:7\n\t\t}, "bills@g": {0:1}\n\t}\n}'
    assert offsets_text(body, "offsetTable") == b'"orders@g":{"0":5,"1":7},"bills@g":{"0":1}'
    with pytest.raises(BodyError):
        offsets_text(body[:-4], "offsetTable")


def test_entries_that_are_not_written_as_usual_are_counted():
    trail = Trail()
    for table, left_out in ((ORDERS | {'q\\"@g': {0: 1}, "y@g": "{a:1}"}, 2), (ORDERS, 0), ({}, 0)):
        trail.take(text_of(table), 0)
        assert (trail.entries, trail.left_out) == (len(table), left_out)


def test_table_without_entries_is_none_and_a_cut_answer_an_error():
    assert text_of({}) == b""
    assert split_entries(b"") == []
    body = offsets_body(ORDERS)
    for cut in (body[:-40], body[: body.index(b"}}")]):
        with pytest.raises(BodyError):
            offsets_text(cut, "offsetTable")


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (ORDERS, {}),
        (ORDERS | {"bills@g": {0: 2}}, {b"bills@g": Change(b"0:1", b"0:2")}),
        (ORDERS | {"new@g": {0: 2}}, {b"new@g": Change(None, b"0:2")}),
        ({"orders@g": {0: 5, 1: 7}, "orders@h": {3: 9}}, {b"bills@g": Change(b"0:1", None)}),
        # The broker writes them in another order.
        (dict(reversed(ORDERS.items())), {}),
        (dict(reversed(ORDERS.items())) | {"bills@g": {0: 2}}, {b"bills@g": Change(b"0:1", b"0:2")}),
        (
            {},
            {
                b"orders@g": Change(b"0:5,1:7", None),
                b"bills@g": Change(b"0:1", None),
                b"orders@h": Change(b"3:9", None),
            },
        ),
        # What is not written as usual is not there.
        (ORDERS | {"bills@g": {0: -1}}, {b"bills@g": Change(b"0:1", None)}),
        (ORDERS | {"no name": {0: 1}, 'q\\"@g': {0: 1}, "x@g": "{0:1,}", "y@g": "{a:1}"}, {}),
    ],
)
def test_what_differs_is_found_by_key(after, expected):
    assert changed(ORDERS, after) == expected


def test_offsets_are_decoded_for_groups_and_broadcasting_keeps_its_name():
    trail = Trail()
    trail.take(text_of(ORDERS | {"orders@b@broadcast": {0: 3}, "quoted@g": '{"0":4}'}), 0)

    assert dict(trail.offsets) == {
        GroupTopic("g", "orders"): {0: 5, 1: 7},
        GroupTopic("g", "bills"): {0: 1},
        GroupTopic("h", "orders"): {3: 9},
        GroupTopic("b@broadcast", "orders"): {0: 3},
        GroupTopic("g", "quoted"): {0: 4},
    }
    assert len(trail.offsets) == 5
    assert GroupTopic("g", "nothing") not in trail.offsets


def test_names_that_look_like_tables_and_ends_are_neither():
    topics = (
        b'{"groupTopicMap":{"g\\"offsetTable":{}},"offsetTable":{"orders@g":{0:2},"a}}b@g":{0:1},"z@g":{0:3}},"x":{}}'
    )
    assert changes_between(b"", offsets_text(topics, "offsetTable")) == {
        b"orders@g": Change(None, b"0:2"),
        b"z@g": Change(None, b"0:3"),
    }


def test_a_name_that_is_no_utf_8_hides_no_other():
    trail = Trail()
    trail.take(b'"orders@\xff":{0:1},"orders@g":{0:2}', 0)
    assert trail.offsets[GroupTopic("g", "orders")] == {0: 2}
    assert len(trail.offsets) == 2


def test_two_brokers_have_the_same_in_any_order():
    assert same_entries(text_of(ORDERS), text_of(dict(reversed(ORDERS.items()))))
    assert not same_entries(text_of(ORDERS), text_of({}))


def test_first_reading_changes_nothing_unless_an_earlier_process_has_left_one():
    assert Trail().take(text_of(ORDERS), 0)[0] == {}
    restored = Trail(text_of(ORDERS | {"bills@g": {0: 0}}))
    changes, stored = restored.take(text_of(ORDERS), 0)

    assert changes == {b"bills@g": Change(b"0:0", b"0:1")}
    assert stored.is_full


def test_all_entries_are_stored_once_a_minute_and_what_changed_in_between():
    trail, kept = Trail(), []
    for number in range(25):
        table = ORDERS | {"bills@g": {0: number}} | ({"orders@h": {3: 9}} if number % 2 else {})
        kept.append(trail.take(text_of(table), 5000 * number)[1].is_full)

    assert [number for number, is_full in enumerate(kept) if is_full] == [0, 12, 24]
    assert trail.take(text_of(ORDERS), 125_000, is_full=True)[1].is_full


def test_what_stands_still_is_stored_once_an_hour():
    trail = Trail()
    texts = [text_of(ORDERS if number < 1000 else {}) for number in range(1500)]
    kept = [trail.take(text, 5000 * number)[1].is_full for number, text in enumerate(texts)]

    # When something has changed at last, the minute is over.
    assert [number for number, is_full in enumerate(kept) if is_full] == [0, 720, 1000]


TABLES = st.dictionaries(
    st.builds("{}@{}".format, st.sampled_from("abc"), st.sampled_from("gh")),
    st.dictionaries(st.integers(0, 9), st.integers(0, 10**18 - 1), max_size=4),
)


@given(st.lists(TABLES, min_size=1, max_size=15))
def test_each_reading_of_a_row_is_what_the_broker_answered(tables):
    trail, found, stored = Trail(), [], []
    for number, table in enumerate(tables):
        changes, kept = trail.take(text_of(table), 9000 * number)
        stored = [kept] if kept.is_full else [*stored, kept]
        found.append((trail.offsets, TableOffsets(tuple(stored)), changes))

    for number, (offsets, from_stored, changes) in enumerate(found):
        expected = {GroupTopic(*reversed(key.split("@"))): queues for key, queues in tables[number].items()}
        assert dict(offsets) == dict(from_stored) == expected
        before = tables[number - 1] if number else tables[0]
        after = tables[number]
        assert changes.keys() == {key.encode() for key in before | after if before.get(key) != after.get(key)}
