"""What the topic table keeps up so that nobody has to walk it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namesrv.tables.topic_table import QueueSum, TopicTable
from remoting.shapes.route import QueueData


def queues(read, write):
    return QueueData(broker_name="b", perm=6, read_queue_nums=read, topic_sys_flag=0, write_queue_nums=write)


def test_queues_are_summed_over_the_topics_of_a_set():
    table = TopicTable()
    table.put("b", {"t1": queues(8, 4), "t2": queues(2, 2)})
    table.put("other", {"t1": queues(100, 100)})
    assert table.queue_sum("b") == QueueSum(10, 6)
    assert table.queue_sum("nobody") == QueueSum(0, 0)


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        (lambda table: table.put("b", {"t1": queues(1, 1)}), False),
        (lambda table: table.put("c", {"t1": queues(1, 1)}), False),
        (lambda table: table.put("b", {"t2": queues(1, 1)}), True),
        (lambda table: table.put("b", {}), False),
        (lambda table: table.remove("b", ["unknown"]), False),
        (lambda table: table.remove("b", ["t1"]), True),
    ],
)
def test_the_version_of_the_names_moves_when_a_topic_comes_or_goes(change, moves):
    table = TopicTable()
    table.put("b", {"t1": queues(8, 8)})
    before = table.names_version
    change(table)
    assert (table.names_version != before) == moves


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["b1", "b2"]),
        st.dictionaries(st.sampled_from("tuvw"), st.builds(queues, st.integers(-1, 9), st.integers(-1, 9))),
        st.lists(st.sampled_from("tuvw")),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(CHANGES)
def test_the_sums_are_those_of_a_walk_whatever_was_changed(changes):
    table = TopicTable()
    for broker, put, removed in changes:
        names = set(table.topics())
        version = table.names_version
        table.put(broker, put)
        table.remove(broker, removed)
        assert set(table.topics()) == names or table.names_version != version
    for broker in ("b1", "b2"):
        mine = table.topics_of(broker).values()
        walked = QueueSum(sum(each.read_queue_nums for each in mine), sum(each.write_queue_nums for each in mine))
        assert table.queue_sum(broker) == walked
