"""What restores and imports have changed at brokers, as it is kept for an undo and told. Pure but for its file.

An id ends with the address of the manager that did the operation: only its file has what undoes it.
"""

import asyncio
import enum
import secrets
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from history.rows import BrokerRef
from offsets.kept_documents import KeptDocuments
from offsets.operator_rows import ChangedQueue, Records, change_by_operator
from offsets.readings.reading import Reading
from offsets.restore.rules import RestoredQueue, Wanted
from offsets.values import SetName
from serving.logging.events import Level
from serving.shapes.offsets import Status
from serving.telemetry.events import Count, Counter, Event

OPERATIONS_MAX: Final = 100
_ID_BYTES: Final = 8
_AT: Final = "@"


class OperationKind(enum.StrEnum):
    #: Offsets of a reading were written.
    RESTORE = "restore"
    #: Offsets of a file were written.
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
    queues: tuple[RestoredQueue, ...]
    #: The logs of the masters when their offsets were read, as readings without offsets: what an undo proves by.
    logs: tuple[Reading, ...]
    #: The operation that it has undone; blank for none.
    undoes: str = ""
    #: False if the process ended before the outcomes were known: what would change may have been written.
    is_finished: bool = True

    @property
    def counts(self) -> dict[str, int]:
        return dict(Tally(queue.status.value for queue in self.queues))

    def written(self) -> list[RestoredQueue]:
        """Return the queues whose offset the broker has, or may have."""
        # A write without an answer is `failed`, and may be there all the same.
        statuses = (
            {Status.DONE, Status.FAILED} if self.is_finished else {Status.DONE, Status.FAILED, Status.WOULD_CHANGE}
        )
        return [queue for queue in self.queues if queue.status in statuses]

    def undone(self, set_name: SetName, *, is_forced: bool) -> list[Wanted]:
        """Return the offsets that an undo brings back; without force only where the broker shows what was written."""
        return [
            Wanted(queue.key, queue.old, None if is_forced else queue.new)
            for queue in self.written()
            if queue.set_name == set_name
        ]


class NoSuchOperation(Exception):
    """There is nothing to undo by an id; the sentence says where it may be kept."""

    def __init__(self, operation_id: str, kept_at: str) -> None:
        self.operation_id, self.kept_at = operation_id, kept_at
        where = f"the manager at {kept_at} did it" if kept_at else "/v1/offsets/operations lists what is kept"
        super().__init__(f"Operation {operation_id} is not kept here: {where}. Restore a moment before it instead.")


class Operations:
    def __init__(self, folder: Path, own_address: Callable[[], str], emit: Callable[[Event], None]) -> None:
        self._files = KeptDocuments(folder, Operation, OPERATIONS_MAX)
        self._own_address, self._emit = own_address, emit
        self._turn = asyncio.Lock()
        self._numbers: dict[str, int] = {}
        self._last = 0
        self._is_loaded = False

    def new_id(self) -> str:
        return f"{secrets.token_hex(_ID_BYTES)}{_AT}{self._own_address()}"

    async def keep(self, operation: Operation) -> None:
        """Store an operation, or its outcomes; raises DurableFileError, and then nothing is stored."""
        async with self._turn:
            await self._load()
            number = self._numbers.get(operation.operation_id, self._last + 1)
            await asyncio.to_thread(self._files.keep, number, operation)
            self._numbers[operation.operation_id] = number
            self._last = max(self._last, number)

    async def find(self, operation_id: str) -> Operation:
        """Return an operation; raises NoSuchOperation and DurableFileError."""
        async with self._turn:
            await self._load()
            number = self._numbers.get(operation_id)
            found = None if number is None else await asyncio.to_thread(self._files.read, number)
        if found is None:
            address = operation_id.partition(_AT)[2]
            raise NoSuchOperation(operation_id[:300], "" if address == self._own_address() else address)
        return found

    async def last(self) -> list[Operation]:
        """Return the operations that are kept, the newest first."""
        async with self._turn:
            await self._load()
            # Damaged files were told as they were loaded.
            found = await asyncio.to_thread(self._files.read_all, lambda _: None)
        return list(reversed(found.values()))

    async def _load(self) -> None:
        if not self._is_loaded:
            damaged: list[Exception] = []
            kept = await asyncio.to_thread(self._files.read_all, damaged.append)
            for error in damaged:
                self._emit(OperationNotKept(error=str(error)))
            self._numbers = {operation.operation_id: number for number, operation in kept.items()}
            self._last = max(kept, default=0)
            self._is_loaded = True


RESTORED: Final = Counter(
    "restored_offsets",
    "Offsets that operators wanted at brokers, by what became of them.",
    ("status",),
    known=tuple((status.value,) for status in Status),
)


_TOLD: Final = (Status.DONE, Status.NOT_PROVED, Status.FAILED, Status.RIGHT)


class OffsetsRestored(Event, frozen=True, kw_only=True):
    """An operator has written offsets at brokers (`kind`: restore, import or undo); `operation` undoes it."""

    level = Level.WARNING
    audit = True
    keys = (
        *("operation", "kind", "writer", "undoes", "done", "not_proved", "failed", "right"),
        *("messages_again", "messages_never"),
    )
    of: Operation

    def line(self) -> dict[str, object]:
        operation = self.of
        done = [queue for queue in operation.queues if queue.status is Status.DONE]
        return {
            "operation": operation.operation_id,
            "kind": operation.kind.value,
            "writer": operation.writer,
            **({"undoes": operation.undoes} if operation.undoes else {}),
            **{status.name.lower(): operation.counts.get(status.value, 0) for status in _TOLD},
            "messages_again": sum(queue.messages_again or 0 for queue in done),
            "messages_never": sum(queue.messages_never or 0 for queue in done),
        }

    def counted(self) -> Iterator[Count]:
        counts = self.of.counts
        return (Count(RESTORED, (status.value,), counts[status.value]) for status in _TOLD if status.value in counts)

    def rows(self) -> tuple[Records]:
        operation = self.of

        def queues() -> Iterator[ChangedQueue]:
            for queue in operation.queues:
                if queue.status in (Status.DONE, Status.FAILED):
                    broker, is_done = BrokerRef(queue.cluster or None, queue.broker_name), queue.status is Status.DONE
                    yield ChangedQueue(broker, queue.group, queue.topic, queue.old, queue.new, is_done)

        kind, operation_id = operation.kind.value, operation.operation_id
        return change_by_operator(kind, operation.writer, "broker", queues, operation_id).rows()


class OperationNotKept(Event, frozen=True, kw_only=True):
    """The record of an operation cannot be stored or read, so the operation cannot be undone by its id."""

    level = Level.WARNING
    advice = "Check the disk of storePath."
    error: str
