"""How far a group is behind in all its queues together, and whether it catches up. Pure."""

from typing import Final, NamedTuple

from controller.scaling.autoscaler.signals import GroupSignals

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
        """How far behind, in words."""
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
