import json
from datetime import UTC, datetime

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
from plain.restart_storms import restart_storms
from synthetic.frames import frames
from synthetic.generator import generate
from synthetic.plan import Downtime, Plan, Server, brokers
from synthetic.plants import storm

from analytics.jobs.a11_restart_storms import JOB
from analytics.shared.job import Span


def us(moment):
    return (
        round(moment.replace(tzinfo=UTC).timestamp() * 1e6)
        if moment.tzinfo is None
        else round(moment.timestamp() * 1e6)
    )


def test_times_are_read_as_utc():
    assert us(datetime(2026, 3, 2, tzinfo=UTC)) == MONDAY_US


NAMESRVS = ("ns-1", "ns-2", "ns-3")


def registrations(count, at_us, *, every_us=SECOND_US, cluster="c", ns="ns-1", first=0):
    return [
        row(
            "registered_first",
            at_us + n * every_us,
            cluster=cluster,
            broker_name=f"{cluster}{first + n:03}",
            broker_id=0,
            ns_id=ns,
        )
        for n in range(count)
    ]


def registered(name, broker_id, ns, at_us, address=None):
    return row(
        "registered_first",
        at_us,
        cluster="c",
        broker_name=name,
        broker_id=broker_id,
        broker_addr=address or f"{name}-{broker_id}:10911",
        ns_id=ns,
        boot_id=f"{ns}-1",
    )


def shown(count, cluster="c", *, at_us=HOUR_US, ns="ns-1", what=""):
    about = {"cluster": cluster, "ns_id": ns, "set_ids": [0], "set_addrs": ["x"], "set_clusters": [cluster]}
    return [row("snapshot", at_us, broker_name=f"{what}{cluster}{n:03}", **about) for n in range(count)]


def gone(event_type, broker_name, at_us, *, ns, silent_ms):
    about = {"cluster": broker_name[:-3], "ns_id": ns, "broker_name": broker_name, "broker_id": 0, "set_ids": []}
    return row(event_type, at_us, silent_ms=silent_ms, timeout_ms=120_000, **about)


@pytest.fixture(scope="module")
def storms(spark):
    """Runs of each size, in clusters of ten and of a hundred; a slow one; one over two NameServers, across midnight.

    A NameServer that lost its network, and one that lost it while brokers were restarted, just before midnight; and
    brokers of which a NameServer told that is gone itself.
    """
    h = HOUR_US
    states = [
        *shown(10, "small"),
        *registrations(4, 2 * h, cluster="small"),
        *registrations(5, 3 * h, cluster="small"),
        *shown(100, "large"),
        *registrations(9, 2 * h, cluster="large"),
        *registrations(10, 3 * h, cluster="large"),
        *shown(10, "slow"),
        *registrations(5, 4 * h, cluster="slow", every_us=59 * SECOND_US),
        *registrations(5, 5 * h, cluster="slow", every_us=61 * SECOND_US),
        *shown(10, "night"),
        *registrations(6, DAY_US - 3 * SECOND_US, cluster="night"),
        *registrations(6, DAY_US - 2 * SECOND_US, cluster="night", ns="ns-2"),
        *registrations(8, 7 * h, cluster="young", ns="ns-3"),
        # One of these eight was restarted in the same moment, and so were six of another cluster later on.
        *(each for ns in NAMESRVS[1:] for each in shown(8, "lost", ns=ns)),
        *(gone("channel_closed", "lost000", 9 * h - 30 * SECOND_US, ns=ns, silent_ms=0) for ns in NAMESRVS[1:]),
        *registrations(8, 9 * h, cluster="lost"),
        *(each for ns in NAMESRVS[1:] for each in registrations(1, 9 * h, cluster="lost", ns=ns)),
        *(each for ns in NAMESRVS for each in registrations(6, 10 * h, cluster="real", ns=ns)),
        # One NameServer heard these 50 s before they were restarted, and gave them up after midnight.
        *shown(6, "deaf", at_us=DAY_US - 10 * MINUTE_US, ns="ns-3"),
        *registrations(6, DAY_US - 40 * SECOND_US, cluster="deaf"),
        *(gone("expired", f"deaf{n:03}", DAY_US + 30 * SECOND_US, ns="ns-3", silent_ms=120_000) for n in range(6)),
        row("expired", 90 * MINUTE_US, cluster="large", broker_name="large050", broker_id=0, set_ids=[]),
        *shown(50, "large", at_us=-2 * DAY_US, ns="ns-old", what="old-"),
    ]
    ticks = [
        row("tick", 3 * h - SECOND_US, loop_lag_ms=900.0, requests_rejected=90),
        row("tick", 3 * h + 2 * SECOND_US, loop_lag_ms=80.0, requests_rejected=3),
        row("tick", 3 * h + 12 * SECOND_US, loop_lag_ms=40.0, requests_rejected=4),
        row("tick", 3 * h + 12 * SECOND_US, ns_id="ns-9", loop_lag_ms=700.0, requests_rejected=70),
        row("tick", 3 * h + 60 * SECOND_US, loop_lag_ms=800.0, requests_rejected=80),
        row("tick", DAY_US + SECOND_US, ns_id="ns-2", loop_lag_ms=33.0, requests_rejected=1),
        *(
            row("tick", hour * h + n * 10 * SECOND_US, ns_id=ns, interval_ms=10_000)
            for hour in (9, 10, 24)
            for n in range(-15, 4)
            # Others have to do with other clusters.
            for ns in (*NAMESRVS, "ns-8", "ns-9")
        ),
    ]
    lifecycle = [row("started", 7 * h - 30 * SECOND_US, ns_id="ns-3")]
    return tables(spark, broker_state=states, ns_tick=ticks, ns_lifecycle=lifecycle)


