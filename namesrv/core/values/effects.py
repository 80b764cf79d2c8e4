"""What a change of state requires of the edge, and its events: values only, carried out in `effect_runner.py`.

Every effect here is performed after the reply has left; what must be durable before a reply (KV, configuration) is
written by the handler that answers, before it changes anything.
"""

from enum import Enum
from typing import Generic, TypeVar

import msgspec

from remoting.protocol.shapes.route import DataVersion

Reply = TypeVar("Reply")


class DepartureReason(Enum):
    """Why a broker left the routes; the values are the metric's labels."""

    REQUEST = "request"
    TIMEOUT = "timeout"
    CHANNEL_CLOSED = "channel_closed"
    #: Another process took its place under the same broker id.
    SUPERSEDED = "superseded"
    #: It came back with an older state than the member that holds its broker id.
    CONFLICT = "conflict"


class RegistrationResult(Enum):
    """What a registration did; the values are the metric's labels."""

    FIRST = "first"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    #: Answered with an error, or left aside because it came late; nothing changed.
    REJECTED = "rejected"


class HeartbeatKind(Enum):
    """What refreshed a broker's liveness; the values are the metric's labels."""

    REGISTER = "register"
    HEARTBEAT = "heartbeat"
    DATA_VERSION = "data_version"


class RouteChanges(msgspec.Struct, frozen=True, kw_only=True):
    """How many topics of one broker set changed in the routes, by kind."""

    topics_added: int = 0
    topics_removed: int = 0
    queues: int = 0
    perm: int = 0
    #: A few of the topics, for the log.
    sample: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.topics_added or self.topics_removed or self.queues or self.perm)


# Events: what happened. They are logged and counted, and nothing depends on them.


class BrokerEvent(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    broker_name: str
    broker_id: int
    address: str


class BrokerRegistered(BrokerEvent, frozen=True, kw_only=True):
    result: RegistrationResult
    heartbeat_timeout_ms: int
    data_version: DataVersion
    topics: int
    #: Topics of the request that were left out because their names cannot be topics.
    ignored_topics: int
    body_bytes: int
    changes: RouteChanges
    master_changed: bool
    set_added: bool


class RegistrationConflicted(BrokerEvent, frozen=True, kw_only=True):
    """A registration was turned away because a live member with a newer state holds its broker id."""

    state_version: int
    holder_address: str
    holder_state_version: int


class StaleRegistration(BrokerEvent, frozen=True, kw_only=True):
    """A registration came over an older connection than the broker's present one and was left aside."""


class BrokerHeartbeat(BrokerEvent, frozen=True, kw_only=True):
    kind: HeartbeatKind
    #: Ms since its previous heartbeat; None at its first registration.
    interval_ms: int | None
    heartbeat_timeout_ms: int
    #: Of its last registration.
    data_version: DataVersion


class BrokerRemoved(BrokerEvent, frozen=True, kw_only=True):
    reason: DepartureReason
    #: Ms since its last heartbeat.
    silent_ms: int
    heartbeat_timeout_ms: int
    was_master: bool
    #: It was the last member, so the set and its queues are gone.
    set_removed: bool
    changes: RouteChanges


class StaleUnregistration(msgspec.Struct, frozen=True, kw_only=True):
    """An unregistration came over an older connection than the broker's present one and was left aside."""

    cluster: str
    broker_name: str
    address: str


class TopicsChangedByAdmin(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's command, or a single-topic registration, changed the routes."""

    request: str
    #: Topic or broker name the command was about.
    target: str
    cluster: str
    broker_name: str
    changes: RouteChanges


Event = (
    BrokerRegistered
    | RegistrationConflicted
    | StaleRegistration
    | BrokerHeartbeat
    | BrokerRemoved
    | StaleUnregistration
    | TopicsChangedByAdmin
)


# Effects: what the edge has to do.


class NotifyMinBrokerIdChange(msgspec.Struct, frozen=True, kw_only=True):
    """Notify brokers of the member of their set that now has the smallest broker id (request 905, one-way)."""

    broker_name: str
    min_broker_id: int
    min_broker_addr: str
    #: The member that left, if one did.
    offline_broker_addr: str | None
    #: Where to replicate from, if a member joined.
    ha_broker_addr: str | None
    recipients: tuple[str, ...]


class CloseConnection(msgspec.Struct, frozen=True):
    """Close the connection of a broker that was given up."""

    connection_id: int


class ProbeConnection(msgspec.Struct, frozen=True):
    """Find out whether the other end of a connection still exists, over which a broker registered before."""

    connection_id: int


Effect = NotifyMinBrokerIdChange | CloseConnection | ProbeConnection


class RouteOutcome(msgspec.Struct, Generic[Reply], frozen=True, kw_only=True):
    """What one event did to the state: the answer for the peer, what happened, and what to do about it."""

    reply: Reply
    events: tuple[Event, ...] = ()
    effects: tuple[Effect, ...] = ()
