"""What topics take in memory: whose limit is exceeded, and that what left counts no more."""

import pytest
from builders import a_mapping, a_registration, topic_configs
from route_states import lose_connection, register_broker

from namesrv.core.route_state import RouteState
from namesrv.core.tables.topic_sizes import CONNECTION_BYTES_MIN, TopicSizes
from namesrv.refusals import TooManyTopics
from namesrv.settings.config import NameServerConfig

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
    monkeypatch.setattr("namesrv.core.tables.topic_sizes.CONNECTION_BYTES_MIN", 0)
    state = RouteState(NameServerConfig(topic_bytes_max=8 * 3_000))
    topics = topic_configs(*(f"t{number}" for number in range(15)))
    mapped = {"t0": a_mapping(curr_id_map={}), "t1": a_mapping(curr_id_map={})}
    for _ in range(3):
        register_broker(state, a_registration(topics=topics), now_ms=0)
        with pytest.raises(TooManyTopics, match="broker-b is not registered"):
            register_broker(state, a_registration(broker_name="broker-b", topics=topics, mappings=mapped), now_ms=0)
        assert state.tables.brokers.get("broker-b") is None
        # What is there already may register again.
        register_broker(state, a_registration(topics=topics), now_ms=0)
        lose_connection(state, 1, now_ms=1)
        assert state._applier.topic_sizes.total_bytes == 0
