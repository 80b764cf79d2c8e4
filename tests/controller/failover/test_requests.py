"""What the control makes of time and of floods: who is suspect, who is dead, who leads then, how much is remembered."""

import asyncio

import pytest
from fakes.control_room import CLUSTER, SET, ControlRoom

from controller.failover.requests import HEARTBEAT_AWAITED_S, NON_MEMBERS_MAX
from controller.failure_detection.heartbeats import BrokerKey, LastHeartbeat
from controller.failure_detection.suspicion import ProbeOutcome
from remoting.protocol.codes import RequestCode


@pytest.fixture
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        yield room


async def test_silent_master_that_answers_no_probe_is_replaced_and_the_reason_is_logged(room):
    await room.a_set(1, 2)
    # One beat more: it has started, and serves.
    await room.pass_ms(1_000, beating=(1, 2))
    await room.pass_ms(3_200, beating=(2,))
    (probe,) = {each.key: each for each in room.asked()}.values()
    assert probe.key == BrokerKey(SET, 1)
    await room.pass_ms(1_200, beating=(2,))
    room.control.monitor.probed(probe.key, ProbeOutcome.NO_ANSWER)
    await room.pass_ms(1_000, beating=(2,))
    assert (room.stored().master, room.stored().master_epoch) == (2, 2)
    (elected,) = [line for line in room.events("master_elected") if line["trigger"] == "master_dead"]
    assert "its heartbeats stopped" in elected["cause"]
    assert elected["candidates"][0]["verdict"] == "not alive"


async def test_master_whose_port_refuses_connections_is_replaced_at_once(room):
    await room.a_set(1, 2)
    await room.pass_ms(500)
    room.control.monitor.connection_lost(1)
    await room.pass_ms(100)
    (probe,) = room.asked()
    room.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    await room.done()
    assert room.stored().master == 2


async def test_close_of_a_replaced_connection_causes_no_probe(room):
    await room.a_set(1, 2)
    await room.beat(1, over=77)
    room.control.monitor.connection_lost(1)
    await room.pass_ms(1_000, beating=(1, 2))
    assert room.asked() == []
    assert room.stored().master == 1


async def test_process_pause_of_the_controller_fails_no_broker(room):
    await room.a_set(1, 2)
    await room.pass_ms(500, beating=(1, 2))
    room.clock.pass_ms(30_000)
    await room.pass_ms(500)
    assert room.asked() == []
    assert room.events("failure_detection_suspended")
    assert room.stored().master == 1


async def test_non_members_in_the_heartbeat_table_are_limited(room):
    await room.a_set(1, 2)
    now_ms = room.clock.now_ms()
    for number in range(NON_MEMBERS_MAX):
        heard = LastHeartbeat(now_ms, connection_id=50, address="10.9.9.9:1")
        room.control.heartbeat("C", BrokerKey(SET, 1_000 + number), heard)
        room.control.heartbeat("C", BrokerKey(f"made-up-{number}", 1), heard)
    assert room.live.brokers == NON_MEMBERS_MAX + room.store.members
    await room.beat(1, 2)
    assert room.live.alive(SET, now_ms).keys() >= {1, 2}


async def test_only_heartbeats_of_members_are_recorded(room):
    """Anybody can send some, with any names in them."""
    told = []
    room.record_heartbeat = lambda cluster, key, heard, before: told.append((cluster, key))
    await room.a_set(1)
    await room.beat(7)
    await room.beat(1, name="made-up")
    await room.beat(1, cluster="")
    assert set(told) == {(CLUSTER, BrokerKey(SET, 1))}


async def test_heartbeat_with_a_cluster_name_beyond_255_characters_is_refused(room):
    await room.a_set(1)
    fields = {"clusterName": "c" * 256, "brokerName": SET, "brokerId": 1, "brokerAddr": "10.0.0.1:10911"}
    refused = await room.ask(RequestCode.BROKER_HEARTBEAT, fields)
    assert refused.code != 0
    assert "clusterName has 256 characters, 255 are allowed" in refused.remark


async def test_expired_non_members_cause_no_probe_and_no_log_line(room):
    await room.a_set(1, 2)
    for number in range(100):
        key = BrokerKey(SET if number % 2 else "made-up", 1_000 + number)
        room.control.heartbeat("C", key, LastHeartbeat(room.clock.now_ms(), connection_id=50, address="10.9.9.9:1"))
    room.control.monitor.connection_lost(50)
    await room.pass_ms(12_000, beating=(1, 2))
    assert room.live.brokers == 2
    assert room.events("broker_suspected") == room.events("broker_failed") == []
    assert room.asked() == []
    assert room.stored().master == 1


async def test_second_election_request_is_answered_although_the_first_was_cancelled(room):
    await room.a_set(1, 2)
    await room.register(1)
    first, second = (asyncio.ensure_future(room.elect(1)) for _ in range(2))
    await asyncio.sleep(0)
    # The first gives up; the second still waits for the heartbeat.
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await room.beat(1, epoch=1, maxOffset=500)
    assert (await asyncio.wait_for(second, HEARTBEAT_AWAITED_S / 2)).code == 0
    assert room.stored().master == 1
    assert not room.control._awaiting


async def test_heartbeat_of_a_member_is_recorded_with_the_previous_one(room):
    await room.a_set(1)
    told = []
    room.record_heartbeat = lambda cluster, key, heard, before: told.append((key.broker_id, before is not None))
    await room.beat(1)
    await room.beat(7, name="strange")
    assert told == [(1, True)]
