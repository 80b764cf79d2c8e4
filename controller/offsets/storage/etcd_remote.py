"""The remote store in etcd: several managers share it, one of them leads, and only what that one writes is stored.

It has endpoints, a connection and a prefix of its own, `/rmq-offsets/<group>/`, and limits what it sends. A prefix
does not isolate the log of etcd: where offsets are many, give them an etcd of their own. Import this only where etcd
is configured: it loads gRPC.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from controller.offsets.storage.etcd_rows import BatchOutcome, put_rows, rows_from
from controller.offsets.storage.formats.batches import BATCH_BYTES_MAX, KeyPut, WriteRate, batches
from controller.offsets.storage.formats.row_keys import ForeignKey, path_of, row_of
from controller.offsets.storage.formats.row_values import UnreadableRow, decoded_row, encoded_row
from controller.offsets.storage.remote import (
    ABSENT,
    PutOutcome,
    RemoteRow,
    RowMoved,
    RowPage,
    RowResult,
    RowStored,
    RowTooLarge,
    RowWrite,
)
from controller.offsets.values import GroupTopic
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from store.etcd.calls import OwnLeaderKey
from store.etcd.client import EtcdClient, EtcdOptions, System
from store.etcd.keys import Keys, after_prefix, shown_key
from store.etcd.lease import LeaderElection
from store.etcd.lease_state_machine import Leadership
from store.etcd.threads import CallThreads
from store.store import ControllerMember, Deposed, OutcomeUnknown, StoreObserver, VersionedEntry

#: The first part of all keys.
ROOT: Final = "rmq-offsets"
#: Rows of one page; the second number where an answer of so many was too large.
PAGE_ROWS: Final = (500, 25)
#: How often a batch of which some rows had moved is sent again without them.
TRIES_MAX: Final = 3

Result = TypeVar("Result")


class ManagerLeadership(Protocol):
    """Receives who leads the managers of a store; called in the event loop."""

    def leads(self, until_ms: int | None) -> None:
        """Report that this manager leads until then (monotonic ms), None for ever; called again at each renewal."""

    def follows(self, leader: ControllerMember | None) -> None:
        """Report that this manager does not lead, and who does, if anybody is known to."""

    def put_back(self) -> None:
        """Report that the store was put back to an older state: what is stored may be older than what was flushed."""


class EtcdRemote:
    """The rows of one group of managers."""

    is_shared = True

    def __init__(
        self,
        options: EtcdOptions,
        clock: Clock,
        observer: StoreObserver | None = None,
        rate: WriteRate | None = None,
        system: System | None = None,
    ) -> None:
        """Call nothing yet; raises StoreError if the options cannot be followed."""
        self._client = EtcdClient(options, clock, system)
        self._clock = clock
        self._keys = Keys(options.group, ROOT)
        self._rows = self._keys.prefix + b"offsets/"
        self._store_id = self._keys.prefix + b"store-id"
        self._rate = rate or WriteRate()
        observer = observer or StoreObserver()
        self._calls = CallThreads(1, clock, observer)
        #: Renewals do not wait behind writes.
        self._renewals = CallThreads(1, clock, observer)
        self._background = BackgroundTasks(observer.task_failed)
        self._election: LeaderElection | None = None
        #: Writes take turns: their order is that of the calls, and the rate is one for all.
        self._turn = asyncio.Lock()
        #: When the next write may begin, monotonic ms.
        self._due_ms = 0.0

    def join(self, me: ControllerMember, listener: ManagerLeadership) -> None:
        """Stand for election from now on."""
        self._election = LeaderElection(self._client, self._keys, self._renewals, self._clock, listener.put_back)
        self._election.start(Leadership(me=me, run=secrets.token_hex(8)), _ElectionListener(listener), self._background)

    def pass_on(self) -> None:
        """Let another manager lead at once, and stand again after a while: nobody else may be there."""
        if self._election is not None:
            self._election.pass_on()

    async def resign(self) -> None:
        """Let another manager lead at once; flush first, since nothing is stored after it."""
        if self._election is not None:
            await self._election.resign()

    async def close(self) -> None:
        """Fail the calls under way, and end the threads; the lease ends by itself unless `resign` was called."""
        if self._election is not None:
            self._election.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._client.close)
        self._calls.close()
        self._renewals.close()

    @property
    def lead(self) -> int:
        """Return the number of this manager's lead, which rises with each lead of the group; 0 if it does not lead.

        It is the revision at which the leader key was made, so it rises unless etcd is put back to an older state.
        """
        own_key = None if self._election is None else self._election.own_key
        return 0 if own_key is None else own_key.token

    @property
    def leads_seen(self) -> int:
        """As RemoteStore has it."""
        return 0 if self._election is None else self._election.leads_seen

    async def store_id(self) -> str:
        """Return the id that the first leader has given to the rows of this group; blank if none has led yet."""
        call = rows_from(self._store_id, self._store_id + b"\0", 1)
        kvs, _ = await self._call("load", call)
        if not kvs and self.lead:
            made = secrets.token_hex(8)
            async with self._turn:
                outcome = await self._transact([KeyPut(self._store_id, made.encode(), ABSENT)])
            if outcome.is_stored:
                return made
            kvs = outcome.present
        return next((kv.value.decode(errors="replace") for kv in kvs if kv is not None), "")

    async def load_page(self, start: bytes | None) -> RowPage:
        """Return up to PAGE_ROWS rows."""
        for limit in PAGE_ROWS:
            call = rows_from(start or self._rows, after_prefix(self._rows), limit)
            try:
                kvs, is_more = await self._call("load", call)
                break
            except OutcomeUnknown:
                # An answer of large rows is longer than a message may be.
                if limit == PAGE_ROWS[-1]:
                    raise
        rows: dict[GroupTopic, RemoteRow] = {}
        foreign: list[str] = []
        for kv in kvs:
            try:
                rows[self._row_of(kv.key)] = _row(kv)
            except ForeignKey as error:
                foreign.append(f"etcd: the key {shown_key(kv.key)} is not ours: {error}; delete it")
        return RowPage(rows, foreign, kvs[-1].key + b"\0" if is_more else None)

    async def put(self, writes: Sequence[RowWrite]) -> PutOutcome:
        """Store rows, at most 100 and 1 MiB in one transaction, and no faster than the rate allows."""
        results: dict[bytes, RowResult] = {}
        transactions = 0
        puts = [self._put_of(each) for each in writes]
        async with self._turn:
            for batch in batches(puts):
                if batch[0].request_bytes > BATCH_BYTES_MAX:
                    results[batch[0].key] = _too_large(batch[0])
                else:
                    transactions += await self._put_batch(batch, results)
        return PutOutcome([results[each.key] for each in puts], transactions)

    async def delete(self, rows: Mapping[GroupTopic, int]) -> PutOutcome:
        """Remove rows at these revisions."""
        return await self.put([RowWrite(of, {}, revision) for of, revision in rows.items()])

    async def _put_batch(self, batch: Sequence[KeyPut], results: dict[bytes, RowResult]) -> int:
        """Store a batch but the rows that have moved, and return how many transactions that took."""
        for tries in range(TRIES_MAX):
            outcome = await self._transact(batch)
            if outcome.is_stored:
                for put in batch:
                    results[put.key] = RowStored(ABSENT if put.value is None else outcome.revision)
                return tries + 1
            staying = []
            for put, kv in zip(batch, outcome.present, strict=True):
                if (ABSENT if kv is None else kv.mod_revision) == put.revision:
                    staying.append(put)
                else:
                    results[put.key] = RowMoved(RemoteRow() if kv is None else _row(kv))
            batch = staying
            if not batch:
                return tries + 1
        raise OutcomeUnknown(f"etcd: rows of offsets change while they are written, {TRIES_MAX} times in a row")

    async def _transact(self, batch: Sequence[KeyPut]) -> BatchOutcome:
        """Send one transaction; raises Deposed if another manager leads."""
        own_key = self._own_key()
        await self._wait_for_rate(sum(each.request_bytes for each in batch))
        call = put_rows(self._keys, own_key, batch)
        outcome = await self._call("commit", call, is_repeatable=False)
        assert self._election is not None, "who has a key stands for election"
        self._election.revision_seen(outcome.revision)
        leader_key = outcome.leader_key
        if leader_key is None or own_key.is_of(leader_key.holder):
            return outcome
        self._election.observed(leader_key)
        self._election.recheck()
        holder = leader_key.holder
        raise Deposed(
            "no offset manager leads"
            if holder is None
            else f"the offset manager {holder.member.id} at {holder.member.address} leads instead"
        )

    async def _wait_for_rate(self, request_bytes: int) -> None:
        now_ms = self._clock.now_ms()
        begin_ms = max(self._due_ms, now_ms)
        self._due_ms = begin_ms + self._rate.pause_ms(request_bytes)
        if begin_ms > now_ms:
            await asyncio.sleep((begin_ms - now_ms) / 1000)

    def _own_key(self) -> OwnLeaderKey:
        own_key = None if self._election is None else self._election.own_key
        if own_key is None:
            raise Deposed("this offset manager does not lead")
        return own_key

    async def _call(self, kind: str, call: Callable[..., Result], *, is_repeatable: bool = True) -> Result:
        return await self._calls.run(
            kind, lambda deadline_ms: self._client.request(call, deadline_ms=deadline_ms, is_repeatable=is_repeatable)
        )

    def _put_of(self, write: RowWrite) -> KeyPut:
        value = encoded_row(write.queues) if write.queues else None
        return KeyPut(self._rows + path_of(write.of).encode(), value, write.revision)

    def _row_of(self, key: bytes) -> GroupTopic:
        try:
            return row_of(key.removeprefix(self._rows).decode())
        except UnicodeDecodeError as error:
            raise ForeignKey(str(error)) from None


class _ElectionListener:
    """Passes on who leads; nothing else is watched in this store."""

    def __init__(self, listener: ManagerLeadership) -> None:
        self._listener = listener

    def leads(self, until_ms: int | None) -> None:
        self._listener.leads(until_ms)

    def follows(self, leader: ControllerMember | None) -> None:
        self._listener.follows(leader)

    def members_changed(self, members: tuple[ControllerMember, ...]) -> None:
        """Take no list of the members: managers do not register."""

    def put_back(self) -> None:
        """Do nothing: the election calls the manager's listener itself."""

    def entry_changed(self, broker_name: str, versioned: VersionedEntry) -> None:
        """Do nothing: nobody else writes rows while this manager leads."""


def _row(kv: Any) -> RemoteRow:
    try:
        return RemoteRow(decoded_row(kv.value), kv.mod_revision)
    except UnreadableRow as error:
        problem = (
            f"etcd: the offsets at {shown_key(kv.key)} cannot be read: {error}. Restore this key from a backup, or "
            "delete it and let the offsets be read from the brokers again; then restart the offset manager"
        )
        return RemoteRow(revision=kv.mod_revision, problem=problem)


def _too_large(put: KeyPut) -> RowTooLarge:
    return RowTooLarge(
        f"etcd: the offsets at {shown_key(put.key)} take {put.request_bytes} bytes, and a request has "
        f"{BATCH_BYTES_MAX} at most: delete the offsets of queues that are gone"
    )
