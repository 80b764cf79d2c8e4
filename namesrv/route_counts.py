"""Counts of route queries: plain numbers, because they are touched at every query and read once per scrape."""

from bisect import bisect_left
from typing import Final

import msgspec

#: Upper bounds of the buckets of encoded route bodies, in bytes; the last bucket has none.
BODY_BYTES_BOUNDS: Final = (256, 512, 1024, 4096, 16384, 65536, 262144, 1048576)


class RouteCounts(msgspec.Struct):
    """How route queries ended since the start."""

    not_found: int = 0
    error: int = 0
    #: Bodies by size, one more than there are bounds.
    bodies: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BODY_BYTES_BOUNDS) + 1))
    body_bytes: int = 0

    def found(self, body_bytes: int) -> None:
        """Count a query that was answered with a route."""
        self.bodies[bisect_left(BODY_BYTES_BOUNDS, body_bytes)] += 1
        self.body_bytes += body_bytes
