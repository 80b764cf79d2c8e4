"""Pages of sorted lists."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.http import pages
from serving.http.pages import BadCursor, PageRequest, page_of, sorted_in_turns, with_prefix

BROKER_KEY = tuple[str, str, int]


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True).map(sorted), st.integers(1, 5))
def test_the_pages_together_are_the_list(keys, limit):
    seen, cursor = [], None
    while True:
        page = page_of(keys, PageRequest(limit, cursor), str)
        assert page.total == len(keys)
        seen += page.keys
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == keys


def test_a_list_may_change_between_two_pages():
    page = page_of(["a", "c", "e"], PageRequest(2), str)
    assert page_of(["b", "d", "e"], PageRequest(2, page.next_cursor), str).keys == ["d", "e"]


def test_brokers_are_paged_by_cluster_name_and_id():
    keys = [("c", "broker-a", 0), ("c", "broker-a", 2), ("c", "broker-a", 10)]
    page = page_of(keys, PageRequest(1), BROKER_KEY)
    assert page_of(keys, PageRequest(1, page.next_cursor), BROKER_KEY).keys == [("c", "broker-a", 2)]


@pytest.mark.parametrize("cursor", ["", "!!!", "abc", "AAAA", "é", "x" * 5000])
def test_a_text_that_is_no_cursor_is_refused(cursor):
    with pytest.raises(BadCursor):
        page_of(["a"], PageRequest(1, cursor), str)


def test_a_cursor_of_another_list_is_refused():
    cursor = page_of(["a", "b"], PageRequest(1), str).next_cursor
    with pytest.raises(BadCursor):
        page_of([("c", "b", 0)], PageRequest(1, cursor), BROKER_KEY)


@settings(deadline=None)
@given(st.lists(st.text("ab\U0010ffff", max_size=3)).map(sorted), st.text("ab\U0010ffff", max_size=2))
def test_a_prefix_selects_what_begins_with_it(names, prefix):
    found = [name for name in names if name.startswith(prefix)]
    # Beyond the last character of all there is nothing to compare with; no topic can hold it.
    assert [name for name in with_prefix(names, prefix) if "\U0010ffff" not in name] == [
        name for name in found if "\U0010ffff" not in name
    ]


@pytest.mark.parametrize("count", [0, 1, 10, 11, 35])
async def test_names_are_sorted_however_many_turns_it_takes(monkeypatch, count):
    monkeypatch.setattr(pages, "_SLICE", 10)
    names = [f"t{number * 7919 % 1000}" for number in range(count)]
    assert await sorted_in_turns(names) == sorted(names)


async def test_sorting_many_names_lets_others_have_their_turn(monkeypatch):
    monkeypatch.setattr(pages, "_SLICE", 10)
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await sorted_in_turns(map(str, range(1000)))
    task.cancel()
    assert turns >= 100
