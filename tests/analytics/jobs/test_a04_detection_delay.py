"""A4: the delay until a broker is given up, against when it was due."""

from random import Random

import pytest
from hand_tables import days, found, row, tables
from synthetic.frames import frames
from synthetic.generator import generate
from synthetic.plan import HOUR, MINUTE, MONDAY, SECOND, End, Outage, Plan, Plant, Server, brokers, three_servers
from synthetic.plants import failover

from analytics.jobs.a04_detection_delay import JOB
from analytics.shared.job import Span

BROKERS = 60


@pytest.fixture(scope="module")
def history():
    """Silent deaths at three NameServers and failovers at a controller, at random moments."""
    random = Random("deaths")
    plan = Plan(
        end_us=MONDAY + HOUR,
        brokers=brokers(BROKERS),
        servers=(*three_servers(), Server(name="c", source="controller")),
    )
    died_us = [MONDAY + 10 * MINUTE + random.randrange(30 * MINUTE) for _ in plan.brokers]
    outages = [
        Outage(broker.key, at_us, None, End.CRASH if number % 4 == 0 else End.SILENT)
        for number, (broker, at_us) in enumerate(zip(plan.brokers, died_us, strict=True))
    ]
    failovers = [
        failover(broker.key.broker_name, at_us, controller="c", epoch=2)
        for broker, at_us in zip(plan.brokers, died_us, strict=True)
    ]
    return generate(plan.with_plants(Plant(outages=tuple(outages)), *failovers))


@pytest.fixture(scope="module")
def inputs(spark, history):
    return frames(spark, {name: history.rows[name] for name in ("broker_state", "controller")})


@pytest.fixture(scope="module")
def result(inputs):
    return {(row["source"], row["reason"]): row for row in found(JOB, inputs, Span(MONDAY, MONDAY + HOUR))}


def distance_from_uniform(values, low, high):
    """Kolmogorov's distance between the values and an even distribution."""
    ranked = sorted((value - low) / (high - low) for value in values)
    count = len(ranked)
    return max(max((rank + 1) / count - value, value - rank / count) for rank, value in enumerate(ranked))


@pytest.mark.parametrize(
    ("reason", "timeout_ms", "late_ms", "count"), [("expired", 120_000, 100, 135), ("timeout", 3_300, 200, 60)]
)
def test_brokers_without_heartbeats_expire_evenly_within_a_scan_after_their_timeout(
    inputs, result, reason, timeout_ms, late_ms, count
):
    source, expected_ms = {"expired": ("namesrv", 120_000), "timeout": ("controller", 3_300)}[reason]
    parts = JOB.parts(inputs, Span(MONDAY, MONDAY + HOUR)).filter(f"source = '{source}' AND reason = '{reason}'")
    delays = [each.delay_ms for each in parts.collect()]
    assert len(delays) == count
    # The limit that an even distribution stays below 99 times of 100.
    assert distance_from_uniform(delays, timeout_ms, timeout_ms + late_ms) < 1.63 / count**0.5
    reported = result[source, reason]
    assert (reported["n"], reported["timeout_ms"], reported["expected_ms"]) == (count, timeout_ms, expected_ms)
    assert reported["mean_ms"] == pytest.approx(expected_ms + late_ms / 2, abs=50)
    assert timeout_ms < reported["p50_ms"] < reported["p95_ms"] <= reported["max_ms"] <= timeout_ms + late_ms + 1


def test_detection_delay_is_the_true_time_since_the_failure_within_one_heartbeat_period(inputs, history):
    died = {each.broker.broker_name: each.from_us for each in history.truth.outages}
    for each in inputs["broker_state"].filter("event_type = 'expired'").collect():
        since_death_ms = (each.event_time.timestamp() * 1e6 - died[each.broker_name]) / 1e3
        assert since_death_ms - 1 <= each.silent_ms <= since_death_ms + 30_200


def test_end_of_a_connection_is_the_time_of_failure(result):
    reported = result["namesrv", "channel_closed"]
    assert (reported["n"], reported["expected_ms"], reported["max_ms"]) == (45, None, 0)


def test_controller_rows_have_the_time_from_the_end_of_a_connection_to_its_probe(spark):
    death = {"source": "controller", "cause": "channel_closed", "silent_ms": 9_100, "timeout_ms": 10_000}
    deaths = [row("failure_detected", SECOND, duration_ms=each, **death) for each in (0, 70)]
    (reported,) = found(JOB, tables(spark, controller=deaths), days(1))
    assert (reported["n"], reported["max_ms"], reported["expected_ms"]) == (2, 70, None)


def test_connection_closed_by_idle_timeout_gives_no_time_of_failure(spark):
    # The timeout is longer than the server bears with idle connections: a cable was pulled, and nothing came any more.
    closed = [
        row("channel_closed", SECOND, timeout_ms=180_000, silent_ms=silent_ms, broker_name="b", broker_id=0)
        for silent_ms in (123_000, 29_000)
    ]
    reported = {each["reason"]: each for each in found(JOB, tables(spark, broker_state=closed), days(1))}
    idle, ended = reported["idle"], reported["channel_closed"]
    assert (idle["n"], idle["max_ms"], idle["expected_ms"]) == (1, 123_000, 120_000)
    assert (ended["n"], ended["max_ms"], ended["expected_ms"]) == (1, 0, None)


def test_connection_without_heartbeats_for_a_short_timeout_is_expected_to_end_with_it(spark):
    closed = row("channel_closed", SECOND, timeout_ms=30_000, silent_ms=30_050, broker_name="b", broker_id=0)
    (reported,) = found(JOB, tables(spark, broker_state=[closed]), days(1))
    assert (reported["reason"], reported["max_ms"], reported["expected_ms"]) == ("idle", 30_050, 30_000)


def test_delays_are_grouped_by_timeout_without_unregistrations_and_brokers_without_id(spark):
    states = [
        row("expired", SECOND, timeout_ms=120_000, silent_ms=121_000),
        row("expired", SECOND, timeout_ms=10_000, silent_ms=12_000),
        row("expired", SECOND, timeout_ms=10_000, silent_ms=13_000),
        row("unregistered", SECOND, timeout_ms=10_000, silent_ms=5),
        row("expired", SECOND, timeout_ms=10_000, silent_ms=99_000, broker_id=-1),
        row("expired", 25 * HOUR, timeout_ms=10_000, silent_ms=999_000),
    ]
    # Written before controllers told how long they wait.
    death = row("failure_detected", SECOND, source="controller", cause="timeout", silent_ms=3_400)
    reported = found(JOB, tables(spark, broker_state=states, controller=[death]), days(1))
    by_source = sorted(reported, key=lambda each: (each["source"], each["max_ms"]))
    assert [(each["timeout_ms"], each["n"], each["max_ms"], each["expected_ms"]) for each in by_source] == [
        (None, 1, 3_400, None),
        (10_000, 2, 13_000, 10_000),
        (120_000, 1, 121_000, 120_000),
    ]
