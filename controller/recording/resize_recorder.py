"""Hands over to the recorder what becomes of resizes: each phase that one enters, with what ended the phase before.

Changes of brokers that fail are in the log: they are tried again within the phase.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from controller.scaling.resize.operation import ResizeOperation, ResizePhase
from history.recorder import Recorder
from history.rows import BrokerRef, HistoryRow, Moment, RowMaker
from history.schemas import SCALING

#: Characters of a sentence that are recorded.
SENTENCE_MAX: Final = 500

#: How an operation ends -> event type; all other phases are begun.
_ENDS: Final = {
    ResizePhase.DONE: "verified",
    ResizePhase.ABORTED: "rolled_back",
    ResizePhase.REJECTED: "rejected",
}


class ResizeRow(NamedTuple):
    """An operation that was stored, or entered a phase."""

    operation: ResizeOperation
    #: The phase before; None for a new operation.
    before: ResizeOperation | None = None

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        """Yield one row."""
        operation = self.operation.requested
        event_type = "plan" if self.before is None else _ENDS.get(operation.phase, "step_started")
        clusters = {each.cluster for each in operation.sets}
        broker = BrokerRef(cluster=clusters.pop() if len(clusters) == 1 else None)
        columns = {**_of_operation(operation), **_of_sets(operation)}
        if self.before is not None:
            columns |= _of_phase(self.before, operation)
        yield maker.row(SCALING, event_type, moment, broker, **columns)


class ResizeRecorder:
    """What is recorded of resizes."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def resize_created(self, operation: ResizeOperation) -> None:
        """Record a new operation."""
        self._recorder.enqueue(ResizeRow(operation))

    def phase_entered(self, before: ResizeOperation, after: ResizeOperation) -> None:
        """Record that an operation is in another phase."""
        self._recorder.enqueue(ResizeRow(after, before))


def _of_operation(operation: ResizeOperation) -> dict[str, object]:
    return {
        "operation_id": operation.id,
        "topic": operation.topic,
        "step": operation.phase.value,
        "reason": _sentence(operation.reason),
        "kind": operation.kind.value,
        "problem": _sentence(operation.problem),
        "requested_by": _sentence(operation.requested_by),
        "reopened": operation.reopened,
        "created_time": operation.created_unix_ms * 1000,
    }


def _of_sets(operation: ResizeOperation) -> dict[str, object]:
    sets = operation.sets
    target = sum(each.target for each in sets)
    return {
        "from_read": sum(each.before.read for each in sets),
        "from_write": sum(each.before.write for each in sets),
        "to_read": target,
        "to_write": target,
        "broker_names": [each.broker_name for each in sets],
        "set_clusters": [each.cluster for each in sets],
        "set_reads": [each.before.read for each in sets],
        "set_writes": [each.before.write for each in sets],
        "set_targets": [each.target for each in sets],
    }


def _of_phase(before: ResizeOperation, after: ResizeOperation) -> dict[str, object]:
    """Return how long the phase took that has ended, and what ended it."""
    evidence = after.steps[-1].evidence if after.steps else ()
    return {
        "former_step": before.phase.value,
        # Another controller may have stored its beginning, by a clock that is ahead of this one.
        "duration_ms": max(0, after.phase_since_unix_ms - before.phase_since_unix_ms),
        "waited_ms": before.waited_ms,
        "evidence": [_sentence(each) for each in evidence],
    }


def _sentence(text: str) -> str | None:
    return text[:SENTENCE_MAX] or None
