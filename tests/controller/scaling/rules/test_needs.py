"""What a phase has to know, and how often it looks."""

import pytest
from msgspec.structs import replace
from scaling_builders import a_shrink

from controller.scaling.resize.operation import ResizeKind, ResizePhase
from controller.scaling.rules.needs import (
    BLOCKED_ROUND_MS_MAX,
    QUICK_ROUND_MS,
    ROUND_MS_MAX,
    ROUND_MS_MIN,
    needs_of,
    round_ms,
)
from controller.scaling.rules.path import dropped_queues


@pytest.mark.parametrize("phase", [ResizePhase.READ_DOWN, ResizePhase.WATCH])
def test_closed_queues_and_late_messages_are_observed_until_the_end(phase):
    needs = needs_of(a_shrink(phase))
    assert needs.ends is dropped_queues
    assert needs.late
    assert needs.log


def test_blocked_resize_needs_what_its_phase_does():
    blocked = replace(a_shrink(ResizePhase.BLOCKED), resume_phase=ResizePhase.DRAIN)
    assert needs_of(blocked) == needs_of(a_shrink(ResizePhase.DRAIN))


def test_numbers_are_looked_at_each_second_and_waits_several_times():
    assert round_ms(a_shrink(ResizePhase.READ_DOWN)) == QUICK_ROUND_MS
    drain = a_shrink(ResizePhase.DRAIN)
    assert round_ms(drain) == drain.waits.confirm_ms
    assert round_ms(replace(drain, waits=replace(drain.waits, confirm_ms=0))) == ROUND_MS_MIN


def test_blocked_resize_is_looked_at_each_minute_unless_it_holds_locks():
    blocked = replace(a_shrink(ResizePhase.BLOCKED), resume_phase=ResizePhase.DRAIN)
    assert round_ms(blocked) == BLOCKED_ROUND_MS_MAX
    gated = replace(blocked, kind=ResizeKind.GATED, resume_phase=ResizePhase.RELEASE)
    assert round_ms(gated) <= ROUND_MS_MAX
