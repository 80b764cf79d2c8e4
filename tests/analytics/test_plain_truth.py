"""The plain model is right about what was planted in histories; needs no Spark."""

from random import Random

import pytest
from plain.availability import availability
from plain.cases import NOON, STORIES, story_of
from plain.heartbeat_gaps import due_in, heartbeat_gaps
from plain.histories import history_of
from plain.watching import watched
from synthetic.generator import generate
from synthetic.plan import HOUR, MINUTE, MONDAY, BrokerKey, Plan, brokers
from synthetic.plants import renewal_outages

WINDOW = (NOON, NOON + 2 * HOUR)


@pytest.mark.parametrize("drop", [0.01, 0.1])
def test_missed_heartbeats_are_the_dropped_ones(drop):
    history = generate(Plan(end_us=MONDAY + 6 * HOUR, brokers=brokers(4, drop=drop)))
    reported = heartbeat_gaps(history.rows, (MONDAY, MONDAY + 6 * HOUR))
    dropped = [drop.broker for drop in history.truth.drops]
    assert {row["broker_name"]: row["missed"] for row in reported} == {
        name: dropped.count(BrokerKey(name)) for name in {row["broker_name"] for row in reported}
    }


@pytest.mark.parametrize("seed", range(20))
def test_additional_heartbeat_makes_no_other_one_missed(seed):
    random = Random(seed)
    for _ in range(500):
        period_ms = random.choice((500, 1_000, 3_000, 30_000, 60_000))
        interval_ms = random.randrange(1, 8 * period_ms)
        at_ms = random.randrange(interval_ms)
        assert due_in(at_ms, period_ms) + due_in(interval_ms - at_ms, period_ms) <= due_in(interval_ms, period_ms)


def test_registrations_that_nobody_waited_for_are_no_reason_to_miss_others():
    _, history = story_of("a broker registers at each of many changes")
    assert [row["missed"] for row in heartbeat_gaps(history.rows, WINDOW)] == [0, 0]


@pytest.mark.parametrize("seed", range(5))
def test_times_down_are_those_that_were_planted(seed):
    key = BrokerKey("broker-000")
    plan = Plan(end_us=MONDAY + 24 * HOUR, brokers=brokers(1)).with_plants(
        renewal_outages(key, MONDAY, MONDAY + 23 * HOUR, mean_up_us=2 * HOUR, mean_down_us=10 * MINUTE, seed=seed)
    )
    (reported,) = availability(generate(plan).rows, (MONDAY, MONDAY + 24 * HOUR))
    down_s = sum(outage.to_us - outage.from_us for outage in plan.plant.outages) / 1e6
    planned = [outage for outage in plan.plant.outages if outage.end.name == "PLANNED"]
    assert reported["failures"] == len(plan.plant.outages) - len(planned)
    assert abs(reported["planned_s"] + reported["unplanned_s"] - down_s) < 31 * len(plan.plant.outages)


@pytest.mark.parametrize("name", [name for name in STORIES if "NameServer is" in name])
def test_restarted_name_servers_are_no_failures_of_brokers(name):
    _, history = story_of(name)
    assert {row["failures"] for row in availability(history.rows, WINDOW)} == {0}


def test_what_a_server_did_not_record_was_not_watched():
    plan, history = history_of(0)
    server = next(server for server in plan.servers if server.pauses)
    (pause,) = server.pauses
    assert not any(
        begin < pause.to_us and pause.from_us < end - 10_000_000 for begin, end in watched(history.rows, server.name)
    )
