"""What a stranger can do in the name of a member, by frames that anybody can send: the member leads on, or is replaced.

Brokers 1 to 3 are heard from their own hosts and were reached there; the stranger has a connection from elsewhere.
"""

import itertools
import json
from contextlib import contextmanager

import pytest
from fakes.control_room import CLUSTER, SET, ControlRoom, at

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.log_ends import LogEnd
from controller.failure_detection.suspicion import ProbeOutcome
from controller.sets.stored_set import StoredSet
from controller.storage.store import VersionedEntry
from remoting.protocol.codes import RequestCode, ResponseCode

ONE = BrokerKey(SET, 1)
HOMES = {1: 11, 2: 12, 3: 13}
STRANGER = 66
ELSEWHERE = "6.6.6.6:666"


@pytest.fixture
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        yield room


async def beat(room, *broker_ids, **fields):
    for broker_id in broker_ids:
        await room.beat(broker_id, over=HOMES[broker_id], **fields)


async def pass_s(room, seconds, *, refusing=(), silent=(), forging=None, beating=(1, 2, 3), **fields):
    """Let time pass with what the ports of brokers answer; `forging` is what a stranger does ten times a second."""
    for _ in range(seconds):
        for _ in range(10):
            await room.pass_ms(100)
            answer(room, refusing, silent)
            await room.done()
            if forging is not None:
                await forging()
        for broker_id in set(beating) - {*refusing, *silent}:
            await beat(room, broker_id, **fields)
            await room.ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": SET}, over=HOMES[broker_id])


def answer(room, refusing=(), silent=()):
    for probe in room.asked():
        outcome = ProbeOutcome.REFUSED if probe.key.broker_id in refusing else ProbeOutcome.ANSWERED
        room.control.monitor.probed(probe.key, ProbeOutcome.NO_ANSWER if probe.key.broker_id in silent else outcome)


async def a_set(room, *, in_sync=(1, 2, 3), **fields):
    """Three brokers, of which 1 leads at epoch 1."""
    await room.a_set(1, 2, 3, in_sync=in_sync)
    await pass_s(room, 3, **fields)
    return room.stored()


async def start(room, broker_id, address=None):
    fields = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": broker_id}
    fields |= {"brokerAddress": address or at(broker_id)}
    return await room.ask(RequestCode.CONTROLLER_REGISTER_BROKER, fields, over=STRANGER)


async def report(room, members, *, master_epoch=1, sync_state_set_epoch=2):
    fields = {"brokerName": SET, "masterBrokerId": 1, "masterEpoch": master_epoch}
    body = json.dumps({"syncStateSet": members, "syncStateSetEpoch": sync_state_set_epoch}).encode()
    return await room.ask(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, fields, body, over=STRANGER)


@contextmanager
def sent_from(room, host):
    """Let requests and heartbeats come from a host meanwhile."""
    room.peer_host = host
    yield
    room.peer_host = None


async def ask_for_one(room):
    fields = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": 1, "designateElect": False}
    return await room.ask(RequestCode.CONTROLLER_ELECT_MASTER, fields, over=STRANGER)


async def beat_for_one(room, **fields):
    await room.beat(1, over=STRANGER, **fields)


# Whoever lives stays who it is


@pytest.mark.parametrize("address", [ELSEWHERE, None], ids=["elsewhere", "its own address"])
@pytest.mark.parametrize("beats_first", [False, True])
async def test_registration_with_the_id_of_a_living_master_from_another_host_is_refused(room, address, beats_first):
    before = await a_set(room)
    if beats_first:
        await beat_for_one(room, brokerAddr=address or at(1))
    assert (await start(room, 1, address)).code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert room.stored() == before


async def test_sync_state_set_report_of_another_host_for_a_living_master_is_refused(room):
    before = await a_set(room, in_sync=(1, 2))
    await beat_for_one(room)
    for members in ([1, 2, 3], [1, 3], [1]):
        refused = await report(room, members)
        assert (refused.code, refused.ext_fields) == (
            ResponseCode.CONTROLLER_INVALID_MASTER,
            {"newSyncStateSetEpoch": "0"},
        )
    assert room.stored() == before


async def test_close_of_the_connection_of_a_non_member_suspects_nobody(room):
    before = await a_set(room)
    await beat_for_one(room)
    room.control.monitor.connection_lost(STRANGER)
    assert room.detector.suspects == frozenset()
    assert (await start(room, 1, ELSEWHERE)).code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert room.stored() == before


