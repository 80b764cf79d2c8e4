"""What restores and resets have changed, as it is kept for an undo. Pure."""

import enum
from collections.abc import Iterator
from typing import Final

import msgspec

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.restore.values import SENT, PlannedOffset, RestoreStatus, WantedOffset

#: Operations that are kept; with the longest names 10,000 queues take some MB before they are compressed.
OPERATIONS_MAX: Final = 100
#: Up to so many of them; the oldest ones give way.
QUEUES_KEPT_MAX: Final = 200_000


class OperationKind(enum.StrEnum):
    """What an operation has done."""

    #: Offsets of the mirror were written at brokers.
    RESTORE = "restore"
    #: Offsets of this manager were reset.
    RESET = "reset"
    #: Offsets of a file were written at a broker, or in this manager.
    IMPORT = "import"
    UNDO = "undo"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation, with what was there before."""

    operation_id: str
    kind: OperationKind
    #: The operator.
    writer: str
    #: When it began.
    unix_ms: int
    #: The operation that it has undone; blank for none.
    undoes: str = ""
    #: The operator has said that the groups pull.
    pulls: bool = False
    #: At brokers.
    queues: tuple[PlannedOffset, ...] = ()
    #: In this manager.
    changes: tuple[OffsetChange, ...] = ()
    #: False if the process ended before the outcomes were known: what is READY may have been written.
    is_finished: bool = True

    @property
    def count(self) -> int:
        """How many queues it has changed, or may have."""
        return len(self.changes) + sum(1 for _ in self.sent())

    def sent(self) -> Iterator[PlannedOffset]:
        """Yield the queues that brokers have been sent an offset for, or may have."""
        may_be_sent = SENT if self.is_finished else {*SENT, RestoreStatus.READY}
        return (each for each in self.queues if each.status in may_be_sent)


def undone_at_brokers(operation: Operation, *, is_forced: bool) -> list[WantedOffset]:
    """Return the offsets that an undo brings back.

    Without force those of queues alone that show what the operation has written. A queue may have lost its end since
    the operation, so that what goes forward needs proof as in a restore.
    """
    return [
        WantedOffset(each.queue, each.old, operation.unix_ms, None if is_forced else each.new)
        for each in operation.sent()
    ]
