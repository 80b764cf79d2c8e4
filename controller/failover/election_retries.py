"""When an election of a set is tried again: after a second, or sooner while it waits for a broker to answer.

Pure: `monitor.py` holds the elections.
"""

from typing import Final

#: How soon a set for which an election failed is looked at again.
_AGAIN_MS: Final = 1_000
#: How soon if it waits for an answer or a heartbeat of a broker: that takes two looks with the queries themselves; at
#: once after a query that took its whole time. For so long, and for so many sets at a time; one that waits for longer
#: waits for a broker that is gone.
_AGAIN_SOON_MS: Final = 200
_SOON_FOR_MS: Final = 5_000
_SOON_SETS_MAX: Final = 20


class ElectionRetries:
    """Sets whose last election is under way, has failed, or waits for brokers."""

    def __init__(self) -> None:
        #: Sets for which an election is under way, or failed a moment ago: until when nothing is tried.
        self._paused_until_ms: dict[str, int] = {}
        #: Sets whose elections wait for brokers: since when.
        self._waiting_since_ms: dict[str, int] = {}
        #: Those of them that are tried again soon.
        self._tried_soon: set[str] = set()

    def pause(self, broker_name: str, now_ms: int) -> None:
        """Try no other election of a set for _AGAIN_MS: one begins."""
        self._paused_until_ms[broker_name] = now_ms + _AGAIN_MS

    def end_pause(self, broker_name: str) -> None:
        """Allow the next election of a paused set at once."""
        del self._paused_until_ms[broker_name]

    def drop_ended(self, now_ms: int) -> None:
        """Drop the pauses that have ended."""
        self._paused_until_ms = {
            name: until_ms for name, until_ms in self._paused_until_ms.items() if until_ms > now_ms
        }

    def is_paused(self, broker_name: str) -> bool:
        """Return whether no election of a set is to be tried now."""
        return broker_name in self._paused_until_ms

    def try_soon(self, broker_name: str, now_ms: int) -> bool:
        """Hold the next election of a set that waits for brokers sooner, unless it has waited long; return whether."""
        soon = self._tried_soon
        if now_ms - self._waiting_since_ms.setdefault(broker_name, now_ms) >= _SOON_FOR_MS:
            soon.discard(broker_name)
        elif broker_name in soon or len(soon) < _SOON_SETS_MAX:
            soon.add(broker_name)
            self._paused_until_ms[broker_name] = now_ms + _AGAIN_SOON_MS
        return broker_name in soon

    def end_wait(self, broker_name: str) -> None:
        """Record that a set waits for no broker: its next wait counts anew."""
        self._waiting_since_ms.pop(broker_name, None)
        self._tried_soon.discard(broker_name)

    def clear_waits(self) -> None:
        """Drop all waits: another controller leads."""
        self._waiting_since_ms.clear()
        self._tried_soon.clear()