async def test_heartbeat_timeout_of_a_non_member_does_not_lengthen_the_pause_after_a_start(room):
    await a_set(room)
    room.start_again()
    await room.beat(77, over=STRANGER, heartbeatTimeoutMills=60_000)
    await pass_s(room, 20, silent=(1,))
    assert room.stored().master == 2


# Brokers that come another way


@pytest.mark.parametrize("host", ["10.0.0.11", "10.0.0.1"], ids=["its address", "another of this machine"])
async def test_report_of_a_master_over_another_connection_from_its_host_is_accepted(room, host):
    """Heartbeats go to the listed addresses of controllers, all else to the one that the leader tells."""
    own = {"10.0.0.11", "10.0.0.1"}
    room.detector.hosts.is_own = lambda each: each in own
    await a_set(room, in_sync=(1, 2))
    with sent_from(room, host):
        assert (await report(room, [1, 2, 3])).code == 0
    assert room.stored().sync_state_set == {1, 2, 3}


async def test_report_from_another_host_is_accepted_of_a_master_that_never_sent_from_its_own(room):
    await room.a_set(1, 2, 3, in_sync=(1, 2))
    for _ in range(3):
        await room.pass_ms(1_000)
        answer(room)
        await beat(room, 1, 2, 3)
    with sent_from(room, "192.168.5.5"):
        assert (await report(room, [1, 2, 3])).code == 0


async def test_report_of_a_master_over_a_new_connection_from_its_host_is_accepted_at_once(room):
    await a_set(room, in_sync=(1, 2))
    room.control.monitor.connection_lost(HOMES[1])
    with sent_from(room, "10.0.0.11"):
        assert (await report(room, [1, 2, 3])).code == 0


async def natted(room):
    """Three brokers that are reached at their addresses, and come from a gateway."""
    await room.a_set(1, 2, 3)
    with sent_from(room, "10.9.9.9"):
        for _ in range(3):
            await room.pass_ms(1_000)
            answer(room)
            await room.beat(1, 2, 3)


async def test_restarted_broker_behind_a_gateway_is_elected_with_its_first_request(room):
    """Its port refuses until it has a role."""
    await natted(room)
    for broker_id in (1, 2, 3):
        room.control.monitor.connection_lost(broker_id)
    answer(room, refusing=(1, 2, 3))
    await pass_s(room, 3, refusing=(1, 2, 3))
    with sent_from(room, "10.9.9.9"):
        assert (await room.register(1)).code == 0
        await room.beat(1)
        answer(room, refusing=(1,))
        assert (await room.elect(1)).code == 0


async def test_heartbeat_of_a_failed_broker_behind_a_gateway_brings_it_back(room):
    await natted(room)
    room.control.monitor.connection_lost(1)
    answer(room, refusing=(1,))
    assert room.detector.failed_broker(ONE) is not None
    with sent_from(room, "10.9.9.9"):
        await room.beat(1)
    assert room.live.get(ONE) is not None


