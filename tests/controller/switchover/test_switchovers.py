"""A switchover from its request to its end: elections are stored, clients held and released, failures rolled back."""

import asyncio

import pytest
from fakes.in_process_controller import SET, InProcessController, at
from switched_site import END, OTHER, SwitchedSet

from controller.failover.election_log import NotificationResult
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.log_ends import LogEnd
from controller.failure_detection.suspicion import ProbeOutcome
from controller.roles.verdict import RoleAnswer, RoleVerdict
from controller.switchover.events import SWITCHOVERS
from controller.switchover.record import HOLDING, SwitchoverPhase, SwitchoverRequest
from controller.switchover.rules import CONFIRM_MS_MAX, HOLD_SETTLES_MS
from controller.switchover.service import RUNNING_MAX, SetNotFound, SwitchoverRefused
from store.store import OutcomeUnknown, StoreError

PHASES = SwitchoverPhase


@pytest.fixture
async def site(tmp_path):
    async with InProcessController(tmp_path) as controller:
        site = await SwitchedSet(controller).form()
        yield site
        site.end()


def phases(switchover):
    return [each.phase for each in switchover.steps]


async def test_switchover_holds_clients_elects_confirms_and_releases(site):
    switchover = await site.begin(broker_id=3, reason="new disk", requested_by="ana")
    assert (switchover.old_master, switchover.new_master, switchover.phase) == (1, 3, PHASES.CATCH_UP)
    assert not site.is_held()
    await site.until(PHASES.HOLD)
    assert site.is_held()
    assert site.stored.master == 1
    confirming = await site.until(PHASES.CONFIRM)
    assert site.is_held()
    assert (site.stored.master, site.stored.master_epoch, confirming.new_epoch) == (3, 2, 2)
    site.serve(3)
    done = await site.until(PHASES.DONE)
    assert not site.is_held()
    assert done.steps[-1].evidence == "broker 1 is a slave"
    assert phases(done) == [PHASES.CATCH_UP, PHASES.HOLD, PHASES.DRAIN, PHASES.ELECT, PHASES.CONFIRM, PHASES.VERIFY]
    assert HOLD_SETTLES_MS <= done.held_for_ms < CONFIRM_MS_MAX
    last = site.controller.elections.of_set(SET)
    assert (last.cause.trigger.value, last.cause.why, last.is_unclean) == (
        "switchover",
        "a switchover to broker 3",
        False,
    )


async def test_nobody_is_elected_before_every_proxy_knows_of_the_hold(site):
    site.check_roles("10.9.0.2")
    await site.begin()
    await site.until(PHASES.HOLD)
    for _ in range(5):
        site.controller.clock.pass_ms(100)
        site.check_roles()
        # A proxy whose checks are answered by what was known before.
        site.controller.roles.checkers.record(BrokerKey(SET, 1), "10.9.0.2", RoleAnswer(RoleVerdict.SERVES, 1))
        await asyncio.sleep(0.03)
        assert site.switchover.phase is PHASES.HOLD
    site.check_roles("10.9.0.2")
    await site.until(PHASES.CONFIRM)


async def test_second_switchover_of_a_set_is_refused_while_one_is_under_way(site):
    await site.begin()
    with pytest.raises(SwitchoverRefused, match="a switchover of broker-a is already running"):
        await site.begin()
    await site.until(PHASES.CONFIRM)
    site.serve(2)
    await site.until(PHASES.DONE)
    await site.heartbeats()
    assert (await site.controller.report([1, 2, 3], master=2, master_epoch=2, epoch=3)).code == 0
    assert (await site.begin(broker_id=1)).new_master == 1


async def test_two_requests_at_the_same_moment_begin_one_switchover(site):
    results = await asyncio.gather(site.begin(), site.begin(), return_exceptions=True)
    assert sorted(isinstance(each, SwitchoverRefused) for each in results) == [False, True]
    assert len(list(site.switchovers)) == 1


async def test_switchovers_of_sets_that_run_at_one_time_have_a_limit(site):
    for number in range(RUNNING_MAX):
        name = f"broker-{number}"
        await site.controller.a_set(1, 2, name=name)
        await site.controller.heartbeat(1, 2, name=name)
        await site.switchovers.begin(name, SwitchoverRequest())
    with pytest.raises(SwitchoverRefused, match=f"{RUNNING_MAX} switchovers are running"):
        await site.begin()


def longest_hold_ms(site):
    (measure,) = site.switchovers.measures()
    return round(measure.value * 1000)


