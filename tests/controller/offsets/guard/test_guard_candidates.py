"""What the mirror has saved is put beside what the new master shows."""

import pytest

from controller.offsets.guard.candidates import (
    KnownGroups,
    SavedQueue,
    ShownTable,
    TableKey,
    candidates_of,
    groups_with_offsets,
    keeping_of,
    key_of,
    shows_pop,
)
from controller.offsets.guard.rules import OffsetKeeping
from remoting.admin.offset_table import GroupOffsets

KEY = TableKey("g", "orders")


def known(*, popping=(), pulling=("g",), can_pop=True):
    return KnownGroups(popping=frozenset(popping), pulling=frozenset(pulling), can_pop=can_pop)


def found(saved, shown):
    return {each.queue_id: each for each in candidates_of(saved, shown, known())}


def test_queues_of_either_side_are_candidates():
    saved = {KEY: {0: SavedQueue(10), 1: SavedQueue(20, rewound_from=90)}}
    shown = ShownTable(offsets={KEY: {1: 90, 2: 5}}, pulled={KEY: {1: 95}}, has_pulls=True)
    by_queue = found(saved, shown)
    assert {each: (by_queue[each].saved, by_queue[each].shown) for each in by_queue} == {
        0: (10, None),
        1: (20, 90),
        2: (None, 5),
    }
    assert (by_queue[1].pulled, by_queue[0].pulled) == (95, None)
    assert by_queue[1].is_rewound
    assert by_queue[0].is_readable


def test_offset_that_was_deleted_is_a_candidate_where_the_new_master_still_has_it():
    other = TableKey("h", "orders")
    deleted = SavedQueue(None, rewound_from=90)
    saved = {KEY: {0: deleted, 1: SavedQueue(10), 2: deleted}, other: {0: deleted}}
    by_queue = found(saved, ShownTable(offsets={KEY: {0: 60}}))
    assert {each: by_queue[each].is_deleted for each in by_queue} == {0: True, 1: False}
    assert groups_with_offsets(saved) == {"g"}


@pytest.mark.parametrize("group", ["CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER"])
def test_groups_of_brokers_and_of_tools_are_none(group):
    assert found({TableKey(group, "orders"): {0: SavedQueue(10)}}, ShownTable(offsets={})) == {}


def test_topic_with_an_entry_that_is_not_readable_is_marked():
    shown = ShownTable(offsets={}, unreadable_topics=frozenset({"orders"}))
    assert not found({KEY: {0: SavedQueue(10)}}, shown)[0].is_readable


@pytest.mark.parametrize(
    ("key", "keeping"),
    [
        (KEY, OffsetKeeping.CLUSTERING),
        (TableKey("g", "%RETRY%g"), OffsetKeeping.CLUSTERING),
        (TableKey("popping", "orders"), OffsetKeeping.POP),
        # Nothing shows that it pulls, and it has not had a retry yet.
        (TableKey("other", "orders"), OffsetKeeping.POP),
        (TableKey("g", "orders", is_broadcast=True), OffsetKeeping.BROADCAST),
        (TableKey("%LMQ%x", "%LMQ%x"), OffsetKeeping.LMQ),
    ],
)
def test_offsets_are_kept_as_topic_and_group_say(key, keeping):
    assert keeping_of(key, known(popping=["popping"], pulling=["g", "popping"])) is keeping


def test_no_group_pops_from_a_broker_that_cannot():
    assert keeping_of(TableKey("other", "orders"), known(can_pop=False)) is OffsetKeeping.CLUSTERING


@pytest.mark.parametrize(
    ("topic", "pops"),
    [
        ("%RETRY%g_orders", True),
        ("%RETRY%g+orders", True),
        ("%RETRY%g", False),
        ("%RETRY%g2", False),
        ("%RETRY%other_orders", False),
        ("orders", False),
    ],
)
def test_group_with_a_retry_topic_for_a_topic_pops(topic, pops):
    assert shows_pop(TableKey("g", topic)) == pops


def test_entries_of_a_table_are_told_apart_by_broadcasting():
    read = [GroupOffsets("orders", "g", {0: 1}), GroupOffsets("orders", "g", {0: 2}, is_broadcast=True)]
    assert [key_of(each) for each in read] == [KEY, KEY._replace(is_broadcast=True)]
