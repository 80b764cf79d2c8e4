"""What a change says of itself: counts for the log and the metrics, and queues with another permission."""

import pytest
from builders import BROKER, READ_ONLY, TOPIC, WRITABLE, a_broker_set, a_queue_data, queue_datas

from namesrv.core.tables.change import (
    OLD_QUEUES_MAX,
    RouteTables,
    SetChange,
    applied_change,
    counted,
    with_perms,
    without_write,
)
from namesrv.core.tables.topic_table import compare_topics
from namesrv.core.values.cooperative import run_to_completion
from namesrv.core.values.effects import RouteChanges
from remoting.protocol.shapes.route import PERM_INHERIT, PERM_READ, PERM_WRITE


def test_two_name_servers_share_no_table():
    mine, other = RouteTables(), RouteTables()
    mine.brokers.put(a_broker_set())
    mine.topics.put(BROKER, queue_datas(TOPIC))
    assert (len(other.brokers), len(other.topics)) == (0, 0)


# Counts


def changed(before, queues, removed=()):
    return counted(run_to_completion(compare_topics(before, queues.items())), removed)


def test_topics_that_a_set_did_not_have_are_added_whatever_their_settings():
    changes = changed(queue_datas("Old"), queue_datas("New", "Newer", perm=READ_ONLY, read_queue_nums=4), ())
    assert changes == RouteChanges(topics_added=2, sample=("New", "Newer"))


@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        ({}, {}),
        ({"perm": READ_ONLY}, {"perm": 1}),
        ({"read_queue_nums": 8}, {"queues": 1}),
        ({"write_queue_nums": 8}, {"queues": 1}),
        ({"read_queue_nums": 8, "write_queue_nums": 8}, {"queues": 1}),
        ({"perm": READ_ONLY, "write_queue_nums": 8}, {"queues": 1, "perm": 1}),
    ],
)
def test_a_topic_counts_by_what_is_different_about_it(settings, counts):
    changes = changed(queue_datas(TOPIC), queue_datas(TOPIC, **settings), ())
    assert changes == RouteChanges(**counts, sample=(TOPIC,) if counts else ())
    assert bool(changes) == bool(counts)


def test_every_changed_topic_is_counted():
    assert changed(queue_datas("A", "B", "C"), queue_datas("A", "B", perm=READ_ONLY, read_queue_nums=8), ()) == (
        RouteChanges(perm=2, queues=2, sample=("A", "B"))
    )


def test_topics_that_go_are_counted_beside_those_that_come():
    changes = changed(queue_datas("Old", "Older"), queue_datas("New"), ("Old", "Older"))
    assert changes == RouteChanges(topics_added=1, topics_removed=2, sample=("New", "Old", "Older"))


def test_the_log_gets_five_topics_however_many_changed():
    assert changed({}, queue_datas(*"abcd"), ("e", "f")).sample == tuple("abcde")


# Permissions


def test_queues_with_another_permission_are_otherwise_the_same():
    settings = {"broker_name": "broker-b", "read_queue_nums": 3, "write_queue_nums": 2, "topic_sys_flag": 1}
    changed = with_perms({TOPIC: a_queue_data(**settings)}.items(), lambda *_: READ_ONLY)
    assert dict(changed) == {TOPIC: a_queue_data(**settings, perm=READ_ONLY)}


@pytest.mark.parametrize(
    ("perm", "left"),
    [(WRITABLE, READ_ONLY), (PERM_WRITE, 0), (PERM_READ | PERM_WRITE | PERM_INHERIT, PERM_READ | PERM_INHERIT)],
)
def test_a_writable_topic_loses_the_write_permission_only(perm, left):
    assert dict(without_write(queue_datas(TOPIC, perm=perm))) == queue_datas(TOPIC, perm=left)


def test_topics_that_nobody_may_write_do_not_change():
    queues = queue_datas("Shut", perm=0) | queue_datas("Open") | queue_datas("ReadOnly", perm=READ_ONLY)
    assert run_to_completion(compare_topics(queues, without_write(queues))).queues == queue_datas(
        "Open", perm=READ_ONLY
    )


def test_each_topic_keeps_its_own_queues_when_it_loses_the_write_permission():
    queues = queue_datas("Small", read_queue_nums=1) | queue_datas("Large", read_queue_nums=64)
    assert dict(without_write(queues)) == (
        queue_datas("Small", read_queue_nums=1, perm=READ_ONLY)
        | queue_datas("Large", read_queue_nums=64, perm=READ_ONLY)
    )


def test_topics_that_were_set_alike_share_one_value_so_that_a_million_cost_little():
    cleared = dict(without_write(queue_datas("A") | queue_datas("B")))
    assert cleared["A"] is cleared["B"]


@pytest.mark.parametrize(("topics", "kept"), [(OLD_QUEUES_MAX, OLD_QUEUES_MAX), (OLD_QUEUES_MAX + 1, 0)])
def test_what_a_change_replaces_is_recorded_unless_it_is_more_than_anybody_wants_to_see(topics, kept):
    tables = RouteTables()
    names = [f"t{number}" for number in range(topics)]
    tables.topics.put(BROKER, queue_datas(*names))
    change = SetChange(broker_set=a_broker_set(), removed_topics=tuple(names))
    assert len(applied_change(tables, change).old_queues) == kept
