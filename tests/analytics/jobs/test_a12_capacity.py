import numpy as np
import pyarrow as pa
import pytest
from hand_tables import DAY_US, MONDAY_US, days

from analytics.jobs.a12_capacity import DAYS_MAX, LIMITS, PART_COLUMNS, result, with_limits
from analytics.spark.schemas import struct_of

FIRST_DAY = MONDAY_US // DAY_US
SLOPES = (0.5, 2, 5, -3)
#: Wednesdays to Sundays need less.
WEEK = (40, 40, 20, 0, -20, -40, -40)


def series(spark, values_by_resource, *, ns="ns-1"):
    reported = [
        ("c", "namesrv", ns, FIRST_DAY + day, resource, float(value), 8640)
        for resource, values in values_by_resource.items()
        for day, value in enumerate(values)
    ]
    columns = dict(zip((column.name for column in PART_COLUMNS), zip(*reported, strict=True), strict=True))
    return spark.createDataFrame(pa.table(columns), struct_of(PART_COLUMNS))


@pytest.fixture(scope="module")
def lines(spark):
    """Lines with a week's ups and downs, noise and outliers, named by their slopes; and what has no trend."""
    random, day = np.random.default_rng(7), np.arange(63)
    season = np.resize(WEEK, 63)
    planted = {}
    for slope in SLOPES:
        for number in range(4):
            planted[f"line {slope} {number}"] = 1000 + slope * day + season + random.normal(0, 3, 63)
        # Six wild days, some of them neighbours.
        planted[f"line {slope} 3"][[5, 17, 30, 31, 44, 60]] += 5000
    planted["constant"] = np.full(63, 1000.0)
    planted["noise"] = 1000 + random.normal(0, 30, 63)
    planted["connections"] = 10_000 + 40.0 * day
    planted["resident_memory_bytes"] = np.full(63, 5e8)
    planted["etcd_db_bytes"] = 2.2e9 + 1e6 * day
    planted["three days"] = [1, 2, 3]
    planted["a week"] = [10, 20, 30, 40, 50, 60, 70]
    planted["long"] = np.r_[np.linspace(10_000, 0, 100), np.arange(DAYS_MAX)]
    return {row.resource: row for row in result(series(spark, planted), days(63)).collect()}


def test_slopes_of_lines_are_found_whatever_the_week_and_wild_days_do(lines):
    found = {name: row for name, row in lines.items() if name.startswith("line")}
    assert {name: row.slope_day for name, row in found.items()} == {
        name: pytest.approx(float(name.split()[1]), abs=0.1) for name in found
    }


def test_an_interval_holds_the_slope_about_as_often_as_it_promises(lines):
    found = {name: row for name, row in lines.items() if name.startswith("line")}
    inside = [name for name, row in found.items() if row.slope_p10 <= float(name.split()[1]) <= row.slope_p90]
    # Of 16 eight in ten are 13; fewer than 10 would be a chance of three in a hundred.
    assert len(found) == 16
    assert len(inside) >= 10
    assert all(row.p10 <= row.in_30d <= row.p90 for row in found.values())


def test_a_forecast_knows_the_weekday_it_is_for(lines):
    expected = 1000 + 5 * (62 + 30) + WEEK[(62 + 30) % 7]
    assert lines["line 5 0"].in_30d == pytest.approx(expected, abs=8)


def test_resource_without_certain_growth_has_no_end(lines):
    assert lines["constant"].slope_day == 0
    assert lines["constant"].days_left is None
    assert lines["resident_memory_bytes"].days_left is None
    assert lines["noise"].slope_p10 < 0 < lines["noise"].slope_p90


def test_days_left_lead_to_the_limit(lines):
    left = lines["connections"]
    assert left.now == 10_000 + 40 * 62
    assert left.now + left.days_left * 40 == pytest.approx(LIMITS["connections"])


def test_resources_of_a_site_have_their_days_left(spark):
    used = {"connections": 10_000 + 40.0 * np.arange(14), "etcd_db_bytes": 1e9 + 1e6 * np.arange(14)}
    rows = with_limits({"connections": 20_000}).result(series(spark, used), days(14)).collect()
    left = {row.resource: row for row in rows}
    assert {name: row.limit for name, row in left.items()} == {"connections": 20_000, "etcd_db_bytes": 2 * 2**30}
    assert left["connections"].now + left["connections"].days_left * 40 == pytest.approx(20_000)


def test_what_is_beyond_its_limit_has_no_day_left(lines):
    assert lines["etcd_db_bytes"].days_left == 0


def test_too_few_days_have_no_trend(lines):
    assert lines["three days"].slope_day is None
    assert lines["three days"].now == 3
    assert lines["a week"].slope_day == pytest.approx(10)


def test_days_of_long_ago_count_for_nothing(lines):
    assert lines["long"].days == DAYS_MAX
    assert lines["long"].slope_day == pytest.approx(1)
