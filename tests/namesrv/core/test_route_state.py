"""What each event does to the routes, what it answers, and what it asks of the edge."""

import msgspec
import pytest
from builders import (
    BROKER,
    CLUSTER,
    READ_ONLY,
    RELEASE,
    TOPIC,
    WRITABLE,
    a_broker_set,
    a_data_version,
    a_live_key,
    a_live_row,
    a_mapping,
    a_queue_data,
    a_registration,
    queue_datas,
    text_of,
    topic_configs,
)
from route_states import expire, lose_connection, register_broker, unregister_broker

from namesrv.core.registration.body import decode_registration
from namesrv.core.registration.registration import MasterAddresses
from namesrv.core.route_state import RouteState
from namesrv.core.values.cooperative import run_to_completion
from namesrv.core.values.effects import (
    BrokerHeartbeat,
    BrokerRegistered,
    BrokerRemoved,
    CloseConnection,
    DepartureReason,
    HeartbeatKind,
    NotifyMinBrokerIdChange,
    ProbeConnection,
    RegistrationConflicted,
    RouteChanges,
    RouteOutcome,
    StaleRegistration,
    StaleUnregistration,
    TopicsChangedByAdmin,
)
from namesrv.refusals import RegistrationRefused
from namesrv.settings.config import NameServerConfig
from remoting.protocol.topic_kinds import TopicKind
from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram

MASTER, SLAVE, SECOND_SLAVE = (a_live_key(broker_id=broker_id) for broker_id in range(3))
OTHER = a_live_key(broker_name="broker-b")
MOVED = "moved:10911"
CHANGED = a_data_version(counter=2)
NOTHING = RouteOutcome(reply=None)


@pytest.fixture
def state():
    return RouteState(NameServerConfig())


#: So many that they are taken in slices.
MANY = topic_configs(*(f"t{number}" for number in range(10_000)))


def registration_steps(state, request, *, now_ms=0, is_late=False):
    """Return the steps of a registration that ends at `now_ms`."""
    return state.registration_steps(request, lambda: now_ms, lambda: is_late)


def register(state, *, now_ms=0, **values):
    return register_broker(state, a_registration(**values), now_ms)


def unregister(state, key, *, connection_id=1, now_ms=0):
    return unregister_broker(state, CLUSTER, key, connection_id, now_ms)


def notified(outcome):
    """Return the kinds of events, in their order."""
    return [type(event) for event in outcome.events]


def perms(state):
    return {topic: data.perm for topic, data in state.tables.topics.of_broker(BROKER).items()}


# Registrations


def test_a_registered_broker_lives_and_has_its_topics(state):
    outcome = register(state, now_ms=5)
    assert state.tables.brokers.get(BROKER) == a_broker_set()
    assert state.tables.topics.of_broker(BROKER) == queue_datas(TOPIC, BROKER)
    assert dict(state.tables.live.rows()) == {MASTER: a_live_row(last_heartbeat_ms=5, version_since_ms=5)}
    assert notified(outcome) == [BrokerRegistered, BrokerHeartbeat]
    assert (outcome.reply, outcome.effects) == (MasterAddresses(), ())


def test_registration_event_carries_time_since_last_heartbeat(state):
    heartbeat = BrokerHeartbeat(
        cluster=CLUSTER,
        broker_name=BROKER,
        broker_id=0,
        kind=HeartbeatKind.REGISTER,
        address=MASTER.address,
        interval_ms=None,
        heartbeat_timeout_ms=10_000,
        data_version=a_data_version(),
    )
    assert register(state, now_ms=5, heartbeat_timeout_ms=10_000).events[-1] == heartbeat
    later = register(state, now_ms=3_005, heartbeat_timeout_ms=10_000).events[-1]
    assert (later.interval_ms, later.kind) == (3_000, HeartbeatKind.REGISTER)


def test_a_refused_registration_leaves_nothing(state):
    with pytest.raises(RegistrationRefused):
        register(state, topics=topic_configs(TOPIC))
    assert (len(state.tables.brokers), len(state.tables.live), len(state.tables.topics)) == (0, 0, 0)


