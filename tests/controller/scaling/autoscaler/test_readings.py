from dataclasses import replace

from controller.scaling.autoscaler.readings import (
    GROUPS_MAX,
    READINGS_MAX,
    GroupReading,
    ReadingHistory,
    SetReading,
    TopicReading,
)
from controller.scaling.resize.observation import GroupKind


def reading(unix_ms, ends=(0, 0), offsets=(0, 0), **other):
    return TopicReading(
        topic="orders",
        unix_ms=unix_ms,
        sets={"broker-a": SetReading(read_queues=2, write_queues=2, max_offsets=ends)},
        groups={"billing": GroupReading(kind=GroupKind.CONCURRENT, offsets={"broker-a": offsets})},
        **other,
    )


def test_rates_are_those_since_the_reading_before():
    history = ReadingHistory()
    history.add(reading(0, (1000, 1000), (900, 1000)))
    signals = history.add(reading(10_000, (2000, 1500), (1000, 1500)))
    assert signals.sets["broker-a"].write_tps == (100.0, 50.0)
    first, second = signals.groups["billing"].queues
    assert (first.lag, first.lag_trend, first.consume_tps) == (1000, 90.0, 10.0)
    assert (second.lag, second.lag_trend, second.consume_tps) == (0, 0.0, 50.0)


def test_first_reading_has_lags_and_no_rates():
    signals = ReadingHistory().add(reading(0, (1000, 1000), (900, 1000)))
    assert signals.put_tps is None
    assert signals.groups["billing"].queues[0].lag == 100
    assert signals.groups["billing"].queues[0].lag_trend is None


def test_rates_are_those_of_the_last_minute():
    history = ReadingHistory()
    for number in range(20):
        signals = history.add(reading(number * 15_000, (0 if number < 15 else (number - 15) * 1500,) * 2))
    # 6,000 messages in 60 s.
    assert signals.sets["broker-a"].write_tps == (100.0, 100.0)


def test_end_that_went_back_has_no_rate():
    history = ReadingHistory()
    history.add(reading(0, (1000, 1000)))
    assert history.add(reading(15_000, (10, 2500))).sets["broker-a"].write_tps == (None, 100.0)


def test_new_queue_has_no_rate_yet():
    history = ReadingHistory()
    history.add(reading(0, (0, 0)))
    assert history.add(reading(15_000, (0, 0, 0))).sets["broker-a"].write_tps == (0.0, 0.0, None)


def test_unknown_offset_gives_an_unknown_lag():
    signals = ReadingHistory().add(reading(0, (5, None), (None, 5)))
    assert [each.lag for each in signals.groups["billing"].queues] == [None, None]


def test_offset_beyond_the_end_is_no_lag():
    assert ReadingHistory().add(reading(0, (5, 5), (9, 5))).groups["billing"].queues[0].lag == 0


def test_clock_that_was_set_back_has_no_rates():
    history = ReadingHistory()
    history.add(reading(60_000, (1000, 1000)))
    assert history.add(reading(0, (2000, 2000))).put_tps is None


def test_idle_topic_holds_one_copy_of_what_does_not_change():
    history = ReadingHistory()
    for number in range(100):
        history.add(reading(number * 1000))
    assert len(history._readings) <= READINGS_MAX
    assert len({id(each.sets) for each in history._readings}) == 1


def test_more_groups_than_the_limit_are_left_out():
    groups = {f"group-{number:03}": GroupReading() for number in range(GROUPS_MAX + 5)}
    assert len(ReadingHistory().add(replace(reading(0), groups=groups)).groups) == GROUPS_MAX
