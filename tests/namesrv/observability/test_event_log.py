"""Which happening becomes which line, at most one a request, and which numbers it moves."""

import pytest
from builders import CLUSTER, topic_configs
from clusters import register
from fakes.clock import FakeClock
from fakes.lines import Lines
from route_states import expire, lose_connection, unregister_broker

from namesrv.core.route_state import RouteState
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.values.effects import HeartbeatKind
from namesrv.observability import metric_catalogue as metrics
from namesrv.observability.event_log import NameServerEventLog, is_late
from namesrv.observability.log_events import EVENTS
from namesrv.settings.config import NAMESRV, NameServerConfig
from namesrv.wire.request_table import BROKER_CODES
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import FrameError, FrameTooLarge
from remoting.protocol.shapes.route import DataVersion, QueueData
from remoting.server.observer import CloseReason, ConnectionKind, Rejection
from serving.config.stored_config import NotStored
from serving.logging.events import common_keys
from serving.logging.logs import Logs, json_line
from serving.metrics.counters import OTHER
from serving.metrics.server_counters import ServerCounters
from serving.process.event_log import AttributedDispatcher
from serving.telemetry.telemetry import Telemetry

A = LiveKey("broker-a", "broker-a-0:10911")


class Connection:
    """The other end."""

    id = 7
    peer = "10.0.0.9:50000"

    def __init__(self):
        self.kind = ConnectionKind.UNKNOWN


class Desk:
    """A journal over a real state, and the lines it wrote."""

    def __init__(self):
        self.lines = Lines()
        self.seen = []
        self.logs = Logs(self.lines, json_line(), FakeClock(), {})
        self.logs.set_level("debug")
        self.counters = ServerCounters()
        self.telemetry = Telemetry(self.logs, metrics.DECLARED)
        self.event_log = NameServerEventLog(
            self.logs, self.counters, self.telemetry, NameServerConfig(tls_server_key_password="hunter2")
        )
        self.state = RouteState(NameServerConfig())

    def note(self, outcome):
        if outcome.events:
            self.event_log.record(outcome.events)

    def register(self, *broker, **values):
        self.note(register(self.state, *broker, **values))

    def heartbeat(self, now_ms):
        self.note(self.state.heartbeat(CLUSTER, A, HeartbeatKind.HEARTBEAT, now_ms))

    def counts(self, counter):
        """Return the counts of a counter that are not 0."""
        return {labels: count for labels, count in self.telemetry.counters[counter].counts().items() if count}

    def taken(self):
        """Return the lines since the last look, without what every line has."""
        common = {"timestamp", "level"}
        lines = self.lines.decoded()
        self.seen += lines
        self.lines.clear()
        return [{key: value for key, value in line.items() if key not in common} for line in lines]


@pytest.fixture
def desk():
    desk = Desk()
    yield desk
    for line in desk.lines.decoded() + desk.seen:
        check_against_catalogue(line)
    desk.logs.close(1)


def check_against_catalogue(line):
    event = next(each for each in EVENTS if each.name == line["event"])
    assert line["level"] == event.level.word
    audit = {"audit", "peer", "request_code", "opaque"} if event.audit else set()
    assert set(line) <= {*event.keys, *(key.name for key in common_keys(NAMESRV)), *audit}


# Brokers


def test_first_registration_is_one_line_with_counts_and_sample_topics(desk):
    desk.register(topics=topic_configs(*(f"t{number}" for number in range(10_000))), ignored_topics=3)
    assert desk.taken() == [
        {
            "event": "broker_registered",
            "cluster": CLUSTER,
            "broker": "broker-a",
            "broker_id": 0,
            "addr": "broker-a-0:10911",
            "topics": 10_000,
            "data_version": {"counter": 1, "state_version": 0, "timestamp": 1_700_000_000_000},
            "ignored_topics": 3,
            "heartbeat_timeout_ms": 120_000,
            "set_added": True,
            "master_changed": True,
            "topics_added": 10_000,
            "topics_removed": 0,
            "queues_changed": 0,
            "perms_changed": 0,
            "sample_topics": ["t0", "t1", "t2", "t3", "t4"],
        }
    ]