def test_a_slave_learns_where_its_master_is_and_the_master_nothing(state):
    assert register(state, ha_server_addr="ha:10912").reply == MasterAddresses(master_addr=None, ha_server_addr=None)
    assert register(state, broker_id=1).reply == MasterAddresses(master_addr=MASTER.address, ha_server_addr="ha:10912")


@pytest.mark.parametrize(("broker_id", "cluster"), [(1, CLUSTER), (0, "Other")])
def test_a_slave_without_a_master_in_its_own_cluster_learns_of_none(state, broker_id, cluster):
    register(state, broker_id=broker_id, cluster=cluster)
    assert register(state, broker_id=2).reply == MasterAddresses()


def test_registration_over_lost_connection_is_ignored_and_answered_as_usual(state):
    register(state)
    register(state, broker_id=1, connection_id=8, now_ms=5)
    late = {"topics": {}, "data_version": CHANGED, "is_late": True}
    outcome = register(state, broker_id=1, connection_id=7, now_ms=9, **late)
    stale = StaleRegistration(cluster=CLUSTER, broker_name=BROKER, broker_id=1, address=SLAVE.address)
    assert outcome == RouteOutcome(
        reply=MasterAddresses(master_addr=MASTER.address, ha_server_addr=""), events=(stale,)
    )
    assert state.tables.live.get(SLAVE) == a_live_row(
        broker_id=1, connection_id=8, last_heartbeat_ms=5, version_since_ms=5
    )


def test_broker_with_two_connections_stays_until_both_are_lost(state):
    """It has two names for this server, and each has a connection."""
    register(state, connection_id=8)
    register(state, connection_id=9)
    register(state, connection_id=8)
    assert lose_connection(state, 9, now_ms=1) == NOTHING
    assert state.tables.live.get(MASTER) == a_live_row(connection_id=8)
    register(state, connection_id=10)
    assert lose_connection(state, 10, now_ms=2) == RouteOutcome(reply=None, effects=(ProbeConnection(8),))
    assert state.tables.live.get(MASTER) == a_live_row(connection_id=8, grace_ends_ms=45_000)
    assert notified(lose_connection(state, 8, now_ms=3)) == [BrokerRemoved]


def test_a_broker_that_is_given_up_loses_all_its_connections(state):
    for connection_id in (7, 8, 9, 10, 11):
        register(state, connection_id=connection_id)
    assert state.tables.live.get(MASTER).connections == (8, 9, 10, 11)
    closed = [effect.connection_id for effect in expire(state, 1_000_000).effects]
    assert closed == [8, 9, 10, 11]


@pytest.mark.parametrize(
    "between",
    [
        lambda state: state.delete_topic(TOPIC, None),
        lambda state: state.wipe_write_perm(BROKER),
        lambda state: lose_connection(state, 1, now_ms=1),
        lambda state: register(state, topics=topic_configs("Other", "Another"), data_version=CHANGED),
    ],
    ids=["deleted", "wiped", "left", "registered"],
)
def test_registration_does_not_undo_changes_applied_between_its_steps(state, between):
    """It comes to the same as if that had happened before."""
    other = RouteState(NameServerConfig())
    request = a_registration(topics=topic_configs(TOPIC, "Second"), connection_id=2)
    for each in (state, other):
        register(each)
    steps = registration_steps(state, request, now_ms=2)
    next(steps)
    between(state)
    outcome = run_to_completion(steps)
    between(other)
    assert outcome == register_broker(other, request, now_ms=2)
    assert dict(state.tables.topics.of_broker(BROKER)) == dict(other.tables.topics.of_broker(BROKER))
    assert list(state.tables.live.rows()) == list(other.tables.live.rows())


def test_broker_with_older_state_is_refused_and_nothing_changes(state):
    register(state, data_version=a_data_version(state_version=2))
    outcome = register(state, address=MOVED)
    assert notified(outcome) == [RegistrationConflicted]
    assert (outcome.reply, outcome.effects) == (MasterAddresses(), ())
    assert state.tables.brokers.get(BROKER) == a_broker_set()
    assert [key for key, _ in state.tables.live.rows()] == [MASTER]


