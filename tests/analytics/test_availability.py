"""A1: availability, MTBF and MTTR, measured by planted outages."""

import math
from dataclasses import replace

import pytest
from hand_tables import found
from synthetic.frames import frames
from synthetic.generator import generate
from synthetic.plan import (
    DAY,
    HOUR,
    MINUTE,
    MONDAY,
    SECOND,
    BrokerKey,
    Cut,
    Downtime,
    End,
    Outage,
    Plan,
    Plant,
    Server,
    brokers,
    three_servers,
)
from synthetic.plants import renewal_outages

from analytics.availability import JOB
from analytics.job import Span

PERIOD_S = 30
#: What a network and two scans take.
SLACK_S = 1
#: All brokers have registered by then.
BEGUN_US = MONDAY + 10 * MINUTE


def judged(spark, plan, span=None):
    rows = generate(plan).rows
    inputs = {family: rows[family] for family in ("broker_state", "ns_lifecycle", "ns_tick")}
    result = found(JOB, frames(spark, inputs), span or Span(BEGUN_US, plan.end_us))
    return {BrokerKey(row["broker_name"], row["broker_id"]): row for row in result}


def down_s(outages, end=None):
    return sum(
        (each.to_us - each.from_us) / 1e6 for each in outages if (each.end is End.PLANNED) == (end is End.PLANNED)
    )


def a_renewal_plan():
    """A day of four brokers that fail and are repaired, and one that never fails."""
    keys = [broker.key for broker in brokers(4)]
    plants = [
        renewal_outages(key, BEGUN_US, MONDAY + DAY - 10 * MINUTE, mean_up_us=3 * HOUR, mean_down_us=10 * MINUTE)
        for key in keys
    ]
    return Plan(brokers=brokers(5), snapshot_us=6 * HOUR).with_plants(*plants)


@pytest.fixture(scope="module")
def renewal(spark):
    plan = a_renewal_plan()
    return plan, judged(spark, plan)


def of(plan, key):
    return [each for each in plan.plant.outages if each.broker == key]


def test_each_outage_is_found_and_measured_within_one_period(renewal):
    plan, result = renewal
    assert len(plan.plant.outages) > 15
    for broker in plan.brokers:
        outages, row = of(plan, broker.key), result[broker.key]
        unplanned = [each for each in outages if each.end is not End.PLANNED]
        assert row["failures"] == len(unplanned)
        allowed_s = len(unplanned) * (PERIOD_S + SLACK_S)
        assert down_s(outages) <= row["unplanned_s"] + SLACK_S
        assert row["unplanned_s"] <= down_s(outages) + allowed_s
        assert row["planned_s"] == pytest.approx(down_s(outages, End.PLANNED), abs=len(outages) * SLACK_S)


def test_the_figures_fit_each_other(renewal):
    _, result = renewal
    for row in result.values():
        assert row["up_s"] + row["planned_s"] + row["unplanned_s"] == pytest.approx(row["observed_s"])
        assert row["observed_s"] == pytest.approx((DAY - 10 * MINUTE) / 1e6, abs=11)
        assert row["availability"] == pytest.approx(row["up_s"] / row["observed_s"])
        if row["failures"]:
            assert row["mtbf_s"] == pytest.approx(row["up_s"] / row["failures"])
            assert row["mttr_s"] == pytest.approx(row["unplanned_s"] / row["failures"])
            assert row["mtbf_lower_s"] < row["mtbf_s"] < row["mtbf_upper_s"]


def test_without_failures_the_mtbf_is_only_known_to_be_above_a_third_of_the_time(renewal):
    row = renewal[1][BrokerKey("broker-004")]
    assert (row["failures"], row["mtbf_s"], row["mttr_s"], row["mtbf_upper_s"]) == (0, None, None, None)
    assert row["mtbf_lower_s"] == pytest.approx(row["up_s"] / -math.log(0.05))
    assert row["mtbf_lower_s"] > row["up_s"] / 3


def test_bounds_are_those_of_a_poisson_count(renewal):
    # Exact bounds, 95 % on each side, of some numbers of failures: halves of chi-square quantiles.
    exact = {
        1: (0.05129, 4.74386),
        2: (0.35536, 6.29579),
        3: (0.81769, 7.75366),
        4: (1.36632, 9.15352),
        5: (1.97015, 10.51303),
    }
    counted = [row for row in renewal[1].values() if row["failures"] in exact]
    assert counted
    for row in counted:
        low, high = exact[row["failures"]]
        assert row["up_s"] / row["mtbf_lower_s"] == pytest.approx(high, rel=0.01)
        assert row["up_s"] / row["mtbf_upper_s"] == pytest.approx(low, rel=0.2)


