"""The route of a topic: who has its queues, who acts for a missing master, what a zone may see."""

import pytest
from builders import (
    BROKER,
    CLUSTER,
    READ_ONLY,
    TOPIC,
    WRITABLE,
    a_broker_set,
    a_live_key,
    a_live_row,
    a_mapping,
    a_queue_data,
    an_address,
    queue_datas,
)
from msgspec import UNSET
from route_tables import route_tables

from namesrv.core import routes
from namesrv.core.tables.change import RouteTables
from remoting.protocol.shapes.route import BrokerData, TopicRouteData

MASTER, SLAVE, SECOND_SLAVE = (an_address(broker_id=broker_id) for broker_id in range(3))
SYNC_TOPIC = "rmq_sys_SYNC_BROKER_MEMBER_broker-a"


def route_of(tables, topic=TOPIC, *, support_acting_master=False, order_topic_conf=None):
    return routes.route_of(
        tables, topic, support_acting_master=support_acting_master, order_topic_conf=order_topic_conf
    )


def test_a_topic_that_no_broker_has_no_route_leads_to():
    assert route_of(route_tables(a_broker_set()), "Unknown") is None


def test_a_route_names_every_set_that_has_the_topic_and_its_queues_there():
    tables = route_tables(a_broker_set(broker_ids=(0, 1)), a_broker_set(broker_name="broker-b"))
    assert route_of(tables) == TopicRouteData(
        broker_datas=[
            BrokerData(broker_addrs={0: MASTER, 1: SLAVE}, broker_name=BROKER, cluster=CLUSTER),
            BrokerData(broker_addrs={0: "broker-b-0:10911"}, broker_name="broker-b", cluster=CLUSTER),
        ],
        filter_server_table={},
        queue_datas=[a_queue_data(), a_queue_data(broker_name="broker-b")],
    )


def test_a_set_without_the_topic_is_not_in_its_route():
    tables = route_tables(a_broker_set(), a_broker_set(broker_name="broker-b"))
    assert [data.broker_name for data in route_of(tables, "broker-b").broker_datas] == ["broker-b"]


def test_broker_ids_are_written_in_ascending_order_whoever_came_first():
    assert list(routes.broker_data(a_broker_set(broker_ids=(2, 0, 1))).broker_addrs.items()) == [
        (0, MASTER),
        (1, SLAVE),
        (2, SECOND_SLAVE),
    ]


def test_a_set_without_a_master_is_listed_with_its_real_members():
    broker_set = a_broker_set(broker_ids=(1, 2), enable_acting_master=True)
    assert routes.broker_data(broker_set).broker_addrs == {1: SLAVE, 2: SECOND_SLAVE}


@pytest.mark.parametrize(("zone_name", "written"), [("zone-1", "zone-1"), ("", ""), (None, UNSET)])
def test_a_set_has_its_zone_if_any_and_whether_a_slave_may_act(zone_name, written):
    data = routes.broker_data(a_broker_set(zone_name=zone_name, enable_acting_master=True))
    assert data == BrokerData(
        broker_addrs={0: MASTER}, broker_name=BROKER, cluster=CLUSTER, enable_acting_master=True, zone_name=written
    )


@pytest.mark.parametrize(("conf", "written"), [(f"{BROKER}:16", f"{BROKER}:16"), ("", ""), (None, UNSET)])
def test_a_route_carries_the_order_configuration_that_there_is(conf, written):
    assert route_of(route_tables(a_broker_set()), order_topic_conf=conf).order_topic_conf == written


def test_the_route_of_a_static_topic_carries_the_mappings_of_all_its_sets_and_no_other_route_does():
    tables = route_tables(a_broker_set(), a_broker_set(broker_name="broker-b"))
    mappings = {name: a_mapping(broker_name=name) for name in (BROKER, "broker-b")}
    for name, mapping in mappings.items():
        tables.mappings.put(name, {TOPIC: mapping})
    assert route_of(tables).topic_queue_mapping_by_broker == mappings
    assert route_of(tables, BROKER).topic_queue_mapping_by_broker is UNSET


def test_only_members_that_have_filter_servers_are_in_their_table():
    tables = route_tables(a_broker_set(broker_ids=(0, 1)), a_broker_set(broker_name="broker-b"))
    tables.live.put(a_live_key(broker_id=1), a_live_row(broker_id=1, filter_servers=("filter:1", "filter:2")))
    assert route_of(tables).filter_server_table == {SLAVE: ["filter:1", "filter:2"]}
    assert route_of(tables, "broker-b").filter_server_table == {}


# Acting master