def test_a_slave_that_wrongly_claims_to_be_master_leaves_its_set():
    state = RouteState(NameServerConfig(notify_min_broker_id_changed=True))
    newer = {"data_version": a_data_version(state_version=2), "enable_acting_master": True}
    for broker_id in (1, 2, 3):
        register(state, broker_id=broker_id, **newer)
    outcome = register(state, broker_id=2, address=SLAVE.address, now_ms=4)
    assert notified(outcome) == [RegistrationConflicted, BrokerRemoved]
    assert (outcome.events[1].reason, outcome.events[1].silent_ms) == (DepartureReason.CONFLICT, 4)
    assert [effect.min_broker_id for effect in outcome.effects] == [2]
    assert sorted(state.tables.brokers.get(BROKER).members) == [2, 3]
    assert state.tables.live.get(SLAVE) is None


# Leaving


def test_a_broker_leaves_at_its_own_request(state):
    register(state)
    outcome = unregister(state, MASTER, now_ms=6)
    assert notified(outcome) == [BrokerRemoved]
    assert (outcome.events[0].reason, outcome.events[0].silent_ms) == (DepartureReason.REQUEST, 6)
    assert (len(state.tables.brokers), len(state.tables.live), len(state.tables.topics)) == (0, 0, 0)


def test_a_broker_that_is_not_known_leaves_nothing(state):
    register(state)
    assert unregister(state, SLAVE) == NOTHING


def test_a_late_unregistration_over_an_older_connection_is_left_aside(state):
    register(state, connection_id=8)
    stale = StaleUnregistration(cluster=CLUSTER, broker_name=BROKER, address=MASTER.address)
    assert unregister(state, MASTER, connection_id=7) == RouteOutcome(reply=None, events=(stale,))
    assert state.tables.live.get(MASTER)
    assert notified(unregister(state, MASTER, connection_id=9)) == [BrokerRemoved]


def test_the_youngest_connection_of_a_broker_counts_for_that_and_not_the_one_it_used_last(state):
    # It knows this server by two names, and registers over two connections in turn.
    register(state, connection_id=8)
    register(state, connection_id=6)
    stale = StaleUnregistration(cluster=CLUSTER, broker_name=BROKER, address=MASTER.address)
    assert unregister(state, MASTER, connection_id=7) == RouteOutcome(reply=None, events=(stale,))
    assert notified(unregister(state, MASTER, connection_id=8)) == [BrokerRemoved]


def test_so_it_does_for_a_broker_that_registers_while_its_departure_is_prepared(state):
    register(state, topics=MANY, connection_id=6)
    steps = state.unregistration_steps(CLUSTER, MASTER, 7, 0)
    next(steps)
    register(state, topics=MANY, connection_id=8)
    register(state, topics=MANY, connection_id=6)
    assert run_to_completion(steps).events == ()
    assert state.tables.live.get(MASTER)


def test_a_lost_connection_takes_all_its_brokers_and_none_that_came_back_over_another(state):
    register(state)
    register(state, broker_id=1)
    register(state, broker_name="broker-b")
    register(state, broker_id=1, connection_id=2)
    outcome = lose_connection(state, 1, now_ms=3)
    assert [(event.broker_name, event.reason, event.silent_ms) for event in outcome.events] == [
        (BROKER, DepartureReason.CHANNEL_CLOSED, 3),
        ("broker-b", DepartureReason.CHANNEL_CLOSED, 3),
    ]
    assert [key for key, _ in state.tables.live.rows()] == [SLAVE]
    assert lose_connection(state, 1, now_ms=3) == NOTHING


def test_scan_without_expired_brokers_does_nothing(state):
    register(state)
    assert expire(state, now_ms=120_000) == NOTHING


def test_expired_brokers_leave_routes_and_their_connections_are_closed(state):
    register(state, connection_id=9)
    register(state, broker_name="broker-b", connection_id=8)
    outcome = expire(state, now_ms=120_001)
    assert {(event.reason, event.silent_ms) for event in outcome.events} == {(DepartureReason.TIMEOUT, 120_001)}
    assert outcome.effects == (CloseConnection(8), CloseConnection(9))
    assert len(state.tables.live) == 0


def test_a_connection_that_a_living_broker_shares_stays_open(state):
    register(state)
    register(state, broker_name="broker-b", now_ms=1)
    outcome = expire(state, now_ms=120_001)
    assert [event.broker_name for event in outcome.events] == [BROKER]
    assert outcome.effects == ()


