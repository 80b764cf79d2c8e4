"""What a synthetic history is made from: servers, brokers, topics, and what is planted in their lives. Values only.

Times are Unix us of a clock that is right, whatever the clocks of the servers say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from history.schemas import SCHEMA_VERSION

MS = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

#: Monday, 2026-03-02 00:00 UTC.
MONDAY = 1_772_409_600 * SECOND

CLUSTER = "DefaultCluster"


class BrokerKey(NamedTuple):
    """Which broker, wherever it runs."""

    broker_name: str
    broker_id: int = 0


class End(Enum):
    """How a broker's life ends; the values are what NameServers record of it."""

    PLANNED = "unregistered"
    #: Its process dies, and its host closes the connection.
    CRASH = "channel_closed"
    #: Its host dies or is cut off for good: nobody hears of it.
    SILENT = "expired"
    #: Its process goes on under another broker id, and nothing is recorded of the former one.
    MOVED = "moved"


class Outage(NamedTuple):
    """A broker is down."""

    broker: BrokerKey
    from_us: int
    #: Its first registration after it; None: it never comes back.
    to_us: int | None
    end: End = End.CRASH
    #: Where it comes back, if that is another address.
    address: str | None = None


class Freeze(NamedTuple):
    """A broker's process stands still; its connections stay."""

    broker: BrokerKey
    from_us: int
    to_us: int


class Move(NamedTuple):
    """A broker's process takes another place in its set, and beats from there until the end."""

    broker: BrokerKey
    to: BrokerKey
    at_us: int


class Cut(NamedTuple):
    """One server hears nothing of a broker; the others do."""

    broker: BrokerKey
    server: str
    from_us: int
    to_us: int


class Downtime(NamedTuple):
    """A server is down. `clean`: it stopped in order, and has recorded all it saw."""

    from_us: int
    to_us: int
    clean: bool = True


class Pause(NamedTuple):
    """A server serves, and cannot record."""

    from_us: int
    to_us: int


class Topic(NamedTuple):
    """A topic as it is on each of these sets from the beginning on."""

    name: str
    brokers: tuple[str, ...]
    read: int = 8
    write: int = 8
    perm: int = 6


class TopicChange(NamedTuple):
    """A topic is altered on one set: `read` None removes it. The set's data version rises with it."""

    at_us: int
    topic: str
    broker_name: str
    read: int | None
    write: int | None
    perm: int | None = 6


class PlannedEvent(NamedTuple):
    """A row of any family that one server records, if it runs then; the envelope is filled in."""

    at_us: int
    server: str
    family: str
    event_type: str
    values: Mapping[str, Any]


def address_of(key: BrokerKey) -> str:
    """Return where a broker is from the beginning on."""
    return f"{key.broker_name}-{key.broker_id}:10911"


@dataclass(frozen=True, kw_only=True)
class Broker:
    """One broker: how it beats while nothing happens to it."""

    key: BrokerKey
    cluster: str = CLUSTER
    period_ms: int = 30_000
    timeout_ms: int = 120_000
    #: It beats within so many ms of its time, evenly.
    jitter_ms: float = 100
    #: Share of its beats that are lost, at each server by itself.
    drop: float = 0
    #: From a source of randomness to the ms until its next beat; instead of period and jitter.
    gap_ms: Callable[[Random], float] | None = None
    #: When it is started for the first time; None: within the first period.
    since_us: int | None = None

    @property
    def address(self) -> str:
        """Where it is, unless an outage moved it."""
        return address_of(self.key)


@dataclass(frozen=True, kw_only=True)
class Server:
    """One NameServer or controller, and how its records are told."""

    name: str
    source: str = "namesrv"
    #: So much its wall clock is ahead.
    skew_us: int = 0
    downtimes: tuple[Downtime, ...] = ()
    pauses: tuple[Pause, ...] = ()
    schema_version: int = SCHEMA_VERSION
    #: Columns that its release does not write.
    lacks: frozenset[str] = frozenset()
    #: What its release writes beside the columns that are known here.
    extras: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plant:
    """What is added to a plan, and the truth about it: table -> rows."""

    outages: tuple[Outage, ...] = ()
    freezes: tuple[Freeze, ...] = ()
    moves: tuple[Move, ...] = ()
    cuts: tuple[Cut, ...] = ()
    topics: tuple[Topic, ...] = ()
    topic_changes: tuple[TopicChange, ...] = ()
    happenings: tuple[PlannedEvent, ...] = ()
    truth: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def three_servers(**values: Any) -> tuple[Server, ...]:
    """Return three NameServers that are alike."""
    return tuple(Server(name=f"ns-{number}", **values) for number in range(3))


def brokers(count: int, **values: Any) -> tuple[Broker, ...]:
    """Return masters of so many sets: broker-000, broker-001, ..."""
    return tuple(Broker(key=BrokerKey(f"broker-{number:03}"), **values) for number in range(count))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A whole synthetic history before it is played."""

    start_us: int = MONDAY
    end_us: int = MONDAY + DAY
    seed: int = 1
    servers: tuple[Server, ...] = field(default_factory=three_servers)
    brokers: tuple[Broker, ...] = ()
    #: Brokers beat to controllers each second, and controllers keep summaries of that.
    heartbeats_to_controllers: bool = False
    #: How often servers write down how everything stands.
    snapshot_us: int = HOUR
    #: Columns of `ns_tick` at a moment, over the default ones.
    gauges: Callable[[Server, int], Mapping[str, Any]] | None = None
    plant: Plant = field(default_factory=Plant)

    def with_plants(self, *plants: Plant) -> "Plan":
        """Return the plan with more planted in it."""
        merged = self.plant
        for plant in plants:
            names = {*merged.truth, *plant.truth}
            merged = Plant(
                outages=merged.outages + plant.outages,
                freezes=merged.freezes + plant.freezes,
                moves=merged.moves + plant.moves,
                cuts=merged.cuts + plant.cuts,
                topics=merged.topics + plant.topics,
                topic_changes=merged.topic_changes + plant.topic_changes,
                happenings=merged.happenings + plant.happenings,
                truth={name: (*merged.truth.get(name, ()), *plant.truth.get(name, ())) for name in names},
            )
        return replace(self, plant=merged)
