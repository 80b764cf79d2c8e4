"""What one registration changes, or why it is turned away."""

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
    a_member,
    a_queue_data,
    a_registration,
    an_address,
    queue_datas,
    topic_configs,
)
from route_tables import route_tables

from namesrv.core.registration import registration
from namesrv.core.tables.change import RouteTables, SetChange
from namesrv.core.tables.topic_table import QueueChanges, QueueTransition
from namesrv.core.values.cooperative import run_to_completion
from namesrv.core.values.effects import (
    BrokerRegistered,
    BrokerRemoved,
    DepartureReason,
    NotifyMinBrokerIdChange,
    RegistrationConflicted,
    RegistrationResult,
    RouteChanges,
)
from namesrv.refusals import RegistrationRefused
from remoting.protocol.shapes.route import PERM_INHERIT, PERM_READ

MASTER, SLAVE, SECOND_SLAVE = (an_address(broker_id=broker_id) for broker_id in range(3))
MOVED = "moved:10911"
CHANGED = a_data_version(counter=2)


def decided(tables, *, now_ms=0, delete_missing_topics=False, **values):
    """Return what is decided of the default registration with other `values`."""
    request = a_registration(**values)
    queues, mappings = run_to_completion(registration.compare(tables, request, 512))
    return registration.decide(
        tables, request, queues, mappings, delete_missing_topics=delete_missing_topics, now_ms=now_ms
    )


# The first registration


def test_a_new_broker_brings_its_set_its_topics_and_a_sign_of_life():
    decision = decided(RouteTables(), now_ms=5, body_bytes=700, ignored_topics=1)
    assert decision.change == SetChange(
        broker_set=a_broker_set(),
        registrant=(a_live_key(), a_live_row(last_heartbeat_ms=5, version_since_ms=5)),
        queue_changes=QueueChanges(
            queue_datas(TOPIC, BROKER), (QueueTransition(before=None, after=a_queue_data(), topics=2),)
        ),
    )
    assert decision.event == BrokerRegistered(
        cluster=CLUSTER,
        broker_name=BROKER,
        broker_id=0,
        address=MASTER,
        result=RegistrationResult.FIRST,
        heartbeat_timeout_ms=120_000,
        data_version=a_data_version(),
        topics=2,
        ignored_topics=1,
        body_bytes=700,
        changes=RouteChanges(topics_added=2, sample=(TOPIC, BROKER)),
        master_changed=True,
        set_added=True,
    )
    assert (decision.superseded, decision.notify) == (None, None)


def test_nothing_has_happened_when_it_is_decided():
    tables = RouteTables()
    decided(tables)
    assert (len(tables.brokers), len(tables.topics), len(tables.live)) == (0, 0, 0)


def test_what_a_broker_declares_of_itself_is_stored_unchanged():
    fields = {
        "ha_server_addr": "ha:10912",
        "version": RELEASE + 1,
        "filter_servers": ("filter:1",),
        "data_version": CHANGED,
        "connection_id": 9,
    }
    decision = decided(RouteTables(), broker_id=3, cluster="Other", heartbeat_timeout_ms=10_000, **fields)
    assert decision.change.registrant == (
        a_live_key(broker_id=3),
        a_live_row(cluster="Other", broker_id=3, timeout_ms=10_000, **fields),
    )


@pytest.mark.parametrize(("fields", "stored"), [(None, ("old:1",)), ((), ()), (("new:1",), ("new:1",))])
def test_filter_servers_stay_until_others_are_named(fields, stored):
    decision = decided(route_tables(a_broker_set(), filter_servers=("old:1",)), filter_servers=fields)
    assert decision.change.registrant[1].filter_servers == stored


def test_a_slave_that_joins_changes_no_master_and_adds_no_set():
    decision = decided(route_tables(a_broker_set()), broker_id=1)
    assert decision.change.broker_set == a_broker_set(broker_ids=(0, 1))
    assert decision.event.result is RegistrationResult.FIRST
    assert not decision.event.master_changed
    assert not decision.event.set_added


# One topic alone

ALONE = [{"topics": topic_configs(TOPIC)}, {"topics": {}, "ignored_topics": 1}]


@pytest.mark.parametrize("fields", ALONE)
@pytest.mark.parametrize("known", [(), (0,)])
def test_one_topic_from_a_broker_that_is_not_known_is_refused(fields, known):
    tables = route_tables(*[a_broker_set(broker_ids=known) for _ in known])
    with pytest.raises(RegistrationRefused, match=r"^register broker failed$") as refused:
        decided(tables, broker_id=1, **fields)
    assert refused.value.ext_fields == {}


