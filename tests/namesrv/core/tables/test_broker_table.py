"""Broker sets, and which cluster lists them."""

import pytest
from builders import BROKER, CLUSTER, a_broker_set, a_member, an_address

from namesrv.core.tables.broker_table import BrokerTable

MASTER, SLAVE, SECOND_SLAVE = (an_address(broker_id=broker_id) for broker_id in range(3))


@pytest.fixture
def table():
    return BrokerTable()


# A set by itself


def test_the_member_with_the_smallest_id_leads_a_set_without_a_master():
    assert a_broker_set(broker_ids=(3, 1, 2)).min_broker_id == 1


@pytest.mark.parametrize(("broker_ids", "address"), [((1, 0), MASTER), ((1, 2), None)])
def test_the_master_is_the_member_with_id_0(broker_ids, address):
    assert a_broker_set(broker_ids=broker_ids).master_address == address


@pytest.mark.parametrize(
    ("broker_ids", "allowed", "acts"),
    [((1,), True, True), ((1,), False, False), ((0, 1), True, False), ((0, 1), False, False)],
)
def test_a_slave_acts_as_master_only_where_that_is_allowed_and_the_master_is_away(broker_ids, allowed, acts):
    broker_set = a_broker_set(broker_ids=broker_ids, enable_acting_master=allowed)
    assert broker_set.has_acting_master == acts


def test_nobody_acts_as_master_in_a_set_that_does_not_enable_it():
    assert not a_broker_set(broker_ids=(1,)).has_acting_master


def test_members_leave_a_set_by_their_addresses():
    broker_set = a_broker_set(broker_ids=(0, 1, 2), zone_name="zone-1", enable_acting_master=True)
    left = broker_set.without(iter([MASTER, SECOND_SLAVE, "stranger:10911"]))
    assert left == a_broker_set(broker_ids=(1,), zone_name="zone-1", enable_acting_master=True)


def test_a_set_stays_in_its_cluster_while_anybody_of_that_cluster_is_left():
    moved, stayed = a_member(broker_id=0, cluster="Other"), a_member(broker_id=1)
    assert a_broker_set().with_members({0: moved, 1: stayed}).cluster == CLUSTER


def test_a_set_follows_its_members_when_all_are_in_another_cluster():
    assert a_broker_set().with_members({0: a_member(cluster="Other")}).cluster == "Other"


def test_a_set_that_every_broker_left_still_has_its_cluster():
    assert a_broker_set(cluster="Other").without([MASTER]) == a_broker_set(cluster="Other", members={})


# The table


def test_an_unknown_broker_name_has_no_set_and_an_unknown_cluster_no_names(table):
    table.put(a_broker_set())
    assert table.get("broker-b") is None
    assert table.names_in("Other") == []


def test_a_stored_set_is_listed_in_its_cluster(table):
    table.put(a_broker_set())
    assert table.get(BROKER) == a_broker_set()
    assert table.names_in(CLUSTER) == [BROKER]


def test_a_set_is_stored_once_whatever_it_was_before(table):
    before, after = a_broker_set(), a_broker_set(broker_ids=(0, 1))
    table.put(before)
    table.put(after)
    assert list(table.sets()) == [after]
    assert table.names_in(CLUSTER) == [BROKER]


def test_every_cluster_lists_its_sets_in_the_order_they_came(table):
    for broker_name, cluster in [("broker-b", CLUSTER), ("broker-c", "Other"), ("broker-a", CLUSTER)]:
        table.put(a_broker_set(broker_name=broker_name, cluster=cluster))
    listed = {cluster: list(names) for cluster, names in table.clusters().items()}
    assert listed == {CLUSTER: ["broker-b", "broker-a"], "Other": ["broker-c"]}
    assert len(table) == 3


def test_a_set_with_members_in_two_clusters_is_listed_in_both_until_one_is_left(table):
    members = {0: a_member(), 1: a_member(broker_id=1, cluster="Other")}
    both = a_broker_set(members=members)
    table.put(both)
    assert (table.names_in(CLUSTER), table.names_in("Other")) == ([BROKER], [BROKER])
    table.put(both.without([SLAVE]))
    assert (table.names_in(CLUSTER), table.names_in("Other")) == ([BROKER], [])


def test_a_set_counts_for_one_cluster_and_moves_when_nobody_of_that_is_left(table):
    both = a_broker_set(members={0: a_member(), 1: a_member(broker_id=1, cluster="Other")})
    table.put(both)
    table.put(a_broker_set(broker_name="broker-b"))
    assert (table.counted_in(CLUSTER), table.counted_in("Other")) == ({BROKER, "broker-b"}, set())
    table.put(both.without([MASTER]))
    assert (table.counted_in(CLUSTER), table.counted_in("Other")) == ({"broker-b"}, {BROKER})
    table.put(both.without([MASTER, SLAVE]))
    assert table.counted_in("Other") == set()


def test_a_set_that_moves_to_another_cluster_is_listed_only_there(table):
    table.put(a_broker_set())
    table.put(a_broker_set(cluster="Other"))
    assert {cluster: list(names) for cluster, names in table.clusters().items()} == {"Other": [BROKER]}


def test_set_without_members_is_removed_and_others_of_its_cluster_stay(table):
    table.put(a_broker_set())
    table.put(a_broker_set(broker_name="broker-b"))
    table.put(a_broker_set(members={}))
    assert table.get(BROKER) is None
    assert table.names_in(CLUSTER) == ["broker-b"]


def test_the_last_set_takes_its_cluster_with_it(table):
    table.put(a_broker_set())
    table.put(a_broker_set(members={}))
    assert len(table) == 0
    assert table.clusters() == {}


def test_a_set_that_never_had_members_is_not_known(table):
    table.put(a_broker_set(members={}))
    assert list(table.sets()) == []
    assert table.clusters() == {}
