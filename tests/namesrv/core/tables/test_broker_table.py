"""Broker sets, and which cluster lists them."""

import pytest
from builders import BROKER, CLUSTER, a_broker_set, a_member, an_address
from hypothesis import given
from hypothesis import strategies as st

from namesrv.core.tables.broker_table import BrokerTable, Member

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


def test_every_cluster_lists_its_sets_in_the_order_they_came(table):
    for broker_name, cluster in [("broker-b", CLUSTER), ("broker-c", "Other"), ("broker-a", CLUSTER)]:
        table.put(a_broker_set(broker_name=broker_name, cluster=cluster))
    listed = {cluster: list(names) for cluster, names in table.clusters().items()}
    assert listed == {CLUSTER: ["broker-b", "broker-a"], "Other": ["broker-c"]}
    assert len(table) == 3


MEMBERS = st.dictionaries(
    st.integers(0, 2), st.builds(Member, st.just("a:1"), st.sampled_from("CD"), st.sampled_from(["10.0.0.1", "h"]))
)


@given(st.lists(st.tuples(st.sampled_from([BROKER, "broker-b"]), st.sampled_from("CD"), MEMBERS)))
def test_lists_and_indexes_are_those_of_a_walk_whatever_was_stored(puts):
    table, model = BrokerTable(), {}
    for name, cluster, members in puts:
        broker_set = a_broker_set(broker_name=name, cluster=cluster, members=members)
        table.put(broker_set)
        model.pop(name, None)
        if members:
            model[name] = broker_set
        assert {each.broker_name: each for each in table.sets()} == model
        assert (table.get(name), len(table)) == (model.get(name), len(model))
        for key in ("C", "D"):
            listed = {each for each, its in model.items() if key in {member.cluster for member in its.members.values()}}
            assert set(table.names_in(key)) == set(table.clusters().get(key, ())) == listed
            assert table.counted_in(key) == {each for each, its in model.items() if its.cluster == key}
        for network in ("10.0.0.1", "h"):
            assert table.of_network(network) == {each for each, its in model.items() if its.network == network}
        assert all(table.clusters().values())
