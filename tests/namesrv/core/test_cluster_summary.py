"""Clusters in numbers."""

import pytest
from builders import CLUSTER, topic_configs
from clusters import register
from route_states import lose_connection

from namesrv.core import cluster_summary
from namesrv.core.changes import TopicKind
from namesrv.core.cluster_summary import BrokerRole, SetLeadership
from namesrv.core.route_state import RouteState
from namesrv.core.values.cooperative import run_to_completion
from namesrv.settings.config import NameServerConfig


@pytest.fixture
def state():
    return RouteState(NameServerConfig())


def test_an_empty_name_server_has_no_clusters(state):
    assert run_to_completion(cluster_summary.clusters(state)) == {}


def test_a_cluster_is_counted_by_sets_brokers_topics_and_queues(state):
    register(state, "broker-a", topics=topic_configs("t", "%RETRY%g", "%DLQ%g", "TBW102", read_queue_nums=4))
    register(state, "broker-a", 1)
    register(state, "broker-b", topics=topic_configs("t", "u", write_queue_nums=2))
    numbers = run_to_completion(cluster_summary.clusters(state))[CLUSTER]
    assert numbers.brokers == {BrokerRole.MASTER: 2, BrokerRole.SLAVE: 1}
    assert numbers.sets == {SetLeadership.MASTER: 2, SetLeadership.NO_MASTER: 0, SetLeadership.ACTING_MASTER: 0}
    assert numbers.topics == {TopicKind.NORMAL: 2, TopicKind.SYSTEM: 1, TopicKind.RETRY: 1, TopicKind.DLQ: 1}
    assert (numbers.read_queues, numbers.write_queues) == (4 * 4 + 2 * 16, 4 * 16 + 2 * 2)


def test_topics_named_after_clusters_and_sets_count_as_those_of_the_system(state):
    register(state, "broker-a", topics=topic_configs("t", CLUSTER, "broker-a", f"{CLUSTER}_REPLY_TOPIC"))
    register(state, "broker-b", topics=topic_configs("t", CLUSTER, "broker-b"))
    register(state, "broker-c", cluster="other", topics=topic_configs("broker-a", "broker-d"))
    numbers = run_to_completion(cluster_summary.clusters(state))
    kinds = {name: (each.topics[TopicKind.NORMAL], each.topics[TopicKind.SYSTEM]) for name, each in numbers.items()}
    assert kinds == {CLUSTER: (1, 4), "other": (1, 1)}


@pytest.mark.parametrize(("enabled", "found"), [(True, SetLeadership.ACTING_MASTER), (False, SetLeadership.NO_MASTER)])
def test_a_set_that_lost_its_master_shows_whether_a_slave_acts_for_it(state, enabled, found):
    register(state, "broker-a", connection_id=1, enable_acting_master=enabled)
    register(state, "broker-a", 1, connection_id=2, enable_acting_master=enabled)
    lose_connection(state, 1, now_ms=1)
    assert run_to_completion(cluster_summary.clusters(state))[CLUSTER].sets[found] == 1


def test_members_of_a_set_count_in_the_cluster_they_registered_in(state):
    register(state, "broker-a")
    register(state, "broker-a", 1, cluster="other")
    clusters = run_to_completion(cluster_summary.clusters(state))
    assert clusters[CLUSTER].brokers == {BrokerRole.MASTER: 1, BrokerRole.SLAVE: 0}
    assert clusters["other"].brokers == {BrokerRole.MASTER: 0, BrokerRole.SLAVE: 1}
    assert sum(clusters["other"].sets.values()) == 0


def test_a_cluster_goes_with_its_last_broker(state):
    register(state, "broker-a")
    lose_connection(state, 1, now_ms=1)
    assert run_to_completion(cluster_summary.clusters(state)) == {}