# The smallest broker id


@pytest.mark.parametrize("wanted", [True, False])
def test_brokers_are_notified_of_smallest_id_only_if_configured(wanted):
    state = RouteState(NameServerConfig(notify_min_broker_id_changed=wanted))
    register(state, broker_id=1, enable_acting_master=True)
    joined = register(state, ha_server_addr="ha:10912", connection_id=2, enable_acting_master=True)
    left = lose_connection(state, 2, now_ms=0)
    notice_of_joining = NotifyMinBrokerIdChange(
        broker_name=BROKER,
        min_broker_id=0,
        min_broker_addr=MASTER.address,
        offline_broker_addr=None,
        ha_broker_addr="ha:10912",
        recipients=(SLAVE.address,),
    )
    notice_of_leaving = NotifyMinBrokerIdChange(
        broker_name=BROKER,
        min_broker_id=1,
        min_broker_addr=SLAVE.address,
        offline_broker_addr=MASTER.address,
        ha_broker_addr=None,
        recipients=(SLAVE.address,),
    )
    assert joined.effects == ((notice_of_joining,) if wanted else ())
    assert left.effects == ((notice_of_leaving,) if wanted else ())


def test_no_notification_while_the_smallest_id_stays():
    state = RouteState(NameServerConfig(notify_min_broker_id_changed=True))
    register(state, enable_acting_master=True)
    assert register(state, broker_id=1, enable_acting_master=True).effects == ()
    assert unregister(state, SLAVE).effects == ()


def test_brokers_are_notified_before_connection_of_expired_broker_is_closed():
    state = RouteState(NameServerConfig(notify_min_broker_id_changed=True))
    register(state, enable_acting_master=True)
    register(state, broker_id=1, enable_acting_master=True, connection_id=2, now_ms=1)
    effects = expire(state, now_ms=120_001).effects
    assert [type(effect) for effect in effects] == [NotifyMinBrokerIdChange, CloseConnection]


# Signs of life


def test_a_heartbeat_moves_the_deadline(state):
    register(state, now_ms=1)
    outcome = state.heartbeat(CLUSTER, MASTER, HeartbeatKind.HEARTBEAT, now_ms=5)
    assert (
        outcome.reply
        == state.tables.live.get(MASTER)
        == a_live_row(last_heartbeat_ms=5, registered_ms=1, version_since_ms=1)
    )
    (heartbeat,) = outcome.events
    assert (heartbeat.kind, heartbeat.interval_ms, heartbeat.broker_id) == (HeartbeatKind.HEARTBEAT, 4, 0)


@pytest.mark.parametrize(("cluster", "key"), [("Other", MASTER), (CLUSTER, SLAVE)])
def test_heartbeat_of_unregistered_broker_changes_nothing(state, cluster, key):
    register(state)
    assert state.heartbeat(cluster, key, HeartbeatKind.HEARTBEAT, now_ms=5) == NOTHING
    assert dict(state.tables.live.rows()) == {MASTER: a_live_row()}


def test_a_query_of_the_data_version_is_a_heartbeat_and_answers_what_the_broker_registered(state):
    register(state)
    outcome = state.query_data_version(CLUSTER, MASTER, 1, now_ms=5)
    assert outcome.reply == a_data_version()
    assert [event.kind for event in outcome.events] == [HeartbeatKind.DATA_VERSION]
    assert state.tables.live.get(MASTER).last_heartbeat_ms == 5


def test_a_broker_that_is_not_known_has_no_data_version(state):
    assert state.query_data_version(CLUSTER, MASTER, 1, now_ms=5) == RouteOutcome(reply=None)


# Permissions that an operator sets


def test_a_wiped_set_is_read_only_until_its_master_changes_the_topic(state):
    register(state)
    outcome = state.wipe_write_perm(BROKER)
    event = TopicsChangedByAdmin(
        request="WIPE_WRITE_PERM_OF_BROKER",
        target=BROKER,
        cluster=CLUSTER,
        broker_name=BROKER,
        changes=RouteChanges(perm=2, sample=(TOPIC, BROKER)),
    )
    assert outcome == RouteOutcome(reply=2, events=(event,))
    register(state)
    assert perms(state) == {TOPIC: READ_ONLY, BROKER: READ_ONLY}
    register(state, data_version=CHANGED, topics=topic_configs(TOPIC))
    assert perms(state) == {TOPIC: WRITABLE, BROKER: READ_ONLY}


