"""Who fetched the route of a topic: WATCH_ROUTE_FETCHES (20105), a request of this NameServer alone.

docs/protocol/namesrv.md 2.23.
"""

import msgspec

from remoting.protocol.shapes.integers import Int64


class WatchRouteFetchesHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of WATCH_ROUTE_FETCHES (20105)."""

    topic: str | None = None
    #: The watch lasts at least so long from now on.
    keep_ms: Int64 | None = None


class RouteFetch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The last route of the topic that was sent over one connection."""

    #: "host:port" of the client; behind a proxy the one that the proxy announced.
    client_address: str
    #: "host:port" of the proxy; None without one.
    proxy_address: str | None
    #: `RouteVersion.number` of that route.
    version: int
    fetched_unix_ms: int
    #: How long ago the connection closed, by the monotonic clock; None while it is open.
    closed_for_ms: int | None = None


class RouteVersion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The part of a route that producers use: its write queues. Addresses and read queues do not count."""

    #: 1 when the watch began; another one with each change.
    number: int
    #: No route of this version was sent before; the change itself may be older.
    since_unix_ms: int
    #: By broker name; 0 where the topic cannot be written to, empty if no broker has the topic.
    write_queue_nums: dict[str, int]
    #: From which clients read the queues of an ordered topic instead.
    order_topic_conf: str | None


class WatchedRoute(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to WATCH_ROUTE_FETCHES (20105)."""

    topic: str
    #: Of this watch in this process: another one means that fetches in between are not known.
    watch_id: str
    watched_since_unix_ms: int
    #: From then until the present version was sent first, by the monotonic clock.
    watched_before_ms: int
    #: The watch ends then unless it is requested again.
    ends_in_ms: int
    present: RouteVersion
    #: False if fetches were left out because there were too many connections.
    is_complete: bool
    #: One of each connection that fetched the route since the watch began, closed ones too.
    fetches: list[RouteFetch]
