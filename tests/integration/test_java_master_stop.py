"""A set whose master stops for good, and no slave stands in: what its slave and its clients are told then."""

from dataclasses import dataclass

import pytest
from peers.jars import V4_9, V5_5
from peers.servers import CLUSTER, Broker, NameServer, registered
from peers.waiting import wait_until
from peers.wire import REGISTER_BROKER, SUCCESS, addresses_in

pytestmark = [pytest.mark.broad, pytest.mark.java]

VERSIONS = {"b550": V5_5, "b497": V4_9}

#: A broker registers again within this time, also on a busy machine: its period, its search for reachable NameServers.
REGISTRATION_ROUND_S = 30

#: What a topic is made of that a producer sends to without anybody having made it.
TEMPLATE_TOPIC = "TBW102"


@dataclass
class Cluster:
    """Masters of both versions, each with a slave. No broker makes topics by itself."""

    namesrv: NameServer
    masters: dict[str, Broker]
    slaves: dict[str, Broker]


@pytest.fixture(scope="module")
def cluster(module_lab):
    namesrv = module_lab.name_server()

    def brokers(broker_id):
        settings = {"namesrv": [namesrv.address], "broker_id": broker_id, "autoCreateTopicEnable": False}
        return {name: module_lab.broker(name, version=version, **settings) for name, version in VERSIONS.items()}

    made = Cluster(namesrv, masters=brokers(0), slaves=brokers(1))
    # A slave learns its master's address when it registers, so the masters go first.
    for half in (made.masters, made.slaves):
        for broker in half.values():
            broker.start()
        for broker in half.values():
            broker.ready()
        wait_until(
            lambda now=half: registered(namesrv, *now.values()), seconds=REGISTRATION_ROUND_S, what="all registered"
        )
    return made


def seen_by_a_slave(cluster, name):
    """Return the fields of the answer to a registration as a further slave, which leaves at once."""
    fields = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "brokerAddr": "127.0.0.1:1",
        "brokerId": "7",
        "haServerAddr": "127.0.0.1:2",
    }
    body = b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1},"topicConfigTable":{}}}'
    answer = cluster.namesrv.caller.request(REGISTER_BROKER, fields, body)
    assert answer.code == SUCCESS, answer
    return answer.fields


@pytest.mark.parametrize("version", VERSIONS.values())
def test_nobody_can_send_to_an_unknown_topic_where_brokers_make_none(cluster, lab, version):
    namesrv = cluster.namesrv
    assert namesrv.caller.route(TEMPLATE_TOPIC) is None
    producer = lab.producer("producer", namesrv=[namesrv.address], topic="unknown", version=version, count=1).finish()
    (failure,) = producer.failures()
    assert "No route info of this topic" in failure
    assert namesrv.caller.route("unknown") is None


def stop_in_order(broker):
    """Let a broker take its leave, unless a former test did; its process needs some seconds more to end."""
    broker.process.terminate()
    broker.process.wait_for("unregisterBroker OK", seconds=20)


@pytest.mark.parametrize("name", VERSIONS)
def test_a_slave_no_longer_gets_the_address_of_a_master_that_stopped(cluster, name):
    caller, master, slave = cluster.namesrv.caller, cluster.masters[name], cluster.slaves[name]
    ha_address = f"127.0.0.1:{master.port + 1}"
    assert addresses_in(caller.route(name), name) == {"0": master.address, "1": slave.address}
    assert seen_by_a_slave(cluster, name) == {"masterAddr": master.address, "haServerAddr": ha_address}

    stop_in_order(master)

    wait_until(
        lambda: addresses_in(caller.route(name), name) == {"1": slave.address}, seconds=5, what="the slave alone"
    )
    assert caller.addresses(name) == {"1": slave.address}
    assert seen_by_a_slave(cluster, name) == {}


def test_a_slave_forgets_a_master_that_stopped_when_it_registers_again(cluster):
    master, slave = cluster.masters["b550"], cluster.slaves["b550"]
    slave.process.wait_for(f"Update master address from .* to {master.address}", seconds=REGISTRATION_ROUND_S)
    stop_in_order(master)
    slave.process.wait_for(f"Update master address from {master.address} to null", seconds=REGISTRATION_ROUND_S)
