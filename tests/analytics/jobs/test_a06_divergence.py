"""A6: NameServers that differ, against planted cuts."""

from dataclasses import replace

import pytest
from hand_tables import found
from synthetic.frames import frames
from synthetic.generator import generate
from synthetic.plan import (
    HOUR,
    MINUTE,
    MONDAY,
    SECOND,
    Broker,
    BrokerKey,
    Cut,
    Downtime,
    End,
    Outage,
    Plan,
    Plant,
    Server,
    Topic,
    TopicChange,
    brokers,
    three_servers,
)

from analytics.jobs.a06_divergence import JOB, PERIOD_MS_MIN, PRESENCE_US, VERSION_PERIODS
from analytics.shared.job import Span

SILENT, LATE, MOVED, CRASHED, DIED, BEFORE, AFTER = (broker.key for broker in brokers(7))

SPAN = Span(MONDAY + 10 * MINUTE, MONDAY + 5 * HOUR)

CUT = Cut(SILENT, "ns-1", MONDAY + HOUR, MONDAY + HOUR + 20 * MINUTE)
#: Shorter than the timeout, while the topics are altered.
SHORT = Cut(LATE, "ns-2", MONDAY + 2 * HOUR, MONDAY + 2 * HOUR + 60 * SECOND)
ALTERED_US = SHORT.from_us + 5 * SECOND
#: The broker comes back at another address, and one server has not even heard that it was gone.
MOVE = Outage(MOVED, MONDAY + 3 * HOUR, MONDAY + 3 * HOUR + SECOND, End.CRASH, "elsewhere:10911")
DEAF = Cut(MOVED, "ns-0", MOVE.from_us - SECOND, MONDAY + 3 * HOUR + 60 * SECOND)
#: Nobody hears of it again; one server has not even heard its last word, and gives it up before the others do.
DEATH = Outage(DIED, MONDAY + 150 * MINUTE, MONDAY + 170 * MINUTE, End.SILENT)
UNHEARD = Cut(DIED, "ns-1", DEATH.from_us - 32 * SECOND, DEATH.from_us)
#: These reach beyond the window.
EARLY = Cut(BEFORE, "ns-2", MONDAY + MINUTE, MONDAY + 20 * MINUTE)
FINAL = Cut(AFTER, "ns-2", MONDAY + 4 * HOUR + 30 * MINUTE, MONDAY + 5 * HOUR)

#: One of them is gone for five minutes, and back.
RESTARTED_US = MONDAY + 4 * HOUR + 5 * MINUTE

#: It beats each second, and tells its topics each 30 s.
QUICK = Broker(key=BrokerKey("quick"), period_ms=1_000, since_us=MONDAY + HOUR)
#: So short that one registration is late, and no more than that.
MISSED = Cut(QUICK.key, "ns-2", MONDAY + HOUR + 5 * MINUTE, MONDAY + HOUR + 5 * MINUTE + 20 * SECOND)

#: One server hears every second of its first beats, and takes 60 s for its period; then it misses a version for 55 s.
LOSSY = Broker(key=BrokerKey("lossy"), since_us=MONDAY + 210 * MINUTE)
LOST = tuple(
    Cut(LOSSY.key, "ns-1", LOSSY.since_us + seconds * SECOND, LOSSY.since_us + (seconds + 20) * SECOND)
    for seconds in (20, 80)
)
UNTOLD = Cut(LOSSY.key, "ns-1", LOSSY.since_us + 45 * MINUTE, LOSSY.since_us + 45 * MINUTE + 50 * SECOND)


@pytest.fixture(scope="module")
def history():
    servers = list(three_servers())
    servers[0] = replace(servers[0], downtimes=(Downtime(MONDAY + 4 * HOUR, RESTARTED_US),))
    servers[2] = replace(servers[2], skew_us=-600_000)
    plan = Plan(end_us=SPAN.end_us, brokers=(*brokers(7), QUICK, LOSSY), servers=tuple(servers))
    return generate(
        plan.with_plants(
            Plant(
                cuts=(CUT, SHORT, DEAF, EARLY, FINAL, MISSED, UNHEARD, *LOST, UNTOLD),
                topics=(Topic("TopicTest", ("broker-001", "broker-003", "quick", "lossy")),),
                topic_changes=(
                    TopicChange(ALTERED_US, "TopicTest", "broker-001", 16, 16),
                    TopicChange(MONDAY + 90 * MINUTE, "TopicTest", "broker-003", 16, 16),
                    TopicChange(MISSED.from_us + SECOND, "TopicTest", "quick", 16, 16),
                    TopicChange(UNTOLD.from_us + 5 * SECOND, "TopicTest", "lossy", 16, 16),
                ),
                outages=(
                    MOVE,
                    DEATH,
                    Outage(QUICK.key, MONDAY + HOUR + 10 * MINUTE, None, End.PLANNED),
                    Outage(CRASHED, MONDAY + 30 * MINUTE, MONDAY + 40 * MINUTE),
                    Outage(CRASHED, MONDAY + 100 * MINUTE, MONDAY + 110 * MINUTE, End.PLANNED),
                ),
            )
        )
    )


