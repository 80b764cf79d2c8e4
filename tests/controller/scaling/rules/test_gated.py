"""Gated resizes: new queues stay locked until the old ones are consumed."""

from dataclasses import replace

import pytest
from scaling_builders import ADDRESS, BROKER, a_gated, a_group, observed, waited, with_set

from controller.scaling.resize.decision import GiveLocks, HoldLocks
from controller.scaling.resize.observation import GroupKind, LogPosition
from controller.scaling.resize.operation import MasterIdentity, QueueOffset, ReleasedQueue
from controller.scaling.rules.gated import LOCK_MS
from controller.scaling.rules.phases import begin_phase, decide_step, needs_of
from serving.shapes.scaling import ResizeOptions, ResizePhase

CLIENT = "rmq-controller@resize-1"
LOCKED = {"broker_name": BROKER, "address": ADDRESS, "client_id": CLIENT, "group": "billing"}
MARKS = (QueueOffset(BROKER, 0, 5), QueueOffset(BROKER, 1, 6))
ORDERLY, OFFLINE = a_group(kind=GroupKind.ORDERLY), a_group(kind=GroupKind.OFFLINE)


def releasing(phase=ResizePhase.RELEASE, **values):
    return a_gated(phase, **({"reached": 2, "confirmed": MARKS, "gated_groups": ("billing",)} | values))


@pytest.mark.parametrize("group", [OFFLINE, a_group(kind=GroupKind.UNKNOWN)], ids=["no members", "silent members"])
def test_group_whose_members_do_not_answer_is_gated_as_if_it_were_in_order(group):
    resize = a_gated(ResizePhase.GATE)
    decision = decide_step(resize, waited(0), observed(resize, 0, groups=[group]))
    assert (decision.operation.phase, decision.operation.gated_groups) == (ResizePhase.GATE, ("billing",))
    assert decision.actions == (HoldLocks(queue_ids=(2, 3), **LOCKED),)


def test_end_of_an_old_queue_counts_once_the_log_is_dispatched():
    resize = releasing(confirmed=())
    observation = observed(resize, 2, ends={0: 5, 1: 6}, groups=[ORDERLY])
    behind = with_set(observation, log=LogPosition(end=200, dispatched=150))
    decision = decide_step(resize, waited(resize.waits.producers_ms), behind)
    assert decision.operation.confirmed == ()
    assert decision.waits_for == ("broker-a has not dispatched its commit log up to 200",)
    dispatched = with_set(observation, log=LogPosition(end=900, dispatched=200))
    assert decide_step(resize, decision.progress, dispatched).operation.confirmed == MARKS


def test_group_gets_the_new_queue_of_the_keys_that_it_has_consumed():
    resize = releasing()
    decision = decide_step(resize, waited(0), observed(resize, 2, groups=[ORDERLY], offsets={"billing": {0: 5, 1: 5}}))
    assert decision.operation.released == (ReleasedQueue("billing", BROKER, 2),)
    following = decide_step(
        decision.operation, decision.progress, observed(resize, 2, groups=[ORDERLY], offsets={"billing": {0: 5, 1: 5}})
    )
    assert following.actions == (HoldLocks(queue_ids=(3,), **LOCKED), GiveLocks(queue_ids=(2,), **LOCKED))


def test_offline_group_blocks_the_release_and_keeps_its_locks():
    resize = releasing()
    observation = observed(resize, 2, groups=[OFFLINE], offsets={"billing": {0: 0, 1: 0}})
    blocked = decide_step(resize, waited(0), observation).operation
    assert blocked.phase is ResizePhase.BLOCKED
    assert blocked.problem.startswith("nobody of billing is connected: start a consumer, or waive the group")
    assert decide_step(blocked, waited(0), observation).actions == (HoldLocks(queue_ids=(2, 3), **LOCKED),)


def test_waived_group_is_not_waited_for():
    resize = releasing(options=ResizeOptions(waived_groups=("billing",)))
    decision = decide_step(resize, waited(1, agreed_at_ms=0), observed(resize, 2, groups=[OFFLINE]))
    assert decision.operation.phase is ResizePhase.VERIFY


