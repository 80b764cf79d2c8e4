"""Which numbers move with which event."""

import pytest
from builders import CLUSTER, topic_configs
from clusters import register
from route_states import expire, lose_connection, unregister_broker

from namesrv.core.route_state import RouteState
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.values.effects import HeartbeatKind
from namesrv.observability.broker_counters import BrokerCounters, is_late
from namesrv.settings.config import NameServerConfig
from remoting.protocol.shapes.route import DataVersion


class Counted:
    """A state whose events are counted."""

    def __init__(self):
        self.state = RouteState(NameServerConfig())
        self.counters = BrokerCounters()

    def count(self, outcome):
        for event in outcome.events:
            self.counters.count(event)

    def register(self, *broker, **values):
        self.count(register(self.state, *broker, **values))

    def heartbeat(self, now_ms):
        self.count(
            self.state.heartbeat(CLUSTER, LiveKey("broker-a", "broker-a-0:10911"), HeartbeatKind.HEARTBEAT, now_ms)
        )


@pytest.fixture
def counted():
    return Counted()


def not_zero(tally):
    return {labels: count for labels, count in tally.counts().items() if count}


def test_registrations_are_counted_by_result(counted):
    counted.register()
    counted.register(now_ms=30_000)
    counted.register(now_ms=60_000, data_version=DataVersion(2), topics=topic_configs("TopicTest", "New"))
    assert counted.counters.registrations.counts() == {
        (CLUSTER, "first"): 1,
        (CLUSTER, "unchanged"): 1,
        (CLUSTER, "changed"): 1,
        (CLUSTER, "conflict"): 0,
        (CLUSTER, "rejected"): 0,
    }
    assert counted.counters.registration_changed_topics.buckets[:3] == [1, 1, 1]


def test_conflicting_registration_is_counted(counted):
    counted.register(data_version=DataVersion(1, 5))
    counted.register(address="elsewhere:10911", data_version=DataVersion(1, 4))
    assert counted.counters.registrations.counts()[CLUSTER, "conflict"] == 1


def test_stale_registration_is_counted_as_rejected(counted):
    counted.register(connection_id=2)
    counted.register(connection_id=1, is_late=True)
    assert counted.counters.registrations.counts()[CLUSTER, "rejected"] == 1


def test_size_of_a_registration_is_counted(counted):
    counted.register(body_bytes=300)
    assert counted.counters.registration_body_bytes.sum == 300


def test_first_registration_creates_removal_and_lateness_series_at_zero(counted):
    counted.register()
    assert set(counted.counters.unregistrations.counts().values()) == {0}
    assert counted.counters.heartbeats_late.counts() == {(CLUSTER, "broker-a"): 0}


def test_heartbeats_are_counted_by_kind_with_their_intervals(counted):
    counted.register()
    counted.heartbeat(1_000)
    counted.heartbeat(4_000)
    assert not_zero(counted.counters.heartbeats) == {(CLUSTER, "register"): 1, (CLUSTER, "heartbeat"): 2}
    intervals = counted.counters.heartbeat_interval.histograms()[CLUSTER,]
    assert (sum(intervals.buckets), intervals.sum) == (2, 4.0)


@pytest.mark.parametrize(
    ("interval_ms", "timeout_ms", "late"),
    [
        (45_000, 120_000, False),
        (45_001, 120_000, True),
        (1_500, 10_000, False),
        (1_501, 10_000, True),
        (45_000, 30_000, False),
        (1_501, 29_999, True),
    ],
)
def test_heartbeat_is_late_after_one_and_a_half_periods(interval_ms, timeout_ms, late):
    assert is_late(interval_ms, timeout_ms) == late


def test_late_heartbeats_are_counted_until_the_set_is_removed(counted):
    counted.register()
    counted.register(now_ms=45_000)
    counted.register(now_ms=100_000)
    assert counted.counters.heartbeats_late.counts() == {(CLUSTER, "broker-a"): 1}
    counted.count(lose_connection(counted.state, 1, now_ms=100_001))
    assert counted.counters.heartbeats_late.counts() == {}


@pytest.mark.parametrize(
    ("leave", "reason"),
    [
        (lambda state: lose_connection(state, 1, 2_000), "channel_closed"),
        (lambda state: expire(state, 122_000), "timeout"),
        (
            lambda state: unregister_broker(state, CLUSTER, LiveKey("broker-a", "broker-a-0:10911"), 1, 2_000),
            "request",
        ),
    ],
)
def test_removals_are_counted_by_reason(counted, leave, reason):
    counted.register()
    counted.count(leave(counted.state))
    assert not_zero(counted.counters.unregistrations) == {(CLUSTER, reason): 1}
    assert not_zero(counted.counters.route_changes)[CLUSTER, "broker_removed"] == 1
    assert not_zero(counted.counters.route_changes)[CLUSTER, "topic_removed"] == 2


def test_detection_delay_is_observed_for_expired_and_disconnected_brokers(counted):
    counted.register()
    counted.count(expire(counted.state, 121_500))
    counted.register(now_ms=200_000)
    counted.count(lose_connection(counted.state, 1, 203_000))
    delays = counted.counters.detection_delay.histograms()
    assert delays["timeout",].sum == 121.5
    assert delays["channel_closed",].sum == 3.0


def test_superseded_master_counts_as_one_change_of_master(counted):
    counted.register()
    counted.register(address="elsewhere:10911", connection_id=2)
    changes = not_zero(counted.counters.route_changes)
    assert changes[CLUSTER, "master"] == 2
    assert not_zero(counted.counters.unregistrations) == {(CLUSTER, "superseded"): 1}


def test_route_changes_are_counted_by_kind(counted):
    counted.register(topics=topic_configs("a", "b", "c"))
    counted.register(
        data_version=DataVersion(2),
        topics=topic_configs("a", read_queue_nums=1) | topic_configs("b", perm=4) | topic_configs("c", "d"),
    )
    counted.count(counted.state.delete_topic("a", None))
    assert not_zero(counted.counters.route_changes) == {
        (CLUSTER, "broker_added"): 1,
        (CLUSTER, "master"): 1,
        (CLUSTER, "topic_added"): 4,
        (CLUSTER, "topic_removed"): 1,
        (CLUSTER, "queues"): 1,
        (CLUSTER, "perm"): 1,
    }


def test_stale_unregistration_changes_no_counter(counted):
    counted.register(connection_id=5)
    before = dict(counted.counters.unregistrations.counts())
    counted.count(unregister_broker(counted.state, CLUSTER, LiveKey("broker-a", "broker-a-0:10911"), 1, 2_000))
    assert counted.counters.unregistrations.counts() == before
