"""What changes when members of broker sets leave."""

import pytest
from builders import (
    BROKER,
    CLUSTER,
    READ_ONLY,
    TOPIC,
    WRITABLE,
    a_broker_set,
    a_live_key,
    a_member,
    an_address,
    queue_datas,
)
from route_tables import route_tables

from namesrv.core import departure
from namesrv.core.tables.change import SetChange
from namesrv.core.values.effects import BrokerRemoved, DepartureReason, NotifyMinBrokerIdChange, RouteChanges

MASTER, SLAVE, SECOND_SLAVE = (a_live_key(broker_id=broker_id) for broker_id in range(3))


def decided(tables, *keys, reason=DepartureReason.REQUEST, now_ms=0):
    """Return what is decided for the one set that the members are of."""
    return departure.decide(tables, keys, reason, now_ms)


def an_acting_set(*broker_ids, **values):
    return a_broker_set(broker_ids=broker_ids, enable_acting_master=True, **values)


# The last member


def test_the_last_member_takes_set_and_topics_with_it():
    tables = route_tables(a_broker_set(), last_heartbeat_ms=1_000, timeout_ms=10_000)
    decision = decided(tables, MASTER, reason=DepartureReason.TIMEOUT, now_ms=12_000)
    assert decision.change == SetChange(
        broker_set=a_broker_set(members={}), removed_members=(MASTER,), removed_topics=(TOPIC, BROKER)
    )
    assert decision.removed == (
        BrokerRemoved(
            cluster=CLUSTER,
            broker_name=BROKER,
            broker_id=0,
            address=MASTER.address,
            reason=DepartureReason.TIMEOUT,
            silent_ms=11_000,
            heartbeat_timeout_ms=10_000,
            was_master=True,
            set_removed=True,
            changes=RouteChanges(topics_removed=2, sample=(TOPIC, BROKER)),
        ),
    )
    assert decision.notify is None


def test_nothing_has_happened_when_it_is_decided():
    tables = route_tables(a_broker_set())
    decided(tables, MASTER)
    assert (len(tables.brokers), len(tables.topics), len(tables.live)) == (1, 2, 1)


def test_permissions_that_an_operator_set_go_with_the_set():
    tables = route_tables(a_broker_set())
    tables.permission_overrides.put(BROKER, {TOPIC: READ_ONLY})
    assert decided(tables, MASTER).change.lifted_overrides == (TOPIC,)


# One of several


@pytest.mark.parametrize(
    ("broker_set", "leaves"),
    [(a_broker_set(broker_ids=(0, 1)), MASTER), (a_broker_set(broker_ids=(0, 1)), SLAVE), (an_acting_set(0, 1), SLAVE)],
    ids=["master", "slave", "slave of an acting set"],
)
def test_the_topics_stay_as_they_are_where_nobody_has_to_act_as_master(broker_set, leaves):
    tables = route_tables(broker_set)
    tables.permission_overrides.put(BROKER, {TOPIC: WRITABLE})
    decision = decided(tables, leaves)
    assert decision.change == SetChange(broker_set=broker_set.without([leaves.address]), removed_members=(leaves,))
    (removed,) = decision.removed
    assert (removed.was_master, removed.set_removed, removed.changes) == (leaves == MASTER, False, RouteChanges())
    assert decision.notify is None


def test_the_topics_are_read_only_while_a_slave_acts_as_master():
    decision = decided(route_tables(an_acting_set(0, 1)), MASTER)
    assert decision.change.queue_changes.queues == queue_datas(TOPIC, BROKER, perm=READ_ONLY)
    assert decision.change.removed_topics == ()
    assert decision.removed[0].changes == RouteChanges(perm=2, sample=(TOPIC, BROKER))


def test_a_permission_that_an_operator_gave_ends_when_a_slave_begins_to_act_as_master():
    tables = route_tables(an_acting_set(0, 1))
    tables.permission_overrides.put(BROKER, {TOPIC: WRITABLE})
    assert decided(tables, MASTER).change.lifted_overrides == (TOPIC,)


def test_a_slave_that_leaves_others_behind_without_master_makes_topics_read_only_again():
    tables = route_tables(an_acting_set(1, 2))
    assert decided(tables, SECOND_SLAVE).change.queue_changes.queues == queue_datas(TOPIC, BROKER, perm=READ_ONLY)


def test_what_an_operator_wiped_stays_wiped_if_everything_was():
    tables = route_tables(an_acting_set(0, 1), perm=READ_ONLY)
    tables.permission_overrides.put(BROKER, {TOPIC: READ_ONLY})
    change = decided(tables, MASTER).change
    assert (change.queue_changes.queues, change.lifted_overrides) == ({}, ())


def test_a_set_moves_to_its_other_cluster_when_the_first_has_no_member_left():
    members = {0: a_member(), 1: a_member(broker_id=1, cluster="Other")}
    decision = decided(route_tables(a_broker_set(members=members)), MASTER)
    assert decision.change.broker_set == a_broker_set(members={1: members[1]}, cluster="Other")
    assert decision.removed[0].cluster == CLUSTER


# Several at once


def test_members_that_leave_together_are_one_change_and_the_last_has_its_result():
    decision = decided(route_tables(an_acting_set(0, 1, 2)), MASTER, SLAVE, reason=DepartureReason.CHANNEL_CLOSED)
    assert decision.change.broker_set == an_acting_set(2)
    assert decision.change.removed_members == (MASTER, SLAVE)
    first, last = decision.removed
    assert (first.broker_id, first.was_master, first.changes) == (0, True, RouteChanges())
    assert (last.broker_id, last.was_master, last.changes.perm) == (1, False, 2)
    assert {each.reason for each in decision.removed} == {DepartureReason.CHANNEL_CLOSED}


def test_no_topic_becomes_read_only_when_the_whole_set_leaves():
    decision = decided(route_tables(an_acting_set(0, 1)), SLAVE, MASTER)
    assert (decision.change.queue_changes.queues, decision.change.removed_topics) == ({}, (TOPIC, BROKER))
    assert [each.set_removed for each in decision.removed] == [True, True]


# The smallest broker id


def test_remaining_members_are_notified_of_smallest_id():
    decision = decided(route_tables(an_acting_set(0, 1, 2)), MASTER)
    assert decision.notify == NotifyMinBrokerIdChange(
        broker_name=BROKER,
        min_broker_id=1,
        min_broker_addr=SLAVE.address,
        offline_broker_addr=MASTER.address,
        ha_broker_addr=None,
        recipients=(SLAVE.address, SECOND_SLAVE.address),
    )


@pytest.mark.parametrize("order", [(MASTER, SLAVE), (SLAVE, MASTER)])
def test_notification_never_names_a_successor_that_leaves_too(order):
    notify = decided(route_tables(an_acting_set(0, 1, 2)), *order).notify
    assert (notify.min_broker_id, notify.offline_broker_addr) == (2, MASTER.address)
    assert notify.recipients == (an_address(broker_id=2),)


@pytest.mark.parametrize(
    ("broker_set", "leaves"),
    [(an_acting_set(0, 1), SLAVE), (an_acting_set(0), MASTER), (a_broker_set(broker_ids=(0, 1)), MASTER)],
    ids=["larger id", "nobody left", "no acting master"],
)
def test_no_notification_without_acting_master(broker_set, leaves):
    assert decided(route_tables(broker_set), leaves).notify is None
