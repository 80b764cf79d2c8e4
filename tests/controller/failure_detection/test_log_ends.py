"""Whom a controller asks how far the logs are before it elects, and what it makes of the answers."""

import asyncio

import pytest
from fakes.control_room import ControlRoom, at

from controller.failover.confirmations import QUERIES_MAX, QUERY_AGAIN_MS, QUERY_AGAIN_UNANSWERED_MS
from controller.failure_detection.log_ends import GROWTH_BYTES_MAX, LogEnd


@pytest.fixture
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        yield room


def elected(room):
    return room.events("master_elected")[-1]


async def test_longest_log_at_the_election_wins_and_not_that_of_the_last_heartbeats(room):
    await room.a_set(1, 2, 3)
    # 3 beats later, and is told of as longer; what came since was confirmed by 2 alone.
    await room.beat(1, 2, maxOffset=900)
    await room.pass_ms(500)
    await room.beat(3, maxOffset=1000)
    room.log_ends = {2: LogEnd(1, 1500), 3: LogEnd(1, 1000)}
    await room.lose(1)
    assert room.stored().master == 2
    assert room.queried == [[2, 3]]
    offsets = {each["broker_id"]: each["max_offset"] for each in elected(room)["candidates"]}
    assert (offsets[2], offsets[3]) == (1500, 1000)


async def test_longer_log_wins_although_its_heartbeat_is_overdue(room):
    await room.a_set(1, 2, 3)
    await room.beat(2, maxOffset=1500)
    await room.pass_ms(2_500, beating=(1, 3))
    room.log_ends = {2: LogEnd(1, 1500), 3: LogEnd(1, 100)}
    await room.lose(1)
    assert room.stored().master == 2


async def test_broker_with_an_overdue_heartbeat_loses_where_logs_are_equal(room):
    await room.a_set(1, 2, 3)
    await room.beat(2)
    # Nobody can be asked, and 2 may be dying: the next election would cost as much again.
    await room.pass_ms(2_500, beating=(1, 3))
    await room.lose(1)
    assert room.stored().master == 3
    verdicts = {each["broker_id"]: each["verdict"] for each in elected(room)["candidates"]}
    assert verdicts[2] == "it has not told how far its log is now"


async def test_election_waits_for_a_possibly_longer_log_until_its_heartbeat(room):
    await room.a_set(1, 2, 3)
    await room.beat(1, 2, 3, maxOffset=1000)
    room.log_ends = {3: LogEnd(1, 900)}
    await room.lose(1)
    assert (room.stored().master, room.stored().master_epoch) == (1, 1)
    assert "has not told how far its log is now" in room.events("election_failed")[-1]["reason"]
    await room.beat(2, maxOffset=1000)
    await room.pass_ms(1_500)
    assert room.stored().master == 2


async def test_election_waits_for_a_possibly_longer_log_until_its_broker_fails(room):
    await room.a_set(1, 2, 3)
    await room.beat(1, 2, 3, maxOffset=1000)
    room.log_ends = {3: LogEnd(1, 900)}
    await room.lose(1, 2)
    await room.pass_ms(1_500)
    assert room.stored().master == 3


async def test_election_in_a_pair_queries_no_log_ends(room):
    await room.a_set(1, 2)
    await room.beat(1, 2)
    await room.lose(1)
    assert (room.stored().master, room.queried) == (2, [])


async def test_first_election_and_designated_election_query_no_log_ends(room):
    await room.a_set(1, 2, 3)
    await room.beat(1, 2, 3)
    assert (await room.elect(3, designate=True)).code == 0
    assert room.queried == []


async def test_heartbeats_decide_where_no_broker_answers_the_log_end_query(room):
    await room.a_set(1, 2, 3)
    await room.beat(1, 2)
    await room.beat(3, maxOffset=1000)
    await room.lose(1)
    assert (room.stored().master, room.queried) == (3, [[2, 3]])


async def test_with_a_fixed_number_of_confirmations_the_election_waits_and_logs_the_reason(room):
    await room.a_set(1, 2, 3)
    await room.beat(1, 2, 3, maxOffset=1000)
    room.log_ends, room.confirmed_on = {2: LogEnd(1, 1000)}, 2
    await room.lose(3, 1)
    assert room.stored().master is None
    stuck = room.events("election_failed")[-1]
    assert "2 acknowledged messages may be on replicas that have not answered only" in stuck["reason"]
    # One more of the set has come back: now whatever was confirmed is on one of both.
    room.log_ends[3] = LogEnd(1, 1200)
    await room.beat(3, maxOffset=1200)
    await room.pass_ms(1_500, beating=(2,))
    assert room.stored().master == 3


