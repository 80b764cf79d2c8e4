"""How many topics of which kind each cluster has."""

import pytest
from builders import CLUSTER
from hypothesis import given
from hypothesis import strategies as st

from namesrv.tables.topic_census import TopicCensus, TopicKind, kind_of

# `TopicValidator.getSystemTopicSet()` of Java 5.5.0, printed by it.
JAVA_SYSTEM_TOPICS = [
    "BenchmarkTest",
    "CHECKPOINT_TOPIC",
    "OFFSET_MOVED_EVENT",
    "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
    "RMQ_SYS_TRACE_TOPIC",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "SCHEDULE_TOPIC_XXXX",
    "SELF_TEST_TOPIC",
    "TBW102",
    "TRANS_CHECK_MAX_TIME_TOPIC",
]


@pytest.fixture
def census():
    return TopicCensus()


def numbers(**counts):
    """Return what the metric shows of a cluster: every kind, those not named at zero."""
    return {kind: counts.get(kind.value, 0) for kind in TopicKind}


# Kinds


@pytest.mark.parametrize("topic", [*JAVA_SYSTEM_TOPICS, "rmq_sys_SYNC_BROKER_MEMBER_broker-a", "rmq_sys_"])
def test_the_topics_that_java_reserves_are_system_topics(topic):
    assert kind_of(topic) is TopicKind.SYSTEM


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("%RETRY%group", TopicKind.RETRY),
        ("%DLQ%group", TopicKind.DLQ),
        ("%RETRY%TBW102", TopicKind.RETRY),
        ("%DLQ%%RETRY%group", TopicKind.DLQ),
    ],
)
def test_the_topics_of_a_consumer_group_are_told_by_their_prefix(topic, kind):
    assert kind_of(topic) is kind


@pytest.mark.parametrize("topic", ["Orders", "", "my%RETRY%group", "%retry%group", "tbw102", "RMQ_SYS_OF_MINE"])
def test_every_other_topic_is_normal(topic):
    assert kind_of(topic) is TopicKind.NORMAL


# Counts


def test_a_name_server_without_topics_counts_no_cluster(census):
    assert census.counts() == {}


def test_each_cluster_counts_its_topics_by_kind(census):
    census.add(CLUSTER, ["Orders", "Payments", "%RETRY%group", "%DLQ%group", "TBW102"])
    census.add("Other", ["Orders"])
    assert census.counts() == {CLUSTER: numbers(normal=2, retry=1, dlq=1, system=1), "Other": numbers(normal=1)}


def test_a_topic_on_two_sets_of_a_cluster_counts_once_until_both_have_dropped_it(census):
    census.add(CLUSTER, ["Orders", "Payments"])
    census.add(CLUSTER, ["Orders"])
    assert census.counts() == {CLUSTER: numbers(normal=2)}
    census.remove(CLUSTER, ["Orders"])
    assert census.counts() == {CLUSTER: numbers(normal=2)}
    census.remove(CLUSTER, ["Orders"])
    assert census.counts() == {CLUSTER: numbers(normal=1)}


def test_a_cluster_goes_with_its_last_topic(census):
    census.add(CLUSTER, ["Orders", "%RETRY%group"])
    census.remove(CLUSTER, ["%RETRY%group", "Orders"])
    assert vars(census) == vars(TopicCensus())


def test_a_set_without_topics_counts_for_nothing_when_it_comes_or_goes(census):
    census.add(CLUSTER, [])
    census.remove(CLUSTER, [])
    assert vars(census) == vars(TopicCensus())


def test_the_topics_of_a_set_move_with_it_to_another_cluster(census):
    census.add(CLUSTER, ["Orders", "TBW102"])
    census.add(CLUSTER, ["TBW102"])
    census.move(CLUSTER, "Other", iter(["Orders", "TBW102"]))
    assert census.counts() == {CLUSTER: numbers(system=1), "Other": numbers(normal=1, system=1)}


TOPICS = st.sampled_from(["Orders", "Payments", "TBW102", "%RETRY%group"])
SETS = st.tuples(st.sampled_from([CLUSTER, "Other"]), st.sets(TOPICS))


@given(st.lists(SETS), st.data())
def test_the_census_is_a_recount_of_the_sets_that_are_left(sets, data):
    census = TopicCensus()
    for cluster, topics in sets:
        census.add(cluster, topics)
    gone = data.draw(st.integers(0, len(sets)))
    for cluster, topics in sets[:gone]:
        census.remove(cluster, topics)
    left = {}
    for cluster, topics in sets[gone:]:
        left.setdefault(cluster, set()).update(topics)
    recount = {
        cluster: {kind: sum(kind_of(topic) is kind for topic in topics) for kind in TopicKind}
        for cluster, topics in left.items()
        if topics
    }
    assert census.counts() == recount
