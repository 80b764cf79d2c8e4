"""Of which kind a topic is by its name."""

import pytest

from remoting.protocol.topic_kinds import TopicKind, kind_of, topics_of

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


OWNERS = {"DefaultCluster", "broker-a"}


@pytest.mark.parametrize("topic", [*JAVA_SYSTEM_TOPICS, "rmq_sys_SYNC_BROKER_MEMBER_broker-a", "rmq_sys_"])
def test_the_topics_that_java_reserves_are_system_topics(topic):
    assert kind_of(topic, OWNERS) is TopicKind.SYSTEM


@pytest.mark.parametrize("topic", ["DefaultCluster", "broker-a", "DefaultCluster_REPLY_TOPIC"])
def test_the_topics_that_brokers_name_after_their_cluster_and_set_are_system_topics(topic):
    assert kind_of(topic, OWNERS) is TopicKind.SYSTEM
    assert kind_of(topic, ()) is TopicKind.NORMAL
    assert topic in topics_of(OWNERS)


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        ("%RETRY%group", TopicKind.RETRY),
        ("%DLQ%group", TopicKind.DLQ),
        ("%RETRY%TBW102", TopicKind.RETRY),
        ("%DLQ%%RETRY%group", TopicKind.DLQ),
    ],
)
def test_topics_of_consumer_groups_are_recognised_by_prefix(topic, kind):
    assert kind_of(topic, OWNERS) is kind


@pytest.mark.parametrize(
    "topic", ["Orders", "", "my%RETRY%group", "%retry%group", "tbw102", "RMQ_SYS_OF_MINE", "broker-b", "_REPLY_TOPIC"]
)
def test_every_other_topic_is_normal(topic):
    assert kind_of(topic, OWNERS) is TopicKind.NORMAL
