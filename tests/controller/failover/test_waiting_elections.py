"""Elections that wait for answers: when they are tried again, how often brokers are asked."""

import asyncio

from controller.failover import monitor
from controller.failover.monitor import EXPIRES_MS
from controller.failure_detection.log_ends import LogEnd
from controller.failure_detection.suspicion import ProbeOutcome
from remoting.protocol.codes import ResponseCode


async def waits_for_a_heartbeat(controller):
    """3 answers and 2 stands still, whose log was longer."""
    await controller.a_set(1, 2, 3)
    await controller.heartbeat(1, 2, 3, maxOffset=1000)
    controller.log_ends = {3: LogEnd(1, 900)}
    await controller.lose(1)
    assert controller.stored().master == 1


async def waits_for_answers(controller):
    """Of three replicas that confirm on any two only one lives."""
    await controller.a_set(1, 2, 3)
    await controller.heartbeat(1, 2, 3, maxOffset=1000)
    controller.log_ends, controller.confirmed_on = {2: LogEnd(1, 1000)}, 2
    await controller.lose(3, 1)
    assert controller.stored().master is None


async def test_awaited_broker_is_elected_soon_after_its_next_heartbeat(controller):
    await waits_for_a_heartbeat(controller)
    await controller.heartbeat(2, maxOffset=1000)
    await controller.pass_ms(400)
    assert controller.stored().master == 2


async def test_missing_log_end_is_queried_again_soon_and_later_each_second(controller):
    await waits_for_answers(controller)
    controller.queried.clear()
    await controller.pass_ms(3_000, beating=(2,))
    assert 8 <= len(controller.queried) <= 16
    await controller.pass_ms(5_000, beating=(2,))
    controller.queried.clear()
    await controller.pass_ms(60_000, beating=(2,))
    assert 50 <= len(controller.queried) <= 61


async def test_broker_that_paused_during_a_log_end_query_is_queried_again_at_once(controller):
    """3 alone has what was confirmed last, and stands still for half a second, as in a collection of garbage."""
    controller.confirmed_on = 2
    await controller.a_set(1, 2, 3)
    await controller.heartbeat(1, 2, 3, maxOffset=1000)
    controller.log_ends = {2: LogEnd(1, 900), 3: LogEnd(1, 1000)}
    lost_ms = controller.clock.now_ms() + 100
    controller.stands_still_ms = {3: lost_ms + 500}
    await controller.lose(1)
    assert controller.stored().master == 3
    assert controller.clock.now_ms() - lost_ms == 500


async def test_log_end_queries_to_a_paused_broker_drop_to_one_a_second(controller):
    await waits_for_answers(controller)
    await controller.heartbeat(2, 3, maxOffset=1000)
    controller.stands_still_ms = {3: controller.clock.now_ms() + 60_000}
    controller.queried.clear()
    await controller.pass_ms(5_000, beating=(2,))
    assert len(controller.queried) <= 25
    controller.queried.clear()
    await controller.pass_ms(20_000, beating=(2,))
    assert len(controller.queried) <= 21


async def test_repeated_election_requests_do_not_repeat_log_end_queries(controller):
    await waits_for_answers(controller)
    await controller.pass_ms(10_000, beating=(2,))
    controller.queried.clear()
    for _ in range(50):
        assert (await controller.elect(2)).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert len(controller.queried) <= 1
    controller.log_ends[3] = LogEnd(1, 1200)
    await controller.heartbeat(2, 3, maxOffset=1200)
    await controller.pass_ms(500)
    assert (await controller.elect(3)).code in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
    assert controller.stored().master == 3


async def test_master_that_fails_while_an_election_waits_for_the_store_is_replaced_by_log_ends(controller, monkeypatch):
    """3 alone has what was confirmed last; 2 asks while the master may still live, and is decided about after that."""
    controller.confirmed_on, controller.masters_confirm = 2, True
    await controller.a_set(1, 2, 3)
    await controller.pass_ms(1_000, beating=(1, 2, 3))
    controller.log_ends = {2: LogEnd(1, 100), 3: LogEnd(1, 500)}
    stored, real = asyncio.Event(), controller.backend.commit

    async def slow(*what):
        await stored.wait()
        return await real(*what)

    monkeypatch.setattr(controller.backend, "commit", slow)
    report = asyncio.ensure_future(controller.report([1, 2], epoch=2))
    await asyncio.sleep(0.01)
    controller.control.monitor.connection_lost(1)
    election = asyncio.ensure_future(controller.elect(2))
    await asyncio.sleep(0.01)
    for probe in controller.take_probes():
        controller.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    stored.set()
    assert (await report).code == 0
    await election
    await controller.done()
    assert controller.stored().master != 2
    await controller.pass_ms(1_500, beating=(2, 3))
    assert controller.stored().master == 3


async def test_confirmations_that_the_failed_master_reported_count_over_those_of_other_brokers(controller):
    controller.confirmed_on, controller.masters_confirm = 2, True
    await controller.a_set(1, 2, 3)
    await controller.pass_ms(1_000, beating=(1, 2, 3))
    controller.log_ends, controller.confirmed_on, controller.masters_confirm = {2: LogEnd(1, 1000)}, 1, False
    await controller.lose(3, 1)
    assert controller.stored().master is None
    assert "have not answered only" in controller.events("election_failed")[-1]["reason"]


async def test_expiry_of_a_set_that_never_had_a_master_begins_anew_with_each_leadership(controller, monkeypatch):
    monkeypatch.setattr(monitor, "SETS_NEVER_EXPIRED", 0)
    await controller.apply(1)
    await controller.register(1)
    controller.restart()
    await controller.pass_ms(1_000)
    controller.control.deposed()
    # Another controller has led meanwhile, and has heard its broker.
    controller.clock.pass_ms(EXPIRES_MS + 1_000)
    await controller.pass_ms(1_000)
    assert controller.stored() is not None


async def test_unclean_election_compares_the_log_ends_of_all_brokers(controller):
    await controller.settings.update_config(b"enableElectUncleanMaster=true")
    await controller.a_set(1, 2, 3, 4, in_sync=[1, 2])
    await controller.heartbeat(1, 2, 3, maxOffset=1000)
    await controller.heartbeat(4, maxOffset=1500)
    controller.log_ends = {3: LogEnd(1, 1900), 4: LogEnd(1, 1500)}
    await controller.lose(2, 1)
    assert (await controller.elect(4)).code == ResponseCode.SUCCESS
    assert controller.stored().master == 3
