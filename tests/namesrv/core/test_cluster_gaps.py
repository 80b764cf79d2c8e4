"""What operators learn of broker sets beside their routes: lost topics, slaves without the newest ones, sets away."""

import pytest
from builders import BROKER, CLUSTER, TOPIC, a_data_version, an_address, topic_configs
from clusters import register
from route_states import lose_connection

from namesrv.core.cluster_gaps import gaps_of, lost_topics
from namesrv.core.route_state import RouteState
from namesrv.core.tables.live_table import PERIOD_MS_DEFAULT, TOPIC_COPY_MS_MAX
from namesrv.core.tables.lost_topics import SETTLE_MS
from namesrv.core.values.cooperative import run_to_completion
from namesrv.settings.config import NameServerConfig
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.broker_sets import LostTopics, StaleReplica

#: Of the topic that no slave has copied yet.
NEWER = a_data_version(counter=2)
ALL, COPIED = topic_configs(TOPIC, BROKER, "Orders"), topic_configs(TOPIC, BROKER)
UNIX_MS = 1_800_000_000_000


@pytest.fixture
def state():
    return RouteState(NameServerConfig())


def gaps(state):
    return run_to_completion(gaps_of(state, UNIX_MS))


def promote(state, now_ms, topics=COPIED, **values):
    """Make the slave of two brokers the master, which registers with these topics."""
    address = an_address(broker_id=1)
    return register(state, now_ms=now_ms, address=address, connection_id=2, topics=topics, **values)


def failed_over(state, topics=COPIED):
    """Have a topic created, the master killed, and its slave registered as master with `topics`."""
    register(state, broker_id=1, connection_id=2)
    register(state, topics=ALL, data_version=NEWER)
    lose_connection(state, 1, 0)
    promote(state, 100, topics)


def report(state, now_ms=100 + SETTLE_MS):
    return [(name, losses.names) for name, losses in state.lost_topics.report(now_ms)]


def test_topic_that_the_new_master_lacks_is_reported_and_stays_visible(state):
    failed_over(state)
    assert report(state, SETTLE_MS) == []
    assert report(state) == [(BROKER, ["Orders"])]
    assert state.route_of("Orders", None) is not None
    lost = LostTopics(cluster=CLUSTER, broker_name=BROKER, since_unix_ms=UNIX_MS + 100, count=1, topics=["Orders"])
    assert gaps(state)["lostTopics"] == [lost]
    promote(state, PERIOD_MS_DEFAULT)
    assert (report(state), gaps(state)["lostTopics"]) == ([], [lost])


@pytest.mark.parametrize(
    "end",
    [
        lambda state: promote(state, 200, ALL, data_version=NEWER),
        lambda state: state.delete_topic("Orders", None),
        lambda state: lose_connection(state, 2, 200),
        lambda state: register(state, now_ms=200, topics=ALL, data_version=a_data_version(state_version=9)),
    ],
    ids=["created again", "deleted", "the set is gone", "the old master is back"],
)
def test_nothing_is_lost_when_the_topic_is_back_or_in_no_route(state, end):
    failed_over(state)
    end(state)
    assert (report(state), gaps(state)["lostTopics"]) == ([], [])


def test_failover_to_a_slave_that_has_all_topics_loses_none(state):
    failed_over(state, ALL)
    assert report(state) == []
    assert lost_topics(state, BROKER, UNIX_MS) is None


def test_topics_that_a_master_registers_in_parts_are_not_lost(state):
    failed_over(state, topic_configs(TOPIC, BROKER))
    promote(state, 150, topic_configs("Orders", "More"))
    assert report(state) == []


def test_topics_that_a_slave_does_not_register_or_a_restarted_master_adds_are_not_lost(state):
    register(state, topics=ALL)
    register(state, broker_id=1, connection_id=2)
    register(state, topics=ALL | topic_configs("More"), data_version=NEWER)
    assert report(state) == []


def test_slave_that_registers_long_after_its_master_with_other_topics_is_stale(state):
    register(state)
    register(state, broker_id=1, connection_id=2)
    register(state, now_ms=1000, topics=ALL, data_version=NEWER)
    register(state, broker_id=1, connection_id=2, now_ms=1000 + TOPIC_COPY_MS_MAX - 1)
    # The master repeats itself, which makes its topics no newer.
    register(state, now_ms=PERIOD_MS_DEFAULT, topics=ALL, data_version=NEWER)
    assert gaps(state)["staleReplicas"] == []
    register(state, broker_id=1, connection_id=2, now_ms=1000 + TOPIC_COPY_MS_MAX)
    stale = StaleReplica(cluster=CLUSTER, broker_name=BROKER, broker_id=1, broker_addr=an_address(broker_id=1))
    assert gaps(state)["staleReplicas"] == [stale]
    register(state, broker_id=1, connection_id=2, now_ms=60_000, data_version=NEWER)
    assert gaps(state)["staleReplicas"] == []


def test_slave_without_a_master_is_not_stale(state):
    register(state, topics=ALL, data_version=NEWER)
    register(state, broker_id=1, connection_id=2, now_ms=60_000)
    lose_connection(state, 1, 60_000)
    assert gaps(state)["staleReplicas"] == []


def test_gaps_of_a_host_with_very_many_leave_the_answer_short_and_those_of_others_in_it(state):
    def fail_over(number, name, network, *topics):
        known = {"broker_name": name, "network": network, "cluster": "c" * 255}
        address = {"address": f"{name[:7]}:2", "broker_id": 1, "connection_id": 2 + number}
        register(state, **known, **address, topics=COPIED)
        register(state, **known, topics=topic_configs(TOPIC, BROKER, *topics), data_version=NEWER)
        lose_connection(state, 1, 0)
        register(state, **known, **(address | {"broker_id": 0}), topics=COPIED)

    for number in range(1100):
        topics = [f"{number} {topic} " + "\u4e2d" * 1000 for topic in range(10)]
        fail_over(number, f"{number:07}{'n' * 248}", "10.6.6.6", *topics)
    fail_over(2000, "real", "10.9.9.9", "Orders")
    state.lost_topics.report(SETTLE_MS)
    lost = gaps(state)["lostTopics"]
    assert lost[-1].broker_name == "real"
    assert len(encode(lost, Dialect.STANDARD)) < 520 * 1024