@pytest.mark.parametrize("fields", ALONE)
def test_one_topic_from_a_known_broker_is_taken(fields):
    assert decided(route_tables(a_broker_set()), **fields).event.result is RegistrationResult.UNCHANGED


def test_a_new_broker_without_topics_is_taken():
    assert decided(RouteTables(), topics={}).change.broker_set == a_broker_set()


# Changed and unchanged topics


def test_an_unchanged_registration_is_a_sign_of_life_only():
    decision = decided(route_tables(a_broker_set()), now_ms=30_000)
    assert decision.change == SetChange(
        broker_set=a_broker_set(), registrant=(a_live_key(), a_live_row(last_heartbeat_ms=30_000))
    )
    assert decision.event.result is RegistrationResult.UNCHANGED
    assert not decision.event.master_changed


def test_a_new_data_version_counts_as_changed_even_if_the_routes_are_the_same():
    decision = decided(route_tables(a_broker_set()), data_version=CHANGED)
    assert decision.event.result is RegistrationResult.CHANGED
    assert decision.change.queue_changes.queues == {}


@pytest.mark.parametrize(
    ("setting", "changes"),
    [
        ({"perm": READ_ONLY}, RouteChanges(perm=1, sample=(TOPIC,))),
        ({"read_queue_nums": 8}, RouteChanges(queues=1, sample=(TOPIC,))),
        ({"write_queue_nums": 8}, RouteChanges(queues=1, sample=(TOPIC,))),
    ],
)
def test_a_later_part_of_a_split_registration_brings_its_settings_under_the_version_of_the_first(setting, changes):
    decision = decided(route_tables(a_broker_set()), topics=topic_configs(TOPIC, **setting) | topic_configs(BROKER))
    assert decision.change.queue_changes.queues == queue_datas(TOPIC, **setting)
    assert (decision.event.result, decision.event.changes) == (RegistrationResult.CHANGED, changes)


def test_another_system_flag_reaches_the_routes():
    decision = decided(route_tables(a_broker_set()), topics=topic_configs(TOPIC, topic_sys_flag=1))
    assert decision.change.queue_changes.queues == queue_datas(TOPIC, topic_sys_flag=1)


def test_topics_that_were_set_alike_share_one_value_so_that_a_million_cost_little():
    queues = decided(
        RouteTables(), topics=topic_configs("A", "B") | topic_configs("C", perm=READ_ONLY)
    ).change.queue_changes.queues
    assert queues["A"] is queues["B"]
    assert queues == queue_datas("A", "B") | queue_datas("C", perm=READ_ONLY)


@pytest.mark.parametrize(
    ("given", "removed"),
    [
        ({"data_version": CHANGED}, (BROKER,)),
        ({}, ()),
        ({"data_version": CHANGED, "mappings": {TOPIC: a_mapping()}}, ()),
        ({"data_version": CHANGED, "broker_id": 1}, ()),
    ],
    ids=["changed", "later part", "static topics", "slave"],
)
def test_topics_that_are_not_carried_leave_with_a_changed_registration_of_the_master(given, removed):
    tables = route_tables(a_broker_set(broker_ids=(0, 1)))
    decision = decided(tables, delete_missing_topics=True, topics=topic_configs(TOPIC), **given)
    assert decision.change.removed_topics == removed
    assert decision.event.changes.topics_removed == len(removed)


def test_topics_that_are_not_carried_stay_unless_they_shall_be_deleted():
    decision = decided(route_tables(a_broker_set()), topics=topic_configs(TOPIC), data_version=CHANGED)
    assert decision.change.removed_topics == ()


def test_only_mappings_of_static_topics_that_are_new_or_differ_are_stored():
    tables = route_tables(a_broker_set())
    tables.mappings.put(BROKER, {"Same": a_mapping(), "Grown": a_mapping()})
    tables.mappings.put("broker-b", {"Theirs": a_mapping()})
    fields = {"Same": a_mapping(), "Grown": a_mapping(total_queues=16), "Theirs": a_mapping(), "New": a_mapping()}
    mappings = decided(tables, mappings=fields).change.mappings
    assert mappings == {name: fields[name] for name in ("Grown", "Theirs", "New")}


# Slaves


@pytest.mark.parametrize(("acting", "perm"), [(True, READ_ONLY), (False, WRITABLE)])
def test_the_slave_with_the_smallest_id_brings_the_queues_of_its_set(acting, perm):
    fields = {"enable_acting_master": acting, "mappings": {TOPIC: a_mapping()}}
    change = decided(RouteTables(), broker_id=1, **fields).change
    assert change.queue_changes.queues == queue_datas(TOPIC, BROKER, perm=perm)
    assert change.mappings == {TOPIC: a_mapping()}


