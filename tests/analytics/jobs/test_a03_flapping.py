"""A3: brokers that leave and come back too often."""

import math

import pyarrow as pa
import pytest
from hand_tables import HOUR_US, MINUTE_US, SECOND_US, days

from analytics.jobs.a03_flapping import JOB
from analytics.shared.broker_states import STATE_PARTS
from analytics.spark.schemas import struct_of

SPAN = days(1)
START = SPAN.start_us
TAU_S = 3600


def a_part(kind, at_us, broker=None, **values):
    return {
        "cluster": "c",
        "ns_id": "ns-1",
        "kind": kind,
        "broker_name": broker,
        "broker_id": None if broker is None else 0,
        "at_us": START + at_us,
        "since_us": START + at_us,
        "planned": False,
        "address": None,
        "silent": False,
    } | values


def downs(broker, *times_us, planned=False):
    """A broker that is up, and for 10 s down at each of these times."""
    parts = [a_part("up", 0, broker)]
    for at_us in times_us:
        parts.append(a_part("down", at_us, broker, planned=planned))
        parts.append(a_part("up", at_us + 10 * SECOND_US, broker))
    return parts


def every(step_us, count, first_us=HOUR_US):
    return [first_us + number * step_us for number in range(count)]


#: Scores 3.9997 and fades from it.
FOUR_AT_ONCE = every(11 * SECOND_US, 4)


def score_after(times_us):
    return sum(math.exp(-(times_us[-1] - at_us) / HOUR_US) for at_us in times_us)


@pytest.fixture(scope="module")
def result(spark):
    parts = [
        a_part("watched", 24 * HOUR_US - 1, since_us=START),
        *downs("regular", *every(20 * MINUTE_US, 30)),
        *downs("quiet"),
        *downs("three", *every(11 * SECOND_US, 3)),
        *downs("four", *FOUR_AT_ONCE),
        *downs("restarted", *FOUR_AT_ONCE, planned=True),
        # One more while it is flagged still, though its score is far below 3 and stays there.
        *downs("again", *FOUR_AT_ONCE, HOUR_US + 50 * MINUTE_US),
        # One more when it is cleared already: the score does not reach 3 again.
        *downs("later", *FOUR_AT_ONCE, 3 * HOUR_US),
        *downs("at-the-end", *every(11 * SECOND_US, 4, 24 * HOUR_US - 5 * MINUTE_US)),
    ]
    names = [column.name for column in STATE_PARTS]
    columns = {name: [part[name] for part in parts] for name in names}
    frame = spark.createDataFrame(pa.table(columns), struct_of(STATE_PARTS))
    return {each["broker_name"]: each for each in JOB.result(frame, SPAN).collect()}


def test_a_broker_that_flaps_regularly_scores_the_geometric_sum(result):
    ratio = math.exp(-20 / 60)
    assert result["regular"]["transitions"] == 30
    assert result["regular"]["peak"] == pytest.approx((1 - ratio**30) / (1 - ratio), abs=1e-3)


def test_brokers_that_stay_up_have_no_row(result):
    assert "quiet" not in result


def test_three_times_at_once_are_not_enough_to_be_flagged(result):
    assert result["three"]["peak"] == pytest.approx(score_after(every(11 * SECOND_US, 3)))
    assert 2.9 < result["three"]["peak"] < 3
    assert result["three"]["time_flagged_s"] == 0


def test_a_broker_is_flagged_until_its_score_has_fallen_to_half_of_what_flagged_it(result):
    fades_s = TAU_S * math.log(score_after(FOUR_AT_ONCE) / 1.5)
    assert result["four"]["time_flagged_s"] == pytest.approx(fades_s, abs=1e-3)
    assert not result["four"]["flagged_at_end"]


def test_planned_restarts_count_too(result):
    assert result["restarted"]["transitions"] == 4
    assert result["restarted"]["time_flagged_s"] == result["four"]["time_flagged_s"]


def test_below_the_upper_threshold_it_stays_flagged_as_long_as_it_was_not_cleared(result):
    last_us = HOUR_US + 50 * MINUTE_US
    score = score_after([*FOUR_AT_ONCE, last_us])
    assert 1.5 < score < 3
    until_s = (last_us - FOUR_AT_ONCE[-1]) / 1e6 + TAU_S * math.log(score / 1.5)
    assert result["again"]["time_flagged_s"] == pytest.approx(until_s, abs=1e-3)


def test_once_cleared_it_is_not_flagged_below_the_upper_threshold(result):
    assert result["later"]["transitions"] == 5
    assert result["later"]["time_flagged_s"] == result["four"]["time_flagged_s"]


def test_the_window_ends_a_flag_that_has_not_faded(result):
    last_us = 24 * HOUR_US - 5 * MINUTE_US + 33 * SECOND_US
    assert result["at-the-end"]["flagged_at_end"]
    assert result["at-the-end"]["time_flagged_s"] == pytest.approx((24 * HOUR_US - last_us) / 1e6, abs=1e-3)


def test_peak_score_has_its_time(result):
    assert result["four"]["peak_time"].timestamp() * 1e6 == pytest.approx(START + FOUR_AT_ONCE[-1])
