"""The stored operations of one kind, decoded once: they are listed by operators and at each scrape of metrics.

Decoded operations are kept up to a limit; of the others only what a list is sorted and filtered by.
"""

from typing import Final, NamedTuple

import msgspec

from controller.scaling.resize.operation import NewerOperation, ResizeOperation, decode_operation
from remoting.slices import in_slices
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


class _Known(NamedTuple):
    """What was made of a stored text."""

    text: bytes
    summary: OperationSummary | None
    #: Why it cannot be read; blank if it can.
    problem: str


class DecodedOperations:
    """The operations of one kind, by the name of their document."""

    def __init__(self, documents: DocumentStore, kind: DocumentKind) -> None:
        self._documents = documents
        self._kind = kind
        #: The least recently used first.
        self._kept: dict[str, tuple[bytes, ResizeOperation]] = {}
        self._kept_bytes = 0
        self._known: dict[str, _Known] = {}

    async def read_all(self) -> None:
        """Know all operations, and let others run meanwhile."""
        async for names in in_slices(self._documents.names(self._kind), _AT_ONCE):
            for name in names:
                self._know(name)

    def get(self, name: str) -> ResizeOperation | None:
        """Return an operation, None if there is none; raises StoreError if it cannot be read."""
        text = self._documents.get(self._kind, name)
        kept = self._kept.pop(name, None)
        if kept is not None:
            if text is not None and (kept[0] is text or kept[0] == text):
                # What is stored was read again, or is the same still: one copy of it is enough.
                self._kept[name] = (text, kept[1])
                return kept[1]
            self._kept_bytes -= len(kept[0])
        return None if text is None else self._decoded(name, text)

    def summaries(self) -> list[OperationSummary]:
        """Return all operations that can be read."""
        return [each.summary for each in self._look().values() if each.summary is not None]

    def problems(self) -> dict[str, str]:
        """Return which operations cannot be read, and why, by the names of their documents."""
        return {name: each.problem for name, each in self._look().items() if each.problem}

    def _look(self) -> dict[str, _Known]:
        """Know what is stored now, and nothing else."""
        self._known = {name: self._know(name) for name in self._documents.names(self._kind)}
        for name in self._kept.keys() - self._known.keys():
            self._kept_bytes -= len(self._kept.pop(name)[0])
        return self._known

    def _know(self, name: str) -> _Known:
        try:
            text = self._documents.get(self._kind, name) or b""
            known = self._known.get(name)
            if known is None or known.text is not text:
                known = self._known[name] = self._read(name, text)
        except StoreError as error:
            return _Known(b"", None, str(error))
        return known

    def _read(self, name: str, text: bytes) -> _Known:
        try:
            operation = self.get(name)
        except StoreError as error:
            return _Known(text, None, str(error))
        assert operation is not None, "it has just been named"
        return _Known(text, OperationSummary(operation.id, operation.topic, operation.created_unix_ms), "")

    def _decoded(self, name: str, text: bytes) -> ResizeOperation:
        operation = decoded(name, text)
        self._kept[name] = (text, operation)
        self._kept_bytes += len(text)
        while self._kept_bytes > KEPT_BYTES_MAX and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._kept_bytes -= len(self._kept.pop(oldest)[0])
        return operation


def decoded(name: str, stored: bytes) -> ResizeOperation:
    """Return a stored operation; raises StoreError with the name of its document if it cannot be read."""
    try:
        return decode_operation(stored)
    except NewerOperation as error:
        raise StoreError(f"the operation stored as {name} {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"the operation stored as {name} cannot be read: {error}") from None