def test_unchanged_registrations_and_heartbeats_are_counted_and_not_logged(desk):
    desk.register()
    desk.taken()
    desk.register(now_ms=30_000)
    desk.register(now_ms=60_000, data_version=DataVersion(2))
    desk.note(desk.state.heartbeat(CLUSTER, A, HeartbeatKind.HEARTBEAT, 61_000))
    desk.note(desk.state.query_data_version(CLUSTER, A, 1, 62_000))
    assert desk.taken() == []
    assert desk.counts(metrics.HEARTBEATS) == {
        (CLUSTER, "register"): 3,
        (CLUSTER, "heartbeat"): 1,
        (CLUSTER, "data_version"): 1,
    }


def test_registration_that_changes_routes_is_logged_with_counts(desk):
    desk.register()
    desk.taken()
    desk.register(data_version=DataVersion(2), topics=topic_configs("TopicTest", "New", read_queue_nums=4))
    (line,) = desk.taken()
    assert line["event"] == "broker_topics_changed"
    assert (line["topics_added"], line["queues_changed"], line["sample_topics"]) == (1, 1, ["TopicTest", "New"])


def test_topics_that_a_new_master_lacks_are_logged_once(desk):
    desk.register(topics=topic_configs("A", "Orders"))
    desk.register("broker-a", 1, connection_id=2, topics=topic_configs("A", "Orders"))
    desk.note(lose_connection(desk.state, 1, 0))
    desk.register(address="broker-a-1:10911", connection_id=2, topics=topic_configs("A", "B"))
    desk.taken()
    for now_ms in (10_000, 11_000):
        for lost in desk.state.lost_topics.report(now_ms):
            desk.event_log.topics_not_copied(*lost)
    line = {"event": "topics_not_copied", "broker": "broker-a", "topics": 1, "sample_topics": ["Orders"]}
    assert desk.taken() == [line]


def test_ignored_topics_are_logged_when_the_registration_changes(desk):
    desk.register()
    desk.taken()
    desk.register(now_ms=1, ignored_topics=2)
    assert desk.taken() == []
    desk.register(now_ms=2, ignored_topics=2, data_version=DataVersion(2))
    (line,) = desk.taken()
    assert (line["event"], line["ignored_topics"]) == ("broker_topics_ignored", 2)


def test_superseding_registration_is_one_line_with_both_addresses(desk):
    desk.register()
    desk.taken()
    desk.register(address="new:10911", connection_id=2, now_ms=4_000)
    (line,) = desk.taken()
    assert (line["event"], line["addr"], line["former_addr"]) == ("broker_superseded", "new:10911", "broker-a-0:10911")
    assert line["silent_ms"] == 4_000
    assert desk.counts(metrics.ROUTE_CHANGES)[CLUSTER, "master"] == 2
    assert desk.counts(metrics.UNREGISTRATIONS) == {(CLUSTER, "superseded"): 1}


def test_conflict_is_logged_with_both_addresses_and_versions(desk):
    desk.register(data_version=DataVersion(1, 5))
    desk.taken()
    desk.register(address="old:10911", data_version=DataVersion(1, 4))
    (line,) = desk.taken()
    assert line == {
        "event": "registration_conflicted",
        "cluster": CLUSTER,
        "broker": "broker-a",
        "broker_id": 0,
        "addr": "old:10911",
        "state_version": 4,
        "holder_addr": "broker-a-0:10911",
        "holder_state_version": 5,
    }
    assert desk.counts(metrics.REGISTRATIONS)[CLUSTER, "conflict"] == 1