def test_a_given_permission_makes_every_topic_readable_and_writable(state):
    register(state, topics=topic_configs(TOPIC, perm=0) | topic_configs(BROKER))
    outcome = state.add_write_perm(BROKER)
    assert outcome.reply == 2
    assert (outcome.events[0].request, outcome.events[0].changes.perm) == ("ADD_WRITE_PERM_OF_BROKER", 1)
    register(state, topics=topic_configs(TOPIC, perm=0) | topic_configs(BROKER))
    assert perms(state) == {TOPIC: WRITABLE, BROKER: WRITABLE}


@pytest.mark.parametrize("broker_name", ["broker-b", BROKER], ids=["unknown", "without topics"])
def test_a_set_without_topics_has_no_permissions_to_set(state, broker_name):
    register(state, topics={})
    assert state.wipe_write_perm(broker_name) == state.add_write_perm(broker_name) == RouteOutcome(reply=0)


# Topics that an operator deletes or adds


def two_clusters(state):
    register(state, topics=topic_configs(TOPIC, BROKER), mappings={TOPIC: a_mapping()})
    register(state, broker_name="broker-b", cluster="Other")


@pytest.mark.parametrize(("cluster", "holders"), [(None, []), ("", []), (CLUSTER, ["broker-b"]), ("Other", [BROKER])])
def test_a_topic_is_deleted_everywhere_or_in_one_cluster(state, cluster, holders):
    two_clusters(state)
    outcome = state.delete_topic(TOPIC, cluster)
    assert list(state.tables.topics.of_topic(TOPIC) or ()) == holders
    assert sorted([*holders, *(event.broker_name for event in outcome.events)]) == [BROKER, "broker-b"]
    assert {(event.request, event.target, event.changes) for event in outcome.events} == {
        ("DELETE_TOPIC_IN_NAMESRV", TOPIC, RouteChanges(topics_removed=1, sample=(TOPIC,)))
    }


@pytest.mark.parametrize(("topic", "cluster"), [("Unknown", None), (TOPIC, "Nowhere")])
def test_deleting_what_is_not_there_succeeds_and_changes_nothing(state, topic, cluster):
    two_clusters(state)
    assert state.delete_topic(topic, cluster) == NOTHING
    assert list(state.tables.topics.of_topic(TOPIC)) == [BROKER, "broker-b"]


def test_a_deleted_topic_takes_its_mapping_and_its_wiped_permission_with_it(state):
    two_clusters(state)
    state.wipe_write_perm(BROKER)
    state.delete_topic(TOPIC, None)
    assert state.tables.mappings.of_topic(TOPIC) is None
    register(state)
    assert perms(state) == {TOPIC: WRITABLE, BROKER: READ_ONLY}


def test_added_topic_has_its_given_permission_even_where_permissions_were_wiped(state):
    register(state)
    state.wipe_write_perm(BROKER)
    outcome = state.register_topic(TOPIC, [a_queue_data(read_queue_nums=4)])
    event = TopicsChangedByAdmin(
        request="REGISTER_TOPIC_IN_NAMESRV",
        target=TOPIC,
        cluster=CLUSTER,
        broker_name=BROKER,
        changes=RouteChanges(queues=1, perm=1, sample=(TOPIC,)),
    )
    assert outcome == RouteOutcome(reply=None, events=(event,))
    assert state.tables.topics.of_topic(TOPIC) == {BROKER: a_queue_data(read_queue_nums=4)}
    register(state)
    assert perms(state) == {TOPIC: WRITABLE, BROKER: READ_ONLY}


