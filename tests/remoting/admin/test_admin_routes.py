"""Routes, clusters and order configurations in the answers of NameServers."""

import pytest

from remoting.admin.routes import (
    cluster_brokers,
    delete_order_conf,
    order_conf,
    put_order_conf,
    route_of,
)
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError, Refused
from remoting.protocol.shapes.route import QueueData

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:28578","1":"127.0.0.1:28590"},"brokerName":"b1","cluster":'
    b'"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"orderTopicConf":"b1:4","queueDatas":['
    b'{"brokerName":"b1","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":4}]}'
)
CLUSTER = (
    b'{"brokerAddrTable":{"b1":{"brokerAddrs":{1:"127.0.0.1:28578"},"brokerName":"b1","cluster":"DefaultCluster",'
    b'"enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["b1"]}}'
)


def found(wanted, body):
    return wanted.read_response(RemotingCommand(0, body=body))


def test_route_has_queues_and_members_of_each_set():
    route = found(route_of("orders"), ROUTE)
    assert route.queues == {
        "b1": QueueData(broker_name="b1", read_queue_nums=8, write_queue_nums=4, perm=6, topic_sys_flag=0)
    }
    assert route.broker_sets["b1"].addresses == {0: "127.0.0.1:28578", 1: "127.0.0.1:28590"}
    assert route.broker_sets["b1"].master_address == "127.0.0.1:28578"
    assert (route.order_conf, route.static_broker_names) == ("b1:4", frozenset())


def test_route_of_a_static_topic_names_the_sets_with_logical_queues():
    mapping = b'{"topicQueueMappingByBroker":{"b1":{"bname":"b1","currIdMap":{0:0},"totalQueues":1}},'
    assert found(route_of("orders"), ROUTE.replace(b"{", mapping, 1)).static_broker_names == {"b1"}
    without = ROUTE.replace(b"{", b'{"topicQueueMappingByBroker":null,', 1)
    assert found(route_of("orders"), without).static_broker_names == frozenset()


def test_topic_without_a_route_is_refused():
    with pytest.raises(Refused, match=r"^code 17: No topic route info"):
        route_of("nope").read_response(RemotingCommand(17, remark="No topic route info in name server"))


def test_cluster_of_any_size_is_read_with_bare_keys():
    known = found(cluster_brokers(), CLUSTER)
    assert (known.broker_sets["b1"].master_address, known.clusters) == (None, {"DefaultCluster": {"b1"}})
    sets = b",".join(
        b'"b%d":{"brokerAddrs":{0:"127.0.0.1:1"},"brokerName":"b%d","cluster":"c"}' % (n, n) for n in range(3000)
    )
    many = found(cluster_brokers(), b'{"brokerAddrTable":{%b},"clusterAddrTable":{}}' % sets)
    assert many.broker_sets["b2999"].master_address == "127.0.0.1:1"


def test_order_configuration_is_a_value_of_its_namespace():
    assert order_conf("t").request.ext_fields == {"namespace": "ORDER_TOPIC_CONFIG", "key": "t"}
    assert order_conf("t").read_response(RemotingCommand(0, ext_fields={"value": "b1:4"})) == "b1:4"
    assert order_conf("t").read_response(RemotingCommand(22, remark="No config item")) is None
    with pytest.raises(BodyError):
        order_conf("t").read_response(RemotingCommand(0))
    put, delete = put_order_conf("t", "b1:8"), delete_order_conf("t")
    assert (put.request.code, put.request.ext_fields["value"]) == (100, "b1:8")
    assert (delete.request.code, delete.request.ext_fields["key"]) == (102, "t")
