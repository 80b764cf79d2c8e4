"""Counters of a server: plain numbers, read at a scrape; metric names are in `serving/metrics/families.py`.

Only the thread of the event loop changes them. Peers choose request codes, so unknown codes share one key.
"""

from bisect import bisect_left
from collections import defaultdict
from time import perf_counter_ns
from typing import Final

from remoting.protocol.codes import RequestCode
from remoting.server.observer import CloseReason, ConnectionKind, Rejection

#: The key of every request code that `RequestCode` lacks.
UNKNOWN_CODE: Final = -1

#: Upper bounds of the latency buckets in nanoseconds; one more bucket holds what took longer.
LATENCY_BOUNDS_NS: Final = tuple(
    round(bound_ms * 1_000_000) for bound_ms in (0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500)
)

_FIRST_BOUND_NS: Final = LATENCY_BOUNDS_NS[0]

_KNOWN_CODES: Final = frozenset(int(code) for code in RequestCode)

#: Measures durations and decides nothing: finer than a Clock, same cost.
timer_ns: Final = perf_counter_ns


class Latencies:
    """Durations of the requests of one code, from the complete frame until its response is written to the socket."""

    __slots__ = ("buckets", "total_ns")

    def __init__(self) -> None:
        #: Requests by bucket, not cumulated; the last bucket is over every bound.
        self.buckets = [0] * (len(LATENCY_BOUNDS_NS) + 1)
        self.total_ns = 0

    def add(self, duration_ns: int, count: int) -> None:
        at = 0 if duration_ns <= _FIRST_BOUND_NS else bisect_left(LATENCY_BOUNDS_NS, duration_ns)
        self.buckets[at] += count
        self.total_ns += duration_ns * count

    @staticmethod
    def add_batch(batch: list["Latencies"], duration_ns: int) -> None:
        """Count requests that were answered together, each with its code's `Latencies`."""
        for latencies in set(batch):
            latencies.add(duration_ns, batch.count(latencies))


class Histogram:
    __slots__ = ("bounds", "buckets", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        #: Ascending upper bounds; the last bucket has none.
        self.bounds = bounds
        #: Counts by bucket, not cumulated.
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def position(self, value: float) -> int:
        return bisect_left(self.bounds, value)

    def observe(self, value: float) -> None:
        self.buckets[self.position(value)] += 1
        self.sum += value


class ServerStatistics:
    """The counters of one server since its start."""

    def __init__(self) -> None:
        #: (request code, response code) -> finished requests, one-way ones too; see `finished`.
        self._finished: dict[tuple[int, int], int] = {}
        #: Request code -> requests with a prepared response or on the fast path, all successes; the code is known.
        self.prepared: defaultdict[int, int] = defaultdict(int)
        #: Request code -> latencies.
        self.latencies: dict[int, Latencies] = {}
        self.received_bytes = 0
        self.sent_bytes = 0
        #: Partial frames of all connections.
        self.partial_frame_bytes = 0
        #: Responses that peers have not read, of all connections, as of the last update of each.
        self.response_buffer_bytes = 0
        #: Open connections that are not read because their response buffer is full, and how often that began.
        self.paused = 0
        self.pauses = 0
        #: Requests without a response yet.
        self.in_flight = 0
        #: Open connections.
        self.connections = dict.fromkeys(ConnectionKind, 0)
        self.closed = dict.fromkeys(CloseReason, 0)
        self.rejected = dict.fromkeys(Rejection, 0)

    def finished(self) -> dict[tuple[int, int], int]:
        merged = dict(self._finished)
        for code, count in self.prepared.items():
            merged[code, 0] = merged.get((code, 0), 0) + count
        return merged

    def count_finished(self, request_code: int, response_code: int) -> None:
        """Count one request with its response, or with what a one-way request would have got."""
        key = known_code(request_code), response_code
        self._finished[key] = self._finished.get(key, 0) + 1

    def latencies_of(self, request_code: int) -> Latencies:
        """Return the latencies of a code; one for all unknown codes."""
        code = known_code(request_code)
        latencies = self.latencies.get(code)
        if latencies is None:
            latencies = self.latencies[code] = Latencies()
        return latencies


def known_code(request_code: int) -> int:
    """Return the code if `RequestCode` has it, else UNKNOWN_CODE."""
    return request_code if request_code in _KNOWN_CODES else UNKNOWN_CODE
