"""What a controller does by itself: suspicion, reachability checks, failures, and when it leaves all masters alone."""

import asyncio

import pytest
from fakes.in_process_controller import SET, at

from controller.decisions.election import ElectionResult
from controller.failover.events import ProbeBroker
from controller.failover.monitor import LOOK_MS, REACHABILITY_CHECKS_MAX
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.suspicion import ProbeOutcome
from store.store import ControllerMember

ONE, TWO = BrokerKey(SET, 1), BrokerKey(SET, 2)
OTHER = "broker-b"


def report_probes(controller, outcome):
    """Report the outcome of all probes; returns the brokers that were probed."""
    requested = controller.take_probes()
    for probe in requested:
        controller.control.monitor.probed(probe.key, outcome)
    return [probe.key for probe in requested]


async def pass_ms(controller, ms, outcome, *heartbeats):
    """Let time pass in steps of 100 ms; `beats` are (broker id, set, at which step of each ten)."""
    for step in range(ms // 100):
        for broker_id, name, when in heartbeats:
            if step % 10 == when:
                await controller.heartbeat(broker_id, name=name)
        await controller.pass_ms(100)
        report_probes(controller, outcome)
        await controller.done()


async def two_sets(controller):
    for name in (SET, OTHER):
        await controller.a_set(1, 2, name=name)
    await pass_ms(controller, 15_000, ProbeOutcome.ANSWERED, *BOTH)


BOTH = tuple((i, name, 2 * i + (name == OTHER)) for i in (1, 2) for name in (SET, OTHER))


def masters(controller):
    return {
        broker_set.broker_name: (broker_set.master, broker_set.master_epoch) for broker_set in controller.store.sets()
    }


NOBODY_MOVED = {SET: (1, 1), OTHER: (1, 1)}


# Cut off


async def test_controller_cut_off_from_all_brokers_moves_no_master_then_or_later(controller):
    await two_sets(controller)
    await pass_ms(controller, 10_000, ProbeOutcome.NO_ANSWER)
    assert masters(controller) == NOBODY_MOVED
    # After healing the slaves are heard before their masters.
    await pass_ms(controller, 5_000, ProbeOutcome.ANSWERED, *((2, name, 0) for name in (SET, OTHER)))
    assert masters(controller) == NOBODY_MOVED
    await pass_ms(controller, 20_000, ProbeOutcome.ANSWERED, *BOTH)
    assert masters(controller) == NOBODY_MOVED
    assert [line["gap_ms"] > 9_000 for line in controller.events("heartbeats_resumed")] == [True]


async def test_master_that_stays_silent_after_a_cut_is_replaced_when_the_pause_ends(controller):
    await two_sets(controller)
    await pass_ms(controller, 10_000, ProbeOutcome.NO_ANSWER)
    heartbeats = [heartbeat for heartbeat in BOTH if heartbeat[:2] != (1, SET)]
    await pass_ms(controller, 12_000, ProbeOutcome.NO_ANSWER, *heartbeats)
    assert masters(controller) == NOBODY_MOVED
    await pass_ms(controller, 3_000, ProbeOutcome.NO_ANSWER, *heartbeats)
    assert masters(controller) == {SET: (2, 2), OTHER: (1, 1)}


async def test_master_whose_port_refused_is_replaced_without_a_pause_after_the_cut(controller):
    await two_sets(controller)
    await pass_ms(controller, 4_000, ProbeOutcome.REFUSED)
    assert masters(controller) == NOBODY_MOVED
    await pass_ms(controller, 2_000, ProbeOutcome.ANSWERED, (2, SET, 0))
    assert masters(controller)[SET] == (2, 2)


async def test_process_pause_is_not_recorded_as_a_heartbeat_gap(controller):
    await two_sets(controller)
    controller.clock.pass_ms(10_000)
    await pass_ms(controller, 5_000, ProbeOutcome.ANSWERED, *BOTH)
    assert controller.events("failure_detection_suspended")
    assert controller.events("heartbeats_resumed") == []


# Hosts that fall silent together: the controller is at 10.0.0.1, a broker of the set S at 10.0.0.S or where it is said


async def a_pair(controller, name, *hosts):
    """A set of which the first leads; each on a host of its own."""
    for broker_id, host in enumerate(hosts, 1):
        address = f"10.0.0.{host}:30911"
        assert (await controller.apply(broker_id, name=name, address=address)).code == 0
        assert (await controller.register(broker_id, name=name, address=address)).code == 0
        await controller.heartbeat(broker_id, name=name, epoch=-1, maxOffset=0)
    assert (await controller.elect(1, name=name)).code == 0
    if len(hosts) > 1:
        assert (await controller.report(range(1, len(hosts) + 1), name=name)).code == 0


async def four_hosts(controller):
    """Three sets whose masters are elsewhere, the slave of one beside the controller; all send heartbeats for 15 s."""
    await a_pair(controller, "x", 21, 1)
    await a_pair(controller, "y", 22, 23)
    await a_pair(controller, "z", 23, 21)
    everybody = [(i, name, i + 2 * number) for i in (1, 2) for number, name in enumerate("xyz")]
    await pass_ms(controller, 15_000, ProbeOutcome.ANSWERED, *everybody)
    return everybody


STILL = {"x": (1, 1), "y": (1, 1), "z": (1, 1)}


@pytest.mark.parametrize("non_members", [False, True])
async def test_cut_off_controller_with_heartbeats_of_its_own_host_moves_no_master_then_or_later(
    controller, non_members
):
    everybody = await four_hosts(controller)
    heartbeats_seen = [(2, "x", 4)] + [(1_000, "made-up", 5), (77, "y", 6)] * non_members
    await pass_ms(controller, 120_000, ProbeOutcome.NO_ANSWER, *heartbeats_seen)
    assert masters(controller) == STILL
    # Slaves are heard before their masters.
    await pass_ms(controller, 5_000, ProbeOutcome.NO_ANSWER, *heartbeats_seen, (2, "y", 7), (2, "z", 8))
    assert masters(controller) == STILL
    await pass_ms(controller, 20_000, ProbeOutcome.ANSWERED, *everybody)
    assert masters(controller) == STILL
    (line,) = controller.events("hosts_silent")
    assert (line["silent_hosts"], line["other_hosts"]) == (3, 3)


async def test_operator_can_move_a_master_while_most_hosts_are_silent(controller):
    await four_hosts(controller)
    await pass_ms(controller, 10_000, ProbeOutcome.NO_ANSWER, (2, "x", 4))
    assert (await controller.elect(2, name="x", designate=True)).code == 0
    assert masters(controller) == STILL | {"x": (2, 2)}


async def test_masters_of_most_hosts_are_replaced_after_a_minute_if_another_host_sends_heartbeats(controller):
    await four_hosts(controller)
    heartbeats_seen = [(2, "x", 4), (2, "y", 5), (1, "z", 6)]
    await pass_ms(controller, 60_000, ProbeOutcome.NO_ANSWER, *heartbeats_seen)
    assert masters(controller) == STILL
    await pass_ms(controller, 5_000, ProbeOutcome.NO_ANSWER, *heartbeats_seen)
    assert masters(controller) == {"x": (2, 2), "y": (2, 2), "z": (1, 1)}
    assert len(controller.events("silent_hosts_given_up")) == 1


async def test_hosts_that_fail_one_after_the_other_lose_their_masters_without_delay(controller):
    everybody = await four_hosts(controller)
    on_22 = [(1, "y")]
    await pass_ms(controller, 30_000, ProbeOutcome.NO_ANSWER, *(each for each in everybody if each[:2] not in on_22))
    assert masters(controller) == STILL | {"y": (2, 2)}
    on_21 = [(1, "x"), (2, "z")]
    await pass_ms(
        controller, 5_000, ProbeOutcome.NO_ANSWER, *(each for each in everybody if each[:2] not in on_22 + on_21)
    )
    assert masters(controller) == {"x": (2, 2), "y": (2, 2), "z": (1, 1)}


async def test_controller_that_starts_cut_off_moves_no_master_of_other_hosts(controller):
    await four_hosts(controller)
    controller.restart()
    await pass_ms(controller, 100_000, ProbeOutcome.NO_ANSWER, (2, "x", 4))
    assert masters(controller) == STILL


# Taking over


async def follower_with_a_failed_master(controller):
    await controller.a_set(1, 2)
    await pass_ms(controller, 15_000, ProbeOutcome.ANSWERED, *((i, SET, i) for i in (1, 2)))
    controller.group.follows(ControllerMember(id="n1", address="10.0.0.2:9878"))
    await pass_ms(controller, 6_000, ProbeOutcome.NO_ANSWER, (2, SET, 2))
    assert [line["broker_id"] for line in controller.events("broker_failed")] == [1]
    controller.group.leads(None)
    controller.group.ready(controller.group.term)
    controller.control.monitor.take_over()


@pytest.mark.parametrize(
    ("outcome", "ms", "master"), [(ProbeOutcome.ANSWERED, 2_000, 1), (ProbeOutcome.NO_ANSWER, 1_000, 2)]
)
async def test_new_leader_probes_again_a_master_that_failed_while_it_was_follower(controller, outcome, ms, master):
    await follower_with_a_failed_master(controller)
    await pass_ms(controller, ms, outcome, (2, SET, 2))
    assert controller.stored().master == master


# Refusals


async def test_refused_port_is_no_failure_where_no_broker_was_ever_reached(controller):
    controller.reaches = False
    await controller.a_set(1, 2)
    controller.control.monitor.connection_lost(1)
    assert report_probes(controller, ProbeOutcome.REFUSED) == [ONE]
    await controller.done()
    await controller.heartbeat(1, over=77)
    await pass_ms(controller, 5_000, ProbeOutcome.REFUSED, (1, SET, 0), (2, SET, 0))
    assert controller.stored().master == 1
    assert controller.events("broker_failed") == []


async def test_another_broker_at_a_never_reached_address_is_no_failure(controller):
    """Two networks may have the same addresses."""
    controller.reaches = False
    await controller.a_set(1, 2)
    await pass_ms(controller, 1_000, ProbeOutcome.ANOTHER, (1, SET, 0), (2, SET, 0))
    controller.control.monitor.connection_lost(1)
    await pass_ms(controller, 300, ProbeOutcome.ANOTHER, (2, SET, 0))
    await controller.heartbeat(1, over=77)
    assert controller.events("broker_failed") == []


async def test_unreachable_master_is_replaced_once_its_heartbeat_is_overdue(controller):
    controller.reaches = False
    await controller.a_set(1, 2)
    await pass_ms(controller, 1_000, ProbeOutcome.REFUSED, (1, SET, 0), (2, SET, 0))
    controller.control.monitor.connection_lost(1)
    await pass_ms(controller, 900, ProbeOutcome.REFUSED, (2, SET, 0))
    assert controller.stored().master == 1
    await pass_ms(controller, 2_000, ProbeOutcome.REFUSED, (2, SET, 0))
    assert controller.stored().master == 2


async def test_refused_port_at_a_new_address_is_no_failure_before_the_broker_was_reached_there(controller):
    await controller.a_set(1, 2)
    controller.reaches = False
    await controller.register(2, address="10.0.0.99:1")
    await controller.heartbeat(2)
    controller.control.monitor.connection_lost(2)
    assert report_probes(controller, ProbeOutcome.REFUSED) == [TWO]
    assert controller.events("broker_failed") == []


async def test_refused_port_is_no_failure_after_a_heartbeat_followed_an_earlier_refusal(controller):
    await controller.a_set(1, 2)
    controller.control.monitor.connection_lost(2)
    report_probes(controller, ProbeOutcome.REFUSED)
    assert len(controller.events("broker_failed")) == 1
    controller.reaches = False
    await controller.heartbeat(2, over=77)
    controller.control.monitor.connection_lost(77)
    assert report_probes(controller, ProbeOutcome.REFUSED) == [TWO]
    assert len(controller.events("broker_failed")) == 1


async def start_without_heartbeats(controller):
    """A controller that has just started: it knows the sets and has no heartbeats."""
    await controller.a_set(1, 2)
    for key in (ONE, TWO):
        controller.control.monitor.remove(key)
    controller.control.monitor._reach.has_reached_any = False
    controller.take_probes()
    controller.control.monitor.take_over()


async def test_refused_port_of_a_master_without_heartbeat_is_a_failure_only_if_a_broker_was_reached(controller):
    controller.reaches = False
    await start_without_heartbeats(controller)
    await pass_ms(controller, 6_000, ProbeOutcome.REFUSED, (2, SET, 0))
    assert controller.stored().master == 1
    controller.reachability.reached(TWO, at(2))
    await pass_ms(controller, 1_500, ProbeOutcome.REFUSED, (2, SET, 0))
    assert controller.stored().master == 2


@pytest.mark.parametrize("interval_s", [1, 5])
async def test_start_of_a_controller_does_not_move_a_living_unreachable_master(controller, interval_s):
    """A firewall refuses; brokers look for controllers each 3 s, and this master finds it last."""
    await start_without_heartbeats(controller)
    for step in range(300):
        for broker_id, first in ((2, 5), (1, 30 + 10 * interval_s - 1)):
            if step >= first and (step - first) % (10 * interval_s) == 0:
                await controller.heartbeat(broker_id)
        await controller.pass_ms(100)
        for probe in controller.take_probes():
            controller.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)
        await controller.done()
    assert (controller.stored().master, controller.stored().master_epoch) == (1, 1)


