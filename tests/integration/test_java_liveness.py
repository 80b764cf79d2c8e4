"""How real brokers leave the routes: stopped, killed, hung, and replaced by an acting master."""

from dataclasses import dataclass

import pytest
from peers.jars import V4_9
from peers.servers import Broker, NameServer, registered
from peers.waiting import seconds_until, wait_until
from peers.wire import GET_MEMBER_GROUP, READ, WRITE, addresses_in, perm_in

pytestmark = pytest.mark.java

SCAN_INTERVAL_S = 1

#: What brokers with enableSlaveActingMaster announce by default.
HEARTBEAT_TIMEOUT_S = 10

#: A broker registers again within this time: its period, its search for reachable NameServers, and what it takes.
REGISTRATION_ROUND_S = 14


@dataclass
class Pair:
    """A master and a slave of one broker name, with enableSlaveActingMaster."""

    master: Broker
    slave: Broker

    @property
    def name(self):
        return self.master.name


@dataclass
class Cluster:
    namesrv: NameServer
    plain_550: Broker
    plain_497: Broker
    #: Sends 904 as heartbeat and asks 901 for its group, as brokers do with compatibleWithOldNameSrv=false.
    modern: Pair
    #: Sends one-way 322 as heartbeat and asks 105 for its group: the default.
    compatible: Pair


@pytest.fixture(scope="module")
def cluster(module_lab):
    namesrv = module_lab.name_server(
        supportActingMaster=True, notifyMinBrokerIdChanged=True, scanNotActiveBrokerInterval=SCAN_INTERVAL_S * 1000
    )

    def broker(name, **settings):
        return module_lab.broker(name, namesrv=[namesrv.address], **settings)

    def pair(name, **settings):
        settings |= {"enableSlaveActingMaster": True, "slaveReadEnable": True, "brokerClusterName": f"{name}_cluster"}
        return Pair(master=broker(name, **settings), slave=broker(name, broker_id=1, **settings))

    made = Cluster(
        namesrv=namesrv,
        plain_550=broker("plain_550"),
        plain_497=broker("plain_497", version=V4_9),
        modern=pair("modern", compatibleWithOldNameSrv=False),
        compatible=pair("compatible", compatibleWithOldNameSrv=True),
    )
    pairs = (made.modern, made.compatible)
    _start_all(
        namesrv, [made.plain_550, made.plain_497, *(half for pair in pairs for half in (pair.master, pair.slave))]
    )
    return made


@pytest.fixture(params=["plain_550", "plain_497"])
def broker(request, cluster):
    """A registered broker that a test may end."""
    chosen = getattr(cluster, request.param)
    if not chosen.process.running:
        _start_all(cluster.namesrv, [chosen])
    return chosen


@pytest.fixture(params=["modern", "compatible"])
def pair(request, cluster):
    return getattr(cluster, request.param)


def _start_all(namesrv, brokers):
    for broker in brokers:
        broker.start()
    for broker in brokers:
        broker.ready()
    wait_until(lambda: registered(namesrv, *brokers), seconds=REGISTRATION_ROUND_S, what="all registered")


def test_a_killed_broker_leaves_the_routes_long_before_its_timeout(cluster, broker):
    assert cluster.namesrv.caller.route(broker.name)
    broker.process.kill()
    at_once_s = HEARTBEAT_TIMEOUT_S - 2
    wait_until(lambda: cluster.namesrv.caller.route(broker.name) is None, seconds=at_once_s, what="no route")


def test_a_broker_that_stops_in_order_leaves_the_routes_at_once(cluster, broker):
    assert cluster.namesrv.caller.route(broker.name)
    broker.process.terminate()
    broker.process.wait_for("unregisterBroker OK", seconds=20)
    wait_until(lambda: cluster.namesrv.caller.route(broker.name) is None, seconds=10, what="no route")
    assert broker.process.running, "it has to leave by its word, not by the end of its connection"
    broker.process.kill()


def test_a_slave_answers_as_master_while_the_master_is_away(cluster, pair, lab):
    # Every broker makes a topic of its own name, with one queue.
    caller, namesrv, topic = cluster.namesrv.caller, [cluster.namesrv.address], pair.name
    producer = lab.producer("producer", namesrv=namesrv, topic=topic, count=20).finish()
    assert producer.failures() == []
    wait_until(lambda: pair.slave.stored_messages(topic, queues=1) == 20, seconds=30, what="replication")
    position = pair.slave.process.position()

    pair.master.process.kill()

    slave_alone = {"0": pair.slave.address}
    wait_until(lambda: addresses_in(caller.route(topic), pair.name) == slave_alone, seconds=10, what="an acting master")
    assert perm_in(caller.route(topic), pair.name) & (READ | WRITE) == READ
    assert caller.addresses(pair.name) == {"1": pair.slave.address}
    pair.slave.process.wait_for(r"RequestCode Distribution: .*\b905:1\b", seconds=20, position=position)
    pair.slave.process.wait_for(rf"Min broker changed, .* new 1-{pair.slave.address}", seconds=20, position=position)
    lab.consumer("consumer", namesrv=namesrv, topic=topic).wait_for_all(producer.bodies())

    _start_all(cluster.namesrv, [pair.master])
    both = {"0": pair.master.address, "1": pair.slave.address}
    wait_until(lambda: addresses_in(caller.route(topic), pair.name) == both, seconds=5, what="the master back")
    assert perm_in(caller.route(topic), pair.name) & (READ | WRITE) == READ | WRITE


def test_hung_masters_are_replaced_after_their_heartbeat_timeout(cluster):
    caller, pairs = cluster.namesrv.caller, (cluster.modern, cluster.compatible)
    for pair in pairs:
        assert addresses_in(caller.route(pair.name), pair.name)["0"] == pair.master.address
        pair.master.process.pause()

    def replaced():
        return all(addresses_in(caller.route(pair.name), pair.name) == {"0": pair.slave.address} for pair in pairs)

    taken = seconds_until(replaced, seconds=2 * HEARTBEAT_TIMEOUT_S, what="the acting masters")
    for pair in pairs:
        pair.master.process.resume()
    assert taken > HEARTBEAT_TIMEOUT_S - 2
    masters = [pair.master for pair in pairs]
    wait_until(lambda: registered(cluster.namesrv, *masters), seconds=REGISTRATION_ROUND_S, what="the masters back")


def test_the_members_of_a_group_are_notified(cluster, pair):
    answer = cluster.namesrv.caller.request(
        GET_MEMBER_GROUP, {"clusterName": f"{pair.name}_cluster", "brokerName": pair.name}
    )
    assert answer.json["brokerMemberGroup"]["brokerAddrs"] == {"0": pair.master.address, "1": pair.slave.address}
