"""Chooses which connection is evicted when there are too many, so that a broker always gets one.

First connections of unknown kind that were idle for some seconds; then clients, which connect again by themselves; then
the latest newcomers, up to a share of all connections. Within each the longest idle goes first.

The connection of a registered broker is protected: requests that only brokers send are not enough, as anybody can send
them. But anybody can also register brokers. So where registered brokers hold more than a share of all connections, one
of them goes before clients do: of the host that has most of them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heapify, heapreplace, nlargest, nsmallest
from ipaddress import IPv6Address
from operator import attrgetter
from typing import Final, Generic, Protocol, TypeVar

from remoting.server.observer import CloseReason, ConnectionKind

#: A newcomer that is no client yet is preferred to clients for so long, in ms.
NEWCOMER_MS: Final = 3_000
#: Candidates chosen with one walk over all connections, which takes some milliseconds.
CANDIDATES_MAX: Final = 256
#: Candidates are valid for so long, in ms.
_CANDIDATES_MS: Final = 3_000

#: Such a part of the connections are newcomers that are preferred to clients.
_SHARE_OF_NEWCOMERS: Final = 8
#: Such a part is not for registered brokers, if others want it.
_SHARE_OF_OTHERS: Final = 4


class RankedConnection(Protocol):
    """A connection that has a place in the order in which those of a host are evicted."""

    id: int
    #: When the peer last sent or read something.
    last_activity_ms: int


class LimitedConnection(RankedConnection, Protocol):
    """A connection that counts towards the limit."""

    #: The network of the other end itself, as `network_of`: nobody can pretend that.
    network: str
    #: The "host:port" that a proxy there claims to forward for; the peer's own without a proxy.
    peer: str

    @property
    def kind(self) -> ConnectionKind:
        """Whether the peer's requests show a broker or a client."""

    @property
    def is_closing(self) -> bool:
        """Whether it is about to free its place."""


Each = TypeVar("Each", bound=LimitedConnection)
Ranked = TypeVar("Ranked", bound=RankedConnection)


def network_of(host: str) -> str:
    """Return the network of an address: an IPv4 address itself, half of an IPv6 one, as a host chooses the rest."""
    if ":" not in host:
        return host
    address = IPv6Address(host.partition("%")[0])
    return str(address.ipv4_mapped) if address.ipv4_mapped else address.packed[:8].hex()


class ConnectionLimit(Generic[Each]):
    """The connections of one server, and which of them is evicted next."""

    def __init__(
        self, connections: Callable[[], Iterable[Each]], is_protected: Callable[[int], bool], connections_max: int
    ) -> None:
        """Take what returns the open connections, and of an id whether it is protected."""
        self._connections = connections
        self._is_protected = is_protected
        self._newcomers_max = max(1, connections_max // _SHARE_OF_NEWCOMERS)
        self._protected_max = connections_max - max(1, connections_max // _SHARE_OF_OTHERS)
        #: The next to evict, the last first; with their last activity as they were chosen, None for protected ones.
        self._candidates: list[tuple[Each, int | None]] = []
        self._chosen_ms = 0

    def next_to_close(self, now_ms: int) -> tuple[Each, CloseReason] | None:
        """Return which connection to evict at `now_ms`, and why; None if all are closing."""
        if now_ms - self._chosen_ms > _CANDIDATES_MS:
            self._candidates = []
        for _ in range(2):
            while self._candidates:
                chosen, last_activity_ms = self._candidates.pop()
                is_protected = self._is_protected(chosen.id)
                is_idle = last_activity_ms == chosen.last_activity_ms and not is_protected
                if not chosen.is_closing and (last_activity_ms is None or is_idle):
                    return chosen, CloseReason.HOST_SHARE if is_protected else CloseReason.EVICTED
            self._choose(now_ms)
        return None

    def _choose(self, now_ms: int) -> None:
        protected: list[Each] = []
        others: list[Each] = []
        for each in self._connections():
            if not each.is_closing:
                (protected if self._is_protected(each.id) else others).append(each)
        idle, rest = closing_order(others, self._newcomers_max, now_ms)
        over = min(len(protected) - self._protected_max, CANDIDATES_MAX)
        of_hosts = from_largest_hosts(protected, over, (attrgetter("network"), _claimed_host)) if over > 0 else []
        candidates: list[tuple[Each, int | None]] = [(each, each.last_activity_ms) for each in idle]
        candidates += [(each, None) for each in of_hosts]
        candidates += [(each, each.last_activity_ms) for each in rest]
        # Those that come in their places are newcomers too.
        self._candidates = candidates[: min(CANDIDATES_MAX, self._newcomers_max)][::-1]
        self._chosen_ms = now_ms


def closing_order(others: Collection[Each], newcomers_max: int, now_ms: int) -> tuple[list[Each], list[Each]]:
    """Return the unprotected connections to evict, in order: idle ones of unknown kind, then clients and newcomers.

    Only the latest `newcomers_max` newcomers are preferred to clients: a peer that connects without end would else
    evict all clients.
    """
    preferred = {each.id for each in nlargest(newcomers_max, others, key=lambda each: _newness(each, now_ms))}

    def rank(connection: Each) -> tuple[int, int, int]:
        is_client = connection.kind is ConnectionKind.CLIENT
        is_new = connection.id in preferred and _newness(connection, now_ms)[0]
        return 2 if is_new else int(is_client), connection.last_activity_ms, connection.id

    chosen = nsmallest(min(CANDIDATES_MAX, newcomers_max), others, key=rank)
    idle = sum(1 for each in chosen if not rank(each)[0])
    return chosen[:idle], chosen[idle:]


def from_largest_hosts(
    connections: Collection[Ranked], count: int, hosts_of: Sequence[Callable[[Ranked], str]]
) -> list[Ranked]:
    """Return `count` connections, each from the host with the most connections that are left.

    Within a host the next of `hosts_of` groups them in the same way; in the end the longest idle goes, and of equal
    ones the youngest.
    """
    if not hosts_of:
        return nsmallest(count, connections, key=lambda each: (each.last_activity_ms, -each.id))
    by_host: dict[str, list[Ranked]] = defaultdict(list)
    for each in connections:
        by_host[hosts_of[0](each)].append(each)
    sizes = [(-len(its), host) for host, its in by_host.items()]
    heapify(sizes)
    losers: list[str] = []
    for _ in range(min(count, len(connections))):
        size, host = sizes[0]
        losers.append(host)
        heapreplace(sizes, (size + 1, host))
    lost = {host: iter(from_largest_hosts(by_host[host], n, hosts_of[1:])) for host, n in Counter(losers).items()}
    return [next(lost[host]) for host in losers]


def _claimed_host(connection: LimitedConnection) -> str:
    return connection.peer.rpartition(":")[0]


def _newness(connection: LimitedConnection, now_ms: int) -> tuple[bool, int, int]:
    """Return a key that orders connections by how new they are; it begins with False for those that are not new."""
    is_new = connection.kind is not ConnectionKind.CLIENT and now_ms - connection.last_activity_ms < NEWCOMER_MS
    return is_new, connection.last_activity_ms, connection.id