@pytest.mark.parametrize(("acting", "perm"), [(True, PERM_READ | PERM_INHERIT), (False, WRITABLE | PERM_INHERIT)])
def test_acting_as_master_takes_the_write_permission_only(acting, perm):
    topics = topic_configs(TOPIC, BROKER, perm=WRITABLE | PERM_INHERIT)
    change = decided(RouteTables(), broker_id=1, enable_acting_master=acting, topics=topics).change
    assert change.queue_changes.queues == queue_datas(TOPIC, BROKER, perm=perm)


def test_a_set_that_begins_with_a_slave_has_no_master_yet():
    happened = decided(RouteTables(), broker_id=1).event
    assert (happened.set_added, happened.master_changed) == (True, False)


@pytest.mark.parametrize(
    ("others", "broker_id", "acting"), [((), 1, None), ((0,), 1, True), ((1,), 2, True)], ids=["4.x", "master", "other"]
)
def test_no_other_slave_brings_queues(others, broker_id, acting):
    tables = RouteTables()
    tables.brokers.put(a_broker_set(broker_ids=others))
    change = decided(tables, broker_id=broker_id, enable_acting_master=acting, mappings={TOPIC: a_mapping()}).change
    assert (change.queue_changes.queues, change.mappings) == ({}, {})
    assert broker_id in change.broker_set.members


def test_returned_master_is_writable_again():
    tables = route_tables(a_broker_set(broker_ids=(1,), enable_acting_master=True), perm=READ_ONLY)
    decision = decided(tables, enable_acting_master=True)
    assert decision.change.queue_changes.queues == queue_datas(TOPIC, BROKER)
    assert decision.event.changes.perm == 2
    assert decision.event.master_changed


@pytest.mark.parametrize(
    ("given", "acting", "zone"),
    [({}, False, None), ({"enable_acting_master": True, "zone_name": "zone-2"}, True, "zone-2")],
)
def test_whoever_registers_last_decides_on_acting_master_and_zone(given, acting, zone):
    tables = route_tables(a_broker_set(enable_acting_master=not acting, zone_name="zone-1"))
    broker_set = decided(tables, broker_id=1, **given).change.broker_set
    assert (broker_set.enable_acting_master, broker_set.zone_name) == (acting, zone)


# Permissions that an operator set


def wiped(*topics, **members):
    tables = route_tables(a_broker_set(**members), perm=READ_ONLY)
    tables.permission_overrides.put(BROKER, dict.fromkeys(topics, READ_ONLY))
    return tables


def test_a_wiped_permission_survives_unchanged_registrations():
    change = decided(wiped(TOPIC, BROKER)).change
    assert (change.queue_changes.queues, change.lifted_overrides) == ({}, ())


def test_a_wiped_permission_survives_other_settings_under_the_same_version():
    change = decided(wiped(TOPIC, BROKER), topics=topic_configs(TOPIC, read_queue_nums=8)).change
    assert change.queue_changes.queues == queue_datas(TOPIC, read_queue_nums=8, perm=READ_ONLY)


def test_a_wiped_permission_ends_with_a_changed_registration_that_carries_the_topic():
    change = decided(wiped(TOPIC, "Absent"), data_version=CHANGED).change
    assert change.lifted_overrides == (TOPIC,)
    assert change.queue_changes.queues == queue_datas(TOPIC, BROKER)


def test_a_wiped_permission_ends_when_a_slave_becomes_master_whatever_its_version():
    assert decided(wiped(TOPIC, broker_ids=(1,)), address=SLAVE).change.lifted_overrides == (TOPIC,)


def test_a_slave_that_does_not_act_for_its_set_leaves_wiped_permissions_alone():
    change = decided(wiped(TOPIC, broker_ids=(0, 1)), broker_id=1, data_version=CHANGED).change
    assert (change.queue_changes.queues, change.lifted_overrides) == ({}, ())


def test_a_permission_that_an_operator_gave_holds_even_while_a_slave_acts_as_master():
    tables = route_tables(a_broker_set(broker_ids=(1,), enable_acting_master=True), perm=READ_ONLY)
    tables.permission_overrides.put(BROKER, {TOPIC: WRITABLE})
    change = decided(tables, broker_id=1, enable_acting_master=True).change
    assert change.queue_changes.queues == queue_datas(TOPIC)


# Addresses that change hands


