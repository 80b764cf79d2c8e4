"""What topics take in memory: whose limit is exceeded, and that what left counts no more."""

import pytest
from builders import BROKER, a_mapping, a_queue_data, a_registration, topic_configs
from route_states import expire, lose_connection, register_broker

from namesrv.core.changes import CONNECTION_BYTES_MIN, TopicSizes
from namesrv.core.route_state import RouteState
from namesrv.refusals import TooManyTopics
from namesrv.settings.config import NameServerConfig
from remoting.protocol.shapes.route import DataVersion

MAX = 16 * CONNECTION_BYTES_MIN
STRANGER, OTHER = "10.6.6.6", "10.9.9.9"


@pytest.mark.parametrize(
    ("present", "more", "limit"),
    [
        ({}, MAX // 8, None),
        ({}, MAX // 8 + 1, "this connection"),
        ({("a", STRANGER): MAX // 2 - 1}, 1, None),
        ({("a", STRANGER): MAX // 2 - 1}, 2, "this host"),
        ({("a", OTHER): MAX // 2, ("b", "10.9.9.8"): MAX // 2}, MAX // 16, None),
        ({("a", OTHER): MAX // 2, ("b", "10.9.9.8"): MAX // 2}, MAX // 16 + 1, "this host"),
        ({("a", OTHER): MAX, ("b", "10.9.9.8"): MAX}, 1, "all hosts"),
    ],
)
def test_the_limit_that_is_exceeded_is_named(present, more, limit):
    sizes = TopicSizes()
    for (name, network), size in present.items():
        sizes.put(name, network, size)
    excess = sizes.excess(more, STRANGER, ["mine"], MAX)
    assert (excess is None) if limit is None else (f"the topics of {limit} would take" in excess)


def test_the_topics_of_all_sets_of_a_connection_count_together():
    sizes = TopicSizes()
    sizes.put("mine", STRANGER, MAX // 8)
    assert sizes.excess(1, STRANGER, ["mine"], MAX) is not None
    assert sizes.excess(1, STRANGER, ["another"], MAX) is None


def test_what_is_refused_leaves_nothing_and_what_leaves_counts_no_more(monkeypatch):
    monkeypatch.setattr("namesrv.core.changes.CONNECTION_BYTES_MIN", 0)
    state = RouteState(NameServerConfig(topic_bytes_max=8 * 3_000))
    topics = topic_configs(*(f"t{number}" for number in range(15)))
    mapped = {"t0": a_mapping(curr_id_map={}), "t1": a_mapping(curr_id_map={})}
    for _ in range(3):
        register_broker(state, a_registration(topics=topics), now_ms=0)
        with pytest.raises(TooManyTopics, match="more topics of broker-b are not registered"):
            register_broker(state, a_registration(broker_name="broker-b", topics=topics, mappings=mapped), now_ms=0)
        assert state.tables.brokers.get("broker-b") is None
        # What is there already may register again.
        register_broker(state, a_registration(topics=topics), now_ms=0)
        lose_connection(state, 1, now_ms=1)
        assert state._applier.topic_sizes.total_bytes == 0


def test_a_broker_whose_new_topics_are_refused_stays_with_those_that_it_has(monkeypatch):
    monkeypatch.setattr("namesrv.core.changes.CONNECTION_BYTES_MIN", 0)
    state = RouteState(NameServerConfig(topic_bytes_max=8 * 3_000))
    register_broker(state, a_registration(topics=topic_configs("a", "b")), now_ms=0)
    more = topic_configs("a", "b", *(f"t{number}" for number in range(30)))
    for now_ms in range(30_000, 300_000, 30_000):
        with pytest.raises(TooManyTopics):
            register_broker(
                state, a_registration(topics=more, data_version=DataVersion(counter=2), connection_id=2), now_ms=now_ms
            )
        expire(state, now_ms)
    # The connection over which it registers now is the one with which it leaves.
    lose_connection(state, 1, now_ms=300_000)
    assert list(state.tables.topics.of_broker(BROKER)) == ["a", "b"]
    lose_connection(state, 2, now_ms=300_000)
    assert state.tables.brokers.get(BROKER) is None
    assert state._applier.topic_sizes.total_bytes == 0


def test_at_the_limit_217_changes_a_topic_that_the_set_has_and_refuses_others_with_the_limit():
    state = RouteState(NameServerConfig(topic_bytes_max=600, topic_sets_per_host_max=1))
    register_broker(state, a_registration(topics=topic_configs("a", "c")), now_ms=0)
    state.register_topic("a", [a_queue_data(write_queue_nums=9)])
    assert state.tables.topics.of_topic("a")[BROKER].write_queue_nums == 9
    with pytest.raises(TooManyTopics, match="topicBytesMax"):
        state.register_topic("b", [a_queue_data()])
    register_broker(state, a_registration(broker_name="broker-b", topics={}, connection_id=2), now_ms=0)
    with pytest.raises(TooManyTopics, match="topicSetsPerHostMax"):
        state.register_topic("a", [a_queue_data(broker_name="broker-b")])
