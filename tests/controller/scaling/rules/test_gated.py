"""Gated resizes: new queues stay locked until the old ones are consumed."""

from scaling_builders import ADDRESS, BROKER, a_gated, a_group, observed, waited, with_set

from controller.scaling.resize.decision import GiveLocks, HoldLocks
from controller.scaling.resize.observation import GroupKind, LogPosition
from controller.scaling.resize.operation import QueueOffset, ReleasedQueue, ResizeOptions, ResizePhase
from controller.scaling.rules.step import decide_step

CLIENT = "rmq-controller@resize-1"
LOCKED = {"broker_name": BROKER, "address": ADDRESS, "client_id": CLIENT, "group": "billing"}
MARKS = (QueueOffset(BROKER, 0, 5), QueueOffset(BROKER, 1, 6))
ORDERLY, OFFLINE = a_group(kind=GroupKind.ORDERLY), a_group(kind=GroupKind.OFFLINE)


def releasing(**values):
    return a_gated(ResizePhase.RELEASE, **({"reached": 2, "confirmed": MARKS, "gated_groups": ("billing",)} | values))


def test_groups_without_members_are_gated_too():
    resize = a_gated(ResizePhase.GATE)
    decision = decide_step(resize, waited(0), observed(resize, 0, groups=[OFFLINE]))
    assert decision.operation.gated_groups == ("billing",)
    assert decision.actions == (HoldLocks(queue_ids=(2, 3), **LOCKED),)


def test_group_whose_members_do_not_answer_is_gated_as_if_it_were_in_order():
    resize = a_gated(ResizePhase.GATE)
    decision = decide_step(resize, waited(0), observed(resize, 0, groups=[a_group(kind=GroupKind.UNKNOWN)]))
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