def test_the_slave_with_the_smallest_id_answers_as_master_and_the_others_stay():
    broker_set = a_broker_set(broker_ids=(2, 1), enable_acting_master=True)
    route = route_of(route_tables(broker_set, perm=READ_ONLY), support_acting_master=True)
    assert list(route.broker_datas[0].broker_addrs.items()) == [(0, SLAVE), (2, SECOND_SLAVE)]
    assert list(broker_set.members) == [2, 1]


@pytest.mark.parametrize(
    ("supported", "broker_ids", "allowed", "perm"),
    [
        (False, (1, 2), True, READ_ONLY),
        (True, (0, 1), True, READ_ONLY),
        (True, (1, 2), False, READ_ONLY),
        (True, (1, 2), True, WRITABLE),
    ],
    ids=["not supported here", "master is there", "not allowed by the set", "still writable"],
)
def test_nobody_acts_as_master_otherwise(supported, broker_ids, allowed, perm):
    tables = route_tables(a_broker_set(broker_ids=broker_ids, enable_acting_master=allowed), perm=perm)
    assert tuple(route_of(tables, support_acting_master=supported).broker_datas[0].broker_addrs) == broker_ids


def test_each_topic_and_each_set_is_looked_at_by_itself():
    tables = route_tables(
        a_broker_set(broker_ids=(1,), enable_acting_master=True),
        a_broker_set(broker_name="broker-b", broker_ids=(1,), enable_acting_master=True),
    )
    tables.topics.put(BROKER, queue_datas(TOPIC, perm=READ_ONLY))
    route = route_of(tables, support_acting_master=True)
    assert [list(data.broker_addrs) for data in route.broker_datas] == [[0], [1]]
    assert list(route_of(tables, BROKER, support_acting_master=True).broker_datas[0].broker_addrs) == [1]


def test_slaves_that_query_the_members_of_their_set_get_the_real_ones():
    tables = route_tables(a_broker_set(broker_ids=(1,), enable_acting_master=True))
    tables.topics.put(BROKER, queue_datas(SYNC_TOPIC, perm=READ_ONLY))
    assert route_of(tables, SYNC_TOPIC, support_acting_master=True).broker_datas[0].broker_addrs == {1: SLAVE}


# Zones


def seen_from(zone_name, *sets, **row):
    """Return the names of the sets, of the queues' sets and the filtered addresses that a zone sees."""
    route = routes.in_zone(route_of(route_tables(*sets, **row)), zone_name)
    names = [data.broker_name for data in route.broker_datas]
    return names, [data.broker_name for data in route.queue_datas], list(route.filter_server_table)


def test_sets_of_other_zones_go_with_their_queues_and_filter_servers():
    mine = a_broker_set(zone_name="zone-1")
    other = a_broker_set(broker_name="broker-b", broker_ids=(0, 1), zone_name="zone-2")
    assert seen_from("zone-1", mine, other, filter_servers=("filter:1",)) == ([BROKER], [BROKER], [MASTER])


@pytest.mark.parametrize(
    ("zone_name", "broker_ids", "seen"),
    [
        ("zone-1", (0,), [BROKER]),
        ("ZONE-1", (0,), [BROKER]),
        ("zone-2", (0,), []),
        (None, (0,), []),
        ("zone-2", (1,), [BROKER]),
        (None, (1,), [BROKER]),
    ],
)
@pytest.mark.parametrize("zone", ["zone-1", "Zone-1"])
def test_a_zone_sees_its_own_masters_in_any_case_and_every_set_without_a_master(zone_name, broker_ids, seen, zone):
    broker_set = a_broker_set(zone_name=zone_name, broker_ids=broker_ids)
    assert seen_from(zone, broker_set) == (seen, seen, [])


def test_what_a_zone_does_not_see_is_still_in_the_route_of_the_others():
    route = route_of(route_tables(a_broker_set(zone_name="zone-1")), order_topic_conf="conf")
    seen = routes.in_zone(route, "zone-2")
    assert (seen.broker_datas, seen.queue_datas, seen.order_topic_conf) == ([], [], "conf")
    assert len(route.broker_datas) == len(route.queue_datas) == 1


# Topics of a cluster


def test_a_cluster_has_each_topic_of_its_sets_once():
    tables = route_tables(
        a_broker_set(), a_broker_set(broker_name="broker-b"), a_broker_set(broker_name="broker-c", cluster="Other")
    )
    assert routes.topics_of_cluster(tables, CLUSTER) == [TOPIC, BROKER, "broker-b"]
    assert routes.topics_of_cluster(tables, "Other") == [TOPIC, "broker-c"]


def test_an_unknown_cluster_has_no_topics():
    assert routes.topics_of_cluster(RouteTables(), CLUSTER) == []
