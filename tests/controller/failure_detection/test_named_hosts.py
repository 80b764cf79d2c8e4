"""Brokers that register the name of a host: where that is, is found out however they were reached at first."""

import pytest
from fakes.in_process_controller import CLUSTER, SET

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.hosts import BrokerHost
from controller.failure_detection.suspicion import ProbeOutcome
from remoting.protocol.codes import RequestCode

ONE = BrokerKey(SET, 1)
ADDRESS = "broker-1:30911"


@pytest.fixture
async def controller(controller):
    assert (await controller.apply(1, address=ADDRESS)).code == 0
    assert (await controller.register(1, address=ADDRESS)).code == 0
    controller.reached_at = lambda _address: "10.0.0.21:30911"
    return controller


async def heartbeat(controller):
    fields = {
        "clusterName": CLUSTER,
        "brokerName": SET,
        "brokerId": 1,
        "brokerAddr": ADDRESS,
        "epoch": 1,
        "maxOffset": 9,
    }
    assert (await controller.request(RequestCode.BROKER_HEARTBEAT, fields, over=1)).code == 0


async def heartbeat_of(controller, seconds):
    for _ in range(seconds):
        await heartbeat(controller)
        await controller.pass_ms(1_000)


def broker_host(controller):
    return controller.control.monitor.senders.broker_host(ONE, ADDRESS)


async def test_host_is_proven_also_by_reaching_the_broker_before_the_reachability_check(controller):
    controller.reachability.reached(ONE, ADDRESS)
    await heartbeat(controller)
    assert broker_host(controller) == BrokerHost("10.0.0.21", is_proven=True)


async def test_broker_with_a_known_ip_address_is_checked_once(controller):
    await heartbeat_of(controller, 3)
    assert controller.reachability_checks == [ONE]


async def test_host_name_is_resolved_again_after_an_unanswered_probe(controller):
    await heartbeat_of(controller, 3)
    controller.control.monitor.connection_lost(1)
    (probe,) = controller.take_probes()
    controller.control.monitor.probed(probe.key, ProbeOutcome.NO_ANSWER)
    assert broker_host(controller) == BrokerHost("10.0.0.21", is_proven=True)
    controller.reached_at = lambda _address: "10.0.0.22:30911"
    await heartbeat(controller)
    assert broker_host(controller) == BrokerHost("10.0.0.22", is_proven=True)


async def test_answered_probe_updates_the_ip_address_of_the_broker(controller):
    await heartbeat_of(controller, 3)
    controller.control.monitor.connection_lost(1)
    (probe,) = controller.take_probes()
    controller.control.monitor.probed(probe.key, ProbeOutcome.ANSWERED, "10.0.0.22:30911")
    assert broker_host(controller) == BrokerHost("10.0.0.22", is_proven=True)
