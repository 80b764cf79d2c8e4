"""Turns restores, undoes and imports into log lines, counts and rows."""

from collections import Counter

from controller.offsets.observability import restore_log_events as catalogue
from controller.offsets.observability.counters import OffsetCounters
from controller.offsets.recording.offset_recorder import OffsetRecorder
from controller.offsets.recording.offset_rows import ChangedOffset, OperatorChange
from controller.offsets.restore.operations import Operation
from controller.offsets.restore.values import RestoreStatus
from serving.logging.logs import Logs


class RestoreEventLog:
    """Observes what is changed at brokers, and what can be undone."""

    def __init__(self, logs: Logs, counters: OffsetCounters, recorder: OffsetRecorder) -> None:
        self._logs = logs
        self._counters = counters
        self._recorder = recorder

    def restore_began(self, operation: Operation) -> None:
        """Log what is about to be written."""
        ready = [each for each in operation.queues if each.status is RestoreStatus.READY]
        self._logs.write(
            catalogue.RESTORE_BEGAN,
            operation_id=operation.operation_id,
            kind=operation.kind.value,
            writer=operation.writer,
            queues=len(ready),
            messages_again=sum(each.messages_again or 0 for each in ready),
            messages_skipped=sum(each.messages_skipped or 0 for each in ready),
            undoes=operation.undoes or None,
            pulls=operation.pulls or None,
        )

    def restored(self, operation: Operation) -> None:
        """Count what became of each queue, log it once, and record what was sent."""
        self._recorder.changed(
            OperatorChange(operation.kind.value, operation.writer, "broker", operation.operation_id),
            (
                ChangedOffset(
                    each.queue.set_name,
                    each.queue.key.group,
                    each.queue.key.topic,
                    each.old,
                    each.new,
                    is_failed=each.status is not RestoreStatus.RESTORED,
                )
                for each in operation.sent()
            ),
        )
        counts = Counter(each.status.value for each in operation.queues)
        for status, count in counts.items():
            self._counters.restored.add((operation.kind.value, status), count)
        restored = counts.pop(RestoreStatus.RESTORED.value, 0)
        self._logs.write(
            catalogue.RESTORE_ENDED,
            operation_id=operation.operation_id,
            kind=operation.kind.value,
            writer=operation.writer,
            restored=restored,
            others=counts.total(),
            reasons=dict(counts) or None,
        )

    def operation_not_kept(self, kind: str, error: str) -> None:
        """Log that what a change has done could not be kept."""
        self._logs.write(catalogue.OPERATION_NOT_KEPT, kind=kind, error=error)
