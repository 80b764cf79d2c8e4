"""What the server counts: plain numbers that are touched in passing and read at a scrape; no metric names here.

Everything is touched by one thread, the loop's. Peers choose request codes, so those that nobody knows share one key.
"""

from bisect import bisect_left
from collections import defaultdict
from time import perf_counter_ns
from typing import Final

from remoting.protocol.codes import RequestCode
from remoting.server.observer import CloseReason, ConnectionKind, Rejection

#: Stands for every request code that our enum does not have.
UNKNOWN_CODE: Final = -1

#: Upper bounds of the latency buckets in nanoseconds; one more bucket holds what took longer.
LATENCY_BOUNDS_NS: Final = tuple(
    round(bound_ms * 1_000_000) for bound_ms in (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)
)

_FIRST_BOUND_NS: Final = LATENCY_BOUNDS_NS[0]

_KNOWN_CODES: Final = frozenset(int(code) for code in RequestCode)

#: Reads the time for measuring what has passed, never for deciding anything: finer than a Clock, same cost.
timer_ns: Final = perf_counter_ns


class Latencies:
    """How long the requests of one code took, from the whole frame read until its answer was handed to the socket."""

    __slots__ = ("buckets", "total_ns")

    def __init__(self) -> None:
        #: Requests by bucket, not cumulated; the last is over every bound.
        self.buckets = [0] * (len(LATENCY_BOUNDS_NS) + 1)
        self.total_ns = 0

    def add(self, duration_ns: int, count: int) -> None:
        """Count `count` requests that took `duration_ns` each."""
        at = 0 if duration_ns <= _FIRST_BOUND_NS else bisect_left(LATENCY_BOUNDS_NS, duration_ns)
        self.buckets[at] += count
        self.total_ns += duration_ns * count

    @staticmethod
    def add_batch(answered: list["Latencies"], duration_ns: int) -> None:
        """Count requests that were answered together, each by its code's `Latencies`."""
        for latencies in set(answered):
            latencies.add(duration_ns, answered.count(latencies))


class SizeTally:
    """How many things of which size there were."""

    __slots__ = ("_bounds", "buckets", "total")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        """Take the upper bounds of the buckets; one more bucket holds what is larger."""
        self._bounds = bounds
        #: Things by bucket, not cumulated.
        self.buckets = [0] * (len(bounds) + 1)
        #: The sum of their sizes.
        self.total = 0

    def position(self, size: int) -> int:
        """Return the bucket of a size."""
        return bisect_left(self._bounds, size)

    def add(self, size: int) -> None:
        """Count one thing."""
        self.buckets[self.position(size)] += 1
        self.total += size


class ServerStatistics:
    """The counters of one server since its start."""

    def __init__(self) -> None:
        #: (request code, response code) -> finished requests, one-way ones too; see `finished`.
        self._finished: dict[tuple[int, int], int] = {}
        #: Request code -> requests answered by a prepared answer, all of them successes; only handlers make those, so
        #: the code is one of ours.
        self.prepared: defaultdict[int, int] = defaultdict(int)
        #: Request code -> latencies.
        self.latencies: dict[int, Latencies] = {}
        self.received_bytes = 0
        self.sent_bytes = 0
        #: Bytes that wait for the end of their frame, of all connections.
        self.unfinished_bytes = 0
        #: Answers that were handed to the sockets and not sent yet, of all connections, as of the last look at each.
        self.unsent_bytes = 0
        #: Open connections of which nothing is read, because their peers leave too many answers unread, and how often
        #: that began.
        self.paused = 0
        self.pauses = 0
        #: Requests accepted and not answered yet.
        self.in_flight = 0
        #: Open connections.
        self.connections = dict.fromkeys(ConnectionKind, 0)
        self.closed = dict.fromkeys(CloseReason, 0)
        self.rejected = dict.fromkeys(Rejection, 0)

    def finished(self) -> dict[tuple[int, int], int]:
        """Return (request code, response code) -> finished requests."""
        merged = dict(self._finished)
        for code, count in self.prepared.items():
            merged[code, 0] = merged.get((code, 0), 0) + count
        return merged

    def count_finished(self, request_code: int, response_code: int) -> None:
        """Count one request that was answered, or would have been were it not one-way."""
        key = known_code(request_code), response_code
        self._finished[key] = self._finished.get(key, 0) + 1

    def add_latency(self, request_code: int, duration_ns: int, count: int = 1) -> None:
        """Count `count` requests of a code that took `duration_ns` each."""
        self.latencies_of(request_code).add(duration_ns, count)

    def latencies_of(self, request_code: int) -> Latencies:
        """Return what is counted for a code; the same for all that nobody knows."""
        code = known_code(request_code)
        latencies = self.latencies.get(code)
        if latencies is None:
            latencies = self.latencies[code] = Latencies()
        return latencies


def known_code(request_code: int) -> int:
    """Return the code if it is one of ours, else UNKNOWN_CODE."""
    return request_code if request_code in _KNOWN_CODES else UNKNOWN_CODE
