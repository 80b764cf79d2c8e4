"""Whole rules in simulated time: ramps, slow listeners, hot keys, slow brokers, missing data, and a month of days."""

import math
from dataclasses import replace
from random import Random

import msgspec
import pytest
from measured import note
from simulated_topics import AUTO, DAY_MS, HOUR_MS, MINUTE_MS, Run, SimulatedTopic, without_groups_clients

from controller.scaling.autoscaler.findings import FindingKind
from controller.scaling.autoscaler.policies import PolicyMode
from controller.scaling.autoscaler.signals import BrokerLoad
from controller.scaling.resize.observation import GroupKind

RAMP_MS = 5 * MINUTE_MS
#: The ramp begins after the rates of a quiet topic are known.
QUIET_MS = 2 * MINUTE_MS
TOP_MS = QUIET_MS + RAMP_MS


def ramp(at_ms: int) -> float:
    """100 messages a second, and 1,000 five minutes later."""
    return 100 + 900 * min(1.0, max(0.0, (at_ms - QUIET_MS) / RAMP_MS))


def joining(at_ms: int) -> int:
    """4 consumers, and 16 at the top."""
    return 4 + int(12 * min(1.0, max(0.0, (at_ms - QUIET_MS) / RAMP_MS)))


def kinds(run: Run) -> set[FindingKind]:
    return {finding.kind for verdict in run.verdicts for finding in verdict.findings}


def test_group_is_not_behind_two_minutes_after_a_ramp_that_took_at_most_two_resizes():
    run = Run(SimulatedTopic(ramp, joining)).play(TOP_MS + 30 * MINUTE_MS)
    assert 1 <= len(run.resizes) <= 2
    late = {at: behind for at, behind in run.behind.items() if at >= TOP_MS + 2 * MINUTE_MS}
    assert max(late.values()) <= 30_000


