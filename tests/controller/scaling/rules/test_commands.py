"""Abort, resume, waive."""

import pytest
from msgspec.structs import replace
from scaling_builders import a_gated, a_grow, a_shrink, an_ordered

from controller.scaling.resize.operation import ResizeKind, ResizeOptions, ResizePhase
from controller.scaling.rules.commands import GROUPS_SHOWN, ResizeCommandRefused, aborted, resumed, waived

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


@pytest.mark.parametrize(
    ("resize", "text"),
    [
        (a_grow(ResizePhase.DONE), "resize-1 has ended: DONE"),
        (a_grow(ResizePhase.ROLLBACK, ends_as=ResizePhase.ABORTED), "is being undone already, in ROLLBACK"),
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
    with pytest.raises(ResizeCommandRefused, match="is in DRAIN and goes on by itself"):
        resumed(a_shrink(ResizePhase.DRAIN), NOW)


def test_waived_group_lets_a_blocked_resize_go_on():
    blocked = replace(a_shrink(ResizePhase.BLOCKED), resume_phase=ResizePhase.DRAIN)
    going = waived(blocked, "billing", ["billing"], NOW)
    assert (going.phase, going.options.waived_groups) == (ResizePhase.DRAIN, ("billing",))
    with pytest.raises(ResizeCommandRefused, match="billing is waived already"):
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
