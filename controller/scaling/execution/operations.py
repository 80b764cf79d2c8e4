"""The stored operations: those under way, by topic, and those that have ended, by id."""

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from controller.scaling.resize.operation import OPERATION_FORMAT, ResizeOperation
from controller.scaling.rules.phases import DELETED
from remoting.slices import in_slices
from serving.shapes.scaling import NEEDS_OPERATOR, ResizePhase
from store.document_store import DocumentStore
from store.documents import DocumentKind
from store.store import StoreError

#: How much of the stored text, in bytes, is kept decoded; that takes three times as much memory.
KEPT_BYTES_MAX: Final = 4 << 20
#: Operations that are decoded before something else goes on: some milliseconds.
_AT_ONCE: Final = 20


class OperationSummary(NamedTuple):
    """What a list of operations needs of one that it does not show."""

    id: str
    topic: str
    created_unix_ms: int


class DecodedOperations:
    """The operations of one kind, decoded once up to a limit; of others only what a list is sorted and filtered by."""

    def __init__(self, documents: DocumentStore, kind: DocumentKind) -> None:
        self._documents = documents
        self._kind = kind
        #: The least recently used first.
        self._kept: dict[str, tuple[bytes, ResizeOperation]] = {}
        self._kept_bytes = 0
        #: By name: the stored text, and what it is; the reason if it cannot be read.
        self._known: dict[str, tuple[bytes, OperationSummary | str]] = {}

    async def read_all(self) -> None:
        """Know all operations, and let others run meanwhile."""
        async for names in in_slices(self._documents.names(self._kind), _AT_ONCE):
            for name in names:
                self._know(name)

    def get(self, name: str) -> ResizeOperation | None:
        """Return an operation, None if there is none; raises StoreError if it cannot be read."""
        text = self._documents.get(self._kind, name)
        kept_text, operation = self._kept.pop(name, (b"", None))
        self._kept_bytes -= len(kept_text)
        if text is None:
            return None
        if operation is None or kept_text != text:
            operation = decode_operation(name, text)
        self._kept[name] = (text, operation)
        self._kept_bytes += len(text)
        while self._kept_bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._kept_bytes -= len(self._kept.pop(oldest)[0])
        return operation

    def summaries(self) -> list[OperationSummary]:
        return [found for _, found in self._look().values() if not isinstance(found, str)]

    def problems(self) -> dict[str, str]:
        """Return which operations cannot be read, and why, by the names of their documents."""
        return {name: found for name, (_, found) in self._look().items() if isinstance(found, str)}

    def _look(self) -> dict[str, tuple[bytes, OperationSummary | str]]:
        self._known = {name: self._know(name) for name in self._documents.names(self._kind)}
        for name in self._kept.keys() - self._known.keys():
            self._kept_bytes -= len(self._kept.pop(name)[0])
        return self._known

    def _know(self, name: str) -> tuple[bytes, OperationSummary | str]:
        try:
            text = self._documents.get(self._kind, name) or b""
            known = self._known.get(name)
        except StoreError as error:
            return b"", str(error)
        if known is None or known[0] is not text:
            try:
                operation = self.get(name)
                assert operation is not None, "it has just been named"
                known = text, OperationSummary(operation.id, operation.topic, operation.created_unix_ms)
            except StoreError as error:
                known = text, str(error)
            self._known[name] = known
        return known


class _OperationFormat(msgspec.Struct):
    format: int = OPERATION_FORMAT


_decode_format: Final = msgspec.json.Decoder(_OperationFormat).decode
_decode: Final = msgspec.json.Decoder(ResizeOperation).decode
encode_operation: Final = msgspec.json.Encoder().encode


def decode_operation(name: str, text: bytes) -> ResizeOperation:
    """Return the operation of a document; raises StoreError if it cannot be read."""
    try:
        if (written := _decode_format(text).format) <= OPERATION_FORMAT:
            return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"the operation stored as {name} cannot be read: {error}") from None
    raise StoreError(
        f"the operation stored as {name} has format {written}, and this release reads formats up to "
        f"{OPERATION_FORMAT}: run the release that wrote it, or a later one"
    )


#: Ended operations that stay; the history of the controller has the older ones.
ENDED_MAX: Final = 500


class OperationExists(ValueError):
    def __init__(self, operation: ResizeOperation) -> None:
        self.operation = operation
        super().__init__(
            f"{operation.id} resizes {operation.topic} already and is in {operation.phase.value}: wait for its end, or "
            "abort it"
        )


class OperationMoved(ValueError):
    """The operation has changed meanwhile: read it again."""


