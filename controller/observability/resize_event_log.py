"""Turns what becomes of resizes into log lines and counts.

Each new phase is one line, under a name of its own where somebody has to act or the resize has ended. Rounds, and what
they wait for, are not logged: `/v1/scaling/operations` shows them.
"""

from collections.abc import Mapping
from typing import Final

from controller.observability import log_events as catalogue
from controller.observability.counters import SetCounters
from controller.recording.resize_recorder import ResizeRecorder
from controller.scaling.resize.decision import ResizeAction
from controller.scaling.resize.operation import ResizeOperation, ResizePhase
from serving.logging.events import LogEvent
from serving.logging.logs import Logs
from store.store import StoreError

#: Failures of one line, and characters of each sentence: a resize can wait for hundreds of groups and queues.
SENTENCES_MAX: Final = 3
SENTENCE_CHARS_MAX: Final = 300
PROBLEM_CHARS_MAX: Final = 600
#: What an operator wrote as the reason.
REASON_CHARS_MAX: Final = 200

#: Phase -> its event; all other phases are `resize_phase_entered`.
_EVENTS: Final[Mapping[ResizePhase, LogEvent]] = {
    ResizePhase.BLOCKED: catalogue.RESIZE_BLOCKED,
    ResizePhase.CONFLICT: catalogue.RESIZE_CONFLICTED,
    ResizePhase.REOPEN: catalogue.RESIZE_REOPENED,
    ResizePhase.DONE: catalogue.RESIZE_FINISHED,
    ResizePhase.ABORTED: catalogue.RESIZE_ABORTED,
    ResizePhase.REJECTED: catalogue.RESIZE_REJECTED,
}


class ResizeEventLog:
    """Learns what becomes of operations."""

    def __init__(self, logs: Logs, counters: SetCounters, history: ResizeRecorder | None = None) -> None:
        self._logs = logs
        self._counters = counters
        self._history = history

    def resize_created(self, operation: ResizeOperation) -> None:
        """Log and record a new operation."""
        if self._history is not None:
            self._history.resize_created(operation)
        self._logs.write(
            catalogue.RESIZE_CREATED,
            **_which(operation),
            broker_sets=len(operation.sets),
            queues=operation.sets[0].target if operation.sets else None,
            requested_by=operation.requested_by[:REASON_CHARS_MAX],
            reason=operation.reason[:REASON_CHARS_MAX],
        )

    def phase_entered(self, before: ResizeOperation, after: ResizeOperation) -> None:
        """Log the phase, and count conflicts, queues that were opened again, and ends."""
        if self._history is not None:
            self._history.phase_entered(before, after)
        after = after.requested
        counters = self._counters
        keys: dict[str, object] = {
            "from_phase": before.phase.value,
            "to_phase": after.phase.value,
            "lasted_ms": after.phase_since_unix_ms - before.phase_since_unix_ms,
            # How many are stored with a step is limited already.
            "evidence": [each[:SENTENCE_CHARS_MAX] for each in after.steps[-1].evidence] if after.steps else [],
            "problem": after.problem[:PROBLEM_CHARS_MAX],
        }
        if after.phase is ResizePhase.CONFLICT:
            counters.scaling.resize_conflicts += 1
        counters.scaling.resizes_reopened += max(after.reopened - before.reopened, 0)
        if after.is_finished:
            duration_ms = max(after.phase_since_unix_ms - after.created_unix_ms, 0)
            keys |= {"duration_ms": duration_ms, "reopened": after.reopened}
            counters.scaling.resizes_ended.add((after.phase.value.lower(),))
            counters.scaling.resize_durations.observe((after.kind.value,), duration_ms / 1000)
        self._logs.write(_EVENTS.get(after.phase, catalogue.RESIZE_PHASE_ENTERED), **_which(after), **keys)

    def actions_failed(self, operation: ResizeOperation, failures: tuple[str, ...]) -> None:
        """Log and count changes of brokers that did not succeed."""
        self._counters.scaling.resize_actions.add(("failed",), len(failures))
        self._logs.write(
            catalogue.RESIZE_ACTIONS_FAILED,
            **_which(operation),
            phase=operation.phase.value,
            failed=len(failures),
            failures=_limited(failures),
        )

    def actions_done(self, operation: ResizeOperation, actions: tuple[ResizeAction, ...]) -> None:  # noqa: ARG002  # lines are of phases
        """Count changes of brokers that succeeded."""
        self._counters.scaling.resize_actions.add(("done",), len(actions))

    def round_failed(self, operation: ResizeOperation, error: Exception) -> None:
        """Log and count a round that failed; a fault of ours with its traceback."""
        self._counters.scaling.resize_rounds_failed += 1
        keys = {} if isinstance(error, StoreError) else {"exc_info": error}
        text = str(error)[:PROBLEM_CHARS_MAX] or type(error).__name__
        self._logs.write(
            catalogue.RESIZE_ROUND_FAILED, **_which(operation), phase=operation.phase.value, error=text, **keys
        )


def _which(operation: ResizeOperation) -> dict[str, object]:
    return {"resize": operation.id, "topic": operation.topic, "kind": operation.requested.kind.value}


def _limited(sentences: tuple[str, ...]) -> list[str]:
    """Return the first sentences, and how many more there are."""
    shown = [each[:SENTENCE_CHARS_MAX] for each in sentences[:SENTENCES_MAX]]
    return [*shown, f"and {len(sentences) - len(shown)} more"] if len(sentences) > len(shown) else shown
