"""Telling a set again who leads it: a new leader does not know who was told, nor which process is there."""

import pytest
from fakes.in_process_controller import SET, InProcessController

from controller.failure_detection.suspicion import ProbeOutcome


@pytest.fixture
async def follower(tmp_path):
    """A controller that has heard both brokers of a set, and has told neither who leads it."""
    async with InProcessController(tmp_path) as controller:
        await controller.a_set(1, 2)
        controller.restart()
        await controller.heartbeat(1, 2, epoch=0)
        controller.clock.pass_ms(1_000)
        await controller.heartbeat(1, 2, epoch=0)
        controller.effects.clear()
        yield controller


async def test_new_leader_resends_the_role_notification_to_a_set_that_may_not_know_its_master(follower):
    follower.control.monitor.look_at_sets()
    assert [each.broker_id for notice in follower.notices() for each in notice.recipients] == [1, 2]


async def test_master_that_only_answers_a_probe_is_not_notified_again(follower):
    # Killed and started again while nobody led: its port is open, it has not registered, and to take up an epoch again
    # makes it write another beginning of it into its log (docs/protocol/controller.md 6.2).
    for _ in range(40):
        follower.clock.pass_ms(100)
        if follower.clock.now_ms() % 1_000 == 0:
            await follower.heartbeat(2, epoch=0)
        follower.control.monitor.look_at_brokers()
        for probe in follower.take_probes():
            follower.control.monitor.probed(probe.key, ProbeOutcome.ANSWERED)
    assert 1 in follower.live.of_set(SET)
    follower.control.monitor.look_at_sets()
    assert follower.notices() == []


async def test_role_notification_is_resent_once_the_master_sends_heartbeats(follower):
    await test_master_that_only_answers_a_probe_is_not_notified_again(follower)
    await follower.heartbeat(1, 2, epoch=0)
    follower.control.monitor.look_at_sets()
    assert len(follower.notices()) == 1


@pytest.fixture
async def undecided(tmp_path):
    """A controller of a set whose master has died, whose slave may be dead: nobody can be elected yet."""
    async with InProcessController(tmp_path) as controller:
        await controller.a_set(1, 2)
        controller.control.monitor.connection_lost(2)
        await controller.lose(1)
        assert controller.stored().master == 1
        controller.effects.clear()
        yield controller


@pytest.mark.parametrize("over", [1, 7])
async def test_restarted_master_is_not_notified_of_its_old_epoch(undecided, over):
    # Before it registers it would take that up, and begin the epoch in its log again where it ends now.
    await undecided.heartbeat(1, over=over)
    undecided.control.monitor.look_at_sets()
    assert undecided.notices() == []


async def test_returning_slave_is_notified_of_the_master(undecided):
    await undecided.heartbeat(1)
    await undecided.lose(2)
    undecided.effects.clear()
    await undecided.heartbeat(2)
    assert [[each.broker_id for each in notice.recipients] for notice in undecided.notices()] == [[2]]


async def test_returning_master_that_lacks_its_epoch_is_notified(undecided):
    await undecided.heartbeat(1, epoch=0)
    undecided.control.monitor.look_at_sets()
    assert [each.broker_id for notice in undecided.notices() for each in notice.recipients] == [1]
