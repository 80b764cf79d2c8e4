"""Controller mode: the Java controller moves the mastership, and the NameServer follows what the brokers tell of it."""

from dataclasses import dataclass

import pytest
from peers.jars import V5_5
from peers.servers import Broker, Controller, NameServer, registered
from peers.waiting import holds_for, wait_until
from peers.wire import addresses_in

pytestmark = pytest.mark.java

#: A broker registers again within this time: its period, its search for reachable NameServers, and what it takes.
REGISTRATION_ROUND_S = 14

#: A killed broker reports to its controller again and is given its role.
RETURN_S = 40

#: What a controller waits for a sign of life of a broker, and how often it looks.
SILENCE_MS = 3000
SCAN_INTERVAL_MS = 1000

#: How long a controller needs to replace a master that hangs, with much room.
ELECTION_S = 30

#: A slave waits 3 s for the topics of its master.
GIVE_UP_S = 4

POLL_MS = 1000
SELDOM_MS = 600_000


@dataclass
class BrokerSet:
    """Two brokers of one name. The one that started first was elected first."""

    elder: Broker
    younger: Broker

    @property
    def name(self):
        return self.elder.name


@dataclass
class Cluster:
    namesrv: NameServer
    controller: Controller
    #: Both ask the controller each second for the state of their set.
    attentive: BrokerSet
    #: The elder asks so seldom that it learns of its replacement only if it is told.
    careless: BrokerSet


@pytest.fixture(scope="module")
def cluster(module_lab):
    namesrv = module_lab.name_server()
    controller = module_lab.controller(scanNotActiveBrokerInterval=SCAN_INTERVAL_MS)

    def broker(name, age, poll_ms):
        return module_lab.broker(
            name,
            label=f"{name}-{age}",
            namesrv=[namesrv.address],
            controllerHeartBeatTimeoutMills=SILENCE_MS,
            syncBrokerMetadataPeriod=poll_ms,
            **controller.broker_settings(),
        )

    made = Cluster(
        namesrv=namesrv,
        controller=controller,
        attentive=BrokerSet(broker("attentive", "elder", POLL_MS), broker("attentive", "younger", POLL_MS)),
        careless=BrokerSet(broker("careless", "elder", SELDOM_MS), broker("careless", "younger", POLL_MS)),
    )
    sets = (made.attentive, made.careless)
    _start_all(namesrv, [each.elder for each in sets])
    _start_all(namesrv, [each.younger for each in sets])
    for each in sets:
        _wait_for_members(made, each, {"0": each.elder, "2": each.younger})
        # Only a member of the SyncStateSet can be elected.
        each.elder.process.wait_for(r"SyncStateSet changed from \[1\] to \[1, 2\]", seconds=30)
    return made


@pytest.fixture
def silent_controller(cluster, lab):
    """A controller that keeps an election to itself until it is asked."""
    tool = lab.mqadmin(version=V5_5)

    def notify(value):
        address = cluster.controller.address
        printed = tool.run(
            *("updateControllerConfig", "-a", address, "-k", "notifyBrokerRoleChanged", "-v", value),
            namesrv=[cluster.namesrv.address],
        )
        assert "success" in printed

    notify("false")
    yield cluster.controller
    notify("true")


def _start_all(namesrv, brokers):
    for broker in brokers:
        broker.start()
    for broker in brokers:
        broker.ready()
    wait_until(lambda: registered(namesrv, *brokers), seconds=RETURN_S, what="all registered")


def _wait_for_members(cluster, broker_set, members, *, seconds=RETURN_S):
    """Wait until the NameServer lists exactly these brokers, by id."""
    wanted = {broker_id: broker.address for broker_id, broker in members.items()}
    listed = lambda: cluster.namesrv.caller.addresses(broker_set.name)  # noqa: E731
    wait_until(lambda: listed() == wanted, seconds=seconds, what=lambda: f"{wanted}, but {listed()} is listed")


def routed(cluster, broker_set):
    """Return the addresses in the route of the topic that every broker makes of its name."""
    return addresses_in(cluster.namesrv.caller.route(broker_set.name), broker_set.name)


def master_of(cluster, broker_set):
    """Return the address of the only member that is listed."""
    (member,) = cluster.namesrv.caller.addresses(broker_set.name).items()
    assert member[0] == "0"
    return member[1]


def registrations(broker):
    """Return how many registrations a broker has completed."""
    return broker.process.text().count("Registering current broker to name server completed")


def test_a_slave_that_is_elected_is_listed_as_master_only_and_the_old_master_returns_as_slave(cluster, lab):
    broker_set = cluster.attentive
    elder, younger = broker_set.elder, broker_set.younger
    namesrv = [cluster.namesrv.address]
    before = lab.producer("before", namesrv=namesrv, topic=broker_set.name, count=20).finish()
    assert before.failures() == []

    elder.process.kill()
    _wait_for_members(cluster, broker_set, {"0": younger}, seconds=ELECTION_S)
    assert routed(cluster, broker_set) == {"0": younger.address}
    after = lab.producer("after", namesrv=namesrv, topic=broker_set.name, count=20).finish()
    assert after.failures() == []

    _start_all(cluster.namesrv, [elder])
    _wait_for_members(cluster, broker_set, {"0": younger, "1": elder})
    assert routed(cluster, broker_set) == {"0": younger.address, "1": elder.address}
    elder.process.wait_for(rf"HAClient connect to master 127.0.0.1:{younger.port + 1}", seconds=30)
    lab.consumer("consumer", namesrv=namesrv, topic=broker_set.name).wait_for_all(before.bodies() | after.bodies())


def test_a_replaced_master_that_does_not_know_it_yet_cannot_take_the_place_back(cluster, silent_controller):
    broker_set = cluster.careless
    elder, younger = broker_set.elder, broker_set.younger
    elder.process.pause()
    try:
        _wait_for_members(cluster, broker_set, {"0": younger}, seconds=ELECTION_S)
        # Topics that a slave has asked its master for are still taken over after its election, with the old
        # stateVersion: the younger must have given up to wait for them.
        holds_for(lambda: master_of(cluster, broker_set) == younger.address, seconds=GIVE_UP_S, what="its mastership")
        before = registrations(elder)
    finally:
        elder.process.resume()

    def registered_in_vain():
        assert master_of(cluster, broker_set) == younger.address
        assert routed(cluster, broker_set) == {"0": younger.address}
        return registrations(elder) >= before + 2

    # It still registers as master, with the stateVersion of its own time.
    wait_until(registered_in_vain, seconds=3 * REGISTRATION_ROUND_S, what="its registrations")

    elder.process.kill()
    _start_all(cluster.namesrv, [elder])
    _wait_for_members(cluster, broker_set, {"0": younger, "1": elder})
    assert routed(cluster, broker_set) == {"0": younger.address, "1": elder.address}
