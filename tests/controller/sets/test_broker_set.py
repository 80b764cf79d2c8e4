"""Which epochs move with which event, and what is never forgotten."""

from itertools import pairwise

import pytest
from controller_builders import CLUSTER, SET, a_set, an_address
from hypothesis import given
from hypothesis import strategies as st

from controller.sets.broker_set import (
    APPLIED_RANGES_MAX,
    BrokerAddressChanged,
    BrokerIdApplied,
    BrokerSet,
    BrokersRegistered,
    Floor,
    MasterElected,
    MasterEpochRaised,
    MasterLost,
    PlacesFreed,
    RebuildingBegun,
    ReplicaAdopted,
    ReplicasRemoved,
    SyncStateSetAltered,
)


@pytest.mark.parametrize(
    ("event", "master", "master_epoch", "sync_state_set", "sync_state_set_epoch"),
    [
        (MasterElected(2), 2, 6, {2}, 8),
        (MasterLost(), None, 6, {1, 2}, 7),
        (SyncStateSetAltered(frozenset({1, 2, 3})), 1, 5, {1, 2, 3}, 8),
        (BrokerIdApplied(4, "10.0.0.4:1", "x"), 1, 5, {1, 2}, 7),
        (BrokersRegistered(frozenset({3})), 1, 5, {1, 2}, 7),
        (PlacesFreed(frozenset({3})), 1, 5, {1, 2}, 7),
        (ReplicaAdopted(4, "10.0.0.4:1"), 1, 5, {1, 2}, 7),
        (BrokerAddressChanged(1, "10.0.0.9:1"), 1, 5, {1, 2}, 7),
        (ReplicasRemoved(frozenset({3})), 1, 5, {1, 2}, 7),
        (ReplicasRemoved(frozenset({2})), 1, 5, {1}, 8),
        (ReplicasRemoved(frozenset({1})), None, 6, {2}, 8),
        (MasterEpochRaised(9), 1, 9, {1, 2}, 7),
        (MasterEpochRaised(3), 1, 5, {1, 2}, 7),
    ],
)
def test_each_event_moves_its_own_epochs(event, master, master_epoch, sync_state_set, sync_state_set_epoch):
    after = a_set().apply(event)
    assert (after.master, after.master_epoch) == (master, master_epoch)
    assert (after.sync_state_set, after.sync_state_set_epoch) == (sync_state_set, sync_state_set_epoch)


def test_applied_id_adds_the_broker_and_moves_the_next_id():
    after = BrokerSet(broker_name=SET, cluster=CLUSTER).apply(BrokerIdApplied(1, "10.0.0.1:1", "10.0.0.1:1;5"))
    assert (after.replicas[1].address, after.replicas[1].check_code, after.next_broker_id) == (
        "10.0.0.1:1",
        "10.0.0.1:1;5",
        2,
    )
    assert (after.is_elected, after.master_address) == (False, None)


def test_a_new_address_keeps_the_check_code():
    after = a_set().apply(BrokerAddressChanged(1, "10.0.0.9:1"))
    assert after.master_address == "10.0.0.9:1"
    assert after.replicas[1].check_code == a_set().replicas[1].check_code


def test_ids_of_removed_brokers_are_not_used_again():
    after = a_set().apply(ReplicasRemoved(frozenset({3})))
    assert after.next_broker_id == 4
    assert set(after.replicas) == {1, 2}


def test_floor_of_a_set_has_its_epoch_and_next_broker_id():
    assert a_set().floor == Floor(master_epoch=5, next_broker_id=4)


def test_a_master_has_the_address_of_its_replica():
    assert a_set().master_address == an_address(1)


def test_adopted_broker_keeps_its_id_and_moves_the_next_one():
    after = a_set().apply(ReplicaAdopted(9, "10.0.0.9:1"))
    assert (after.replicas[9].address, after.next_broker_id) == ("10.0.0.9:1", 10)
    assert a_set().apply(ReplicaAdopted(2, an_address(2))).next_broker_id == 4