def test_member_that_requests_the_id_of_a_newer_one_is_logged_as_evicted(desk):
    desk.register(data_version=DataVersion(1, 5))
    desk.register(broker_id=1, address="slave:10911", data_version=DataVersion(1, 4))
    desk.taken()
    desk.register(address="slave:10911", data_version=DataVersion(1, 4))
    conflict, evicted = desk.taken()
    assert (conflict["event"], evicted["event"]) == ("registration_conflicted", "broker_evicted")
    assert (evicted["addr"], evicted["broker_id"], evicted["set_removed"]) == ("slave:10911", 1, False)


def test_stale_registration_is_logged(desk):
    desk.register(connection_id=5)
    desk.taken()
    desk.register(connection_id=4, is_late=True)
    (line,) = desk.taken()
    assert (line["event"], line["addr"]) == ("registration_ignored", "broker-a-0:10911")
    assert desk.counts(metrics.REGISTRATIONS)[CLUSTER, "rejected"] == 1


@pytest.mark.parametrize(
    ("leave", "event", "reason", "silent_ms"),
    [
        (lambda state: unregister_broker(state, CLUSTER, A, 1, 500), "broker_unregistered", "request", 500),
        (lambda state: lose_connection(state, 1, 600), "broker_disconnected", "channel_closed", 600),
        (lambda state: expire(state, 120_001), "broker_expired", "timeout", 120_001),
    ],
)
def test_removal_is_logged_and_counted_with_reason_silence_and_timeout(desk, leave, event, reason, silent_ms):
    desk.register()
    desk.taken()
    desk.note(leave(desk.state))
    (line,) = desk.taken()
    assert (line["event"], line["silent_ms"], line["heartbeat_timeout_ms"]) == (event, silent_ms, 120_000)
    assert (line["was_master"], line["set_removed"], line["topics_removed"]) == (True, True, 2)
    assert desk.counts(metrics.UNREGISTRATIONS) == {(CLUSTER, reason): 1}
    changes = desk.counts(metrics.ROUTE_CHANGES)
    assert (changes[CLUSTER, "broker_removed"], changes[CLUSTER, "topic_removed"]) == (1, 2)
    delays = {
        labels: each.sum
        for labels, each in desk.telemetry.timers[metrics.DETECTION_DELAY].histograms().items()
        if each.sum
    }
    assert delays == ({} if reason == "request" else {(reason,): silent_ms / 1000})


def test_lost_connection_of_two_brokers_is_logged_for_both(desk):
    desk.register("broker-a")
    desk.register("broker-b")
    desk.taken()
    desk.note(lose_connection(desk.state, 1, 600))
    assert [line["broker"] for line in desk.taken()] == ["broker-a", "broker-b"]


def test_stale_unregistration_is_logged(desk):
    desk.register(connection_id=5)
    desk.taken()
    desk.note(unregister_broker(desk.state, CLUSTER, A, 4, 500))
    assert desk.taken() == [
        {"event": "unregistration_ignored", "cluster": CLUSTER, "broker": "broker-a", "addr": "broker-a-0:10911"}
    ]
    assert desk.counts(metrics.UNREGISTRATIONS) == {}


# Numbers that have no line of their own


def test_registrations_are_counted_by_result(desk):
    desk.register()
    desk.register(now_ms=30_000)
    desk.register(now_ms=60_000, data_version=DataVersion(2), topics=topic_configs("TopicTest", "New"))
    assert desk.telemetry.counters[metrics.REGISTRATIONS].counts() == {
        (CLUSTER, "first"): 1,
        (CLUSTER, "unchanged"): 1,
        (CLUSTER, "changed"): 1,
        (CLUSTER, "conflict"): 0,
        (CLUSTER, "rejected"): 0,
    }
    assert desk.telemetry.timers[metrics.REGISTRATION_TOPICS].histograms()[()].buckets[:3] == [1, 1, 1]


def test_size_of_a_registration_is_counted(desk):
    desk.register(body_bytes=300)
    assert desk.telemetry.timers[metrics.REGISTRATION_BYTES].histograms()[()].sum == 300


