"""What the autoscaler knows of a topic at one moment. Values only; None is unknown, and never stands for zero."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller.scaling.resize.observation import GroupKind


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLoad:
    """How busy a master is, with all its topics."""

    put_tps: float | None = None
    #: Messages a second that it takes at most, as the policy says.
    put_tps_limit: float | None = None
    #: Messages a second that one queue of it takes at most, as the policy says.
    queue_tps_limit: float | None = None
    #: How long the first request in its sendThreadPoolQueue has waited.
    queue_wait_ms: float | None = None
    is_page_cache_busy: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSignals:
    #: None if no master answered.
    read_queues: int | None = None
    write_queues: int | None = None
    #: Messages a second that come into each queue, by queue id.
    write_tps: tuple[float | None, ...] = ()
    load: BrokerLoad = field(default_factory=BrokerLoad)


class QueueProgress(NamedTuple):
    """What a group has left in one queue."""

    broker_name: str
    queue_id: int
    #: Messages that are not consumed.
    lag: int | None = None
    #: By how many messages a second that grows; negative while the group catches up.
    lag_trend: float | None = None
    consume_tps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembers:
    kind: GroupKind | None = None
    #: Ids of the clients that are online.
    clients: frozenset[str] | None = None
    #: Ids of those that hold a queue; None if they did not answer.
    holders: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSignals(GroupMembers):
    queues: tuple[QueueProgress, ...] = ()

    def holding(self, queues: int) -> int | None:
        """Return how many clients hold a queue; where they did not answer, as many as can, of so many queues."""
        if self.clients is None:
            return None
        # Who has left a moment ago may still be shown as a holder.
        return min(len(self.clients), queues) if self.holders is None else len(self.holders & self.clients)

    def clients_without_queue(self, queues: int) -> int | None:
        """Return how many clients have nothing to do, of so many queues; None if unknown."""
        holding = self.holding(queues)
        if holding is None or self.clients is None or self.kind is None:
            return None
        return len(self.clients) - holding if self.kind.gives_queues_to_clients else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSignals:
    topic: str
    unix_ms: int
    #: By broker name.
    sets: Mapping[str, SetSignals] = field(default_factory=dict)
    groups: Mapping[str, GroupSignals] = field(default_factory=dict)
    #: Its messages have an order: its flag, an entry of ORDER_TOPIC_CONFIG, its message type. None if unknown.
    is_ordered: bool | None = None
    #: Its queues are mapped to brokers by a table. None if unknown.
    is_static: bool | None = None
    #: Its message type gives the number of queues a meaning; blank for all others.
    special_type: str = ""

    @property
    def queues_per_set(self) -> int | None:
        """Queues on each broker set: of sets that differ, the most; None if a set did not answer."""
        counts = self._counts()
        return max(counts) if counts else None

    @property
    def has_equal_sets(self) -> bool:
        return len(set(self._counts())) == 1

    @property
    def queues(self) -> int | None:
        """Write queues on all broker sets; None if a set did not answer."""
        counts = [each.write_queues for each in self.sets.values()]
        return sum(count for count in counts if count is not None) if counts and None not in counts else None

    @property
    def put_tps(self) -> float | None:
        """Messages a second that come into the topic; None if that of a queue is unknown."""
        rates = [rate for each in self.sets.values() for rate in each.write_tps]
        return sum(rate for rate in rates if rate is not None) if rates and None not in rates else None

    def _counts(self) -> list[int]:
        counts = [count for each in self.sets.values() for count in (each.read_queues, each.write_queues)]
        return [count for count in counts if count is not None] if None not in counts else []


#: A group is on the way to be behind: this share of that already, and its lag grows by this share of what comes in.
EARLY_SHARE: Final = 0.1
TREND_SHARE: Final = 0.05

#: A group that will have caught up in this time needs no help.
CATCH_UP_S: Final = 600.0


class GroupProgressTotals(NamedTuple):
    """Sums over the queues of a group: messages, and messages a second."""

    lag: int
    lag_trend: float
    consume_tps: float
    #: Queues with a lag in which nothing is consumed, and that lag.
    still_queues: int
    still_lag: int
    #: Queues with a lag.
    lagging_queues: int
    #: Queues whose lag does not shrink.
    growing_queues: int

    @property
    def behind_ms(self) -> float:
        """About how old the oldest message is that was not consumed: how long the lag took to come in."""
        come_in = max(0.0, self.consume_tps + self.lag_trend)
        rate = come_in or self.consume_tps
        if rate <= 0:
            return 0.0 if self.lag == 0 else float("inf")
        return self.lag * 1000 / rate

    def needs_help(self, behind_ms: int) -> bool:
        """Return whether the group is behind and does not catch up soon, or is on the way there."""
        come_in = self.consume_tps + self.lag_trend
        grows = self.lag_trend > TREND_SHARE * come_in and self.lag_trend > 0
        catches_up = self.lag_trend < 0 and self.lag <= -self.lag_trend * CATCH_UP_S
        is_behind = self.behind_ms >= behind_ms and not catches_up
        return is_behind or (grows and self.behind_ms >= EARLY_SHARE * behind_ms)

    @property
    def sentence(self) -> str:
        if abs(self.lag_trend) < 1:
            return f"lag is {self.lag} messages and stays"
        verb = "grows" if self.lag_trend > 0 else "shrinks"
        return f"lag is {self.lag} messages and {verb} by {abs(self.lag_trend):.0f} messages/s"


def totals_of(group: GroupSignals) -> GroupProgressTotals | None:
    """Return the sums; None if the lag or a rate of any queue is unknown."""
    lag = still_queues = still_lag = lagging = growing = 0
    trend = consumed = 0.0
    for each in group.queues:
        if each.lag is None or each.lag_trend is None or each.consume_tps is None:
            return None
        lag += each.lag
        trend += each.lag_trend
        consumed += each.consume_tps
        lagging += each.lag > 0
        if each.lag > 0 and each.consume_tps <= 0:
            still_queues += 1
            still_lag += each.lag
        if each.lag > 0 and each.lag_trend >= 0:
            growing += 1
    if not group.queues:
        return None
    return GroupProgressTotals(lag, trend, consumed, still_queues, still_lag, lagging, growing)
