"""Shrinking: write down, quiesce, late sources, drain, confirm, read down, watch, reopen."""

from dataclasses import replace

import pytest
from scaling_builders import BROKER, a_group, a_shrink, delayed, observed, waited, with_set

from controller.scaling.resize.observation import GroupKind, LogPosition, QueueEnds
from controller.scaling.resize.operation import LateMark, MasterIdentity, QueueCounts, QueueId, QueueOffset
from controller.scaling.rules.phases import begin_phase, decide_step
from serving.shapes.scaling import ResizeOptions, ResizePhase

ENDS = {2: 5, 3: 9}
QUEUE_ENDS = {QueueId(BROKER, 2): 5, QueueId(BROKER, 3): 9}
CONFIRMED = (QueueOffset(BROKER, 2, 5), QueueOffset(BROKER, 3, 9))
CONSUMED = {"billing": {2: 5, 3: 9}}


def phase_after(resize, progress, observation):
    return decide_step(resize, progress, observation).operation.phase


def test_producers_are_waited_for_even_if_no_message_comes():
    shrink = a_shrink(ResizePhase.QUIESCE)
    waits = shrink.waits
    still = {"ends": QUEUE_ENDS}
    before = waited(waits.producers_ms - 1, **still)
    assert phase_after(shrink, before, observed(shrink, 1, ends=ENDS)) is ResizePhase.QUIESCE
    assert phase_after(shrink, waited(waits.producers_ms, **still), observed(shrink, 1, ends=ENDS)) is ResizePhase.LATE


def test_message_begins_the_wait_for_quiet_anew():
    shrink = a_shrink(ResizePhase.QUIESCE)
    progress = waited(shrink.waits.producers_ms, ends=QUEUE_ENDS)
    decision = decide_step(shrink, progress, observed(shrink, 1, ends=ENDS | {3: 10}))
    assert decision.operation.phase is ResizePhase.QUIESCE
    assert decision.waits_for == ("no message may come for 60 s more",)


@pytest.mark.parametrize(("ends", "phase"), [(ENDS, ResizePhase.LATE), (ENDS | {3: 10}, ResizePhase.QUIESCE)])
def test_new_leader_goes_on_with_the_wait_for_quiet_unless_a_message_came(ends, phase):
    shrink = a_shrink(ResizePhase.QUIESCE)
    waits = shrink.waits
    before = replace(waited(waits.producers_ms - 1, ends=QUEUE_ENDS, moved_at_ms=5), saved_ms=0)
    saved = decide_step(shrink, before, observed(shrink, 1, ends=ENDS)).operation
    first = decide_step(saved, begin_phase(saved), observed(saved, 1, ends=ends))
    assert phase_after(first.operation, first.progress, observed(saved, 1, ends=ends, now_ms=1)) is phase


def test_time_without_answers_does_not_count():
    shrink = a_shrink(ResizePhase.QUIESCE)
    observation = observed(shrink, 1, ends=ENDS, now_ms=shrink.waits.producers_ms * 2, missing=("no answer",))
    assert decide_step(shrink, waited(0), observation).progress.waited_ms == 0


def test_delayed_messages_from_before_are_waited_for():
    shrink = a_shrink(ResizePhase.LATE, late_marks=(LateMark(BROKER, 5, 10),))
    pending = with_set(observed(shrink, 1), late=delayed(5, 9, 12))
    assert decide_step(shrink, waited(0), pending).waits_for == (
        "broker-a has 1 delayed messages of level 5 to deliver",
    )
    delivered = with_set(observed(shrink, 1), late=delayed(5, 10, 12))
    assert phase_after(shrink, waited(0), delivered) is ResizePhase.DRAIN


def test_queues_are_confirmed_once_every_group_has_consumed_them():
    shrink = a_shrink(ResizePhase.DRAIN)
    lagging = observed(shrink, 1, ends=ENDS, groups=[a_group()], offsets={"billing": {2: 5, 3: 8}})
    assert decide_step(shrink, waited(0), lagging).waits_for == (
        "group billing, queue broker-a/3: 1 messages are not consumed (8 of 9)",
    )
    consumed = observed(shrink, 1, ends=ENDS, groups=[a_group()], offsets=CONSUMED)
    confirmed = decide_step(shrink, waited(0), consumed).operation
    assert (confirmed.phase, confirmed.confirmed) == (ResizePhase.CONFIRM, CONFIRMED)


