"""Encoded route bodies that are still true, so that a query costs a look-up instead of an encoding.

Whoever changes a topic, a broker set or a setting that routes depend on drops the answers concerned in the same step
(`route_state.py`): an answer found here is never older than the tables.
"""

from collections.abc import Iterable
from typing import Final

#: Bytes of bodies that are kept; beyond it the oldest go. A route over 300 broker sets has about 64 KiB.
ANSWERS_BYTES_MAX: Final = 128 * 1024 * 1024


class RouteAnswers:
    """Topic -> form of the answer (its dialect) -> encoded body."""

    def __init__(self, bytes_max: int = ANSWERS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bodies: dict[str, dict[object, bytes]] = {}
        self._bytes = 0
        #: The body of GET_BROKER_CLUSTER_INFO (106), None when a broker set has changed since.
        self.cluster_info: bytes | None = None
        #: How often an answer was found, made anew, or dropped because it was no longer true.
        self.hits = 0
        self.misses = 0
        self.invalidated = 0

    def get(self, topic: str, form: object) -> bytes | None:
        """Return the body, if it is still true."""
        bodies = self._bodies.get(topic)
        body = bodies.get(form) if bodies else None
        if body is None:
            self.misses += 1
        else:
            self.hits += 1
        return body

    def keep(self, topic: str, form: object, body: bytes) -> None:
        """Keep a body that was just encoded from the tables."""
        self._bodies.setdefault(topic, {})[form] = body
        self._bytes += len(body)
        while self._bytes > self._bytes_max:
            self._forget(next(iter(self._bodies)))

    def drop(self, topics: Iterable[str]) -> None:
        """Forget the bodies of topics that changed."""
        if not self._bodies:
            return
        for topic in topics:
            if topic in self._bodies:
                self._forget(topic)
                self.invalidated += 1

    def clear(self) -> None:
        """Forget all, because something changed that every route depends on."""
        self.invalidated += len(self._bodies)
        self._bodies.clear()
        self._bytes = 0

    def _forget(self, topic: str) -> None:
        self._bytes -= sum(len(body) for body in self._bodies.pop(topic).values())
