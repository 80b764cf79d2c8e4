"""What a stranger can do in the name of a member, by frames that anybody can send: the member leads on, or is replaced.

Brokers 1 to 3 are heard from their own hosts and were reached there; the stranger has a connection from elsewhere.
"""

import itertools
import json
from contextlib import contextmanager

import pytest
from fakes.in_process_controller import CLUSTER, SET, at

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.log_ends import LogEnd
from controller.failure_detection.suspicion import ProbeOutcome
from controller.sets.stored_set import StoredSet
from remoting.protocol.codes import RequestCode, ResponseCode
from store.store import VersionedEntry

ONE = BrokerKey(SET, 1)
HOMES = {1: 11, 2: 12, 3: 13}
OTHER_HOST = 66
ELSEWHERE = "6.6.6.6:666"


async def heartbeat(controller, *broker_ids, **fields):
    for broker_id in broker_ids:
        await controller.heartbeat(broker_id, over=HOMES[broker_id], **fields)


async def pass_s(controller, seconds, *, refusing=(), silent=(), forging=None, beating=(1, 2, 3), **fields):
    """Let time pass with what the ports of brokers answer; `forging` is what a stranger does ten times a second."""
    for _ in range(seconds):
        for _ in range(10):
            await controller.pass_ms(100)
            answer(controller, refusing, silent)
            await controller.done()
            if forging is not None:
                await forging()
        for broker_id in set(beating) - {*refusing, *silent}:
            await heartbeat(controller, broker_id, **fields)
            await controller.request(
                RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": SET}, over=HOMES[broker_id]
            )


def answer(controller, refusing=(), silent=()):
    for probe in controller.take_probes():
        outcome = ProbeOutcome.REFUSED if probe.key.broker_id in refusing else ProbeOutcome.ANSWERED
        controller.control.monitor.probed(
            probe.key, ProbeOutcome.NO_ANSWER if probe.key.broker_id in silent else outcome
        )


async def a_set(controller, *, in_sync=(1, 2, 3), **fields):
    """Three brokers, of which 1 leads at epoch 1."""
    await controller.a_set(1, 2, 3, in_sync=in_sync)
    await pass_s(controller, 3, **fields)
    return controller.stored()


async def start(controller, broker_id, address=None):
    fields = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": broker_id}
    fields |= {"brokerAddress": address or at(broker_id)}
    return await controller.request(RequestCode.CONTROLLER_REGISTER_BROKER, fields, over=OTHER_HOST)


async def report(controller, members, *, master_epoch=1, sync_state_set_epoch=2):
    fields = {"brokerName": SET, "masterBrokerId": 1, "masterEpoch": master_epoch}
    body = json.dumps({"syncStateSet": members, "syncStateSetEpoch": sync_state_set_epoch}).encode()
    return await controller.request(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, fields, body, over=OTHER_HOST)


@contextmanager
def sent_from(controller, host):
    """Let requests and heartbeats come from a host meanwhile."""
    controller.peer_host = host
    yield
    controller.peer_host = None


async def request_of_one(controller):
    fields = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": 1, "designateElect": False}
    return await controller.request(RequestCode.CONTROLLER_ELECT_MASTER, fields, over=OTHER_HOST)


async def heartbeat_of_one(controller, **fields):
    await controller.heartbeat(1, over=OTHER_HOST, **fields)


# Whoever lives stays who it is


@pytest.mark.parametrize("address", [ELSEWHERE, None], ids=["elsewhere", "its own address"])
@pytest.mark.parametrize("sends_heartbeat_first", [False, True])
async def test_registration_with_the_id_of_a_living_master_from_another_host_is_refused(
    controller, address, sends_heartbeat_first
):
    before = await a_set(controller)
    if sends_heartbeat_first:
        await heartbeat_of_one(controller, brokerAddr=address or at(1))
    assert (await start(controller, 1, address)).code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert controller.stored() == before


async def test_sync_state_set_report_of_another_host_for_a_living_master_is_refused(controller):
    before = await a_set(controller, in_sync=(1, 2))
    await heartbeat_of_one(controller)
    for members in ([1, 2, 3], [1, 3], [1]):
        refused = await report(controller, members)
        assert (refused.code, refused.ext_fields) == (
            ResponseCode.CONTROLLER_INVALID_MASTER,
            {"newSyncStateSetEpoch": "0"},
        )
    assert controller.stored() == before


