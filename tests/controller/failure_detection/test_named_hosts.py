"""Brokers that register the name of a host: where that is, is found out however they were reached at first."""

import pytest
from fakes.control_room import CLUSTER, SET, ControlRoom

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.hosts import BrokerHost
from controller.failure_detection.suspicion import ProbeOutcome
from remoting.protocol.codes import RequestCode

ONE = BrokerKey(SET, 1)
ADDRESS = "broker-1:30911"


@pytest.fixture
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        assert (await room.apply(1, address=ADDRESS)).code == 0
        assert (await room.register(1, address=ADDRESS)).code == 0
        room.reached_at = lambda _address: "10.0.0.21:30911"
        yield room


async def beat(room):
    said = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": 1, "brokerAddr": ADDRESS, "epoch": 1, "maxOffset": 9}
    assert (await room.ask(RequestCode.BROKER_HEARTBEAT, said, over=1)).code == 0


async def beat_for(room, seconds):
    for _ in range(seconds):
        await beat(room)
        await room.pass_ms(1_000)


def broker_host(room):
    return room.control.monitor.senders.broker_host(ONE, ADDRESS)


async def test_host_is_proven_also_by_reaching_the_broker_before_the_reachability_check(room):
    room.reachability.reached(ONE, ADDRESS)
    await beat(room)
    assert broker_host(room) == BrokerHost("10.0.0.21", is_proven=True)


async def test_broker_with_a_known_ip_address_is_checked_once(room):
    await beat_for(room, 3)
    assert room.greeted == [ONE]


async def test_host_name_is_resolved_again_after_an_unanswered_probe(room):
    await beat_for(room, 3)
    room.control.monitor.connection_lost(1)
    (probe,) = room.asked()
    room.control.monitor.probed(probe.key, ProbeOutcome.NO_ANSWER)
    assert broker_host(room) == BrokerHost("10.0.0.21", is_proven=True)
    room.reached_at = lambda _address: "10.0.0.22:30911"
    await beat(room)
    assert broker_host(room) == BrokerHost("10.0.0.22", is_proven=True)


async def test_answered_probe_updates_the_ip_address_of_the_broker(room):
    await beat_for(room, 3)
    room.control.monitor.connection_lost(1)
    (probe,) = room.asked()
    room.control.monitor.probed(probe.key, ProbeOutcome.ANSWERED, "10.0.0.22:30911")
    assert broker_host(room) == BrokerHost("10.0.0.22", is_proven=True)
