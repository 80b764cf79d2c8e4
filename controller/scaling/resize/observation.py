"""What brokers, NameServers and clients answered in one round about the topic of a resize. Pure values.

What is not known is None, and never zero: a rule that needs it waits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import msgspec

from controller.scaling.resize.operation import MasterIdentity, QueueCounts, QueueId

#: Message types (5.5+) that give the number of queues a meaning, and which.
SPECIAL_TYPES: Final = {"PRIORITY": "each queue is a priority", "LITE": "brokers place lite topics by its queues"}


class GroupKind(Enum):
    """How the members of a group consume; decides when a queue is drained (docs/protocol/queue-scaling.md 6)."""

    CONCURRENT = "concurrent"
    ORDERLY = "orderly"
    #: Pull and lite pull: the committed offset means pulled, not consumed.
    PULL = "pull"
    #: They chose their queues themselves, without a subscription: `assign()` of lite pull (Flink), plain pull.
    ASSIGNED = "assigned"
    POP = "pop"
    BROADCAST = "broadcast"
    #: Some members do not report how they consume: in order, one by one, or by a proxy.
    UNKNOWN = "unknown"
    #: No member is connected to any broker of the topic.
    OFFLINE = "offline"

    @property
    def gives_queues_to_clients(self) -> bool:
        """Whether each queue belongs to one client at a time, so that clients beyond the queues have nothing to do."""
        return self in {GroupKind.CONCURRENT, GroupKind.ORDERLY, GroupKind.PULL}

    @property
    def is_shown_by_brokers(self) -> bool:
        """Whether brokers tell it; what else a group is, only its clients know."""
        return self in {GroupKind.BROADCAST, GroupKind.POP, GroupKind.PULL}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEnds:
    """The first offset that can be read, and the next one to be written."""

    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayProgress:
    """Delayed messages of one level: the next offset to be delivered, and the next one to be written."""

    delivered: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LateSources:
    """Messages of a broker whose queue is fixed already (docs/protocol/queue-scaling.md 7)."""

    levels: Mapping[int, DelayProgress]
    #: Pending timed messages of the topic; 0 where a broker has none (before 5.0).
    timed: int
    #: Transactional half messages that are not checked to the end, of all topics.
    half_messages: int
    #: Those that are stored in RocksDB (5.5): nothing shows which of them are decided.
    rocksdb_half_messages: int = 0
    #: How long the broker checks a transaction, by its options; 0: unknown.
    transaction_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """The commit log: its end, and up to where its messages are in queues."""

    end: int
    dispatched: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetView:
    """What the brokers of one set answered; only what the phase needs is requested."""

    broker_name: str
    #: None while the set has no master, or it does not answer.
    master: MasterIdentity | None = None
    #: As the master has stored them.
    counts: QueueCounts | None = None
    #: False: the master answered that it has no such topic.
    has_topic: bool = True
    #: By address; None of a slave that does not answer, or does not have the topic yet.
    slaves: Mapping[str, QueueCounts | None] = field(default_factory=dict)
    ends: Mapping[int, QueueEnds] = field(default_factory=dict)
    log: LogPosition | None = None
    late: LateSources | None = None
    #: Group -> queue -> stored offset; a queue that is not there has none.
    offsets: Mapping[str, Mapping[int, int]] | None = None
    #: The same of broadcasting groups, as far as the broker stores them: what each member has pulled.
    broadcast_offsets: Mapping[str, Mapping[int, int]] | None = None
    #: Groups without a configuration on this broker: nothing can be stored for them, and they consume nothing here.
    unknown_groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerView:
    address: str
    #: By broker name; None without an answer.
    counts: Mapping[str, QueueCounts] | None
    order_conf: str | None = None
    #: Whether its route carries the entry, and clients follow it (orderMessageEnable).
    sends_order_conf: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedQueue:
    commit_offset: int
    cached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientView:
    client_id: str
    #: None if the client could not be queried.
    queues: Mapping[QueueId, ConsumedQueue] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A consumer group of the topic, over all broker sets."""

    name: str
    kind: GroupKind
    clients: tuple[ClientView, ...] = ()
    #: Of a group that is offline: how it consumed when its clients were queried last; None if they never were.
    last_kind: GroupKind | None = None

    @property
    def is_online(self) -> bool:
        return self.kind is not GroupKind.OFFLINE

    @property
    def is_orderly(self) -> bool:
        """True if it consumes in order, or did so before it went offline."""
        return GroupKind.ORDERLY in {self.kind, self.last_kind}

    @property
    def chooses_queues(self) -> bool:
        """True if its application chooses its queues, or did so before it went offline."""
        return GroupKind.ASSIGNED in {self.kind, self.last_kind}

    @property
    def reported_kind(self) -> GroupKind | None:
        """How it consumes; None if no client has answered that alone knows it."""
        is_answered = any(each.queues is not None for each in self.clients) and self.kind is not GroupKind.UNKNOWN
        return self.kind if self.kind.is_shown_by_brokers or is_answered else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleProducers:
    """Clients that have not fetched the present route, by the NameServers of this product."""

    #: False: a NameServer cannot tell, or clients come through NAT or proxies: the fixed wait counts.
    is_complete: bool = False
    #: Their IP addresses.
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeObservation:
    #: Monotonic.
    now_ms: int
    unix_ms: int
    sets: Mapping[str, SetView]
    name_servers: tuple[NameServerView, ...]
    #: None if they were not requested, or a broker did not answer.
    groups: tuple[GroupView, ...] | None = None
    producers: StaleProducers = StaleProducers()
    #: What was needed and is not known, as sentences; timers stand still meanwhile.
    missing: tuple[str, ...] = ()
    #: Actions of the last round that did not succeed, as sentences.
    failures: tuple[str, ...] = ()
    #: Facts that refuse a resize at its start: static topic, order flag and so on; only in PRECHECK.
    traits: frozenset[str] = frozenset()

    @property
    def is_in_no_route(self) -> bool:
        """True if every NameServer answered that it does not know the topic."""
        return bool(self.name_servers) and all(each.counts == {} for each in self.name_servers)


class TopicTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a topic that only its plan needs."""

    #: By broker name: its queues and addresses.
    counts: dict[str, QueueCounts] = {}
    clusters: dict[str, str] = {}
    is_static: bool = False
    #: Stored flag, message type FIFO, or compaction.
    is_ordered: bool = False
    #: Of SPECIAL_TYPES; blank for all others.
    special_type: str = ""
    #: None: there is no entry.
    order_conf: str | None = None
    #: Sets of the clusters of the topic that the controller knows, and no NameServer: they may have it.
    absent_sets: tuple[str, ...] = ()
    #: Other sets of these clusters that NameServers of ours remember, and of which no broker is registered.
    away_sets: tuple[str, ...] = ()
    #: Sets that had the topic at an earlier resize, by the stored operations.
    former_sets: tuple[str, ...] = ()
    #: By broker name: numbers of queues above the limit, whose ends nobody looks at.
    too_many_queues: dict[str, int] = {}