async def test_close_of_the_connection_of_a_non_member_suspects_nobody(controller):
    before = await a_set(controller)
    await heartbeat_of_one(controller)
    controller.control.monitor.connection_lost(OTHER_HOST)
    assert controller.detector.suspects == frozenset()
    assert (await start(controller, 1, ELSEWHERE)).code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert controller.stored() == before


async def test_heartbeat_timeout_of_a_non_member_does_not_lengthen_the_pause_after_a_start(controller):
    await a_set(controller)
    controller.restart()
    await controller.heartbeat(77, over=OTHER_HOST, heartbeatTimeoutMills=60_000)
    await pass_s(controller, 20, silent=(1,))
    assert controller.stored().master == 2


# Brokers that come another way


@pytest.mark.parametrize("host", ["10.0.0.11", "10.0.0.1"], ids=["its address", "another of this machine"])
async def test_report_of_a_master_over_another_connection_from_its_host_is_accepted(controller, host):
    """Heartbeats go to the listed addresses of controllers, all else to the one that the leader tells."""
    own = {"10.0.0.11", "10.0.0.1"}
    controller.detector.hosts.is_own = lambda each: each in own
    await a_set(controller, in_sync=(1, 2))
    with sent_from(controller, host):
        assert (await report(controller, [1, 2, 3])).code == 0
    assert controller.stored().sync_state_set == {1, 2, 3}


async def test_report_from_another_host_is_accepted_of_a_master_that_never_sent_from_its_own(controller):
    await controller.a_set(1, 2, 3, in_sync=(1, 2))
    for _ in range(3):
        await controller.pass_ms(1_000)
        answer(controller)
        await heartbeat(controller, 1, 2, 3)
    with sent_from(controller, "192.168.5.5"):
        assert (await report(controller, [1, 2, 3])).code == 0


async def test_report_of_a_master_over_a_new_connection_from_its_host_is_accepted_at_once(controller):
    await a_set(controller, in_sync=(1, 2))
    controller.control.monitor.connection_lost(HOMES[1])
    with sent_from(controller, "10.0.0.11"):
        assert (await report(controller, [1, 2, 3])).code == 0


async def natted(controller):
    """Three brokers that are reached at their addresses, and come from a gateway."""
    await controller.a_set(1, 2, 3)
    with sent_from(controller, "10.9.9.9"):
        for _ in range(3):
            await controller.pass_ms(1_000)
            answer(controller)
            await controller.heartbeat(1, 2, 3)


async def test_restarted_broker_behind_a_gateway_is_elected_with_its_first_request(controller):
    """Its port refuses until it has a role."""
    await natted(controller)
    for broker_id in (1, 2, 3):
        controller.control.monitor.connection_lost(broker_id)
    answer(controller, refusing=(1, 2, 3))
    await pass_s(controller, 3, refusing=(1, 2, 3))
    with sent_from(controller, "10.9.9.9"):
        assert (await controller.register(1)).code == 0
        await controller.heartbeat(1)
        answer(controller, refusing=(1,))
        assert (await controller.elect(1)).code == 0


async def test_heartbeat_of_a_failed_broker_behind_a_gateway_brings_it_back(controller):
    await natted(controller)
    controller.control.monitor.connection_lost(1)
    answer(controller, refusing=(1,))
    assert controller.detector.failed_broker(ONE) is not None
    with sent_from(controller, "10.9.9.9"):
        await controller.heartbeat(1)
    assert controller.live.get(ONE) is not None


async def test_report_from_another_host_is_accepted_after_the_request_connection_of_the_master_closed(controller):
    """Its heartbeats go on over their own connection."""
    await a_set(controller, in_sync=(1, 2))
    asking = 111
    with sent_from(controller, "10.0.0.11"):
        await controller.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": SET}, over=asking)
    assert (await report(controller, [1, 2, 3])).code == ResponseCode.CONTROLLER_INVALID_MASTER
    controller.control.monitor.connection_lost(asking)
    with sent_from(controller, "10.7.7.7"):
        assert (await report(controller, [1, 2, 3])).code == 0


async def test_broker_that_restarts_behind_another_host_is_elected_with_its_first_request(controller):
    """Its port refuses until it has a role; heartbeats and requests have connections of their own."""
    await a_set(controller, in_sync=(1,))
    controller.control.monitor.connection_lost(HOMES[1])
    await pass_s(controller, 3, refusing=(1,))
    with sent_from(controller, "10.7.7.7"):
        assert (await controller.register(1)).code == 0
        await controller.heartbeat(1, over=99)
        answer(controller, refusing=(1,))
        assert (await controller.elect(1)).code == 0


