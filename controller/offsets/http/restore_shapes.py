"""Bodies of requests about restores, undoes, lags and files, and their answers. Times are Unix ms, UTC."""

from typing import Annotated, Final, Literal

import msgspec

from controller.offsets.http.shapes import DEFAULT_CLUSTER, Writer
from controller.offsets.restore.file_imports import FileDialect
from controller.offsets.restore.lag import CommittedIn
from controller.offsets.restore.values import RestoreStatus
from controller.offsets.values import OFFSET_MAX

#: Bytes of a file in a request, before it is written as Base64.
FILE_BYTES_MAX: Final = 3 << 20
#: Of the body that has it.
IMPORT_BYTES_MAX: Final = 5 << 20
RECORDS_MAX: Final = 10_000


class RestoreBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Offsets of the mirror that are to be at brokers again: all of a cluster, unless narrowed."""

    writer: Writer
    cluster: str = DEFAULT_CLUSTER
    group: str | None = None
    topic: str | None = None
    broker_name: str | None = None
    #: Unix ms, or former: before the last role change of each broker set or the last start of its master.
    moment: Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)] | Literal["former"]
    #: Only answer what would become of each queue.
    dry_run: bool = False
    #: Let offsets go back: messages are read again.
    allow_back: bool = False
    #: Also where it is not proved that nobody's messages are skipped.
    allow_unproved: bool = False
    #: The group pulls, and does not pop: its members need not show it. Only with group.
    pulls: bool = False


class UndoBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """An operation that is to be undone."""

    writer: Writer
    operation_id: str
    dry_run: bool = False
    #: Also of queues whose offset has moved since, or was reset again.
    force: bool = False
    #: At brokers also without proof that no message is skipped that nobody has read.
    allow_unproved: bool = False
    #: All groups of the operation pull, and do not pop: their members need not show it.
    pulls: bool = False


class RecordBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A record of RocksDB, both in Base64."""

    key: bytes
    value: bytes


class ImportBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A file whose offsets are to be stored."""

    writer: Writer
    dialect: FileDialect
    #: The bytes of the file, in Base64; of dialects broker and client.
    file: Annotated[bytes, msgspec.Meta(max_length=FILE_BYTES_MAX)] = b""
    #: Of dialect rocksdb.
    records: Annotated[list[RecordBody], msgspec.Meta(max_length=RECORDS_MAX)] = []
    cluster: str = DEFAULT_CLUSTER
    #: Of the offsets of this manager.
    namespace: str = ""
    #: Whose file it is; of dialects broker and rocksdb.
    broker_name: str = ""
    #: Whose file it is, of dialect client; of the others: only this group.
    group: str = ""
    #: manager: into the table of this manager; broker: to the masters of the broker sets.
    target: Literal["manager", "broker"]
    dry_run: bool = False
    allow_back: bool = False
    #: The group pulls, and does not pop: its members need not show it. Only with group.
    pulls: bool = False


class ExportBody(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Offsets that are wanted as a file."""

    dialect: FileDialect
    #: manager: the table of this manager; mirror: what the master of the broker set had stored at its last reading.
    source: Literal["manager", "mirror"]
    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""
    #: Must be given for dialects broker and rocksdb, and for the mirror.
    broker_name: str | None = None
    #: Must be given for dialect client.
    group: str | None = None
    topic: str | None = None


# Answers


class RestoredView(msgspec.Struct, frozen=True, rename="camel"):
    """What became, or would become, of one queue of a group."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    status: RestoreStatus
    #: What is stored before it; null for nothing, or if that is not known.
    old: int | None
    #: What is stored after it; null for nothing.
    new: int | None
    #: Messages that are read again, if all are still there; null where that is not known.
    messages_again: int | None
    #: Messages that are not read; null where that is not known.
    messages_skipped: int | None
    #: What is wrong and what to do.
    reason: str


class SetProblemView(msgspec.Struct, frozen=True, rename="camel"):
    """A broker set of which nothing was restored."""

    broker_name: str
    reason: str


class RestoreAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What became, or would become, of all queues."""

    dry_run: bool
    #: Undoes it; blank if nothing was changed.
    operation_id: str
    #: How many queues have each status.
    counts: dict[str, int]
    #: Each of them.
    queues: list[RestoredView]
    #: Broker sets whose offsets of that moment are not known.
    problems: list[SetProblemView]


class ImportAnswer(RestoreAnswer, frozen=True, rename="camel"):
    """What became, or would become, of the entries of a file."""

    #: Entries that are not used, each with its place and the reason.
    unused: list[str]


class ExportAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Offsets as a file."""

    #: In Base64; empty for dialect rocksdb.
    file: bytes
    records: list["RecordView"]
    #: Offsets in it.
    offsets: int
    #: Offsets that are not in it, and why.
    unavailable: list[str]


class RecordView(msgspec.Struct, frozen=True, rename="camel"):
    """A record of RocksDB, both in Base64."""

    key: bytes
    value: bytes


class KeptOperationView(msgspec.Struct, frozen=True, rename="camel"):
    """An operation that can be undone."""

    operation_id: str
    #: One that this release does not know is as the file has it.
    kind: str
    writer: str
    unix_ms: int
    #: The operation that it has undone; blank for none.
    undoes: str
    #: Queues that it has changed, or may have.
    queues: int
    #: False if the manager ended before the outcomes were known.
    finished: bool


class KeptOperationListing(msgspec.Struct, frozen=True, rename="camel"):
    """The last operations of this manager, the newest first."""

    operations: list[KeptOperationView]


class LagView(msgspec.Struct, frozen=True, rename="camel"):
    """How far a group is in one queue."""

    topic: str
    broker_name: str
    queue_id: int
    #: The next offset to be written; null if it is not known.
    max_offset: int | None
    #: The next offset to consume; null if none is stored, or it is not known.
    committed_offset: int | None
    #: Where that is stored.
    committed_in: CommittedIn | None
    #: unknown is never 0.
    lag: int | Literal["unknown"]
    #: Why it is unknown.
    reason: str


class LagListing(msgspec.Struct, frozen=True, rename="camel"):
    """How far a group is in all its queues."""

    group: str
    #: The sum of what is known; null if nothing is.
    known_lag: int | None
    #: Queues whose lag is unknown.
    unknown: int
    queues: list[LagView]
    #: Broker sets of which nothing is known.
    unavailable: list[SetProblemView]
