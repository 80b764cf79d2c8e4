"""What is read of answers of the offset manager in another form than `serving.shapes.offsets` has them. Pure.

Those named `...Row` are shown as they come.
"""

from typing import ClassVar

import msgspec

from rmq.output.formats import RowKey, row_type
from serving.shapes.offsets import KeptOperationView, LagView, RepairView, SetProblemView

#: A restore reads brokers for 12 s, and writes for 18 s.
RESTORE_TIMEOUT_S = 60.0
#: A repair looks at messages for 10 s, and writes; a file takes some seconds more.
REPAIR_TIMEOUT_S = 60.0
FILE_TIMEOUT_S = 90.0


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


class SetPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of broker sets."""

    sets: list[SetRow]
    next_cursor: str | None = None


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


RepairRow = row_type(
    RepairView,
    *("number", "cluster", "broker_name", "address", "cause", "began_unix_ms", "took_ms", "parted_at", "counts"),
    *("messages_again", "messages_skipped", "problem", "applied_unix_ms", "applied_by"),
)
OperationRow = row_type(KeptOperationView, "operation_id", "kind", "writer", "unix_ms", "queues", "finished", "undoes")
LagRow = row_type(
    LagView,
    *("topic", "broker_name", "queue_id", "lag", "committed_offset", "max_offset", "committed_in", "reason"),
)
