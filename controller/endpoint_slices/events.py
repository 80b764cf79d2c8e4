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
    """The addresses of a set's brokers were published: the EndpointSlice `slice` now has `brokers`."""

    broker: str
    slice: str
    brokers: Mapping[str | None, str]


class EndpointSlicesFailing(Event, frozen=True, kw_only=True):
    """The addresses of a set's brokers could not be published. This is retried after 1, 2, 5, 10 and 20 s, then every
    30 s. Failovers do not depend on it, but HAProxy does not find a broker that has moved. A reason is logged for the
    first set that fails with it, and again when a set fails with another; at most 20 lines a minute."""

    level = Level.WARNING
    advice = "Do what `error` says: see docs/role-addresses-kubernetes.md."
    keys = ("broker", "error", "retry_ms")
    broker: str
    error: str
    retry_ms: int
    #: A fault of ours.
    exc_info: Exception | None


class EndpointSlicesRecovered(Event, frozen=True, kw_only=True):
    """The addresses of a set's brokers are published again, after `failures` failures in a row. Logged only after a
    line `endpoint_slices_failing` of the set."""

    broker: str
    failures: int


class BrokersNotPublished(Event, frozen=True, kw_only=True):
    """Brokers of a set are in no EndpointSlice, so HAProxy does not know their addresses and holds connections while
    one of them is master. `left_out` has the reasons by broker id; empty: all are published."""

    level = Level.WARNING
    advice = (
        "Let brokers register with the IP address of their pod and the brokerPort of their set, and add their ids to "
        "its brokerIds: see docs/role-addresses-kubernetes.md."
    )
    broker: str
    left_out: Mapping[str, str]
