"""Recorded rows in, what the policy would have done out."""

from collections.abc import Callable, Iterator

import pytest
from simulated_topics import AUTO, DAY_MS, HOUR_MS, MINUTE_MS, MONDAY_MS
from synthetic.plants import offset_samples

from controller.scaling.autoscaler.dry_run import DryRunStart, RecordedSample, dry_run
from controller.scaling.autoscaler.policies import PolicyMode
from controller.scaling.resize.observation import GroupKind

START = DryRunStart(queues_per_set=4)


def recorded(
    minutes: int,
    put_tps: Callable[[int], float],
    consumers: int,
    *,
    can_consume: float,
    unknown: frozenset[int] = frozenset(),
) -> Iterator[RecordedSample]:
    """A sample each minute of a topic and a group that consumes at most so many messages a second."""
    end = offset = 0
    for minute in range(minutes):
        tps = put_tps(minute)
        end += int(tps * 60)
        offset = min(end, offset + int(can_consume * 60))
        at_ms = MONDAY_MS + minute * MINUTE_MS
        known = None if minute in unknown else offset
        yield RecordedSample(at_ms, "orders", max_offset=end, tps=tps)
        yield RecordedSample(at_ms, "orders", "billing", end, known, consumers, tps)


def changes(samples, policy=AUTO, start=START):
    return [(each.before, each.target) for each in dry_run(samples, policy, start) if each.is_change]


def test_consumers_without_a_queue_would_have_led_to_a_resize():
    assert changes(recorded(60, lambda _: 700.0, 8, can_consume=400)) == [(4, 8)]


def test_orderly_groups_are_only_proposed_for():
    start = DryRunStart(queues_per_set=4, kind=GroupKind.ORDERLY)
    verdicts = dry_run(recorded(60, lambda _: 700.0, 4, can_consume=400), AUTO, start)
    assert {each.mode for each in verdicts if each.is_change} == {PolicyMode.PROPOSE}


def test_minutes_without_the_group_s_offset_decide_nothing():
    samples = recorded(60, lambda _: 700.0, 8, can_consume=400, unknown=frozenset(range(60)))
    assert changes(samples) == []


def test_nothing_is_told_twice():
    verdicts = dry_run(recorded(600, lambda _: 100.0, 4, can_consume=400), AUTO, START)
    assert len(verdicts) <= 3


def test_counts_are_those_of_each_set():
    start = DryRunStart(queues_per_set=4, sets=2)
    assert changes(recorded(60, lambda _: 1500.0, 16, can_consume=800), start=start) == [(4, 8)]


@pytest.mark.parametrize(
    "rate", [250.0, pytest.param(0.0, marks=pytest.mark.broad), pytest.param(400.0, marks=pytest.mark.broad)]
)
def test_synthetic_month_of_a_group_that_keeps_up_shrinks_in_a_quiet_hour_after_a_week(rate):
    planted = offset_samples(
        "ns-1", "orders", MONDAY_MS * 1000, [rate + 300.0 * (each % 1440 > 480) for each in range(30 * 1440)]
    )
    samples = (
        RecordedSample(
            each.at_us // 1000,
            each.values["topic"],
            each.values.get("group"),
            each.values["max_offset"],
            each.values.get("consumer_offset"),
            each.values.get("consumers"),
            each.values["tps"],
        )
        for each in planted.happenings
    )
    verdicts = [each for each in dry_run(samples, AUTO, DryRunStart(queues_per_set=32)) if each.is_change]
    assert all(each.target < each.before for each in verdicts)
    nights = [each.unix_ms // DAY_MS for each in verdicts]
    assert len(nights) == len(set(nights))
    assert (verdicts[0].unix_ms - MONDAY_MS) // DAY_MS == 7 if rate < 400 else verdicts == []
    assert all((each.unix_ms - MONDAY_MS) % DAY_MS < 8 * HOUR_MS for each in verdicts)
