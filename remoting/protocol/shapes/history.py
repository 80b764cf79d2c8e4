"""Answers about the past, from the rows that servers record: `/v1/history/...`, a part of this project alone.

`history.past` makes them and a server passes them on, so both know these shapes. Times are Unix ms, UTC.
"""

from typing import Literal

import msgspec

from remoting.protocol.shapes.route import TopicRouteData

#: Whether a NameServer listed a broker. `silent`: it did, and no heartbeat came before the broker expired.
#: `unobserved`: it was paused or down, or what it knew is not in the history.
LifeState = Literal["registered", "silent", "absent", "unobserved"]


class PastQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What `python -m history.past.answers` reads from its standard input."""

    kind: Literal["route", "route-changes", "timeline"]
    #: The folder of the history (historyDir).
    folder: str
    #: A topic; of a timeline, a broker name.
    name: str
    #: Of a route, `last_ms` is the moment.
    first_ms: int
    last_ms: int
    #: Of a timeline: the broker whose life is wanted.
    broker_id: int = 0
    #: Of a timeline: what probes of brokers have shown, which tells an open port from a closed one.
    with_details: bool = True


class PastRoute(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one NameServer served for a topic."""

    #: host_port of the NameServer.
    ns_id: str
    #: Why it may have been otherwise; blank if it was so.
    doubt: str
    #: Null where no broker had the topic, or with a doubt: where no route is known.
    route: TopicRouteData | None


class PastRoutes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The route of a topic at a moment, as `rmq history route` shows it."""

    topic: str
    at_unix_ms: int
    #: One of each NameServer that the history has, by its id.
    items: list[PastRoute]
    #: Why nothing is known, as for the others; blank if something is.
    problem: str = ""


class PastRouteChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A moment at which the route of a topic may have changed."""

    unix_ms: int
    ns_id: str
    #: Null for a change of the order configuration.
    broker_name: str | None
    #: `added`, `removed`, `queues`, `perm`, `mapping` or `order` of the topic; of a broker that has it
    #: `registered_first`, `address_changed`, `role_changed`, `unregistered`, `expired` and others.
    event: str


class PastRouteChanges(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When the route of a topic changed."""

    topic: str
    #: In the order of time.
    items: list[PastRouteChange]
    #: False if there were more: these are the last ones.
    is_complete: bool
    problem: str = ""


class PastEvent(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One line of a timeline."""

    unix_ms: int
    #: host_port of the server that recorded it.
    ns_id: str
    #: Type of the row's event; `last_heartbeat` for the line before one that says since when a broker was silent.
    event: str
    broker_id: int | None
    #: For people.
    sentence: str


class LifeSpan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A period in which a NameServer's knowledge of a broker did not change."""

    ns_id: str
    first_unix_ms: int
    last_unix_ms: int
    state: LifeState
    #: Null unless it is registered or silent.
    role: Literal["master", "slave", "acting_master"] | None
    address: str | None


class PastLife(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What happened to a broker set, and when one broker of it was registered."""

    broker_name: str
    broker_id: int
    #: As `rmq history timeline` shows them, in the order of time.
    events: list[PastEvent]
    #: False if there were more of them, or of `life`: these are the last ones.
    is_complete: bool
    #: The time that the answer is about: it ends now at the latest.
    first_unix_ms: int
    last_unix_ms: int
    #: By NameServer and time, without gaps.
    life: list[LifeSpan]
    problem: str = ""


PastAnswer = PastRoutes | PastRouteChanges | PastLife


def nothing_known(query: PastQuery, problem: str) -> PastAnswer:
    """Return the answer to a query about which the history has nothing, with the reason."""
    match query.kind:
        case "route":
            return PastRoutes(topic=query.name, at_unix_ms=query.last_ms, items=[], problem=problem)
        case "route-changes":
            return PastRouteChanges(topic=query.name, items=[], is_complete=True, problem=problem)
        case "timeline":
            return PastLife(
                broker_name=query.name,
                broker_id=query.broker_id,
                events=[],
                is_complete=True,
                first_unix_ms=query.first_ms,
                last_unix_ms=query.last_ms,
                life=[],
                problem=problem,
            )
