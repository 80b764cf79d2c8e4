"""Offsets page by page."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from offset_builders import Offsets, a_queue, a_row, a_scope, an_offset

from controller.offsets.commits import read_all
from controller.offsets.commits.read_all import PAGE_OFFSETS_MAX, read_page
from controller.offsets.commits.refusals import RowsUnavailable


def pages(offsets, scope, offsets_max=PAGE_OFFSETS_MAX):
    """All offsets in a scope, as (key, offset)."""
    found, cursor = [], None
    while True:
        page = read_page(offsets.table, scope, cursor, offsets_max)
        found += [(key, stored.offset) for key, stored in page.offsets]
        cursor = page.next
        if cursor is None:
            return found


def some_offsets():
    offsets = Offsets()
    for number in range(6):
        for queue_id in (1, 0):
            key = a_queue(queue_id, group=f"g{number % 3}", topic=f"t{number % 2}", broker_name=f"b{number // 3}")
            offsets.commit(number * 10 + queue_id, key)
    return offsets


@pytest.mark.parametrize("offsets_max", [1, 2, 3, 1_000])
def test_each_offset_is_on_one_page(offsets_max):
    found = pages(some_offsets(), a_scope(), offsets_max)
    assert sorted(offset for _, offset in found) == sorted(n * 10 + q for n in range(6) for q in (0, 1))


@pytest.mark.parametrize(
    ("scope", "numbers"),
    [(a_scope("g1"), [1, 4]), (a_scope(topic="t1"), [1, 3, 5]), (a_scope("g1", broker_name="b1"), [4])],
)
def test_offsets_of_a_group_a_topic_or_a_broker_are_read_alone(scope, numbers):
    found = pages(some_offsets(), scope, 1)
    assert [offset for _, offset in found] == [n * 10 + q for n in numbers for q in (0, 1)]


def test_page_has_all_queues_of_its_rows():
    offsets = Offsets()
    offsets.table.load(a_row(), {each: an_offset(each) for each in range(50)})
    page = read_page(offsets.table, a_scope(), offsets_max=1)
    assert (len(page.offsets), page.next) == (50, None)


def test_rows_made_between_two_pages_are_on_a_later_one():
    offsets = some_offsets()
    first = read_page(offsets.table, a_scope(), offsets_max=2)
    offsets.commit(77, a_queue(topic="new"))
    rest = read_page(offsets.table, a_scope(), first.next)
    assert rest.offsets[-1][1].offset == 77
    assert rest.revision > first.revision


def test_pages_show_what_is_durable():
    offsets = Offsets()
    offsets.commit(5)
    staged = offsets.decide_commits((a_queue(0), 9, 0, 0), (a_queue(1), 3, 0, 0))
    offsets.table.stage(staged.changes)
    assert [offset for _, offset in pages(offsets, a_scope())] == [5]
    offsets.table.confirm(staged.changes)
    assert [offset for _, offset in pages(offsets, a_scope())] == [9, 3]


def test_page_of_a_rare_topic_ends_before_it_takes_too_long(monkeypatch):
    monkeypatch.setattr(read_all, "PAGE_ROWS_MAX", 3)
    offsets = some_offsets()
    page = read_page(offsets.table, a_scope(topic="t1", broker_name="b1"))
    assert (page.offsets, page.next.position) == ((), 3)
    assert [offset for _, offset in pages(offsets, a_scope(topic="t1", broker_name="b1"))] == [30, 31, 50, 51]


def test_rows_that_cannot_be_read_are_named_on_the_last_page():
    offsets = some_offsets()
    offsets.table.mark_unreadable(a_row("g1", "damaged"), "row is damaged")
    page = read_page(offsets.table, a_scope("g1"))
    assert page.unavailable == ((a_row("g1", "damaged"), "row is damaged"),)
    assert read_page(offsets.table, a_scope("g2")).unavailable == ()


def test_nothing_is_read_while_rows_that_are_missing_would_seem_absent():
    with pytest.raises(RowsUnavailable, match="being loaded"):
        read_page(Offsets(is_loaded=False).table, a_scope())


def test_no_offsets_are_one_empty_page():
    page = read_page(Offsets().table, a_scope("billing"))
    assert (page.offsets, page.next) == ((), None)


@settings(max_examples=50)
@given(
    before=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12),
    deleted=st.sets(st.integers(0, 3), max_size=2),
    added=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=6),
    offsets_max=st.integers(1, 3),
)
def test_offset_that_is_there_all_the_time_is_on_one_page(before, deleted, added, offsets_max):
    offsets = Offsets()
    for group, topic in before:
        offsets.commit(1, a_queue(group=f"g{group}", topic=f"t{topic}"))
    first = read_page(offsets.table, a_scope(), offsets_max=offsets_max)
    seen = [key for key, _ in first.offsets]
    for group in deleted:
        offsets.delete(a_scope(f"g{group}"))
    for group, topic in added:
        offsets.commit(1, a_queue(group=f"g{group}", topic=f"t{topic}"))
    cursor = first.next
    while cursor is not None:
        page = read_page(offsets.table, a_scope(), cursor, offsets_max)
        seen += [key for key, _ in page.offsets]
        cursor = page.next
    kept = {(group, topic) for group, topic in before if group not in deleted}
    for group, topic in kept:
        assert seen.count(a_queue(group=f"g{group}", topic=f"t{topic}")) == 1