@pytest.fixture(scope="module")
def result_of_all(spark, history):
    return found(JOB, frames(spark, history.rows), SPAN)


@pytest.fixture(scope="module")
def result(result_of_all):
    rows = [row for row in result_of_all if row["kind"] != "compared"]
    return sorted(rows, key=lambda row: row["start_time"])


def is_change_of(row, name):
    return (row["broker_name"], row["event_type"]) == (name, "changed")


def times_us(row):
    return row["start_time"].timestamp() * 1e6, row["end_time"].timestamp() * 1e6


def heartbeats(history, key, server):
    mine = (
        row for row in history.rows["heartbeat"] if row["ns_id"] == server and row["broker_name"] == key.broker_name
    )
    return [row["event_time"] for row in mine]


def test_each_planted_divergence_is_found_and_nothing_else(result):
    assert [(row["broker_name"], row["kind"]) for row in result] == [
        ("broker-005", "presence"),
        ("broker-000", "presence"),
        ("broker-001", "version"),
        ("broker-004", "presence"),
        ("broker-002", "address"),
        (None, "cold"),
        ("lossy", "version"),
        ("broker-006", "presence"),
    ]


def test_name_server_that_expired_a_broker_differs_from_those_that_have_not(history, result):
    gave_up = {
        row["ns_id"]: row["event_time"]
        for row in history.rows["broker_state"]
        if (row["broker_name"], row["event_type"]) == (DIED.broker_name, "expired")
    }
    first, last = min(gave_up.values()), max(gave_up.values())
    assert first == gave_up["ns-1"]
    assert 15 * SECOND < last - first < 45 * SECOND
    assert times_us(result[3]) == pytest.approx((first, last))
    assert result[3]["states"] == ["ns-0=up", "ns-1=absent", "ns-2=up"]


def test_started_name_server_is_cold_until_all_brokers_have_registered(history, result):
    cold = result[5]
    first_heartbeats = {
        row["broker_name"]: row["event_time"]
        for row in history.rows["broker_state"]
        if row["ns_id"] == "ns-0" and row["event_type"] == "registered_first" and row["event_time"] >= RESTARTED_US
    }
    late = {name: at_us for name, at_us in first_heartbeats.items() if at_us - RESTARTED_US > PRESENCE_US}
    assert cold["ns_id"] == "ns-0"
    assert times_us(cold) == pytest.approx((RESTARTED_US, max(late.values())))
    assert 20 < cold["seconds"] < 31
    assert cold["lacked"] == [f"{name}:0" for name in sorted(late)]
    assert cold["lacked_seen"] == len(late)
    assert len(late) >= 4


def test_wrong_responses_of_a_cold_name_server_are_counted_by_ticks_around_its_end(history, result):
    cold = result[5]
    counts = {
        row["event_time"]: row["not_found_total"]
        for row in history.rows["ns_tick"]
        if row["ns_id"] == "ns-0" and row["event_time"] >= RESTARTED_US
    }
    end_us = times_us(cold)[1]
    assert cold["not_found_min"] == max(count for at_us, count in counts.items() if at_us <= end_us) > 0
    assert cold["not_found_max"] == min(count for at_us, count in counts.items() if at_us >= end_us)
    assert cold["not_found_min"] < cold["not_found_max"]


def test_result_names_the_compared_name_servers_and_the_duration(result_of_all):
    (compared,) = [row for row in result_of_all if row["kind"] == "compared"]
    assert compared["states"] == ["ns-0", "ns-1", "ns-2"]
    assert compared["compared_s"] == pytest.approx(SPAN.seconds, abs=11)
    assert compared["seconds"] is None


def test_name_servers_that_share_no_cluster_are_not_compared(spark):
    plans = [
        Plan(end_us=MONDAY + HOUR, brokers=brokers(2, cluster=name), servers=(Server(name=f"ns-{name}"),))
        for name in ("east", "west")
    ]
    one, other = (generate(plan).rows for plan in plans)
    compared = found(JOB, frames(spark, {name: one[name] + other[name] for name in one}), Span(MONDAY, MONDAY + HOUR))
    assert sorted((row["cluster"], row["states"], row["compared_s"]) for row in compared) == [
        ("east", ["ns-east"], 0.0),
        ("west", ["ns-west"], 0.0),
    ]


