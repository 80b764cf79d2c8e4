"""Counts of route queries: plain numbers, because they are touched at every query and read once per scrape."""

from typing import Final

import msgspec

from remoting.server.statistics import SizeTally

#: Upper bounds of the buckets of encoded route bodies, in bytes; the last bucket has none.
BODY_BYTES_BOUNDS: Final = (256, 512, 1024, 4096, 16384, 65536, 262144, 1048576)


class RouteCounts(msgspec.Struct):
    """How route queries ended since the start."""

    not_found: int = 0
    error: int = 0
    #: Those for one zone, whose answers are made anew each time.
    zoned: int = 0
    #: Those that were answered with a route, by the size of its body.
    found: SizeTally = msgspec.field(default_factory=lambda: SizeTally(BODY_BYTES_BOUNDS))
