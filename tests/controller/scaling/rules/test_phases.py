"""What holds in every phase: changes of masters, deleted topics, blocked resizes, rollbacks."""

from dataclasses import replace

import pytest
from msgspec import structs
from resize_builders import CREATED_UNIX_MS, a_resize, went
from scaling_builders import (
    ADDRESS,
    BROKER,
    MASTER,
    NAME_SERVER,
    a_gated,
    a_grow,
    a_shrink,
    an_ordered,
    observed,
    waited,
    with_set,
)

from controller.scaling.resize.decision import ChangeCounts, PutOrderConf
from controller.scaling.resize.observation import NameServerView
from controller.scaling.resize.operation import MasterIdentity, QueueCounts, QueueOffset
from controller.scaling.rules.path import PAUSED_END, dropped_queues, new_queues
from controller.scaling.rules.phases import (
    BLOCKED_ROUND_MS_MAX,
    GRACE_MS,
    QUICK_ROUND_MS,
    ROUND_MS_MAX,
    ROUND_MS_MIN,
    VERIFY_LAST_MS,
    begin_phase,
    decide_step,
    is_overdue,
    needs_of,
    round_ms,
    writes_paused_since,
)
from serving.shapes.scaling import ResizeKind, ResizePhase, ResizeWaits

RESTARTED = MasterIdentity(ADDRESS, 2)
SEEDS = (QueueOffset(BROKER, 2, 0),)


@pytest.mark.parametrize(
    ("resize", "again"),
    [
        (a_grow(ResizePhase.VERIFY, reached=2), ResizePhase.SEED),
        (a_shrink(ResizePhase.CONFIRM), ResizePhase.WRITE_DOWN),
        (a_shrink(ResizePhase.WATCH, reached=2), ResizePhase.REOPEN),
        (an_ordered(ResizePhase.DRAIN), ResizePhase.PAUSE),
        (an_ordered(ResizePhase.UNPAUSE, reached=3, seeds=SEEDS), ResizePhase.SEED),
        (an_ordered(ResizePhase.UNPAUSE, before=4, target=2, reached=3), ResizePhase.UNPAUSE),
        (a_gated(ResizePhase.RELEASE, reached=2), ResizePhase.GATE),
        (a_gated(ResizePhase.VERIFY, reached=2), ResizePhase.GATE),
    ],
    ids=lambda each: each.value if isinstance(each, ResizePhase) else f"{each.kind.value}-{each.phase.value}",
)
def test_phase_begins_anew_with_another_master(resize, again):
    restarted = with_set(observed(resize, 0), master=RESTARTED)
    operation = decide_step(resize, waited(0), restarted).operation
    assert (operation.phase, operation.masters) == (again, {BROKER: RESTARTED})


def test_silent_master_is_not_another_one():
    shrink = a_shrink(ResizePhase.DRAIN)
    silent = with_set(observed(shrink, 1, missing=("broker-a does not answer",)), master=None, counts=None)
    decision = decide_step(shrink, waited(0), silent)
    assert (decision.operation, decision.actions) == (shrink, ())


def gone(resize, **values):
    """Return a round in which nobody has the topic."""
    silent = with_set(observed(resize, 0, missing=("broker-a does not have the topic",)), master=None, has_topic=False)
    return replace(silent, name_servers=(NameServerView(address=NAME_SERVER, counts={}),), **values)


@pytest.mark.parametrize(
    "resize",
    [
        a_grow(ResizePhase.SEED),
        a_shrink(ResizePhase.READ_DOWN, reached=2),
        an_ordered(ResizePhase.ROLLBACK, order_conf="broker-a:2"),
        a_gated(ResizePhase.CONFLICT, reached=2),
        a_shrink(ResizePhase.BLOCKED, resume_phase=ResizePhase.DRAIN),
    ],
    ids=lambda each: each.phase.value,
)
def test_resize_of_a_topic_that_nobody_has_in_two_rounds_is_aborted(resize):
    first = decide_step(resize, waited(0), gone(resize))
    assert (first.operation, first.actions, first.waits_for) == (resize, (), ("the topic was deleted",))
    last = decide_step(first.operation, first.progress, gone(resize)).operation
    assert (last.phase, last.problem) == (ResizePhase.ABORTED, "the topic was deleted")


