"""Turns what the probe sees into log lines and counts."""

from controller.observability import probe_log_events as catalogue
from controller.observability.counters import SetCounters
from controller.role_probe.gaps import ProbeGap
from controller.role_probe.service import ProbeResult
from serving.logging.logs import Logs


class ProbeEventLog:
    """Observes the probe."""

    def __init__(self, logs: Logs, counters: SetCounters, topic: str) -> None:
        self._logs = logs
        self._counters = counters
        self._topic = topic
        self._problem = ""

    def probe_sent(self, result: ProbeResult) -> None:
        """Count a send."""
        self._counters.roles.probe_sends.add((result.value,))

    def probe_gap_ended(self, cluster: str, broker_name: str, gap: ProbeGap) -> None:
        """Log and count a gap."""
        self._counters.roles.probe_gaps.observe((), gap.gap_ms / 1000)
        self._counters.roles.probe_last_gaps[cluster, broker_name] = gap.gap_ms / 1000
        self._logs.write(
            catalogue.ROLE_PROBE_GAP_ENDED,
            cluster=cluster,
            broker=broker_name,
            gap_ms=gap.gap_ms,
            failed=gap.failed,
            error=gap.error or None,
            old_addr=gap.former_address if gap.former_address != gap.address else None,
            addr=gap.address,
        )

    def probe_routes_looked(self, probed: int, left_out: int, problem: str) -> None:
        """Keep how many sets are probed; log once why none is."""
        self._counters.roles.probe_sets = {"probed": probed, "left_out": left_out}
        if not probed and not problem:
            # Another controller leads.
            self._counters.roles.probe_last_gaps.clear()
        if problem and problem != self._problem:
            self._logs.write(catalogue.ROLE_PROBE_ROUTE_MISSING, topic=self._topic, error=problem)
        self._problem = problem or (self._problem if not probed else "")