async def test_heartbeats_of_a_non_member_do_not_block_a_failed_broker_behind_another_host(controller):
    await a_set(controller)
    controller.control.monitor.connection_lost(HOMES[1])
    await pass_s(controller, 1, refusing=(1,))
    for _ in range(13):
        with sent_from(controller, "6.6.6.6"):
            await controller.heartbeat(1, over=OTHER_HOST)
        with sent_from(controller, "10.7.7.7"):
            await controller.heartbeat(1, over=99)
        await pass_s(controller, 1, refusing=(1,))
    assert controller.live.get(ONE) is not None


async def test_two_heartbeats_of_a_non_member_do_not_bring_a_failed_broker_back(controller):
    await a_set(controller)
    controller.control.monitor.connection_lost(HOMES[1])
    await pass_s(controller, 1, refusing=(1,))
    for _ in range(2):
        await heartbeat_of_one(controller)
        await pass_s(controller, 11, refusing=(1,))
    assert controller.live.get(ONE) is None


async def test_failed_broker_that_sends_from_another_host_is_back_after_some_seconds(controller):
    await a_set(controller)
    controller.control.monitor.connection_lost(HOMES[1])
    await pass_s(controller, 1, refusing=(1,))
    with sent_from(controller, "10.7.7.7"):
        for _ in range(13):
            await controller.heartbeat(1, over=99)
            await pass_s(controller, 1, refusing=(1,))
    assert controller.live.get(ONE).connection_id == 99


async def test_broker_that_restarts_at_another_address_awaits_its_first_heartbeat(controller):
    await a_set(controller)
    controller.control.monitor.connection_lost(HOMES[1])
    await pass_s(controller, 2, refusing=(1,))
    with sent_from(controller, "10.0.0.71"):
        assert (await controller.register(1, address="10.0.0.71:30911")).code == 0
    assert controller.live.get(ONE).awaits_heartbeat


async def test_heartbeat_of_a_non_member_changes_neither_address_nor_timeout_of_a_broker(controller):
    await a_set(controller)
    before = controller.live.get(ONE)
    await heartbeat_of_one(controller, brokerAddr=ELSEWHERE, heartbeatTimeoutMills=86_400_000)
    after = controller.live.get(ONE)
    assert (after.address, after.timeout_ms) == (before.address, before.timeout_ms)


# Whoever is dead is replaced


async def reports_of_one(controller):
    await report(controller, [1])


async def registrations_of_others(controller):
    await start(controller, 2)
    await start(controller, 3)


@pytest.mark.parametrize("forge", [None, heartbeat_of_one, reports_of_one, registrations_of_others])
async def test_killed_master_is_replaced_whatever_a_non_member_sends(controller, forge):
    await a_set(controller)
    await heartbeat_of_one(controller, heartbeatTimeoutMills=86_400_000)
    controller.control.monitor.connection_lost(HOMES[1])
    answer(controller, refusing=(1,))
    await heartbeat_of_one(controller, heartbeatTimeoutMills=86_400_000)
    await pass_s(controller, 3, refusing=(1,), forging=forge and (lambda: forge(controller)))
    assert controller.stored().master == 2


@pytest.mark.parametrize("forge", [heartbeat_of_one, request_of_one])
async def test_frozen_master_is_replaced_although_a_non_member_sends_its_requests(controller, forge):
    await a_set(controller)
    await pass_s(controller, 5, silent=(1,), forging=lambda: forge(controller))
    assert controller.stored().master == 2


async def test_short_connections_of_a_non_member_for_brokers_in_sync_do_not_delay_a_failover(controller):
    await a_set(controller)
    numbers = itertools.count(1000)

    async def come_and_go():
        for broker_id in (2, 3):
            number = next(numbers)
            with sent_from(controller, "6.6.6.6"):
                await controller.heartbeat(broker_id, over=number)
            controller.control.monitor.connection_lost(number)

    await come_and_go()
    controller.control.monitor.connection_lost(HOMES[1])
    await pass_s(controller, 1, refusing=(1,), forging=come_and_go)
    assert controller.stored().master == 2


async def test_proxy_header_with_the_host_of_a_failed_master_does_not_bring_it_back(controller):
    await a_set(controller)
    controller.control.monitor.connection_lost(HOMES[1])
    answer(controller, refusing=(1,))
    controller.forwarded_host = "10.0.0.11"
    await request_of_one(controller)
    assert controller.live.get(ONE) is None


