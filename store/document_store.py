"""The documents as the leader knows them, and the one way in which they change: decide, commit, apply.

Values are bytes; whoever changes a document encodes and decodes it. Changes of one document take turns.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from store.documents import DOCUMENTS_OF_KIND_MAX, DocumentKind, VersionedDocument
from store.store import (
    DocumentRefused,
    EntryMoved,
    OutcomeUnknown,
    StoreBackend,
    StoreError,
    check_document,
)

#: How often a document that others change is decided anew.
_TRIES: Final = 3
#: How long a change may take, the wait for earlier ones included: no broker waits for its answer.
DOCUMENT_COMMIT_S: Final = 5.0
#: How long it may take to find out what has become of a commit that was not answered: one call to etcd.
DOCUMENT_READ_AGAIN_S: Final = 2.0

#: What is known of a document that is not stored.
_NOTHING: Final = VersionedDocument()


class ChangedDocument(NamedTuple):
    """The value of a document before and after a change; None: there is no such document."""

    before: bytes | None
    after: bytes | None


class DocumentStore:
    """The documents of some kinds as this controller knows them: valid while it leads, from its last `load` on."""

    def __init__(self, backend: StoreBackend, kinds: Iterable[DocumentKind] = DocumentKind) -> None:
        self._backend = backend
        self._documents: dict[DocumentKind, dict[str, VersionedDocument]] = {kind: {} for kind in kinds}
        #: Moves whenever what is known of documents changes.
        self.changes = 0
        #: Only of documents that are being changed.
        self._locks: WeakValueDictionary[tuple[DocumentKind, str], asyncio.Lock] = WeakValueDictionary()

    async def load(self, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Know everything that is stored now, unless it `is_wanted` no more by then; raises StoreError."""
        documents = {kind: dict(await self._backend.load_documents(kind)) for kind in self._documents}
        if is_wanted():
            self._documents = documents
            self.changes += 1

    def names(self, kind: DocumentKind) -> list[str]:
        """Return the names of all documents of a kind, in their order; of those that cannot be read too."""
        return sorted(self._documents[kind])

    def problems(self, kind: DocumentKind) -> Mapping[str, str]:
        return {name: versioned.problem for name, versioned in self._documents[kind].items() if versioned.problem}

    def get(self, kind: DocumentKind, name: str) -> bytes | None:
        """Return the value of a document, None if there is none; raises StoreError if it cannot be read."""
        return _value_of(self._known(kind, name))

    async def change(
        self,
        kind: DocumentKind,
        name: str,
        decide: Callable[[bytes | None], bytes | None],
        within_s: float = DOCUMENT_COMMIT_S,
    ) -> ChangedDocument:
        """Store what `decide` makes of a value, and return it once it is durable; None: there is no such document.

        What `decide` raises goes through, and nothing has changed. Raises DocumentRefused, and StoreError if it cannot
        be stored within `within_s`; DOCUMENT_READ_AGAIN_S more if the outcome is unknown.
        """
        ends_s = asyncio.get_running_loop().time() + within_s
        lock = self._locks.setdefault((kind, name), asyncio.Lock())
        try:
            async with asyncio.timeout_at(ends_s):
                await lock.acquire()
        except TimeoutError:
            raise StoreError(f"{kind} {name}: earlier changes still wait for the store") from None
        try:
            return await self._change(kind, name, decide, ends_s)
        finally:
            lock.release()

    async def _change(
        self, kind: DocumentKind, name: str, decide: Callable[[bytes | None], bytes | None], ends_s: float
    ) -> ChangedDocument:
        if self._known(kind, name).problem:
            # An operator may have repaired it meanwhile.
            await self._read_again(kind, name, ends_s)
        for _ in range(_TRIES):
            known = self._known(kind, name)
            before = _value_of(known)
            after = decide(before)
            if after == before:
                return ChangedDocument(before, before)
            self._check(kind, name, after)
            try:
                revision = await self._commit(kind, name, after, known.revision, ends_s)
            except EntryMoved:
                await self._read_again(kind, name, ends_s)
                continue
            self._apply(kind, name, after, revision)
            return ChangedDocument(before, after)
        raise EntryMoved(f"{kind} {name} was changed by others {_TRIES} times while it was decided about")

    def _check(self, kind: DocumentKind, name: str, value: bytes | None) -> None:
        check_document(kind, name, value)
        documents = self._documents[kind]
        if value is not None and name not in documents and len(documents) >= DOCUMENTS_OF_KIND_MAX:
            raise DocumentRefused(kind, name, f"there are {len(documents)} of them; remove some")

    async def _commit(self, kind: DocumentKind, name: str, value: bytes | None, revision: int, ends_s: float) -> int:
        if asyncio.get_running_loop().time() >= ends_s:
            raise StoreError(f"{kind} {name}: no time was left to store it")
        try:
            async with asyncio.timeout_at(ends_s):
                return await self._backend.commit_document(kind, name, value, revision)
        except (OutcomeUnknown, TimeoutError) as error:
            cause = str(error) or "the store did not answer in time"
        try:
            versioned = await self._read_again(kind, name, ends_s)
        except StoreError:
            raise OutcomeUnknown(f"{kind} {name}: it is not known whether the store has it: {cause}") from None
        is_removed = value is None and versioned.revision == 0
        if is_removed or (versioned.value == value and versioned.revision > revision):
            return max(versioned.revision, revision)
        raise OutcomeUnknown(f"{kind} {name}: the store does not have it: {cause}")

    async def _read_again(self, kind: DocumentKind, name: str, ends_s: float) -> VersionedDocument:
        """Know a document as it is stored, and return it; raises OutcomeUnknown if that takes too long."""
        try:
            async with asyncio.timeout_at(ends_s + DOCUMENT_READ_AGAIN_S):
                while True:
                    known = self._known(kind, name)
                    versioned = await self._backend.read_document(kind, name)
                    # What was loaded meanwhile may be newer than what was read.
                    if self._known(kind, name) is known:
                        self._keep(kind, name, versioned)
                        return versioned
        except TimeoutError:
            raise OutcomeUnknown(f"{kind} {name}: it could not be read again in time") from None

    def _apply(self, kind: DocumentKind, name: str, value: bytes | None, revision: int) -> None:
        """Know what was stored, unless something newer was loaded meanwhile."""
        if revision >= self._known(kind, name).revision:
            self._keep(kind, name, _NOTHING if value is None else VersionedDocument(value, revision))

    def _keep(self, kind: DocumentKind, name: str, versioned: VersionedDocument) -> None:
        self.changes += 1
        if versioned.revision:
            self._documents[kind][name] = versioned
        else:
            self._documents[kind].pop(name, None)

    def _known(self, kind: DocumentKind, name: str) -> VersionedDocument:
        return self._documents[kind].get(name, _NOTHING)


def _value_of(versioned: VersionedDocument) -> bytes | None:
    if versioned.problem:
        raise StoreError(versioned.problem)
    return versioned.value if versioned.revision else None
