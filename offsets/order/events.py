"""What is told about locks at brokers: lines of the log, counts, and rows `lock_event` of the history."""

import enum
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

from history.offset_families import LOCK_EVENT
from history.rows import BrokerRef, HistoryRow, Moment, RowMaker
from serving.logging.events import Level
from serving.telemetry.events import Count, Counter, Event, Observation, Timer

#: A lock granted later than this after the promotion counts as late.
LATE_MS: Final = 500
#: Characters of a client id that are recorded.
_TEXT_MAX: Final = 500


class ReplayOutcome(enum.StrEnum):
    """What became of the lock of one queue at a new master."""

    #: The new master has locked the queue for its holder.
    GRANTED = "granted"
    #: Another client has the lock.
    HELD_BY_ANOTHER = "held_by_another"
    #: The new master did not answer, or answered with an error: the lock may be taken or not.
    UNANSWERED = "unanswered"
    #: The client did not confirm in time that it holds the queue: nothing was sent.
    UNCONFIRMED = "unconfirmed"


OVERLAPS_FOUND: Final = Counter("broker_lock_overlaps_found", "Overlaps that were found.")
REPLAYS: Final = Counter(
    "broker_lock_replays",
    "Locks of holders at new masters, by what became of them.",
    ("outcome",),
    tuple((outcome.value,) for outcome in ReplayOutcome),
)
REPLAY_DURATION: Final = Timer(
    "broker_lock_replay_seconds", "Time from a promotion, as it was noticed here, until a lock of a holder was granted."
)
RELEASED: Final = Counter(
    "broker_locks_released", "Locks that were given up for clients that are lost, or lost the queue after a replay."
)
QUERY_FAILURES: Final = Counter(
    "holder_query_failures", "Queries of clients about their queues that were not answered in time, or not readably."
)


class _LockRow(NamedTuple):
    """One row of the history."""

    event_type: str
    broker: BrokerRef
    columns: Mapping[str, object]

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        """Yield it."""
        yield maker.row(LOCK_EVENT, self.event_type, moment, self.broker, **self.columns)


class _OverlapEvent(Event, frozen=True, kw_only=True):
    """Two clients of one queue."""

    event_type: ClassVar[str]
    cluster: str
    group: str
    topic: str
    broker: str
    queue_id: int
    clients: tuple[str, str]

    def rows(self) -> Iterator[_LockRow]:
        """Return its row."""
        columns = {"group": self.group, "topic": self.topic, "queue_id": self.queue_id, **self._more()}
        clients = [name[:_TEXT_MAX] for name in self.clients]
        yield _LockRow(self.event_type, BrokerRef(self.cluster, self.broker), {**columns, "clients": clients})

    def _more(self) -> Mapping[str, object]:
        return {}


class BrokerLockOverlap(_OverlapEvent, frozen=True, kw_only=True):
    """Two clients of an orderly group hold the same queue at the same time, so both may consume it: messages come
    twice, and out of order.
    """

    level = Level.WARNING
    advice = (
        "After a failover it ends by itself within 30 s, and `lockReplay` prevents it. Otherwise look for two clients "
        "with one id, and for a tool that unlocks queues of others. See `/v1/locks/overlaps`."
    )
    event_type = "overlap_began"

    def counted(self) -> Iterator[Count]:
        """Count the overlap."""
        yield Count(OVERLAPS_FOUND)


class BrokerLockOverlapEnded(_OverlapEvent, frozen=True, kw_only=True):
    """One of the two clients does not hold the queue any more: it `released` it, its lock `expired`, or it is `lost`."""

    event_type = "overlap_ended"
    reason: str
    duration_ms: int

    def _more(self) -> Mapping[str, object]:
        return {"reason": self.reason, "duration_ms": self.duration_ms}


class BrokerLocksReplayed(Event, frozen=True, kw_only=True):
    """A broker set has a new master, and it got the locks of their holders. `held_by_another`: another client was
    faster; `unanswered`: the master did not answer, so the lock may be taken or not; `unconfirmed`: the client did not
    confirm in time that it holds the queue; `late`: granted later than 500 ms after the promotion.
    """

    cluster: str
    broker: str
    addr: str
    granted: int
    held_by_another: int
    unanswered: int
    unconfirmed: int
    late: int
    duration_ms: int


class TopicLocksReplayed(Event, frozen=True, kw_only=True):
    """What became of the locks of one group in one topic at a new master."""

    level = None
    cluster: str
    broker: str
    addr: str
    master_epoch: int | None
    group: str
    topic: str
    #: Of each queue; and how many ms after the promotion.
    outcomes: tuple[tuple[ReplayOutcome, int], ...]

    def counted(self) -> Iterator[Count]:
        """Count each lock by its outcome."""
        return (Count(REPLAYS, (outcome.value,)) for outcome, _ in self.outcomes)

    def observed(self) -> Iterator[Observation]:
        """Return when each lock was granted."""
        return (Observation(REPLAY_DURATION, ms / 1000) for ms in self._granted_ms())

    def rows(self) -> Iterator[_LockRow]:
        """Return its row."""
        tally = Tally(outcome for outcome, _ in self.outcomes)
        columns: dict[str, object] = {outcome.value: tally[outcome] for outcome in ReplayOutcome}
        columns |= {"group": self.group, "topic": self.topic, "master_epoch": self.master_epoch}
        columns |= {"queues": len(self.outcomes), "duration_ms": max(self._granted_ms(), default=None)}
        yield _LockRow("replayed", BrokerRef(self.cluster, self.broker, broker_addr=self.addr), columns)

    def _granted_ms(self) -> list[int]:
        return [ms for outcome, ms in self.outcomes if outcome is ReplayOutcome.GRANTED]


class BrokerLocksReleased(Event, frozen=True, kw_only=True):
    """Locks at a master were given up for a client that is lost, or that lost the queues after a replay."""

    cluster: str
    group: str
    client: str
    broker: str
    queues: int

    def counted(self) -> Iterator[Count]:
        """Count the locks."""
        yield Count(RELEASED, amount=self.queues)


class HolderSilent(Event, frozen=True, kw_only=True):
    """A client has not answered in time, or not readably."""

    level = None

    def counted(self) -> Iterator[Count]:
        """Count the query."""
        yield Count(QUERY_FAILURES)


class OrderlyGroupsLeftOut(Event, frozen=True, kw_only=True):
    """So many groups that are declared orderly are not followed, so none of their locks is replayed and no overlap
    found: the limit is 5,000 pairs of a group and a broker set of its cluster.
    """

    level = Level.WARNING
    advice = "Undeclare groups that are not in use (`/v1/locks/undeclare`)."
    groups: int


class OrderlyChanged(Event, frozen=True, kw_only=True):
    """A group was declared orderly: its holders are followed and its locks replayed. Or it is not any more."""

    audit = True
    writer: str
    cluster: str
    group: str
    orderly: bool