def test_first_registration_creates_removal_and_lateness_series_at_zero(desk):
    desk.register()
    assert set(desk.telemetry.counters[metrics.UNREGISTRATIONS].counts().values()) == {0}
    assert desk.telemetry.counters[metrics.HEARTBEATS_LATE].counts() == {(CLUSTER, "broker-a"): 0}


def test_heartbeats_are_counted_by_kind_with_their_intervals(desk):
    desk.register()
    desk.heartbeat(1_000)
    desk.heartbeat(4_000)
    assert desk.counts(metrics.HEARTBEATS) == {(CLUSTER, "register"): 1, (CLUSTER, "heartbeat"): 2}
    intervals = desk.telemetry.timers[metrics.HEARTBEAT_INTERVAL].histograms()[CLUSTER,]
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


def test_late_heartbeats_are_counted_until_the_set_is_removed(desk):
    desk.register()
    desk.register(now_ms=45_000)
    desk.register(now_ms=100_000)
    assert desk.telemetry.counters[metrics.HEARTBEATS_LATE].counts() == {(CLUSTER, "broker-a"): 1}
    desk.note(lose_connection(desk.state, 1, now_ms=100_001))
    assert desk.telemetry.counters[metrics.HEARTBEATS_LATE].counts() == {}


def test_route_changes_are_counted_by_kind(desk):
    desk.register(topics=topic_configs("a", "b", "c"))
    desk.register(
        data_version=DataVersion(2),
        topics=topic_configs("a", read_queue_nums=1) | topic_configs("b", perm=4) | topic_configs("c", "d"),
    )
    desk.note(desk.state.delete_topic("a", None))
    assert desk.counts(metrics.ROUTE_CHANGES) == {
        (CLUSTER, "broker_added"): 1,
        (CLUSTER, "master"): 1,
        (CLUSTER, "topic_added"): 4,
        (CLUSTER, "topic_removed"): 1,
        (CLUSTER, "queues"): 1,
        (CLUSTER, "perm"): 1,
    }


# What operators change


class Commands:
    """Does what an operator's request asks, and answers at once or later."""

    def __init__(self, act):
        self.act = act

    def dispatch(self, request, _):
        if request.code in (RequestCode.PUT_KV_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG):
            return self.later(request)
        self.act()
        return request.reply()

    async def later(self, request):
        self.act()
        return request.reply()


REQUESTER = {"audit": True, "peer": "10.0.0.9:50000", "opaque": 42}


def attributed(commands):
    return AttributedDispatcher(commands, BROKER_CODES, RequestCode.GET_ROUTEINFO_BY_TOPIC)


def command(act, code):
    return attributed(Commands(act)).dispatch(RemotingCommand(code, opaque=42), Connection())


def test_request_that_changes_many_broker_sets_is_one_audit_line(desk):
    for name in ("broker-a", "broker-b", "broker-c"):
        desk.register(name)
    desk.taken()
    command(lambda: desk.note(desk.state.delete_topic("TopicTest", None)), RequestCode.DELETE_TOPIC_IN_NAMESRV)
    (line,) = desk.taken()
    assert line == REQUESTER | {
        "event": "topics_changed",
        "request_code": "delete_topic_in_namesrv",
        "command": "DELETE_TOPIC_IN_NAMESRV",
        "target": "TopicTest",
        "clusters": [CLUSTER],
        "brokers": 3,
        "topics_added": 0,
        "topics_removed": 3,
        "queues_changed": 0,
        "perms_changed": 0,
        "sample_topics": ["TopicTest"],
    }


def test_revoked_permission_and_added_topic_are_audited(desk):
    desk.register()
    desk.taken()
    command(lambda: desk.note(desk.state.wipe_write_perm("broker-a")), RequestCode.WIPE_WRITE_PERM_OF_BROKER)
    added = QueueData(broker_name="broker-a", perm=6, read_queue_nums=1, write_queue_nums=1)
    command(lambda: desk.note(desk.state.register_topic("New", [added])), RequestCode.REGISTER_TOPIC_IN_NAMESRV)
    wiped, topic = desk.taken()
    assert (wiped["target"], wiped["perms_changed"], wiped["audit"]) == ("broker-a", 2, True)
    assert (topic["target"], topic["topics_added"], topic["audit"]) == ("New", 1, True)


