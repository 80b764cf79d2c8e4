"""Strangers that make up sets with hosts of their own invention: how many hosts are silent is not theirs to say."""

import pytest
from fakes.control_room import CLUSTER, SET, ControlRoom, at

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import ProbeOutcome
from remoting.protocol.codes import RequestCode

#: More than there are hosts of real brokers.
INVENTED = 7


@pytest.fixture
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        yield room


async def invent(room, address_of):
    """Make up sets of one broker each, which leads; all over one connection of a stranger."""
    for number in range(INVENTED):
        name, address = f"invented-{number}", address_of(number)
        said = {"clusterName": CLUSTER, "brokerName": name}
        application = said | {"appliedBrokerId": 1, "registerCheckCode": f"{address};1"}
        registration = said | {"brokerId": 1, "brokerAddress": address}
        assert (await room.ask(RequestCode.CONTROLLER_APPLY_BROKER_ID, application, over=66)).code == 0
        assert (await room.ask(RequestCode.CONTROLLER_REGISTER_BROKER, registration, over=66)).code == 0
        await room.beat(1, name=name, over=66, brokerAddr=address, epoch=-1, maxOffset=0)
        await room.beat(1, name=name, over=66, brokerAddr=address, epoch=-1, maxOffset=0)
        election = said | {"brokerId": 1, "designateElect": False}
        assert (await room.ask(RequestCode.CONTROLLER_ELECT_MASTER, election, over=66)).code == 0


async def pass_s(room, seconds, *beating):
    """Let time pass in which nobody answers a question."""
    for _ in range(seconds):
        await room.beat(*beating)
        for _ in range(10):
            await room.pass_ms(100)
            for probe in room.asked():
                room.control.monitor.probed(probe.key, ProbeOutcome.NO_ANSWER)
            await room.done()


async def test_silent_invented_hosts_do_not_prevent_the_failover_of_a_frozen_master(room):
    await room.a_set(1, 2, 3)
    await pass_s(room, 15, 1, 2, 3)
    room.reaches = False
    await invent(room, lambda number: f"10.66.0.{number}:30911")
    await pass_s(room, 2, 1, 2, 3)
    await pass_s(room, 6, 2, 3)
    assert room.stored().master == 2
    assert room.events("hosts_silent") == []


async def test_spellings_of_one_address_are_one_host(room):
    await room.a_set(1, 2, 3)
    await pass_s(room, 15, 1, 2, 3)
    await invent(
        room, lambda number: f"10.0.0.66:{4000 + number}" if number % 2 else f"[::ffff:10.0.0.66]:{number + 1}"
    )
    await pass_s(room, 2, 1, 2, 3)
    await pass_s(room, 6, 2, 3)
    assert room.stored().master == 2


async def test_names_of_one_host_are_one_host(room):
    await room.a_set(1, 2, 3)
    await pass_s(room, 15, 1, 2, 3)
    room.reached_at = lambda address: "10.0.0.66:1" if address.startswith("name") else ""
    await invent(room, lambda number: f"name-{number}:30911")
    await pass_s(room, 2, 1, 2, 3)
    await pass_s(room, 6, 2, 3)
    assert room.stored().master == 2


async def test_cut_off_controller_moves_no_master_whatever_heartbeats_a_non_member_sends(room):
    """The stranger names the hosts of real brokers as those of its own, and is heard."""
    await room.a_set(1, 2, 3)
    await pass_s(room, 15, 1, 2, 3)
    room.reaches = False
    await invent(room, lambda number: f"10.0.0.{11 + number % 3}:4{number:03}")
    for _ in range(30):
        for number in range(INVENTED):
            address = f"10.0.0.{11 + number % 3}:4{number:03}"
            await room.beat(1, name=f"invented-{number}", over=66, brokerAddr=address)
        await pass_s(room, 1, 3)
    assert (room.stored().master, room.stored().master_epoch) == (1, 1)
    assert len(room.events("hosts_silent")) == 1


async def test_controller_that_starts_cut_off_moves_no_master_of_never_reached_hosts(room):
    await room.a_set(1, 2, 3)
    for number in range(2, 5):
        await room.a_set(1, name=f"broker-{number}")
    room.start_again()
    await pass_s(room, 40, 3)
    assert (room.stored().master, at(1)) == (1, room.stored().master_address)
    assert len(room.events("hosts_silent")) == 1


async def test_silent_master_on_the_only_proven_host_is_replaced_after_a_minute(room):
    """The others come by way of a proxy, and this controller does not reach them."""
    room.reaches = False
    await room.a_set(1, 2, 3)
    room.reachability.reached(BrokerKey(SET, 1), at(1))
    await pass_s(room, 15, 1, 2, 3)
    await pass_s(room, 30, 2, 3)
    assert room.stored().master == 1
    await pass_s(room, 40, 2, 3)
    assert room.stored().master == 2
    assert [len(room.events(name)) for name in ("hosts_silent", "silent_hosts_given_up")] == [1, 1]
