"""Broker sets as they are stored, and the one way in which they change: decide, commit, apply.

A decision is made on the set as it is known here. It counts only once it is stored; if somebody else has changed the
set meanwhile, the set is read again and decided anew. Requests of one set take turns.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, Protocol
from weakref import WeakValueDictionary

import msgspec

from controller.failure_detection.heartbeats import BrokerKey
from controller.sets.broker_set import BrokerSet
from controller.sets.stored_set import Reply, SetDecision, StoredSet
from remoting.protocol.errors import RemotingError
from store.documents import (
    DOCUMENT_NAME_CHARACTERS_MAX,
    DocumentKind,
    VersionedDocument,
    fault_of_document,
)
from store.set_changes import SetChanges

#: How often a set that others change is decided anew.
_TRIES: Final = 3
#: A broker waits 3 s for an answer; it is to get one before that even if the store is too slow.
COMMIT_S: Final = 2.0
#: How long it may take to find out what has become of a commit that was not answered.
READ_AGAIN_S: Final = 0.5


class VersionedEntry(NamedTuple):
    """An entry and its revision; revision 0 is that of an entry that does not exist."""

    entry: StoredSet = StoredSet()
    revision: int = 0
    #: Why it cannot be read, for people; the entry here is empty then, and is not to be changed.
    problem: str = ""


#: What is known of a name that is not stored.
_NOTHING: Final = VersionedEntry()


class StoreError(RemotingError):
    """The store cannot be reached, or refuses a call."""


class EntryMoved(StoreError):
    """Somebody else has changed the entry, or the document: read it again."""


class Deposed(StoreError):
    """Another controller leads, and nothing more of this one is stored."""


class OutcomeUnknown(StoreError):
    """Nobody knows whether it is stored: read it again."""


class DocumentRefused(StoreError):
    """No store takes this document: it is too large, or no JSON, or its name is too long. Nothing was sent."""

    def __init__(self, kind: DocumentKind, name: str, fault: str) -> None:
        self.kind, self.name, self.fault = kind, name, fault
        super().__init__(f"{kind} {name[:DOCUMENT_NAME_CHARACTERS_MAX]!r} cannot be stored: {fault}")


def check_document(kind: DocumentKind, name: str, value: bytes | None) -> None:
    if fault := fault_of_document(name, value):
        raise DocumentRefused(kind, name, fault)


class ControllerMember(msgspec.Struct, frozen=True, kw_only=True):
    """One controller of a group."""

    id: str
    #: `host:port` at which brokers reach it.
    address: str


class LeadershipListener(Protocol):
    """Receives what a store learns of the other controllers; called in the event loop."""

    def leads(self, until_ms: int | None) -> None:
        """Report that this controller leads until then (monotonic ms), None for ever; called again at each renewal."""

    def follows(self, leader: ControllerMember | None) -> None:
        """Report that this controller does not lead, and who does, if anybody is known to."""

    def members_changed(self, members: tuple[ControllerMember, ...]) -> None:
        """Report who belongs to the group now, this controller too; in the order of their ids."""

    def put_back(self) -> None:
        """Report that the store was put back to an older state; all entries follow, and may be older ones."""

    def entry_changed(self, broker_name: str, versioned: VersionedEntry) -> None:
        """Report an entry that another process has written or removed."""


def ignore(*_: object) -> None:
    """Take what a store tells where nobody wants to know it."""


class StoreBackend(Protocol):
    """One kind of store. Everything may raise StoreError, and nothing of it blocks the event loop."""

    async def join(self, me: ControllerMember, listener: LeadershipListener) -> None:
        """Belong to the controllers of this store from now on, and lead them once nobody else does."""

    async def resign(self) -> None:
        """Let another controller lead at once; this one does not lead again."""

    def pass_on(self) -> None:
        """Let another controller lead, if there is one; this one stands again after some seconds."""

    async def load(self) -> Mapping[str, VersionedEntry]:
        """Return all entries as they are now; what is wrong with one keeps no other from its readers."""

    async def read(self, broker_name: str) -> VersionedEntry:
        """Return one entry as it is now."""

    async def commit(self, broker_name: str, entry: StoredSet, revision: int) -> int:
        """Store an entry durably if its revision is still this one, and return the next revision.

        An empty entry is removed: nothing is left under its name.
        Raises EntryMoved, Deposed, or OutcomeUnknown.
        """

    async def load_documents(self, kind: DocumentKind) -> Mapping[str, VersionedDocument]:
        """Return all documents of a kind, by name; what is wrong with one keeps no other from its readers.

        Followers may read too. No read or write of documents delays broker sets by more than one transaction.
        """

    async def read_document(self, kind: DocumentKind, name: str) -> VersionedDocument:
        """Return one document as it is now; followers may."""

    async def commit_document(self, kind: DocumentKind, name: str, value: bytes | None, revision: int) -> int:
        """Store a document durably if its revision is still this one, and return the next revision.

        None removes it. Raises DocumentRefused, EntryMoved, Deposed, or OutcomeUnknown.
        """

    async def size_bytes(self) -> int | None:
        """Return the size of etcd's database, None of a file; whether it hangs, no other call is worse off."""

    async def close(self) -> None:
        """Let go of everything."""


