"""What is read of answers of the offset manager in another form than `serving.shapes.offsets` has them. Pure.

Those named `...Row` are shown as they come.
"""

from typing import ClassVar

import msgspec

from rmq.output.rows import RowKey
from serving.shapes.offsets import SetProblemView

#: A restore reads brokers for 12 s, and writes for 18 s.
RESTORE_TIMEOUT_S = 60.0
#: A repair looks at messages for 10 s, and writes; a file takes some seconds more.
REPAIR_TIMEOUT_S = 60.0
FILE_TIMEOUT_S = 90.0


class Page(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of a listing."""

    next_cursor: str | None = None


# The manager, and what it reads


class ReplicaDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A replica of a broker set."""

    address: str
    #: None: not known yet.
    copies: bool | None = None
    problem: str = ""

    def __str__(self) -> str:
        """Return the replica as a word of a table."""
        copies = "unknown" if self.copies is None else "copies" if self.copies else "copies-nothing"
        return f"{self.address}={'not-read' if self.problem else copies}"


class SetRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a broker set is read."""

    row_key: ClassVar[RowKey] = ("cluster", "broker_name")

    cluster: str
    broker_name: str
    #: Blank: it has none at present.
    master: str | None = None
    #: The newest reading is not older than three periods.
    fresh: bool
    read_unix_ms: int | None = None
    #: Since then moments can be restored.
    oldest_unix_ms: int | None = None
    #: Groups in topics.
    groups: int
    #: Those among them that the manager does not know, for their names.
    left_out: int = 0
    #: Messages by which its log is known again.
    fingerprints: int
    replicas: list[ReplicaDocument] = []
    problem: str = ""


class SetPage(Page, frozen=True, kw_only=True):
    """A page of broker sets."""

    sets: list[SetRow]


class QueueJump(msgspec.Struct, frozen=True, array_like=True):
    """One queue of a jump."""

    queue_id: int
    before: int
    after: int | None

    def __str__(self) -> str:
        """Return the queue as a word of a table."""
        return f"{self.queue_id}:{self.before}>{'none' if self.after is None else self.after}"


class JumpRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Offsets of a group in a topic on one broker set that jumped."""

    unix_ms: int
    cause: str
    group: str
    topic: str
    broker_name: str
    queue_count: int
    messages_again: int
    messages_skipped: int
    #: Queues without an offset from then on.
    removed: int
    #: Queue, offset before, offset after.
    queues: list[QueueJump]


class JumpPage(msgspec.Struct, frozen=True, kw_only=True):
    """The last jumps, the newest first."""

    jumps: list[JumpRow]


# Repairs


class RepairRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was done, or would be, after the master of a set changed."""

    run: int
    cluster: str
    broker_name: str
    address: str
    cause: str
    began_unix_ms: int
    took_ms: int
    #: Where the log parts from that of the former master; blank: no loss is known.
    parted_at: int | None = None
    #: Queues by outcome.
    counts: dict[str, int]
    #: Until it is applied.
    messages_again: int
    messages_skipped: int
    problem: str = ""
    applied_unix_ms: int | None = None
    applied_by: str = ""


class RepairPage(msgspec.Struct, frozen=True, kw_only=True):
    """The last runs, the newest first."""

    mode: str
    running: int
    runs: list[RepairRow]


class RepairedRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of a group in a run."""

    group: str
    topic: str
    queue_id: int
    outcome: str
    #: Up to where the group went on before the change; blank: not known, or none.
    before: int | None = None
    #: What the new master showed.
    shown: int | None = None
    #: What was, or is to be, written.
    offset: int | None = None
    messages_again: int
    messages_skipped: int
    why: str = ""


class RepairQueues(Page, frozen=True, kw_only=True):
    """A run, and a page of its queues."""

    run: RepairRow
    queues: list[RepairedRow]


# Restores, and files


class RestoredRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became, or would become, of one queue of a group."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    status: str
    #: Blank: none is stored, or it is not known.
    old: int | None = None
    new: int | None = None
    #: Blank: not known.
    messages_again: int | None = None
    messages_never: int | None = None
    why: str = ""


class RestoreDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became, or would become, of all queues."""

    operation_id: str
    counts: dict[str, int]
    queues: list[RestoredRow]
    problems: list[SetProblemView] = []
    #: Of an import.
    unused: list[str] = []


class OperationRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An operation that can be undone."""

    operation_id: str
    kind: str
    writer: str
    unix_ms: int
    queues: int
    finished: bool
    #: The operation that it has undone.
    undoes: str = ""


class OperationPage(msgspec.Struct, frozen=True, kw_only=True):
    """The last operations."""

    operations: list[OperationRow]


# Lag, and the groups of a topic


class LagRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a group is behind in one queue."""

    topic: str
    broker_name: str
    queue_id: int
    #: A number, or "unknown".
    lag: int | str
    committed_offset: int | None = None
    max_offset: int | None = None
    #: manager or broker: where the offset is stored.
    committed_in: str | None = None
    reason: str = ""


class LagDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a group is behind in all its queues."""

    known_lag: int | None = None
    unknown: int
    queues: list[LagRow]
    unavailable: list[SetProblemView] = []


# Order


class HeldQueueRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue that a client holds."""

    client_id: str
    topic: str
    broker_name: str
    queue_id: int
    #: `held`, `expired`, or `dropped`: the client is giving it up.
    state: str
    locked_unix_ms: int | None
    replayed_unix_ms: int | None
