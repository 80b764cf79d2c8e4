"""Digests of what a NameServer knows, and the differences to its peers that last."""

import pytest
from builders import BROKER, CLUSTER, TOPIC, a_broker_set, a_queue_data
from route_tables import route_tables

from namesrv.core import routes
from namesrv.core.peer_views import LASTING_MS, Difference, Differences, ViewDigests, _Sides, differences
from namesrv.core.values.cooperative import run_to_completion

ONE, TWO = "ns-1:9876", "ns-2:9876"
OTHER = "broker-b"
A, B, PAIR = a_broker_set(), a_broker_set(broker_name=OTHER), a_broker_set(broker_ids=(0, 1))


def updated(tables, now_ms=0, digests=None):
    digests = digests or ViewDigests(tables)
    for broker_set in tables.brokers.sets():
        digests.changed(broker_set.broker_name)
    run_to_completion(digests.update(now_ms))
    return digests


def with_topics(**settings):
    """Return tables of one set whose only topic has these queues."""
    tables = route_tables(A)
    tables.topics.put(BROKER, {TOPIC: a_queue_data(**settings)})
    return tables


def test_digest_is_the_same_in_whatever_order_brokers_and_topics_came():
    first, second = route_tables(A, B), route_tables(B, A)
    topics = {f"t{number}": a_queue_data() for number in range(2_000)}
    first.topics.put(BROKER, topics)
    second.topics.put(BROKER, dict(reversed(topics.items())))
    assert updated(first).clusters == updated(second).clusters
    assert updated(first).topics() == updated(second).topics()


@pytest.mark.parametrize(
    "changed",
    [
        with_topics(read_queue_nums=17),
        with_topics(write_queue_nums=15),
        with_topics(perm=4),
        route_tables(PAIR),
        route_tables(A, B),
        route_tables(a_broker_set(members={0: PAIR.members[1]})),
    ],
    ids=["one read queue more", "one write queue less", "a permission", "a slave", "a set", "an address"],
)
def test_one_difference_gives_another_digest(changed):
    assert updated(changed).clusters[CLUSTER].digest != updated(route_tables(A)).clusters[CLUSTER].digest


def test_one_queue_more_is_found_at_each_topic_of_many_and_whatever_their_number():
    topics = {f"t{number}": a_queue_data() for number in range(1_000)}
    tables = route_tables(A)
    sums = set()
    for queues in range(200):
        tables.topics.put(BROKER, topics | {f"t{queues}": a_queue_data(read_queue_nums=queues)})
        tables.topics.put(BROKER, topics | {f"t{queues}": a_queue_data(write_queue_nums=queues)})
        sums.add(updated(tables).clusters[CLUSTER].digest)
    # With 16 of either kind it is a topic as the others.
    assert len(sums) == 200


def test_digest_has_its_age_and_goes_with_the_last_set_of_its_cluster():
    tables = route_tables(A)
    digests = updated(tables)
    updated(tables, 1_000, digests)
    assert digests.clusters[CLUSTER].since_ms == 0
    tables.topics.put(BROKER, {TOPIC: a_queue_data(perm=4)})
    run_to_completion(digests.update(2_000))
    # Nothing was said of a change.
    assert digests.clusters[CLUSTER].since_ms == 0
    updated(tables, 3_000, digests)
    assert digests.clusters[CLUSTER].since_ms == 3_000
    digests.changed(BROKER)
    tables.brokers.put(A.with_members({}))
    run_to_completion(digests.update(4_000))
    assert (digests.clusters, digests.topics()) == ({}, {})


@pytest.mark.parametrize(
    ("own", "theirs", "own_digest", "their_digest", "found"),
    [
        ([A], [A], 1, 1, []),
        ([A], [A], 1, 2, [(BROKER, "topics")]),
        ([A], [A], 1, None, []),
        ([A], [A], None, 2, []),
        ([A], [PAIR], 1, 1, [(BROKER, "brokers")]),
        ([A], [], 1, None, [(BROKER, "brokers")]),
        ([], [A], None, 1, [(BROKER, "brokers")]),
    ],
    ids=[
        "the same",
        "other topics",
        "a Java peer tells no topics",
        "our own are not known yet",
        "a slave that is not here",
        "a set that is not there",
        "a set that is not here",
    ],
)
def test_difference_to_a_peer_names_the_set_and_what_differs(own, theirs, own_digest, their_digest, found):
    digests = [{} if digest is None else {BROKER: digest} for digest in (own_digest, their_digest)]
    listing = {each.broker_name: routes.broker_data(each) for each in theirs}
    expected = [(CLUSTER, *difference) for difference in found]
    assert [row[:3] for row in differences(route_tables(*own), digests[0], listing, digests[1])] == expected


TOPICS, BROKERS = (CLUSTER, BROKER, "topics"), (CLUSTER, OTHER, "brokers")


def found(*differing, ours=1, theirs=2):
    return [(*each, _Sides(ours, theirs)) for each in differing]


def test_difference_counts_once_it_has_lasted_for_two_registration_periods():
    known = Differences()
    known.put(ONE, found(TOPICS, BROKERS), 0)
    known.put(TWO, found(TOPICS), 1)
    known.put(ONE, found(TOPICS), LASTING_MS - 1)
    assert known.lasting(LASTING_MS - 1) == []
    assert known.lasting(LASTING_MS) == [Difference(ONE, *TOPICS)]
    assert known.lasting(LASTING_MS + 1) == [Difference(ONE, *TOPICS), Difference(TWO, *TOPICS)]
    # It begins anew after they agreed, or the peer did not answer.
    known.put(ONE, (), LASTING_MS + 1)
    known.put(ONE, found(TOPICS), LASTING_MS + 2)
    assert known.lasting(LASTING_MS + 2) == [Difference(TWO, *TOPICS)]


@pytest.mark.parametrize(("ours", "theirs", "lasts"), [(1, 2, True), (3, 2, True), (1, 3, True), (3, 4, False)])
def test_difference_of_a_set_that_changes_at_both_sides_is_a_new_one(ours, theirs, lasts):
    known = Differences()
    known.put(ONE, found(TOPICS), 0)
    known.put(ONE, found(TOPICS, ours=ours, theirs=theirs), LASTING_MS)
    assert bool(known.lasting(LASTING_MS)) is lasts
