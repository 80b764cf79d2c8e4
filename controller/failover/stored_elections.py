"""Elections in the store, so that they outlive their controller: written after an election, which waits for none of it.

Sets are spread over 64 documents by a digest of their names, each with its last elections. The leader writes those that
it holds; followers read them when somebody wants to see them. Nothing is decided by what is stored here.
"""

import asyncio
import contextlib
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from controller.failover.election_log import ElectionLog, ElectionRecord
from controller.failover.group import Group
from remoting.clock import Clock
from store.document_store import DocumentStore
from store.documents import DocumentKind
from store.store import StoreBackend, StoreError

_KIND: Final = DocumentKind.ELECTIONS
SHARDS: Final = 64
#: The largest document: 10 elections of a set of three brokers, or more. The latest are kept.
SHARD_BYTES_MAX: Final = 16 << 10
#: How soon an election is stored, and how soon that is tried again.
_LOOK_S: Final = 0.25
_AGAIN_S: Final = 5.0
#: How long the end of this process, or the answer of a follower, is held up by a store that does not answer.
_PATIENCE_S: Final = 0.5
#: A follower reads all of them, at most so often.
_FRESH_MS: Final = 1_000

_decode: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_record: Final = msgspec.json.Decoder(ElectionRecord).decode


class StoredElections:
    """Keeps the election log of this controller and what is stored alike."""

    def __init__(self, log: ElectionLog, group: Group, backend: StoreBackend, clock: Clock) -> None:
        self._log, self._group, self._clock = log, group, clock
        self._documents = DocumentStore(backend, (_KIND,))
        #: The term for which they are loaded, and when a follower read them last.
        self._term = 0
        self._read_ms: int | None = None

    async def keep_elections(self) -> None:
        while True:
            is_done = await self.look()
            await asyncio.sleep(_LOOK_S if is_done else _AGAIN_S)

    async def look(self) -> bool:
        """Store what is new if this controller leads; return whether nothing failed, and is left for a later look."""
        term = self._group.term
        if not self._group.is_leader:
            return True
        if self._term != term:
            try:
                await self._read(lambda: self._group.leads_in(term))
            except StoreError:
                return False
            self._term = term
        return all([await self._store(shard) for shard in {_shard_of(name) for name in self._log.unstored}])

    async def store_rest(self) -> None:
        """Store what is new before another controller leads, but do not wait long for it."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self.look()

    async def refresh(self) -> None:
        """Let the log have what is stored by now, unless this controller leads and has read it."""
        now_ms, term = self._clock.now_ms(), self._group.term
        if self._group.is_leader and self._term == term:
            return
        if self._read_ms is not None and now_ms - self._read_ms < _FRESH_MS:
            return
        self._read_ms = now_ms
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._read(lambda: self._group.term == term)

    async def _read(self, is_wanted: Callable[[], bool]) -> None:
        await self._documents.load(is_wanted)
        if is_wanted():
            self._log.restore(each for shard in self._documents.names(_KIND) for each in self._records(shard))

    def _records(self, shard: str) -> Iterator[ElectionRecord]:
        """Yield the elections of a document, without what this release cannot read: nothing depends on them."""
        with contextlib.suppress(StoreError, msgspec.DecodeError):
            for raw in _decode(self._documents.get(_KIND, shard) or b"[]"):
                with contextlib.suppress(msgspec.DecodeError):
                    yield _decode_record(raw)

    async def _store(self, shard: str) -> bool:
        names = {name for name in self._log.unstored if _shard_of(name) == shard}
        self._log.unstored -= names
        document = _encoded(each for each in self._log if _shard_of(each.broker_name) == shard)
        is_stored = False
        try:
            with contextlib.suppress(StoreError):
                await self._documents.change(_KIND, shard, lambda _: document)
                is_stored = True
        finally:
            # Also of a task that ends meanwhile: `store_rest` is next.
            if not is_stored:
                self._log.unstored |= names
        return is_stored


def _shard_of(broker_name: str) -> str:
    return f"{zlib.crc32(broker_name.encode()) % SHARDS:02x}"


def _encoded(records: Iterable[ElectionRecord]) -> bytes:
    """Return a document with the latest of these elections, in their order, that SHARD_BYTES_MAX hold."""
    left, kept = SHARD_BYTES_MAX - 2, []
    for each in reversed(tuple(records)):
        encoded = msgspec.json.encode(each)
        left -= len(encoded) + 1
        if left < 0:
            break
        kept.append(encoded)
    return b"[" + b",".join(reversed(kept)) + b"]"