async def test_refused_switchover_is_counted_and_changes_nothing(site):
    before = site.stored
    with pytest.raises(SwitchoverRefused, match=r"broker-a has no broker 9; it has \[1, 2, 3\]"):
        await site.begin(broker_id=9)
    with pytest.raises(SetNotFound, match="there is no broker set broker-z"):
        await site.switchovers.begin("broker-z", SwitchoverRequest())
    assert site.stored == before
    assert site.controller.telemetry.counters[SWITCHOVERS].counts()[("refused",)] == 1
    (line,) = site.controller.events("switchover_refused")
    assert line["problem"].startswith("broker-a has no broker 9")


# What comes in between


async def fail(site, broker_id):
    """Let the port of a broker refuse connections."""
    controller = site.controller
    controller.control.monitor.connection_lost(broker_id)
    controller.clock.pass_ms(100)
    controller.control.monitor.look_at_brokers()
    for probe in controller.take_probes():
        controller.control.monitor.probed(probe.key, ProbeOutcome.REFUSED)


@pytest.mark.parametrize("phase", sorted(HOLDING - {PHASES.ELECT, PHASES.ROLL_BACK}, key=lambda each: each.value))
async def test_controller_that_leads_no_longer_holds_nobody(site, phase):
    if phase is PHASES.DRAIN:
        site.controller.log_ends[1] = LogEnd(1, END + 1, is_master=True)
    await site.begin(hold_ms_max=5_000)
    await site.until(phase)
    site.controller.group.follows(OTHER)
    interrupted = await site.until(PHASES.INTERRUPTED)
    assert "leads no longer" in interrupted.problem
    assert not site.is_held()


async def test_controller_that_leads_again_does_not_go_on_with_a_switchover_of_before(site):
    await site.begin()
    await site.until(PHASES.HOLD)
    site.controller.group.follows(OTHER)
    site.controller.group.leads(None)
    site.controller.group.ready(site.controller.group.term)
    await site.until(PHASES.INTERRUPTED)
    assert site.stored.master == 1


async def test_election_that_cannot_be_stored_ends_a_switchover_and_releases_clients(site, monkeypatch):
    async def fails(*_):
        raise StoreError("the disk is full")

    await site.begin()
    await site.until(PHASES.HOLD)
    monkeypatch.setattr(site.controller.backend, "commit", fails)
    failed = await site.until(PHASES.FAILED)
    assert failed.problem.startswith("broker 2 was not elected: nothing was changed, or the outcome is unknown")
    assert (site.stored.master, site.is_held()) == (1, False)


async def test_election_whose_outcome_is_unknown_ends_a_switchover_and_what_is_stored_decides(site, monkeypatch):
    commit = site.controller.backend.commit

    async def stores_and_does_not_answer(*args):
        await commit(*args)
        raise OutcomeUnknown("no answer")

    async def cannot_be_read(*_):
        raise StoreError("no answer")

    await site.begin()
    await site.until(PHASES.HOLD)
    monkeypatch.setattr(site.controller.backend, "commit", stores_and_does_not_answer)
    monkeypatch.setattr(site.controller.backend, "read", cannot_be_read)
    failed = await site.until(PHASES.FAILED)
    assert "broker 2 was not elected" in failed.problem
    assert not site.is_held()


# Rolled back


async def test_new_master_that_does_not_serve_is_replaced_by_the_old_one(site):
    await site.begin(broker_id=2)
    site.controller.masters.clear()
    await site.until(PHASES.ROLL_BACK, step_ms=50)
    assert site.is_held()
    site.serve(1)
    back = await site.until(PHASES.ROLLED_BACK)
    assert (site.stored.master, site.stored.master_epoch, site.stored.sync_state_set) == (1, 3, frozenset({1}))
    assert back.problem == f"broker 2 does not serve after {CONFIRM_MS_MAX} ms"
    assert not site.is_held()
    last = site.controller.elections.of_set(SET)
    assert (last.cause.why, last.is_unclean) == ("back to broker 1: its successor does not serve", False)


async def confirming(site):
    """Elect broker 2, which does not answer from then on."""
    await site.begin(broker_id=2)
    await site.until(PHASES.CONFIRM)
    site.controller.masters.clear()
    del site.controller.log_ends[2]


async def reports_its_epoch(site):
    await site.controller.heartbeat(2, epoch=2, maxOffset=END + 500)


async def reports_a_log_that_grows_in_the_old_epoch(site):
    """The old epoch had no messages, so its list of epochs took no other."""
    await site.controller.heartbeat(2, epoch=1, maxOffset=END + 500)


async def confirms_its_role(site):
    number = site.controller.elections.of_set(SET).number
    # Another broker requests an election before the answer comes.
    await site.controller.elect(3)
    site.controller.elections.notified(SET, number, 2, NotificationResult("ok", 5, 1))


