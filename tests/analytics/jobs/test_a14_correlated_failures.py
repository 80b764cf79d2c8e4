import itertools
from random import Random

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
from synthetic.plan import BrokerKey, End, Outage, Plan, Plant, brokers
from synthetic.plants import correlated_failure

from analytics.jobs.a14_correlated_failures import BROKERS_DOWN_MAX, JOB
from analytics.shared.broker_states import STATE_PARTS
from analytics.shared.job import Span
from analytics.spark.schemas import struct_of

NAMESRVS = ("ns-1", "ns-2", "ns-3")


def watching(hours, names=NAMESRVS):
    return [
        row("tick", at_us, ns_id=name, boot_id=f"{name}-1", mono_us=at_us, interval_ms=20_000)
        for at_us in range(20 * SECOND_US, hours * HOUR_US + 1, 20 * SECOND_US)
        for name in names
    ]


def known(states):
    """All of these brokers, registered with all NameServers before anything happens."""
    brokers = {(state["broker_name"], state["broker_id"]): state.get("broker_addr") for state in reversed(states)}
    return [
        row("registered_first", SECOND_US, ns_id=ns_id, broker_name=name, broker_id=broker_id, broker_addr=address)
        for (name, broker_id), address in brokers.items()
        for ns_id in NAMESRVS
    ]


def down(broker, from_us, to_us, *, what="channel_closed", names=NAMESRVS):
    """A broker that leaves these NameServers and comes back."""
    who = {"broker_name": broker, "broker_id": 0}
    last_heartbeat = {"last_heartbeat_time": MONDAY_US + from_us}
    gone = [row(what, from_us + 1000, ns_id=name, **who, **last_heartbeat) for name in names]
    back = [row("registered_first", to_us, ns_id=name, **who) for name in names if to_us is not None]
    return gone + back


def silent(broker, since_us, known_us, *, back_us):
    """A broker that falls silent; the first NameServer gives it up a second before midnight, the others later."""
    who = {"broker_name": broker, "broker_id": 0}
    moments = {"ns-1": DAY_US - SECOND_US, "ns-2": known_us, "ns-3": known_us}
    last_heartbeat = {"last_heartbeat_time": MONDAY_US + since_us}
    gone = [row("expired", at_us, ns_id=name, **who, **last_heartbeat) for name, at_us in moments.items()]
    return gone + [row("registered_first", back_us, ns_id=name, **who) for name in NAMESRVS]


def failover(name, at_us, how):
    """A master that dies, and a slave that holds its id from then on."""
    who = {"broker_name": name, "broker_id": 0}
    last_heartbeat = {"last_heartbeat_time": MONDAY_US + at_us}
    gone = [row("channel_closed", at_us, ns_id=each, broker_addr="one:1", **who, **last_heartbeat) for each in NAMESRVS]
    taken = [row(how, at_us + 12 * SECOND_US, ns_id=each, broker_addr="two:1", **who) for each in NAMESRVS]
    return gone + taken


@pytest.fixture(scope="module")
def history(spark):
    m, h = MINUTE_US, HOUR_US
    states = [
        # Down together for 10 of 30 minutes; twice.
        *down("a", 1 * h, 1 * h + 20 * m),
        *down("b", 1 * h + 15 * m, 1 * h + 25 * m),
        *down("a", 2 * h, 2 * h + 10 * m),
        *down("b", 2 * h + 5 * m, 2 * h + 15 * m),
        # A planned stop, and one that one NameServer of three saw alone, at the same time as a real one.
        *down("planned", 1 * h, 1 * h + 20 * m, what="unregistered"),
        *down("seen-once", 1 * h, 1 * h + 20 * m, names=("ns-1",)),
        # Two of three: a majority is without it.
        *down("seen-twice", 3 * h, 3 * h + 10 * m, names=("ns-1", "ns-2")),
        *down("with-it", 3 * h, 3 * h + 10 * m),
        # Two failovers in an afternoon, the first one of both sets at once.
        *failover("set-1", 14 * h, "role_changed"),
        *failover("set-2", 14 * h, "address_changed"),
        *failover("set-1", 16 * h, "role_changed"),
        *failover("set-2", 18 * h, "changed"),
        # Across midnight.
        *down("late-1", DAY_US - 10 * m, DAY_US + 10 * m),
        *down("late-2", DAY_US - 10 * m, DAY_US + 10 * m),
        # Given up after midnight, silent since before it; one NameServer noticed before.
        *silent("host-1", DAY_US - MINUTE_US, DAY_US + MINUTE_US, back_us=DAY_US + 5 * m),
        *silent("host-2", DAY_US - MINUTE_US, DAY_US + MINUTE_US, back_us=DAY_US + 5 * m),
        # Gone for good at the end of what was watched.
        *down("gone-1", 25 * h + 30 * m, None),
        *down("gone-2", 25 * h + 30 * m, None),
    ]
    return tables(spark, broker_state=[*known(states), *states], ns_tick=watching(26))


