"""What restores tell. Pure."""

from collections.abc import Iterator
from typing import Final, Self

from history.rows import BrokerRef
from offsets.operator_rows import ChangedQueue, Recorded, change_by_operator
from offsets.restore.operations import Operation
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
        for status in (Status.DONE, Status.NOT_PROVED, Status.FAILED, Status.RIGHT):
            if amount := getattr(self, status.name.lower()):
                yield Count(RESTORED, (status.value,), amount)


class OperationNotKept(Event, frozen=True, kw_only=True):
    """What an operation did cannot be stored, or a stored one cannot be read: it cannot be undone by its id."""

    level = Level.WARNING
    advice = "Look after the disk of storePath."
    error: str


def operation_rows(operation: Operation) -> Recorded:
    """Return the rows of an operation."""

    def queues() -> Iterator[ChangedQueue]:
        for queue in operation.queues:
            if queue.status in (Status.DONE, Status.FAILED):
                broker, is_done = BrokerRef(queue.cluster or None, queue.broker_name), queue.status is Status.DONE
                yield ChangedQueue(broker, queue.group, queue.topic, queue.old, queue.new, is_done)

    return change_by_operator(operation.kind.value, operation.writer, "broker", queues, operation.operation_id)