async def test_report_from_another_host_is_accepted_after_the_request_connection_of_the_master_closed(room):
    """Its heartbeats go on over their own connection."""
    await a_set(room, in_sync=(1, 2))
    asking = 111
    with sent_from(room, "10.0.0.11"):
        await room.ask(RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": SET}, over=asking)
    assert (await report(room, [1, 2, 3])).code == ResponseCode.CONTROLLER_INVALID_MASTER
    room.control.monitor.connection_lost(asking)
    with sent_from(room, "10.7.7.7"):
        assert (await report(room, [1, 2, 3])).code == 0


async def test_broker_that_restarts_behind_another_host_is_elected_with_its_first_request(room):
    """Its port refuses until it has a role; heartbeats and requests have connections of their own."""
    await a_set(room, in_sync=(1,))
    room.control.monitor.connection_lost(HOMES[1])
    await pass_s(room, 3, refusing=(1,))
    with sent_from(room, "10.7.7.7"):
        assert (await room.register(1)).code == 0
        await room.beat(1, over=99)
        answer(room, refusing=(1,))
        assert (await room.elect(1)).code == 0


async def test_heartbeats_of_a_non_member_do_not_block_a_failed_broker_behind_another_host(room):
    await a_set(room)
    room.control.monitor.connection_lost(HOMES[1])
    await pass_s(room, 1, refusing=(1,))
    for _ in range(13):
        with sent_from(room, "6.6.6.6"):
            await room.beat(1, over=STRANGER)
        with sent_from(room, "10.7.7.7"):
            await room.beat(1, over=99)
        await pass_s(room, 1, refusing=(1,))
    assert room.live.get(ONE) is not None


async def test_two_heartbeats_of_a_non_member_do_not_bring_a_failed_broker_back(room):
    await a_set(room)
    room.control.monitor.connection_lost(HOMES[1])
    await pass_s(room, 1, refusing=(1,))
    for _ in range(2):
        await beat_for_one(room)
        await pass_s(room, 11, refusing=(1,))
    assert room.live.get(ONE) is None


async def test_failed_broker_that_sends_from_another_host_is_back_after_some_seconds(room):
    await a_set(room)
    room.control.monitor.connection_lost(HOMES[1])
    await pass_s(room, 1, refusing=(1,))
    with sent_from(room, "10.7.7.7"):
        for _ in range(13):
            await room.beat(1, over=99)
            await pass_s(room, 1, refusing=(1,))
    assert room.live.get(ONE).connection_id == 99


async def test_broker_that_restarts_at_another_address_awaits_its_first_heartbeat(room):
    await a_set(room)
    room.control.monitor.connection_lost(HOMES[1])
    await pass_s(room, 2, refusing=(1,))
    with sent_from(room, "10.0.0.71"):
        assert (await room.register(1, address="10.0.0.71:30911")).code == 0
    assert room.live.get(ONE).awaits_heartbeat


async def test_heartbeat_of_a_non_member_changes_neither_address_nor_timeout_of_a_broker(room):
    await a_set(room)
    before = room.live.get(ONE)
    await beat_for_one(room, brokerAddr=ELSEWHERE, heartbeatTimeoutMills=86_400_000)
    after = room.live.get(ONE)
    assert (after.address, after.timeout_ms) == (before.address, before.timeout_ms)


# Whoever is dead is replaced


@pytest.mark.parametrize("each_look", [True, False], ids=["ten times a second", "once"])
async def test_killed_master_is_replaced_although_a_non_member_sends_its_heartbeats(room, each_look):
    await a_set(room)
    await beat_for_one(room, heartbeatTimeoutMills=86_400_000)
    room.control.monitor.connection_lost(HOMES[1])
    answer(room, refusing=(1,))
    await beat_for_one(room, heartbeatTimeoutMills=86_400_000)
    await pass_s(room, 3, refusing=(1,), forging=(lambda: beat_for_one(room)) if each_look else None)
    assert room.stored().master == 2


@pytest.mark.parametrize("forge", [beat_for_one, ask_for_one])
async def test_frozen_master_is_replaced_although_a_non_member_sends_its_requests(room, forge):
    await a_set(room)
    await pass_s(room, 5, silent=(1,), forging=lambda: forge(room))
    assert room.stored().master == 2


async def test_short_connections_of_a_non_member_for_brokers_in_sync_do_not_delay_a_failover(room):
    await a_set(room)
    numbers = itertools.count(1000)

    async def come_and_go():
        for broker_id in (2, 3):
            number = next(numbers)
            with sent_from(room, "6.6.6.6"):
                await room.beat(broker_id, over=number)
            room.control.monitor.connection_lost(number)

    await come_and_go()
    room.control.monitor.connection_lost(HOMES[1])
    await pass_s(room, 1, refusing=(1,), forging=come_and_go)
    assert room.stored().master == 2


async def test_proxy_header_with_the_host_of_a_failed_master_does_not_bring_it_back(room):
    await a_set(room)
    room.control.monitor.connection_lost(HOMES[1])
    answer(room, refusing=(1,))
    room.forwarded_host = "10.0.0.11"
    await ask_for_one(room)
    assert room.live.get(ONE) is None


async def test_failed_master_is_replaced_although_a_non_member_sends_its_reports(room):
    await a_set(room)
    room.control.monitor.connection_lost(HOMES[1])
    await pass_s(room, 3, refusing=(1,), forging=lambda: report(room, [1]))
    assert room.stored().master == 2


async def test_brokers_in_sync_can_be_elected_although_a_non_member_registers_for_them(room):
    await a_set(room)
    room.control.monitor.connection_lost(HOMES[1])

    async def register_both():
        await start(room, 2)
        await start(room, 3)

    await register_both()
    await pass_s(room, 3, refusing=(1,), forging=register_both)
    assert room.stored().master == 2


async def test_failed_broker_with_a_heartbeat_of_a_non_member_is_probed_and_back_once_it_answers(room):
    await a_set(room)
    room.control.monitor.connection_lost(HOMES[1])
    await pass_s(room, 2, refusing=(1,))
    await beat_for_one(room)
    assert [probe.key for probe in room.asked()] == [ONE]
    room.control.monitor.probed(ONE, ProbeOutcome.REFUSED)
    assert room.live.get(ONE) is None
    await beat_for_one(room)
    answer(room)
    assert room.live.get(ONE) is not None
    assert room.detector.failed_broker(ONE) is None


async def test_heartbeat_from_its_host_brings_a_failed_broker_back_at_once(room):
    await a_set(room)
    room.control.monitor.connection_lost(HOMES[1])
    await pass_s(room, 2, refusing=(1,))
    room.peer_host = "10.0.0.11"
    await room.beat(1, over=99)
    assert room.live.get(ONE).connection_id == 99


# What brokers are said to know


async def test_reports_of_a_non_member_for_a_silent_master_have_no_effect_once_it_answers(room):
    await room.a_set(1, 2, 3, in_sync=(1, 2))
    await room.beat(3, epoch=403, maxOffset=5)
    await room.beat(1, 2, maxOffset=1000)
    room.log_ends = {1: LogEnd(1, 1000, is_master=True), 2: LogEnd(1, 1000), 3: LogEnd(403, 5)}
    for second in range(20):
        await room.pass_ms(1_000)
        await beat_for_one(room, maxOffset=1000)
        if second in (4, 9):
            await report(room, [1, 2], master_epoch=203, sync_state_set_epoch=9)
        await room.beat(2, maxOffset=1000)
        await room.beat(3, epoch=403, maxOffset=5)
    assert room.stored().master == 1


async def test_report_of_a_non_member_is_dropped_once_the_broker_sends_heartbeats_again(room):
    await a_set(room, in_sync=(1, 2), maxOffset=1000)
    # Nobody can be asked: what is heard decides.
    await room.pass_ms(2_000)
    for second in range(18):
        await room.pass_ms(1_000)
        await beat_for_one(room, maxOffset=1000)
        if second in (11, 16):
            await report(room, [1, 2], master_epoch=203, sync_state_set_epoch=9)
        await beat(room, 2, maxOffset=1000)
        await beat(room, 3, maxOffset=5)
    await pass_s(room, 30, maxOffset=1000)
    room.log_ends = {2: LogEnd(1, 1000), 3: LogEnd(2, 5)}
    room.control.monitor.connection_lost(HOMES[1])
    await pass_s(room, 5, refusing=(1,), maxOffset=1000)
    assert room.stored().master == 2


async def test_serving_broker_out_of_sync_is_not_elected_while_the_master_may_yet_answer(room):
    await room.a_set(1, 2, 3, in_sync=(1, 2))
    await room.beat(3, epoch=403, maxOffset=5)
    await room.beat(1, 2, maxOffset=1000)
    room.log_ends = {1: LogEnd(1, 1000, is_master=True), 2: LogEnd(1, 1000), 3: LogEnd(403, 5, is_master=True)}
    for second in range(20):
        await room.pass_ms(1_000)
        if second == 13:
            room.stands_still_ms = {1: room.clock.now_ms() + 1_500}
        await room.beat(1, over=STRANGER, epoch=203, maxOffset=10**6)
        await room.beat(2, maxOffset=1000)
        await room.beat(3, epoch=403, maxOffset=5)
    assert room.stored().master == 1


# A store that was put back


async def test_no_master_epoch_is_used_twice_after_a_restore_of_the_store(room):
    """The new master of an idle set stands still, so nobody but this controller knows of its epoch."""
    backup = StoredSet(broker_set=await a_set(room))
    room.control.monitor.connection_lost(HOMES[1])
    await pass_s(room, 1, refusing=(1,))
    first = room.stored()
    assert (first.master, first.master_epoch) == (2, 2)
    await pass_s(room, 6, refusing=(1,), silent=(2,))
    revision = await room.backend.commit(SET, backup, room.store._entries[SET].revision)
    room.store.put_back()
    room.store.entry_changed(SET, VersionedEntry(backup, revision))
    await pass_s(room, 30, refusing=(1,), silent=(2,))
    assert room.stored().master == 3
    assert room.stored().master_epoch > first.master_epoch