def test_locks_that_consumers_took_after_a_failover_do_not_hold_up_the_resize():
    resize = a_gated(ResizePhase.GATE, reached=2, confirmed=MARKS, gated_groups=("billing",))
    locked = observed(resize, 2, groups=[ORDERLY], failures=("queues [2] are locked by a consumer",))
    assert decide_step(resize, waited(0), locked).operation.phase is ResizePhase.GATE
    assert decide_step(resize, waited(resize.waits.seed_ms), locked).operation.phase is ResizePhase.SEED


def test_locks_that_cannot_be_had_before_the_change_undo_the_resize():
    resize = a_gated(ResizePhase.GATE, gated_groups=("billing",))
    locked = observed(resize, 0, groups=[ORDERLY], failures=("queues [2] are locked by a consumer",))
    assert decide_step(resize, waited(resize.waits.seed_ms), locked).operation.phase is ResizePhase.ROLLBACK


def test_offsets_of_new_queues_are_stored_again_after_a_failover():
    resize = a_gated(ResizePhase.GATE, reached=2, confirmed=MARKS, gated_groups=("billing",))
    decision = decide_step(resize, waited(0, agreed_at_ms=0), observed(resize, 2, groups=[ORDERLY]))
    assert decision.operation.phase is ResizePhase.SEED


# Groups that appear later


@pytest.mark.parametrize("kind", [GroupKind.ORDERLY, GroupKind.OFFLINE, GroupKind.UNKNOWN])
@pytest.mark.parametrize(
    ("phase", "reached"),
    [(ResizePhase.SEED, 0), (ResizePhase.READ_UP, 1), (ResizePhase.WRITE_UP, 2), (ResizePhase.RELEASE, 2)],
)
def test_group_that_appears_while_queues_are_locked_gets_locks_and_offsets(phase, reached, kind):
    resize = a_gated(phase, reached=reached, confirmed=MARKS, gated_groups=("audit",))
    assert needs_of(resize, 0).groups
    assert needs_of(resize, 0).clients
    late = observed(resize, reached, groups=[a_group("audit", GroupKind.ORDERLY), a_group(kind=kind)])
    decision = decide_step(resize, waited(0), late)
    # GATE is followed by SEED.
    assert (decision.operation.phase, decision.operation.gated_groups) == (ResizePhase.GATE, ("audit", "billing"))
    assert HoldLocks(queue_ids=(2, 3), **LOCKED) in decision.actions
    assert decision.operation.confirmed == MARKS


def test_group_that_does_not_consume_in_order_gets_no_locks():
    resize = releasing(gated_groups=())
    later = observed(resize, 2, groups=[a_group(kind=GroupKind.CONCURRENT)])
    assert decide_step(resize, waited(0), later).operation.gated_groups == ()


def test_group_that_appears_in_a_blocked_release_gets_locks():
    resize = releasing(gated_groups=("audit",), phase=ResizePhase.BLOCKED, resume_phase=ResizePhase.RELEASE)
    assert decide_step(resize, waited(0), observed(resize, 2, groups=[ORDERLY])).operation.phase is ResizePhase.GATE


# Locks that may have ended

EARLY = "consumers may have had these queues too early, and the order of keys may be broken"


def test_locks_are_renewed_in_a_conflict_until_an_operator_decides():
    resize = releasing(phase=ResizePhase.CONFLICT, problem="somebody else has changed it")
    decision = decide_step(resize, waited(0), observed(resize, 2))
    assert decision.actions == (HoldLocks(queue_ids=(2, 3), **LOCKED),)
    assert decision.operation.phase is ResizePhase.CONFLICT
    (advice,) = decision.waits_for
    assert advice == (
        f"give {BROKER} 2/2 or 4/2 or 4/4 read/write queues, then `rmq scaling resume {resize.id}`; or `rmq scaling "
        f"abort {resize.id}`: numbers stay as they are"
    )


def renewed(resize, *, every_ms, rounds=4, **values):
    """Return the resize after so many rounds of one leader, each of which sends the locks again."""
    progress = begin_phase(resize)
    for number in range(rounds):
        now = observed(resize, 2, now_ms=number * every_ms, groups=[ORDERLY], **values)
        decision = decide_step(resize, progress, now)
        resize, progress = decision.operation, decision.progress
    return resize


