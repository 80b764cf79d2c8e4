import numpy as np
import pyarrow as pa
import pytest
from hand_tables import DAY_US, HOUR_US, MINUTE_US, MONDAY_US, SECOND_US, days, row, tables

from analytics.jobs.a13_anomalies import BASELINE_DAYS, FLOORS, JOB, OF_HOUR, PART_COLUMNS, WINDOW_US, result
from analytics.spark.schemas import struct_of

BROKERS = 12
WINDOWS = BASELINE_DAYS * DAY_US // WINDOW_US
SPAN = days(BASELINE_DAYS)


def findings(reported):
    """The anomalies of what is published."""
    return [each for each in reported if each["metric"] in FLOORS]


def usual(random):
    """What brokers are like: slower in the afternoon, losing a beat now and then."""
    hour = np.arange(WINDOWS) * WINDOW_US / 3.6e9 % 24
    load = 1 + 0.5 * np.sin((hour - 8) / 24 * 2 * np.pi)
    return {
        "interval_mean_ms": 30_000 + 40 * load + random.normal(0, 25, WINDOWS),
        "interval_max_ms": 30_300 + 200 * load + random.normal(0, 120, WINDOWS),
        "missed": random.poisson(0.2, WINDOWS) / 3,
        "topic_changes": random.poisson(0.5, WINDOWS).astype(float),
    }


def parts(spark, brokers):
    """The brokers' windows as parts of four weeks."""
    starts = MONDAY_US + np.arange(WINDOWS) * WINDOW_US
    hours = WINDOWS * WINDOW_US // HOUR_US
    tables = [
        pa.table(
            {
                "cluster": ["c"] * hours,
                "broker_name": [name] * hours,
                "broker_id": [0] * hours,
                "hour_us": starts.reshape(hours, -1)[:, 0],
                **{
                    OF_HOUR[name]: each.reshape(hours, -1).tolist()
                    for name, each in {"window_us": starts, **values}.items()
                },
            }
        )
        for name, values in brokers.items()
    ]
    return spark.createDataFrame(pa.concat_tables(tables), struct_of(PART_COLUMNS))


@pytest.fixture(scope="module")
def planted(spark):
    """Four weeks of brokers, in which some are ill for a while; and what was planted."""
    random = np.random.default_rng(11)
    brokers = {f"b{number:02}": usual(random) for number in range(BROKERS)}
    sizes = {"interval_mean_ms": 2_000, "interval_max_ms": 9_000, "missed": 12, "topic_changes": 60}
    truth = set()
    for number in range(40):
        name, metric = f"b{number % BROKERS:02}", list(FLOORS)[number % len(FLOORS)]
        at = int(random.integers(100, WINDOWS - 100))
        length = int(random.integers(2, 6))
        brokers[name][metric][at : at + length] += sizes[metric]
        truth.add((name, metric, at, length))
    found = findings(result(parts(spark, brokers), SPAN).collect())
    return truth, [(r.broker_name, r.metric, index(r.start), r.windows) for r in found], found


def index(moment):
    return (round(moment.timestamp() * 1e6) - MONDAY_US) // WINDOW_US


def overlaps(one, other):
    return one[:2] == other[:2] and one[2] < other[2] + other[3] and other[2] < one[2] + one[3]


def test_at_least_nine_of_ten_injections_are_found(planted):
    truth, found, _ = planted
    recalled = [each for each in truth if any(overlaps(each, other) for other in found)]
    assert len(recalled) / len(truth) >= 0.9


def test_at_least_nine_of_ten_findings_were_injected(planted):
    truth, found, _ = planted
    right = [each for each in found if any(overlaps(each, other) for other in truth)]
    assert len(right) / len(found) >= 0.9


def test_anomaly_has_value_baseline_and_deviation(planted):
    *_, found = planted
    for each in found:
        assert abs(each.z) > 6
        assert (each.value > each.baseline) == (each.z > 0)
        assert (each.end - each.start).total_seconds() == each.windows * 600


def heartbeats(*, intervals, ns="ns-1", broker="b", first_us=0, **more):
    at_us, reported = first_us, []
    for interval in intervals:
        at_us += interval * 1000
        about = {"broker_name": broker, "broker_id": 0, "interval_ms": interval, "period_ms": 30_000, "ns_id": ns}
        reported.append(row("heartbeat", at_us, **about, **more))
    return reported


def test_windows_hold_heartbeats_summaries_and_changes_as_the_mean_of_namesrvs(spark):
    first = {"broker_name": "s", "broker_id": 0}
    summary = {"n": 60, "missed": 4, "interval_sum_ms": 66_000, "interval_max_ms": 5_000}
    inputs = tables(
        spark,
        heartbeat=[
            *heartbeats(intervals=[30_000, 30_000, 90_000]),
            *heartbeats(intervals=[30_000, 30_000, 60_000], ns="ns-2"),
            row("heartbeat", 5, broker_name="b", broker_id=0),
            row("gap", 5, **first, interval_ms=9_000, period_ms=1_000),
            row("heartbeat", 5, broker_name="b", broker_id=0, interval_ms=1, source="controller"),
        ],
        heartbeat_summary=[
            row("summary", 2 * MINUTE_US + 7, minute=MONDAY_US, **first, **summary),
            row("summary", 2 * MINUTE_US + 7, minute=MONDAY_US, **first, **summary, source="controller"),
        ],
        broker_state=[
            row("changed", 5 * SECOND_US, broker_name="b", broker_id=0, topics_added=2, topics_changed=3),
            row("registered_first", SECOND_US, broker_name="b", broker_id=0, topics_added=900),
        ],
    )
    rows = {row.broker_name: row.asDict() for row in JOB.parts(inputs, days(1)).collect()}
    metrics = {name: tuple(value for metric in FLOORS for value in row[OF_HOUR[metric]]) for name, row in rows.items()}
    assert metrics == {"b": (45_000, 75_000, 1.5, 2.5), "s": (1_100, 5_000, 4, 0)}
    assert {(row["hour_us"], *row["windows_us"]) for row in rows.values()} == {(MONDAY_US, MONDAY_US)}