def test_entry_without_queues_does_not_outlive_a_topic_that_is_deleted_in_its_pause():
    resize = an_ordered(ResizePhase.DRAIN, order_conf="broker-a:2")
    paused = NameServerView(address=NAME_SERVER, counts={}, order_conf="broker-a:0")
    progress, observation = waited(0), replace(gone(resize), name_servers=(paused,))
    for actions in ((), (PutOrderConf(address=NAME_SERVER, value=None),)):
        decision = decide_step(resize, progress, observation)
        assert (decision.operation.phase, decision.actions) == (ResizePhase.DRAIN, actions)
        progress = decision.progress
    assert decide_step(resize, progress, gone(resize)).operation.phase is ResizePhase.ABORTED


@pytest.mark.parametrize(
    "instead",
    [
        lambda resize: observed(resize, 1),
        lambda resize: with_set(gone(resize), has_topic=True),
        lambda resize: gone(resize, sets={}),
        lambda resize: replace(gone(resize), name_servers=observed(resize, 1).name_servers),
        lambda resize: replace(gone(resize), name_servers=(NameServerView(address=NAME_SERVER, counts=None),)),
        lambda resize: replace(gone(resize), name_servers=()),
    ],
    ids=["all-have-it", "master-silent", "set-unknown", "routed", "name-server-silent", "no-name-server"],
)
def test_topic_is_not_taken_for_deleted_while_anybody_may_have_it(instead):
    shrink = a_shrink(ResizePhase.LATE)
    progress = waited(0)
    for observation in (gone(shrink), instead(shrink), gone(shrink)):
        decision = decide_step(shrink, progress, observation)
        assert decision.operation.phase is not ResizePhase.ABORTED
        progress = decision.progress


def test_new_leader_goes_on_with_the_time_that_was_saved():
    shrink = a_shrink(ResizePhase.DRAIN, waited_ms=120_000)
    assert begin_phase(shrink).waited_ms == 120_000
    # A first round of many resizes takes seconds, and its leader may not live for two.
    assert begin_phase(shrink, now_ms=1_000).at(5_000, is_complete=True).waited_ms == 124_000


def test_rollback_ends_once_an_earlier_change_cannot_arrive_any_more():
    grow = a_grow(ResizePhase.ROLLBACK, reached=1)
    first = decide_step(grow, waited(0), observed(grow, 0))
    assert first.operation.phase is ResizePhase.ROLLBACK
    last = decide_step(grow, first.progress, observed(grow, 0, now_ms=grow.waits.confirm_ms))
    assert last.operation.phase is ResizePhase.ABORTED


def test_change_that_arrives_during_a_rollback_is_undone_and_waited_for_again():
    grow = a_grow(ResizePhase.ROLLBACK, reached=1)
    decision = decide_step(grow, waited(5_000, agreed_at_ms=0), observed(grow, 1))
    assert decision.progress.agreed_at_ms is None
    assert decision.actions == (
        ChangeCounts(broker_name=BROKER, address=ADDRESS, before=QueueCounts(4, 2), after=QueueCounts(2, 2)),
    )


def test_order_conf_comes_back_before_writes_do():
    resize = an_ordered(ResizePhase.ROLLBACK, order_conf="broker-a:2")
    decision = decide_step(resize, waited(0), observed(resize, 1))
    assert decision.actions == (PutOrderConf(address="10.0.0.9:9876", value="broker-a:2"),)


@pytest.mark.parametrize("wall_clock_ms", [-7_200_000, 0, 7_200_000])
@pytest.mark.parametrize("missing", [(), ("broker-b does not answer",)])
def test_ordered_topic_is_without_writes_for_as_long_as_allowed_whatever_a_wall_clock_shows(wall_clock_ms, missing):
    resize = an_ordered(ResizePhase.PAUSE, lasted_ms=1_000)
    resize = resize.entered(ResizePhase.QUIESCE, resize.phase_since_unix_ms)
    for lasted_ms, phase in ((-1_000, ResizePhase.QUIESCE), (-999, ResizePhase.ROLLBACK)):
        now = observed(resize, 1, now_ms=resize.waits.pause_ms + lasted_ms, missing=missing)
        now = replace(now, unix_ms=now.unix_ms + wall_clock_ms)
        assert decide_step(resize, waited(0), now).operation.phase is phase


