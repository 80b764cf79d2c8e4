"""Bodies of requests to the offset manager, and what is read of its answers (docs/offset-restores.md). Pure.

They are structs of their own: the command runs on machines without the servers' code.
"""

from typing import Literal

import msgspec

#: A restore reads brokers for 12 s, and writes for 18 s.
RESTORE_TIMEOUT_S = 60.0
#: A file takes some seconds more.
FILE_TIMEOUT_S = 90.0

FileDialect = Literal["broker", "client", "rocksdb"]


class WantedRestore(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is to be restored."""

    writer: str
    cluster: str
    group: str | None = None
    topic: str | None = None
    broker_name: str | None = None
    moment: int | Literal["former"]
    dry_run: bool = False
    allow_back: bool = False
    allow_unproved: bool = False
    pulls: bool = False


class WantedUndo(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is to be undone."""

    writer: str
    operation_id: str
    dry_run: bool = False
    force: bool = False
    allow_unproved: bool = False
    pulls: bool = False


class RecordDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A record of RocksDB, both in Base64."""

    key: str
    value: str


class WantedImport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A file whose offsets are to be stored."""

    writer: str
    dialect: FileDialect
    file: bytes = b""
    records: list[RecordDocument] = []
    cluster: str
    namespace: str = ""
    broker_name: str = ""
    group: str = ""
    target: Literal["manager", "broker"]
    dry_run: bool = False
    allow_back: bool = False
    pulls: bool = False


class WantedExport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Which offsets are wanted as a file."""

    dialect: FileDialect
    source: Literal["manager", "mirror"]
    cluster: str
    namespace: str = ""
    broker_name: str | None = None
    group: str | None = None
    topic: str | None = None


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
    messages_skipped: int | None = None
    reason: str = ""


class SetProblemDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A broker set of which nothing is known."""

    broker_name: str
    reason: str


class RestoreDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became, or would become, of all queues."""

    operation_id: str
    counts: dict[str, int]
    queues: list[RestoredRow]
    problems: list[SetProblemDocument] = []
    #: Of an import.
    unused: list[str] = []


class ExportDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Offsets as a file."""

    file: bytes
    records: list[RecordDocument] = []
    offsets: int
    unavailable: list[str] = []


class UndoableDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An operation that can be undone."""

    operation_id: str
    kind: str
    writer: str
    unix_ms: int
    queues: int
    finished: bool
    #: The operation that it has undone; blank for none.
    undoes: str = ""


class UndoableOperations(msgspec.Struct, frozen=True, kw_only=True):
    """The last operations."""

    operations: list[UndoableDocument]


class ReadingDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A reading of a master's offsets."""

    address: str
    master_epoch: int | None = None
    read_unix_ms: int


class RegressionDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An offset that went back."""

    cluster: str
    broker_name: str
    group: str
    topic: str
    queue_id: int
    cause: str
    unix_ms: int
    times: int
    from_offset: int
    to_offset: int | None = None
    messages_again: int | None = None
    before: ReadingDocument
    after: ReadingDocument


class RegressionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets that went back, the newest first."""

    regressions: list[RegressionDocument]
    remembered: int
    dropped: int


class MirroredSetDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The mirror of a broker set."""

    cluster: str
    broker_name: str
    reading: ReadingDocument | None = None
    age_ms: int | None = None
    state: str
    entries: int
    error: str | None = None
    kept_since_unix_ms: int | None = None


class MirrorPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of mirrored sets."""

    sets: list[MirroredSetDocument]
    next_cursor: str | None = None


class GuardCountDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of which the same became."""

    action: str
    reason: str
    outcome: str
    offsets: int


class GuardRunDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One run of the guard at one broker."""

    run: int
    cluster: str
    broker_name: str
    address: str
    cause: str
    result: str
    began_unix_ms: int
    duration_ms: int
    writes: bool
    counts: list[GuardCountDocument] = []
    error: str = ""


class GuardDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The last runs, the newest first."""

    mode: str
    runs: list[GuardRunDocument]


class GuardedRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One offset that the guard has written, or reports."""

    group: str
    topic: str
    queue_id: int
    action: str
    reason: str
    outcome: str
    #: What was read of the former master; blank for nothing, as the next ones.
    saved: int | None = None
    old_offset: int | None = None
    #: What is right: written, or to be written.
    new_offset: int | None = None
    detail: str = ""


class GuardedOffsetsPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A page of the offsets of one run."""

    offsets: list[GuardedRow]
    left_out: int = 0
    next_cursor: str | None = None