@pytest.mark.parametrize(
    ("topic", "broker_names", "holders"),
    [
        ("New", [BROKER, "broker-b"], [BROKER, "broker-b"]),
        ("New", [BROKER, "unknown", "broker-b"], []),
        (BROKER, [BROKER, "unknown", "broker-b"], [BROKER]),
        (BROKER, ["broker-b", "unknown"], [BROKER, "broker-b"]),
        ("New", [], []),
    ],
)
def test_a_new_topic_needs_known_sets_and_a_known_topic_is_taken_up_to_the_first_unknown(
    state, topic, broker_names, holders
):
    two_clusters(state)
    state.register_topic(topic, (a_queue_data(broker_name=name) for name in broker_names))
    assert list(state.tables.topics.of_topic(topic) or ()) == holders


# What belongs to a set


def test_a_mapping_leaves_with_its_set_and_the_others_stay(state):
    register(state, mappings={TOPIC: a_mapping(), "OnlyMapped": a_mapping()})
    register(state, broker_name="broker-b", mappings={TOPIC: a_mapping(broker_name="broker-b")})
    unregister(state, MASTER)
    assert state.tables.mappings.of_topic(TOPIC) == {"broker-b": a_mapping(broker_name="broker-b")}
    assert state.tables.mappings.of_topic("OnlyMapped") is None


def test_mappings_stay_while_the_set_has_members(state):
    register(state, mappings={TOPIC: a_mapping()})
    register(state, broker_id=1)
    unregister(state, MASTER)
    assert state.tables.mappings.of_topic(TOPIC) == {BROKER: a_mapping()}


def test_wiped_permissions_end_with_the_set(state):
    register(state)
    state.wipe_write_perm(BROKER)
    unregister(state, MASTER)
    assert state.tables.permission_overrides.of(BROKER) == {}


def test_a_registration_in_slices_takes_what_happened_meanwhile_into_account(state):
    steps = registration_steps(state, a_registration(topics=MANY))
    next(steps)
    register(state, broker_name="broker-b", connection_id=2, topics=MANY)
    run_to_completion(steps)
    assert state.tables.topics.holders_of("t1") == ("broker-b", BROKER)
    assert state.topic_counts.counts()[CLUSTER][TopicKind.NORMAL] == len(MANY)


def test_a_registration_in_slices_ends_however_much_others_change(state):
    steps = registration_steps(state, a_registration(topics=MANY))
    rests = 0
    for _ in steps:
        rests += 1
        register(state, broker_name=f"other-{rests}", connection_id=2)
    assert len(state.tables.topics.of_broker(BROKER)) == len(MANY)
    assert 0 < rests < 50


def test_a_departure_in_slices_shows_nothing_before_its_end(state):
    register(state, topics=MANY)
    steps = state.connection_loss_steps(1, 0)
    next(steps)
    assert state.tables.brokers.get(BROKER)
    assert len(state.tables.topics) == len(MANY)
    assert [event.set_removed for event in run_to_completion(steps).events] == [True]
    assert (len(state.tables.brokers), len(state.tables.topics), state.topic_counts.counts()) == (0, 0, {})


def test_broker_that_registers_while_its_departure_is_prepared_stays(state):
    request = a_registration(topics=MANY)
    run_to_completion(registration_steps(state, request))
    steps = state.connection_loss_steps(1, 0)
    next(steps)
    run_to_completion(registration_steps(state, msgspec.structs.replace(request, connection_id=2)))
    assert run_to_completion(steps).events == ()
    assert len(state.tables.topics.of_broker(BROKER)) == len(MANY)
    lose_connection(state, 2, now_ms=0)
    assert len(state.tables.topics) == 0


def test_a_departure_in_slices_takes_what_happened_meanwhile_into_account(state):
    register(state, topics=MANY)
    steps = state.unregistration_steps(CLUSTER, MASTER, 1, 0)
    next(steps)
    register(state, broker_name="broker-b", connection_id=2, topics=topic_configs("t1", "t2"))
    run_to_completion(steps)
    assert sorted(state.tables.topics.topics()) == ["t1", "t2"]
    assert state.topic_counts.counts()[CLUSTER][TopicKind.NORMAL] == 2


def registered_with(state, topics, *, counter=1, connection_id=1):
    """Return a registration as it is decoded from a broker's text: the difference to what it said before."""
    request = a_registration(topics={}, connection_id=connection_id)
    before = state.previous_registration(request)
    text = text_of({topic: settings.perm for topic, settings in topics.items()}, counter=counter)
    body = run_to_completion(
        decode_registration(text, crc32=0, compressed=False, version=RELEASE, unix_ms=0, previous=before)
    )
    return msgspec.structs.replace(
        request, data_version=body.data_version, topics=body.topics, reported=body.reported, base=before
    )


