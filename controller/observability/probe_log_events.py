"""Every event that is logged of the probe; part of the catalogue in `log_events.py`."""

from typing import Final

from serving.logging.events import Level, LogEvent

ROLE_PROBE_GAP_ENDED: Final = LogEvent(
    name="role_probe_gap_ended",
    level=Level.WARNING,
    keys=("cluster", "broker", "gap_ms", "failed", "error", "old_addr", "addr"),
    meaning="For `gap_ms` no message of the probe was acknowledged by a set: so long a producer that polls routes each "
    "30 s would have waited. `failed` sends failed within it, the last one for `error`; 0: one only took long.",
    advice="Compare with /v1/elections. If it is longer than the failover: docs/role-addresses.md.",
)
ROLE_PROBE_ROUTE_MISSING: Final = LogEvent(
    name="role_probe_route_missing",
    level=Level.WARNING,
    keys=("topic", "error"),
    meaning="There is no route of roleProbeTopic, so no set is probed. It is tried again every 5 s, and logged "
    "once for each `error`.",
    advice="Create the topic on the sets to probe: `mqadmin updateTopic -n NAMESRV -c CLUSTER -t TOPIC -r 1 -w 1`.",
)

PROBE: Final = (ROLE_PROBE_GAP_ENDED, ROLE_PROBE_ROUTE_MISSING)
