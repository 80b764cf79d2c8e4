"""What is recorded of heartbeats: rare ones each, frequent ones by the minute, and whatever came late."""

from bisect import bisect_left
from random import Random

import pytest

from history.heartbeats import Beat, Beats, NotedBeat, Summary
from history.rows import Moment, Who
from history.schemas import INTERVAL_BINS

WHO = Who("C", "broker-a", 1, "127.0.0.1:1")
MINUTE_US = 60_000_000
START_US = 1_700_000_040_000_000


def a_beat(at_ms, interval_ms):
    return Beat(Moment(START_US + at_ms * 1000, at_ms * 1000), WHO, "heartbeat", interval_ms, 10_000)


def heard(beats, *intervals_ms, at_ms=0):
    """Let a broker beat at these intervals; return what is recorded, and when it beat last."""
    noted = []
    for interval_ms in intervals_ms:
        at_ms += interval_ms or 0
        noted += beats.take(a_beat(at_ms, interval_ms))
    return noted, at_ms


def test_each_beat_of_a_broker_that_registers_each_half_minute_is_a_row():
    noted, _ = heard(Beats(), None, *[30_000] * 10)
    assert [each.event_type for each in noted] == ["beat"] * 11
    assert [each.period_ms for each in noted] == [None] * 5 + [30_000] * 6


def test_beats_of_each_second_are_summarised_by_the_minute_once_the_rhythm_is_known():
    beats = Beats()
    noted, at_ms = heard(beats, None, *[1_000] * 4)
    assert len(noted) == 5
    noted, at_ms = heard(beats, *[1_000] * 120, at_ms=at_ms)
    assert all(isinstance(each, Summary) for each in noted)
    assert [len(each.intervals_ms) for each in noted] == [55, 60]
    assert [each.minute_us % MINUTE_US for each in noted] == [0, 0]
    assert [(each.missed, each.late) for each in noted] == [(0, 0), (0, 0)]


def test_a_broker_that_becomes_slow_leaves_the_minute_behind_in_which_it_was_quick():
    beats = Beats()
    _, at_ms = heard(beats, None, *[1_000] * 10)
    noted, _ = heard(beats, *[30_000] * 12, at_ms=at_ms)
    summaries = [each for each in noted if isinstance(each, Summary)]
    rows = [each for each in noted if isinstance(each, NotedBeat) and each.event_type == "beat"]
    assert sum(len(each.intervals_ms) for each in summaries) + len(rows) == 6 + 12
    assert {each.period_ms for each in summaries} == {1_000}


def test_a_late_beat_among_frequent_ones_is_a_row_and_counts_in_the_summary():
    beats = Beats()
    _, at_ms = heard(beats, None, *[1_000] * 10)
    noted, at_ms = heard(beats, 3_400, at_ms=at_ms)
    assert [(each.event_type, each.period_ms) for each in noted] == [("gap", 1_000)]
    noted, _ = heard(beats, *[1_000] * 60, at_ms=at_ms)
    summary = next(each for each in noted if isinstance(each, Summary))
    assert (summary.missed, summary.late, max(summary.intervals_ms)) == (2, 1, 3_400)
    assert sum(summary.hist) == len(summary.intervals_ms)


def test_where_the_rhythm_changes_a_summary_judges_each_interval_as_its_row_did():
    beats = Beats()
    _, at_ms = heard(beats, None, *[1_000] * 10)
    noted, at_ms = heard(beats, *[5_000] * 9, at_ms=at_ms)
    # The fifth is the median: from the sixth on 5 s is the rule.
    assert [(each.event_type, each.period_ms) for each in noted] == [("gap", 1_000)] * 5
    noted, _ = heard(beats, *[5_000] * 3, at_ms=at_ms)
    summary = next(each for each in noted if isinstance(each, Summary))
    assert (summary.late, summary.missed) == (5, 5 * 4)
    on_time = bisect_left(INTERVAL_BINS, 1.0)
    assert (summary.hist[on_time], summary.hist[bisect_left(INTERVAL_BINS, 5.0)]) == (len(summary.intervals_ms) - 5, 5)


@pytest.mark.parametrize("apart_ms", [20, 200, 480])
def test_two_streams_of_beats_miss_none_while_both_come(apart_ms):
    beats = Beats()
    _, at_ms = heard(beats, None, *[apart_ms, 1_000 - apart_ms] * 10)
    noted, _ = heard(beats, *[apart_ms, 1_000 - apart_ms] * 70, at_ms=at_ms)
    summary = next(each for each in noted if isinstance(each, Summary))
    assert (summary.missed, summary.late) == (0, 0)


@pytest.mark.parametrize("share_lost", [0.05, 0.2, 0.3])
def test_most_lost_beats_are_missed_however_many_are_lost(share_lost):
    random = Random(1)
    intervals_ms = []
    for _ in range(3_000):
        lost = 0
        while random.random() < share_lost:
            lost += 1
        intervals_ms.append(1_000 * (1 + lost))
    beats = Beats()
    _, at_ms = heard(beats, None, *[1_000] * 10)
    noted, _ = heard(beats, *intervals_ms, at_ms=at_ms)
    missed = sum(each.missed for each in noted if isinstance(each, Summary))
    assert missed >= 0.85 * (sum(intervals_ms) // 1_000 - len(intervals_ms))


def test_a_long_pause_does_not_change_the_rhythm():
    beats = Beats()
    _, at_ms = heard(beats, None, *[1_000] * 10)
    _, at_ms = heard(beats, 60_000, at_ms=at_ms)
    noted, _ = heard(beats, 2_000, at_ms=at_ms)
    assert isinstance(noted[-1], NotedBeat)
    assert noted[-1].period_ms == 1_000


def test_a_broker_that_comes_back_begins_anew_and_its_last_minute_is_told():
    beats = Beats()
    _, at_ms = heard(beats, None, *[1_000] * 10)
    noted, _ = heard(beats, None, at_ms=at_ms)
    assert isinstance(noted[0], Summary)
    assert (noted[1].event_type, noted[1].beat.interval_ms, noted[1].period_ms) == ("beat", None, None)


def test_the_last_minute_of_a_broker_that_leaves_is_told_once():
    beats = Beats()
    _, at_ms = heard(beats, None, *[1_000] * 10)
    moment = Moment(START_US + at_ms * 1000, at_ms * 1000)
    (summary,) = beats.forget("C", "broker-a", 1, moment)
    assert (len(summary.intervals_ms), summary.who, summary.kind, summary.timeout_ms) == (6, WHO, "heartbeat", 10_000)
    assert list(beats.forget("C", "broker-a", 1, moment)) == []