async def test_master_that_failed_while_no_controller_ran_is_replaced_after_its_heartbeat_was_due(controller):
    await start_without_heartbeats(controller)
    await pass_ms(controller, 4_900, ProbeOutcome.REFUSED, (2, SET, 0))
    assert controller.stored().master == 1
    await pass_ms(controller, 1_000, ProbeOutcome.REFUSED, (2, SET, 0))
    assert controller.stored().master == 2


async def test_probe_goes_to_the_stored_address_and_not_to_one_in_a_heartbeat(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(1, brokerAddr="10.9.9.9:1", over=50)
    controller.control.monitor.connection_lost(50)
    assert [each.address for each in controller.effects if isinstance(each, ProbeBroker)] == [at(1)]


# Greetings


async def test_reachability_of_each_member_is_checked_once_and_of_no_non_member(controller):
    await controller.a_set(1, 2)
    await pass_ms(controller, 3_000, ProbeOutcome.ANSWERED, (1, SET, 0), (2, SET, 0))
    await controller.heartbeat(9)
    assert sorted(controller.reachability_checks) == [ONE, TWO]


async def test_unreachable_brokers_are_checked_again_and_logged_once(controller):
    controller.reaches = False
    await controller.a_set(1, 2)
    await pass_ms(controller, 40_000, ProbeOutcome.ANSWERED, (1, SET, 0), (2, SET, 0))
    assert len(controller.reachability_checks) == 2 * 6
    (line,) = controller.events("brokers_unreachable")
    assert (line["broker"], line["brokers"]) == (SET, 1)


async def test_reachability_checks_between_two_rounds_are_limited(controller):
    controller.reaches = False
    ids = range(1, REACHABILITY_CHECKS_MAX + 3)
    for broker_id in ids:
        await controller.apply(broker_id)
    await controller.heartbeat(*ids)
    assert len(controller.reachability_checks) == REACHABILITY_CHECKS_MAX
    controller.control.monitor.look_at_brokers()
    await controller.heartbeat(*ids)
    assert len(controller.reachability_checks) == len(ids)


async def test_closed_connection_probes_only_its_own_brokers(controller):
    await controller.a_set(1, 2)
    controller.control.monitor.connection_lost(1)
    report_probes(controller, ProbeOutcome.ANSWERED)
    controller.clock.pass_ms(100)
    # The first is due to be asked again, at the next look.
    controller.control.monitor.connection_lost(2)
    assert [probe.key for probe in controller.take_probes()] == [TWO]
    controller.control.monitor.look_at_brokers()
    assert [probe.key for probe in controller.take_probes()] == [ONE]


# Silent, slow and dead


async def test_controller_with_a_process_pause_each_second_still_replaces_a_failed_master(controller):
    await controller.a_set(1, 2)
    await controller.pass_ms(1_000, beating=(1, 2))
    for _ in range(12):
        # Each second it is held up for as long as makes it doubt itself.
        controller.clock.pass_ms(LOOK_MS + 800)
        await controller.heartbeat(2)
        await controller.pass_ms(200)
        report_probes(controller, ProbeOutcome.NO_ANSWER)
        await controller.done()
    assert controller.stored().master == 2
    assert len(controller.events("failure_detection_suspended")) == 5


async def expire_master(controller):
    """Let the master stand still until another one leads."""
    await two_sets(controller)
    await pass_ms(
        controller, 6_000, ProbeOutcome.NO_ANSWER, *(heartbeat for heartbeat in BOTH if heartbeat[:2] != (1, SET))
    )
    assert controller.stored().master == 2


async def test_role_notification_is_sent_to_a_silent_replaced_master_too_and_nobody_waits_for_it(controller):
    await expire_master(controller)
    assert {each.broker_id for each in controller.notices()[-1].recipients} == {1, 2}
    assert controller.notices()[-1].former_master is None


async def test_replaced_master_is_notified_of_its_role_with_its_first_heartbeat(controller):
    await expire_master(controller)
    controller.effects.clear()
    await controller.heartbeat(1)
    (notice,) = controller.notices()
    assert (notice.master.broker_id, [each.broker_id for each in notice.recipients]) == (2, [1])
    await controller.heartbeat(1)
    assert len(controller.notices()) == 1


async def test_replaced_master_is_notified_of_its_role_with_its_first_report(controller):
    """Its slave has left it, so that it may report that before it beats."""
    await expire_master(controller)
    controller.effects.clear()
    assert (await controller.report([1], master=1)).code != 0
    (notice,) = controller.notices()
    assert (notice.master.broker_id, [each.broker_id for each in notice.recipients]) == (2, [1])
    await controller.heartbeat(1)
    assert len(controller.notices()) == 1


async def test_slow_store_gets_one_election_however_many_rounds_pass(controller, monkeypatch):
    await controller.a_set(1, 2)
    controller.reachability.reached(ONE, controller.stored().replicas[1].address)
    stored, real = asyncio.Event(), controller.backend.commit

    async def slow(*what):
        await stored.wait()
        return await real(*what)

    monkeypatch.setattr(controller.backend, "commit", slow)
    controller.control.monitor.connection_lost(1)
    report_probes(controller, ProbeOutcome.REFUSED)
    for _ in range(15):
        controller.clock.pass_ms(100)
        await asyncio.sleep(0)
        controller.control.monitor.look_at_sets()
    stored.set()
    await controller.done()
    (election,) = [each for each in controller.elections if each.new_master == 2]
    assert (election.result, election.times, election.master_epoch) == (ElectionResult.NEW_MASTER, 1, 2)
    assert [each.result for each in controller.elections][1:] == [ElectionResult.NEW_MASTER]


async def test_master_that_leads_is_notified_before_the_one_that_an_operator_wants_in_its_place(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(1)
    assert (await controller.elect(2, designate=True)).code == 0
    assert (controller.notices()[-1].master.broker_id, controller.notices()[-1].former_master) == (2, 1)


async def test_nobody_waits_for_a_master_that_has_not_begun_its_epoch(controller):
    """It is voted out because of that: a switchover is rolled back."""
    await controller.a_set(1, 2)
    await controller.heartbeat(1)
    assert (await controller.elect(2, designate=True)).code == 0
    assert (await controller.report([1, 2], master=2, master_epoch=2, epoch=3)).code == 0
    assert (await controller.elect(1, designate=True)).code == 0
    assert (controller.notices()[-1].master.broker_id, controller.notices()[-1].former_master) == (1, None)


async def test_nobody_waits_for_a_master_that_is_suspect(controller):
    await controller.a_set(1, 2)
    await controller.heartbeat(1)
    controller.control.monitor.connection_lost(1)
    assert (await controller.elect(2, designate=True)).code == 0
    assert controller.notices()[-1].former_master is None


async def test_failed_master_gets_no_role_notification(controller):
    await controller.a_set(1, 2)
    controller.reachability.reached(ONE, controller.stored().replicas[1].address)
    controller.control.monitor.connection_lost(1)
    report_probes(controller, ProbeOutcome.REFUSED)
    await controller.done()
    assert controller.stored().master == 2
    assert {each.broker_id for each in controller.notices()[-1].recipients} == {2}
    assert controller.notices()[-1].former_master is None
