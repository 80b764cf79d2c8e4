"""Begins the elections that nobody requested: one of a set at a time, not at once again, and behind its fence.

`monitor.py` finds what needs an election, `fences.py` says whether it waits, `election_runner.py` holds it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from controller.decisions.election import ElectionRequest
from controller.failover.election_log import Cause
from controller.failover.election_runner import ElectionRunner
from controller.failover.fences import FENCE_MS_MAX
from controller.failover.set_writer import ClusterState
from controller.sets.broker_set import BrokerSet
from remoting.protocol.errors import RequestRefused

#: How soon a set for which an election failed is looked at again.
_AGAIN_MS: Final = 1_000
#: How soon if it waits for an answer or a heartbeat of a broker: that takes two looks with the queries themselves; at
#: once after a query that took its whole time. For so long, and for so many sets at a time; one that waits for longer
#: waits for a broker that is gone.
_AGAIN_SOON_MS: Final = 200
_SOON_FOR_MS: Final = 5_000
_SOON_SETS_MAX: Final = 20


class ElectionStarter:
    """The elections that are to be held, and those that are tried again."""

    def __init__(
        self,
        state: ClusterState,
        elections: ElectionRunner,
        look_at_set: Callable[[BrokerSet, int], None],
    ) -> None:
        """`look_at_set` begins the next election of a set if it still needs one; it takes the time, monotonic ms."""
        self._store, self._group, self._fences = state.store, state.group, state.fences
        self._clock, self._start = state.clock, state.start
        self._elections, self._look_at_set = elections, look_at_set
        #: Sets for which an election is under way, or failed a moment ago: until when nothing is tried.
        self._paused_until_ms: dict[str, int] = {}
        #: Sets whose elections wait for brokers: since when.
        self._waiting_since_ms: dict[str, int] = {}
        #: Those of them that are tried again soon.
        self._tried_soon: set[str] = set()
        #: Sets whose elections wait for the hosts that check their masters, and why they are held.
        self._fenced: dict[str, Cause] = {}

    def begin(self, broker_set: BrokerSet, cause: Cause) -> None:
        """Hold an election of a set now, or once no host leads clients to its failed master any more."""
        name, now_ms = broker_set.broker_name, self._clock.now_ms()
        if self._elections.is_running(name):
            # A slow store has not taken its outcome yet: the next look sees whether that was enough.
            return
        if self._fences.awaited(broker_set, now_ms):
            self._fenced.setdefault(name, cause)
            return
        if (waited := self._fenced.pop(name, None)) is not None:
            cause = _fenced(waited, self._fences.left(broker_set), now_ms)
        self._paused_until_ms[name] = now_ms + _AGAIN_MS
        self._start(self._elect(name, cause))

    def drop_ended_pauses(self, now_ms: int) -> None:
        self._paused_until_ms = {
            name: until_ms for name, until_ms in self._paused_until_ms.items() if until_ms > now_ms
        }

    def is_paused(self, broker_name: str) -> bool:
        """Return whether the last election of a set is under way, or failed a moment ago."""
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
        self._waiting_since_ms.pop(broker_name, None)
        self._tried_soon.discard(broker_name)

    def look_at_fences(self, now_ms: int) -> None:
        """Hold the elections that have waited for long enough; one whose master is back is dropped."""
        for name, cause in list(self._fenced.items()):
            broker_set = self._store.get(name)
            judged_ms = self._fences.judged_ms(broker_set) if broker_set is not None else None
            if broker_set is None or judged_ms is None or not self._group.is_leader:
                del self._fenced[name]
            elif not self._fences.awaited(broker_set, now_ms):
                self.begin(broker_set, cause)

    def clear(self) -> None:
        self._fenced.clear()
        self._waiting_since_ms.clear()
        self._tried_soon.clear()

    def remove(self, broker_name: str) -> None:
        self._fenced.pop(broker_name, None)
        self.end_wait(broker_name)

    async def _elect(self, broker_name: str, cause: Cause) -> None:
        try:
            elected = await self._elections.elect(broker_name, ElectionRequest(), cause)
        except RequestRefused:
            # Another controller leads, the store failed, the set is gone: the next look tries again if it has to.
            return
        if not elected.awaits_brokers:
            self.end_wait(broker_name)
        elif self.try_soon(broker_name, self._clock.now_ms()) and elected.awaits_response:
            # The query took its time, and a broker that was paused answers the next one as soon as it goes on.
            self._try_now(broker_name)

    def _try_now(self, broker_name: str) -> None:
        broker_set = self._store.get(broker_name)
        if broker_set is not None and self._group.is_leader:
            del self._paused_until_ms[broker_name]
            self._look_at_set(broker_set, self._clock.now_ms())


def _fenced(cause: Cause, left: Sequence[str], now_ms: int) -> Cause:
    ended = "no host that checks its role leads to it any more"
    if left:
        others = f" and {len(left) - 1} others" if len(left) > 1 else ""
        ended = f"{left[0]}{others} did not check its role within {FENCE_MS_MAX} ms"
    return replace(cause, why=f"{cause.why}; {ended}", fenced_ms=now_ms)
