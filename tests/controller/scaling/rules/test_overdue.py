"""When somebody should look at a resize, and since when an ordered topic is without writes."""

import pytest
from msgspec.structs import replace
from resize_builders import CREATED_UNIX_MS, a_resize, went

from controller.scaling.resize.operation import ResizeKind, ResizePhase
from controller.scaling.rules.phases import GRACE_MS, is_overdue, writes_paused_since
from serving.shapes.scaling import ResizeWaits

DAY_MS = 24 * 3_600_000


def entered(phase, **values):
    return replace(went(a_resize(), phase), **values)


def limit_of(phase):
    waits = ResizeWaits()
    return {ResizePhase.SEED: waits.seed_ms, ResizePhase.QUIESCE: waits.quiesce_ms, ResizePhase.DRAIN: waits.drain_ms}[
        phase
    ]


@pytest.mark.parametrize("phase", [ResizePhase.SEED, ResizePhase.QUIESCE, ResizePhase.DRAIN])
def test_phase_is_overdue_ten_minutes_after_its_waits(phase):
    limit_ms = limit_of(phase)
    resize = entered(phase, waited_ms=limit_ms)
    last_ms = resize.phase_since_unix_ms + limit_ms + GRACE_MS
    assert not is_overdue(resize, last_ms)
    assert is_overdue(resize, last_ms + 1)


def test_chosen_waits_count_and_not_the_usual_ones():
    resize = entered(ResizePhase.DRAIN, waits=ResizeWaits(drain_ms=DAY_MS), waited_ms=DAY_MS)
    assert not is_overdue(resize, resize.phase_since_unix_ms + DAY_MS + GRACE_MS)
    assert is_overdue(resize, resize.phase_since_unix_ms + DAY_MS + GRACE_MS + 1)


def test_phase_is_overdue_after_ten_minutes_without_answers_however_long_it_may_last():
    resize = entered(ResizePhase.LATE, waited_ms=DAY_MS)
    assert not is_overdue(resize, resize.phase_since_unix_ms + DAY_MS + GRACE_MS)
    assert is_overdue(resize, resize.phase_since_unix_ms + DAY_MS + GRACE_MS + 1)


@pytest.mark.parametrize(
    "phase",
    [ResizePhase.PLANNED, ResizePhase.BLOCKED, ResizePhase.CONFLICT, ResizePhase.DONE, ResizePhase.ABORTED],
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
