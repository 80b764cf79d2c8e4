"""Strangers that make up sets with hosts of their own invention: how many hosts are silent is not theirs to say."""

import pytest
from fakes.in_process_controller import CLUSTER, SET, at

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import ProbeOutcome
from remoting.protocol.codes import RequestCode

#: More than there are hosts of real brokers.
INVENTED = 7


async def invent(controller, address_of):
    """Make up sets of one broker each, which leads; all over one connection of a stranger."""
    for number in range(INVENTED):
        name, address = f"invented-{number}", address_of(number)
        fields = {"clusterName": CLUSTER, "brokerName": name}
        application = fields | {"appliedBrokerId": 1, "registerCheckCode": f"{address};1"}
        registration = fields | {"brokerId": 1, "brokerAddress": address}
        assert (await controller.request(RequestCode.CONTROLLER_APPLY_BROKER_ID, application, over=66)).code == 0
        assert (await controller.request(RequestCode.CONTROLLER_REGISTER_BROKER, registration, over=66)).code == 0
        await controller.heartbeat(1, name=name, over=66, brokerAddr=address, epoch=-1, maxOffset=0)
        await controller.heartbeat(1, name=name, over=66, brokerAddr=address, epoch=-1, maxOffset=0)
        election = fields | {"brokerId": 1, "designateElect": False}
        assert (await controller.request(RequestCode.CONTROLLER_ELECT_MASTER, election, over=66)).code == 0


async def pass_s(controller, seconds, *beating):
    """Let time pass in which nobody answers a question."""
    for _ in range(seconds):
        await controller.heartbeat(*beating)
        for _ in range(10):
            await controller.pass_ms(100)
            for probe in controller.take_probes():
                controller.control.monitor.probed(probe.key, ProbeOutcome.NO_ANSWER)
            await controller.done()


async def test_silent_invented_hosts_do_not_prevent_the_failover_of_a_frozen_master(controller):
    await controller.a_set(1, 2, 3)
    await pass_s(controller, 15, 1, 2, 3)
    controller.reaches = False
    await invent(controller, lambda number: f"10.66.0.{number}:30911")
    await pass_s(controller, 2, 1, 2, 3)
    await pass_s(controller, 6, 2, 3)
    assert controller.stored().master == 2
    assert controller.events("hosts_silent") == []


@pytest.mark.parametrize(
    "address_of",
    [
        lambda number: f"10.0.0.66:{4000 + number}" if number % 2 else f"[::ffff:10.0.0.66]:{number + 1}",
        lambda number: f"name-{number}:30911",
    ],
    ids=["spellings", "names"],
)
async def test_spellings_of_one_address_and_names_of_one_host_are_one_host(controller, address_of):
    await controller.a_set(1, 2, 3)
    await pass_s(controller, 15, 1, 2, 3)
    controller.reached_at = lambda address: "10.0.0.66:1" if address.startswith("name") else ""
    await invent(controller, address_of)
    await pass_s(controller, 2, 1, 2, 3)
    await pass_s(controller, 6, 2, 3)
    assert controller.stored().master == 2


async def test_cut_off_controller_moves_no_master_whatever_heartbeats_a_non_member_sends(controller):
    """The stranger names the hosts of real brokers as those of its own, and is heard."""
    await controller.a_set(1, 2, 3)
    await pass_s(controller, 15, 1, 2, 3)
    controller.reaches = False
    await invent(controller, lambda number: f"10.0.0.{11 + number % 3}:4{number:03}")
    for _ in range(30):
        for number in range(INVENTED):
            address = f"10.0.0.{11 + number % 3}:4{number:03}"
            await controller.heartbeat(1, name=f"invented-{number}", over=66, brokerAddr=address)
        await pass_s(controller, 1, 3)
    assert (controller.stored().master, controller.stored().master_epoch) == (1, 1)
    assert len(controller.events("hosts_silent")) == 1


async def test_controller_that_starts_cut_off_moves_no_master_of_never_reached_hosts(controller):
    await controller.a_set(1, 2, 3)
    for number in range(2, 5):
        await controller.a_set(1, name=f"broker-{number}")
    controller.restart()
    await pass_s(controller, 40, 3)
    assert (controller.stored().master, at(1)) == (1, controller.stored().master_address)
    assert len(controller.events("hosts_silent")) == 1


async def test_silent_master_on_the_only_proven_host_is_replaced_after_a_minute(controller):
    """The others come by way of a proxy, and this controller does not reach them."""
    controller.reaches = False
    await controller.a_set(1, 2, 3)
    controller.reachability.reached(BrokerKey(SET, 1), at(1))
    await pass_s(controller, 15, 1, 2, 3)
    await pass_s(controller, 30, 2, 3)
    assert controller.stored().master == 1
    await pass_s(controller, 40, 2, 3)
    assert controller.stored().master == 2
    assert [len(controller.events(name)) for name in ("hosts_silent", "silent_hosts_given_up")] == [1, 1]