class Changed(NamedTuple, Generic[Reply]):
    decision: SetDecision[Reply]
    before: BrokerSet | None
    after: BrokerSet | None


class SetCache(Protocol):
    """What is derived from sets, and valid until they change."""

    def discard(self, broker_name: str) -> None:
        """Discard what was derived from a set: it has changed."""

    def clear(self) -> None:
        """Discard everything: all sets were loaded anew."""


class SetListener(Protocol):
    """Takes every change of a set, in the order in which they were stored; not what is loaded."""

    def set_changed(self, before: BrokerSet | None, after: BrokerSet | None) -> None:
        """Take what a set was, and what it is now; None where there is none."""


class SetStore:
    def __init__(
        self, backend: StoreBackend, cache: SetCache | None = None, listener: SetListener | None = None
    ) -> None:
        self._backend, self._cache, self._listener = backend, cache, listener
        #: For those who follow the sets as they change.
        self.changes = SetChanges()
        self._entries: dict[str, VersionedEntry] = {}
        self._members = 0
        #: The master epochs of sets before the store was put back: their masters may have made no contact since.
        self._epochs_seen: dict[str, int] = {}
        #: Only of sets that are being changed: anybody can name any set.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def load(self, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Know everything that is stored now, unless it `is_wanted` no more: what came meanwhile may be newer."""
        versioned = dict(await self._backend.load())
        if is_wanted():
            self._entries = versioned
            self._members = sum(map(_members_of, versioned.values()))
            if self._cache is not None:
                self._cache.clear()
            self.changes.begin_anew()

    def problems(self) -> Mapping[str, str]:
        """Return what is stored and cannot be read: by the name of its set, why."""
        return {name: versioned.problem for name, versioned in self._entries.items() if versioned.problem}

    def check_readable(self, broker_name: str) -> None:
        """Raise StoreError if what is stored under a name cannot be read: it is not known what the set is."""
        if (versioned := self._entries.get(broker_name)) is not None and versioned.problem:
            raise StoreError(versioned.problem)

    def entry(self, broker_name: str) -> StoredSet:
        return self._entries.get(broker_name, _NOTHING).entry

    def get(self, broker_name: str) -> BrokerSet | None:
        versioned = self._entries.get(broker_name)
        return None if versioned is None else versioned.entry.broker_set

    def address_of(self, key: BrokerKey) -> str | None:
        """Return where a broker is by what is stored; None if it belongs to no set that is known here."""
        broker_set = self.get(key.broker_name)
        replica = broker_set.replicas.get(key.broker_id) if broker_set is not None else None
        return None if replica is None else replica.address

    def is_master(self, key: BrokerKey) -> bool:
        broker_set = self.get(key.broker_name)
        return broker_set is not None and broker_set.master == key.broker_id

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def members(self) -> int:
        return self._members

    def sets(self) -> Iterable[BrokerSet]:
        return (
            versioned.entry.broker_set for versioned in self._entries.values() if versioned.entry.broker_set is not None
        )

    def entry_changed(self, broker_name: str, versioned: VersionedEntry) -> None:
        """Take over what has become of a set, unless it is older than what is known."""
        if versioned.revision > self._entries.get(broker_name, _NOTHING).revision:
            self._keep(broker_name, versioned)

    def epoch_seen(self, broker_name: str) -> int:
        """Return the highest master epoch that was known here before the store was put back, 0 if it never was."""
        return self._epochs_seen.get(broker_name, 0)

    def put_back(self) -> None:
        """Take over whatever is reported next of each set, older or not: the store was put back to an older state."""
        for broker_set in self.sets():
            seen = self._epochs_seen.get(broker_set.broker_name, 0)
            self._epochs_seen[broker_set.broker_name] = max(seen, broker_set.master_epoch)
        self._entries = {name: versioned._replace(revision=-1) for name, versioned in self._entries.items()}

    def names(self) -> list[str]:
        return list(self._entries)

    def _keep(self, broker_name: str, versioned: VersionedEntry) -> None:
        former = self._entries.get(broker_name, _NOTHING)
        self._members += _members_of(versioned) - _members_of(former)
        if versioned.entry == _NOTHING.entry and not versioned.problem:
            # It is not stored any more; who begins it again begins at revision 0.
            self._entries.pop(broker_name, None)
        else:
            self._entries[broker_name] = versioned
        before, after = former.entry.broker_set, versioned.entry.broker_set
        if before is None or after is None:
            is_shown_as_before = before is after and former.problem == versioned.problem
        else:
            # Log ends are stored every 30 s, and nobody waits for them.
            is_shown_as_before = before.differs_only_in_log_ends(after)
        if is_shown_as_before:
            return
        if self._cache is not None:
            self._cache.discard(broker_name)
        self.changes.set_changed(broker_name)
        if self._listener is not None:
            self._listener.set_changed(before, after)

    def is_changing(self, broker_name: str) -> bool:
        """Return whether a change of a set is under way: the store may have it already."""
        lock = self._locks.get(broker_name)
        return lock is not None and lock.locked()

    async def change(
        self, broker_name: str, decide: Callable[[StoredSet], SetDecision[Reply]], within_s: float = COMMIT_S
    ) -> Changed[Reply]:
        """Store what `decide` makes of a set, and return it once it is durable.

        What `decide` raises goes through, and nothing has changed. Raises StoreError if it cannot be stored within
        `within_s`, the wait for earlier changes of the set included; READ_AGAIN_S more if the outcome is unknown.
        """
        ends_s = asyncio.get_running_loop().time() + within_s
        lock = self._locks.setdefault(broker_name, asyncio.Lock())
        try:
            async with asyncio.timeout_at(ends_s):
                await lock.acquire()
        except TimeoutError:
            raise StoreError(f"{broker_name}: earlier changes still wait for the store") from None
        try:
            return await self._change(broker_name, decide, ends_s)
        finally:
            lock.release()

    async def _change(
        self, broker_name: str, decide: Callable[[StoredSet], SetDecision[Reply]], ends_s: float
    ) -> Changed[Reply]:
        for _ in range(_TRIES):
            self.check_readable(broker_name)
            versioned = self._entries.get(broker_name, _NOTHING)
            decision = decide(versioned.entry)
            before = versioned.entry.broker_set
            wanted = decision.after(versioned.entry)
            if wanted == versioned.entry:
                return Changed(decision, before, before)
            try:
                revision = await self._commit(broker_name, wanted, versioned.revision, ends_s)
            except EntryMoved:
                await self._read_again(broker_name, ends_s)
                continue
            self.entry_changed(broker_name, VersionedEntry(wanted, revision))
            return Changed(decision, before, wanted.broker_set)
        raise EntryMoved(f"{broker_name} was changed by others {_TRIES} times while it was decided about")

    async def _commit(self, broker_name: str, entry: StoredSet, revision: int, ends_s: float) -> int:
        if asyncio.get_running_loop().time() >= ends_s:
            raise StoreError(f"{broker_name}: no time was left to store it")
        try:
            async with asyncio.timeout_at(ends_s):
                return await self._backend.commit(broker_name, entry, revision)
        except (OutcomeUnknown, TimeoutError) as error:
            cause = str(error) or "the store did not answer in time"
        try:
            versioned = await self._read_again(broker_name, ends_s)
        except OutcomeUnknown:
            raise OutcomeUnknown(f"{broker_name}: it is not known whether the store has it: {cause}") from None
        if versioned.entry == entry and versioned.revision > revision:
            return versioned.revision
        raise OutcomeUnknown(f"{broker_name}: the store does not have it: {cause}")

    async def _read_again(self, broker_name: str, ends_s: float) -> VersionedEntry:
        """Know an entry as it is stored, and return it; raises OutcomeUnknown if that takes too long after the end."""
        try:
            async with asyncio.timeout_at(ends_s + READ_AGAIN_S):
                while True:
                    known = self._entries.get(broker_name)
                    versioned = await self._backend.read(broker_name)
                    # What was reported meanwhile may be newer than what was read, and may have been answered already.
                    if self._entries.get(broker_name) is known:
                        self._keep(broker_name, versioned)
                        return versioned
        except TimeoutError:
            raise OutcomeUnknown(f"{broker_name}: it could not be read again in time") from None


def _members_of(versioned: VersionedEntry) -> int:
    broker_set = versioned.entry.broker_set
    return len(broker_set.replicas) if broker_set is not None else 0