def test_offline_group_with_lag_blocks_and_its_return_ends_that():
    shrink = a_shrink(ResizePhase.DRAIN)
    offline = observed(shrink, 1, ends=ENDS, groups=[a_group(kind=GroupKind.OFFLINE)])
    blocked = decide_step(shrink, waited(0), offline).operation
    assert blocked.phase is ResizePhase.BLOCKED
    assert blocked.problem.startswith("nobody of billing is connected")
    back = observed(shrink, 1, ends=ENDS, groups=[a_group()], offsets=CONSUMED)
    assert phase_after(blocked, waited(0), back) is ResizePhase.CONFIRM


@pytest.mark.parametrize(
    ("ends", "offsets", "phase"),
    [
        (ENDS, CONSUMED, ResizePhase.READ_DOWN),
        (ENDS | {2: 6}, CONSUMED, ResizePhase.QUIESCE),
        (ENDS, {"billing": {2: 5, 3: 3}}, ResizePhase.DRAIN),
    ],
)
def test_second_check_has_to_agree_with_the_first(ends, offsets, phase):
    shrink = a_shrink(ResizePhase.CONFIRM, confirmed=CONFIRMED)
    observation = observed(shrink, 1, ends=ends, groups=[a_group()], offsets=offsets)
    assert phase_after(shrink, waited(shrink.waits.confirm_ms), observation) is phase
    if phase is ResizePhase.READ_DOWN:
        assert phase_after(shrink, waited(0), observation) is ResizePhase.CONFIRM


@pytest.mark.parametrize("phase", [ResizePhase.READ_DOWN, ResizePhase.WATCH])
@pytest.mark.parametrize("missing", [(), ("broker-b does not answer",)])
def test_message_that_came_just_before_the_fence_opens_the_queues_again(phase, missing):
    shrink = a_shrink(phase, confirmed=CONFIRMED, reached=2)
    grew = observed(shrink, 2, ends=ENDS | {3: 10}, missing=missing)
    reopened = decide_step(shrink, waited(0), grew).operation
    assert (reopened.phase, reopened.reopened) == (ResizePhase.REOPEN, 1)


def test_late_message_in_queues_that_somebody_else_opened_leaves_the_conflict_to_an_operator():
    shrink = a_shrink(ResizePhase.WATCH, confirmed=CONFIRMED, reached=2)
    assert phase_after(shrink, waited(0), observed(shrink, 1, ends=ENDS | {3: 10})) is ResizePhase.CONFLICT


def test_former_master_that_leads_again_and_shows_the_queues_closed_is_no_conflict():
    shrink = a_shrink(ResizePhase.REOPEN, reached=2)
    opened = decide_step(shrink, waited(0), observed(shrink, 1)).operation
    closed = with_set(observed(opened, 2), master=MasterIdentity("10.0.0.2:10911", 1))
    again = decide_step(opened, waited(0), closed).operation
    assert [each.after for each in decide_step(again, waited(0), closed).actions] == [QueueCounts(4, 2)]


def test_queues_are_opened_again_from_the_numbers_of_before_too():
    shrink = a_shrink(ResizePhase.REOPEN, reached=2)
    assert phase_after(shrink, waited(0), observed(shrink, 0)) is ResizePhase.REOPEN


def test_delayed_messages_are_marked_again_once_brokers_refuse_them():
    shrink = a_shrink(ResizePhase.READ_DOWN, confirmed=CONFIRMED, reached=2)
    progress = waited(shrink.waits.confirm_ms, agreed_at_ms=0)
    closed = with_set(observed(shrink, 2, ends=ENDS), late=delayed(6, 3, 4))
    watched = decide_step(shrink, progress, closed).operation
    assert (watched.phase, watched.late_marks) == (ResizePhase.WATCH, (LateMark(BROKER, 6, 4),))
    assert phase_after(watched, waited(watched.waits.watch_ms), closed) is ResizePhase.WATCH


def test_message_in_the_log_and_in_no_queue_yet_keeps_closed_queues_watched():
    shrink = a_shrink(ResizePhase.READ_DOWN, confirmed=CONFIRMED, reached=2)
    behind = with_set(observed(shrink, 2, ends=ENDS), log=LogPosition(end=200, dispatched=150))
    progress = waited(shrink.waits.confirm_ms, agreed_at_ms=0)
    decision = decide_step(shrink, progress, behind)
    assert decision.operation.phase is ResizePhase.READ_DOWN
    assert "broker-a has not dispatched its commit log up to 200" in decision.waits_for
    dispatched = with_set(observed(shrink, 2, ends=ENDS), log=LogPosition(end=900, dispatched=200))
    assert phase_after(shrink, decision.progress, dispatched) is ResizePhase.WATCH


