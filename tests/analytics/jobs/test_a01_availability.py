"""A1: availability, MTBF and MTTR, measured by planted outages."""

import json
import math
from dataclasses import replace

import pytest
from hand_tables import found
from pyspark.sql import functions as F
from synthetic.frames import frames
from synthetic.generator import generate
from synthetic.plan import (
    DAY,
    HOUR,
    MINUTE,
    MONDAY,
    SECOND,
    Broker,
    BrokerKey,
    Cut,
    Downtime,
    End,
    Move,
    Outage,
    Plan,
    Plant,
    Server,
    brokers,
)
from synthetic.plants import renewal_outages

from analytics.jobs.a01_availability import JOB
from analytics.shared.job import Span
from analytics.shared.rates import poisson_lower, poisson_upper

PERIOD_S = 30
#: What a network and two scans take.
SLACK_S = 1
#: All brokers have registered by then.
BEGUN_US = MONDAY + 10 * MINUTE


def down_s(outages, end=None):
    return sum(
        (each.to_us - each.from_us) / 1e6 for each in outages if (each.end is End.PLANNED) == (end is End.PLANNED)
    )


def with_clock_set(history, at_us, by_us):
    """The rows of a NameServer whose clock was set by so much: what came before has times of the former clock."""
    clock = ("event_time", "last_heartbeat_time", "minute")
    rows = {
        family: [
            row | {name: row[name] - by_us for name in clock if row.get(name) is not None}
            if row["event_time"] < at_us
            else row
            for row in reported
        ]
        for family, reported in history.rows.items()
    }
    later = min((row for row in history.rows["ns_tick"] if row["event_time"] >= at_us), key=lambda row: row["mono_us"])
    offset_us = later["event_time"] - later["mono_us"]
    detail = {"formerOffsetUs": offset_us - by_us, "offsetUs": offset_us, "sinceMonoUs": later["mono_us"] - 1}
    for number, each_us in enumerate((offset_us - by_us, offset_us)):
        reported = {name: later[name] for name in ("schema_version", "ns_id", "boot_id", "source", "mono_us")}
        reported |= {"event_id": f"set-{number}", "event_type": "clock_set", "detail": json.dumps(detail)}
        rows["ns_lifecycle"].append(reported | {"event_time": later["mono_us"] + each_us})
    return rows


def test_clock_set_back_hides_no_failure(spark):
    died_us = MONDAY + 33 * MINUTE
    pair = tuple(replace(each, since_us=MONDAY + 27 * MINUTE) for each in brokers(2))
    plan = Plan(end_us=MONDAY + 3 * HOUR, brokers=pair, servers=(Server(name="ns-0"),))
    history = generate(plan.with_plants(Plant(outages=(Outage(pair[0].key, died_us, None, End.CRASH),))))
    rows = with_clock_set(history, MONDAY + 30 * MINUTE, -10 * MINUTE)
    reported = found(JOB, frames(spark, rows), Span(MONDAY, MONDAY + 3 * HOUR))
    failures = {row["broker_name"]: (row["failures"], row["unplanned_s"]) for row in reported}
    assert failures == {"broker-000": (1, pytest.approx(147 * 60, abs=30)), "broker-001": (0, 0)}


def servers_of(case, *, count=3, **values):
    return tuple(Server(name=f"{case}-{number}", **values) for number in range(count))


def a_renewal_plan(case, servers):
    """A day of four brokers that fail and are repaired, and one that never fails."""
    keys = [broker.key for broker in brokers(4)]
    plants = [
        renewal_outages(key, BEGUN_US, MONDAY + DAY - 10 * MINUTE, mean_up_us=3 * HOUR, mean_down_us=10 * MINUTE)
        for key in keys
    ]
    return Plan(brokers=brokers(5, cluster=case), servers=servers, snapshot_us=6 * HOUR).with_plants(*plants)


