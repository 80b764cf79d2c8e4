"""Which connections make room when there are too many, so that a broker always finds a place.

First those of which nobody knows whose they are, and that were silent for some seconds; then clients, which connect
again by themselves; then the last newcomers, up to a part of all connections. The connection of a broker that the
server knows stays: to send what only brokers send is not enough, as anybody can. Each time who was silent longest.
"""

from collections.abc import Callable, Iterable
from heapq import nlargest, nsmallest
from typing import Final, Protocol, TypeVar

from remoting.observer import ConnectionKind

#: A newcomer has so long to show whose it is before clients are preferred to it, in ms.
NEWCOMER_MS: Final = 3_000
#: So many are chosen with one walk over all connections, which takes some milliseconds.
CHOSEN_MAX: Final = 256


class Occupant(Protocol):
    """A connection that has a place."""

    id: int

    @property
    def kind(self) -> ConnectionKind:
        """What the other end has shown itself to be."""

    @property
    def moved_ms(self) -> int:
        """When the peer last sent or took something."""


Each = TypeVar("Each", bound=Occupant)


def leaving(connections: Iterable[Each], is_kept: Callable[[int], bool], newcomers_max: int, now_ms: int) -> list[Each]:
    """Return those that make room, the last of the list first; none if all are kept, which `is_kept` says by id.

    Of the newcomers only the last `newcomers_max` are preferred to clients: who connects without end would else close
    the connections of all clients.
    """
    others = [connection for connection in connections if not is_kept(connection.id)]
    preferred = {each.id for each in nlargest(newcomers_max, others, key=lambda each: _newness(each, now_ms))}

    def rank(connection: Each) -> tuple[int, int, int]:
        is_client = connection.kind is ConnectionKind.CLIENT
        is_new = connection.id in preferred and _newness(connection, now_ms)[0]
        return 2 if is_new else int(is_client), connection.moved_ms, connection.id

    # Those that come in their places are newcomers too.
    return nsmallest(min(CHOSEN_MAX, newcomers_max), others, key=rank)[::-1]


def _newness(connection: Occupant, now_ms: int) -> tuple[bool, int, int]:
    """Return what orders connections by how new they are; False stands first for those that are no newcomers."""
    is_new = connection.kind is not ConnectionKind.CLIENT and now_ms - connection.moved_ms < NEWCOMER_MS
    return is_new, connection.moved_ms, connection.id
