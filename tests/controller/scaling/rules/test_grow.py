"""Growing: seed, read up, assign, write up, verify."""

from dataclasses import replace

import pytest
from msgspec import structs
from resize_builders import went
from scaling_builders import ADDRESS, BROKER, a_gated, a_group, a_grow, an_ordered, observed, waited, with_set

from controller.scaling.resize.decision import ChangeCounts, StoreGroupOffset
from controller.scaling.resize.observation import GroupKind
from controller.scaling.resize.operation import MasterIdentity, QueueCounts, QueueOffset
from controller.scaling.rules.grow import HEARTBEAT_MS, seeds_of, unseeded
from controller.scaling.rules.phases import decide_step, needs_of
from serving.shapes.scaling import ResizeKind, ResizeOptions, ResizePhase

ENDS_AS_SEEDS = (QueueOffset(BROKER, 2, 0), QueueOffset(BROKER, 3, 7))


def an_offset(queue_id, before, offset, group="billing"):
    return StoreGroupOffset(
        broker_name=BROKER, address=ADDRESS, group=group, queue_id=queue_id, before=before, offset=offset
    )


def test_new_queues_begin_at_their_ends():
    grow = a_grow(ResizePhase.SEED)
    assert seeds_of(grow, observed(grow, 0, ends={3: 7})) == ENDS_AS_SEEDS


@pytest.mark.parametrize(
    ("offsets", "stored"), [({2: 0}, (3, None, 7)), ({2: 900, 3: 7}, (2, 900, 0))], ids=["without one", "emptied queue"]
)
def test_each_group_without_an_offset_or_beyond_the_end_gets_the_one_of_the_seed(offsets, stored):
    grow = a_grow(ResizePhase.SEED, seeds=ENDS_AS_SEEDS)
    observation = observed(grow, 0, ends={3: 7}, groups=[a_group()], offsets={"billing": offsets})
    assert unseeded(grow, observation) == (an_offset(*stored),)


def test_offline_groups_are_seeded_and_broadcasting_groups_are_not():
    grow = a_grow(ResizePhase.SEED, seeds=ENDS_AS_SEEDS[:1])
    groups = [a_group("offline", GroupKind.OFFLINE), a_group("everyone", GroupKind.BROADCAST)]
    assert unseeded(grow, observed(grow, 0, groups=groups)) == (an_offset(2, None, 0, "offline"),)


SEEDS = (QueueOffset(BROKER, 2, 0), QueueOffset(BROKER, 3, 0))
SEEDED = {"billing": {2: 0, 3: 0}}


def test_seeds_are_stored_before_any_offset_is():
    grow = a_grow(ResizePhase.SEED)
    decision = decide_step(grow, waited(0), observed(grow, 0, groups=[a_group()]))
    assert decision.operation.seeds == SEEDS
    assert decision.actions == ()


def test_queues_are_read_once_every_group_has_an_offset():
    grow = a_grow(ResizePhase.SEED, seeds=SEEDS)
    decision = decide_step(grow, waited(0), observed(grow, 0, groups=[a_group()], offsets=SEEDED))
    assert (decision.operation.phase, decision.operation.reached) == (ResizePhase.READ_UP, 1)


@pytest.mark.parametrize("resize", [an_ordered(ResizePhase.SEED, seeds=SEEDS), a_gated(ResizePhase.SEED, seeds=SEEDS)])
def test_offsets_of_an_ordered_topic_are_on_disks_and_slaves_before_messages_come(resize):
    position = resize.reached
    stored = observed(resize, position, groups=[a_group()], offsets=SEEDED)
    first = decide_step(resize, waited(0), stored)
    assert first.operation.phase is ResizePhase.SEED
    later = replace(stored, now_ms=resize.waits.confirm_ms)
    assert decide_step(resize, first.progress, later).operation.phase in {ResizePhase.RESIZE, ResizePhase.READ_UP}
    lost = decide_step(resize, first.progress, observed(resize, position, groups=[a_group()]))
    assert decide_step(resize, lost.progress, later).operation.phase is ResizePhase.SEED


def test_read_queues_go_up_and_write_queues_do_not():
    grow = a_grow(ResizePhase.READ_UP, seeds=SEEDS, reached=1)
    decision = decide_step(grow, waited(0), observed(grow, 0))
    assert decision.actions == (
        ChangeCounts(broker_name=BROKER, address=ADDRESS, before=QueueCounts(2, 2), after=QueueCounts(4, 2)),
    )