def test_the_outage_of_a_name_server_changes_no_figures(spark, renewal):
    plan, before = renewal
    down = (
        Downtime(MONDAY + 6 * HOUR, MONDAY + 8 * HOUR, clean=False),
        Downtime(MONDAY + 15 * HOUR, MONDAY + 15 * HOUR + MINUTE),
    )
    servers = (replace(plan.servers[0], downtimes=down), *plan.servers[1:])
    after = judged(spark, replace(plan, servers=servers))
    assert after.keys() == before.keys()
    for key, row in before.items():
        assert after[key]["failures"] == row["failures"]
        # Which servers make up the majority differs, and so does the last beat that they heard.
        allowed_s = row["failures"] * (PERIOD_S + SLACK_S) + SLACK_S
        assert after[key]["unplanned_s"] == pytest.approx(row["unplanned_s"], abs=allowed_s)
    assert after[BrokerKey("broker-004")]["availability"] == 1


def test_a_majority_of_those_that_watch_decides(spark):
    first, second, third = (broker.key for broker in brokers(3))
    away = (MONDAY + HOUR, MONDAY + HOUR + 10 * MINUTE)
    plan = Plan(end_us=MONDAY + 2 * HOUR, brokers=brokers(3)).with_plants(
        Plant(cuts=(Cut(first, "ns-0", *away), Cut(second, "ns-0", *away), Cut(second, "ns-1", *away))),
        Plant(outages=(Outage(third, MONDAY + HOUR, None, End.PLANNED),)),
    )
    result = judged(spark, plan)
    assert result[first]["unplanned_s"] == 0
    assert result[second]["failures"] == 1
    assert 600 - PERIOD_S <= result[second]["unplanned_s"] <= 600 + 2 * PERIOD_S + SLACK_S
    # It never came back, and said so before.
    assert result[third]["planned_s"] == pytest.approx(3600, abs=11)


def test_time_that_nobody_watched_counts_neither_as_up_nor_as_down(spark):
    down = Downtime(MONDAY + HOUR, MONDAY + 2 * HOUR, clean=False)
    failed = Outage(BrokerKey("broker-001"), MONDAY + 90 * MINUTE, MONDAY + 150 * MINUTE)
    plan = Plan(end_us=MONDAY + 3 * HOUR, servers=(Server(name="ns-0", downtimes=(down,)),), brokers=brokers(2))
    steady, other = judged(spark, plan.with_plants(Plant(outages=(failed,)))).values()
    if steady["broker_name"] == "broker-001":
        steady, other = other, steady
    assert steady["availability"] == 1
    # Until the first registration at the server's new process nobody knows.
    assert 6600 - PERIOD_S - 21 <= steady["observed_s"] <= 6600
    # Of the broker that died meanwhile the new process can say after a while that it is not there.
    assert 1800 - 121 <= other["unplanned_s"] <= 1800


def test_skewed_clocks_and_an_old_release_change_little(spark, renewal):
    plan, before = renewal
    one, two, three = three_servers()
    servers = (replace(one, skew_us=900_000), replace(two, lacks=frozenset({"set_ids", "set_addrs"})), three)
    after = judged(spark, replace(plan, servers=servers))
    for key, row in before.items():
        assert after[key]["failures"] == row["failures"]
        assert after[key]["unplanned_s"] == pytest.approx(row["unplanned_s"], abs=2 * row["failures"] + 0.1)


def test_a_broker_that_failed_before_the_window_is_down_and_has_not_failed_in_it(spark):
    outage = Outage(BrokerKey("broker-000"), MONDAY + 30 * MINUTE, MONDAY + 90 * MINUTE)
    plan = Plan(end_us=MONDAY + 2 * HOUR, brokers=brokers(1)).with_plants(Plant(outages=(outage,)))
    (row,) = judged(spark, plan, Span(MONDAY + HOUR, MONDAY + 2 * HOUR)).values()
    assert row["failures"] == 0
    assert row["unplanned_s"] == pytest.approx(30 * MINUTE / SECOND, abs=SLACK_S)
