"""What is known of logs is stored with their set, so that no leader elects a broker that has lost its log."""

import pytest
from controller_builders import a_set, last_heartbeat
from fakes.in_process_controller import SET

from controller.failover.monitor import STORED_AGAIN_MS
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.log_ends import LogEnd
from controller.sets.stored_set import StoredSet
from remoting.protocol.codes import ResponseCode
from store.store import StoreError


async def a_pair_that_ended(controller, end=22_290):
    """Two brokers in sync with 100 messages whose processes have both ended."""
    await controller.a_set(1, 2)
    await controller.heartbeat(1, 2, maxOffset=end, confirmOffset=end)
    controller.log_ends = {}
    await controller.lose(2, 1)
    await controller.pass_ms(1_000)


async def starts(controller, broker_id, end):
    """A broker starts, reports the end of its log, and requests an election; returns its answer."""
    assert (await controller.register(broker_id)).code == 0
    await controller.heartbeat(broker_id, maxOffset=end)
    return await controller.elect(broker_id)


def lost(controller):
    return [(each["broker_id"], each["lost_bytes"], each["new_master"]) for each in controller.events("log_shrank")]


@pytest.mark.parametrize("restarted", [False, True], ids=["the same controller", "one that knows what is stored alone"])
async def test_broker_that_comes_back_first_with_an_empty_log_waits_for_the_one_that_has_it(controller, restarted):
    await a_pair_that_ended(controller)
    if restarted:
        controller.restart()
    answer = await starts(controller, 1, 0)
    assert answer.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert lost(controller) == [(1, 22_290, None)]
    await controller.pass_ms(60_000, beating=(1,))
    assert controller.stored().master is None
    await starts(controller, 2, 22_290)
    await controller.pass_ms(15_000, beating=(1, 2))
    assert controller.stored().master == 2
    assert not controller.events("unclean_master_elected")


async def test_election_that_waits_for_a_lost_log_shows_what_would_be_lost(controller):
    await a_pair_that_ended(controller)
    await starts(controller, 1, 290)
    record = controller.elections.of_set(SET)
    assert (record.bytes_at_stake, record.reports[0].lost_bytes) == (22_000, 22_000)
    assert f"elect {SET} 1 " in record.force


async def test_running_slave_whose_last_heartbeat_is_older_than_what_is_known_is_queried_and_elected(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(1, 2, maxOffset=5_000, confirmOffset=5_000)
    await controller.pass_ms(2 * STORED_AGAIN_MS, beating=(1, 2))
    await controller.heartbeat(2, maxOffset=4_000)
    controller.log_ends = {2: LogEnd(1, 5_100)}
    await controller.lose(1)
    assert controller.stored().master == 2


async def test_log_ends_are_stored_while_they_move_and_not_more_often_than_each_30_s(controller):
    await controller.a_set(1, 2)
    stored = []
    for second in range(120):
        await controller.heartbeat(1, 2, maxOffset=second * 100, confirmOffset=second * 100)
        await controller.pass_ms(1_000, beating=())
        stored.append(controller.stored().replicas[2].log_end)
    assert 3 <= len(set(stored)) <= 5
    revision = controller.store._entries[SET].revision
    for _ in range(90):
        await controller.heartbeat(1, 2, maxOffset=11_900, confirmOffset=11_900)
        await controller.pass_ms(1_000, beating=())
    assert controller.store._entries[SET].revision <= revision + 1


async def test_followers_of_sets_are_not_woken_by_log_ends(controller):
    await controller.a_set(1, 2)
    revision = controller.store.changes.revision
    await controller.heartbeat(1, 2, maxOffset=900, confirmOffset=900)
    await controller.pass_ms(2 * STORED_AGAIN_MS, beating=())
    assert controller.stored().replicas[2].log_end == 900
    assert controller.store.changes.revision == revision


async def test_what_was_reported_before_a_restart_is_not_lost_with_a_store_that_fails(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(1, 2, maxOffset=5_000, confirmOffset=5_000)
    controller.backend.commit, commit = fails, controller.backend.commit
    assert (await controller.register(2)).code != 0
    controller.backend.commit = commit
    assert (await controller.register(2)).code == 0
    assert controller.stored().replicas[2].log_end == 5_000


async def fails(*_):
    raise StoreError("disk full")


async def test_operator_gives_up_a_member_by_cleaning_it(controller):
    await a_pair_that_ended(controller)
    await starts(controller, 1, 290)
    assert (await controller.clean("2")).code == 0
    await controller.pass_ms(10_000, beating=())
    assert controller.stored().master == 1


async def test_log_ends_of_all_of_very_many_sets_are_stored_in_turn(controller):
    names = [f"broker-{number}" for number in range(1_000)]
    for name in names:
        await controller.backend.commit(name, StoredSet(broker_set=a_set(broker_name=name, cluster="C")), 0)
    await controller.store.load()
    for second in range(150):
        for name in names:
            controller.live.record_heartbeat(
                BrokerKey(name, 1), last_heartbeat(max_offset=second + 1, last_contact_ms=controller.clock.now_ms())
            )
        for _ in range(4):
            controller.clock.pass_ms(250)
            controller.control.monitor.check_process_pause(controller.clock.now_ms())
            controller.control.monitor.look_at_sets()
            await controller.done()
    assert all(controller.store.get(name).replicas[1].log_end for name in names)


async def test_set_that_waits_for_a_lost_log_has_one_record_however_often_an_election_is_tried(controller):
    await a_pair_that_ended(controller)
    await starts(controller, 1, 0)
    held = len(list(controller.elections))
    for _ in range(10):
        await controller.elect(1)
        await controller.pass_ms(5_000, beating=(1,))
    assert len(list(controller.elections)) == held
    assert lost(controller) == [(1, 22_290, None)]
