"""What is told of the probe: lines of the log, and metrics."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from serving.logging.events import Level
from serving.metrics.counters import BROKERS_MAX
from serving.telemetry.events import Counter, Event, Gauge, Observation, Timer


class ProbeResult(StrEnum):
    """How a send ended; the values label metrics."""

    ACKNOWLEDGED = "acknowledged"
    #: Refused, or not sent: the connection was closed, or there is none.
    FAILED = "failed"
    TIMEOUT = "timeout"
    #: The route has no master, so nothing was sent.
    NO_MASTER = "no_master"


SENDS: Final = Counter(
    "role_probe_sends",
    "Messages of the probe, by result.",
    ("result",),
    known=tuple((result.value,) for result in ProbeResult),
)
SETS: Final = Gauge(
    "role_probe_sets",
    "Sets with the topic of the probe: probed, or left_out because there are more than 200.",
    ("state",),
    known=(("probed",), ("left_out",)),
)
GAP: Final = Timer(
    "role_probe_gap_seconds",
    "Times without an acknowledged message of the probe: from the last before a failure to the first after it.",
    # A failover behind a role address, with a time limit of a send, with a route poll.
    bounds=(0.25, 0.5, 1, 1.5, 2, 3, 4, 5, 7, 10, 20, 30, 60),
)
LAST_GAP: Final = Gauge(
    "role_probe_last_gap_seconds",
    "The last such time of a set, since this controller leads; none if there was none.",
    ("cluster", "broker"),
    peer_labels=2,
    label_sets_max=BROKERS_MAX,
)


class ProbeGap(NamedTuple):
    """A time without acknowledged sends that has ended."""

    #: From the last acknowledgement before it to the first one after it.
    gap_ms: int
    #: Sends within it that failed.
    failed: int
    #: Why the last of them failed; blank if none did, and one only took long.
    error: str
    #: Where the sends went before and after.
    former_address: str
    address: str


class RoleProbeGapEnded(Event, frozen=True, kw_only=True):
    """A set acknowledged no probe message for `gap_ms`, as long as a producer that polls routes every 30 s would have
    waited. `failed` sends failed in that time, the last one with `error`; 0: a send only took long."""

    level = Level.WARNING
    advice = "Compare with /v1/elections. If it is longer than the failover: docs/role-addresses.md."
    keys = ("cluster", "broker", "gap_ms", "failed", "error", "old_addr", "addr")
    cluster: str
    broker: str
    gap: ProbeGap

    def observed(self) -> tuple[Observation]:
        return (Observation(GAP, self.gap.gap_ms / 1000),)

    def line(self) -> Mapping[str, object]:
        gap = self.gap
        return {
            "cluster": self.cluster,
            "broker": self.broker,
            "gap_ms": gap.gap_ms,
            "failed": gap.failed,
            "error": gap.error or None,
            "old_addr": gap.former_address if gap.former_address != gap.address else None,
            "addr": gap.address,
        }


class RoleProbeRouteMissing(Event, frozen=True, kw_only=True):
    """roleProbeTopic has no route, so no set is probed. This is checked again every 5 s, and logged once for each
    `error`."""

    level = Level.WARNING
    advice = "Create the topic on the sets to probe: `mqadmin updateTopic -n NAMESRV -c CLUSTER -t TOPIC -r 1 -w 1`."
    topic: str
    error: str
