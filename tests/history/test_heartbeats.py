"""What is recorded of heartbeats: rare ones each, frequent ones by the minute, and whatever came late."""

from bisect import bisect_left
from random import Random

import pytest

from history.heartbeats import Heartbeat, HeartbeatAggregator, HeartbeatSummary, SingleHeartbeat
from history.rows import BrokerRef, Moment
from history.schemas import INTERVAL_BINS

WHO = BrokerRef("C", "broker-a", 1, "127.0.0.1:1")
MINUTE_US = 60_000_000
START_US = 1_700_000_040_000_000


def a_heartbeat(at_ms, interval_ms):
    return Heartbeat(Moment(START_US + at_ms * 1000, at_ms * 1000), WHO, "heartbeat", interval_ms, 10_000)


def received(heartbeats, *intervals_ms, at_ms=0):
    """Let a broker beat at these intervals; return what is recorded, and when it beat last."""
    noted = []
    for interval_ms in intervals_ms:
        at_ms += interval_ms or 0
        noted += heartbeats.add(a_heartbeat(at_ms, interval_ms))
    return noted, at_ms


def test_each_heartbeat_of_a_30_s_period_is_a_row():
    noted, _ = received(HeartbeatAggregator(), None, *[30_000] * 10)
    assert [each.event_type for each in noted] == ["heartbeat"] * 11
    assert [each.period_ms for each in noted] == [None] * 5 + [30_000] * 6


def test_heartbeats_of_a_1_s_period_are_summarised_once_the_period_is_known():
    heartbeats = HeartbeatAggregator()
    noted, at_ms = received(heartbeats, None, *[1_000] * 4)
    assert len(noted) == 5
    noted, at_ms = received(heartbeats, *[1_000] * 120, at_ms=at_ms)
    assert all(isinstance(each, HeartbeatSummary) for each in noted)
    assert [len(each.intervals_ms) for each in noted] == [55, 60]
    assert [each.minute_us % MINUTE_US for each in noted] == [0, 0]
    assert [(each.missed, each.late) for each in noted] == [(0, 0), (0, 0)]


def test_longer_period_ends_the_minute_of_the_short_one():
    heartbeats = HeartbeatAggregator()
    _, at_ms = received(heartbeats, None, *[1_000] * 10)
    noted, _ = received(heartbeats, *[30_000] * 12, at_ms=at_ms)
    summaries = [each for each in noted if isinstance(each, HeartbeatSummary)]
    rows = [each for each in noted if isinstance(each, SingleHeartbeat) and each.event_type == "heartbeat"]
    assert sum(len(each.intervals_ms) for each in summaries) + len(rows) == 6 + 12
    assert {each.period_ms for each in summaries} == {1_000}


def test_late_heartbeat_among_frequent_ones_is_a_row_and_counts_in_the_summary():
    heartbeats = HeartbeatAggregator()
    _, at_ms = received(heartbeats, None, *[1_000] * 10)
    noted, at_ms = received(heartbeats, 3_400, at_ms=at_ms)
    assert [(each.event_type, each.period_ms) for each in noted] == [("gap", 1_000)]
    noted, _ = received(heartbeats, *[1_000] * 60, at_ms=at_ms)
    summary = next(each for each in noted if isinstance(each, HeartbeatSummary))
    assert (summary.missed, summary.late, max(summary.intervals_ms)) == (2, 1, 3_400)
    assert sum(summary.hist) == len(summary.intervals_ms)


def test_summary_after_a_changed_period_uses_the_period_of_each_interval():
    heartbeats = HeartbeatAggregator()
    _, at_ms = received(heartbeats, None, *[1_000] * 10)
    noted, at_ms = received(heartbeats, *[5_000] * 9, at_ms=at_ms)
    # The fifth is the median: from the sixth on 5 s is the rule.
    assert [(each.event_type, each.period_ms) for each in noted] == [("gap", 1_000)] * 5
    noted, _ = received(heartbeats, *[5_000] * 3, at_ms=at_ms)
    summary = next(each for each in noted if isinstance(each, HeartbeatSummary))
    assert (summary.late, summary.missed) == (5, 5 * 4)
    on_time = bisect_left(INTERVAL_BINS, 1.0)
    assert (summary.hist[on_time], summary.hist[bisect_left(INTERVAL_BINS, 5.0)]) == (len(summary.intervals_ms) - 5, 5)


@pytest.mark.parametrize("apart_ms", [20, 200, 480])
def test_two_complete_heartbeat_streams_miss_none(apart_ms):
    heartbeats = HeartbeatAggregator()
    _, at_ms = received(heartbeats, None, *[apart_ms, 1_000 - apart_ms] * 10)
    noted, _ = received(heartbeats, *[apart_ms, 1_000 - apart_ms] * 70, at_ms=at_ms)
    summary = next(each for each in noted if isinstance(each, HeartbeatSummary))
    assert (summary.missed, summary.late) == (0, 0)


@pytest.mark.parametrize("share_lost", [0.05, 0.2, 0.3])
def test_most_lost_heartbeats_count_as_missed_at_any_loss_rate(share_lost):
    random = Random(1)
    intervals_ms = []
    for _ in range(3_000):
        lost = 0
        while random.random() < share_lost:
            lost += 1
        intervals_ms.append(1_000 * (1 + lost))
    heartbeats = HeartbeatAggregator()
    _, at_ms = received(heartbeats, None, *[1_000] * 10)
    noted, _ = received(heartbeats, *intervals_ms, at_ms=at_ms)
    missed = sum(each.missed for each in noted if isinstance(each, HeartbeatSummary))
    assert missed >= 0.85 * (sum(intervals_ms) // 1_000 - len(intervals_ms))


def test_long_pause_does_not_change_the_period():
    heartbeats = HeartbeatAggregator()
    _, at_ms = received(heartbeats, None, *[1_000] * 10)
    _, at_ms = received(heartbeats, 60_000, at_ms=at_ms)
    noted, _ = received(heartbeats, 2_000, at_ms=at_ms)
    assert isinstance(noted[-1], SingleHeartbeat)
    assert noted[-1].period_ms == 1_000


def test_returning_broker_starts_anew_and_its_last_minute_is_summarised():
    heartbeats = HeartbeatAggregator()
    _, at_ms = received(heartbeats, None, *[1_000] * 10)
    noted, _ = received(heartbeats, None, at_ms=at_ms)
    assert isinstance(noted[0], HeartbeatSummary)
    assert (noted[1].event_type, noted[1].heartbeat.interval_ms, noted[1].period_ms) == ("heartbeat", None, None)


def test_last_minute_of_a_removed_broker_is_summarised_once():
    heartbeats = HeartbeatAggregator()
    _, at_ms = received(heartbeats, None, *[1_000] * 10)
    moment = Moment(START_US + at_ms * 1000, at_ms * 1000)
    (summary,) = heartbeats.remove("C", "broker-a", 1, moment)
    assert (len(summary.intervals_ms), summary.broker, summary.kind, summary.timeout_ms) == (
        6,
        WHO,
        "heartbeat",
        10_000,
    )
    assert list(heartbeats.remove("C", "broker-a", 1, moment)) == []