async def test_number_of_confirmations_that_the_master_reported_counts_after_its_failure(room):
    room.confirmed_on, room.masters_tell = 2, True
    await room.a_set(1, 2, 3)
    await room.pass_ms(1_000, beating=(1, 2, 3))
    assert room.queried_masters == [at(1)]
    await room.lose(3, 1)
    assert room.stored().master is None
    assert "have not answered only" in room.events("election_failed")[-1]["reason"]
    room.log_ends = {2: LogEnd(1, 1000), 3: LogEnd(1, 1200)}
    await room.beat(3, maxOffset=1200)
    await room.pass_ms(1_500, beating=(2,))
    assert room.stored().master == 3


async def test_masters_are_queried_periodically_and_sooner_while_they_do_not_answer(room):
    await room.a_set(1, 2, 3)

    async def asked_within(ms):
        room.queried_masters.clear()
        await room.pass_ms(300, beating=())
        room.clock.pass_ms(ms)
        await room.beat(1, 2, 3)
        await room.pass_ms(300)
        return len(room.queried_masters)

    await asked_within(0)
    assert await asked_within(QUERY_AGAIN_UNANSWERED_MS // 2) == 0
    assert await asked_within(QUERY_AGAIN_UNANSWERED_MS // 2) == 1
    room.masters_tell, room.confirmed_on = True, 1
    assert await asked_within(QUERY_AGAIN_UNANSWERED_MS) == 1
    assert await asked_within(QUERY_AGAIN_UNANSWERED_MS) == 0
    assert await asked_within(QUERY_AGAIN_MS) == 1


async def test_masters_of_pairs_are_not_queried_and_queries_in_flight_are_limited(room):
    await room.a_set(1, 2)
    room.control.monitor.look_at_sets()
    assert room.queried_masters == []
    waiting = asyncio.Event()

    async def wait(address):
        room.queried_masters.append(address)
        await waiting.wait()

    room.confirmed_on_of = wait
    for number in range(QUERIES_MAX + 2):
        await room.a_set(1, 2, 3, name=f"set-{number}")
    room.control.monitor.look_at_sets()
    await asyncio.sleep(0)
    assert len(room.queried_masters) == QUERIES_MAX
    waiting.set()
    await room.done()


async def test_broker_out_of_sync_with_the_only_copy_of_confirmed_messages_is_elected(room):
    await room.a_set(1, 2, 3, in_sync=(1, 2))
    await room.beat(1, 2, 3)
    room.log_ends, room.confirmed_on = {2: LogEnd(1, 1000), 3: LogEnd(1, 1200)}, 2
    await room.lose(1)
    assert room.stored().master == 3
    assert room.events("unclean_master_elected") == []


async def test_implausible_log_end_is_ignored(room):
    await room.a_set(1, 2, 3)
    await room.beat(1, 2, 3, maxOffset=1000)
    room.log_ends = {2: LogEnd(1, 1000), 3: LogEnd(1, 2000 + GROWTH_BYTES_MAX)}
    await room.lose(1)
    assert room.stored().master == 2


# Brokers that were moved here while they serve


async def test_serving_master_is_elected_although_its_slave_reports_a_longer_log_later(room):
    await room.settings.update_config(b"adoptUnknownBrokers=true")
    for broker_id in (1, 2):
        assert (await room.register(broker_id)).code == 0
    # Its slave is never ahead of it: the master was asked a moment before.
    room.log_ends = {1: LogEnd(7, 105_840, is_master=True), 2: LogEnd(7, 107_760)}
    for _ in range(9):
        await room.beat(1, epoch=7, maxOffset=105_840)
        await room.pass_ms(500)
        await room.beat(2, epoch=7, maxOffset=107_760)
        await room.pass_ms(500)
    assert (room.stored().master, room.queried) == (1, [[1, 2]])
    assert room.stored().master_epoch > 7


async def test_adopted_broker_is_logged_as_adopted_once_and_repeats_its_registration_silently(room):
    await room.settings.update_config(b"adoptUnknownBrokers=true")
    for _ in range(2):
        assert (await room.register(1)).code == 0
        await room.beat(1, epoch=7)
        await room.pass_ms(3_900, beating=(1,))
    assert [line["adopted"] for line in room.events("broker_started")] == [True]
    for _ in range(2):
        await room.pass_ms(1_000, beating=(1,))
    assert room.stored().master == 1
    assert (await room.register(1)).code == 0
    assert [line["adopted"] for line in room.events("broker_started")] == [True, True]
    assert room.events("master_restarted")[-1]["broker_id"] == 1
