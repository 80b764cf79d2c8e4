import json
from datetime import UTC

import pytest
from hand_tables import DAY_US, HOUR_US, MINUTE_US, MONDAY_US, SECOND_US, days, found, row, tables
from plain.restart_storms import restart_storms

from analytics.jobs.a11_restart_storms import JOB
from analytics.shared.job import Span


def us(moment):
    return (
        round(moment.replace(tzinfo=UTC).timestamp() * 1e6)
        if moment.tzinfo is None
        else round(moment.timestamp() * 1e6)
    )


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


def test_storm_has_its_size_and_its_effects(spark):
    """The ticks before it, after it, and of other NameServers count for nothing; nor do brokers of one that is gone."""
    h = HOUR_US
    states = [
        *shown(100, "large", at_us=h),
        *registrations(9, 2 * h, cluster="large"),
        *registrations(10, 3 * h, cluster="large"),
        row("expired", 90 * MINUTE_US, cluster="large", broker_name="large050", broker_id=0, set_ids=[]),
        *shown(50, "large", at_us=-2 * DAY_US, ns="ns-old", what="old-"),
    ]
    ticks = [
        row("tick", 3 * h - SECOND_US, loop_lag_ms=900.0, requests_rejected=90),
        row("tick", 3 * h + 2 * SECOND_US, loop_lag_ms=80.0, requests_rejected=3),
        row("tick", 3 * h + 12 * SECOND_US, loop_lag_ms=40.0, requests_rejected=4),
        row("tick", 3 * h + 12 * SECOND_US, ns_id="ns-9", loop_lag_ms=700.0, requests_rejected=70),
        row("tick", 3 * h + 60 * SECOND_US, loop_lag_ms=800.0, requests_rejected=80),
    ]
    (large,) = found(JOB, tables(spark, broker_state=states, ns_tick=ticks), days(2))
    assert (large["brokers"], large["share"], large["seconds"]) == (10, pytest.approx(0.1), pytest.approx(9))
    assert (large["loop_lag_max_ms"], large["rejected"]) == (80.0, 7)
    window = Span(MONDAY_US + 3 * h - SECOND_US, MONDAY_US + 3 * h + 10 * MINUTE_US)
    (large,) = found(JOB, tables(spark, broker_state=states, ns_tick=ticks), window)
    assert (large["known"], large["share"]) == (99, pytest.approx(10 / 99)), "those from before the window too"


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


def test_a_clock_that_is_set_amid_a_storm_does_not_make_two_of_it(spark):
    reported = [each | {"mono_us": each["event_time"] - MONDAY_US} for each in registrations(6, HOUR_US)]
    before = [each | {"event_time": each["event_time"] - 10 * MINUTE_US} for each in reported[:3]]
    step = row("clock_set", HOUR_US, mono_us=HOUR_US, detail=json.dumps({"offsetUs": MONDAY_US}))
    inputs = tables(spark, broker_state=before + reported[3:], ns_lifecycle=[step])
    (one,) = found(JOB, inputs, days(1))
    assert (us(one["start"]), one["brokers"], one["seconds"]) == (MONDAY_US + HOUR_US, 6, 5.0)
