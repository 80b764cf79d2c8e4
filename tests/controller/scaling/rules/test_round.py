"""What a phase can make of a round."""

from dataclasses import replace

import pytest
from scaling_builders import BROKER, NAME_SERVER, a_gated, a_grow, a_shrink, observed, waited

from controller.scaling.resize.decision import PhaseProgress
from controller.scaling.resize.observation import NameServerView
from controller.scaling.resize.operation import QueueCounts
from controller.scaling.rules.round import SAVE_MS_MAX, SAVE_MS_MIN, ResizeRound
from serving.shapes.scaling import ResizeKind, ResizePhase


def a_round(operation, waited_ms=0, **progress):
    return ResizeRound(operation=operation, progress=waited(waited_ms, **progress), observation=observed(operation, 0))


def test_waited_time_is_saved_so_that_a_new_leader_loses_a_twentieth_of_it():
    shrink = a_shrink(ResizePhase.DRAIN)
    assert a_round(shrink, SAVE_MS_MIN - 1, saved_ms=0).stay(()).operation.waited_ms == 0
    decision = a_round(shrink, SAVE_MS_MIN, saved_ms=0).stay(())
    assert (decision.operation.waited_ms, decision.progress.saved_ms) == (SAVE_MS_MIN, SAVE_MS_MIN)
    for lasted_ms, lost_ms in ((1_000_000, 50_000), (10_000_000, SAVE_MS_MAX)):
        assert a_round(shrink, lasted_ms, saved_ms=lasted_ms - lost_ms + 1).stay(()).operation.waited_ms == 0
        assert a_round(shrink, lasted_ms, saved_ms=lasted_ms - lost_ms).stay(()).operation.waited_ms == lasted_ms
    # Time without answers is saved as well, and the wait stands still.
    silent = a_round(shrink, 5, lasted_ms=SAVE_MS_MIN, saved_ms=0).stay(()).operation
    assert (silent.waited_ms, silent.lasted_ms) == (5, SAVE_MS_MIN)


def test_waited_time_is_saved_with_a_fact_that_is_recorded():
    gated = a_gated(ResizePhase.RELEASE)
    decision = a_round(gated, SAVE_MS_MIN, saved_ms=0).record(gated_groups=("billing",))
    assert (decision.operation.gated_groups, decision.operation.waited_ms) == (("billing",), SAVE_MS_MIN)
    assert decision.progress.saved_ms == SAVE_MS_MIN


def test_next_phase_begins_with_nothing_seen():
    decision = a_round(a_shrink(ResizePhase.DRAIN), 5_000).go(ResizePhase.CONFIRM, ["why"])
    assert decision.progress == PhaseProgress(seen_ms=0)
    assert decision.operation.steps[-1].evidence == ("why",)


def test_blocked_phase_is_kept_and_not_blocked_twice():
    blocked = a_round(a_shrink(ResizePhase.DRAIN)).block(["nobody consumes"]).operation
    assert (blocked.phase, blocked.resume_phase) == (ResizePhase.BLOCKED, ResizePhase.DRAIN)
    assert blocked.problem == "nobody consumes"
    assert a_round(blocked).block(["still nobody"]).operation == blocked


@pytest.mark.parametrize(
    ("waited_ms", "limit_ms", "missing", "phase"),
    [
        (59_999, 60_000, (), ResizePhase.DRAIN),
        (60_000, 60_000, (), ResizePhase.BLOCKED),
        (60_000, None, (), ResizePhase.DRAIN),
        (60_000, 60_000, ("broker-b does not answer",), ResizePhase.DRAIN),
    ],
)
def test_old_route_at_a_name_server_blocks_a_phase_with_a_limit_after_it(waited_ms, limit_ms, missing, phase):
    this = a_round(a_shrink(ResizePhase.DRAIN), waited_ms)
    old = NameServerView(address=NAME_SERVER, counts={BROKER: QueueCounts(4, 4)})
    seen = replace(observed(this.operation, 1, missing=missing), name_servers=(old,))
    assert replace(this, observation=seen).left(1, limit_ms=limit_ms).operation.phase is phase


def test_undone_grow_drains_only_what_producers_may_use():
    assert a_round(a_grow(ResizePhase.ASSIGN, reached=1)).undo("why").operation.phase is ResizePhase.ROLLBACK
    drained = a_round(a_grow(ResizePhase.WRITE_UP, reached=2)).undo("why").operation
    assert (drained.kind, drained.phase) == (ResizeKind.SHRINK, ResizePhase.WRITE_DOWN)
    assert a_round(a_gated(ResizePhase.GATE)).undo("why").operation.phase is ResizePhase.ROLLBACK