async def test_kv_change_is_audited_with_requester_and_both_values(desk):
    await command(lambda: desk.event_log.kv_changed("ns", "k", None, "1"), RequestCode.PUT_KV_CONFIG)
    (line,) = desk.taken()
    assert line == REQUESTER | {
        "event": "kv_changed",
        "request_code": "put_kv_config",
        "namespace": "ns",
        "key": "k",
        "old": None,
        "new": "1",
    }
    assert desk.telemetry.counters[metrics.KV_CHANGES].counts() == {("stored",): 1, ("failed",): 0}


async def test_change_without_a_request_is_audited_without_a_requester(desk):
    await command(lambda: None, RequestCode.PUT_KV_CONFIG)
    command(lambda: None, RequestCode.DELETE_TOPIC_IN_NAMESRV)
    desk.event_log.kv_changed("ns", "k", None, "1")
    (line,) = desk.taken()
    assert "peer" not in line


async def test_configuration_change_is_audited_with_old_and_new_values_and_no_secret(desk):
    changed = NameServerConfig(support_acting_master=True, log_level="warning", tls_server_key_password="hunter3")
    keys = ("supportActingMaster", "logLevel", "tls.server.keyPassword")
    await command(lambda: desk.event_log.config_changed(keys, ("odd",), changed), RequestCode.UPDATE_NAMESRV_CONFIG)
    assert desk.taken()[0]["new"] == {
        "supportActingMaster": "true",
        "logLevel": "warning",
        "tls.server.keyPassword": "******",
    }
    back = NameServerConfig(tls_server_key_password="hunter2")
    await command(lambda: desk.event_log.config_changed(keys, ("odd",), back), RequestCode.UPDATE_NAMESRV_CONFIG)
    (line,) = desk.taken()
    assert line["old"]["supportActingMaster"] == "true"
    assert line["new"] == {"supportActingMaster": "false", "logLevel": "info", "tls.server.keyPassword": "******"}
    assert line["unknown"] == ["odd"]
    assert desk.counters.config_changes.counts() == {("stored",): 2, ("failed",): 0}


async def test_configuration_change_is_audited_with_what_is_in_force_and_what_needs_a_restart(desk):
    keys = ("connectionsMax", "defaultThreadPoolNums", "enableTopicList", "mine", "serializeType")
    await command(
        lambda: desk.event_log.config_changed(keys, (), NameServerConfig()), RequestCode.UPDATE_NAMESRV_CONFIG
    )
    (line,) = desk.taken()
    assert line["in_force"] == ["enableTopicList"]
    assert line["from_next_start"] == ["connectionsMax", "serializeType"]


def test_change_that_cannot_be_stored_is_logged_as_an_error(desk):
    desk.event_log.kv_not_stored(NotStored("kvConfig.json: no space left"))
    desk.event_log.config_not_stored(NotStored("namesrv.properties: no space left"))
    kv, config = desk.lines.decoded()
    assert (kv["event"], kv["level"], kv["error"]) == ("kv_store_failed", "error", "kvConfig.json: no space left")
    assert (config["event"], config["level"]) == ("config_store_failed", "error")
    assert (
        desk.telemetry.counters[metrics.KV_CHANGES].counts()["failed",]
        == desk.counters.config_changes.counts()["failed",]
        == 1
    )