@pytest.fixture(scope="module")
def pairs(history):
    return {(row["broker_a"], row["broker_b"]): row for row in found(JOB, history, days(2))}


def test_pairs_are_those_that_were_down_in_the_same_minutes(pairs):
    assert set(pairs) == {
        ("a:0", "b:0"),
        ("seen-twice:0", "with-it:0"),
        ("set-1:0", "set-2:0"),
        ("late-1:0", "late-2:0"),
        ("host-1:0", "host-2:0"),
        ("gone-1:0", "gone-2:0"),
        # They were down at midnight too.
        *((f"host-{host}:0", f"late-{late}:0") for host in (1, 2) for late in (1, 2)),
    }


def test_likeness_is_counted_in_minutes(pairs):
    alike = pairs["a:0", "b:0"]
    assert (alike["minutes_a"], alike["minutes_b"]) == (30, 20)
    assert (alike["joint_minutes"], alike["joint_outages"]) == (10, 2)
    assert alike["jaccard"] == pytest.approx(10 / 40)


def test_a_set_is_back_when_a_slave_takes_over_from_its_master(pairs):
    alike = pairs["set-1:0", "set-2:0"]
    assert (alike["minutes_a"], alike["minutes_b"], alike["joint_minutes"]) == (2, 2, 1)


def test_an_outage_goes_on_over_midnight(pairs):
    assert pairs["late-1:0", "late-2:0"]["joint_minutes"] == 20
    assert pairs["late-1:0", "late-2:0"]["joint_outages"] == 1


def test_minutes_before_midnight_count_though_they_were_known_after_it(pairs):
    assert pairs["host-1:0", "host-2:0"]["joint_minutes"] == 6


def test_time_that_nobody_watched_is_no_outage(pairs):
    assert pairs["gone-1:0", "gone-2:0"]["joint_minutes"] == 30


def test_parts_of_days_give_what_parts_of_the_whole_span_give(history, pairs):
    assert in_order(found_by_day(JOB, history, days(2))) == in_order(pairs.values())


def minute(number):
    return MONDAY_US + number * MINUTE_US


@pytest.mark.parametrize(("count", "joint"), [(BROKERS_DOWN_MAX, 3), (BROKERS_DOWN_MAX + 1, 2)])
def test_a_minute_in_which_very_many_brokers_are_down_counts_for_nothing(spark, count, joint):
    """Two of them are down for two minutes more."""
    keys = [f"broker-{number:03}" for number in range(count)]
    reported = [{"kind": "watched", "since_us": 0, "at_us": 9}]
    reported += [{"kind": "up", "broker_name": key, "at_us": at} for key in keys for at in (0, 4)]
    reported += [{"kind": "down", "broker_name": key, "at_us": 3} for key in keys]
    reported += [
        {"kind": kind, "broker_name": key, "at_us": at} for key in keys[:2] for kind, at in (("down", 6), ("up", 8))
    ]
    rows = [
        {"cluster": "c", "ns_id": "ns-1", "broker_id": 0, "planned": False}
        | {**each, "at_us": minute(each["at_us"]), "since_us": minute(each.get("since_us", each["at_us"]))}
        for each in reported
    ]
    columns = {column.name: [row.get(column.name) for row in rows] for column in STATE_PARTS}
    pair = JOB.result(spark.createDataFrame(pa.table(columns), struct_of(STATE_PARTS)), days(1)).first()
    assert (pair.broker_a, pair.broker_b) == ("broker-000:0", "broker-001:0")
    assert (pair.joint_minutes, pair.minutes_a, pair.jaccard) == (joint, joint, 1)


def test_planted_groups_are_recovered_among_brokers_that_fail_alone(spark):
    random, m = Random(4), MINUTE_US
    crowd = brokers(14)
    keys = [broker.key for broker in crowd]
    racks = (keys[:4], keys[4:7])
    end_us = MONDAY_US + 6 * HOUR_US
    plants = [
        correlated_failure(rack, MONDAY_US + at, MONDAY_US + at + 12 * m)
        for rack, starts in ((racks[0], (40 * m, 200 * m)), (racks[1], (90 * m, 300 * m)))
        for at in starts
    ]
    alone = tuple(
        Outage(key, MONDAY_US + at, MONDAY_US + at + 6 * m, End.CRASH)
        for key in keys[7:]
        for at in sorted(random.sample(range(20 * m, 340 * m, 10 * m), 2))
    )
    history = generate(Plan(end_us=end_us, brokers=crowd).with_plants(*plants, Plant(outages=alone)))
    rows = found(JOB, frames(spark, history.rows), Span(MONDAY_US, end_us))
    close = {(row["broker_a"], row["broker_b"]) for row in rows if row["jaccard"] >= 0.7 and row["joint_outages"] > 1}
    assert close == {pair for rack in racks for pair in itertools.combinations(map(label, sorted(rack)), 2)}


def label(key: BrokerKey):
    return f"{key.broker_name}:{key.broker_id}"