def test_adopted_brokers_of_a_rebuilding_set_are_in_sync_until_the_first_election():
    lost = BrokerSet(broker_name=SET, cluster=CLUSTER).as_rebuilding()
    both = lost.apply(ReplicaAdopted(2, an_address(2))).apply(ReplicaAdopted(1, an_address(1)))
    assert (both.sync_state_set, both.is_elected, both.master) == ({1, 2}, True, None)
    led = both.apply(MasterElected(1))
    assert (led.sync_state_set, led.is_rebuilding) == ({1}, False)
    assert led.apply(ReplicaAdopted(3, an_address(3))).sync_state_set == {1}


def test_brokers_of_a_new_set_that_becomes_a_rebuilding_one_are_in_sync():
    new = BrokerSet(broker_name=SET, cluster=CLUSTER).apply(BrokerIdApplied(1, an_address(1), "x"))
    lost = new.apply(RebuildingBegun()).apply(ReplicaAdopted(2, an_address(2)))
    assert (lost.is_rebuilding, lost.sync_state_set, lost.master, lost.next_broker_id) == (True, {1, 2}, None, 3)


IDS = st.integers(1, 3)
EVENTS = st.one_of(
    st.builds(MasterElected, IDS),
    st.builds(MasterLost),
    st.builds(SyncStateSetAltered, st.frozensets(IDS, min_size=1)),
    st.builds(BrokerAddressChanged, IDS, st.just("10.0.0.9:1")),
    st.builds(MasterEpochRaised, st.integers(0, 20)),
)


@given(st.lists(EVENTS))
def test_epochs_never_decrease_and_grow_with_each_change_of_master_or_sync_state_set(events):
    state = a_set()
    for event in events:
        after = state.apply(event)
        assert after.master_epoch >= state.master_epoch
        assert after.sync_state_set_epoch >= state.sync_state_set_epoch
        assert after.master == state.master or after.master_epoch > state.master_epoch
        assert after.sync_state_set == state.sync_state_set or after.sync_state_set_epoch > state.sync_state_set_epoch
        state = after


# Ids without a registered broker


@given(st.lists(st.frozensets(st.integers(1, 30), max_size=3) | st.none(), max_size=40))
def test_ids_that_were_applied_for_are_known_until_their_brokers_register_or_are_removed(steps):
    broker_set, applied = BrokerSet(broker_name=SET, cluster=CLUSTER), set()
    for step in steps:
        broker_id = broker_set.next_broker_id
        if step is None:
            broker_set = broker_set.apply(BrokerIdApplied(broker_id, an_address(broker_id), "x"))
            applied.add(broker_id)
        elif len(step) > 1:
            broker_set = broker_set.apply(BrokersRegistered(step))
            applied -= step
        else:
            broker_set = broker_set.apply(PlacesFreed(step))
        assert {i for i in range(-1, 60) if broker_set.has_applied(i)} == applied
        assert broker_set.applicants == applied & broker_set.replicas.keys()
        ranges = broker_set.applied_ids
        assert all(last + 1 < first for (_, last), (first, _) in pairwise(ranges))


def test_only_a_limited_number_of_ranges_of_ids_is_remembered_and_those_are_the_latest():
    broker_set = BrokerSet(broker_name=SET, cluster=CLUSTER)
    for broker_id in range(1, 2 * APPLIED_RANGES_MAX + 11):
        broker_set = broker_set.apply(BrokerIdApplied(broker_id, an_address(1), "x"))
        if broker_id % 2:
            broker_set = broker_set.apply(BrokersRegistered(frozenset({broker_id})))
        broker_set = broker_set.apply(PlacesFreed(frozenset({broker_id})))
    assert len(broker_set.applied_ids) == APPLIED_RANGES_MAX
    assert (broker_set.has_applied(2), broker_set.has_applied(2 * APPLIED_RANGES_MAX + 10)) == (False, True)
