"""A5: the recommended timeout, against gaps whose distribution is known."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hand_tables import days

from analytics.jobs.a05_timeout_recommendation import FALSE_ALARM_COST_S, FALSE_ALARMS_A_DAY, GRID_S, with_periods
from analytics.shared.heartbeats.timeout_evidence import PARTS
from analytics.spark.schemas import struct_of

DAY_MS = 86_400_000


def a_part(broker, **values):
    empty = dict.fromkeys(column.name for column in PARTS)
    return empty | {"cluster": "c", "source": "namesrv", "broker_name": broker, "broker_id": 0} | values


def gaps(broker, gaps_ms, *, timeout_ms=120_000, last_us=1):
    """The histogram of these gaps, of which none is longer than 1,000 s."""
    exact = np.asarray(gaps_ms, dtype=np.int64)
    step = np.where(exact < 10_000, 1, np.where(exact < 100_000, 10, 100))
    values, counts = np.unique(-(-exact // step) * step, return_counts=True)
    return [
        a_part(
            broker,
            what="gap",
            timeout_ms=timeout_ms,
            gap_ms=gap_ms,
            n=n,
            sum_ms=gap_ms * n,
            max_ms=gap_ms,
            kind="register",
            last_us=last_us,
        )
        for gap_ms, n in zip(values.tolist(), counts.tolist(), strict=True)
    ]


def failures(broker, count):
    return [a_part(broker, what="failure", n=count)]


def regular(days_watched, period_ms=30_000):
    return [period_ms] * (days_watched * DAY_MS // period_ms)


def log_normal(seed, days_watched):
    """Gaps around 10 s whose logarithms are normal."""
    random = np.random.default_rng(seed)
    return np.exp(random.normal(math.log(10_000), 0.35, days_watched * DAY_MS // 10_600))


def least_timeout_s():
    """The least timeout that so few log-normal gaps exceed."""
    for limit_s in GRID_S:
        share = 0.5 * math.erfc(math.log(limit_s / 10) / 0.35 / math.sqrt(2))
        if limit_s >= 30 and share * 86_400 / 10.6 <= FALSE_ALARMS_A_DAY:
            return limit_s
    raise AssertionError


PAUSES_MS = [*[100_010] * 40, *[105_000] * 9, *[118_000] * 20]


@pytest.fixture(scope="module")
def result(spark):
    parts = [
        *gaps("paused", [*regular(91), *PAUSES_MS]),
        *gaps("log-normal", log_normal(1, 100)),
        *gaps("steady", regular(91)),
        *gaps("new", regular(2)),
        *gaps("rare", [*regular(91, 100_000), *[250_000] * 5]),
        *gaps("noisy", regular(91, 30_001)),
        *gaps("costly", [*regular(30), 100_000]),
        *failures("costly", 20),
        *gaps("bearable", [*regular(30), *[100_000] * 30]),
        *failures("bearable", 2),
        *gaps("odd", [*regular(30), *PAUSES_MS], timeout_ms=104_000),
        # Whatever its period is, it is neither 30 s nor seen often enough.
        *gaps("unknown", [60_000] * 12),
        *gaps("altered", regular(1), timeout_ms=120_000, last_us=1),
        *gaps("altered", regular(1), timeout_ms=60_000, last_us=2),
        *phi("steady", [(0, 10_000), (2, 3)], days_watched=50),
        *phi("paused", [(0, 260_000), (13, 1)], days_watched=91),
    ]
    columns = {column.name: [part[column.name] for part in parts] for column in PARTS}
    arrow = pa.table({name: pa.array(values) for name, values in columns.items()})
    frame = spark.createDataFrame(arrow, struct_of(PARTS))
    job = with_periods({("log-normal", "register"): 10_000})
    return {each["broker_name"]: each.asDict() for each in job.result(frame, days(30)).collect()}


def phi(broker, alarms, *, days_watched):
    """Judged intervals: how many reached so many of the thresholds; means of 30 s, deviations of 1 s."""
    total = sum(n for _, n in alarms)
    return [
        a_part(
            broker,
            what="phi",
            alarms=reached,
            n=n,
            sum_ms=days_watched * DAY_MS * n // total,
            mean_sum_ms=30_000.0 * n,
            deviation_sum_ms=1_000.0 * n,
        )
        for reached, n in alarms
    ]


def test_the_least_timeout_is_chosen_that_is_surely_exceeded_at_most_once_in_thirty_days(result):
    row = result["paused"]
    assert (row["recommended_timeout_s"], row["confidence"], row["fp_day"]) == (120, "high", 0)
    assert row["fp_day_upper"] == pytest.approx(-math.log(0.05) / row["evidence_days"])
    assert row["delay_s"] == 120


def test_false_alarms_are_counted_exactly(result):
    row = result["costly"]
    assert row["evidence_days"] == pytest.approx(30 + 100_000 / DAY_MS)
    assert row["fp_day"] == pytest.approx(1 / row["evidence_days"])
    # Those that exceed the timeout in force, which is not one of the grid.
    assert result["odd"]["current_fp_day"] == pytest.approx(29 / result["odd"]["evidence_days"])


def test_of_log_normal_gaps_the_chosen_timeout_is_within_one_step_of_the_right_one(result):
    row = result["log-normal"]
    assert abs(GRID_S.index(row["recommended_timeout_s"]) - GRID_S.index(least_timeout_s())) <= 1
    assert row["evidence_days"] == pytest.approx(100, rel=0.01)


def test_nothing_below_three_periods_is_recommended(result):
    assert result["steady"]["recommended_timeout_s"] == 90
    # Its period is known no better than that.
    assert result["noisy"]["recommended_timeout_s"] == 90


def test_beyond_the_grid_false_alarms_are_those_of_three_periods(result):
    row = result["rare"]
    assert (row["recommended_timeout_s"], row["fp_day"], row["delay_s"], row["confidence"]) == (300, 0, 300, "high")


def test_little_evidence_gives_low_confidence(result):
    row = result["new"]
    assert row["confidence"] == "low"
    assert row["fp_day_upper"] > FALSE_ALARMS_A_DAY
    assert result["steady"]["confidence"] == "high"


def test_without_a_known_period_nothing_is_recommended(result):
    row = result["unknown"]
    assert (row["period_ms"], row["recommended_timeout_s"], row["confidence"]) == (None, None, "low")


def test_where_nothing_is_sure_false_alarms_are_weighed_against_the_delay_of_failures(result):
    # One false alarm costs less than twenty failures that are noticed 15 s later.
    assert FALSE_ALARM_COST_S < 20 * 15
    assert (result["costly"]["recommended_timeout_s"], result["costly"]["confidence"]) == (90, "medium")
    # Thirty cost more than two failures that are noticed 15 s later.
    assert 30 * FALSE_ALARM_COST_S > 2 * 15
    assert (result["bearable"]["recommended_timeout_s"], result["bearable"]["fp_day"]) == (105, 0)


def test_timeout_in_force_is_the_last_reported_one(result):
    assert result["altered"]["current_timeout_s"] == 60
    assert result["paused"]["current_timeout_s"] == 120


def test_phi_accrual_is_judged_by_the_same_measure(result):
    # Three intervals reached the second threshold, none the third; but 50 days are too few to be sure.
    row = result["steady"]
    assert (row["phi_threshold"], row["phi_fp_day"]) == (6, 0)
    assert row["phi_delay_s"] == pytest.approx(30 + 4.7534, abs=1e-3)
    # One interval reached all of them.
    assert result["paused"]["phi_threshold"] == 4
    assert result["paused"]["phi_fp_day"] == pytest.approx(1 / 91)
    assert result["new"]["phi_threshold"] is None