def test_a_slave_that_became_master_drops_its_former_id():
    decision = decided(route_tables(a_broker_set(broker_ids=(1, 2))), address=SLAVE)
    assert decision.change.broker_set.members == {0: a_member(address=SLAVE), 2: a_member(broker_id=2)}
    assert decision.change.removed_members == ()
    assert decision.superseded is None
    assert decision.event.master_changed
    # It was there before: dashboards that count brokers as they come must not count it twice.
    assert decision.event.result is RegistrationResult.CHANGED


@pytest.mark.parametrize("broker_id", [0, 1])
def test_a_broker_at_another_address_takes_the_place_of_the_one_with_its_id(broker_id):
    tables = route_tables(a_broker_set(broker_ids=(0, 1)), last_heartbeat_ms=1_000, timeout_ms=10_000)
    decision = decided(tables, broker_id=broker_id, address=MOVED, now_ms=3_000)
    former = a_live_key(broker_id=broker_id)
    assert decision.change.broker_set.members[broker_id].address == MOVED
    assert decision.change.removed_members == (former,)
    assert decision.superseded == BrokerRemoved(
        cluster=CLUSTER,
        broker_name=BROKER,
        broker_id=broker_id,
        address=former.address,
        reason=DepartureReason.SUPERSEDED,
        silent_ms=2_000,
        heartbeat_timeout_ms=10_000,
        was_master=broker_id == 0,
        set_removed=False,
        changes=RouteChanges(),
    )
    assert decision.event.result is RegistrationResult.FIRST


def test_a_slave_that_takes_over_from_a_living_master_leaves_its_own_place_empty():
    decision = decided(route_tables(a_broker_set(broker_ids=(0, 1))), address=SLAVE)
    assert decision.change.broker_set.members == {0: a_member(address=SLAVE)}
    assert decision.change.removed_members == (a_live_key(),)


def test_broker_with_older_state_than_live_holder_of_its_id_is_refused():
    tables = route_tables(a_broker_set(), data_version=a_data_version(state_version=3))
    turned_away = decided(tables, address=MOVED, data_version=a_data_version(state_version=2), topics={})
    assert turned_away == RegistrationConflicted(
        cluster=CLUSTER,
        broker_name=BROKER,
        broker_id=0,
        address=MOVED,
        state_version=2,
        holder_address=MASTER,
        holder_state_version=3,
    )


@pytest.mark.parametrize(("cluster", "state_version"), [(CLUSTER, 3), (CLUSTER, 4), ("Other", 2)])
def test_broker_with_equal_state_or_another_cluster_takes_over_the_id(cluster, state_version):
    tables = route_tables(a_broker_set(), data_version=a_data_version(state_version=3))
    mine = a_data_version(state_version=state_version)
    decision = decided(tables, address=MOVED, cluster=cluster, data_version=mine)
    assert decision.superseded.address == MASTER


def test_restarted_broker_with_older_state_at_its_own_address_is_accepted():
    tables = route_tables(a_broker_set(), data_version=a_data_version(state_version=3))
    assert decided(tables).event.result is RegistrationResult.CHANGED


# Clusters


def test_a_set_with_members_in_two_clusters_keeps_the_name_of_the_first():
    broker_set = decided(route_tables(a_broker_set()), broker_id=1, cluster="Other").change.broker_set
    assert broker_set.cluster == CLUSTER
    assert broker_set.members == {0: a_member(), 1: a_member(broker_id=1, cluster="Other")}


def test_a_set_moves_when_its_last_member_registers_in_another_cluster():
    assert decided(route_tables(a_broker_set()), cluster="Other").change.broker_set == a_broker_set(cluster="Other")


# The smallest broker id


def test_other_members_are_notified_of_smallest_id():
    decision = decided(route_tables(a_broker_set(broker_ids=(1, 2))), ha_server_addr="ha:10912")
    assert decision.notify == NotifyMinBrokerIdChange(
        broker_name=BROKER,
        min_broker_id=0,
        min_broker_addr=MASTER,
        offline_broker_addr=None,
        ha_broker_addr="ha:10912",
        recipients=(SLAVE, SECOND_SLAVE),
    )


def test_single_slave_that_became_master_is_notified_itself():
    assert decided(route_tables(a_broker_set(broker_ids=(1,))), address=SLAVE).notify.recipients == (SLAVE,)


@pytest.mark.parametrize(("known", "broker_id"), [((1,), 1), ((1,), 2), ((0, 1), 1)])
def test_no_notification_while_the_smallest_id_stays(known, broker_id):
    assert decided(route_tables(a_broker_set(broker_ids=known)), broker_id=broker_id).notify is None
