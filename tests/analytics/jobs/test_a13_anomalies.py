from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hand_tables import (
    DAY_US,
    HOUR_US,
    MINUTE_US,
    MONDAY_US,
    SECOND_US,
    days,
    found,
    found_by_day,
    in_order,
    row,
    tables,
)
from synthetic.frames import frames
from synthetic.generator import generate
from synthetic.plan import Broker, BrokerKey, Plan, Plant, Topic, brokers
from synthetic.plants import busy_spell, slow_spell

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


def test_usual_weeks_have_hardly_any_finding(spark):
    random = np.random.default_rng(5)
    everybody = parts(spark, {f"b{number:02}": usual(random) for number in range(BROKERS)})
    found = findings(result(everybody, SPAN).collect())
    # Six deviations twice in a row: less than one in ten thousand of 193,536 windows and metrics.
    assert len(found) <= BROKERS * WINDOWS * len(FLOORS) / 10_000


def heartbeats(*, intervals, ns="ns-1", broker="b", first_us=0, **more):
    at_us, reported = first_us, []
    for interval in intervals:
        at_us += interval * 1000
        about = {"broker_name": broker, "broker_id": 0, "interval_ms": interval, "period_ms": 30_000, "ns_id": ns}
        reported.append(row("heartbeat", at_us, **about, **more))
    return reported


def test_one_bad_window_is_chance_and_two_in_a_row_are_an_anomaly(spark):
    def life(bad):
        """Intervals of a day; those that end in these windows are twice as long."""
        intervals, at_ms = [], 0
        while at_ms < DAY_US // 1000:
            intervals.append(60_000 if (at_ms + 60_000) // (WINDOW_US // 1000) in bad else 30_000)
            at_ms += intervals[-1]
        return intervals

    reported = [
        *heartbeats(intervals=life({40}), broker="once"),
        *heartbeats(intervals=life({40, 41, 42}), broker="thrice"),
    ]
    inputs = tables(spark, heartbeat=reported)
    rows = [row for row in found(JOB, inputs, days(2)) if row["metric"] == "interval_mean_ms"]
    assert {row["broker_name"] for row in rows} == {"thrice"}
    assert rows[0]["baseline"] == pytest.approx(30_000)
    assert in_order(found_by_day(JOB, inputs, days(2))) == in_order(found(JOB, inputs, days(2)))


def test_result_has_the_number_of_judged_brokers(spark):
    reported = [
        *heartbeats(intervals=[30_000] * 2_900, broker="day"),
        *heartbeats(intervals=[30_000] * 1_000, broker="morning"),
    ]
    rows = found(JOB, tables(spark, heartbeat=reported), days(2))
    assert [(row["cluster"], row["metric"], row["brokers"]) for row in rows] == [("c", "judged", 1)]


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


#: A usual Monday night is told of in three weeks; in the last of them some brokers are ill.
NIGHT_US = 5 * HOUR_US
LAST_US = MONDAY_US + 14 * DAY_US


@pytest.fixture(scope="module")
def spells(spark):
    """What was planted in the rows of the last night, and what is found in those of all three, the farthest first."""
    quick = Broker(key=BrokerKey("quick"), period_ms=5_000, timeout_ms=60_000, jitter_ms=50, drop=0.005)
    slow, busy, *_ = crowd = brokers(4)
    topics = Plant(topics=(Topic("TopicTest", tuple(broker.key.broker_name for broker in crowd)),))
    usual = Plan(brokers=(*crowd, quick)).with_plants(topics)
    ill = usual.with_plants(
        slow_spell(slow.key, LAST_US + HOUR_US, LAST_US + 3 * HOUR_US, every_us=MINUTE_US, still_us=30 * SECOND_US),
        slow_spell(
            quick.key, LAST_US + 4 * HOUR_US, LAST_US + 5 * HOUR_US, every_us=MINUTE_US, still_us=10 * SECOND_US
        ),
        busy_spell("TopicTest", busy.key, LAST_US + 2 * HOUR_US, LAST_US + 150 * MINUTE_US, every_us=20 * SECOND_US),
    )
    nights = [
        generate(replace(plan, start_us=start_us, end_us=start_us + NIGHT_US, seed=start_us))
        for plan, start_us in ((usual, MONDAY_US), (usual, MONDAY_US + 7 * DAY_US), (ill, LAST_US))
    ]
    rows = {family: [row for night in nights for row in night.rows[family]] for family in JOB.inputs}
    return nights[-1].truth.planted["spells"], findings(found(JOB, frames(spark, rows), days(15)))


def is_of(row, spell):
    """Tell whether a finding is about this spell; what ends in it began in the window before."""
    began, ended = (round(row[name].timestamp() * 1e6) for name in ("start", "end"))
    is_then = began >= spell.from_us - WINDOW_US and ended <= spell.to_us + WINDOW_US
    return (row["broker_name"], row["broker_id"]) == tuple(spell.broker) and is_then


def test_each_spell_is_found_in_rows_for_most_of_its_time(spells):
    truth, rows = spells
    for spell in truth:
        longest = max((row["windows"] for row in rows if is_of(row, spell)), default=0)
        assert longest * WINDOW_US >= 0.9 * (spell.to_us - spell.from_us), spell


def test_nothing_else_is_found_in_rows(spells):
    truth, rows = spells
    assert [row for row in rows if not any(is_of(row, spell) for spell in truth)] == []


def test_slow_broker_is_found_by_heartbeats_and_by_summaries(spells):
    _, rows = spells
    slow = next(row for row in rows if (row["broker_name"], row["metric"]) == ("broker-000", "interval_mean_ms"))
    assert (slow["value"], slow["baseline"]) == (pytest.approx(60_000, rel=0.01), pytest.approx(30_000, rel=0.01))
    quick = next(row for row in rows if (row["broker_name"], row["metric"]) == ("quick", "missed"))
    # Two beats in each of ten minutes, and now and then one more.
    assert quick["value"] == pytest.approx(21, abs=3)
