"""Sets that a switchover holds: nobody is to send to any of their brokers until it ends.

In memory of the leading controller only, so that a hold ends with the lead. Answers to no class of Java's.
"""

from collections.abc import Callable
from typing import Final

from remoting.clock import Clock

#: No set is held for longer: a switchover that hangs must not keep clients out.
HOLD_MS_MAX: Final = 10_000


def _unreported(broker_name: str, held_ms: int) -> None:
    """Nobody learns of it."""


class RoleHolds:
    """Which sets are held, and until when; monotonic ms."""

    def __init__(self, clock: Clock, report: Callable[[str, int], None] = _unreported) -> None:
        """`report` takes each set that is not held any more, once that is noticed, and for how many ms it was."""
        self._clock = clock
        self._report = report
        self._until_ms: dict[str, int] = {}
        self._since_ms: dict[str, int] = {}

    def hold(self, broker_name: str, until_ms: int) -> int:
        """Hold a set until then, HOLD_MS_MAX from now at most; returns until when."""
        now_ms = self._clock.now_ms()
        until_ms = min(until_ms, now_ms + HOLD_MS_MAX)
        self._until_ms[broker_name] = until_ms
        self._since_ms.setdefault(broker_name, now_ms)
        return until_ms

    def release(self, broker_name: str) -> None:
        """Hold a set no longer."""
        until_ms = self._until_ms.pop(broker_name, None)
        if until_ms is not None:
            # It may have ended by itself before.
            held_ms = min(until_ms, self._clock.now_ms()) - self._since_ms.pop(broker_name)
            self._report(broker_name, held_ms)

    def clear(self) -> None:
        """Hold none: another controller leads."""
        for broker_name in list(self._until_ms):
            self.release(broker_name)

    def held_until_ms(self, broker_name: str, now_ms: int) -> int | None:
        """Return until when a set is held; None if it is not."""
        until_ms = self._until_ms.get(broker_name)
        return until_ms if until_ms is not None and now_ms < until_ms else None

    def is_held(self, broker_name: str, now_ms: int) -> bool:
        """Return whether a set is held."""
        return self.held_until_ms(broker_name, now_ms) is not None
