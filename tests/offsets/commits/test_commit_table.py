"""The table of committed offsets: readers get what is durable, decisions what was decided."""

import itertools
import random

import pytest
from commit_builders import UNIX_MS, a_change, a_row, a_table, a_value, a_writer, an_offset

from offsets.commits.rules import Status, decide_commit, decide_deletion, decide_reset
from offsets.commits.stored import DELETED, DELETED_KEPT_MS, is_newer
from offsets.commits.table import PAGE_ROWS_MAX, Scope

ALL = Scope("DefaultCluster", "")


def offset(table, queue=0):
    value = table.read(a_row(), queue)
    return None if value is None else value.offset


def test_readers_see_a_change_once_it_is_confirmed_and_decisions_at_once():
    table = a_table({0: a_value(5)})
    changes = [a_change(6)]
    table.stage(changes)
    assert (offset(table), table.rows[a_row()].decided(0).offset) == (5, 6)
    table.confirm(changes)
    assert (offset(table), table.rows[a_row()].flights) == (6, None)


@pytest.mark.parametrize(
    ("value", "than", "newer"),
    [
        (a_value(1), None, True),
        (a_value(2), a_value(1), True),
        (a_value(1), a_value(1), False),
        (a_value(1, epoch=2), a_value(9, epoch=1), True),
        (a_value(DELETED, epoch=2), a_value(9, epoch=1), True),
        (a_value(0, epoch=2), a_value(DELETED, epoch=2), True),
        (a_value(9, epoch=1), a_value(DELETED, epoch=2), False),
    ],
)
def test_newer_is_the_higher_epoch_then_the_higher_offset(value, than, newer):
    assert is_newer(value, than) is newer


def test_counts_and_room_follow_every_kind_of_change():
    table = a_table(offsets_max=10)
    everything = list(itertools.product(range(4), (0, 5), (3, DELETED), (0, 1, 2)))
    for queue, epoch, value, fate in everything:
        changes = [a_change(value, queue, epoch=epoch + (value < 0))]
        table.stage(changes)
        if fate == 0:
            table.withdraw(changes)
        elif fate == 1:
            table.confirm(changes)
        else:
            table.merge(a_row(), {queue: changes[0].after})
            table.confirm(changes)
        values = table.rows[a_row()].queues.values()
        live = sum(not each.is_deleted for each in values)
        assert (table.count, table.deleted, table.room) == (live, len(values) - live, 10 - live)


def test_deletions_are_forgotten_after_a_week_and_empty_rows_with_them():
    table = a_table({0: a_value(DELETED, epoch=1), 1: a_value(DELETED, epoch=1, unix_ms=UNIX_MS + 10)})
    table.merge(a_row("other"), {0: a_value(DELETED, epoch=1)})
    now_ms = UNIX_MS + DELETED_KEPT_MS + 5
    assert table.forget_deleted(now_ms) == [a_row(), a_row("other")]
    assert table.rows[a_row()].queues.keys() == {1}
    assert table.deleted == 1
    before = table.generation
    table.drop_empty()
    assert (set(table.rows), table.generation) == ({a_row()}, before + 1)


def test_row_that_the_store_still_has_is_not_dropped_before_it_is_removed_there():
    table = a_table()
    table.merge(a_row(), {0: a_value(DELETED, epoch=1)}, revision=4)
    table.forget_deleted(UNIX_MS + DELETED_KEPT_MS + 5)
    table.drop_empty()
    assert a_row() in table.rows


def test_deletion_that_is_overtaken_is_not_forgotten():
    table = a_table({0: a_value(DELETED, epoch=1)})
    table.stage([a_change(5, epoch=1)])
    assert table.forget_deleted(UNIX_MS + DELETED_KEPT_MS + 5) == []


def listed(table, scope, limit=1000):
    """Return all pages of a scope."""
    found, start, pages = [], 0, 0
    while start is not None:
        page = table.page(scope, start, limit)
        found += page.offsets
        start, pages = page.next, pages + 1
    return found, pages


def test_pages_have_each_offset_once_and_all_queues_of_a_row_together():
    table = a_table()
    for number in range(10):
        table.merge(a_row(f"group-{number}"), {0: a_value(1), 1: a_value(2), 2: a_value(DELETED, epoch=1)})
    found, pages = listed(table, ALL, limit=3)
    assert pages == 5
    assert [(name.group, queue) for name, queue, _ in found] == [(f"group-{n}", q) for n in range(10) for q in (0, 1)]
    assert {name.group for name, _, _ in listed(table, ALL._replace(group="group-3"))[0]} == {"group-3"}


def test_rows_that_cannot_be_read_are_on_the_last_page():
    table = a_table({0: a_value(1)})
    table.unreadable[a_row(topic="refunds")] = "restore this key"
    table.unreadable[a_row("other")] = "restore this key"
    assert table.page(ALL._replace(group="billing"), 0, 10).unreadable == [(a_row(topic="refunds"), "restore this key")]


def test_page_of_a_rare_topic_ends_before_the_loop_is_held_up():
    table = a_table(offsets_max=20_000)
    for number in range(PAGE_ROWS_MAX + 1):
        table.merge(a_row(f"group-{number}"), {0: a_value(1)})
    page = table.page(ALL._replace(topic="refunds"), 0, 10)
    assert (page.offsets, page.next) == ([], PAGE_ROWS_MAX)


def test_random_histories_keep_the_promises_whatever_fails_and_in_whatever_order():
    """No commit lowers what readers see, an acknowledged change is there, and nothing stays in flight."""
    for seed in range(300):
        chance = random.Random(seed)
        table, waiting, seen = a_table(offsets_max=6), [], {}
        acknowledged = {}
        for step in range(60):
            queue, kind = chance.randrange(3), chance.choices(("commit", "reset", "delete", "settle"), (6, 1, 1, 8))[0]
            stored = table.read(a_row(), queue)
            epoch = 0 if stored is None else stored.reset_epoch
            writer = a_writer(unix_ms=UNIX_MS + step)
            if kind == "settle" and waiting:
                decision = waiting.pop(chance.randrange(len(waiting)))
                if chance.random() < 0.2:
                    table.withdraw(decision.changes)
                    continue
                table.confirm(decision.changes)
                for change in decision.changes:
                    key = change.queue_id
                    if is_newer(change.after, acknowledged.get(key)):
                        acknowledged[key] = change.after
            elif kind != "settle":
                entry = an_offset(chance.randrange(9), queue, epoch=chance.choice((epoch, 0)))
                decide = {"commit": decide_commit, "reset": decide_reset}.get(kind)
                if decide is None:
                    decision = decide_deletion(table, ALL._replace(group="billing"), writer)
                else:
                    decision = decide(table, [entry], writer)
                    for result in decision.results:
                        assert result.status is not Status.STALE or result.stored is None or result.stored.offset >= 0
                table.stage(decision.changes)
                waiting.append(decision)
            for number in range(3):
                now = table.read(a_row(), number)
                assert now == acknowledged.get(number)
                assert (before := seen.get(number)) is None or not is_newer(before, now)
                seen[number] = now
        for decision in waiting:
            table.withdraw(decision.changes)
        assert not table.rows or table.rows[a_row()].flights is None
        assert table._created == 0
