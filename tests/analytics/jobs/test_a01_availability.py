"""A1 where a clock is set, of which the plain model knows nothing."""

import json
from dataclasses import replace

import pytest
from hand_tables import found
from synthetic.frames import frames
from synthetic.generator import generate
from synthetic.plan import HOUR, MINUTE, MONDAY, End, Outage, Plan, Plant, Server, brokers

from analytics.jobs.a01_availability import JOB
from analytics.shared.job import Span


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
