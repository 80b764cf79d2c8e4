"""Rows of offsets in etcd: loaded in pages, written in transactions that compare revisions and the key `leader`.

Of 128 operations that etcd takes in a transaction a batch uses 100 keys at most, and of 1.5 MiB 1 MiB.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from offsets.commits.stored import RowName, StoredOffset, Unreadable, decoded_row, name_of, path_of
from offsets.etcd_lead import EtcdLead
from remoting.clock import Clock
from store.etcd import calls
from store.etcd.calls import LeaderKeyState, OwnLeaderKey
from store.etcd.client import messages
from store.etcd.keys import Keys, after_prefix, holder_of, shown_key
from store.etcd.threads import CallThreads
from store.store import OutcomeUnknown

BATCH_KEYS_MAX: Final = 100
BATCH_BYTES_MAX: Final = 1 << 20
#: How much is sent at most, so that a flood of commits leaves etcd time for others.
REQUESTS_PER_S: Final = 50.0
BYTES_PER_S: Final = 8 << 20
#: Rows of one page; the second number where an answer of so many was too large.
PAGE_ROWS: Final = (500, 25)
#: What one put takes in addition to its value and its key, which is compared, put, and read where that fails.
_PUT_BYTES: Final = 64


class RowWrite(NamedTuple):
    """A row to be written if its key is still at this revision (0: not there); None removes it."""

    name: RowName
    body: bytes | None
    revision: int


class PresentRow(NamedTuple):
    queues: dict[int, StoredOffset]
    revision: int
    #: Why it cannot be read; blank if it can be.
    problem: str = ""


#: What became of a write: the revision at which it is stored (0: the row is removed); what is there of a row that had
#: moved; None where the batch was not stored for another row.
RowWritten: TypeAlias = int | PresentRow | None


class LastLead(msgspec.Struct, frozen=True):
    """Whose local file may hold what etcd lacks: that of the manager that led last, if it is of its last lead."""

    file: str
    lead: int


class EtcdRows:
    def __init__(self, lead: EtcdLead, clock: Clock) -> None:
        self.lead: Final = lead
        self._clock = clock
        # Renewals of the lead do not wait behind rows.
        self._threads = CallThreads(1, clock, lead.on_call)
        self._rows: Final = lead.keys.prefix + b"commits/"
        self._last_lead: Final = lead.keys.prefix + b"last-lead"
        self._last_lead_revision = 0
        #: Keys that are no rows, as the last `load` found them.
        self.foreign: list[str] = []
        #: When the next write may begin, monotonic ms.
        self._due_ms = 0.0

    async def last_lead(self) -> LastLead:
        """Return which manager led last; raises StoreError."""
        kv = await self._threads.request(self.lead.client, "load", calls.read(self._last_lead))
        self._last_lead_revision = 0 if kv is None else kv.mod_revision
        try:
            return LastLead("", 0) if kv is None else msgspec.json.decode(kv.value, type=LastLead)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return LastLead("", 0)

    async def lead_with(self, file: str) -> None:
        """Note that this manager leads with its local file; raises StoreError."""
        put = _Put(self._last_lead, msgspec.json.encode(LastLead(file, self.lead.number)), self._last_lead_revision)
        if not (await self._transact([put])).is_stored:
            raise OutcomeUnknown("etcd: the last lead was written meanwhile")

    async def load(self) -> AsyncIterator[tuple[RowName, PresentRow]]:
        """Yield all rows; raises StoreError."""
        self.foreign.clear()
        start, is_more = self._rows, True
        while is_more:
            kvs, is_more = await self._page(start)
            for kv in kvs:
                try:
                    yield name_of(kv.key.removeprefix(self._rows).decode()), _present(kv)
                except (Unreadable, UnicodeDecodeError) as error:
                    self.foreign.append(f"etcd: the key {shown_key(kv.key)} is not ours: {error}")
            start = kvs[-1].key + b"\0" if is_more else start

    async def put(self, writes: Sequence[RowWrite]) -> list[RowWritten]:
        """Write rows, batch by batch, and return what became of each; raises StoreError, and then some may be written.

        Of a batch with rows that have moved nothing is stored: write the others again.
        """
        written: list[RowWritten] = []
        for batch in _batches(
            [_Put(self._rows + path_of(write.name).encode(), write.body, write.revision) for write in writes]
        ):
            outcome = await self._transact(batch)
            for put, kv in zip(batch, outcome.present or [None] * len(batch), strict=True):
                if outcome.is_stored:
                    written.append(0 if put.body is None else outcome.revision)
                elif (kv.mod_revision if kv is not None else 0) == put.revision:
                    written.append(None)
                else:
                    written.append(PresentRow({}, 0) if kv is None else _present(kv))
        return written

    async def _page(self, start: bytes) -> tuple[Sequence[Any], bool]:
        for limit in PAGE_ROWS:
            try:
                return await self._threads.request(
                    self.lead.client, "load", _page(start, after_prefix(self._rows), limit)
                )
            except OutcomeUnknown:
                # An answer of large rows is longer than a message may be.
                if limit == PAGE_ROWS[-1]:
                    raise
        raise AssertionError("the last page is returned or raised")

    async def _transact(self, batch: "Sequence[_Put]") -> "_Outcome":
        """Send one transaction, no sooner than the rate allows; raises Deposed if another manager leads."""
        own_key = self.lead.own_key()
        begin_ms = max(self._due_ms, float(self._clock.now_ms()))
        size = sum(put.request_bytes for put in batch)
        self._due_ms = begin_ms + 1000 * max(1 / REQUESTS_PER_S, size / BYTES_PER_S)
        if (wait_ms := begin_ms - self._clock.now_ms()) > 0:
            await asyncio.sleep(wait_ms / 1000)
        call = _transaction(self.lead.keys, own_key, batch)
        outcome = await self._threads.request(self.lead.client, "commit", call, is_repeatable=False)
        self.lead.revision_seen(outcome.revision)
        if outcome.leader_key is None or own_key.is_of(outcome.leader_key.holder):
            return outcome
        raise self.lead.deposed_by(outcome.leader_key)

    def close(self) -> None:
        self._threads.close()


def _present(kv: Any) -> PresentRow:
    try:
        return PresentRow(decoded_row(kv.value), kv.mod_revision)
    except Unreadable as error:
        problem = (
            f"etcd: the offsets at {shown_key(kv.key)} cannot be read: {error}. Restore this key from a backup, or "
            "delete it, and restart the offset manager"
        )
        return PresentRow({}, kv.mod_revision, problem)


class _Put(NamedTuple):
    key: bytes
    body: bytes | None
    revision: int

    @property
    def request_bytes(self) -> int:
        return 3 * len(self.key) + len(self.body or b"") + _PUT_BYTES


class _Outcome(NamedTuple):
    is_stored: bool
    #: Of etcd, after it.
    revision: int
    #: Who leads, and what stands at each key, where nothing was stored.
    leader_key: LeaderKeyState | None = None
    present: Sequence[Any] = ()


def _batches(puts: Sequence[_Put]) -> Iterator[Sequence[_Put]]:
    start = size = 0
    for at, put in enumerate(puts):
        if at > start and (at - start == BATCH_KEYS_MAX or size + put.request_bytes > BATCH_BYTES_MAX):
            yield puts[start:at]
            start, size = at, 0
        size += put.request_bytes
    if start < len(puts):
        yield puts[start:]


def _page(start: bytes, end: bytes, limit: int) -> calls.EtcdCall[tuple[list[Any], bool]]:
    request = messages.RangeRequest(key=start, range_end=end, limit=limit)
    return calls.range_call(request, lambda answer: (list(answer.kvs), bool(answer.more)))


def _transaction(keys: Keys, own_key: OwnLeaderKey, puts: Sequence[_Put]) -> calls.EtcdCall[_Outcome]:
    """Write keys, all or none: if each is at its revision and this manager leads; otherwise read them."""
    request = messages.TxnRequest(
        compare=[*calls.leads(keys, own_key), *(calls.modified_at(row.key, row.revision) for row in puts)],
        success=[calls.delete(row.key) if row.body is None else calls.put(row.key, row.body, 0) for row in puts],
        failure=[calls.get(keys.leader), *(calls.get(row.key) for row in puts)],
    )

    def read(answer: Any) -> _Outcome:
        revision = answer.header.revision
        if answer.succeeded:
            return _Outcome(is_stored=True, revision=revision)
        leader, *present = (next(iter(response.response_range.kvs), None) for response in answer.responses)
        holder = LeaderKeyState(None if leader is None else holder_of(leader), revision)
        return _Outcome(is_stored=False, revision=revision, leader_key=holder, present=present)

    return calls.transaction(request, read)
