"""Encoded routes that are still true, so that a query costs a look-up; `wire/route_requests.py` encodes them.

Whoever changes a topic, a broker set or a setting that routes depend on drops the answers concerned in the same step
(`changes.py`): an answer found here, or sent to a request that is known, is never older than the tables.
"""

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from remoting.server.response_cache import PreparedResponse
from remoting.server.statistics import Histogram

#: Bytes of bodies that are kept; beyond it go those of the topics for which none was made for the longest time. A route
#: over 300 broker sets has about 64 KiB.
ROUTE_CACHE_BYTES_MAX: Final = 128 * 1024 * 1024
#: Upper bounds of the buckets of encoded route bodies, in bytes; the last bucket has none.
BODY_BYTES_BOUNDS: Final = (256, 512, 1024, 4096, 16384, 65536, 262144, 1048576)


class RouteCounts(msgspec.Struct):
    """How route queries ended since the start: plain numbers, counted at every query and read once per scrape."""

    not_found: int = 0
    error: int = 0
    #: Those for one zone, whose answers are made anew each time.
    zoned: int = 0
    #: Those that waited for what peers know, after a start, and how many of them were answered with some of it.
    cold: int = 0
    learned: int = 0
    #: Those that were answered with a route, by the size of its body.
    found: Histogram = msgspec.field(default_factory=lambda: Histogram(BODY_BYTES_BOUNDS))


class RouteCache:
    """Topic -> form of the answer (its dialect) -> answer."""

    def __init__(self, bytes_max: int = ROUTE_CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._responses: dict[str, dict[object, PreparedResponse]] = {}
        self._bytes = 0
        #: Called with the topics whose routes change in the present step, None for all, kept or not.
        self.dropped: Callable[[Collection[str] | None], None] | None = None
        self.counts = RouteCounts()
        #: How many answers were made for queries, and how many topics' answers were dropped because they were no
        #: longer true.
        self.misses = 0
        self.invalidated = 0

    def get(self, topic: str, form: object) -> PreparedResponse | None:
        """Return the answer, if it is still true."""
        responses = self._responses.get(topic)
        return responses.get(form) if responses else None

    def keep(self, topic: str, form: object, answer: PreparedResponse) -> None:
        """Keep an answer that was just made from the tables."""
        # Its topic goes last, so that making room does not take what was just made.
        responses = self._responses[topic] = self._responses.pop(topic, {})
        if (former := responses.get(form)) is not None:
            self._bytes -= former.body_bytes
            former.invalidate()
        responses[form] = answer
        self._bytes += answer.body_bytes
        while self._bytes > self._bytes_max and len(self._responses) > 1:
            self._drop(next(iter(self._responses)))

    def drop(self, topics: Collection[str]) -> None:
        """Drop the routes of topics that changed; of the keys of two tables the fewer are gone through."""
        for topic in self._responses.keys() & topics:
            self._drop(topic)
            self.invalidated += 1
        if self.dropped is not None:
            self.dropped(topics)

    def clear(self) -> None:
        """Drop all, because something changed that every route depends on."""
        self.invalidated += len(self._responses)
        for topic in list(self._responses):
            self._drop(topic)
        if self.dropped is not None:
            self.dropped(None)

    def _drop(self, topic: str) -> None:
        for answer in self._responses.pop(topic).values():
            self._bytes -= answer.body_bytes
            answer.invalidate()