async def reports_its_epoch_and_starts_anew(site):
    await reports_its_epoch(site)
    await asyncio.sleep(0.1)
    await site.controller.register(2)


async def reports_its_epoch_and_ends(site):
    await reports_its_epoch(site)
    await asyncio.sleep(0.1)
    await fail(site, 2)


@pytest.mark.parametrize(
    ("begins", "evidence"),
    [
        (reports_its_epoch, "its heartbeat says epoch 2"),
        (
            reports_a_log_that_grows_in_the_old_epoch,
            f"its heartbeat says that its log ends at {END + 500}, that of the old master {END}",
        ),
        (confirms_its_role, "it has confirmed its role"),
        (reports_its_epoch_and_starts_anew, "its heartbeat says epoch 2"),
        (reports_its_epoch_and_ends, "its heartbeat says epoch 2"),
    ],
)
async def test_new_master_that_has_begun_its_epoch_and_does_not_answer_is_not_rolled_back(site, begins, evidence):
    """It may have acknowledged messages alone: whether it served is for an ordinary failover to judge."""
    await confirming(site)
    await begins(site)
    failed = await site.until(PHASES.FAILED, step_ms=50)
    assert failed.problem.endswith(
        f"broker 1 was not elected again: broker 2 does not answer, and has begun its master epoch: {evidence}"
    )
    assert site.stored.master in {2, None}
    assert not site.is_held()


async def does_nothing(_):
    pass


async def refuses_its_role(site):
    elections = site.controller.elections
    elections.notified(SET, elections.of_set(SET).number, 2, NotificationResult("refused", 5, 1))


@pytest.mark.parametrize("begins", [does_nothing, refuses_its_role])
async def test_new_master_that_never_began_its_epoch_and_does_not_answer_is_rolled_back(site, begins):
    await confirming(site)
    await begins(site)
    site.controller.masters = {at(1)}
    await site.until(PHASES.ROLLED_BACK, step_ms=50)
    assert site.stored.master == 1


async def test_slave_that_copied_more_than_its_master_had_answered_before_has_not_begun_an_epoch(site):
    site.controller.log_ends[2] = LogEnd(1, END - 10)
    await site.begin(broker_id=2)
    await site.controller.heartbeat(2, maxOffset=END + 10)
    await asyncio.sleep(0.1)
    site.controller.log_ends |= {1: LogEnd(1, END + 10), 2: LogEnd(1, END + 10)}
    await site.until(PHASES.CONFIRM)
    site.controller.masters = {at(1)}
    del site.controller.log_ends[2]
    await site.until(PHASES.ROLLED_BACK, step_ms=50)


# What is reported


async def test_each_phase_is_one_line_and_each_end_one_count(site):
    begun = await site.begin(broker_id=2, reason="new disk", requested_by="ana")
    await site.until(PHASES.CONFIRM)
    site.serve(2)
    await site.until(PHASES.DONE)
    (first,) = site.controller.events("switchover_begun")
    assert (first["switchover"], first["held"], first["requested_by"], first["reason"]) == (
        begun.id,
        True,
        "ana",
        "new disk",
    )
    entered = [each["to_phase"] for each in site.controller.events("switchover_phase_entered")]
    assert entered == ["HOLD", "DRAIN", "ELECT", "CONFIRM", "VERIFY"]
    (last,) = site.controller.events("switchover_finished")
    assert (last["from_phase"], last["to_phase"], last["master_epoch"]) == ("VERIFY", "DONE", 2)
    assert site.controller.telemetry.counters[SWITCHOVERS].counts()[("done",)] == 1
    assert longest_hold_ms(site) == last["held_ms"] == site.switchover.held_for_ms


async def test_switchover_without_role_checks_counts_no_hold(site):
    site.controller.roles.checkers.clear()
    site.checks_roles = False
    await site.begin(broker_id=2)
    await site.until(PHASES.CONFIRM)
    site.serve(2)
    await site.until(PHASES.DONE)
    (last,) = site.controller.events("switchover_finished")
    assert (last["held_ms"], longest_hold_ms(site)) == (None, 0)


async def test_fault_of_the_controller_ends_a_switchover_and_releases_clients(site, monkeypatch):
    await site.begin()
    await site.until(PHASES.HOLD)

    def fails(*_):
        raise ValueError("a fault")

    monkeypatch.setattr(site.controller.control, "switch_over", fails)
    site.controller.tasks.clear()
    failed = await site.until(PHASES.FAILED)
    assert failed.problem == "a fault of the controller: ValueError"
    assert not site.is_held()
