"""The durable store of offsets, which all managers share: one row for each group in a topic on a broker set.

A write compares the revision of each row. What is stored here outlives the machine of the manager. The storage of
docs/protocol/offsets.md 7.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from controller.offsets.values import GroupTopic, StoredOffset

#: The revision of a row that does not exist.
ABSENT: Final = 0


class RemoteRow(NamedTuple):
    """The offsets of one group in one topic on one broker set, by queue id, and their revision."""

    queues: Mapping[int, StoredOffset] = {}
    revision: int = ABSENT
    #: Why it cannot be read, for people, with the key; it is empty here then, and must not be written.
    problem: str = ""


class RowWrite(NamedTuple):
    """A row that is to be stored in place of the one at this revision; without queues it is removed."""

    of: GroupTopic
    queues: Mapping[int, StoredOffset]
    revision: int


class RowStored(NamedTuple):
    """The row is durable."""

    revision: int


class RowMoved(NamedTuple):
    """The row is at another revision, and was not written: this is what it is now."""

    present: RemoteRow


class RowTooLarge(NamedTuple):
    """No request takes this row; it was not sent."""

    problem: str


RowResult = RowStored | RowMoved | RowTooLarge


class PutOutcome(NamedTuple):
    """What has become of each row, in the order of the writes."""

    results: Sequence[RowResult]
    #: How many transactions it took. Only within one of them is a batch atomic: a crash between two leaves a part.
    transactions: int

    @property
    def is_atomic(self) -> bool:
        """Whether all rows were stored by one transaction."""
        return self.transactions <= 1


class RowPage(NamedTuple):
    """Some rows in the order of their keys."""

    rows: Mapping[GroupTopic, RemoteRow]
    #: Keys of the prefix that name no row: why, for people.
    foreign: Sequence[str]
    #: Where the next page begins; None: there is none.
    next: bytes | None


class RemoteStore(Protocol):
    """One kind of store. Everything may raise StoreError, and nothing of it blocks the event loop."""

    #: Whether other managers write to it while this one does not lead.
    is_shared: bool

    @property
    def leads_seen(self) -> int:
        """How many leads of managers were seen to begin.

        Not counted is one of this manager where the store has just gone back to an older state: nobody else has led.
        """

    async def store_id(self) -> str:
        """Return what tells these rows from those of any other store, in each state of it; blank if not known yet."""

    async def load_page(self, start: bytes | None) -> RowPage:
        """Return rows from `start` on, None for the first page; a row that cannot be read keeps no other away."""

    async def put(self, writes: Sequence[RowWrite]) -> PutOutcome:
        """Store rows durably; repeating a write that was stored answers RowMoved with the very row.

        Raises Deposed if another manager leads, OutcomeUnknown if nobody knows which of them are stored.
        """

    async def delete(self, rows: Mapping[GroupTopic, int]) -> PutOutcome:
        """Remove rows at these revisions, as `put` without queues does."""

    async def close(self) -> None:
        """Let go of everything."""
