"""Data of the events that watchers get (docs/route-watch.md)."""

import msgspec

from remoting.protocol.shapes.route import BrokerData


class RouteWatchEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of an event `route`: the route of a watched topic."""

    topic: str
    #: As /v1/topics/{topic}/route has it; null if no broker has the topic.
    route: msgspec.Raw
    #: When it became so; null if that was before the server followed the topic.
    changed_unix_ms: int | None
    #: The id of the event; null while more of the present routes follow.
    id: str | None


class WatchGapEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of an event `gap`: changes may be missing, and the present routes follow."""

    reason: str
    topics: list[str]


class ClusterWatchEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of an event `broker`: what happened to a broker, and its set afterwards."""

    #: registered, masterChanged, or why it left: request, timeout, channel_closed, superseded, conflict.
    change: str
    cluster: str
    broker_name: str
    broker_id: int
    broker_addr: str
    #: The set as it is now; null if no broker of it is left.
    broker_set: BrokerData | None
    changed_unix_ms: int
    id: str


class ClusterWatchStart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of an event `cluster`: changes after this one follow; /v1/brokers has what there is."""

    brokers: int
    broker_sets: int
    id: str | None


class ClusterWatchGap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Data of an event `gap`: changes may be missing; read /v1/brokers again."""

    reason: str