def test_resize_ends_once_what_was_delivered_last_is_in_its_queue():
    shrink = a_shrink(ResizePhase.WATCH, confirmed=CONFIRMED, reached=2)
    behind = with_set(observed(shrink, 2, ends=ENDS), log=LogPosition(end=200, dispatched=150))
    first = decide_step(shrink, waited(shrink.waits.watch_ms), behind)
    second = decide_step(shrink, first.progress, behind)
    assert second.waits_for == ("broker-a has not dispatched its commit log up to 200",)
    dispatched = with_set(observed(shrink, 2, ends=ENDS), log=LogPosition(end=900, dispatched=200))
    assert phase_after(shrink, second.progress, dispatched) is ResizePhase.DONE
    came_late = with_set(observed(shrink, 2, ends=ENDS | {3: 10}), log=LogPosition(end=900, dispatched=200))
    assert phase_after(shrink, second.progress, came_late) is ResizePhase.REOPEN


def test_set_that_comes_back_during_a_resize_is_named_at_its_end():
    shrink = a_shrink(ResizePhase.WATCH, confirmed=CONFIRMED, reached=2)
    returned = observed(shrink, 2, ends=ENDS)
    (view,) = returned.name_servers
    view = replace(view, counts={**view.counts, "broker-z": QueueCounts(4, 4)})
    returned = replace(returned, name_servers=(view,))
    sentence = (
        "broker-z has TopicTest too (read 4, write 4, perm 6), and is not part of this resize: it keeps these numbers"
    )
    assert sentence in decide_step(shrink, waited(0), returned).waits_for
    progress = waited(shrink.waits.watch_ms, agreed_at_ms=0)
    done = decide_step(shrink, progress, returned).operation
    assert (done.phase, done.steps[-1].evidence) == (ResizePhase.DONE, ("no message came late", sentence))


def test_keys_do_not_move_while_an_older_message_is_in_no_queue_yet():
    shrink = a_shrink(ResizePhase.CONFIRM, confirmed=CONFIRMED)
    observation = observed(shrink, 1, ends=ENDS, groups=[a_group()], offsets=CONSUMED)
    behind = with_set(observation, log=LogPosition(end=200, dispatched=150))
    assert phase_after(shrink, waited(shrink.waits.confirm_ms), behind) is ResizePhase.CONFIRM


def test_queue_whose_messages_have_all_expired_is_drained_for_everybody():
    shrink = a_shrink(ResizePhase.DRAIN)
    expired = {i: QueueEnds(min_offset=9, max_offset=9) for i in range(4)}
    observation = with_set(observed(shrink, 1, groups=[a_group(kind=GroupKind.OFFLINE)]), ends=expired)
    assert phase_after(shrink, waited(0), observation) is ResizePhase.CONFIRM


def test_numbers_of_somebody_else_stop_the_resize():
    shrink = a_shrink(ResizePhase.DRAIN)
    decision = decide_step(shrink, waited(0), observed(shrink, 0, ends=ENDS))
    assert decision.operation.phase is ResizePhase.CONFLICT
    assert decision.actions == ()


def test_what_was_waived_is_not_called_consumed():
    waives = ResizeOptions(waived_groups=("audit",))
    groups = {"groups": [a_group(), a_group("audit")], "offsets": CONSUMED | {"audit": {2: 1, 3: 9}}, "ends": ENDS}
    drain = a_shrink(ResizePhase.DRAIN, options=waives)
    drained = decide_step(drain, waited(0), observed(drain, 1, **groups)).operation
    assert drained.steps[-1].evidence == (
        "all 1 groups that were waited for have consumed the queues",
        f"group audit was not waited for: 4 messages in 1 queues of {BROKER} are given up: 2 (1 to 5)",
    )
    confirm = a_shrink(ResizePhase.CONFIRM, options=waives, confirmed=CONFIRMED)
    confirmed = decide_step(confirm, waited(confirm.waits.confirm_ms), observed(confirm, 1, **groups)).operation
    assert confirmed.steps[-1].evidence[0] == f"queue {BROKER}/2 ends at 5, all of it consumed or given up"