def test_writes_wait_until_online_groups_have_the_new_queues_and_their_offsets_are_on_disks():
    grow = a_grow(ResizePhase.ASSIGN, seeds=SEEDS, reached=1)
    holds_one = observed(grow, 1, groups=[a_group(queues=(0, 1, 2))], offsets=SEEDED)
    decision = decide_step(grow, waited(0), holds_one)
    assert decision.operation.phase is ResizePhase.ASSIGN
    assert decision.waits_for == ("group billing does not consume broker-a/3 yet",)
    holds_all = observed(grow, 1, groups=[a_group(queues=(0, 1, 2, 3))], offsets=SEEDED)
    assert decide_step(grow, waited(0), holds_all).operation.phase is ResizePhase.ASSIGN
    assert decide_step(grow, waited(grow.waits.confirm_ms), holds_all).operation.phase is ResizePhase.WRITE_UP


def test_new_master_knows_members_only_after_their_heartbeats():
    grow = a_grow(ResizePhase.READ_UP, seeds=SEEDS, reached=1)
    changed = with_set(observed(grow, 1), master=MasterIdentity("10.0.0.2:10911", 1))
    seeding = decide_step(grow, waited(0), changed).operation
    again = went(seeding, ResizePhase.READ_UP, ResizePhase.ASSIGN)
    nobody = replace(changed, unix_ms=again.phase_since_unix_ms)
    assert decide_step(again, waited(HEARTBEAT_MS - 1), nobody).operation.phase is ResizePhase.ASSIGN
    assert decide_step(again, waited(HEARTBEAT_MS), nobody).operation.phase is ResizePhase.WRITE_UP


def test_late_group_waits_for_no_heartbeats_unless_a_new_master_was_not_waited_for_yet():
    for is_new, waited_ms, waits in ((False, 0, False), (True, 0, True), (True, HEARTBEAT_MS, False)):
        grow = a_grow(ResizePhase.ASSIGN, seeds=SEEDS, reached=1, has_new_master=is_new)
        late = decide_step(grow, waited(waited_ms), observed(grow, 1, groups=[a_group("new", queues=(2, 3))])).operation
        again = went(late, ResizePhase.READ_UP, ResizePhase.ASSIGN)
        decision = decide_step(again, waited(grow.waits.confirm_ms), observed(again, 1))
        assert decision.operation.phase is (ResizePhase.ASSIGN if waits else ResizePhase.WRITE_UP)


def test_group_that_came_meanwhile_is_seeded_before_writes():
    grow = a_grow(ResizePhase.ASSIGN, seeds=SEEDS, reached=1)
    observation = observed(grow, 1, groups=[a_group("new", queues=(2, 3))])
    assert decide_step(grow, waited(0), observation).operation.phase is ResizePhase.SEED


def test_orderly_group_that_appears_has_the_grow_undone_although_it_left_again():
    grow = a_grow(ResizePhase.ASSIGN, seeds=SEEDS, reached=1)
    left = replace(a_group(kind=GroupKind.OFFLINE), last_kind=GroupKind.ORDERLY)
    decision = decide_step(grow, waited(0), observed(grow, 1, groups=[left], offsets=SEEDED))
    assert decision.operation.phase is ResizePhase.ROLLBACK


@pytest.mark.parametrize(
    ("kind", "phase"),
    [
        (GroupKind.CONCURRENT, ResizePhase.WRITE_UP),
        (GroupKind.BROADCAST, ResizePhase.ROLLBACK),
        (GroupKind.ASSIGNED, ResizePhase.ROLLBACK),
    ],
)
def test_only_groups_that_a_stored_offset_protects_may_be_late(kind, phase):
    grow = a_grow(ResizePhase.ASSIGN, seeds=SEEDS, reached=1)
    observation = observed(grow, 1, groups=[a_group(kind=kind)], offsets=SEEDED)
    assert decide_step(grow, waited(grow.waits.assign_ms), observation).operation.phase is phase