def test_time_between_two_phases_belongs_to_the_pause():
    resize = an_ordered(ResizePhase.PAUSE)
    paused = decide_step(resize, waited(700), observed(resize, 1))
    following = decide_step(paused.operation, paused.progress, observed(resize, 1, now_ms=300))
    assert (following.operation.earlier_ms, following.progress.lasted_ms, following.progress.waited_ms) == (700, 300, 0)


def test_new_leader_counts_the_pause_that_was_saved_and_no_time_without_a_leader():
    resize = an_ordered(ResizePhase.QUIESCE, earlier_ms=400_000, lasted_ms=100_000)
    begun = decide_step(resize, begin_phase(resize), observed(resize, 1, now_ms=3_000_000))
    assert begun.operation.phase is ResizePhase.QUIESCE
    left_ms = resize.waits.pause_ms - 500_000
    late = observed(resize, 1, now_ms=3_000_000 + left_ms + 1)
    assert decide_step(resize, begun.progress, late).operation.phase is ResizePhase.ROLLBACK


def test_masters_of_the_start_are_known():
    assert a_shrink(ResizePhase.DRAIN).masters == {BROKER: MASTER}


@pytest.mark.parametrize("phase", [ResizePhase.READ_DOWN, ResizePhase.WATCH])
def test_closed_queues_and_late_messages_are_observed_until_the_end(phase):
    needs = needs_of(a_shrink(phase), 0)
    assert needs.ends is dropped_queues
    assert needs.late
    assert needs.log


def test_blocked_resize_needs_what_its_phase_does():
    blocked = structs.replace(a_shrink(ResizePhase.BLOCKED), resume_phase=ResizePhase.DRAIN)
    assert needs_of(blocked, 0) == needs_of(a_shrink(ResizePhase.DRAIN), 0)


def test_numbers_are_looked_at_each_second_and_waits_several_times():
    assert round_ms(a_shrink(ResizePhase.READ_DOWN)) == QUICK_ROUND_MS
    drain = a_shrink(ResizePhase.DRAIN)
    assert round_ms(drain) == drain.waits.confirm_ms
    assert round_ms(structs.replace(drain, waits=structs.replace(drain.waits, confirm_ms=0))) == ROUND_MS_MIN


def test_blocked_resize_is_looked_at_each_minute_unless_it_holds_somebody_back():
    blocked = structs.replace(a_shrink(ResizePhase.BLOCKED), resume_phase=ResizePhase.DRAIN)
    assert round_ms(blocked) == BLOCKED_ROUND_MS_MAX
    gated = structs.replace(blocked, kind=ResizeKind.GATED, resume_phase=ResizePhase.RELEASE)
    assert round_ms(gated) <= ROUND_MS_MAX
    paused = structs.replace(blocked, kind=ResizeKind.ORDERED)
    assert round_ms(paused) <= ROUND_MS_MAX
    assert round_ms(structs.replace(paused, reached=PAUSED_END + 1)) == BLOCKED_ROUND_MS_MAX


def test_lag_in_new_queues_is_looked_at_only_before_the_end_of_verify():
    verify = a_grow(ResizePhase.VERIFY, reached=2)
    ends_ms = verify.waits.grown_watch_ms
    early, late = (needs_of(verify, ends_ms - VERIFY_LAST_MS - each) for each in (1, 0))
    assert (early.ends, early.offsets, early.groups) == (None, False, False)
    assert (late.ends, late.offsets, late.groups) == (new_queues, True, False)


def test_ends_of_present_queues_show_in_assign_which_groups_are_behind():
    ends = needs_of(a_grow(ResizePhase.ASSIGN), 0).ends
    assert ends(a_grow(ResizePhase.ASSIGN).sets[0]) == range(4)


