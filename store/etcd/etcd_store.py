"""The etcd store: several controllers share it, one of them leads, and only what that one writes is stored.

Each write compares the revision it was decided on and the key `leader` it was made under. Import this only where etcd
is configured: it loads gRPC.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from controller.sets.stored_set import StoredSet
from remoting.background_tasks import BackgroundTasks, Report
from remoting.clock import Clock
from serving.telemetry.events import Emit
from store.documents import DOCUMENT_PAGE, DocumentKind, VersionedDocument
from store.etcd import calls
from store.etcd.calls import LeaderKeyState, OwnLeaderKey
from store.etcd.client import EtcdClient, EtcdOptions, System, Unreachable
from store.etcd.keys import Keys, below, entry_value, shown_key, versioned_document_of, versioned_entry_of
from store.etcd.lease import LeaderElection
from store.etcd.lease_state_machine import Leadership
from store.etcd.revisions import KnownRevisions
from store.etcd.threads import CallThreads
from store.etcd.watch import TASK, Change, EntryChanged, KeySnapshot, MemberChanged, Watch
from store.store import (
    ControllerMember,
    Deposed,
    EntryMoved,
    LeadershipListener,
    OutcomeUnknown,
    StoreError,
    VersionedEntry,
    check_document,
    ignore,
)

#: How long a controller that is gone is still listed.
MEMBER_TTL_S: Final = 15
RENEW_EVERY_S: Final = 5
RETRY_S: Final = 1
#: How long taking oneself off the list may take; without it the lease ends by itself.
LEAVE_MS: Final = 400


class IdTaken(StoreError):
    def __init__(self, me: ControllerMember, address: str) -> None:
        self.me, self.address = me, address
        super().__init__(
            f"two controllers call themselves {me.id}: this one at {me.address} and one at {address}; give each its "
            f"own id (after a change of address wait {MEMBER_TTL_S} s before the restart)"
        )


class Membership:
    def __init__(self, client: EtcdClient, keys: Keys, threads: CallThreads, me: ControllerMember) -> None:
        self._client, self._keys, self._threads, self._me = client, keys, threads, me
        self._lease_id = 0

    async def register(self) -> None:
        """Enter this controller into the list; raises IdTaken, StoreError."""
        request, keys = self._threads.request, self._keys
        address, revision = await request(self._client, "read", calls.member_address(keys.member(self._me.id)))
        if address not in (None, self._me.address):
            raise IdTaken(self._me, address)
        lease_id, _ = await request(self._client, "grant", calls.grant_lease(MEMBER_TTL_S))
        if not await request(self._client, "register", calls.put_member(keys, self._me, lease_id, revision)):
            raise OutcomeUnknown(f"another controller calls itself {self._me.id} at this moment")
        self._lease_id = lease_id

    async def stay(self, is_listed: Callable[[], bool]) -> None:
        """Renew the lease for ever, and register again where it was lost."""
        while True:
            await asyncio.sleep(RENEW_EVERY_S)
            try:
                ttl_s = await self._threads.request(self._client, "renew", calls.renew_lease(self._lease_id))
                if not ttl_s or not is_listed():
                    await self.register()
            except StoreError:
                await asyncio.sleep(RETRY_S)

    async def leave(self) -> None:
        """Take this controller off the list at once, if etcd answers."""
        with suppress(StoreError):  # the lease ends by itself
            await self._threads.request(self._client, "revoke", calls.revoke_lease(self._lease_id), within_ms=LEAVE_MS)


__all__ = ["EtcdOptions", "EtcdStore", "System"]

#: Commits and reads that wait for etcd at once; the others wait for a thread, and their deadlines run.
CALLS_MAX: Final = 8
#: Renewals do not wait behind commits: one thread for the election, one for the membership.
RENEWALS_MAX: Final = 2
#: Calls for documents at once: neither broker sets nor leases wait behind them.
DOCUMENT_CALLS_MAX: Final = 2
#: The call for the size of the database has a thread of its own: nobody waits behind it.
SIZES_MAX: Final = 1
#: How long the answer to it may take.
SIZE_MS: Final = 1000
#: How long closing waits for what is under way to end.
CLOSE_S: Final = 0.3

News = KeySnapshot | list[Change]


class DeposedBy(Deposed):
    def __init__(self, leader_key: LeaderKeyState) -> None:
        self.leader_key = leader_key
        holder = leader_key.holder
        super().__init__(
            "nobody leads" if holder is None else f"{holder.member.id} at {holder.member.address} leads instead"
        )


class Write(NamedTuple):
    """What is to be stored, and by which name people know it."""

    name: str
    key: bytes
    #: None removes the key.
    value: bytes | None
    #: That of the key; 0: it is not there.
    revision: int


class EtcdStore:
    def __init__(
        self,
        options: EtcdOptions,
        clock: Clock,
        emit: Emit = ignore,
        report: Report = ignore,
        system: System | None = None,
    ) -> None:
        """Call nothing yet; raises StoreError if the options cannot be followed. `report` is called from any thread."""
        self._client = EtcdClient(options, clock, system)
        self._clock = clock
        self._keys = Keys(options.group)
        self._calls = CallThreads(CALLS_MAX, clock, emit)
        self._renewals = CallThreads(RENEWALS_MAX, clock, emit)
        self._document_calls = CallThreads(DOCUMENT_CALLS_MAX, clock, emit)
        # Not reported: the size proves nothing about whether etcd serves.
        self._sizes = CallThreads(SIZES_MAX, clock, ignore)
        self._known = KnownRevisions()
        self._members: dict[str, ControllerMember] = {}
        self._listener: LeadershipListener | None = None
        self._election: LeaderElection | None = None
        self._membership: Membership | None = None
        self._watch: Watch | None = None
        self._report_failure = report
        self._background = BackgroundTasks(report)
        self._tasks: list[asyncio.Task[Any]] = []

    async def join(self, me: ControllerMember, listener: LeadershipListener) -> None:
        """Register, follow the others, and stand for election; raises StoreError, after which it may be tried again."""
        membership = Membership(self._client, self._keys, self._renewals, me)
        await membership.register()
        self._membership, self._listener = membership, listener
        self._election = LeaderElection(self._client, self._keys, self._renewals, self._clock, self._on_rollback)
        loop = asyncio.get_running_loop()
        self._watch = Watch(
            self._client,
            self._keys,
            self._clock,
            lambda news: _post(loop, self._on_news, news),
            self._report_failure,
        )
        leadership = Leadership(me=me, run=secrets.token_hex(8))
        self._tasks = [
            self._election.start(leadership, listener, self._background),
            self._background.keep_running(lambda: membership.stay(lambda: me.id in self._members), "etcd_membership"),
        ]
        self._watch.start()

    async def resign(self) -> None:
        """Give the key `leader` back; without an answer the lease is left to end by itself."""
        if self._election is not None:
            await self._election.resign()

    def pass_on(self) -> None:
        if self._election is not None:
            self._election.pass_on()

    async def load(self) -> Mapping[str, VersionedEntry]:
        entries = await self._calls.run("load", lambda _: self._load())
        for name, versioned in entries.items():
            self._known.revision_known(name, versioned.revision)
        return entries

    async def read(self, broker_name: str) -> VersionedEntry:
        call = calls.read(self._keys.broker_set(broker_name))
        try:
            kv = await self._calls.request(self._client, "read", call)
        except Unreachable as error:
            raise OutcomeUnknown(str(error)) from None  # for who reads to learn what has become of a commit
        if kv is None:
            return VersionedEntry()
        versioned = versioned_entry_of(kv)
        self._known.revision_known(broker_name, versioned.revision)
        return versioned

    async def commit(self, broker_name: str, entry: StoredSet, revision: int) -> int:
        value = entry_value(entry) if entry != StoredSet() else None
        self._known.commit_begins(broker_name)
        try:
            stored = await self._committed(
                self._calls, "commit", Write(broker_name, self._keys.broker_set(broker_name), value, revision)
            )
            self._known.revision_known(broker_name, stored)
        finally:
            self._report(self._known.commit_ends(broker_name))
        return stored

    async def load_documents(self, kind: DocumentKind) -> Mapping[str, VersionedDocument]:
        return await self._document_calls.run("load_documents", lambda _: self._load_documents(kind))

    async def read_document(self, kind: DocumentKind, name: str) -> VersionedDocument:
        check_document(kind, name, None)
        call = calls.read(self._keys.document(kind, name))
        kv = await self._document_calls.request(self._client, "read_document", call)
        return VersionedDocument() if kv is None else versioned_document_of(kv)

    async def commit_document(self, kind: DocumentKind, name: str, value: bytes | None, revision: int) -> int:
        check_document(kind, name, value)
        write = Write(f"{kind} {name}", self._keys.document(kind, name), value, revision)
        return await self._committed(self._document_calls, "commit_document", write)

    async def size_bytes(self) -> int | None:
        call = calls.database_bytes()
        return await self._sizes.run(
            "size", lambda deadline_ms: self._client.request_once(call, deadline_ms=deadline_ms), within_ms=SIZE_MS
        )

    async def close(self) -> None:
        """Leave the group, and end all threads; what etcd does not answer within a moment is left to its leases."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._election is not None:
            self._election.stop()
        if self._membership is not None:
            await self._membership.leave()
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        self._client.close()
        if self._watch is not None:
            self._watch.stop(seconds=CLOSE_S)
        self._calls.close()
        self._document_calls.close()
        self._renewals.close()
        self._sizes.close()

    def _load(self) -> dict[str, VersionedEntry]:
        kvs, _ = calls.read_all(self._client, below(self._keys.sets), self._clock.now_ms)
        return dict(self._loaded(kv) for kv in kvs)

    def _loaded(self, kv: Any) -> tuple[str, VersionedEntry]:
        name = shown_key(kv.key)
        try:
            name = self._keys.broker_name(kv.key)
            return name, versioned_entry_of(kv)
        except StoreError as error:
            return name, VersionedEntry(revision=kv.mod_revision, problem=str(error))

    def _load_documents(self, kind: DocumentKind) -> dict[str, VersionedDocument]:
        keys = below(self._keys.documents_of(kind))
        kvs, _ = calls.read_all(self._client, keys, self._clock.now_ms, DOCUMENT_PAGE)
        return dict(self._loaded_document(kind, kv) for kv in kvs)

    def _loaded_document(self, kind: DocumentKind, kv: Any) -> tuple[str, VersionedDocument]:
        try:
            return self._keys.document_name(kind, kv.key), versioned_document_of(kv)
        except StoreError as error:
            return shown_key(kv.key), VersionedDocument(revision=kv.mod_revision, problem=str(error))

    async def _committed(self, threads: CallThreads, kind: str, write: Write) -> int:
        """Return the revision at which this is stored; raises Deposed, also if this controller does not lead."""
        election = self._election
        own_key = None if election is None else election.own_key
        if election is None or own_key is None:
            raise Deposed(f"{write.name}: this controller does not lead")
        try:
            stored = await threads.run(kind, partial(self._commit, write, own_key))
        except DeposedBy as error:
            election.observed(error.leader_key)
            election.recheck()
            raise
        election.revision_seen(stored)
        return stored

    def _commit(self, write: Write, own_key: OwnLeaderKey, deadline_ms: int) -> int:
        call = calls.commit(self._keys, own_key, write.key, write.value, write.revision)
        outcome = self._client.request(call, deadline_ms=deadline_ms, is_repeatable=False)
        if outcome.is_stored:
            return outcome.leader_key.revision
        if not own_key.is_of(outcome.leader_key.holder):
            raise DeposedBy(outcome.leader_key)
        raise EntryMoved(f"{write.name} is no longer at revision {write.revision}")

    def _on_rollback(self) -> None:
        """Doubt everything: etcd was put back to an older state."""
        self._known.invalidate()
        if self._listener is not None:
            self._listener.put_back()
        assert self._watch is not None, "who stands for election watches too"
        self._watch.restart()

    def _on_news(self, news: KeySnapshot | list[Change]) -> None:
        if isinstance(news, KeySnapshot):
            self._attempt(lambda: self._on_snapshot(news))
            return
        for change in news:
            self._attempt(partial(self._on_change, change))

    def _attempt(self, on_news: Callable[[], None]) -> None:
        try:
            on_news()
        except Exception as error:  # noqa: BLE001  # whatever it is, the other changes are reported
            self._background.report(TASK, error)

    def _on_snapshot(self, snapshot: KeySnapshot) -> None:
        assert self._election is not None, "the watch begins after the election"
        self._election.observed(snapshot.leader_key)
        self._members = dict(snapshot.members)
        self._report_members()
        self._report(self._known.snapshot_read(snapshot.entries, snapshot.leader_key.revision))

    def _on_change(self, change: Change) -> None:
        assert self._election is not None, "the watch begins after the election"
        match change:
            case LeaderKeyState():
                self._election.observed(change)
            case MemberChanged(member_id, None):
                self._members.pop(member_id, None)
                self._report_members()
            case MemberChanged(member_id, member) if member is not None:
                self._members[member_id] = member
                self._report_members()
            case EntryChanged(broker_name, versioned):
                self._election.revision_seen(versioned.revision)
                self._report(self._known.observed(broker_name, versioned))

    def _report_members(self) -> None:
        if self._listener is not None:
            self._listener.members_changed(tuple(self._members[each] for each in sorted(self._members)))

    def _report(self, reports: Iterable[tuple[str, VersionedEntry]]) -> None:
        for broker_name, versioned in reports:
            if self._listener is not None:
                self._listener.entry_changed(broker_name, versioned)


def _post(loop: asyncio.AbstractEventLoop, on_news: Callable[[News], None], news: News) -> None:
    with suppress(RuntimeError):  # the loop has ended, and nothing takes the report
        loop.call_soon_threadsafe(on_news, news)
