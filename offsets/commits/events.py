"""What the store of commits tells."""

from collections.abc import Iterator, Sequence
from typing import Final

from history.rows import BrokerRef
from offsets.commits.stored import Change, shown
from offsets.operator_rows import ChangedQueue, change_by_operator
from serving.logging.events import Level
from serving.telemetry.events import Count, Counter, Event, Observation, Timer

RESULTS: Final = Counter("results", "Entries of requests by operation and result.", ("operation", "status"))
COMMITS_REFUSED: Final = Counter(
    "commits_refused", "Requests answered 429 because the store lacks `dirtyKeysMax` queues."
)
FLUSHED_OFFSETS: Final = Counter("flushed_offsets", "Offsets written to etcd.")
FLUSHED_ROWS: Final = Counter("flushed_rows", "Rows written to etcd.")
FLUSH_FAILURES: Final = Counter("flush_failures", "Flushes that failed; each is tried again.")
COMPENSATED: Final = Counter(
    "compensated_offsets", "Acknowledged offsets that etcd got from the local file at a start."
)
LOST: Final = Counter("lost_commits", "Transactions of the local file behind a damaged part, found at a start.")
FLUSHES: Final = Timer("flush_duration_seconds", "Duration of writes to etcd.")

_NAMES_MAX: Final = 10


class OffsetsLoaded(Event, frozen=True, kw_only=True):
    """This offset manager has loaded all offsets and answers for them."""

    offsets: int
    unreadable_rows: int
    duration_ms: int


class OffsetsLoadFailed(Event, frozen=True, kw_only=True):
    """The offsets could not be loaded; this is retried, and logged when the error changes.

    Until then reads answer `unavailable`, changes 503.
    """

    level = Level.ERROR
    advice = "Do what `error` says; check the disk, or etcd."
    error: str


class OffsetsCompensated(Event, frozen=True, kw_only=True):
    """The local file held acknowledged offsets of `queues` queues that etcd lacked; etcd has them now."""

    queues: int

    def counted(self) -> Iterator[Count]:
        yield Count(COMPENSATED, (), self.queues)


class CommitsLost(Event, frozen=True, kw_only=True):
    """The log of the local file is damaged, and the `transactions` transactions after the damage are lost.

    Groups read again what these had committed; a group that was new has no offset. After a power failure the last
    transaction may never have been acknowledged.
    """

    level = Level.ERROR
    advice = "Check the disk. Reset groups that must not start over before you start them; repeat the last resets."
    transactions: int

    def counted(self) -> Iterator[Count]:
        yield Count(LOST, (), self.transactions)


class LocalOffsetsDropped(Event, frozen=True, kw_only=True):
    """`queues` queues keep the offset in etcd, not the newer one in the local file of this manager.

    Another manager has led since this one stopped, or etcd was replaced or restored from a backup.
    """

    level = Level.WARNING
    advice = "None: groups read their last messages again. List groups that must not in `writeThroughGroups`."
    queues: int


class FlushFailed(Event, frozen=True, kw_only=True):
    """Offsets could not be written to etcd; this is retried, and logged once until it succeeds.

    Acknowledged offsets are safe in the local file. Beyond `dirtyKeysMax` queues further commits are refused.
    """

    level = Level.ERROR
    advice = "Check etcd."
    error: str


class FlushRecovered(Event, frozen=True, kw_only=True):
    """Offsets are written to etcd again, after `failures` failed attempts."""

    failures: int


class RowsFlushed(Event, frozen=True, kw_only=True):
    """Rows were written to etcd."""

    level = None
    written: int
    queues: int
    seconds: float

    def counted(self) -> Iterator[Count]:
        yield Count(FLUSHED_ROWS, (), self.written)
        yield Count(FLUSHED_OFFSETS, (), self.queues)

    def observed(self) -> Iterator[Observation]:
        yield Observation(FLUSHES, self.seconds)


class RowUnreadable(Event, frozen=True, kw_only=True):
    """The stored offsets of a group in a topic cannot be read: they are `unavailable`, and not overwritten."""

    level = Level.ERROR
    advice = "Do what `error` says, then restart the manager."
    error: str


class ForeignKeyFound(Event, frozen=True, kw_only=True):
    """etcd holds a foreign key among the rows of offsets; it is left alone."""

    level = Level.WARNING
    advice = "Delete the key, once you know whose it is."
    error: str


class LocalFileFailed(Event, frozen=True, kw_only=True):
    """The local file cannot be written: changes are answered 503. Logged once until a write succeeds."""

    level = Level.ERROR
    advice = "Do what `error` says."
    error: str


class CommitsRefused(Event, frozen=True, kw_only=True):
    """Commits are answered 429: etcd lacks the offsets of `dirty_keys` queues, as many as `dirtyKeysMax` allows.

    Logged once until etcd has them.
    """

    level = Level.WARNING
    advice = "Check why etcd is slow; raise `dirtyKeysMax` if there is memory."
    dirty_keys: int


class OffsetsLeftDirty(Event, frozen=True, kw_only=True):
    """The manager ends while etcd lacks the newest offsets of `dirty_keys` queues. They are in the local file.

    The next start of this manager writes them, unless another one has led by then.
    """

    level = Level.ERROR
    advice = "Start this manager again on the same storePath as soon as etcd can be reached."
    dirty_keys: int


class OffsetsChanged(Event, frozen=True, kw_only=True):
    """An operator has reset or deleted the offsets of `queues` queues; `groups` and `topics` name up to ten of them.

    Unless `is_certain`, the store did not answer in time or this manager ceased to lead; they may be unchanged.
    """

    audit = True
    operation: str
    writer: str
    queues: int
    groups: str
    topics: str
    is_certain: bool


def changed_by_operator(operation: str, writer: str, changes: Sequence[Change], *, is_certain: bool) -> Iterator[Event]:
    """Yield what is told of an operator's changes, if there are any."""
    if not changes:
        return
    groups = sorted({change.name.group for change in changes})
    topics = sorted({change.name.topic for change in changes})
    named = {"groups": " ".join(groups[:_NAMES_MAX]), "topics": " ".join(topics[:_NAMES_MAX])}
    yield OffsetsChanged(operation=operation, writer=writer, queues=len(changes), is_certain=is_certain, **named)
    yield change_by_operator(operation, writer, "manager", lambda: (_changed(row, is_certain) for row in changes))


def _changed(change: Change, is_certain: bool) -> ChangedQueue:  # noqa: FBT001  # of all changes of an operation
    name, old, new = change.name, shown(change.before), shown(change.after)
    broker = BrokerRef(name.cluster or None, name.broker_name)
    before, after = None if old is None else old.offset, None if new is None else new.offset
    return ChangedQueue(broker, name.group, name.topic, before, after, is_certain)