@pytest.mark.parametrize("phase", [ResizePhase.DRAIN, ResizePhase.CONFIRM])
def test_clients_are_needed_only_of_groups_that_seem_to_have_drained(phase):
    needs = needs_of(a_shrink(phase), 0)
    assert needs.clients
    assert needs.drained
    assert not needs_of(a_grow(ResizePhase.ASSIGN), 0).drained


DAY_MS = 24 * 3_600_000


def entered(phase, **values):
    return structs.replace(went(a_resize(), phase), **values)


@pytest.mark.parametrize(
    ("phase", "waits", "waited_ms"),
    [
        (ResizePhase.SEED, ResizeWaits(), ResizeWaits().seed_ms),
        (ResizePhase.QUIESCE, ResizeWaits(), ResizeWaits().quiesce_ms),
        (ResizePhase.DRAIN, ResizeWaits(), ResizeWaits().drain_ms),
        (ResizePhase.DRAIN, ResizeWaits(drain_ms=DAY_MS), DAY_MS),
        # However long it may last, brokers have not answered for ten minutes.
        (ResizePhase.LATE, ResizeWaits(), DAY_MS),
    ],
)
def test_phase_is_overdue_ten_minutes_after_its_waits(phase, waits, waited_ms):
    resize = entered(phase, waits=waits, waited_ms=waited_ms)
    last_ms = resize.phase_since_unix_ms + waited_ms + GRACE_MS
    assert not is_overdue(resize, last_ms)
    assert is_overdue(resize, last_ms + 1)


@pytest.mark.parametrize(
    "phase", [ResizePhase.PLANNED, ResizePhase.BLOCKED, ResizePhase.CONFLICT, ResizePhase.DONE, ResizePhase.ABORTED]
)
def test_resize_that_waits_for_its_turn_or_an_operator_is_not_overdue(phase):
    assert not is_overdue(entered(phase), CREATED_UNIX_MS + 30 * DAY_MS)


def ordered(*phases):
    return went(a_resize(kind=ResizeKind.ORDERED), ResizePhase.PRECHECK, *phases)


@pytest.mark.parametrize(
    "later",
    [
        (),
        (ResizePhase.QUIESCE, ResizePhase.LATE, ResizePhase.DRAIN),
        (ResizePhase.QUIESCE, ResizePhase.BLOCKED),
        (ResizePhase.QUIESCE, ResizePhase.DRAIN, ResizePhase.CONFIRM, ResizePhase.RESIZE, ResizePhase.UNPAUSE),
        (ResizePhase.QUIESCE, ResizePhase.RESIZE, ResizePhase.UNPAUSE, ResizePhase.CONFLICT),
        (ResizePhase.QUIESCE, ResizePhase.ROLLBACK),
    ],
)
def test_ordered_topic_is_without_writes_from_the_pause_until_they_are_given_back(later):
    assert writes_paused_since(ordered(ResizePhase.PAUSE, *later)) == CREATED_UNIX_MS + 2 * 60_000


def test_pause_that_begins_anew_with_another_master_counts_from_the_first_one():
    resize = ordered(ResizePhase.PAUSE, ResizePhase.QUIESCE, ResizePhase.PAUSE)
    assert writes_paused_since(resize) == CREATED_UNIX_MS + 2 * 60_000


@pytest.mark.parametrize(
    "resize",
    [
        ordered(),
        ordered(ResizePhase.PAUSE, ResizePhase.RESIZE, ResizePhase.UNPAUSE, ResizePhase.VERIFY),
        ordered(ResizePhase.PAUSE, ResizePhase.RESIZE, ResizePhase.UNPAUSE, ResizePhase.QUIESCE, ResizePhase.BLOCKED),
        ordered(ResizePhase.PAUSE, ResizePhase.ROLLBACK, ResizePhase.ABORTED),
        went(a_resize(), ResizePhase.PRECHECK, ResizePhase.WRITE_DOWN, ResizePhase.QUIESCE),
    ],
)
def test_topic_has_writes_before_the_pause_after_its_end_and_in_any_other_resize(resize):
    assert writes_paused_since(resize) is None
