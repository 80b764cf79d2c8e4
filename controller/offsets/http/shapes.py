"""Bodies of requests about offsets, and their answers; `openapi.py` describes them from here. Times are Unix ms, UTC.

Limits of names, queue ids and offsets are those of the rules (`commits/entry_checks.py`): an entry that breaks one is
refused by itself.
"""

from typing import Annotated, Final, Literal

import msgspec

from controller.offsets.commits.clone import IfExists
from controller.offsets.values import OffsetSource

#: Entries of one request. More would hold up the requests of others for too long.
ENTRIES_MAX: Final = 1_000
#: Queues that an answer about a clone or a deletion lists.
LISTED_MAX: Final = 1_000
#: A thousand entries with names of the greatest length, of ASCII.
BODY_BYTES_MAX: Final = 2 << 20
#: RocketMQ's default of `brokerClusterName`.
DEFAULT_CLUSTER: Final = "DefaultCluster"

#: Who makes a change: a client id, or the name of an operator.
Writer = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class QueueName(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A queue that a group consumes."""

    group: str
    topic: str
    broker_name: str
    queue_id: int


class CommitItem(msgspec.Struct, frozen=True, gc=False, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What a client has consumed of one queue."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    #: The next offset to consume.
    offset: int
    #: As the offset had it that was read; 0 if there was none.
    reset_epoch: int = 0
    #: Of the lock under which it was consumed; 0 without a lock.
    token: int = 0


class OffsetItem(QueueName, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """An offset for one queue."""

    offset: int


class CommitBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Commits of one client."""

    #: The client id.
    writer: Writer
    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""
    entries: Annotated[list[CommitItem], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)]


class ReadBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Queues whose offsets are read."""

    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""
    keys: Annotated[list[QueueName], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)]


class SeedBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Offsets for queues that have none."""

    writer: Writer
    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""
    #: The operation whose freeze lets it pass; blank if it has none.
    operation: str = ""
    entries: Annotated[list[OffsetItem], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)]


class ResetBody(SeedBody, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Offsets that take the place of those that are stored, lower ones too."""

    #: Only answer what would become of each entry.
    dry_run: bool = False


class CloneBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A group that is to begin where another one is."""

    writer: Writer
    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""
    source_group: str
    to_group: str
    #: Absent: each topic of the source, without retry topics.
    topics: Annotated[list[str], msgspec.Meta(min_length=1, max_length=ENTRIES_MAX)] | None = None
    if_exists: IfExists = IfExists.SKIP
    operation: str = ""
    dry_run: bool = False


class ScopeBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """All offsets of a namespace in a cluster, unless narrowed."""

    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""
    group: str | None = None
    topic: str | None = None
    broker_name: str | None = None


class DeleteBody(ScopeBody, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Offsets that are to be deleted: of a group, of a topic, or of a group in a topic."""

    writer: Writer
    operation: str = ""
    dry_run: bool = False


class FlushBody(ScopeBody, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Offsets that the store is to have."""


class FreezeBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What an operation freezes."""

    #: The id of the operation; a repeated freeze of it replaces the former one.
    operation: str
    #: Shown to everybody who is refused.
    reason: str
    #: How long it lasts unless it is renewed.
    lease_ms: int = 60_000
    scopes: list[ScopeBody] = []
    #: Queues of `cluster` and `namespace`.
    keys: Annotated[list[QueueName], msgspec.Meta(max_length=10_000)] = []
    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""


class OperationBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """An operation that has frozen something."""

    operation: str


# Answers


class StoredView(msgspec.Struct, frozen=True, rename="camel"):
    """A stored offset."""

    #: The next offset to consume.
    offset: int
    reset_epoch: int
    source: OffsetSource
    writer: str
    #: The highest fencing token that has committed; 0 if none has.
    token: int
    unix_ms: int


class EntryResult(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What became of one entry."""

    #: ok, present, absent, stale, fenced, unknown or refused.
    status: str
    #: What is stored now, where the status depends on it.
    stored: StoredView | None = None
    #: What is wrong and what to do.
    reason: str = ""


class CommitAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What became of the entries, in their order."""

    #: local: synced in the journal of this manager; remote: the store has it.
    durability: Literal["local", "remote"]
    results: list[EntryResult]


class ReadResult(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The offset of one queue."""

    status: Literal["ok", "not_found", "unavailable"]
    stored: StoredView | None = None
    #: Why it is unavailable.
    reason: str = ""
    #: Of the first commit of a queue that was not found: that of the deletion, absent if there was none.
    reset_epoch: int = 0


class ReadAnswerView(msgspec.Struct, frozen=True, rename="camel"):
    """The offsets of the keys, in their order."""

    results: list[ReadResult]


class ListedOffset(msgspec.Struct, frozen=True, rename="camel"):
    """One stored offset with its queue."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    stored: StoredView


class UnavailableRow(msgspec.Struct, frozen=True, rename="camel"):
    """Offsets that cannot be read."""

    group: str
    topic: str
    broker_name: str
    reason: str


class OffsetListing(msgspec.Struct, frozen=True, rename="camel"):
    """A page of offsets. It may be empty and not the last: the last one has no `nextCursor`."""

    offsets: list[ListedOffset]
    #: On the last page alone.
    unavailable: list[UnavailableRow]
    #: Two pages of one revision are of the same moment.
    revision: str
    next_cursor: str | None


class QueueChange(msgspec.Struct, frozen=True, rename="camel"):
    """What became, or would become, of one queue."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    status: str
    #: What was stored before; null for nothing.
    old: StoredView | None
    #: What is stored now; null for nothing.
    new: StoredView | None
    reason: str = ""


class ChangeAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What became, or would become, of the queues."""

    dry_run: bool
    #: How many queues have each status.
    counts: dict[str, int]
    #: The first 1,000.
    queues: list[QueueChange]
    #: Undoes a reset; absent where nothing was changed.
    operation_id: str = ""


class FlushAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The store has everything that was acknowledged of the scope before the request."""

    #: Queues whose newest offsets the store does not have by now, of any scope.
    dirty_keys: int


class FreezeView(msgspec.Struct, frozen=True, rename="camel"):
    """A freeze that lasts."""

    operation: str
    reason: str
    lease_ms: int
    scopes: int
    keys: int


class FreezeListing(msgspec.Struct, frozen=True, rename="camel"):
    """The freezes that last."""

    freezes: list[FreezeView]


class ThawAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the operation had frozen something until then."""

    thawed: bool


class ManagerView(msgspec.Struct, frozen=True, rename="camel"):
    """This offset manager."""

    id: str
    address: str
    group: str
    #: leading, loading or following.
    role: Literal["leading", "loading", "following"]
    leader_address: str | None
    store: str
    #: Offsets of all groups.
    offsets: int
    #: Queues whose newest offsets the store does not have yet.
    dirty_keys: int
    oldest_dirty_ms: int
    #: Why the last flush failed; blank if it did not.
    last_flush_error: str