def test_group_that_chooses_its_queues_is_waited_for_unless_the_operator_answers_for_it():
    grow = a_grow(ResizePhase.ASSIGN, seeds=SEEDS, reached=1)
    holds_one = observed(grow, 1, groups=[a_group(kind=GroupKind.ASSIGNED, queues=(0, 1, 2))], offsets=SEEDED)
    decision = decide_step(grow, waited(0), holds_one)
    assert decision.waits_for == (
        "no member of group billing, which chooses its queues itself, consumes broker-a/3 yet",
        "the resize is undone in 180 s unless they do",
    )
    left = replace(a_group(kind=GroupKind.OFFLINE), last_kind=GroupKind.ASSIGNED)
    # It may have consumed all, and return to the queues that it knows.
    away = observed(grow, 1, groups=[left], offsets={"billing": {0: 9, 2: 0, 3: 0}}, ends={0: 9})
    decision = decide_step(grow, waited(grow.waits.confirm_ms), away)
    assert decision.waits_for[0].startswith("group billing, which chose its queues itself, is offline")
    holds_all = observed(grow, 1, groups=[a_group(kind=GroupKind.ASSIGNED, queues=(2, 3))], offsets=SEEDED)
    assert decide_step(grow, waited(grow.waits.confirm_ms), holds_all).operation.phase is ResizePhase.WRITE_UP
    ignored = structs.replace(grow, options=ResizeOptions(ignore_unassigned=True))
    accepted = decide_step(ignored, waited(grow.waits.assign_ms), holds_one).operation
    assert accepted.phase is ResizePhase.WRITE_UP
    assert accepted.steps[-1].evidence[0].endswith("consumes broker-a/3 yet; accepted by the operator")


def test_group_whose_members_do_not_answer_is_waited_for_as_it_may_be_in_order():
    grow = a_grow(ResizePhase.ASSIGN, seeds=SEEDS, reached=1)
    silent = observed(grow, 1, groups=[a_group(kind=GroupKind.UNKNOWN)], offsets=SEEDED)
    decision = decide_step(grow, waited(0), silent)
    assert decision.operation.phase is ResizePhase.ASSIGN
    assert decision.waits_for == ("no member of group billing that answers consumes broker-a/2, broker-a/3 yet",)
    assert decide_step(grow, waited(grow.waits.assign_ms), silent).operation.phase is ResizePhase.WRITE_UP
    orderly = observed(grow, 1, groups=[a_group(kind=GroupKind.ORDERLY)], offsets=SEEDED)
    assert decide_step(grow, waited(1), orderly).operation.phase is ResizePhase.ROLLBACK


def test_members_that_answer_and_hold_every_new_queue_are_enough():
    grow = a_grow(ResizePhase.ASSIGN, seeds=SEEDS, reached=1)
    holds_all = observed(grow, 1, groups=[a_group(kind=GroupKind.UNKNOWN, queues=(2, 3))], offsets=SEEDED)
    assert decide_step(grow, waited(grow.waits.confirm_ms), holds_all).operation.phase is ResizePhase.WRITE_UP


def test_grow_whose_write_queues_do_not_show_becomes_a_shrink_back():
    grow = a_grow(ResizePhase.WRITE_UP, seeds=SEEDS, reached=2)
    undone = decide_step(grow, waited(grow.waits.verify_ms), observed(grow, 1)).operation
    assert (undone.kind, undone.phase, undone.ends_as) == (
        ResizeKind.SHRINK, ResizePhase.WRITE_DOWN, ResizePhase.ABORTED,
    )  # fmt: skip
    assert (undone.sets[0].before, undone.sets[0].target) == (QueueCounts(4, 4), 2)


def test_grow_does_not_end_before_lag_in_new_queues_was_looked_at():
    """The clock of a leader may be behind that of the one before, and a round may take long."""
    grow = a_grow(ResizePhase.VERIFY, seeds=SEEDS, reached=2)
    at_the_end = waited(grow.waits.grown_watch_ms)
    not_looked_at = with_set(observed(grow, 2), offsets=None)
    decision = decide_step(grow, at_the_end, not_looked_at)
    assert (decision.operation.phase, decision.waits_for) == (ResizePhase.VERIFY, ("lag on the new queues",))
    assert needs_of(grow, decision.progress.waited_ms).offsets
    ended = decide_step(grow, decision.progress, observed(grow, 2, ends={2: 9}, offsets=SEEDED)).operation
    assert ended.phase is ResizePhase.DONE
    assert "group billing is 9 messages behind in the new queues of broker-a" in ended.steps[-1].evidence


def test_ordered_topic_with_new_queues_in_use_is_seeded_again_and_goes_on():
    resize = an_ordered(ResizePhase.SEED, seeds=SEEDS, reached=3)
    seeded = observed(resize, 3, groups=[a_group()], offsets=SEEDED)
    assert decide_step(resize, waited(0), seeded).operation.phase is ResizePhase.UNPAUSE
    unseeded = observed(resize, 3, groups=[a_group()])
    decision = decide_step(resize, waited(resize.waits.seed_ms), unseeded)
    assert decision.operation.phase is ResizePhase.SEED
    assert len(decision.actions) == 2
