"""One round of a resize, and what its phase can make of it: stay, go on, block, undo, or stop in a conflict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from controller.scaling.resize.decision import PhaseProgress, ResizeAction, ResizeDecision
from controller.scaling.resize.observation import ResizeObservation
from controller.scaling.resize.operation import ResizeOperation
from controller.scaling.rules.path import PathCheck, check_path, may_hold_messages, reversed_grow
from controller.scaling.rules.quiet import as_offsets, undispatched
from serving.shapes.scaling import ResizePhase

#: How often the time of a phase is saved, in ms: a leader that lasts longer brings a resize on.
SAVE_MS_MIN: Final = 2_000
#: Phases may last for weeks, and each save is a write.
SAVE_MS_MAX: Final = 60_000
#: In between, a new leader loses such a part of what the phase has lasted.
_SHARE_LOST: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeRound:
    """The operation, what this leader has seen of the phase, and what was answered now."""

    operation: ResizeOperation
    progress: PhaseProgress
    observation: ResizeObservation

    @property
    def waited_ms(self) -> int:
        """How long the phase has waited; time in which an answer was missing does not count."""
        return self.progress.waited_ms

    def is_over(self, limit_ms: int) -> bool:
        return self.waited_ms >= limit_ms

    def with_progress(self, **changes: Any) -> "ResizeRound":
        return replace(self, progress=replace(self.progress, **changes))

    def agreed(self) -> tuple["ResizeRound", int]:
        """Return the round with the moment since when all is in the wanted state, and how long ago that was."""
        since = self.waited_ms if self.progress.agreed_at_ms is None else self.progress.agreed_at_ms
        return self.with_progress(agreed_at_ms=since), self.waited_ms - since

    def with_log_marks(self) -> tuple["ResizeRound", tuple[str, ...]]:
        """Mark the ends of all commit logs, unless they are marked; return what is not in its queue up to there yet."""
        marks = self.progress.log_marks or {
            name: view.log.end for name, view in self.observation.sets.items() if view.log is not None
        }
        return self.with_progress(log_marks=marks), undispatched(self.observation, marks)

    def stay(self, waits_for: Sequence[str], actions: Sequence[ResizeAction] = ()) -> ResizeDecision:
        operation, progress = self.operation, self.progress
        save_ms = min(max(progress.lasted_ms // _SHARE_LOST, SAVE_MS_MIN), SAVE_MS_MAX)
        if progress.lasted_ms - progress.saved_ms >= save_ms:
            progress = replace(progress, saved_ms=progress.lasted_ms)
            operation = msgspec.structs.replace(
                operation,
                waited_ms=self.waited_ms,
                lasted_ms=progress.lasted_ms,
                seen_ends=as_offsets(progress.ends),
                moved_at_ms=progress.moved_at_ms,
            )
        return ResizeDecision(
            operation=operation, progress=progress, actions=tuple(actions), waits_for=tuple(waits_for)
        )

    def record(self, **changes: Any) -> ResizeDecision:
        """Remain in the phase with a fact that is stored before anything rests on it."""
        decision = self.stay(())
        return replace(decision, operation=msgspec.structs.replace(decision.operation, **changes))

    def go(
        self, phase: ResizePhase, evidence: Sequence[str] = (), *, problem: str = "", **changes: Any
    ) -> ResizeDecision:
        operation = msgspec.structs.replace(self.operation, lasted_ms=self.progress.lasted_ms)
        entered = operation.entered(phase, self.observation.unix_ms, evidence, problem=problem)
        return ResizeDecision(
            operation=msgspec.structs.replace(entered, **changes), progress=PhaseProgress(seen_ms=self.progress.seen_ms)
        )

    def block(self, reasons: Sequence[str]) -> ResizeDecision:
        """Wait for an operator; the phase goes on by itself if the reason ends."""
        if self.operation.resume_phase is not None:
            return self.stay(reasons)
        resume = self.operation.phase
        return self.go(ResizePhase.BLOCKED, reasons, problem="; ".join(reasons), resume_phase=resume)

    def conflict(self, reasons: Sequence[str]) -> ResizeDecision:
        """Do nothing more: somebody else has changed what this resize changes."""
        return self.go(ResizePhase.CONFLICT, reasons, problem="; ".join(reasons))

    def undo(self, problem: str) -> ResizeDecision:
        """Go back to the numbers from before; where new queues may hold messages already, that is a shrink."""
        if may_hold_messages(self.operation):
            changes = reversed_grow(self.operation, problem)
            return self.go(ResizePhase.WRITE_DOWN, (problem,), problem=problem, **changes)
        return self.go(ResizePhase.ROLLBACK, (problem,), problem=problem, ends_as=ResizePhase.ABORTED)

    def end_undone(self, evidence: Sequence[str]) -> ResizeDecision:
        """End once no write that was under way when everything was undone can arrive any more."""
        this, agreed_ms = self.agreed()
        if agreed_ms >= self.operation.waits.confirm_ms:
            return this.go(ResizePhase.ABORTED, evidence, problem=self.operation.problem)
        return this.stay(["a second check that no earlier change arrives late"])

    def advance(
        self,
        wanted: int,
        then: Callable[[], ResizeDecision],
        *,
        lowest: int | None = None,
        furthest: int | None = None,
        undo: str = "",
    ) -> ResizeDecision:
        """Take all brokers to a position of the path, then go on; `undo` is why not after `verify_ms`, blank: never."""
        check, missing = self.path(wanted, lowest=lowest, furthest=furthest), self.observation.missing
        if check.conflicts:
            return self.conflict(check.conflicts)
        if check.is_reached and not missing:
            return then()
        if undo and self.is_over(self.operation.waits.verify_ms):
            return self.undo(f"{undo}: {'; '.join(check.waits_for)}")
        return self.stay((*check.waits_for, *missing), check.actions)

    def path(self, wanted: int, *, lowest: int | None = None, furthest: int | None = None) -> PathCheck:
        return check_path(self.operation, self.observation, wanted, lowest=lowest, furthest=furthest)

    def left(
        self, position: int, *, limit_ms: int | None = None, furthest: int | None = None, numbers: str = "queue numbers"
    ) -> ResizeDecision | None:
        """Stop if brokers do not show a position that they have reached before; None: all of them do.

        With a limit the resize is blocked after it if a slave or NameServer does not show it.
        """
        check, missing = self.path(position, furthest=furthest), self.observation.missing
        if check.conflicts or check.actions:
            return self.conflict(check.conflicts or [f"the {numbers} are not the ones of this resize any more"])
        if not missing and check.waits_for and limit_ms is not None and self.is_over(limit_ms):
            return self.block(check.waits_for)
        return self.stay((*missing, *check.waits_for)) if missing or check.waits_for else None

    def uncovered_sets(self) -> tuple[str, ...]:
        """Return sentences about broker sets that routes show with the topic, and that the resize does not change."""
        operation = self.operation
        shown = {name: counts for view in self.observation.name_servers for name, counts in (view.counts or {}).items()}
        covered = {resize.broker_name for resize in operation.sets}
        return tuple(
            f"{name} has {operation.topic} too ({counts}), and is not part of this resize: it keeps these numbers"
            for name, counts in sorted(shown.items())
            if name not in covered
        )
