"""What the control makes of time and of floods: who is suspect, who is dead, who leads then, how much is remembered."""

import asyncio

from fakes.in_process_controller import CLUSTER, SET

from controller.failover.requests import HEARTBEAT_AWAITED_S, NON_MEMBERS_MAX
from controller.failure_detection.heartbeats import BrokerKey, LastHeartbeat
from controller.failure_detection.suspicion import ProbeOutcome
from remoting.protocol.codes import RequestCode


async def test_silent_master_that_answers_no_probe_is_replaced_and_the_reason_is_logged(controller):
    await controller.a_set(1, 2)
    # One beat more: it has started, and serves.
    await controller.pass_ms(1_000, beating=(1, 2))
    await controller.pass_ms(3_200, beating=(2,))
    (probe,) = {each.key: each for each in controller.take_probes()}.values()
    assert probe.key == BrokerKey(SET, 1)
    await controller.pass_ms(1_200, beating=(2,))
    controller.control.monitor.probed(probe.key, ProbeOutcome.NO_ANSWER)
    await controller.pass_ms(1_000, beating=(2,))
    assert (controller.stored().master, controller.stored().master_epoch) == (2, 2)
    (elected,) = [line for line in controller.events("master_elected") if line["trigger"] == "master_dead"]
    assert "its heartbeats stopped" in elected["cause"]
    assert elected["candidates"][0]["verdict"] == "not alive"


async def test_master_whose_port_refuses_connections_is_replaced_at_once(controller):
    await controller.a_set(1, 2)
    await controller.pass_ms(500)
    controller.control.monitor.connection_lost(1)
    await controller.pass_ms(100)
    (probe,) = controller.take_probes()
    controller.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    await controller.done()
    assert controller.stored().master == 2


async def test_close_of_a_replaced_connection_causes_no_probe(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(1, over=77)
    controller.control.monitor.connection_lost(1)
    await controller.pass_ms(1_000, beating=(1, 2))
    assert controller.take_probes() == []
    assert controller.stored().master == 1


async def test_non_members_in_the_heartbeat_table_are_limited(controller):
    await controller.a_set(1, 2)
    now_ms = controller.clock.now_ms()
    for number in range(NON_MEMBERS_MAX):
        last = LastHeartbeat(now_ms, connection_id=50, address="10.9.9.9:1")
        controller.control.heartbeat("C", BrokerKey(SET, 1_000 + number), last)
        controller.control.heartbeat("C", BrokerKey(f"made-up-{number}", 1), last)
    assert controller.live.brokers == NON_MEMBERS_MAX + controller.store.members
    await controller.heartbeat(1, 2)
    assert controller.live.alive(SET, now_ms).keys() >= {1, 2}


async def test_only_heartbeats_of_members_are_recorded(controller):
    """Anybody can send some, with any names in them."""
    recorded = []
    controller.record_heartbeat = lambda cluster, key, last, before: recorded.append((cluster, key))
    await controller.a_set(1)
    await controller.heartbeat(7)
    await controller.heartbeat(1, name="made-up")
    await controller.heartbeat(1, cluster="")
    assert set(recorded) == {(CLUSTER, BrokerKey(SET, 1))}


async def test_heartbeat_with_a_cluster_name_beyond_255_characters_is_refused(controller):
    await controller.a_set(1)
    fields = {"clusterName": "c" * 256, "brokerName": SET, "brokerId": 1, "brokerAddr": "10.0.0.1:10911"}
    refused = await controller.request(RequestCode.BROKER_HEARTBEAT, fields)
    assert refused.code != 0
    assert "clusterName has 256 characters, 255 are allowed" in refused.remark


async def test_expired_non_members_cause_no_probe_and_no_log_line(controller):
    await controller.a_set(1, 2)
    for number in range(100):
        key = BrokerKey(SET if number % 2 else "made-up", 1_000 + number)
        controller.control.heartbeat(
            "C", key, LastHeartbeat(controller.clock.now_ms(), connection_id=50, address="10.9.9.9:1")
        )
    controller.control.monitor.connection_lost(50)
    await controller.pass_ms(12_000, beating=(1, 2))
    assert controller.live.brokers == 2
    assert controller.events("broker_suspected") == controller.events("broker_failed") == []
    assert controller.take_probes() == []
    assert controller.stored().master == 1


async def test_second_election_request_is_answered_although_the_first_was_cancelled(controller):
    await controller.a_set(1, 2)
    await controller.register(1)
    first, second = (asyncio.ensure_future(controller.elect(1)) for _ in range(2))
    await asyncio.sleep(0)
    # The first gives up; the second still waits for the heartbeat.
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await controller.heartbeat(1, epoch=1, maxOffset=500)
    assert (await asyncio.wait_for(second, HEARTBEAT_AWAITED_S / 2)).code == 0
    assert controller.stored().master == 1
    assert not controller.control._awaiting


async def test_heartbeat_of_a_member_is_recorded_with_the_previous_one(controller):
    await controller.a_set(1)
    recorded = []
    controller.record_heartbeat = lambda cluster, key, last, before: recorded.append(
        (key.broker_id, before is not None)
    )
    await controller.heartbeat(1)
    await controller.heartbeat(7, name="strange")
    assert recorded == [(1, True)]