@pytest.mark.parametrize("seed", range(3))
def test_ramp_of_a_noisy_rate_with_all_consumers_there_is_followed_in_time(seed):
    draw = Random(seed)
    noise = [draw.gauss(1, 0.1) for _ in range(3600)]
    topic = SimulatedTopic(lambda at_ms: ramp(at_ms) * noise[at_ms // 1000], lambda _: 16)
    run = Run(topic).play(TOP_MS + 10 * MINUTE_MS)
    assert 1 <= len(run.resizes) <= 2
    assert max(behind for at, behind in run.behind.items() if at >= TOP_MS + 2 * MINUTE_MS) <= 30_000


def test_without_resizes_the_ramp_leaves_the_group_behind():
    run = Run(SimulatedTopic(ramp, joining), policy_of(PolicyMode.PROPOSE)).play(TOP_MS + 5 * MINUTE_MS)
    assert run.resizes == []
    assert run.behind[TOP_MS + 2 * MINUTE_MS] > 30_000
    assert any(verdict.target in {16, 32} for verdict in run.verdicts)


def policy_of(mode: PolicyMode):
    return msgspec.structs.replace(AUTO, mode=mode)


def unknown_offsets(reading):
    groups = {name: replace(group, offsets={}) for name, group in reading.groups.items()}
    return replace(reading, groups=groups)


def unknown_ends(reading):
    return replace(reading, sets={name: replace(each, max_offsets=()) for name, each in reading.sets.items()})


def silent_set(reading):
    other = replace(reading.sets["broker-a"], read_queues=None, write_queues=None, max_offsets=())
    return replace(reading, sets={**reading.sets, "broker-b": other})


ONE_KEY = {"weights": lambda count: [40.0, *[1.0] * (count - 1)]}
SLOW = {"load": BrokerLoad(queue_wait_ms=180.0)}


@pytest.mark.parametrize(
    ("topic", "reasons"),
    [
        (SimulatedTopic(ramp, lambda _: 4, queues=16), ("each consumer has a queue, so", "grows by 600 messages/s")),
        (SimulatedTopic(ramp, lambda _: 16, queues=8, **ONE_KEY), ("queue 0 of broker-a gets",)),
        (SimulatedTopic(ramp, joining, **SLOW), ("is slow as a whole: requests wait 180 ms; so no growth",)),
    ],
    ids=["slow-listener", "hot-key", "slow-broker"],
)
def test_need_that_queues_do_not_help_gets_none_and_the_reason(topic, reasons):
    run = Run(topic).play(TOP_MS + 30 * MINUTE_MS)
    assert run.resizes == []
    assert all(reason in run.reasons for reason in reasons)


@pytest.mark.parametrize("missing", [without_groups_clients, unknown_offsets, unknown_ends, silent_set])
def test_missing_data_never_leads_to_a_resize(missing):
    run = Run(SimulatedTopic(ramp, joining), seen=missing).play(TOP_MS + 30 * MINUTE_MS)
    assert run.resizes == []
    assert FindingKind.MISSING_DATA in kinds(run)


def test_orderly_group_at_its_limit_is_only_proposed_for():
    run = Run(SimulatedTopic(ramp, lambda _: 4, kind=GroupKind.ORDERLY)).play(TOP_MS + 30 * MINUTE_MS)
    assert run.resizes == []
    proposed = [verdict for verdict in run.verdicts if verdict.is_change]
    assert {verdict.mode for verdict in proposed} == {PolicyMode.PROPOSE}
    assert "its messages have an order" in proposed[0].reason


@pytest.mark.parametrize("seed", range(4))
def test_noise_leads_to_no_resize(seed):
    draw = Random(seed)
    noise = [draw.uniform(0.4, 1.6) for _ in range(3600)]
    # 250 of the 400 messages/s that four queues carry, and up to 400 at moments.
    run = Run(SimulatedTopic(lambda at_ms: 250 * noise[at_ms // 20_000 % 3600], lambda _: 8)).play(2 * HOUR_MS)
    assert run.resizes == []


@pytest.mark.parametrize("seed", range(4))
def test_rate_that_jumps_around_the_limit_is_followed_by_at_most_two_resizes(seed):
    draw = Random(seed)
    noise = [draw.uniform(0.5, 1.5) for _ in range(3600)]
    topic = SimulatedTopic(lambda at_ms: 400 * noise[at_ms // 120_000 % 3600], lambda _: 12)
    run = Run(topic).play(12 * HOUR_MS, step_ms=5_000)
    assert 1 <= len(run.resizes) <= 2
    assert all(after > before for before, after in run.counts)


def day_and_night(at_ms: int, peak: float = 1000.0) -> float:
    """A tenth at 3 in the night, the peak at 15."""
    hour = at_ms % DAY_MS / HOUR_MS
    return peak * (0.55 - 0.45 * math.cos((hour - 3) / 24 * 2 * math.pi))


def staff(at_ms: int) -> int:
    """12 consumers at day, 4 at night."""
    return 12 if 7 <= at_ms % DAY_MS / HOUR_MS < 22 else 4


def test_writes_near_the_limit_of_the_policy_grow_and_a_broker_at_its_limit_does_not():
    def steady(_: int) -> float:
        return 900.0

    def run(**limits: float) -> Run:
        policy = msgspec.structs.replace(AUTO, **limits)
        busy = BrokerLoad(put_tps=900.0)
        topic = SimulatedTopic(steady, lambda _: 4, consumer_tps=1000.0, load=busy)
        return Run(topic, policy).play(10 * MINUTE_MS)

    assert run().resizes == []
    (grown,) = run(queue_writes_max=250.0).resizes
    assert (grown.before, grown.after) == (4, 8)
    assert run(queue_writes_max=250.0, broker_writes_max=950.0).resizes == []


def by_night(run: Run) -> list[int]:
    return [(each.begun_unix_ms - 12 * HOUR_MS) // DAY_MS for each in run.resizes if each.after < each.before]


@pytest.mark.broad
def test_month_of_days_and_nights_takes_few_resizes():
    topic = SimulatedTopic(day_and_night, staff)
    run = Run(topic).play(30 * DAY_MS, step_ms=MINUTE_MS, interval_ms=MINUTE_MS)
    above = sum(behind > 30_000 for behind in run.behind.values())
    note("simulated months", 0, f"days and nights: {len(run.resizes)} resizes, {above} minutes above the goal of 30 s")
    assert 1 <= len(run.resizes) <= 2
    assert above <= 30, f"{above} minutes of a month above the goal"


@pytest.mark.broad
def test_month_whose_traffic_falls_to_a_fifth_shrinks_a_week_later_at_most_once_a_night():
    def falling(at_ms: int) -> float:
        return day_and_night(at_ms, 1000.0 if at_ms < 10 * DAY_MS else 200.0)

    def leaving(at_ms: int) -> int:
        return staff(at_ms) if at_ms < 10 * DAY_MS else 4

    topic = SimulatedTopic(falling, leaving)
    run = Run(topic).play(30 * DAY_MS, step_ms=MINUTE_MS, interval_ms=MINUTE_MS)
    nights = by_night(run)
    above = sum(behind > 30_000 for behind in run.behind.values())
    note(
        "simulated months",
        1,
        f"traffic falls to a fifth on day 10: {len(run.resizes)} resizes, {len(nights)} of them shrinks, of which "
        f"{len(nights) - len(set(nights))} in the night of another one, {above} minutes above the goal of 30 s",
    )
    assert 1 <= len(nights) == len(set(nights))
    first = next(each for each in run.resizes if each.after < each.before)
    assert first.begun_unix_ms - run.resizes[0].begun_unix_ms > 16 * DAY_MS
    assert len(run.resizes) <= 4
    assert max(behind for at, behind in run.behind.items() if at > 11 * DAY_MS) <= 30_000


def test_growth_comes_before_the_daily_peak_that_the_week_shows():
    peaks = SimulatedTopic(day_and_night, staff)
    run = Run(peaks, policy_of(PolicyMode.PROPOSE)).play(6 * DAY_MS, step_ms=MINUTE_MS, interval_ms=MINUTE_MS)

    def first_of(kind):
        return next(
            at
            for at, verdict in zip(run.behind, run.verdicts, strict=True)
            if verdict.is_change and at >= 5 * DAY_MS and kind in {each.kind for each in verdict.findings}
        )

    # The night before has caught up; the queues of 4 consumers carry 400 messages/s.
    assert first_of(FindingKind.DAILY_PEAK_AHEAD) < first_of(FindingKind.CLIENTS_WITHOUT_QUEUE)
    assert day_and_night(first_of(FindingKind.DAILY_PEAK_AHEAD)) < 400
