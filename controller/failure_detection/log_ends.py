"""How far the logs of brokers are at this moment, as they answer themselves, and on how many a confirmed message is.

Heartbeats are up to a second old, and of different moments. `wire/broker_queries.py` queries, `decisions/election.py`
decides.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from controller.failure_detection.heartbeats import UNKNOWN, LastHeartbeat

#: No master writes more between two heartbeats, or before its silence is noticed.
GROWTH_BYTES_MAX: Final = 16 * 1024**3


class LogEnd(NamedTuple):
    epoch: int
    max_offset: int
    #: The broker serves as master.
    is_master: bool = False

    @property
    def progress(self) -> tuple[int, int]:
        """What is compared: offsets of one epoch."""
        return self.epoch, self.max_offset


class LogEnds(msgspec.Struct, frozen=True, kw_only=True):
    """What the living brokers of a set have answered for one election."""

    #: By broker id; a missing one has not answered.
    by_id: Mapping[int, LogEnd] = {}
    #: Each confirmed message is on at least so many replicas of the set, in sync or not.
    #: 1: all of the SyncStateSet have it, or its master alone; None: unknown.
    confirmed_on: int | None = None
    #: A broker had neither answered nor refused when the time was over: its process may be paused.
    is_awaited: bool = False

    def applied_to(self, heartbeat: Mapping[int, LastHeartbeat], now_ms: int) -> dict[int, LastHeartbeat]:
        """Return what is known of brokers, with answers in the place of older heartbeats."""
        return {i: self._applied(i, each, now_ms) for i, each in heartbeat.items()}

    def _applied(self, broker_id: int, heartbeat: LastHeartbeat, now_ms: int) -> LastHeartbeat:
        end = self.by_id.get(broker_id)
        if end is None:
            return heartbeat
        return replace(heartbeat, epoch=end.epoch, max_offset=end.max_offset, last_contact_ms=now_ms)

    def believed(self, master_epoch: int, lost: LastHeartbeat | None) -> "LogEnds":
        """Return this without what cannot be: epochs that nobody was elected for, ends far beyond the lost master's."""

        def can_be(end: LogEnd) -> bool:
            is_known = lost is not None and lost.epoch == end.epoch and lost.max_offset != UNKNOWN
            limit = lost.max_offset + GROWTH_BYTES_MAX if lost is not None and is_known else end.max_offset
            return end.epoch <= master_epoch and end.max_offset <= limit

        return replace(self, by_id={i: end for i, end in self.by_id.items() if can_be(end)})

    @property
    def is_on_fixed_number(self) -> bool:
        """Whether a confirmed message may be on some replicas only, whoever is in sync."""
        return self.confirmed_on is not None and self.confirmed_on > 1

    @property
    def masters(self) -> frozenset[int]:
        return frozenset(i for i, end in self.by_id.items() if end.is_master)

    def are_inconclusive(self, in_sync: Collection[int], others: int) -> bool:
        """Return whether it matters on how many replicas a confirmed message is; `others` are all but the lost master.

        It does not where all of them have answered, and the longest log is that of a member of the SyncStateSet.
        """
        longest = max((end.progress for i, end in self.by_id.items() if i in in_sync), default=None)
        if len(self.by_id) < others or longest is None:
            return True
        return any(end.progress > longest for i, end in self.by_id.items() if i not in in_sync)


#: No broker was queried, or none has answered.
NO_LOG_ENDS: Final = LogEnds()


class LogEndQuery(NamedTuple):
    broker_name: str
    #: The living of the set, by broker id, at the addresses that are stored.
    addresses: Mapping[int, str]
    in_sync: Collection[int]
    #: How many replicas the set has but for its lost master.
    others: int
