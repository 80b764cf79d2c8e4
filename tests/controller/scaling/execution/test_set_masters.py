"""Masters that a controller has elected, and sets that nobody else knows."""

import pytest
from controller_builders import SET, a_set

from controller.scaling.execution.observer import StoredMasters
from controller.sets.stored_set import StoredSet
from controller.wire.replica_info_cache import ReplicaInfoCache
from store.store import SetStore, VersionedEntry


@pytest.fixture
def sets():
    return SetStore(None, ReplicaInfoCache())


def keep(sets, **values):
    broker_set = a_set(**values)
    sets.entry_changed(broker_set.broker_name, VersionedEntry(StoredSet(broker_set=broker_set), 1))
    return broker_set


def test_stored_master_is_known_with_its_address(sets):
    broker_set = keep(sets)
    masters = StoredMasters(sets)
    assert masters.address_of_master(SET) == (True, broker_set.master_address)
    assert masters.address_of_master("broker-b") == (False, None)


def test_set_without_a_master_is_known_without_address(sets):
    keep(sets, master=None)
    assert StoredMasters(sets).address_of_master(SET) == (True, None)


def test_absent_sets_are_those_of_the_cluster_without_master_that_no_route_has(sets):
    keep(sets, broker_name="lost", master=None)
    keep(sets, broker_name="seen", master=None)
    keep(sets, broker_name="led")
    keep(sets, broker_name="elsewhere", cluster="Other", master=None)
    assert StoredMasters(sets).absent_sets({"DefaultCluster"}, {"seen"}) == ("lost",)
