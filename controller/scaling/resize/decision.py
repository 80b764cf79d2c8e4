"""What a round of a resize decides. Pure values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.scaling.resize.operation import QueueCounts, QueueId, ResizeOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCounts:
    """Change the queue numbers of the topic on one master, if it still shows `before`."""

    broker_name: str
    address: str
    before: QueueCounts
    after: QueueCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreGroupOffset:
    """Store an offset of a group on one master (15), if it still shows `before`; None: nothing is stored."""

    broker_name: str
    address: str
    group: str
    queue_id: int
    before: int | None
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOrderConf:
    """Write `orderTopicConf` of the topic into one NameServer; None removes it."""

    address: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldLocks:
    """Lock queues of a group on one master (41), or renew the locks: they end after 60 s."""

    broker_name: str
    address: str
    client_id: str
    group: str
    queue_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveLocks(HoldLocks):
    """Unlock queues of a group on one master (42): its consumers lock them from then on."""


ResizeAction = ChangeCounts | StoreGroupOffset | PutOrderConf | HoldLocks | GiveLocks


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseProgress:
    """What this leader has seen in the present phase; it begins with the waited time and ends that were saved last."""

    #: Monotonic time of the last round in this phase, and in any; None before the first one.
    round_ms: int | None = None
    seen_ms: int | None = None
    #: Time in which nothing was missing.
    waited_ms: int = 0
    #: Time in which answers may have been missing.
    lasted_ms: int = 0
    #: Newest ends of the observed queues.
    ends: Mapping[QueueId, int] = field(default_factory=dict)
    #: `waited_ms` at the last change of an end.
    moved_at_ms: int = 0
    #: Ends of commit logs once senders could not send any more; by broker name.
    log_marks: Mapping[str, int] = field(default_factory=dict)
    #: `waited_ms` since when a group has consumed everything; by group.
    settled_at_ms: Mapping[str, int] = field(default_factory=dict)
    #: `waited_ms` at which everything was seen in the wanted state.
    agreed_at_ms: int | None = None
    #: Monotonic time at which all locks were sent in the round before, None unless that was to every set; and of the
    #: last time that all were taken.
    locks_sent_ms: int | None = None
    locked_ms: int | None = None
    #: Rounds after the time for it in which writes were still given back.
    last_rounds: int = 0
    #: `lasted_ms` at the last save.
    saved_ms: int = 0
    #: True if nobody had the topic in the last round.
    is_deleted: bool = False

    def at(self, now_ms: int, *, is_complete: bool) -> "PhaseProgress":
        """Return the progress at this round; a wait counts it if nothing was missing."""
        waited_ms = now_ms - self.round_ms if self.round_ms is not None and is_complete else 0
        lasted_ms = now_ms - self.seen_ms if self.seen_ms is not None else 0
        return replace(
            self,
            round_ms=now_ms,
            seen_ms=now_ms,
            waited_ms=self.waited_ms + max(waited_ms, 0),
            lasted_ms=self.lasted_ms + max(lasted_ms, 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeDecision:
    """The operation from now on, what to do once it is stored, and what it waits for."""

    operation: ResizeOperation
    progress: PhaseProgress
    actions: tuple[ResizeAction, ...] = ()
    #: Sentences for the operator.
    waits_for: tuple[str, ...] = ()
