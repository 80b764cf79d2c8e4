"""Abort, resume, waive, give up a set."""

import pytest
from msgspec.structs import replace
from scaling_builders import BROKER, MASTER, a_gated, a_grow, a_shrink, an_ordered

from controller.scaling.execution.operations import decode_operation, encode_operation
from controller.scaling.resize.operation import LateMark, QueueOffset
from controller.scaling.rules.commands import GROUPS_SHOWN, ResizeCommandRefused, aborted, given_up, resumed, waived
from serving.shapes.scaling import ResizeKind, ResizeOptions, ResizePhase

NOW = 1_700_000_100_000


@pytest.mark.parametrize(
    ("resize", "kind", "phase"),
    [
        (a_grow(ResizePhase.PRECHECK), ResizeKind.GROW, ResizePhase.ABORTED),
        (a_grow(ResizePhase.READ_UP, reached=1), ResizeKind.GROW, ResizePhase.ROLLBACK),
        (a_grow(ResizePhase.VERIFY, reached=2), ResizeKind.SHRINK, ResizePhase.WRITE_DOWN),
        (a_shrink(ResizePhase.WATCH, reached=2), ResizeKind.SHRINK, ResizePhase.ROLLBACK),
        (a_shrink(ResizePhase.CONFLICT), ResizeKind.SHRINK, ResizePhase.ABORTED),
        (an_ordered(ResizePhase.DRAIN), ResizeKind.ORDERED, ResizePhase.ROLLBACK),
        (an_ordered(ResizePhase.CONFLICT), ResizeKind.ORDERED, ResizePhase.ROLLBACK),
        (an_ordered(ResizePhase.CONFLICT, reached=3), ResizeKind.ORDERED, ResizePhase.ROLLBACK),
    ],
)
def test_abort_takes_the_way_back_that_loses_nothing(resize, kind, phase):
    back = aborted(resize, NOW, "too slow")
    assert (back.kind, back.phase) == (kind, phase)
    assert back.problem == "aborted by the operator: too slow"
    if phase is not ResizePhase.ABORTED:
        assert back.ends_as is ResizePhase.ABORTED


def test_grow_on_its_way_back_is_shown_as_it_was_requested_with_the_reason():
    grow = a_grow(ResizePhase.VERIFY, reached=2, reason="more consumers")
    back = aborted(grow, NOW, "too slow").entered(ResizePhase.QUIESCE, NOW).entered(ResizePhase.ABORTED, NOW)
    shown = decode_operation("", encode_operation(back)).requested
    assert (shown.kind, shown.sets, shown.reason) == (grow.kind, grow.sets, "more consumers")
    assert (shown.phase, shown.problem) == (ResizePhase.ABORTED, "aborted by the operator: too slow")
    blocked = back.entered(ResizePhase.BLOCKED, NOW, problem="nobody consumes")
    assert blocked.requested.problem == "nobody consumes"


@pytest.mark.parametrize(
    ("resize", "text"),
    [
        (a_grow(ResizePhase.DONE), "resize-1 has ended: DONE"),
        (a_grow(ResizePhase.ROLLBACK, ends_as=ResizePhase.ABORTED), "is already being undone, in ROLLBACK"),
        (an_ordered(ResizePhase.VERIFY, reached=3), "would mix the order of keys"),
        (a_gated(ResizePhase.RELEASE, reached=2), "would mix the order of keys"),
    ],
)
def test_abort_that_would_do_harm_is_refused(resize, text):
    with pytest.raises(ResizeCommandRefused, match=text):
        aborted(resize, NOW, "")


@pytest.mark.parametrize(
    ("resize", "phase"),
    [
        (replace(a_shrink(ResizePhase.BLOCKED), resume_phase=ResizePhase.DRAIN), ResizePhase.DRAIN),
        (a_grow(ResizePhase.CONFLICT, reached=1), ResizePhase.SEED),
        (a_shrink(ResizePhase.CONFLICT), ResizePhase.WRITE_DOWN),
        (a_shrink(ResizePhase.CONFLICT, reached=2), ResizePhase.REOPEN),
        (an_ordered(ResizePhase.CONFLICT), ResizePhase.PAUSE),
        (an_ordered(ResizePhase.CONFLICT, reached=3), ResizePhase.UNPAUSE),
        (a_gated(ResizePhase.CONFLICT, reached=2), ResizePhase.GATE),
        (a_grow(ResizePhase.CONFLICT, ends_as=ResizePhase.ABORTED), ResizePhase.ROLLBACK),
    ],
)
def test_resume_goes_on_where_brokers_are_brought_to_known_numbers(resize, phase):
    assert resumed(resize, NOW).phase is phase


def test_resize_that_goes_on_by_itself_is_not_resumed():
    with pytest.raises(ResizeCommandRefused, match="is in DRAIN and continues by itself"):
        resumed(a_shrink(ResizePhase.DRAIN), NOW)