@pytest.fixture(scope="module")
def result(storms):
    return found(JOB, storms, days(2))


def test_five_brokers_or_a_tenth_of_the_cluster_are_a_storm_and_one_less_is_not(result):
    sizes = {(row["cluster"], (us(row["start"]) - MONDAY_US) // HOUR_US): row["brokers"] for row in result}
    assert sizes == {
        ("small", 3): 5,
        ("large", 3): 10,
        ("slow", 4): 5,
        ("young", 7): 8,
        ("lost", 9): 7,
        ("real", 10): 6,
        ("night", 23): 6,
        ("deaf", 23): 6,
    }


def test_storm_has_its_size_and_its_effects(result):
    large = next(row for row in result if row["cluster"] == "large")
    assert large["share"] == pytest.approx(0.1)
    assert large["seconds"] == pytest.approx(9)
    # The ticks before it, after it, and of other NameServers count for nothing.
    assert (large["loop_lag_max_ms"], large["rejected"]) == (80.0, 7)


def test_a_storm_on_two_namesrvs_across_midnight_is_one(result):
    night = next(row for row in result if row["cluster"] == "night")
    assert (night["brokers"], night["registrations"], night["namesrvs"]) == (6, 12, ["ns-1", "ns-2"])
    assert night["loop_lag_max_ms"] == 33.0


def test_registrations_at_a_restarted_namesrv_are_no_broker_restarts(result):
    assert {row["cluster"] for row in result if row["cause"] == "namesrv"} == {"young", "lost"}


def test_brokers_that_another_namesrv_had_all_along_were_not_restarted(result):
    lost = next(row for row in result if row["cluster"] == "lost")
    assert (lost["cause"], lost["registrations"], lost["namesrvs"]) == ("namesrv", 7, ["ns-1"])
    real = next(row for row in result if row["cluster"] == "real")
    assert (real["cause"], real["registrations"], real["namesrvs"]) == ("brokers", 18, [*NAMESRVS])


def test_what_another_namesrv_had_before_the_window_it_had_all_along(storms):
    nine_us = MONDAY_US + 9 * HOUR_US
    (lost,) = found(JOB, storms, Span(nine_us - SECOND_US, nine_us + MINUTE_US))
    assert (lost["cluster"], lost["cause"], lost["registrations"]) == ("lost", "namesrv", 7)


def test_namesrv_without_heartbeats_of_brokers_is_no_evidence_against_their_restart(result):
    deaf = next(row for row in result if row["cluster"] == "deaf")
    assert (deaf["cause"], deaf["registrations"], deaf["namesrvs"]) == ("brokers", 6, ["ns-1"])


def test_broker_without_its_role_yet_is_the_broker_that_it_becomes(spark):
    """In controller mode a broker has the id -1 at first: it registers so with one NameServer, or with all."""
    h = HOUR_US
    reported = [
        *(registered(name, 0, ns, h) for name in ("alone", "busy", "flappy") for ns in NAMESRVS[:2]),
        *(registered("orders", broker_id, ns, h) for broker_id in (0, 1) for ns in NAMESRVS[:2]),
        # One of the two was known to a NameServer before it had its role, to the other one only afterwards.
        registered("payments", -1, "ns-1", h, address="payments-1:10911"),
        registered("payments", 1, "ns-2", h + SECOND_US),
        *(registered("payments", 0, ns, h + 2 * SECOND_US) for ns in NAMESRVS[:2]),
        # One of these was elected after one NameServer had it as a slave, before the other one had it at all.
        registered("elected", 2, "ns-1", h, address="elected-2:10911"),
        registered("elected", 0, "ns-2", h + SECOND_US, address="elected-2:10911"),
        *(registered("elected", 1, ns, h, address="elected-1:10911") for ns in NAMESRVS[:2]),
        # Both of this set have no role for now.
        *(registered("late", -1, ns, h, address=f"late-{n}:10911") for n in (0, 1) for ns in NAMESRVS[:2]),
        *(
            row("tick", h + n * 10 * SECOND_US, ns_id=ns, boot_id=f"{ns}-1", interval_ms=10_000)
            for n in range(-30, 4)
            for ns in NAMESRVS[:2]
        ),
    ]
    reported = [each | {"event_id": f"{each['ns_id']}-{h}-{n}"} for n, each in enumerate(reported)]
    rows = {
        "broker_state": [each for each in reported if each["event_type"] != "tick"],
        "ns_tick": [each for each in reported if each["event_type"] == "tick"],
        "ns_lifecycle": [],
    }
    (storm_of_all,) = found(JOB, tables(spark, **rows), days(1))
    counts = (storm_of_all["brokers"], storm_of_all["registrations"], storm_of_all["known"])
    assert (counts, storm_of_all["share"]) == ((11, 22, 11), 1.0)
    span = days(1)
    (model,) = restart_storms(rows, (span.start_us, span.end_us))
    assert ((model["brokers"], model["registrations"], model["known"]), model["share"]) == (counts, 1.0)


def test_a_cluster_has_the_brokers_that_were_there_before_the_window_too(storms):
    """Ten minutes in which little is told: the others were shown hours ago, and one is gone since."""
    window = Span(MONDAY_US + 3 * HOUR_US - SECOND_US, MONDAY_US + 3 * HOUR_US + 10 * MINUTE_US)
    known = {row["cluster"]: (row["known"], row["share"]) for row in found(JOB, storms, window)}
    assert known == {"small": (10, 0.5), "large": (99, pytest.approx(10 / 99))}


def test_a_clock_that_is_set_amid_a_storm_does_not_make_two_of_it(spark):
    reported = [each | {"mono_us": each["event_time"] - MONDAY_US} for each in registrations(6, HOUR_US)]
    before = [each | {"event_time": each["event_time"] - 10 * MINUTE_US} for each in reported[:3]]
    step = row("clock_set", HOUR_US, mono_us=HOUR_US, detail=json.dumps({"offsetUs": MONDAY_US}))
    inputs = tables(spark, broker_state=before + reported[3:], ns_lifecycle=[step])
    (one,) = found(JOB, inputs, days(1))
    assert (us(one["start"]), one["brokers"], one["seconds"]) == (MONDAY_US + HOUR_US, 6, 5.0)


def test_parts_of_days_give_what_parts_of_the_whole_span_give(storms, result):
    assert in_order(found_by_day(JOB, storms, days(2))) == in_order(result)


def test_planted_storms_are_found_among_the_restarts_of_a_namesrv(spark):
    crowd = brokers(20)
    keys = [broker.key for broker in crowd]
    start_us = MONDAY_US
    servers = (
        Server(name="ns-0"),
        Server(name="ns-1", downtimes=(Downtime(start_us + HOUR_US, start_us + HOUR_US + 5 * MINUTE_US),)),
    )
    plan = Plan(end_us=start_us + 2 * HOUR_US, servers=servers, brokers=crowd).with_plants(
        storm(keys[:6], start_us + 20 * MINUTE_US, seed=1),
        storm(keys[6:10], start_us + 30 * MINUTE_US, seed=2),
        storm(keys[:20], start_us + 100 * MINUTE_US, seed=3),
    )
    history = generate(plan)
    span = Span(start_us + 5 * MINUTE_US, plan.end_us)
    rows = [row for row in found(JOB, frames(spark, history.rows), span) if row["cause"] == "brokers"]
    truth = [group for group in history.truth.planted["storms"] if len(group.brokers) >= 5]
    assert sorted((us(row["start"]), row["brokers"]) for row in rows) == [
        (pytest.approx(group.from_us, abs=2 * SECOND_US), len(group.brokers)) for group in truth
    ]
    assert [us(row["end"]) for row in sorted(rows, key=lambda row: row["start"])] == [
        pytest.approx(group.to_us, abs=2 * SECOND_US) for group in truth
    ]
