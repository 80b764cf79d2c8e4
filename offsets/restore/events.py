"""What restores tell. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final, Self

from history.offset_families import OFFSET_CHANGE_BY_OPERATOR
from history.rows import BrokerRef, HistoryRow, Moment, RowMaker
from offsets.restore.operations import Operation
from offsets.restore.rules import RestoredQueue  # noqa: TC001
from serving.logging.events import Level
from serving.shapes.offsets import Status
from serving.telemetry.events import Count, Counter, Event

RESTORED: Final = Counter(
    "restored_offsets",
    "Offsets that operators wanted at brokers, by what became of them.",
    ("status",),
    known=tuple((status.value,) for status in Status),
)


class OffsetsRestored(Event, frozen=True, kw_only=True):
    """An operator has written offsets at brokers (`kind`: restore, import or undo); `operation` undoes it."""

    level = Level.WARNING
    audit = True
    operation: str
    kind: str
    writer: str
    undoes: str | None
    done: int
    not_proved: int
    failed: int
    right: int
    messages_again: int
    messages_never: int

    @classmethod
    def of(cls, operation: Operation) -> Self:
        """Return the event of an operation that has ended."""
        counts = operation.counts
        done = [queue for queue in operation.queues if queue.status is Status.DONE]
        return cls(
            operation=operation.operation_id,
            kind=operation.kind.value,
            writer=operation.writer,
            undoes=operation.undoes or None,
            done=len(done),
            not_proved=counts.get(Status.NOT_PROVED.value, 0),
            failed=counts.get(Status.FAILED.value, 0),
            right=counts.get(Status.RIGHT.value, 0),
            messages_again=sum(queue.messages_again or 0 for queue in done),
            messages_never=sum(queue.messages_never or 0 for queue in done),
        )

    def counted(self) -> Iterator[Count]:
        amounts = {
            Status.DONE: self.done,
            Status.NOT_PROVED: self.not_proved,
            Status.FAILED: self.failed,
            Status.RIGHT: self.right,
        }
        for status, amount in amounts.items():
            if amount:
                yield Count(RESTORED, (status.value,), amount)


class OperationNotKept(Event, frozen=True, kw_only=True):
    """What an operation did cannot be stored, or a stored one cannot be read: it cannot be undone by its id."""

    level = Level.WARNING
    advice = "Look after the disk of storePath."
    error: str


class OperationRows(Event, frozen=True, kw_only=True):
    """The rows of an operation."""

    level = None
    operation: Operation

    def rows(self) -> Iterable["_RecordedOperation"]:
        return (_RecordedOperation(self.operation),)


class _RecordedOperation:
    """An operation as rows of the history: one for each group in a topic on a set."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        operation = self._operation
        groups: dict[tuple[str, str, str, str], list[RestoredQueue]] = {}
        for queue in operation.queues:
            if queue.status in (Status.DONE, Status.FAILED):
                groups.setdefault((queue.cluster, queue.broker_name, queue.group, queue.topic), []).append(queue)
        for (cluster, broker_name, group, topic), queues in groups.items():
            done = [queue for queue in queues if queue.status is Status.DONE]
            yield maker.row(
                OFFSET_CHANGE_BY_OPERATOR,
                operation.kind.value,
                moment,
                BrokerRef(cluster or None, broker_name),
                group=group,
                topic=topic,
                writer=operation.writer,
                target="broker",
                change_id=operation.operation_id,
                queues=len(done),
                created=sum(queue.old is None for queue in done),
                removed=0,
                messages_again=sum(queue.messages_again or 0 for queue in done),
                messages_skipped=sum(queue.messages_never or 0 for queue in done),
                failed=len(queues) - len(done),
            )