# Connections and requests


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        ([RequestCode.GET_ROUTEINFO_BY_TOPIC], ConnectionKind.CLIENT),
        ([RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.REGISTER_BROKER], ConnectionKind.BROKER),
        ([RequestCode.BROKER_HEARTBEAT, RequestCode.GET_ROUTEINFO_BY_TOPIC], ConnectionKind.BROKER),
        ([RequestCode.GET_BROKER_CLUSTER_INFO], ConnectionKind.CLIENT),
        ([9999], ConnectionKind.CLIENT),
    ],
)
def test_connection_kind_follows_its_requests(codes, kind):
    connection = Connection()
    for code in codes:
        answer = attributed(Commands(lambda: None)).dispatch(RemotingCommand(code, opaque=1), connection)
        assert answer.opaque == 1
    assert connection.kind is kind


def test_rejected_frame_is_one_line_with_peer_and_reason(desk):
    desk.event_log.frame_rejected(Connection(), FrameError("this looks like an HTTP client"))
    desk.event_log.frame_rejected(Connection(), FrameTooLarge(2**30, 2**24))
    bad, large = desk.taken()
    assert bad == {
        "event": "frame_rejected",
        "peer": "10.0.0.9:50000",
        "reason": "bad_frame",
        "error": "this looks like an HTTP client",
    }
    assert large["reason"] == "too_large"


def test_paused_connection_is_one_line_with_its_response_buffer(desk):
    desk.event_log.connection_paused(Connection(), 1_100_000)
    assert desk.taken() == [
        {"event": "connection_paused", "peer": "10.0.0.9:50000", "response_buffer_bytes": 1_100_000}
    ]


def test_rejected_request_is_logged_unless_the_server_drains(desk):
    request = RemotingCommand(RequestCode.REGISTER_BROKER, opaque=3, ext_fields={"brokerName": "broker-a"})
    unknown = RemotingCommand(9999, opaque=4)
    desk.event_log.request_rejected(Connection(), request, Rejection.BAD_REQUEST, "clusterName is missing")
    desk.event_log.request_rejected(Connection(), unknown, Rejection.BUSY, "busy")
    desk.event_log.request_rejected(Connection(), request, Rejection.DRAINING, "please go away")
    first, second = desk.taken()
    assert first == {
        "event": "request_rejected",
        "peer": "10.0.0.9:50000",
        "request_code": "register_broker",
        "opaque": 3,
        "reason": "bad_request",
        "error": "clusterName is missing",
    }
    assert second["request_code"] == 9999


def test_refused_registration_is_counted_for_its_cluster(desk):
    refused = RemotingCommand(RequestCode.REGISTER_BROKER, opaque=3, ext_fields={"clusterName": CLUSTER})
    desk.event_log.request_rejected(Connection(), refused, Rejection.BAD_REQUEST, "crc32 not match")
    desk.register()
    desk.event_log.request_rejected(Connection(), refused, Rejection.BAD_REQUEST, "crc32 not match")
    desk.taken()
    counts = desk.telemetry.counters[metrics.REGISTRATIONS].counts()
    # A cluster that nobody registered in may be an invention.
    assert (counts[OTHER, "rejected"], counts[CLUSTER, "rejected"]) == (1, 1)


def test_handler_fault_is_logged_as_an_error_with_its_place(desk):
    desk.event_log.handler_failed(Connection(), RemotingCommand(105, opaque=3), KeyError("x"))
    (line,) = desk.taken()
    assert (line["event"], line["request_code"]) == ("request_failed", "get_routeinfo_by_topic")
    assert line["exception"][0]["exc_type"] == "KeyError"


def test_connections_are_logged_at_debug_and_slow_readers_at_warning(desk):
    desk.event_log.connection_opened(Connection())
    desk.event_log.connection_closed(Connection(), CloseReason.PEER)
    desk.event_log.connection_refused("10.0.0.9:1", 16_384)
    desk.event_log.connection_closed(Connection(), CloseReason.SLOW_READER)
    lines = desk.lines.decoded()
    assert [(line["event"], line["level"]) for line in lines] == [
        ("connection_opened", "debug"),
        ("connection_closed", "debug"),
        ("connection_refused", "warning"),
        ("slow_reader_disconnected", "warning"),
    ]
