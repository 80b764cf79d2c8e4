"""What happened since the start, counted, in any server; `remoting/server/statistics.py` counts what is on the wire.

Everything is touched by one thread, the loop's, and read by `exposition.py` at a scrape.
"""

from typing import Final

from remoting.server.statistics import Histogram
from serving.metrics.counters import CounterTable, HistogramTable

#: Upper bounds in seconds, for what takes a moment.
LATENCY_S: Final = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class ServerCounters:
    def __init__(self) -> None:
        self.config_changes = CounterTable(known=[("stored",), ("failed",)])
        #: To brokers that the operator does not name, where there are keys.
        self.unsigned_requests = CounterTable(known=[()])
        #: Seconds by which a timer of the loop came late.
        self.event_loop_lag = Histogram(LATENCY_S)
        self._longest_lag_s = 0.0
        #: Seconds that writing a part of the history took.
        self.history_writes = Histogram(LATENCY_S)
        #: Requests over HTTP that would change something, by the reason why they may not.
        self.http_admin_requests_denied = CounterTable(
            known=[("off",), ("other_origin",), ("no_token",), ("wrong_token",)]
        )
        #: Method, route and class of the status.
        self.http_requests = CounterTable()
        #: Seconds, by method and route.
        self.http_durations = HistogramTable(LATENCY_S)
        #: Which certificate -> Unix seconds of its end.
        self.certificate_expiry: dict[str, float] = {}

    def observe_lag(self, seconds: float) -> None:
        self.event_loop_lag.observe(seconds)
        self._longest_lag_s = max(self._longest_lag_s, seconds)

    def take_longest_lag_s(self) -> float:
        longest_s, self._longest_lag_s = self._longest_lag_s, 0.0
        return longest_s
