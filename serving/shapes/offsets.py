"""Bodies of requests to the offset manager, and of its answers that `rmq` reads too. Times are Unix ms, UTC.

`row_key` has the fields that say which thing a row is about.
"""

import enum
from typing import Annotated, ClassVar, Final, Literal

import msgspec

#: RocketMQ's default of `brokerClusterName`.
DEFAULT_CLUSTER: Final = "DefaultCluster"
#: Bytes of a file in a request, before it is written as Base64, and of the body that has it.
FILE_BYTES_MAX: Final = 3 << 20

#: Who makes a change: a client id, or the name of an operator.
Who = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Moment = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Dialect = Literal["broker", "client"]
StoreKind = Literal["embedded", "etcd"]
RepairMode = Literal["report", "act"]


class _Body(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    pass


class ManagerView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One offset manager."""

    id: str
    #: `host:port` at which clients reach it.
    address: str
    group: str
    role: Literal["leading", "loading", "following"]
    #: Of the manager that leads, this one too; null: no manager is known to.
    leader_address: str | None
    #: Who tells it the masters. `nobody`: neither controllerHttpAddr nor namesrvAddr is set, so it reads no broker and
    #: repairs nothing.
    follows: Literal["controllers", "name_servers", "nobody"]
    #: A controller or NameServer has answered lately.
    masters_known: bool
    #: Broker sets that it follows, and those of them that have a master.
    broker_sets: int
    broker_sets_with_master: int
    store: StoreKind
    #: Offsets that clients committed to it: those it has, and those of them that the store lacks.
    offsets: int
    dirty_keys: int
    oldest_dirty_ms: int
    last_flush_error: str


class Outcome(enum.StrEnum):
    """Outcome for one queue of a group."""

    #: Nothing has to be written.
    RIGHT = "right already"
    #: It was raised to what a reading proves.
    PUSHED = "pushed"
    #: It was set to where the logs have parted, or below.
    SET_BACK = "set back"
    #: It would be written: `rmq offsets repair RUN` does it.
    WOULD_CHANGE = "would change"
    #: The group may skip messages or read them again, and nothing proves where it should go on.
    NOT_PROVED = "not proved"
    #: It was to be written, and the broker does not show it.
    FAILED = "failed"


class JumpCause(enum.StrEnum):
    """Why offsets jumped, as far as it changes what an operator does."""

    #: Another broker is master, or the same one in a later epoch.
    FAILOVER = "failover"
    #: The master started again.
    RESTART = "restart"
    #: The same, and the log ends before where it ended: messages are lost.
    LOST = "lost"
    #: Somebody has set it: a tool, or a client that committed something else.
    RESET = "reset"
    #: Somebody has deleted it, with its group, its topic or alone.
    DELETED = "deleted"


class QueueJump(msgspec.Struct, frozen=True, array_like=True):
    queue_id: int
    before: int
    #: None: there is no offset any more.
    after: int | None

    def __str__(self) -> str:
        return f"{self.queue_id}:{self.before}>{'none' if self.after is None else self.after}"


class Jump(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A jump of a group in a topic on one broker set, as two readings show it."""

    #: Of the later reading.
    unix_ms: int
    cluster: str
    broker_name: str
    group: str
    topic: str
    cause: JumpCause
    #: Queues that jumped, and the first 64 of them.
    queue_count: int
    queues: tuple[QueueJump, ...]
    #: Messages between the offsets, at most: read again, and passed unread.
    messages_again: int
    messages_skipped: int
    #: Queues without an offset from then on.
    removed: int
    master: str
    former_master: str
    master_epoch: int | None
    #: Between the two readings.
    interval_ms: int


class JumpListing(msgspec.Struct, frozen=True, rename="camel"):
    """The last jumps, the newest first."""

    jumps: list[Jump]


class ReplicaStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A replica of a broker set."""

    address: str
    #: When it was read last; null: never.
    read_unix_ms: int | None
    #: Whether it copies offsets from its master: those of 5.5.0 do not, 5.5.1 does. null: not known yet.
    copies: bool | None
    #: Why it could not be read last; blank if it could.
    problem: str

    def __str__(self) -> str:
        copies = "unknown" if self.copies is None else "copies" if self.copies else "copies-nothing"
        return f"{self.address}={'not-read' if self.problem else copies}"


class SetStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """How a broker set is read."""

    cluster: str
    broker_name: str
    #: `host:port`; null: it has none at present.
    master: str | None
    master_epoch: int | None
    #: When its offsets were read last, from whom and in which epoch; null: never.
    read_unix_ms: int | None
    read_from: str | None
    read_epoch: int | None
    #: The newest reading is not older than three periods.
    fresh: bool
    #: Groups in topics.
    groups: int
    #: Those among them that are not written as brokers write them, and are not known here.
    left_out: int
    #: Messages that its log is known again by.
    fingerprints: int
    log_end: int | None
    #: The oldest reading that is kept; in the last hour there is one in each period, before that one in each hour.
    oldest_unix_ms: int | None
    #: Why it could not be read last; blank if it could.
    problem: str
    replicas: list[ReplicaStatus]


class ReadSetListing(msgspec.Struct, frozen=True, rename="camel"):
    """A page of broker sets, by cluster and name."""

    sets: list[SetStatus]
    total: int
    next_cursor: str | None


class RepairView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A repair of the offsets of a set after a change of its master."""

    number: int = msgspec.field(name="run")
    cluster: str
    broker_name: str
    #: Of the new master.
    address: str
    master_epoch: int | None
    #: What happened: found, gained, moved, or restarted.
    cause: str
    began_unix_ms: int
    took_ms: int
    #: From the notice of the change to the first write; null: nothing was written.
    first_write_ms: int | None
    #: When the former master was read last.
    read_unix_ms: int
    #: Where the log has parted from that of the former master; null: no loss is known.
    parted_at: int | None
    #: Queues by outcome: right already, pushed, set back, would change, not proved, failed.
    counts: dict[str, int]
    #: Of queues that would change: messages that are read again, and that may be skipped, until it is applied.
    messages_again: int
    messages_skipped: int
    #: Why nothing, or not all, was decided; blank: all was.
    problem: str
    applied_unix_ms: int | None
    applied_by: str


class RepairListing(msgspec.Struct, frozen=True, rename="camel"):
    """The last runs, the newest first."""

    mode: RepairMode
    #: Sets with a run under way.
    running: int
    runs: list[RepairView]


class RepairedQueueView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Outcome for one queue of a group."""

    group: str
    topic: str
    queue_id: int
    outcome: Outcome
    #: Up to where the group went on before the change; null: it is not known.
    before: int | None
    #: What the new master showed; null: no offset.
    shown: int | None
    #: What was, or is to be, written; null for nothing.
    offset: int | None
    #: Of a higher offset until it is written; of a lower one once it is, as the group read them since the run.
    messages_again: int
    #: Of a lower offset, until it is written: at most.
    messages_skipped: int
    why: str


class RepairQueues(msgspec.Struct, frozen=True, rename="camel"):
    """A run with a page of its queues, without those that were right already."""

    run: RepairView
    queues: list[RepairedQueueView]
    total: int
    next_cursor: str | None


class ApplyBody(_Body, frozen=True, kw_only=True):
    """Apply a repair run."""

    writer: Who
    #: Only answer what it would write now.
    dry_run: bool = False
    #: Also where a group has gone on since behind a lost end: it reads that again.
    allow_back: bool = False


class AllowedBody(_Body, frozen=True, kw_only=True):
    """What an operator allows."""

    writer: Who
    #: Only answer what would become of each queue.
    dry_run: bool = False
    #: Also where it is not proved that nobody's messages are skipped.
    allow_unproved: bool = False
    #: The groups pull, and do not pop: their members need not show it.
    pulls: bool = False


class RestoreBody(AllowedBody, frozen=True, kw_only=True):
    """Offsets of a reading to restore at brokers: all of a cluster, unless narrowed."""

    cluster: str = DEFAULT_CLUSTER
    group: str | None = None
    topic: str | None = None
    broker_name: str | None = None
    #: Unix ms, or former: before the last change of the master of each broker set.
    moment: Moment | Literal["former"]
    #: Let offsets go back: messages are read again.
    allow_back: bool = False
    #: Also what somebody has set or deleted since.
    over_resets: bool = False


class UndoBody(AllowedBody, frozen=True, kw_only=True):
    """An operation to undo."""

    operation_id: str
    #: Also of queues whose offset has moved since, or was set again.
    force: bool = False


class ImportBody(AllowedBody, frozen=True, kw_only=True):
    """A file with offsets to import."""

    dialect: Dialect
    #: The bytes of the file, in Base64.
    file: Annotated[bytes, msgspec.Meta(max_length=FILE_BYTES_MAX)]
    cluster: str = DEFAULT_CLUSTER
    #: Of the offsets of this manager.
    namespace: str = ""
    #: Whose file it is, of dialect broker.
    broker_name: str = ""
    #: Whose file it is, of dialect client; of the other one: only this group.
    group: str = ""
    #: manager: into the table of this manager; broker: to the masters of the broker sets.
    target: Literal["manager", "broker"]
    allow_back: bool = False


class Status(enum.StrEnum):
    """Outcome for one queue of a group."""

    #: The broker shows the offset, or what its group has consumed since.
    DONE = "done"
    #: It is to be written, or would be.
    WOULD_CHANGE = "would change"
    #: The broker shows it already.
    RIGHT = "right already"
    #: Nothing is written, and `why` says what to do.
    NOT_PROVED = "not proved"
    #: It was to be written, and the broker does not show it for certain.
    FAILED = "failed"


class SetProblemView(msgspec.Struct, frozen=True, rename="camel"):
    """A broker set about which nothing is known, or for which nothing was done."""

    broker_name: str
    reason: str


class RestoredView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Actual or, with dryRun, expected outcome for one queue of a group."""

    group: str
    topic: str
    broker_name: str
    queue_id: int
    status: Status
    #: What is stored before it; null for nothing, or if that is not known.
    old: int | None
    #: What is stored after it; null for nothing.
    new: int | None
    #: Messages that are read again, if all are still there; null where that is not known.
    messages_again: int | None
    #: Messages that are never read; null where that is not known.
    messages_never: int | None
    #: What is wrong, and which field of the request overrides it.
    why: str


class RestoreAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Actual or, with dryRun, expected outcome for all queues."""

    dry_run: bool
    #: Undoes it; blank if no broker was sent anything.
    operation_id: str
    #: How many queues have each status.
    counts: dict[str, int]
    queues: list[RestoredView]
    #: Broker sets whose offsets of that moment are not known.
    problems: list[SetProblemView]
    #: Entries of a file that are not used, each with the reason.
    unused: list[str] = []


class ExportBody(_Body, frozen=True, kw_only=True):
    """Offsets to export as a file."""

    dialect: Dialect
    #: manager: the table of this manager; readings: what the master of the broker set had at its newest reading.
    source: Literal["manager", "readings"]
    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""
    #: Must be given for dialect broker, and for readings.
    broker_name: str | None = None
    #: Must be given for dialect client.
    group: str | None = None
    topic: str | None = None


class ExportAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Offsets as a file."""

    #: In Base64.
    file: bytes
    #: Offsets in it.
    offsets: int
    #: Offsets that are not in it, and why.
    unavailable: list[str]


class KeptOperationView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """An operation that can be undone."""

    operation_id: str
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
    """Lag of a group in one queue."""

    topic: str
    broker_name: str
    queue_id: int
    #: The next offset to be written; null if it is not known.
    max_offset: int | None
    #: The next offset to consume; null if none is stored, or it is not known.
    committed_offset: int | None
    #: Where that is stored.
    committed_in: Literal["manager", "broker"] | None
    #: unknown is never 0.
    lag: int | Literal["unknown"]
    #: Why it is unknown.
    reason: str


class LagListing(msgspec.Struct, frozen=True, rename="camel"):
    """Lag of a group in all its queues."""

    group: str
    #: The sum of what is known; null if nothing is.
    known_lag: int | None
    #: Queues whose lag is unknown.
    unknown: int
    queues: list[LagView]
    #: Broker sets of which nothing is known.
    unavailable: list[SetProblemView]


class TopicGroupView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A group with offsets in a topic: it reads the topic, or has read it."""

    row_key: ClassVar = ("cluster", "group", "kind")

    cluster: str
    group: str
    #: broadcast: its members keep their offsets, and brokers only the least position.
    kind: Literal["clustering", "broadcast"]
    #: How many broker sets have them.
    broker_sets: int


class TopicGroupListing(msgspec.Struct, frozen=True, rename="camel"):
    """A page of the groups of a topic, by cluster and name."""

    groups: list[TopicGroupView]
    total: int
    next_cursor: str | None


class GroupBody(_Body, frozen=True, kw_only=True):
    """A consumer group."""

    writer: Who
    cluster: str = DEFAULT_CLUSTER
    namespace: str = ""
    group: str


class OrderlyAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Whether the request changed anything."""

    changed: bool


class OrderlyGroupView(msgspec.Struct, frozen=True, rename="camel"):
    """A declared group, as brokers spell it."""

    row_key: ClassVar = ("cluster", "group")

    cluster: str
    group: str


class OrderlyGroupListing(msgspec.Struct, frozen=True, rename="camel"):
    """The declared groups, by cluster and name."""

    total: int
    groups: list[OrderlyGroupView]
    next_cursor: str | None


class HeldQueueView(msgspec.Struct, frozen=True, rename="camel"):
    """A queue whose lock a client holds, according to its last answer."""

    topic: str
    broker_name: str
    queue_id: int
    #: held; expired: the client could not renew the lock for 30 s and does not consume; dropped: it is giving it up.
    state: str
    #: When the client took or renewed the lock, by its own clock; null if it does not report it.
    locked_unix_ms: int | None
    #: When this manager took the lock at the master in the client's name; null if it did not.
    replayed_unix_ms: int | None


class HolderView(msgspec.Struct, frozen=True, rename="camel"):
    """A client and the queues that it holds."""

    client_id: str
    #: When it answered last; null if it has not.
    confirmed_unix_ms: int | None
    queues: list[HeldQueueView]


class HolderListing(msgspec.Struct, frozen=True, rename="camel"):
    """Clients of a group and the queues that they hold at brokers, by client id."""

    #: Whether the group is declared orderly: clients of others are not asked.
    is_declared: bool
    #: orderly, concurrent (a client is not orderly: nothing is replayed), or unknown (none has answered yet).
    kind: str
    #: Clients of the group that brokers list.
    members: int
    holders: list[HolderView]
    next_cursor: str | None


class OverlapView(msgspec.Struct, frozen=True, rename="camel"):
    """A queue that two clients hold at the same time; both may consume it."""

    row_key: ClassVar = ("cluster", "group", "topic", "broker_name", "queue_id", "clients")

    cluster: str
    group: str
    topic: str
    broker_name: str
    queue_id: int
    clients: tuple[str, str]
    #: At the latest since then.
    since_unix_ms: int


class OverlapListing(msgspec.Struct, frozen=True, rename="camel"):
    """Open overlaps, by cluster, group and queue."""

    total: int
    overlaps: list[OverlapView]
    next_cursor: str | None
