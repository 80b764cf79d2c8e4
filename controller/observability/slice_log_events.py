"""Every event that is logged of EndpointSlices; part of the catalogue in `log_events.py`."""

from typing import Final

from serving.logging.events import Level, LogEvent

_SECTION: Final = "docs/role-addresses-kubernetes.md"

ENDPOINT_SLICE_WRITTEN: Final = LogEvent(
    name="endpoint_slice_written",
    level=Level.INFO,
    keys=("broker", "slice", "brokers"),
    meaning="The addresses of a set's brokers were published: the EndpointSlice `slice` has `brokers` now.",
)
ENDPOINT_SLICES_FAILING: Final = LogEvent(
    name="endpoint_slices_failing",
    level=Level.WARNING,
    keys=("broker", "error", "retry_ms"),
    meaning="Where the brokers of a set are could not be published. It is tried again after 1, 2, 5, 10, 20, then each "
    "30 s. Failovers do not depend on it; a broker that has moved is not found by HAProxy meanwhile. Each reason is "
    "logged once, for the first set that fails for it, and anew when a set fails for another one; 20 lines a minute at "
    "most.",
    advice=f"Do what `error` says: see {_SECTION}.",
)
ENDPOINT_SLICES_RECOVERED: Final = LogEvent(
    name="endpoint_slices_recovered",
    level=Level.INFO,
    keys=("broker", "failures"),
    meaning="The addresses of a set's brokers are published again, after so many failures in a row. Only sets with a "
    "line `endpoint_slices_failing` have one.",
)
BROKERS_NOT_PUBLISHED: Final = LogEvent(
    name="brokers_not_published",
    level=Level.WARNING,
    keys=("broker", "left_out"),
    meaning="Brokers of a set are in no EndpointSlice, so HAProxy does not know where they are and holds "
    "connections while one of them is master. `left_out` has the reason of each by its id; empty: all are published.",
    advice="Let brokers register with the IP address of their pod and the brokerPort of their set, and add their ids "
    f"to its brokerIds: see {_SECTION}.",
)

SLICES: Final = (
    ENDPOINT_SLICE_WRITTEN,
    ENDPOINT_SLICES_FAILING,
    ENDPOINT_SLICES_RECOVERED,
    BROKERS_NOT_PUBLISHED,
)
