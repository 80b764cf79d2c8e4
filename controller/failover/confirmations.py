"""On how many replicas the master of each set confirms a message: queried ahead of time, as a failed one cannot answer.

Answers to no class of Java's: its controller takes every set for one with allAckInSyncStateSet=true.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from controller.failure_detection.heartbeats import HeartbeatTable
from controller.failure_detection.log_ends import LogEnds
from controller.sets.broker_set import BrokerSet
from remoting.clock import Clock

#: How soon a master is queried again: operators may change its properties while it runs.
QUERY_AGAIN_MS: Final = 600_000
#: The same of one that does not answer.
QUERY_AGAIN_UNANSWERED_MS: Final = 60_000
#: How many masters are queried at a time: each answers with all of its properties, 30 KB.
QUERIES_MAX: Final = 10
#: In smaller sets the one that is left has whatever was confirmed by more than the master.
_REPLICAS_MIN: Final = 3


class _Queried(NamedTuple):
    master_epoch: int
    again_ms: int


class Confirmations:
    """What masters have answered, by broker name; kept in memory only."""

    def __init__(
        self,
        live: HeartbeatTable,
        clock: Clock,
        start: Callable[..., object],
        query_master: Callable[[str], Awaitable[int | None]],
    ) -> None:
        """`query_master` queries the broker at an address; `start` starts a background task."""
        self._live = live
        self._clock = clock
        self._start = start
        self._query_master = query_master
        self._confirmed_on: dict[str, int] = {}
        self._queried: dict[str, _Queried] = {}
        self._under_way = 0

    def query_if_due(self, broker_set: BrokerSet) -> None:
        """Query the master of a set, if it is time to; to be called now and then for each set."""
        name, master, now_ms = broker_set.broker_name, broker_set.master, self._clock.now_ms()
        if len(broker_set.replicas) < _REPLICAS_MIN or master is None or master not in self._live.of_set(name):
            return
        queried = self._queried.get(name)
        if queried is not None and queried.master_epoch == broker_set.master_epoch and now_ms < queried.again_ms:
            return
        if self._under_way < QUERIES_MAX:
            self._under_way += 1
            self._queried[name] = _Queried(broker_set.master_epoch, now_ms + QUERY_AGAIN_UNANSWERED_MS)
            self._start(self._query(name, broker_set.master_epoch, broker_set.replicas[master].address))

    async def _query(self, name: str, master_epoch: int, address: str) -> None:
        try:
            confirmed_on = await self._query_master(address)
        finally:
            self._under_way -= 1
        if confirmed_on is not None and name in self._queried:
            self._confirmed_on[name] = confirmed_on
            self._queried[name] = _Queried(master_epoch, self._clock.now_ms() + QUERY_AGAIN_MS)

    def applied_to(self, broker_name: str, answered: LogEnds) -> LogEnds:
        """Return what was answered, with what the master has confirmed_on: it is the one that has confirmed.

        Where the others answer differently, the smallest number above 1 counts, as among them.
        """
        confirmed_on = [
            each for each in (answered.confirmed_on, self._confirmed_on.get(broker_name)) if each is not None
        ]
        if not confirmed_on:
            return answered
        return replace(answered, confirmed_on=min((each for each in confirmed_on if each > 1), default=1))

    def remove(self, broker_name: str) -> None:
        """Forget a set that is gone."""
        self._confirmed_on.pop(broker_name, None)
        self._queried.pop(broker_name, None)
