"""Controller mode: the Java controller moves the mastership, and the NameServer follows what the brokers tell of it."""

import json
from dataclasses import dataclass

import pytest
from peers.controllers import Controller
from peers.servers import Broker, NameServer, registered
from peers.waiting import wait_until
from peers.wire import QUERY_DATA_VERSION, REGISTER_BROKER, addresses_in

pytestmark = pytest.mark.java

NAME = "moved"

#: A killed broker reports to its controller again and is given its role.
RETURN_S = 40

#: What a controller waits for a sign of life of a broker, and how often it looks.
SILENCE_MS = 3000
SCAN_INTERVAL_MS = 1000

#: How long a controller needs to replace a master that is gone, with much room.
ELECTION_S = 30

POLL_MS = 1000


@dataclass
class Cluster:
    """Two brokers of one name that ask the controller each second for the state of their set."""

    namesrv: NameServer
    controller: Controller
    #: Started first, and so elected first.
    elder: Broker
    younger: Broker


@pytest.fixture(scope="module")
def cluster(module_lab):
    namesrv = module_lab.name_server()
    controller = module_lab.controller(scanNotActiveBrokerInterval=SCAN_INTERVAL_MS)

    def broker(age):
        return module_lab.broker(
            NAME,
            label=f"{NAME}-{age}",
            namesrv=[namesrv.address],
            controllerHeartBeatTimeoutMills=SILENCE_MS,
            syncBrokerMetadataPeriod=POLL_MS,
            **controller.broker_settings(),
        )

    made = Cluster(namesrv, controller, broker("elder"), broker("younger"))
    for each in (made.elder, made.younger):
        _start(namesrv, each)
    _wait_for_members(made, {"0": made.elder, "2": made.younger})
    # Only a member of the SyncStateSet can be elected.
    made.elder.process.wait_for(r"SyncStateSet changed from \[1\] to \[1, 2\]", seconds=30)
    return made


def _start(namesrv, broker):
    broker.start().ready()
    wait_until(lambda: registered(namesrv, broker), seconds=RETURN_S, what=f"{broker.name} registered")


def _wait_for_members(cluster, members, *, seconds=RETURN_S):
    """Wait until the NameServer lists exactly these brokers, by id."""
    wanted = {broker_id: broker.address for broker_id, broker in members.items()}
    listed = lambda: cluster.namesrv.caller.addresses(NAME)  # noqa: E731
    wait_until(lambda: listed() == wanted, seconds=seconds, what=lambda: f"{wanted}, but {listed()} is listed")


def routed(cluster):
    """Return the addresses in the route of the topic that every broker makes of its name."""
    return addresses_in(cluster.namesrv.caller.route(NAME), NAME)


def identity(address):
    return {"clusterName": "DefaultCluster", "brokerName": NAME, "brokerAddr": address, "brokerId": "0"}


def test_a_slave_that_is_elected_is_master_and_nobody_with_an_older_state_takes_its_place(cluster, lab):
    elder, younger = cluster.elder, cluster.younger
    namesrv = [cluster.namesrv.address]
    before = lab.producer("before", namesrv=namesrv, topic=NAME, count=20).finish()
    assert before.failures() == []

    elder.process.kill()
    _wait_for_members(cluster, {"0": younger}, seconds=ELECTION_S)
    assert routed(cluster) == {"0": younger.address}
    after = lab.producer("after", namesrv=namesrv, topic=NAME, count=20).finish()
    assert after.failures() == []

    # What the elder would say if it had only been cut off; a real one of 5.5.0 does so at a moment that nobody chooses.
    caller = cluster.namesrv.caller
    stored = caller.request(QUERY_DATA_VERSION, identity(younger.address), b'{"counter":0}').json
    assert stored["stateVersion"] > 1
    stale = {"dataVersion": {"counter": 9, "stateVersion": 1, "timestamp": 1}, "topicConfigTable": {}}
    body = json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": stale}).encode()
    cut_off = "127.0.0.1:1"
    assert caller.request(REGISTER_BROKER, identity(cut_off), body).code == 0
    assert caller.addresses(NAME) == routed(cluster) == {"0": younger.address}

    _start(cluster.namesrv, elder)
    _wait_for_members(cluster, {"0": younger, "1": elder})
    assert routed(cluster) == {"0": younger.address, "1": elder.address}
    elder.process.wait_for(rf"HAClient connect to master 127.0.0.1:{younger.port + 1}", seconds=30)
    lab.consumer("consumer", namesrv=namesrv, topic=NAME).wait_for_all(before.bodies() | after.bodies())