def test_waived_group_lets_a_blocked_resize_go_on():
    blocked = replace(a_shrink(ResizePhase.BLOCKED), resume_phase=ResizePhase.DRAIN)
    going = waived(blocked, "billing", ["billing"], NOW)
    assert (going.phase, going.options.waived_groups) == (ResizePhase.DRAIN, ("billing",))
    with pytest.raises(ResizeCommandRefused, match="billing is already waived"):
        waived(going, "billing", ["billing"], NOW)


def test_group_that_the_topic_does_not_have_is_not_waived():
    drain = a_shrink(ResizePhase.DRAIN, options=ResizeOptions(waived_groups=("gone",)))
    with pytest.raises(ResizeCommandRefused) as refused:
        waived(drain, "biling", ["gone", "billing", "audit"], NOW)
    assert str(refused.value) == "biling is no group of TopicTest; those that can be waived: audit, billing"
    many = [f"group-{i:02}" for i in range(GROUPS_SHOWN + 3)]
    with pytest.raises(ResizeCommandRefused, match="group-19 and 3 more"):
        waived(drain, "biling", many, NOW)


def test_group_with_locks_is_waived_although_the_topic_has_it_no_more():
    release = a_gated(ResizePhase.RELEASE, reached=2, gated_groups=("billing", "gone"))
    blocked = replace(release, phase=ResizePhase.BLOCKED, resume_phase=ResizePhase.RELEASE)
    going = waived(blocked, "gone", ["billing"], NOW)
    assert (going.phase, going.options.waived_groups) == (ResizePhase.RELEASE, ("gone",))
    with pytest.raises(ResizeCommandRefused, match="those that can be waived: billing, gone"):
        waived(blocked, "biling", [], NOW)


def test_nothing_is_waived_of_a_resize_that_adds_queues():
    with pytest.raises(ResizeCommandRefused, match="resize-1 adds queues and waits for no group"):
        waived(a_grow(ResizePhase.ASSIGN, reached=1), "billing", ["billing"], NOW)


def of_two_sets(resize, **values):
    """Return a resize of a second set beside its own, of which it knows as much."""
    (first,) = resize.sets
    names = (BROKER, "broker-b")
    return replace(
        resize,
        sets=tuple(replace(first, broker_name=name) for name in names),
        masters=dict.fromkeys(names, MASTER),
        seeds=tuple(QueueOffset(name, 2, 0) for name in names),
        confirmed=tuple(QueueOffset(name, 3, 9) for name in names),
        late_marks=tuple(LateMark(name, 3, 1) for name in names),
        **values,
    )


@pytest.mark.parametrize(
    ("resize", "phase", "problem"),
    [
        (of_two_sets(a_shrink(ResizePhase.WATCH, reached=2)), ResizePhase.WATCH, ""),
        (of_two_sets(a_shrink(ResizePhase.ROLLBACK), problem="aborted"), ResizePhase.ROLLBACK, "aborted"),
        (of_two_sets(a_shrink(ResizePhase.CONFLICT), problem="others"), ResizePhase.CONFLICT, "others"),
        (
            of_two_sets(a_gated(ResizePhase.BLOCKED), problem="offline", resume_phase=ResizePhase.RELEASE),
            ResizePhase.RELEASE,
            "",
        ),
    ],
)
def test_resize_goes_on_without_a_set_that_was_given_up(resize, phase, problem):
    going = given_up(resize, "broker-b", "ann: sold", NOW)
    assert (going.phase, going.problem, going.steps[-1].evidence) == (
        phase,
        problem,
        ("broker-b was given up by ann: sold",),
    )
    assert list(going.masters) == [BROKER]
    for parts in (going.sets, going.seeds, going.confirmed, going.late_marks):
        assert [each.broker_name for each in parts] == [BROKER]


@pytest.mark.parametrize(
    ("before", "after"), [("broker-a:2;broker-b:2", "broker-a:2"), ("broker-b:2", None), (None, None)]
)
def test_keys_go_to_no_set_that_was_given_up(before, after):
    ordered = of_two_sets(an_ordered(ResizePhase.RESIZE), order_conf=before)
    assert given_up(ordered, "broker-b", "ann", NOW).order_conf == after


@pytest.mark.parametrize(
    ("resize", "name", "text"),
    [
        (of_two_sets(a_grow(ResizePhase.DONE)), "broker-b", "resize-1 has ended: DONE"),
        (of_two_sets(a_grow(ResizePhase.SEED)), "broker-x", "has no set broker-x, but these: broker-a, broker-b"),
        (of_two_sets(a_grow(ResizePhase.PRECHECK)), "broker-b", "has changed nothing yet: abort it"),
        (a_grow(ResizePhase.SEED), BROKER, "broker-a is the last set of resize-1: bring it back, or delete TopicTest"),
    ],
)
def test_set_without_which_nothing_could_go_on_is_not_given_up(resize, name, text):
    with pytest.raises(ResizeCommandRefused, match=text):
        given_up(resize, name, "ann", NOW)
