"""Which connections have an old route of a topic, as a NameServer of this product knows it. Pure."""

from dataclasses import dataclass

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body
from remoting.protocol.codes import RequestCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.shapes.route_fetches import RouteFetch, WatchedRoute, WatchRouteFetchesHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFetch:
    """The last route of a topic that a NameServer sent over one connection."""

    #: IP address of the client.
    host: str
    has_proxy: bool
    #: Whether that route is the present one.
    is_present: bool
    #: How long ago the connection closed, by the NameServer's monotonic clock; None while it is open.
    closed_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFetches:
    """What one NameServer knows of the clients of a topic."""

    #: How long it watched before the present route was sent first, by its monotonic clock.
    watched_before_ms: int
    #: Of the present route, by broker name; 0 where the topic cannot be written to.
    write_queue_nums: dict[str, int]
    #: False if some were left out because there were too many.
    is_complete: bool
    fetches: tuple[ClientFetch, ...]


def watch_route_fetches(topic: str, keep_ms: int) -> AdminRequest[ClientFetches]:
    """Request who has fetched the route of a topic since the watch began (20105), and watch it for so long at least.

    The first request begins the watch. Raises NotSupported at a Java NameServer, and Refused with code 1 if it watches
    too many topics already. Source: docs/protocol/namesrv.md 2.23.
    """
    header = WatchRouteFetchesHeader(topic=topic, keep_ms=keep_ms)
    return AdminRequest(command(RequestCode.WATCH_ROUTE_FETCHES, header), _read)


def _read(answer: RemotingCommand) -> ClientFetches:
    body = decode_broker_body(WatchedRoute, answer.body)
    return ClientFetches(
        watched_before_ms=body.watched_before_ms,
        write_queue_nums=body.present.write_queue_nums,
        is_complete=body.is_complete,
        fetches=tuple(_fetch(each, body.present.number) for each in body.fetches),
    )


def _fetch(fetch: RouteFetch, present: int) -> ClientFetch:
    return ClientFetch(
        host=host_of(fetch.client_address),
        has_proxy=fetch.proxy_address is not None,
        is_present=fetch.version == present,
        closed_ms=fetch.closed_for_ms,
    )


def host_of(address: str) -> str:
    """Return the host of "host:port", also of "/host:port" as Java writes it."""
    return address.removeprefix("/").rpartition(":")[0]