def test_of_a_plane_of_one_that_lost_its_power_nobody_watched_what_was_there(spark):
    at_us = MONDAY + HOUR
    off = Downtime(at_us, at_us + 30 * SECOND, clean=False)
    plan = Plan(end_us=MONDAY + 2 * HOUR, brokers=brokers(2), servers=(Server(name="ns-0", downtimes=(off,)),))
    dead = tuple(Outage(each.key, at_us + SECOND, at_us + 110 * SECOND) for each in plan.brokers)
    rows = generate(plan.with_plants(Plant(outages=dead))).rows
    compared = found(JOB, frames(spark, rows), Span(MONDAY + 10 * MINUTE, MONDAY + 2 * HOUR))
    (cold,) = (row for row in compared if row["kind"] == "cold")
    assert (cold["lacked"], cold["lacked_seen"]) == (["broker-000:0", "broker-001:0"], 0)


def test_a_version_that_a_broker_of_frequent_heartbeats_reports_late_is_none(history):
    periods = [row["period_ms"] for row in history.rows["heartbeat"] if row["broker_name"] == "quick"]
    assert 0 < max(periods) < PERIOD_MS_MIN
    knew = [row["event_time"] for row in history.rows["broker_state"] if is_change_of(row, "quick")]
    assert max(knew) - min(knew) > VERSION_PERIODS * SECOND


def test_a_server_that_is_cut_off_differs_from_its_timeout_on_until_the_next_heartbeat(history, result):
    last_us = max(at_us for at_us in heartbeats(history, SILENT, "ns-1") if at_us < CUT.from_us)
    next_us = min(at_us for at_us in heartbeats(history, SILENT, "ns-1") if at_us >= CUT.to_us)
    start_us, end_us = times_us(result[1])
    assert last_us + 120 * SECOND <= start_us <= last_us + 130 * SECOND
    assert end_us == pytest.approx(next_us, abs=SECOND)
    overlap_us = min(end_us, next_us) - max(start_us, last_us + 120 * SECOND)
    assert overlap_us / (next_us - last_us - 120 * SECOND) >= 0.95
    assert result[1]["states"] == ["ns-0=up", "ns-1=absent", "ns-2=up"]
    assert result[1]["seconds"] == pytest.approx((end_us - start_us) / 1e6)


def test_data_version_missing_at_one_server_is_reported_until_it_arrives(history, result):
    next_us = min(at_us for at_us in heartbeats(history, LATE, "ns-2") if at_us >= SHORT.to_us - 600_000)
    start_us, end_us = times_us(result[2])
    assert start_us == pytest.approx(ALTERED_US, abs=SECOND)
    assert end_us == pytest.approx(next_us, abs=SECOND)
    ours, theirs, behind = (state.split("=")[1] for state in result[2]["states"])
    assert ours == theirs != behind


def test_a_version_is_late_by_the_period_that_a_broker_keeps_and_not_by_what_a_server_took_for_it(history, result):
    periods = [row.get("period_ms") or 0 for row in history.rows["heartbeat"] if row["broker_name"] == "lossy"]
    assert max(periods) == pytest.approx(60_000, abs=500)
    ours, behind, theirs = (state.split("=")[1] for state in result[6]["states"])
    assert ours == theirs != behind
    assert result[6]["seconds"] == pytest.approx(55, abs=1)
    assert VERSION_PERIODS * 30 < result[6]["seconds"] < VERSION_PERIODS * 60


def test_two_addresses_of_one_broker_are_distinguished(result):
    start_us, end_us = times_us(result[4])
    assert start_us == pytest.approx(MOVE.to_us, abs=SECOND)
    assert DEAF.to_us - SECOND <= end_us <= DEAF.to_us + 31 * SECOND
    assert result[4]["states"] == [
        "ns-0=broker-002-0:10911",
        "ns-1=elsewhere:10911",
        "ns-2=elsewhere:10911",
    ]


def test_window_has_divergences_that_began_before_it_and_have_not_ended(result):
    first, *_, last = result
    assert times_us(first)[0] == SPAN.start_us
    assert EARLY.to_us - SECOND <= times_us(first)[1] <= EARLY.to_us + 31 * SECOND
    assert times_us(last)[1] == pytest.approx(SPAN.end_us, abs=11 * SECOND)
