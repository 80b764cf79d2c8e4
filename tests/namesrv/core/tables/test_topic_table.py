"""Which queues each topic has on each broker set, and what is kept up so that nobody has to walk them."""

import pytest
from builders import BROKER, a_queue_data, queue_datas
from hypothesis import given
from hypothesis import strategies as st
from route_states import remove_topics

from namesrv.core.tables.topic_table import QueueSum, TopicTable


@pytest.fixture
def table():
    return TopicTable()


# Queues


def test_a_topic_that_nobody_has_does_not_exist(table):
    assert "A" not in table
    assert table.of_topic("A") is None
    assert table.of_broker(BROKER) == {}


def test_queues_are_found_by_topic_and_by_broker_name(table):
    mine, other = a_queue_data(), a_queue_data(broker_name="broker-b")
    table.put(BROKER, {"A": mine, "B": mine})
    table.put("broker-b", {"A": other})
    assert table.of_topic("A") == {BROKER: mine, "broker-b": other}
    assert table.of_broker(BROKER) == {"A": mine, "B": mine}


def test_topics_are_listed_once_however_many_sets_have_them(table):
    table.put(BROKER, queue_datas("A", "B"))
    table.put("broker-b", queue_datas("A", broker_name="broker-b"))
    assert list(table.topics()) == ["A", "B"]
    assert len(table) == 2
    assert "B" in table


def test_queues_that_change_are_seen_changed_from_both_sides(table):
    table.put(BROKER, queue_datas("A", "B", write_queue_nums=4))
    table.put(BROKER, queue_datas("A", write_queue_nums=8))
    assert table.of_topic("A") == {BROKER: a_queue_data(write_queue_nums=8)}
    assert table.of_broker(BROKER) == queue_datas("A", write_queue_nums=8) | queue_datas("B", write_queue_nums=4)


def test_a_topic_that_leaves_one_set_stays_on_the_others(table):
    table.put(BROKER, queue_datas("A", "B"))
    table.put("broker-b", queue_datas("A", broker_name="broker-b"))
    remove_topics(table, BROKER, ["A"])
    assert table.of_topic("A") == {"broker-b": a_queue_data(broker_name="broker-b")}
    assert table.of_broker(BROKER) == queue_datas("B")


def test_a_topic_goes_with_the_last_set_that_had_it(table):
    table.put(BROKER, queue_datas("A", "B"))
    remove_topics(table, BROKER, ["unknown", "A"])
    assert "A" not in table
    assert list(table.topics()) == ["B"]


def test_a_set_cannot_take_away_a_topic_that_it_does_not_have(table):
    table.put(BROKER, queue_datas("A"))
    table.put("broker-b", queue_datas("B", broker_name="broker-b"))
    remove_topics(table, "broker-b", ["A", "unknown"])
    remove_topics(table, "stranger", ["A"])
    assert table.of_broker(BROKER) == queue_datas("A")
    assert table.of_broker("broker-b") == queue_datas("B", broker_name="broker-b")


def test_a_set_that_goes_with_all_its_topics_leaves_nothing_behind(table):
    table.put(BROKER, queue_datas("A", "B"))
    remove_topics(table, BROKER, ["A", "B"])
    table.put(BROKER, {})
    kept = {name: value for name, value in vars(table).items() if name != "names_version"}
    assert not any(kept.values())


# Sums


def test_queues_are_summed_over_the_topics_of_a_set(table):
    table.put(BROKER, {"A": a_queue_data(read_queue_nums=8, write_queue_nums=4)})
    table.put(BROKER, {"B": a_queue_data(read_queue_nums=2, write_queue_nums=1)})
    table.put("broker-b", {"A": a_queue_data(read_queue_nums=100, write_queue_nums=100)})
    assert table.queue_sum(BROKER)[:2] == (10, 5)


def test_a_set_without_topics_has_no_queues(table):
    table.put("broker-b", queue_datas("A"))
    assert table.queue_sum(BROKER) == QueueSum(read=0, write=0)


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        (lambda table: table.put(BROKER, queue_datas("A", perm=4)), False),
        (lambda table: table.put("broker-b", queue_datas("A")), False),
        (lambda table: table.put(BROKER, queue_datas("B")), True),
        (lambda table: table.put(BROKER, {}), False),
        (lambda table: remove_topics(table, BROKER, ["unknown"]), False),
        (lambda table: remove_topics(table, BROKER, ["A"]), True),
    ],
)
def test_the_version_of_the_names_moves_when_a_topic_comes_or_goes(table, change, moves):
    table.put(BROKER, queue_datas("A"))
    before = table.names_version
    change(table)
    assert (table.names_version != before) == moves


COUNTS = st.integers(-1, 9)
TOPICS = st.sampled_from("ABC\u4e3b")
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["broker-a", "broker-b"]),
        st.dictionaries(TOPICS, st.builds(a_queue_data, read_queue_nums=COUNTS, write_queue_nums=COUNTS)),
        st.lists(TOPICS),
    ),
    max_size=12,
)


@given(CHANGES)
def test_the_sums_are_those_of_a_walk_whatever_was_changed(changes):
    table = TopicTable()
    for broker_name, put, removed in changes:
        table.put(broker_name, put)
        remove_topics(table, broker_name, removed)
    for broker_name in ("broker-a", "broker-b"):
        mine = table.of_broker(broker_name).values()
        walked = QueueSum(
            sum(each.read_queue_nums for each in mine),
            sum(each.write_queue_nums for each in mine),
            sum(131 if topic.isascii() else 134 for topic in table.of_broker(broker_name)),
        )
        assert table.queue_sum(broker_name) == walked


@given(CHANGES)
def test_the_names_never_change_under_the_same_version(changes):
    table = TopicTable()
    seen = {table.names_version: set()}
    for broker_name, put, removed in changes:
        for change, topics in ((TopicTable.put, put), (remove_topics, removed)):
            change(table, broker_name, topics)
            assert seen.setdefault(table.names_version, set(table.topics())) == set(table.topics())
