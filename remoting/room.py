"""Which connections make room when there are too many, so that a broker always finds a place.

First those of which nobody knows whose they are, and that were silent for some seconds; then clients, which connect
again by themselves; then other newcomers. The connection of a broker that the server knows stays: to send what only
brokers send is not enough, as anybody can. Each time who was silent longest.
"""

from collections.abc import Callable, Iterable
from heapq import nsmallest
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


def leaving(connections: Iterable[Each], is_kept: Callable[[int], bool], now_ms: int) -> list[Each]:
    """Return those that make room, the last of the list first; none if all are kept, which `is_kept` says by id."""

    def rank(connection: Each) -> tuple[int, int, int]:
        is_client = connection.kind is ConnectionKind.CLIENT
        is_new = not is_client and now_ms - connection.moved_ms < NEWCOMER_MS
        return 2 if is_new else int(is_client), connection.moved_ms, connection.id

    others = (connection for connection in connections if not is_kept(connection.id))
    return nsmallest(CHOSEN_MAX, others, key=rank)[::-1]
