"""A controller that loses the network to most of its brokers: it moves no master, and judges again when it is back."""

import time

import pytest
from peers.controllers import OurController
from peers.networks import Network
from peers.replicas import RemoteReplica
from peers.waiting import holds_for, wait_until
from peers.wire import SUCCESS

pytestmark = pytest.mark.broad

#: A frozen master alone is replaced within 5 s; so long is looked whether any is.
CUT_S = 12
#: After a cut brokers have 13 s to be heard, and TCP tries again at ever longer intervals.
ROOM_S = 60


@pytest.fixture
def controller(network, lab):
    controller = lab.kept(OurController(lab.folder, bindAddress="0.0.0.0"))
    controller.start()
    controller.process.wait_for("server_ready", seconds=30)
    return controller


@pytest.fixture
def hosts(network):
    return {number: network.host(number) for number in (2, 3, 4, 5)}


@pytest.fixture
def sets(controller, hosts):
    """Two sets whose masters are on hosts 2 and 3, their slaves on host 5 and beside the controller; one on host 4."""
    members = {"a": [hosts[2], hosts[5]], "b": [hosts[3], None], "c": [hosts[4]]}
    address = f"{Network.server}:{controller.port}"
    brokers = {name: [RemoteReplica(address, name, host) for host in on] for name, on in members.items()}
    for name, replicas in brokers.items():
        for broker in replicas:
            broker.join()
        assert replicas[0].elect().code == SUCCESS
        ids = list(range(1, len(replicas) + 1))
        wait_until(lambda name=name, ids=ids: controller.set_state(name).alive == set(ids), seconds=30, what="all live")
        if len(ids) > 1:
            assert replicas[0].report(ids, master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
    # Until two heartbeats came nobody knows how often they come.
    time.sleep(2)
    yield brokers
    for replicas in brokers.values():
        for broker in replicas:
            broker.die()


def leads(controller, *names):
    """Return who leads each set, since which epoch."""
    return {name: controller.set_state(name).epochs for name in names}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("cut", [(2, 3, 4), (2, 3, 4, 5)], ids=["most hosts", "all but the one beside it"])
def test_controller_in_a_partition_elects_no_master_and_detects_failures_after_it(controller, hosts, sets, cut):
    before = leads(controller, *sets)
    assert set(before.values()) == {(1, 1)}
    start = controller.process.log.stat().st_size
    for number in cut:
        hosts[number].leave()
    controller.process.wait_for("hosts_silent", seconds=15, position=start)
    holds_for(lambda: leads(controller, *sets) == before, seconds=CUT_S, what="no master moves")
    for number in cut:
        hosts[number].join()
    controller.process.wait_for("heartbeats_resumed", seconds=ROOM_S, position=start)

    def all_live():
        return all(controller.set_state(name).alive == set(range(1, len(on) + 1)) for name, on in sets.items())

    wait_until(all_live, seconds=ROOM_S, what="all are heard again")
    assert leads(controller, *sets) == before
    # One host alone is no cut.
    hosts[2].leave()
    wait_until(
        lambda: leads(controller, "a") == {"a": (2, 2)}, seconds=ROOM_S, what="the slave of the lost master leads"
    )
    assert leads(controller, "b", "c") == {"b": (1, 1), "c": (1, 1)}


def invent(controller, host, number):
    """Let a stranger make up a set whose only broker leads, and is at an address that nobody has."""
    broker = RemoteReplica(f"{Network.server}:{controller.port}", f"invented-{number}", host)
    broker.address = f"10.77.0.{number}:30911"
    broker.join()
    assert broker.elect().code == SUCCESS
    return broker


@pytest.mark.timeout(200)
def test_hosts_invented_by_a_client_do_not_prevent_the_replacement_of_a_failed_master(controller, hosts, sets):
    invented = [invent(controller, hosts[4], number) for number in range(1, 12)]
    time.sleep(2)
    for broker in invented:
        broker.stop_beating()
    hosts[2].leave()
    wait_until(lambda: leads(controller, "a") == {"a": (2, 2)}, seconds=15, what="the slave of the lost master leads")
    assert "hosts_silent" not in controller.process.text()
    for broker in invented:
        broker.die()
