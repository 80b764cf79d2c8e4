"""Which queues each topic has on each broker set, and what is kept up so that nobody has to walk them."""

import pytest
from builders import BROKER, a_mapping, a_queue_data, queue_datas
from hypothesis import given
from hypothesis import strategies as st
from route_states import remove_topics

from namesrv.core.tables.topic_table import MappingTable, PermissionOverrides, QueueSum, TopicTable


@pytest.fixture
def table():
    return TopicTable()


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
def test_both_sides_and_the_sums_are_those_of_a_walk_whatever_was_changed(changes):
    table, model = TopicTable(), {"broker-a": {}, "broker-b": {}}
    for broker_name, put, removed in changes:
        table.put(broker_name, put)
        remove_topics(table, broker_name, removed)
        mine = model[broker_name] = model[broker_name] | put
        for topic in removed:
            mine.pop(topic, None)
        held = {topic: {name: has[topic] for name, has in model.items() if topic in has} for topic in "ABC\u4e3b"}
        assert {topic: table.of_topic(topic) or {} for topic in held} == held
        assert set(table.topics()) == {topic for topic, sets in held.items() if sets}
        assert (len(table), "A" in table) == (len(set(table.topics())), bool(held["A"]))
        for name, has in model.items():
            assert table.of_broker(name) == has
            assert table.queue_sum(name) == QueueSum(
                sum(each.read_queue_nums for each in has.values()),
                sum(each.write_queue_nums for each in has.values()),
                sum(131 if topic.isascii() else 134 for topic in has),
            )


def test_a_set_that_goes_with_all_its_topics_leaves_nothing_behind(table):
    table.put(BROKER, queue_datas("A", "B"))
    remove_topics(table, BROKER, ["A", "unknown", "B"])
    table.put(BROKER, {})
    assert not any(value for name, value in vars(table).items() if name != "names_version")


def test_mappings_of_a_set_take_their_queues():
    table = MappingTable()
    table.put(BROKER, {"A": a_mapping(curr_id_map={}), "B": a_mapping(curr_id_map={0: 0, 1: 1})})
    table.put(BROKER, {"A": a_mapping(curr_id_map={0: 0})})
    assert table.queue_sum(BROKER).size_bytes == 2 * 604 + 3 * 160
    remove_topics(table, BROKER, ["unknown", "B"])
    assert table.queue_sum(BROKER).size_bytes == 604 + 160


@given(CHANGES)
def test_the_names_never_change_under_the_same_version(changes):
    table = TopicTable()
    seen = {table.names_version: set()}
    for broker_name, put, removed in changes:
        for change, topics in ((TopicTable.put, put), (remove_topics, removed)):
            change(table, broker_name, topics)
            assert seen.setdefault(table.names_version, set(table.topics())) == set(table.topics())


def test_permission_overrides_leave_nothing_behind_once_maintenance_is_over():
    overrides = PermissionOverrides()
    overrides.put(BROKER, {"A": 4, "B": 4})
    overrides.remove(BROKER, ["A", "never overridden"])
    assert overrides.of(BROKER) == {"B": 4}
    overrides.remove(BROKER, ["B"])
    overrides.put(BROKER, {})
    assert vars(overrides) == vars(PermissionOverrides())
