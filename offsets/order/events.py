"""What is told about locks at brokers: lines of the log, counts, and rows `lock_event` of the history."""

import enum
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from history.offset_families import LOCK_EVENT
from history.rows import BrokerRef, Record
from offsets.order.holders import GroupQueue  # a field of events
from serving.logging.events import Level
from serving.telemetry.events import Count, Counter, Event, Observation, Timer

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
    "broker_lock_replay_seconds",
    "Time from a promotion, as it was noticed here, until a group in a topic had its locks.",
)
RELEASED: Final = Counter("broker_locks_released", "Locks given up for clients that lost the queue after a replay.")
QUERY_FAILURES: Final = Counter(
    "holder_query_failures", "Queries of clients about their queues that were not answered in time, or not readably."
)


class _OfOverlap(Event, frozen=True, kw_only=True):
    """An overlap begins or ends."""

    level: ClassVar[Level | None] = None
    event_type: ClassVar[str]
    keys: ClassVar[tuple[str, ...]] = ("cluster", "group", "topic", "broker", "queue_id", "clients")
    queue: GroupQueue
    clients: tuple[str, str]

    def line(self) -> dict[str, object]:
        (cluster, group), queue = self.queue
        values = (cluster, group, queue.topic, queue.broker_name, queue.queue_id, self.clients)
        return dict(zip(self.keys, values, strict=False))

    def rows(self) -> Iterator[Record]:
        columns = self.line() | {"clients": [name[:_TEXT_MAX] for name in self.clients]}
        broker = BrokerRef(str(columns.pop("cluster")), str(columns.pop("broker")))
        yield Record(LOCK_EVENT, self.event_type, broker, columns)


class BrokerLockOverlap(_OfOverlap, frozen=True, kw_only=True):
    """Two clients of an orderly group hold the same queue at once: messages come twice, and out of order."""

    level = Level.WARNING
    advice = (
        "After a failover it ends by itself within 30 s, and `lockReplay` prevents it. Otherwise look for two clients "
        "with one id, and for a tool that unlocks queues of others. See `/v1/locks/overlaps`."
    )
    counter = OVERLAPS_FOUND
    event_type = "overlap_began"


class BrokerLockOverlapEnded(_OfOverlap, frozen=True, kw_only=True):
    """One of the two clients no longer holds the queue: it `released` it, its lock `expired`, or the client is
    `lost`."""

    level = Level.INFO
    event_type = "overlap_ended"
    keys = (*_OfOverlap.keys, "reason", "duration_ms")
    reason: str
    duration_ms: int

    def line(self) -> dict[str, object]:
        return {**super().line(), "reason": self.reason, "duration_ms": self.duration_ms}


class BrokerLocksReplayed(Event, frozen=True, kw_only=True):
    """A new master got the locks of the clients of an orderly group in a topic.

    `held_by_another`: another client was faster; `unanswered`: the master did not answer, so the lock may or may not
    be taken; `unconfirmed`: the client did not confirm in time that it holds the queue.
    """

    cluster: str
    broker: str
    addr: str
    epoch: int | None
    group: str
    topic: str
    granted: int
    held_by_another: int
    unanswered: int
    unconfirmed: int
    duration_ms: int

    def _outcomes(self) -> Mapping[str, int]:
        return {outcome.value: getattr(self, outcome.value) for outcome in ReplayOutcome}

    def counted(self) -> Iterator[Count]:
        return (Count(REPLAYS, (outcome,), locks) for outcome, locks in self._outcomes().items())

    def observed(self) -> Iterator[Observation]:
        if self.granted:
            yield Observation(REPLAY_DURATION, self.duration_ms / 1000)

    def rows(self) -> Iterator[Record]:
        outcomes = self._outcomes()
        columns = {"group": self.group, "topic": self.topic, "master_epoch": self.epoch, **outcomes}
        columns |= {"queues": sum(outcomes.values()), "duration_ms": self.duration_ms}
        yield Record(LOCK_EVENT, "replayed", BrokerRef(self.cluster, self.broker, broker_addr=self.addr), columns)


class BrokerLocksReleased(Event, frozen=True, kw_only=True):
    """Replayed locks were released again, because their client has lost the queues since."""

    cluster: str
    group: str
    client: str
    broker: str
    queues: int

    def counted(self) -> Iterator[Count]:
        yield Count(RELEASED, amount=self.queues)


class OrderlyGroupsUnreadable(Event, frozen=True, kw_only=True):
    """The declared orderly groups cannot be read from the store, so none is watched until they can."""

    level = Level.ERROR
    advice = "Repair the store; a damaged `orderly-groups.json` has its predecessor beside it, with `.bak`."
    problem: str


class OrderlyChanged(Event, frozen=True, kw_only=True):
    """A group was declared orderly, so its lock holders are watched and its locks replayed; or the declaration was
    withdrawn."""

    audit = True
    writer: str
    cluster: str
    group: str
    orderly: bool