async def test_failed_broker_with_a_heartbeat_of_a_non_member_is_probed_and_back_once_it_answers(controller):
    await a_set(controller)
    controller.control.monitor.connection_lost(HOMES[1])
    await pass_s(controller, 2, refusing=(1,))
    await heartbeat_of_one(controller)
    assert [probe.key for probe in controller.take_probes()] == [ONE]
    controller.control.monitor.probed(ONE, ProbeOutcome.REFUSED)
    assert controller.live.get(ONE) is None
    await heartbeat_of_one(controller)
    answer(controller)
    assert controller.live.get(ONE) is not None
    assert controller.detector.failed_broker(ONE) is None


async def test_heartbeat_from_its_host_brings_a_failed_broker_back_at_once(controller):
    await a_set(controller)
    controller.control.monitor.connection_lost(HOMES[1])
    await pass_s(controller, 2, refusing=(1,))
    controller.peer_host = "10.0.0.11"
    await controller.heartbeat(1, over=99)
    assert controller.live.get(ONE).connection_id == 99


# What brokers are said to know


async def test_reports_of_a_non_member_for_a_silent_master_have_no_effect_once_it_answers(controller):
    await controller.a_set(1, 2, 3, in_sync=(1, 2))
    await controller.heartbeat(3, epoch=403, maxOffset=5)
    await controller.heartbeat(1, 2, maxOffset=1000)
    controller.log_ends = {1: LogEnd(1, 1000, is_master=True), 2: LogEnd(1, 1000), 3: LogEnd(403, 5)}
    for second in range(20):
        await controller.pass_ms(1_000)
        await heartbeat_of_one(controller, maxOffset=1000)
        if second in (4, 9):
            await report(controller, [1, 2], master_epoch=203, sync_state_set_epoch=9)
        await controller.heartbeat(2, maxOffset=1000)
        await controller.heartbeat(3, epoch=403, maxOffset=5)
    assert controller.stored().master == 1


async def test_report_of_a_non_member_is_dropped_once_the_broker_sends_heartbeats_again(controller):
    await a_set(controller, in_sync=(1, 2), maxOffset=1000)
    # Nobody can be asked: what is heard decides.
    await controller.pass_ms(1_500)
    for second in range(18):
        await controller.pass_ms(1_000)
        await heartbeat_of_one(controller, maxOffset=1000)
        if second in (11, 16):
            await report(controller, [1, 2], master_epoch=203, sync_state_set_epoch=9)
        await heartbeat(controller, 2, maxOffset=1000)
        await heartbeat(controller, 3, maxOffset=5)
    await pass_s(controller, 30, maxOffset=1000)
    controller.log_ends = {2: LogEnd(1, 1000), 3: LogEnd(2, 5)}
    controller.control.monitor.connection_lost(HOMES[1])
    await pass_s(controller, 5, refusing=(1,), maxOffset=1000)
    assert controller.stored().master == 2


async def test_serving_broker_out_of_sync_is_not_elected_while_the_master_may_yet_answer(controller):
    await controller.a_set(1, 2, 3, in_sync=(1, 2))
    await controller.heartbeat(3, epoch=403, maxOffset=5)
    await controller.heartbeat(1, 2, maxOffset=1000)
    controller.log_ends = {1: LogEnd(1, 1000, is_master=True), 2: LogEnd(1, 1000), 3: LogEnd(403, 5, is_master=True)}
    for second in range(20):
        await controller.pass_ms(1_000)
        if second == 13:
            controller.stands_still_ms = {1: controller.clock.now_ms() + 1_500}
        await controller.heartbeat(1, over=OTHER_HOST, epoch=203, maxOffset=10**6)
        await controller.heartbeat(2, maxOffset=1000)
        await controller.heartbeat(3, epoch=403, maxOffset=5)
    assert controller.stored().master == 1


# A store that was put back


async def test_no_master_epoch_is_used_twice_after_a_restore_of_the_store(controller):
    """The new master of an idle set stands still, so nobody but this controller knows of its epoch."""
    backup = StoredSet(broker_set=await a_set(controller))
    controller.control.monitor.connection_lost(HOMES[1])
    await pass_s(controller, 1, refusing=(1,))
    first = controller.stored()
    assert (first.master, first.master_epoch) == (2, 2)
    await pass_s(controller, 6, refusing=(1,), silent=(2,))
    revision = await controller.backend.commit(SET, backup, controller.store._entries[SET].revision)
    controller.store.put_back()
    controller.store.entry_changed(SET, VersionedEntry(backup, revision))
    await pass_s(controller, 30, refusing=(1,), silent=(2,))
    assert controller.stored().master == 3
    assert controller.stored().master_epoch > first.master_epoch
