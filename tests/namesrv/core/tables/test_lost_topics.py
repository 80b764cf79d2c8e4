"""Topics that a new master lacks: when they are certain to be lost, and until when."""

import pytest
from builders import BROKER

from namesrv.core.tables.lost_topics import NAMES_MAX, SETTLE_MS, LostTopicTable


@pytest.fixture
def table():
    return LostTopicTable()


def reported(table, now_ms):
    return [(name, losses.names) for name, losses in table.report(now_ms)]


def test_topics_are_reported_once_when_no_further_part_of_the_registration_can_have_them(table):
    table.put(BROKER, {"A", "B", "C"}, 0)
    table.remove(BROKER, ["B", "never lost"])
    assert reported(table, SETTLE_MS - 1) == []
    assert (table.of(BROKER), list(table.reported())) == (None, [])
    assert reported(table, SETTLE_MS) == [(BROKER, ["A", "C"])]
    assert reported(table, SETTLE_MS) == []
    assert table.of(BROKER).topics.keys() == {"A", "C"}
    assert [name for name, _ in table.reported()] == [BROKER]


def test_nothing_is_lost_once_all_topics_are_back(table):
    table.put(BROKER, {"A"}, 0)
    table.remove("broker-b", ["A"])
    table.remove(BROKER, ["A"])
    table.put("broker-b", set(), 0)
    assert reported(table, SETTLE_MS) == []


def test_the_next_master_is_reported_only_for_what_was_not_lost_before(table):
    table.put(BROKER, {"A", "B"}, 0)
    table.report(SETTLE_MS)
    table.put(BROKER, {"A"}, SETTLE_MS)
    assert reported(table, 2 * SETTLE_MS) == []
    assert table.of(BROKER).since_ms == 0
    table.put(BROKER, {"A", "C"}, 2 * SETTLE_MS)
    assert reported(table, 3 * SETTLE_MS) == [(BROKER, ["A", "C"])]
    table.put(BROKER, set(), 4 * SETTLE_MS)
    assert table.of(BROKER) is None


def test_few_of_very_many_lost_topics_are_named(table):
    table.put(BROKER, {f"topic-{number}" for number in range(1000)}, 0)
    ((_, losses),) = table.report(SETTLE_MS)
    assert (len(losses.topics), len(losses.names)) == (1000, NAMES_MAX)
