"""What a phase has to know, and how often it looks."""

import pytest
from msgspec.structs import replace
from scaling_builders import a_grow, a_shrink

from controller.scaling.resize.operation import ResizeKind, ResizePhase
from controller.scaling.rules.path import PAUSED_END, dropped_queues, new_queues
from controller.scaling.rules.phases import (
    BLOCKED_ROUND_MS_MAX,
    QUICK_ROUND_MS,
    ROUND_MS_MAX,
    ROUND_MS_MIN,
    VERIFY_LAST_MS,
    needs_of,
    round_ms,
)


@pytest.mark.parametrize("phase", [ResizePhase.READ_DOWN, ResizePhase.WATCH])
def test_closed_queues_and_late_messages_are_observed_until_the_end(phase):
    needs = needs_of(a_shrink(phase), 0)
    assert needs.ends is dropped_queues
    assert needs.late
    assert needs.log


def test_blocked_resize_needs_what_its_phase_does():
    blocked = replace(a_shrink(ResizePhase.BLOCKED), resume_phase=ResizePhase.DRAIN)
    assert needs_of(blocked, 0) == needs_of(a_shrink(ResizePhase.DRAIN), 0)


def test_numbers_are_looked_at_each_second_and_waits_several_times():
    assert round_ms(a_shrink(ResizePhase.READ_DOWN)) == QUICK_ROUND_MS
    drain = a_shrink(ResizePhase.DRAIN)
    assert round_ms(drain) == drain.waits.confirm_ms
    assert round_ms(replace(drain, waits=replace(drain.waits, confirm_ms=0))) == ROUND_MS_MIN


def test_blocked_resize_is_looked_at_each_minute_unless_it_holds_somebody_back():
    blocked = replace(a_shrink(ResizePhase.BLOCKED), resume_phase=ResizePhase.DRAIN)
    assert round_ms(blocked) == BLOCKED_ROUND_MS_MAX
    gated = replace(blocked, kind=ResizeKind.GATED, resume_phase=ResizePhase.RELEASE)
    assert round_ms(gated) <= ROUND_MS_MAX
    paused = replace(blocked, kind=ResizeKind.ORDERED)
    assert round_ms(paused) <= ROUND_MS_MAX
    assert round_ms(replace(paused, reached=PAUSED_END + 1)) == BLOCKED_ROUND_MS_MAX


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