@pytest.mark.parametrize("phase", [ResizePhase.RELEASE, ResizePhase.CONFLICT])
def test_locks_that_are_renewed_in_each_round_do_not_end(phase):
    assert renewed(releasing(phase=phase), every_ms=LOCK_MS // 2).lapse == ""


@pytest.mark.parametrize(("reached", "lapse"), [(1, ""), (2, f"the locks of the new queues were not renewed: {EARLY}")])
def test_locks_that_cannot_be_renewed_for_a_minute_are_recorded_once_new_queues_have_messages(reached, lapse):
    resize = releasing(phase=ResizePhase.CONFLICT, reached=reached)
    failed = {"failures": ("queues [2] of broker-a are locked by a consumer",)}
    assert renewed(resize, every_ms=LOCK_MS // 3, **failed).lapse == ""
    assert renewed(resize, every_ms=LOCK_MS // 3, rounds=5, **failed).lapse == lapse


def test_silent_master_gets_no_locks_which_counts_as_not_renewed():
    resize, progress = releasing(), waited(0, locked_ms=0)
    silent = with_set(observed(resize, 2, now_ms=LOCK_MS, missing=("no answer",)), master=None)
    first = decide_step(resize, progress, silent)
    assert first.operation.lapse == ""
    again = decide_step(first.operation, first.progress, replace(silent, now_ms=LOCK_MS + 1))
    assert again.operation.lapse.endswith(EARLY)


@pytest.mark.parametrize(("absent_ms", "is_recorded"), [(LOCK_MS, False), (LOCK_MS + 1, True), (-7_200_000, False)])
def test_time_without_a_leader_is_recorded_if_locks_have_ended_in_it(absent_ms, is_recorded):
    resize = releasing()
    led = renewed(resize, every_ms=10_000)
    # What is stored each ten seconds may be older than the last renewal.
    took_over = observed(led, 2, groups=[ORDERLY])
    took_over = replace(took_over, unix_ms=led.locked_unix_ms + absent_ms)
    assert bool(decide_step(led, begin_phase(led), took_over).operation.lapse) is is_recorded


@pytest.mark.parametrize(
    ("phase", "is_recorded"), [(ResizePhase.RELEASE, True), (ResizePhase.CONFLICT, True), (ResizePhase.VERIFY, False)]
)
def test_master_that_was_started_again_has_lost_its_locks(phase, is_recorded):
    resize = releasing(phase=phase)
    restarted = with_set(observed(resize, 2), master=MasterIdentity(ADDRESS, 2))
    assert bool(decide_step(resize, waited(0), restarted).operation.lapse) is is_recorded


def test_end_of_a_resize_says_that_locks_may_have_ended():
    resize = a_gated(ResizePhase.VERIFY, reached=2, lapse="the locks were lost")
    done = decide_step(resize, waited(resize.waits.grown_watch_ms), observed(resize, 2)).operation
    assert (done.phase, done.steps[-1].evidence[0]) == (ResizePhase.DONE, "the locks were lost")


def test_locks_that_consumers_were_quicker_to_take_are_recorded():
    resize = a_gated(ResizePhase.GATE, reached=2, confirmed=MARKS, gated_groups=("billing",))
    locked = observed(resize, 2, groups=[ORDERLY], failures=("queues [2] are locked by a consumer",))
    seeding = decide_step(resize, waited(resize.waits.seed_ms), locked).operation
    assert (seeding.phase, seeding.lapse) == (ResizePhase.SEED, f"new queues could not be locked: {EARLY}")


def test_locks_of_a_resize_that_needs_none_any_more_do_not_end():
    resize = releasing(released=tuple(ReleasedQueue("billing", BROKER, each) for each in (2, 3)), locked_unix_ms=1)
    consumed = observed(resize, 2, groups=[ORDERLY], offsets={"billing": {0: 5, 1: 6}})
    verifying = decide_step(resize, waited(1, agreed_at_ms=0, locked_ms=0), consumed).operation
    assert (verifying.phase, verifying.locked_unix_ms) == (ResizePhase.VERIFY, 0)