class Operations:
    """All operations as the leader knows them."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self._under_way = DecodedOperations(documents, DocumentKind.SCALING_OPERATION)
        self._ended = DecodedOperations(documents, DocumentKind.SCALING_HISTORY)

    async def read_all(self) -> None:
        """Decode what was loaded, and let others run meanwhile."""
        await self._under_way.read_all()
        await self._ended.read_all()

    def under_way(self) -> list[ResizeOperation]:
        """Return the operations that have not ended and can be read, by topic."""
        names = self._documents.names(DocumentKind.SCALING_OPERATION)
        found = (_readable(self._under_way, name) for name in names)
        return [each for each in found if each is not None]

    def turns(self) -> list[ResizeOperation]:
        """Return the operations that run, then those that wait for their turn; none that waits for an operator."""
        taking = (each for each in self.under_way() if each.phase not in NEEDS_OPERATOR)
        return sorted(taking, key=lambda each: (each.phase is ResizePhase.PLANNED, each.created_unix_ms))

    def ended(self) -> list[OperationSummary]:
        return sorted(self._ended.summaries(), key=lambda each: (-each.created_unix_ms, each.id))

    def former_sets(self, topic: str) -> tuple[str, ...]:
        """Return the broker sets that had a topic when it was resized before."""
        ids = (each for each in self.ended_ids() if each.rpartition(".")[0] == topic)
        found = (self.find_ended(each) for each in ids)
        return tuple(sorted({resize.broker_name for each in found if each is not None for resize in each.sets}))

    def ended_ids(self) -> list[str]:
        """Return the ids of the operations that have ended; of those that cannot be read too."""
        return self._documents.names(DocumentKind.SCALING_HISTORY)

    def find_ended(self, operation_id: str) -> ResizeOperation | None:
        """Return an operation that has ended; None if there is none, or it cannot be read."""
        return _readable(self._ended, operation_id)

    def problems(self) -> dict[str, str]:
        """Return what is stored and cannot be read, by topic or id."""
        return self._under_way.problems() | self._ended.problems()

    def of_topic(self, topic: str) -> ResizeOperation | None:
        """Return the operation of a topic that is under way; raises StoreError if it cannot be read."""
        return self._under_way.get(topic)

    def find(self, operation_id: str) -> ResizeOperation | None:
        found = (each for each in self.under_way() if each.id == operation_id)
        return next(found, None) or self._ended.get(operation_id)

    async def add(self, operation: ResizeOperation) -> None:
        """Store a new operation; raises OperationExists, and StoreError."""

        def decide(stored: bytes | None) -> bytes:
            if stored is not None:
                raise OperationExists(decode_operation(operation.topic, stored))
            return encode_operation(operation)

        await self._documents.change(DocumentKind.SCALING_OPERATION, operation.topic, decide)

    def check_stored(self, operation: ResizeOperation) -> None:
        """Raise OperationMoved unless the operation is stored as it is here; StoreError if it cannot be read."""
        if self.of_topic(operation.topic) != operation:
            raise OperationMoved(f"{operation.id} has changed meanwhile")

    async def replace(self, before: ResizeOperation, after: ResizeOperation) -> None:
        """Store a changed operation if it is still as it was; raises OperationMoved, and StoreError."""

        def decide(stored: bytes | None) -> bytes:
            if stored is None or decode_operation(before.topic, stored) != before:
                raise OperationMoved(f"{before.id} has changed meanwhile")
            return encode_operation(after)

        await self._documents.change(DocumentKind.SCALING_OPERATION, before.topic, decide)

    async def change(
        self, operation: ResizeOperation, decide: Callable[[ResizeOperation], ResizeOperation]
    ) -> tuple[ResizeOperation, ResizeOperation]:
        """Store what `decide` makes of the newest state; return both. Raises OperationMoved if the operation ended."""
        states: list[ResizeOperation] = []

        def decided(stored: bytes | None) -> bytes:
            if stored is None or (before := decode_operation(operation.topic, stored)).id != operation.id:
                raise OperationMoved(f"{operation.id} has ended meanwhile")
            states[:] = [before, decide(before)]
            return encode_operation(states[1])

        await self._documents.change(DocumentKind.SCALING_OPERATION, operation.topic, decided)
        return states[0], states[1]

    async def end(self, operation: ResizeOperation) -> None:
        """Move an ended operation to the others that have ended; can be repeated. Raises StoreError."""

        def without(stored: bytes | None) -> bytes | None:
            is_it = stored is None or decode_operation(operation.topic, stored).id == operation.id
            return None if is_it else stored

        kind = DocumentKind.SCALING_HISTORY
        await self._documents.change(kind, operation.id, lambda _: encode_operation(operation))
        if operation.problem == DELETED:
            await self._documents.change(DocumentKind.GROUP_KINDS, operation.topic, lambda _: None)
        await self._documents.change(DocumentKind.SCALING_OPERATION, operation.topic, without)
        for each in self.ended()[ENDED_MAX:]:
            await self._documents.change(kind, each.id, lambda _: None)


def why_no_turn(ahead: int) -> str:
    """Return why an operation does not start, with so many `turns` ahead of it."""
    return (
        f"{ahead} other resizes run or wait for their turn, which is the limit (scalingOperationsMax); those that wait "
        "for an operator do not count"
    )


def _readable(operations: DecodedOperations, name: str) -> ResizeOperation | None:
    try:
        return operations.get(name)
    except StoreError:
        return None
