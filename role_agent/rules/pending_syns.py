"""Requests for a connection that arrived lately and may not have been answered: bounded, pure."""

from typing import Final

#: Of as many connections; the oldest makes room. A client whose request is not here sends it again after a second.
SYNS_MAX: Final = 16_384
#: After that nobody waits for an answer any more: a client of RocketMQ gives up after 3 s.
AGE_MAX_MS: Final = 5_000


class PendingSyns:
    """The last request of each connection, oldest first."""

    def __init__(self) -> None:
        """Begin without any."""
        self._by_connection: dict[bytes, tuple[int, bytes]] = {}

    def __len__(self) -> int:
        return len(self._by_connection)

    def add(self, connection: bytes, packet: bytes, now_ms: int) -> None:
        """Remember a packet in place of a former one of its connection; the oldest one makes room if it must."""
        self._by_connection.pop(connection, None)
        if len(self._by_connection) >= SYNS_MAX:
            del self._by_connection[next(iter(self._by_connection))]
        self._by_connection[connection] = (now_ms, packet)

    def remove(self, connection: bytes) -> None:
        """Remove the packet of a connection, if there is one."""
        self._by_connection.pop(connection, None)

    def expire(self, now_ms: int) -> None:
        """Remove those that are too old."""
        while self._by_connection:
            oldest = next(iter(self._by_connection))
            if now_ms - self._by_connection[oldest][0] <= AGE_MAX_MS:
                return
            del self._by_connection[oldest]

    def pop(self, count_max: int) -> list[bytes]:
        """Remove the oldest packets and return them, at most so many."""
        oldest = [connection for connection, _ in zip(self._by_connection, range(count_max), strict=False)]
        return [self._by_connection.pop(connection)[1] for connection in oldest]