def changed_a_little(topics):
    return topics | topic_configs("t1", perm=READ_ONLY)


def test_difference_is_not_applied_to_a_broker_that_lost_its_topics(state):
    run_to_completion(registration_steps(state, registered_with(state, MANY)))
    steps = registration_steps(state, registered_with(state, changed_a_little(MANY), counter=2, connection_id=2))
    next(steps)
    lose_connection(state, 1, now_ms=0)
    assert run_to_completion(steps) is None
    assert len(state.tables.topics) == 0


def test_nor_to_a_broker_one_of_whose_topics_was_deleted(state):
    run_to_completion(registration_steps(state, registered_with(state, MANY)))
    steps = registration_steps(state, registered_with(state, changed_a_little(MANY), counter=2))
    next(steps)
    state.delete_topic("t5", None)
    assert run_to_completion(steps) is None


def test_broker_may_register_at_another_address_while_its_former_process_is_removed(state):
    register(state)
    steps = registration_steps(state, a_registration(address="elsewhere:10911", topics=MANY, connection_id=2))
    next(steps)
    lose_connection(state, 1, now_ms=0)
    run_to_completion(steps)
    assert state.tables.brokers.get(BROKER).master_address == "elsewhere:10911"
    assert len(state.tables.topics) == len(MANY)


def test_a_connection_that_is_lost_while_another_brings_a_registration_is_not_remembered_by_it(state):
    register(state)
    register(state, connection_id=2)
    steps = registration_steps(state, a_registration(topics=MANY, connection_id=2))
    next(steps)
    lose_connection(state, 1, now_ms=0)
    run_to_completion(steps)
    assert state.tables.live.get(MASTER).connections == (2,)
    assert [event.set_removed for event in lose_connection(state, 2, now_ms=0).events] == [True]


def test_heartbeat_during_comparison_of_a_registration_is_not_set_back(state):
    register(state)
    steps = registration_steps(state, a_registration(topics=MANY), now_ms=6_000)
    next(steps)
    state.heartbeat(CLUSTER, MASTER, HeartbeatKind.HEARTBEAT, 5_000)
    *_, heartbeat = run_to_completion(steps).events
    assert (heartbeat.interval_ms, state.tables.live.get(MASTER).last_heartbeat_ms) == (1_000, 6_000)


def test_a_registration_whose_connection_is_lost_while_it_is_compared_comes_too_late(state):
    register(state)
    register(state, connection_id=2, data_version=a_data_version(counter=9))
    steps = registration_steps(state, a_registration(topics=MANY), is_late=True)
    assert isinstance(run_to_completion(steps).events[0], StaleRegistration)
    assert len(state.tables.topics) < len(MANY)


def test_expired_brokers_leave_in_steps_unless_they_send_a_heartbeat_meanwhile(state):
    register(state, topics=MANY)
    register(state, broker_name="broker-b", connection_id=2)
    steps = state.expiry_steps(120_001)
    next(steps)
    state.heartbeat(CLUSTER, a_live_key(broker_name="broker-b"), HeartbeatKind.HEARTBEAT, 120_001)
    outcome = run_to_completion(steps)
    assert [event.broker_name for event in outcome.events] == [BROKER]
    assert outcome.effects == (CloseConnection(1),)


def test_heartbeat_does_not_keep_a_broker_that_unregisters(state):
    register(state, topics=MANY)
    steps = state.unregistration_steps(CLUSTER, MASTER, 1, 0)
    next(steps)
    state.heartbeat(CLUSTER, MASTER, HeartbeatKind.HEARTBEAT, 5)
    run_to_completion(steps)
    assert state.tables.brokers.get(BROKER) is None


# Routes and kept answers


def test_a_route_shows_the_filter_servers_of_a_living_member(state):
    register(state, filter_servers=("filter:1",))
    assert state.route_of(TOPIC, None).filter_server_table == {MASTER.address: ["filter:1"]}


