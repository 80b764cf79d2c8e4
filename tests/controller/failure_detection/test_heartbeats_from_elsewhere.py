"""Who speaks for a broker: what heartbeats from other hosts than its own claim does not outlast its return."""

import pytest
from fakes.control_room import SET, ControlRoom

from controller.failure_detection.heartbeats import BrokerKey

ONE = BrokerKey(SET, 1)
#: Connections from the hosts of brokers 1 and 2, and of somebody else.
HOME_OF_ONE, HOME_OF_TWO, STRANGER = 11, 12, 66
CLAIM = {"epoch": 999, "maxOffset": 10**9, "electionPriority": 0}


@pytest.fixture
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        yield room


async def a_set_at_home(room):
    await room.a_set(1, 2)
    for _ in range(3):
        await pass_s(room, 1)
        await room.beat(1, over=HOME_OF_ONE)
        await room.beat(2, over=HOME_OF_TWO)


async def pass_s(room, seconds):
    room.clock.pass_ms(round(seconds * 1000))
    room.control.monitor.look_at_brokers()
    await room.done()


async def test_heartbeats_of_a_non_member_are_ignored_while_the_broker_pauses(room):
    await a_set_at_home(room)
    await pass_s(room, 1.6)
    for _ in range(4):
        await room.beat(1, over=STRANGER, **CLAIM)
        await pass_s(room, 0.5)
    heard = room.live.get(ONE)
    assert (heard.progress, heard.priority) == ((1, 100), 2**31 - 1)


async def test_heartbeat_of_a_failed_broker_counts_at_once_and_those_of_a_non_member_do_not(room):
    await a_set_at_home(room)
    for _ in range(12):
        await room.beat(1, over=STRANGER, **CLAIM)
        await room.beat(2, over=HOME_OF_TWO)
        await pass_s(room, 1)
    assert room.live.get(ONE) is None
    await room.beat(1, over=HOME_OF_ONE)
    assert room.live.get(ONE).progress == (1, 100)
    for _ in range(3):
        await room.beat(1, over=STRANGER, **CLAIM)
        assert room.live.get(ONE).progress == (1, 100)
        await pass_s(room, 1)


async def test_heartbeat_over_another_connection_from_the_host_of_the_broker_counts(room):
    await a_set_at_home(room)
    room.peer_host = "10.0.0.11"
    await pass_s(room, 1.6)
    await room.beat(1, over=77, maxOffset=90)
    assert room.live.get(ONE).progress == (1, 90)


async def test_heartbeat_from_the_host_of_the_broker_counts_over_earlier_ones_of_a_non_member(room):
    await room.a_set(1, 2)
    for _ in range(3):
        await pass_s(room, 1)
        await room.beat(1, over=STRANGER, **CLAIM)
    await room.beat(1, over=HOME_OF_ONE)
    assert room.live.get(ONE).progress == (1, 100)
