"""Turns what becomes of EndpointSlices into log lines and counts."""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from controller.endpoint_slices.service import SyncResult
from controller.endpoint_slices.shapes import EndpointSlice
from controller.observability import slice_log_events as catalogue
from controller.observability.counters import SetCounters
from serving.logging.logs import Logs

#: Brokers in one line.
_BROKERS_MAX: Final = 20


class SliceEventLog:
    """Observes EndpointSlices."""

    def __init__(self, logs: Logs, counters: SetCounters) -> None:
        self._logs = logs
        self._counters = counters

    def slices_compared(self, result: SyncResult) -> None:
        """Count a comparison."""
        self._counters.roles.slice_syncs.add((result.value,))

    def slice_written(self, broker_name: str, written: EndpointSlice) -> None:
        """Log that a slice was created or changed."""
        brokers = {each.hostname: each.addresses[0] for each in (written.endpoints or ())[:_BROKERS_MAX]}
        self._logs.write(
            catalogue.ENDPOINT_SLICE_WRITTEN, broker=broker_name, slice=written.metadata.name, brokers=brokers
        )

    def slices_failing(self, broker_name: str, error: str, retry_ms: int, fault: Exception | None) -> None:
        """Log why the slices of a set could not be compared; a fault of ours with its traceback."""
        keys = {} if fault is None else {"exc_info": fault}
        self._logs.write(catalogue.ENDPOINT_SLICES_FAILING, broker=broker_name, error=error, retry_ms=retry_ms, **keys)

    def slices_recovered(self, broker_name: str, failures: int) -> None:
        """Log that the slices of a set are as wanted again."""
        self._logs.write(catalogue.ENDPOINT_SLICES_RECOVERED, broker=broker_name, failures=failures)

    def brokers_left_out(self, broker_name: str, left_out: Mapping[int, str]) -> None:
        """Log which brokers of a set are not published."""
        shown = {str(broker_id): why for broker_id, why in islice(left_out.items(), _BROKERS_MAX)}
        self._logs.write(catalogue.BROKERS_NOT_PUBLISHED, broker=broker_name, left_out=shown)
