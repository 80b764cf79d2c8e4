"""A fleet of real Java brokers that the tests of this folder share, and that ends with them: brokers idle noisily."""

import contextlib
from dataclasses import dataclass

import pytest
from peers.jars import V4_9, V5_1
from peers.lab import Lab
from peers.servers import Broker, NameServer, registered
from peers.waiting import wait_until

BINARY_HEADERS = "-Drocketmq.serialize.type=ROCKETMQ"


@dataclass
class Fleet:
    """Brokers of several versions that are registered at our NameServer and at the original, all the same.

    They also try a third NameServer, `spare`, which has needWaitForService=true and does not run until a test starts
    it. Tests leave the fleet as they found it, but for topics, which have names of their own.
    """

    namesrv: NameServer
    original: NameServer
    spare: NameServer
    b550: Broker
    s550: Broker
    b514: Broker
    b514_binary: Broker
    b497: Broker

    @property
    def masters(self):
        return [self.b550, self.b514, self.b514_binary, self.b497]

    @property
    def brokers(self):
        return [*self.masters, self.s550]


@pytest.fixture(scope="package")
def fleet(tmp_path_factory):
    with contextlib.closing(Lab(tmp_path_factory.mktemp("fleet"))) as fleet_lab:
        yield _started_fleet(fleet_lab)


def _started_fleet(fleet_lab):
    # Tests change these by request, as operators of the original do.
    opened = "orderMessageEnable;enableAllTopicList;enableTopicList;waitSecondsForService"
    namesrv = fleet_lab.name_server("namesrv", configWhiteList=opened)
    original = fleet_lab.java_name_server("original")
    spare = fleet_lab.idle_name_server("spare", needWaitForService=True)
    addresses = [namesrv.address, original.address, spare.address]

    def broker(name, **settings):
        return fleet_lab.broker(name, namesrv=addresses, **settings)

    fleet = Fleet(
        namesrv=namesrv,
        original=original,
        spare=spare,
        b550=broker("b550", flags=["-Drocketmq.zone=z1"]),
        s550=broker("b550", broker_id=1, flags=["-Drocketmq.zone=z1"]),
        b514=broker("b514", version=V5_1, flags=["-Drocketmq.zone=z2"]),
        b514_binary=broker("b514_binary", version=V5_1, flags=[BINARY_HEADERS]),
        b497=broker("b497", version=V4_9),
    )
    for each in fleet.brokers:
        each.start()
    for each in fleet.brokers:
        each.ready()
    for server in (namesrv, original):
        wait_until(lambda at=server: registered(at, *fleet.brokers), seconds=30, what=f"all brokers at {server.name}")
    return fleet
