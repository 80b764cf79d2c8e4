"""How often lags are read from brokers: each one costs every master its whole offset table. Pure."""

from typing import Final

from controller.offsets.restore.requests import RestoreRefused

#: So many lags are read one after the other without a pause.
LAGS_MAX: Final = 20
#: One more may be read after it.
LAG_EACH_MS: Final = 1000


class LagsTooOften(RestoreRefused):
    """Brokers were read for lags as often as they are; nothing was sent to them."""

    def __init__(self) -> None:
        super().__init__(
            f"brokers are read for {LAGS_MAX} lags at once, and for one each {LAG_EACH_MS} ms after that: repeat the "
            "request in a second, or take the lag from the metrics of brokers"
        )


class LagTurns:
    """Counts the lags that may be read."""

    def __init__(self, now_ms: int) -> None:
        self._left = float(LAGS_MAX)
        self._since_ms = now_ms

    def take(self, now_ms: int) -> None:
        """Let a lag be read at this time, monotonic ms; raises LagsTooOften."""
        self._left = min(LAGS_MAX, self._left + (now_ms - self._since_ms) / LAG_EACH_MS)
        self._since_ms = now_ms
        if self._left < 1:
            raise LagsTooOften
        self._left -= 1
