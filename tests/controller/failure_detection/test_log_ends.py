"""Whom a controller asks how far the logs are before it elects, and what it makes of the answers."""

import asyncio

from fakes.in_process_controller import at

from controller.failover.election_runner import QUERIES_MAX, QUERY_AGAIN_MS, QUERY_AGAIN_UNANSWERED_MS
from controller.failure_detection.log_ends import GROWTH_BYTES_MAX, LogEnd


def elected(controller):
    return controller.events("master_elected")[-1]


async def test_longest_log_at_the_election_wins_and_not_that_of_the_last_heartbeats(controller):
    await controller.a_set(1, 2, 3)
    # 3 beats later, and is told of as longer; what came since was confirmed by 2 alone.
    await controller.heartbeat(1, 2, maxOffset=900)
    await controller.pass_ms(500)
    await controller.heartbeat(3, maxOffset=1000)
    controller.log_ends = {2: LogEnd(1, 1500), 3: LogEnd(1, 1000)}
    await controller.lose(1)
    assert controller.stored().master == 2
    assert controller.queried == [[2, 3]]
    offsets = {each["broker_id"]: each["max_offset"] for each in elected(controller)["candidates"]}
    assert (offsets[2], offsets[3]) == (1500, 1000)


async def test_longer_log_wins_although_its_heartbeat_is_overdue(controller):
    await controller.a_set(1, 2, 3)
    await controller.heartbeat(2, maxOffset=1500)
    await controller.pass_ms(2_500, beating=(1, 3))
    controller.log_ends = {2: LogEnd(1, 1500), 3: LogEnd(1, 100)}
    await controller.lose(1)
    assert controller.stored().master == 2


async def test_election_waits_for_a_possibly_longer_log_until_its_heartbeat(controller):
    await controller.a_set(1, 2, 3)
    await controller.heartbeat(1, 2, 3, maxOffset=1000)
    controller.log_ends = {3: LogEnd(1, 900)}
    await controller.lose(1)
    assert (controller.stored().master, controller.stored().master_epoch) == (1, 1)
    assert "has not reported how far its log is now" in controller.events("election_failed")[-1]["reason"]
    await controller.heartbeat(2, maxOffset=1000)
    await controller.pass_ms(1_500)
    assert controller.stored().master == 2


async def test_election_in_a_pair_queries_the_one_that_is_left(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(1, 2)
    await controller.lose(1)
    assert (controller.stored().master, controller.queried) == (2, [[2]])


async def test_first_election_queries_no_log_ends_and_a_designated_one_that_of_the_designated(controller):
    await controller.a_set(1, 2, 3)
    await controller.heartbeat(1, 2, 3)
    assert controller.queried == []
    assert (await controller.elect(3, designate=True)).code == 0
    assert controller.queried == [[3]]


async def test_number_of_confirmations_that_the_master_reported_counts_after_its_failure(controller):
    controller.confirmed_on, controller.masters_confirm = 2, True
    await controller.a_set(1, 2, 3)
    await controller.pass_ms(1_000, beating=(1, 2, 3))
    assert controller.queried_masters == [at(1)]
    await controller.lose(3, 1)
    assert controller.stored().master is None
    sentence = "broker 2: acknowledged messages may be on replicas that have not answered only"
    assert sentence in controller.events("election_failed")[-1]["reason"]
    # One more of the set has come back: now whatever was confirmed is on one of both.
    controller.log_ends = {2: LogEnd(1, 1000), 3: LogEnd(1, 1200)}
    await controller.heartbeat(3, maxOffset=1200)
    await controller.pass_ms(1_500, beating=(2,))
    assert controller.stored().master == 3


async def test_masters_are_queried_periodically_and_sooner_while_they_do_not_answer(controller):
    await controller.a_set(1, 2, 3)

    async def queries_within(ms):
        controller.queried_masters.clear()
        await controller.pass_ms(300, beating=())
        controller.clock.pass_ms(ms)
        await controller.heartbeat(1, 2, 3)
        await controller.pass_ms(300)
        return len(controller.queried_masters)

    await queries_within(0)
    assert await queries_within(QUERY_AGAIN_UNANSWERED_MS // 2) == 0
    assert await queries_within(QUERY_AGAIN_UNANSWERED_MS // 2) == 1
    controller.masters_confirm, controller.confirmed_on = True, 1
    assert await queries_within(QUERY_AGAIN_UNANSWERED_MS) == 1
    assert await queries_within(QUERY_AGAIN_UNANSWERED_MS) == 0
    assert await queries_within(QUERY_AGAIN_MS) == 1


async def test_masters_of_pairs_are_not_queried_and_queries_in_flight_are_limited(controller):
    await controller.a_set(1, 2)
    controller.control.monitor.look_at_sets()
    assert controller.queried_masters == []
    waiting = asyncio.Event()

    async def wait(address):
        controller.queried_masters.append(address)
        await waiting.wait()

    controller.confirmed_on_of = wait
    for number in range(QUERIES_MAX + 2):
        await controller.a_set(1, 2, 3, name=f"set-{number}")
    controller.control.monitor.look_at_sets()
    await asyncio.sleep(0)
    assert len(controller.queried_masters) == QUERIES_MAX
    waiting.set()
    await controller.done()


async def test_implausible_log_end_is_ignored(controller):
    await controller.a_set(1, 2, 3)
    await controller.heartbeat(1, 2, 3, maxOffset=1000)
    controller.log_ends = {2: LogEnd(1, 1000), 3: LogEnd(1, 2000 + GROWTH_BYTES_MAX)}
    await controller.lose(1)
    assert controller.stored().master == 2


# Brokers that were moved here while they serve


async def test_serving_master_is_elected_although_its_slave_reports_a_longer_log_later(controller):
    await controller.settings.update_config(b"adoptUnknownBrokers=true")
    for broker_id in (1, 2):
        assert (await controller.register(broker_id)).code == 0
    # Its slave is never ahead of it: the master was asked a moment before.
    controller.log_ends = {1: LogEnd(7, 105_840, is_master=True), 2: LogEnd(7, 107_760)}
    for _ in range(9):
        await controller.heartbeat(1, epoch=7, maxOffset=105_840)
        await controller.pass_ms(500)
        await controller.heartbeat(2, epoch=7, maxOffset=107_760)
        await controller.pass_ms(500)
    assert (controller.stored().master, controller.queried) == (1, [[1, 2]])
    assert controller.stored().master_epoch > 7


async def test_adopted_broker_is_logged_as_adopted_once_and_repeats_its_registration_silently(controller):
    await controller.settings.update_config(b"adoptUnknownBrokers=true")
    for _ in range(2):
        assert (await controller.register(1)).code == 0
        await controller.heartbeat(1, epoch=7)
        await controller.pass_ms(3_900, beating=(1,))
    assert [line["adopted"] for line in controller.events("broker_started")] == [True]
    for _ in range(2):
        await controller.pass_ms(1_000, beating=(1,))
    assert controller.stored().master == 1
    assert (await controller.register(1)).code == 0
    assert [line["adopted"] for line in controller.events("broker_started")] == [True, True]
    assert controller.events("master_restarted")[-1]["broker_id"] == 1