def a_plan_with_a_server_that_is_away():
    down = (
        Downtime(MONDAY + 6 * HOUR, MONDAY + 8 * HOUR, clean=False),
        Downtime(MONDAY + 15 * HOUR, MONDAY + 15 * HOUR + MINUTE),
    )
    first, *others = servers_of("restarted")
    return a_renewal_plan("restarted", (replace(first, downtimes=down), *others))


def a_plan_with_a_skewed_clock_and_an_old_release():
    one, two, three = servers_of("skewed")
    old = replace(two, lacks=frozenset({"set_ids", "set_addrs"}))
    return a_renewal_plan("skewed", (replace(one, skew_us=900_000), old, three))


FIRST, SECOND_ONE, THIRD = (broker.key for broker in brokers(3))


def a_plan_of_majorities():
    """One server hears nothing of the first broker, two nothing of the second; the third one leaves for good."""
    away = (MONDAY + HOUR, MONDAY + HOUR + 10 * MINUTE)
    cuts = (("majority-0", FIRST), ("majority-0", SECOND_ONE), ("majority-1", SECOND_ONE))
    return Plan(
        end_us=MONDAY + 2 * HOUR, servers=servers_of("majority"), brokers=brokers(3, cluster="majority")
    ).with_plants(
        Plant(cuts=tuple(Cut(key, server, *away) for server, key in cuts)),
        Plant(outages=(Outage(THIRD, MONDAY + HOUR, None, End.PLANNED),)),
    )


def a_plan_that_nobody_watches_all_of():
    down = Downtime(MONDAY + HOUR, MONDAY + 2 * HOUR, clean=False)
    failed = Outage(SECOND_ONE, MONDAY + 90 * MINUTE, MONDAY + 150 * MINUTE)
    servers = servers_of("unwatched", count=1, downtimes=(down,))
    plan = Plan(end_us=MONDAY + 3 * HOUR, servers=servers, brokers=brokers(2, cluster="unwatched"))
    return plan.with_plants(Plant(outages=(failed,)))


def a_plan_that_begins_with_an_outage():
    outage = Outage(FIRST, MONDAY + 5 * MINUTE, MONDAY + 90 * MINUTE)
    plan = Plan(end_us=MONDAY + 2 * HOUR, servers=servers_of("before"), brokers=brokers(1, cluster="before"))
    return plan.with_plants(Plant(outages=(outage,)))


SLAVE = BrokerKey("broker-000", 1)
HOUR_LATER = MONDAY + HOUR


def a_plan_of_what_controllers_hear():
    """NameServers do not hear a broker for twenty minutes; a controller hears it all the time."""
    names = servers_of("heard")
    return Plan(
        end_us=MONDAY + 2 * HOUR,
        servers=(*names, Server(name="heard-controller", source="controller")),
        brokers=brokers(1, cluster="heard"),
        heartbeats_to_controllers=True,
    ).with_plants(Plant(cuts=tuple(Cut(FIRST, each.name, HOUR_LATER, HOUR_LATER + 20 * MINUTE) for each in names)))


