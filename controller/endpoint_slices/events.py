"""What is told of EndpointSlices: lines of the log, and metrics."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from serving.logging.events import Level
from serving.telemetry.events import Counter, Event, Gauge


class SyncResult(StrEnum):
    """How a comparison of the slices of a set ended; the values label metrics."""

    UNCHANGED = "unchanged"
    WRITTEN = "written"
    FAILED = "failed"


SYNCS: Final = Counter(
    "endpoint_slice_syncs",
    "Comparisons of the EndpointSlices of a set with its brokers, by result: unchanged, written or failed.",
    ("result",),
    known=tuple((result.value,) for result in SyncResult),
)
STALE: Final = Gauge(
    "endpoint_slices_stale",
    "Sets whose EndpointSlices are not known to be as wanted: a change of their brokers is not published yet, or the "
    "last comparison failed.",
)
STALE_SINCE: Final = Gauge(
    "endpoint_slices_stale_since_timestamp_seconds",
    "Since when the set whose EndpointSlices have been stale for longest is so; 0 if none is.",
)
NOT_PUBLISHED: Final = Gauge(
    "brokers_not_published",
    "Brokers of sets with a Service that are in no EndpointSlice: HAProxy leads nobody to them while they are master.",
)
#: Brokers in one line.
BROKERS_SHOWN_MAX: Final = 20


class EndpointSliceWritten(Event, frozen=True, kw_only=True):
    """The addresses of a set's brokers were published: the EndpointSlice `slice` has `brokers` now."""

    broker: str
    slice: str
    brokers: Mapping[str | None, str]


class EndpointSlicesFailing(Event, frozen=True, kw_only=True):
    """Where the brokers of a set are could not be published. It is tried again after 1, 2, 5, 10, 20, then each 30 s.
    Failovers do not depend on it; a broker that has moved is not found by HAProxy meanwhile. Each reason is logged
    once, for the first set that fails for it, and anew when a set fails for another one; 20 lines a minute at most."""

    level = Level.WARNING
    advice = "Do what `error` says: see docs/role-addresses-kubernetes.md."
    keys = ("broker", "error", "retry_ms")
    broker: str
    error: str
    retry_ms: int
    #: A fault of ours.
    exc_info: Exception | None


class EndpointSlicesRecovered(Event, frozen=True, kw_only=True):
    """The addresses of a set's brokers are published again, after so many failures in a row. Only sets with a line
    `endpoint_slices_failing` have one."""

    broker: str
    failures: int


class BrokersNotPublished(Event, frozen=True, kw_only=True):
    """Brokers of a set are in no EndpointSlice, so HAProxy does not know where they are and holds connections while one
    of them is master. `left_out` has the reason of each by its id; empty: all are published."""

    level = Level.WARNING
    advice = (
        "Let brokers register with the IP address of their pod and the brokerPort of their set, and add their ids to "
        "its brokerIds: see docs/role-addresses-kubernetes.md."
    )
    broker: str
    left_out: Mapping[str, str]
