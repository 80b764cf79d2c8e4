"""Elections that wait for answers: when they are tried again, how often brokers are asked."""

import asyncio

import pytest
from fakes.control_room import ControlRoom

from controller.failover import monitor
from controller.failover.monitor import EXPIRES_MS
from controller.failure_detection.log_ends import LogEnd
from controller.failure_detection.suspicion import ProbeOutcome
from remoting.protocol.codes import ResponseCode


@pytest.fixture
async def room(tmp_path):
    async with ControlRoom(tmp_path) as room:
        yield room


async def waits_for_a_beat(room):
    """3 answers and 2 stands still, whose log was longer."""
    await room.a_set(1, 2, 3)
    await room.beat(1, 2, 3, maxOffset=1000)
    room.log_ends = {3: LogEnd(1, 900)}
    await room.lose(1)
    assert room.stored().master == 1


async def waits_for_answers(room):
    """Of three replicas that confirm on any two only one lives."""
    await room.a_set(1, 2, 3)
    await room.beat(1, 2, 3, maxOffset=1000)
    room.log_ends, room.confirmed_on = {2: LogEnd(1, 1000)}, 2
    await room.lose(3, 1)
    assert room.stored().master is None


async def test_awaited_broker_is_elected_soon_after_its_next_heartbeat(room):
    await waits_for_a_beat(room)
    await room.beat(2, maxOffset=1000)
    await room.pass_ms(400)
    assert room.stored().master == 2


async def test_missing_log_end_is_queried_again_soon_and_later_each_second(room):
    await waits_for_answers(room)
    room.queried.clear()
    await room.pass_ms(3_000, beating=(2,))
    assert 8 <= len(room.queried) <= 16
    await room.pass_ms(5_000, beating=(2,))
    room.queried.clear()
    await room.pass_ms(60_000, beating=(2,))
    assert 50 <= len(room.queried) <= 61


async def test_broker_that_paused_during_a_log_end_query_is_queried_again_at_once(room):
    """3 alone has what was confirmed last, and stands still for half a second, as in a collection of garbage."""
    room.confirmed_on = 2
    await room.a_set(1, 2, 3)
    await room.beat(1, 2, 3, maxOffset=1000)
    room.log_ends = {2: LogEnd(1, 900), 3: LogEnd(1, 1000)}
    lost_ms = room.clock.now_ms() + 100
    room.stands_still_ms = {3: lost_ms + 500}
    await room.lose(1)
    assert room.stored().master == 3
    assert room.clock.now_ms() - lost_ms == 500


async def test_log_end_queries_to_a_paused_broker_drop_to_one_a_second(room):
    await waits_for_answers(room)
    await room.beat(2, 3, maxOffset=1000)
    room.stands_still_ms = {3: room.clock.now_ms() + 60_000}
    room.queried.clear()
    await room.pass_ms(5_000, beating=(2,))
    assert len(room.queried) <= 25
    room.queried.clear()
    await room.pass_ms(20_000, beating=(2,))
    assert len(room.queried) <= 21


async def test_repeated_election_requests_do_not_repeat_log_end_queries(room):
    await waits_for_answers(room)
    await room.pass_ms(10_000, beating=(2,))
    room.queried.clear()
    for _ in range(50):
        assert (await room.elect(2)).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert len(room.queried) <= 1
    room.log_ends[3] = LogEnd(1, 1200)
    await room.beat(2, 3, maxOffset=1200)
    await room.pass_ms(500)
    assert (await room.elect(3)).code in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
    assert room.stored().master == 3


async def test_master_that_fails_while_an_election_waits_for_the_store_is_replaced_by_log_ends(room, monkeypatch):
    """3 alone has what was confirmed last; 2 asks while the master may still live, and is decided about after that."""
    room.confirmed_on, room.masters_tell = 2, True
    await room.a_set(1, 2, 3)
    await room.pass_ms(1_000, beating=(1, 2, 3))
    room.log_ends = {2: LogEnd(1, 100), 3: LogEnd(1, 500)}
    stored, real = asyncio.Event(), room.backend.commit

    async def slow(*what):
        await stored.wait()
        return await real(*what)

    monkeypatch.setattr(room.backend, "commit", slow)
    report = asyncio.ensure_future(room.report([1, 2], epoch=2))
    await asyncio.sleep(0.01)
    room.control.monitor.connection_lost(1)
    election = asyncio.ensure_future(room.elect(2))
    await asyncio.sleep(0.01)
    for probe in room.asked():
        room.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
    stored.set()
    assert (await report).code == 0
    await election
    await room.done()
    assert room.stored().master != 2
    await room.pass_ms(1_500, beating=(2, 3))
    assert room.stored().master == 3


async def test_confirmations_that_the_failed_master_reported_count_over_those_of_other_brokers(room):
    room.confirmed_on, room.masters_tell = 2, True
    await room.a_set(1, 2, 3)
    await room.pass_ms(1_000, beating=(1, 2, 3))
    room.log_ends, room.confirmed_on, room.masters_tell = {2: LogEnd(1, 1000)}, 1, False
    await room.lose(3, 1)
    assert room.stored().master is None
    assert "have not answered only" in room.events("election_failed")[-1]["reason"]


async def test_expiry_of_a_set_that_never_had_a_master_begins_anew_with_each_leadership(room, monkeypatch):
    monkeypatch.setattr(monitor, "SETS_NEVER_EXPIRED", 0)
    await room.apply(1)
    await room.register(1)
    room.start_again()
    await room.pass_ms(1_000)
    room.control.deposed()
    # Another controller has led meanwhile, and has heard its broker.
    room.clock.pass_ms(EXPIRES_MS + 1_000)
    await room.pass_ms(1_000)
    assert room.stored() is not None


async def test_unclean_election_compares_the_log_ends_of_all_brokers(room):
    await room.settings.update_config(b"enableElectUncleanMaster=true")
    await room.a_set(1, 2, 3, 4, in_sync=[1, 2])
    await room.beat(1, 2, 3, maxOffset=1000)
    await room.beat(4, maxOffset=1500)
    room.log_ends = {3: LogEnd(1, 1900), 4: LogEnd(1, 1500)}
    await room.lose(2, 1)
    assert (await room.elect(4)).code == ResponseCode.SUCCESS
    assert room.stored().master == 3
