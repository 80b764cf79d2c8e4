"""Which master of each set was delivered last: documents of the store, so that the next leader goes on from there.

Sets are spread over 256 documents by a digest of their names: a change writes one small document, and 3,000 changes at
once are 256 writes at most. What is recorded counts at once here, and is stored a moment later; what was delivered and
not stored is delivered once more by the next leader.
"""

import zlib
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import msgspec

from controller.roles.changes import RoleChange, RoleHolder
from controller.sets.broker_set import BrokerSet
from store.document_store import DocumentStore
from store.documents import DocumentKind
from store.store import StoreBackend, StoreError

_KIND: Final = DocumentKind.ROLE_CALLBACK
#: With 100,000 sets, the most there are, a document has some 400 sets and 60 KiB.
SHARDS: Final = 256
#: The form of the documents: a release that writes something else counts it up, and older ones leave those alone.
DELIVERED_FORMAT: Final = 1


class DeliveredMaster(msgspec.Struct, frozen=True, omit_defaults=True):
    epoch: int
    #: None: there was none.
    broker_id: int | None = None
    address: str = ""

    @property
    def master(self) -> RoleHolder | None:
        return None if self.broker_id is None else RoleHolder(self.broker_id, self.address)

    def precedes(self, broker_set: BrokerSet) -> bool:
        """Return whether the master of a set is still to be delivered: a later one, or one at another address."""
        if self.epoch == broker_set.master_epoch:
            return (self.broker_id, self.address) != (broker_set.master, broker_set.master_address or "")
        return self.epoch < broker_set.master_epoch


class _Shard(msgspec.Struct, frozen=True):
    format: int = DELIVERED_FORMAT
    sets: dict[str, DeliveredMaster] = {}


_decode: Final = msgspec.json.Decoder(_Shard).decode


class DeliveredMasters:
    """What was delivered, as the leader knows it."""

    def __init__(self, backend: StoreBackend) -> None:
        self._documents = DocumentStore(backend, (_KIND,))
        self._sets: dict[str, DeliveredMaster] = {}
        #: Sets that are not stored yet as they are known here, by the document.
        self._unstored: dict[str, set[str]] = {}

    async def load(self, is_wanted: Callable[[], bool]) -> dict[str, str]:
        """Know everything that is stored, unless it `is_wanted` no more by then; raises StoreError.

        Returns which documents cannot be read, and why: their sets count as not delivered.
        """
        await self._documents.load(is_wanted)
        if not is_wanted():
            return {}
        self._sets, self._unstored, problems = {}, {}, {}
        for name in self._documents.names(_KIND):
            try:
                self._sets.update(self._stored(name))
            except StoreError as error:
                problems[name] = str(error)
        return problems

    def of_set(self, broker_name: str) -> DeliveredMaster | None:
        return self._sets.get(broker_name)

    def record(self, change: RoleChange) -> None:
        """Know that a change was delivered; `store` makes it durable."""
        broker_id, address = change.new or (None, "")
        self._sets[change.broker_name] = DeliveredMaster(change.master_epoch, broker_id, address)
        self._unstored.setdefault(shard_of(change.broker_name), set()).add(change.broker_name)

    def forget(self, broker_name: str) -> None:
        """Know nothing of a set any more, so that it is called again; `store` makes it durable."""
        self._sets.pop(broker_name, None)
        self._unstored.setdefault(shard_of(broker_name), set()).add(broker_name)

    @property
    def has_unstored(self) -> bool:
        return bool(self._unstored)

    async def store(self, is_set: Callable[[str], bool]) -> None:
        """Store what was recorded, a document at a time; raises StoreError, and what is left is stored next time.

        Names that are no set any more leave the documents that are written.
        """
        for shard in list(self._unstored):
            names = self._unstored.pop(shard)
            try:
                await self._documents.change(_KIND, shard, partial(self._written, names, is_set))
            except StoreError:
                self._unstored.setdefault(shard, set()).update(names)
                raise

    def _written(self, names: Collection[str], is_set: Callable[[str], bool], value: bytes | None) -> bytes:
        stored = _decoded(value)
        sets = {name: each for name, each in stored.items() if is_set(name) and name not in names}
        sets.update((name, self._sets[name]) for name in sorted(names) if name in self._sets)
        return msgspec.json.encode(_Shard(sets=sets))

    def _stored(self, shard: str) -> dict[str, DeliveredMaster]:
        return _decoded(self._documents.get(_KIND, shard))


def shard_of(broker_name: str) -> str:
    return f"{zlib.crc32(broker_name.encode(errors='surrogatepass')) % SHARDS:02x}"


def _decoded(value: bytes | None) -> dict[str, DeliveredMaster]:
    """Return the sets of a document; raises StoreError for one that this release does not write."""
    if value is None:
        return {}
    try:
        shard = _decode(value)
    except msgspec.DecodeError as error:
        raise StoreError(f"a {_KIND} document cannot be read: {error}; delete it, its sets are called again") from error
    if shard.format > DELIVERED_FORMAT:
        raise StoreError(
            f"a {_KIND} document has format {shard.format}, and this release reads formats up to {DELIVERED_FORMAT}: "
            "run the release that wrote it, or a later one"
        )
    return shard.sets
