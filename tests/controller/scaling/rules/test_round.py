"""What a phase can make of a round."""

from scaling_builders import a_gated, a_grow, a_shrink, observed, waited

from controller.scaling.resize.decision import PhaseProgress
from controller.scaling.resize.operation import ResizeKind, ResizePhase
from controller.scaling.rules.round import SAVE_MS, ResizeRound


def a_round(operation, waited_ms=0, **progress):
    return ResizeRound(operation=operation, progress=waited(waited_ms, **progress), observation=observed(operation, 0))


def test_waited_time_is_saved_each_ten_seconds():
    shrink = a_shrink(ResizePhase.DRAIN)
    progress = PhaseProgress(round_ms=0, waited_ms=SAVE_MS - 1)
    this = ResizeRound(operation=shrink, progress=progress, observation=observed(shrink, 1))
    assert this.stay(()).operation.waited_ms == 0
    this = ResizeRound(operation=shrink, progress=PhaseProgress(waited_ms=SAVE_MS), observation=observed(shrink, 1))
    decision = this.stay(())
    assert (decision.operation.waited_ms, decision.progress.saved_ms) == (SAVE_MS, SAVE_MS)


def test_waited_time_is_saved_with_a_fact_that_is_recorded():
    gated = a_gated(ResizePhase.RELEASE)
    this = ResizeRound(operation=gated, progress=PhaseProgress(waited_ms=SAVE_MS), observation=observed(gated, 2))
    decision = this.record(gated_groups=("billing",))
    assert (decision.operation.gated_groups, decision.operation.waited_ms) == (("billing",), SAVE_MS)
    assert decision.progress.saved_ms == SAVE_MS


def test_next_phase_begins_with_nothing_seen():
    decision = a_round(a_shrink(ResizePhase.DRAIN), 5_000).go(ResizePhase.CONFIRM, ["why"])
    assert decision.progress == PhaseProgress()
    assert decision.operation.steps[-1].evidence == ("why",)


def test_blocked_phase_is_kept_and_not_blocked_twice():
    blocked = a_round(a_shrink(ResizePhase.DRAIN)).block(["nobody consumes"]).operation
    assert (blocked.phase, blocked.resume_phase) == (ResizePhase.BLOCKED, ResizePhase.DRAIN)
    assert blocked.problem == "nobody consumes"
    assert a_round(blocked).block(["still nobody"]).operation == blocked


def test_undone_grow_drains_only_what_producers_may_use():
    assert a_round(a_grow(ResizePhase.ASSIGN, reached=1)).undo("why").operation.phase is ResizePhase.ROLLBACK
    drained = a_round(a_grow(ResizePhase.WRITE_UP, reached=2)).undo("why").operation
    assert (drained.kind, drained.phase) == (ResizeKind.SHRINK, ResizePhase.WRITE_DOWN)
    assert a_round(a_gated(ResizePhase.GATE)).undo("why").operation.phase is ResizePhase.ROLLBACK
