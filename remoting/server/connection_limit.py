"""Which connections make room when there are too many, so that a broker always finds a place.

First those of which nobody knows whose they are, and that were silent for some seconds; then clients, which connect
again by themselves; then the last newcomers, up to a part of all connections. Each time who was silent longest.

The connection of a broker that the server knows stays: to send what only brokers send is not enough, as anybody can.
But anybody can also register brokers. So where known brokers hold more than a part of all, one of them goes before
clients do: of the host that has most of them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heapify, heapreplace, nlargest, nsmallest
from ipaddress import IPv6Address
from typing import Final, Generic, Protocol, TypeVar

from remoting.server.observer import CloseReason, ConnectionKind

#: A newcomer has so long to show whose it is before clients are preferred to it, in ms.
NEWCOMER_MS: Final = 3_000
#: So many are chosen with one walk over all connections, which takes some milliseconds.
CHOSEN_MAX: Final = 256
#: For so long those that were chosen are right, in ms.
_CHOSEN_MS: Final = 3_000

#: Such a part of the connections are newcomers that are preferred to clients.
_SHARE_OF_NEWCOMERS: Final = 8
#: Such a part is not for known brokers, if others want it.
_SHARE_OF_OTHERS: Final = 4


class Occupant(Protocol):
    """A connection that has a place."""

    id: int

    @property
    def kind(self) -> ConnectionKind:
        """What the other end has shown itself to be."""

    @property
    def moved_ms(self) -> int:
        """When the peer last sent or took something."""

    @property
    def is_ending(self) -> bool:
        """Whether it is about to leave its place."""

    @property
    def network(self) -> str:
        """Where the peer's end is, as `network_of`: nobody can pretend that."""

    @property
    def said_host(self) -> str:
        """For which host a proxy there says that it speaks; the peer's own without a proxy."""


Each = TypeVar("Each", bound=Occupant)


def network_of(host: str) -> str:
    """Return whose an address is: an IPv4 address itself, half of an IPv6 one, as a host chooses the other half."""
    if ":" not in host:
        return host
    address = IPv6Address(host.partition("%")[0])
    return str(address.ipv4_mapped) if address.ipv4_mapped else address.packed[:8].hex()


class Room(Generic[Each]):
    """The places of one server, and who leaves them next."""

    def __init__(
        self, connections: Callable[[], Iterable[Each]], is_kept: Callable[[int], bool], connections_max: int
    ) -> None:
        """Take what tells the open connections, and of an id whether it is kept."""
        self._connections = connections
        self._is_kept = is_kept
        self._newcomers_max = max(1, connections_max // _SHARE_OF_NEWCOMERS)
        self._kept_max = connections_max - max(1, connections_max // _SHARE_OF_OTHERS)
        #: Those that make room next, the last first; with when they had moved as they were chosen, None for the kept.
        self._chosen: list[tuple[Each, int | None]] = []
        self._chosen_ms = 0

    def next_leaving(self, now_ms: int) -> tuple[Each, CloseReason] | None:
        """Return who makes room at `now_ms`, and why; None if nobody has a place who is not leaving already."""
        if now_ms - self._chosen_ms > _CHOSEN_MS:
            self._chosen = []
        for _ in range(2):
            while self._chosen:
                chosen, moved_ms = self._chosen.pop()
                is_kept = self._is_kept(chosen.id)
                if not chosen.is_ending and (moved_ms is None or (moved_ms == chosen.moved_ms and not is_kept)):
                    return chosen, CloseReason.HOST_SHARE if is_kept else CloseReason.MADE_ROOM
            self._choose(now_ms)
        return None

    def _choose(self, now_ms: int) -> None:
        kept: list[Each] = []
        others: list[Each] = []
        for each in self._connections():
            if not each.is_ending:
                (kept if self._is_kept(each.id) else others).append(each)
        silent, rest = leaving(others, self._newcomers_max, now_ms)
        over = min(len(kept) - self._kept_max, CHOSEN_MAX)
        of_hosts = most_of_a_host(kept, over, (_network, _said_host)) if over > 0 else []
        chosen: list[tuple[Each, int | None]] = [(each, each.moved_ms) for each in silent]
        chosen += [(each, None) for each in of_hosts]
        chosen += [(each, each.moved_ms) for each in rest]
        # Those that come in their places are newcomers too.
        self._chosen = chosen[: min(CHOSEN_MAX, self._newcomers_max)][::-1]
        self._chosen_ms = now_ms


def leaving(others: Collection[Each], newcomers_max: int, now_ms: int) -> tuple[list[Each], list[Each]]:
    """Return who is not kept and makes room first, in this order: silent strangers, and then clients and newcomers.

    Of the newcomers only the last `newcomers_max` are preferred to clients: who connects without end would else close
    the connections of all clients.
    """
    preferred = {each.id for each in nlargest(newcomers_max, others, key=lambda each: _newness(each, now_ms))}

    def rank(connection: Each) -> tuple[int, int, int]:
        is_client = connection.kind is ConnectionKind.CLIENT
        is_new = connection.id in preferred and _newness(connection, now_ms)[0]
        return 2 if is_new else int(is_client), connection.moved_ms, connection.id

    chosen = nsmallest(min(CHOSEN_MAX, newcomers_max), others, key=rank)
    silent = sum(1 for each in chosen if not rank(each)[0])
    return chosen[:silent], chosen[silent:]


def most_of_a_host(kept: Collection[Each], count: int, hosts_of: Sequence[Callable[[Each], str]]) -> list[Each]:
    """Return so many connections, each the one that the host loses which has the most when those before have gone.

    A host's own are told apart in the same way by the next of `hosts_of`; in the end who was silent longest goes, and
    of equal ones the youngest.
    """
    if not hosts_of:
        return nsmallest(count, kept, key=lambda each: (each.moved_ms, -each.id))
    by_host: dict[str, list[Each]] = defaultdict(list)
    for each in kept:
        by_host[hosts_of[0](each)].append(each)
    sizes = [(-len(its), host) for host, its in by_host.items()]
    heapify(sizes)
    losers: list[str] = []
    for _ in range(min(count, len(kept))):
        size, host = sizes[0]
        losers.append(host)
        heapreplace(sizes, (size + 1, host))
    lost = {host: iter(most_of_a_host(by_host[host], n, hosts_of[1:])) for host, n in Counter(losers).items()}
    return [next(lost[host]) for host in losers]


def _network(connection: Occupant) -> str:
    return connection.network


def _said_host(connection: Occupant) -> str:
    return connection.said_host


def _newness(connection: Occupant, now_ms: int) -> tuple[bool, int, int]:
    """Return what orders connections by how new they are; False stands first for those that are no newcomers."""
    is_new = connection.kind is not ConnectionKind.CLIENT and now_ms - connection.moved_ms < NEWCOMER_MS
    return is_new, connection.moved_ms, connection.id