def a_plan_of_a_slave_that_takes_over():
    """A master is killed, its slave serves 0.2 s later, and one is told of the other at one moment."""
    pair = (Broker(key=FIRST, cluster="led"), Broker(key=SLAVE, cluster="led"))
    return Plan(end_us=MONDAY + 2 * HOUR, servers=servers_of("led"), brokers=pair).with_plants(
        Plant(outages=(Outage(FIRST, HOUR_LATER, None),), moves=(Move(SLAVE, FIRST, HOUR_LATER + SECOND // 5),))
    )


def a_plan_of_two_ways_to_die():
    """A process is killed, and a host loses its power."""
    away = (HOUR_LATER, HOUR_LATER + 10 * MINUTE)
    plan = Plan(end_us=MONDAY + 2 * HOUR, servers=servers_of("died"), brokers=brokers(2, cluster="died"))
    outages = (Outage(FIRST, *away), Outage(SECOND_ONE, *away, End.SILENT))
    return plan.with_plants(Plant(outages=outages))


PLANS = {
    "renewal": a_renewal_plan("renewal", servers_of("renewal")),
    "restarted": a_plan_with_a_server_that_is_away(),
    "skewed": a_plan_with_a_skewed_clock_and_an_old_release(),
    "majority": a_plan_of_majorities(),
    "unwatched": a_plan_that_nobody_watches_all_of(),
    "before": a_plan_that_begins_with_an_outage(),
    "heard": a_plan_of_what_controllers_hear(),
    "led": a_plan_of_a_slave_that_takes_over(),
    "died": a_plan_of_two_ways_to_die(),
}


@pytest.fixture(scope="module")
def judged(spark):
    """Case -> broker -> its row.

    The cases are groups of NameServers with a cluster each; their brokers have the same names, and nothing in common.
    """
    histories = [generate(plan).rows for plan in PLANS.values()]
    inputs = {name: [row for rows in histories for row in rows[name]] for name in JOB.inputs}
    cases = {case: {} for case in PLANS}
    for row in found(JOB, frames(spark, inputs), Span(BEGUN_US, MONDAY + DAY)):
        cases[row["cluster"]][BrokerKey(row["broker_name"], row["broker_id"])] = row
    return cases


def of(plan, key):
    return [each for each in plan.plant.outages if each.broker == key]


def test_each_cluster_has_its_own_brokers_whatever_they_are_called(judged):
    assert {case: set(rows) for case, rows in judged.items()} == {
        case: {broker.key for broker in plan.brokers} for case, plan in PLANS.items()
    }


def test_each_outage_is_found_and_measured_within_one_period(judged):
    plan, result = PLANS["renewal"], judged["renewal"]
    assert len(plan.plant.outages) > 15
    for broker in plan.brokers:
        outages, row = of(plan, broker.key), result[broker.key]
        unplanned = [each for each in outages if each.end is not End.PLANNED]
        assert row["failures"] == len(unplanned)
        allowed_s = len(unplanned) * (PERIOD_S + SLACK_S)
        assert down_s(outages) <= row["unplanned_s"] + SLACK_S
        assert row["unplanned_s"] <= down_s(outages) + allowed_s
        assert row["planned_s"] == pytest.approx(down_s(outages, End.PLANNED), abs=len(outages) * SLACK_S)


def test_the_figures_fit_each_other(judged):
    for row in judged["renewal"].values():
        assert row["up_s"] + row["planned_s"] + row["unplanned_s"] == pytest.approx(row["observed_s"])
        assert row["observed_s"] == pytest.approx((DAY - 10 * MINUTE) / 1e6, abs=11)
        assert row["availability"] == pytest.approx(row["up_s"] / row["observed_s"])
        if row["failures"]:
            assert row["mtbf_s"] == pytest.approx(row["up_s"] / row["failures"])
            assert row["mttr_s"] == pytest.approx(row["unplanned_s"] / row["failures"])
            assert row["mtbf_lower_s"] < row["mtbf_s"] < row["mtbf_upper_s"]


def test_without_failures_the_mtbf_is_only_known_to_be_above_a_third_of_the_time(judged):
    row = judged["renewal"][BrokerKey("broker-004")]
    assert (row["failures"], row["mtbf_s"], row["mttr_s"], row["mtbf_upper_s"]) == (0, None, None, None)
    assert row["mtbf_lower_s"] == pytest.approx(row["up_s"] / -math.log(0.05))
    assert row["mtbf_lower_s"] > row["up_s"] / 3


def test_bounds_are_those_of_a_poisson_count(spark):
    # Exact bounds, 95 % on each side: halves of chi-square quantiles.
    exact = {
        1: (0.051293, 4.74386),
        2: (0.35536, 6.29579),
        3: (0.81769, 7.75366),
        4: (1.36632, 9.15352),
        5: (1.97015, 10.51303),
        20: (13.25465, 29.06202),
        # Beyond what is tabled.
        50: (38.96484, 63.28717),
    }
    none, *counted = (
        spark.createDataFrame([(count,) for count in (0, *exact)], "count bigint")
        .select("count", poisson_lower(F.col("count")).alias("low"), poisson_upper(F.col("count")).alias("high"))
        .collect()
    )
    assert (none["low"], none["high"]) == (None, pytest.approx(-math.log(0.05)))
    for row in counted:
        low, high = exact[row["count"]]
        assert row["high"] == pytest.approx(high, rel=1e-4)
        assert row["low"] == pytest.approx(low, rel=1e-4)


def test_the_outage_of_a_name_server_changes_no_figures(judged):
    before, after = judged["renewal"], judged["restarted"]
    for key, row in before.items():
        assert after[key]["failures"] == row["failures"]
        # Which servers make up the majority differs, and so does the last beat that they heard.
        allowed_s = row["failures"] * (PERIOD_S + SLACK_S) + SLACK_S
        assert after[key]["unplanned_s"] == pytest.approx(row["unplanned_s"], abs=allowed_s)
    assert after[BrokerKey("broker-004")]["availability"] == 1


def test_a_majority_of_those_that_watch_decides(judged):
    result = judged["majority"]
    assert result[FIRST]["unplanned_s"] == 0
    assert result[SECOND_ONE]["failures"] == 1
    assert 600 - PERIOD_S <= result[SECOND_ONE]["unplanned_s"] <= 600 + 2 * PERIOD_S + SLACK_S
    # It never came back, and said so before.
    assert result[THIRD]["planned_s"] == pytest.approx(3600, abs=11)


def test_time_that_nobody_watched_counts_neither_as_up_nor_as_down(judged):
    steady, other = (judged["unwatched"][key] for key in (FIRST, SECOND_ONE))
    assert steady["availability"] == 1
    # Until the first registration at the server's new process nobody knows.
    assert 6600 - PERIOD_S - 21 <= steady["observed_s"] <= 6600
    # Of the broker that died meanwhile the new process can say after a while that it is not there.
    assert 1800 - 121 <= other["unplanned_s"] <= 1800


def test_skewed_clocks_and_an_old_release_change_little(judged):
    before, after = judged["renewal"], judged["skewed"]
    for key, row in before.items():
        assert after[key]["failures"] == row["failures"]
        assert after[key]["unplanned_s"] == pytest.approx(row["unplanned_s"], abs=2 * row["failures"] + 0.1)


def test_a_broker_that_failed_before_the_window_is_down_and_has_not_failed_in_it(judged):
    row = judged["before"][FIRST]
    assert row["failures"] == 0
    assert row["unplanned_s"] == pytest.approx(80 * MINUTE / SECOND, abs=SLACK_S)


def test_a_process_is_down_from_the_end_of_its_connection_and_a_silent_host_between_two_bounds(judged):
    killed, silent = (judged["died"][key] for key in (FIRST, SECOND_ONE))
    assert killed["unplanned_s"] == killed["unplanned_least_s"] == pytest.approx(600, abs=0.1)
    # It was given up 120 s after it was heard last.
    assert 600 <= silent["unplanned_s"] <= 600 + PERIOD_S + SLACK_S
    assert silent["unplanned_s"] - silent["unplanned_least_s"] == pytest.approx(120, abs=0.2)
    assert killed["failures"] == silent["failures"] == 1


def test_heartbeat_at_a_controller_counts_as_uptime(judged):
    row = judged["heard"][FIRST]
    assert row["failures"] == 1
    # Minutes of a controller tell of its last beat to within a minute before NameServers gave it up.
    assert 1080 - SLACK_S <= row["unplanned_least_s"] <= row["unplanned_s"] <= 1140 + PERIOD_S + SLACK_S
    assert row["unplanned_s"] - row["unplanned_least_s"] <= 60


def test_a_set_is_down_until_its_slave_serves_and_the_slave_is_not_missed(judged):
    rows = judged["led"]
    assert rows[FIRST]["unplanned_s"] == pytest.approx(0.2, abs=0.01)
    assert (rows[FIRST]["failures"], rows[SLAVE]["failures"], rows[SLAVE]["unplanned_s"]) == (1, 0, 0)
