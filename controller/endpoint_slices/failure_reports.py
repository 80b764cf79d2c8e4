"""Which failures of EndpointSlices are logged. Answers to no class of Java's."""

from collections import deque
from typing import Final

from controller.endpoint_slices.events import EndpointSlicesFailing, EndpointSlicesRecovered
from serving.telemetry.events import Emit

#: Lines about failures in any period of LINES_PERIOD_MS: a server may answer something else each time.
LINES_MAX: Final = 20
LINES_PERIOD_MS: Final = 60_000


class FailureReports:
    """Reports each reason once, until the set for which it was reported is well or fails for another one.

    So an outage of the server, which fails all sets for one reason, is one line, and another reason is a line again.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        #: The last reason that was reported, by the name of the set that still fails.
        self._reported: dict[str, str] = {}
        self._lines_ms: deque[int] = deque(maxlen=LINES_MAX)

    def failed(self, broker_name: str, error: str, retry_ms: int, now_ms: int, fault: Exception | None = None) -> None:
        """Report a failure, unless its reason is reported or there are too many lines; then a later one is."""
        is_full = len(self._lines_ms) == LINES_MAX and now_ms - self._lines_ms[0] < LINES_PERIOD_MS
        if is_full or error in self._reported.values():
            return
        self._lines_ms.append(now_ms)
        self._reported[broker_name] = error
        self._emit(EndpointSlicesFailing(broker=broker_name, error=error, retry_ms=retry_ms, exc_info=fault))

    def forget(self, broker_name: str) -> None:
        """Let others have the reason of a set that is compared no more."""
        self._reported.pop(broker_name, None)

    def succeeded(self, broker_name: str, failures: int) -> None:
        """Report that a set is well again, if a failure of it was reported."""
        if self._reported.pop(broker_name, None) is not None:
            self._emit(EndpointSlicesRecovered(broker=broker_name, failures=failures))