def test_a_route_follows_the_configuration(state):
    register(state, enable_acting_master=True)
    register(state, broker_id=1, enable_acting_master=True)
    unregister(state, MASTER)
    assert state.route_of(TOPIC, None).broker_datas[0].broker_addrs == {1: SLAVE.address}
    keep_answers(state)
    state.configure(NameServerConfig(support_acting_master=True))
    assert state.route_of(TOPIC, "conf").broker_datas[0].broker_addrs == {0: SLAVE.address}
    assert state.route_of(TOPIC, "conf").order_topic_conf == "conf"
    assert not kept(state, TOPIC, BROKER)
    assert state.route_of("Unknown", None) is None


ANSWERED = (TOPIC, BROKER, "broker-b", "Static")


def keep_answers(state):
    """Keep an answer for every topic there is, and for one that has nothing but a mapping."""
    run_to_completion(state.cluster_info.since(state.cluster_info.changes))
    for topic in ANSWERED:
        state.route_cache.keep(topic, "java", PreparedResponse(b"{}", Histogram(())))


def kept(state, *topics):
    return [topic for topic in topics or ANSWERED if state.route_cache.get(topic, "java")]


def encoded_anew(state):
    """Tell whether the list of clusters is made anew for the next who asks."""
    info = state.cluster_info
    before = info.builds
    run_to_completion(info.since(info.changes))
    return info.builds > before


def dropped_by(state, event):
    """Return the topics whose answers an event dropped, and whether the list of clusters went too."""
    register(state, mappings={"Static": a_mapping()}, filter_servers=("filter:1",))
    register(state, broker_name="broker-b")
    keep_answers(state)
    event(state)
    return [topic for topic in ANSWERED if topic not in kept(state)], encoded_anew(state)


@pytest.mark.parametrize(
    "event",
    [
        register,
        lambda state: register(state, data_version=CHANGED, connection_id=2, ha_server_addr="ha:10912"),
        lambda state: register(state, mappings={"Static": a_mapping()}),
        lambda state: register(state, filter_servers=("filter:1",)),
        lambda state: state.heartbeat(CLUSTER, MASTER, HeartbeatKind.HEARTBEAT, now_ms=5),
        lambda state: expire(state, now_ms=5),
        lambda state: unregister(state, SLAVE),
        lambda state: state.delete_topic("Unknown", None),
    ],
    ids=["same", "version", "same mapping", "same filter servers", "heartbeat", "scan", "stranger", "unknown topic"],
)
def test_cached_routes_stay_while_they_are_current(state, event):
    assert dropped_by(state, event) == ([], False)


@pytest.mark.parametrize(
    ("event", "dropped", "clusters"),
    [
        (lambda state: register(state, topics=topic_configs(TOPIC, perm=READ_ONLY)), [TOPIC], False),
        (lambda state: state.delete_topic(BROKER, None), [BROKER], False),
        (lambda state: state.register_topic(BROKER, [a_queue_data(broker_name="broker-b")]), [BROKER], False),
        (lambda state: state.wipe_write_perm(BROKER), [TOPIC, BROKER], False),
        (lambda state: register(state, mappings={"Static": a_mapping(epoch=2)}), ["Static"], False),
        (lambda state: register(state, filter_servers=("filter:2",)), [TOPIC, BROKER], False),
        (lambda state: register(state, filter_servers=()), [TOPIC, BROKER], False),
        (lambda state: register(state, zone_name="zone-1"), [TOPIC, BROKER], True),
        (lambda state: register(state, broker_id=1), [TOPIC, BROKER], True),
        (lambda state: register(state, address=MOVED), [TOPIC, BROKER], True),
        (lambda state: unregister(state, OTHER), [TOPIC, "broker-b"], True),
        (lambda state: unregister(state, MASTER), [TOPIC, BROKER, "Static"], True),
        (lambda state: register(state, broker_name="broker-c", topics={}), [], True),
    ],
    ids=[
        "settings",
        "deleted",
        "added",
        "wiped",
        "mapping",
        "filter servers",
        "no filter servers",
        "zone",
        "slave",
        "take-over",
        "other set",
        "last member",
        "new set",
    ],
)
def test_exactly_the_answers_that_would_change_are_dropped(state, event, dropped, clusters):
    assert dropped_by(state, event) == (dropped, clusters)
