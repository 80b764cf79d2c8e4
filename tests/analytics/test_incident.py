"""What is said of an incident of which every moment is known: real brokers, what was done to them, what was served.

`RMQ_INCIDENT=FOLDER pytest tests/analytics/test_incident.py` judges what `peers.incident` has recorded before.
"""

import html
import json
import os
import re
from argparse import Namespace
from collections import Counter
from datetime import datetime
from functools import cached_property
from pathlib import Path

import pytest
from landed import silent
from measured import note
from peers.incident import LONE, SET, TOPIC, Truth, record
from synthetic.plan import Plan
from test_plain_model import JOBS, judged

from analytics.cli.report import report
from analytics.engine.registry import load_jobs
from analytics.engine.runner import Run, run_jobs
from analytics.ingest.ingest import Places, ingest
from analytics.jobs.a06_divergence import PRESENCE_US
from analytics.shared.days import DAY_US, unix_us
from analytics.shared.job import Span
from analytics.spark.storage import LocalStorage
from history.columns import Type
from history.landing import LANDING, lines_of
from history.schemas import FAMILIES

#: Most of it is the incident: everything waits for brokers that register each 30 s.
pytestmark = [pytest.mark.broad, pytest.mark.java, pytest.mark.timeout(900)]

#: What is at most said of a death that the system told at once, unless clients had to wait for longer.
AT_ONCE_S = 0.5
#: How far apart the heartbeats of a broker in controller mode are.
HEARTBEAT_S = 1
#: Heartbeats to a controller come each second.
HEARTBEAT_MS = 1000
COLD = "namesrv-2"
#: How often brokers of the set were started.
STARTS = 3
#: A beat that is so much later is not missed yet.
UNNOTICED_S = 0.25


def _timed(row, columns):
    """Return a row with its times as Unix us."""
    times = {column.name for column in columns if column.type is Type.TIMESTAMP}
    return {
        name: unix_us(datetime.fromisoformat(value)) if name in times and value else value
        for name, value in row.items()
    }


class Published:
    """What the analyses have published of the recorded rows, and the page of it."""

    def __init__(self, folder, truth, window):
        self.truth = truth
        self.window = window
        self._latest = folder / "results" / "latest"
        self.page = (folder / "report.html").read_text()

    def published(self, name, **values):
        """Return the rows of a result that have these values; times are Unix us."""
        (job,) = (job for job in load_jobs() if job.name == name)
        found = json.loads((self._latest / f"{name}.json").read_text())["rows"]
        return [_timed(row, job.columns) for row in found if values.items() <= row.items()]

    def section(self, job_id):
        """Return what the page has about an analysis, as it is written."""
        (found,) = re.findall(rf'<section id="{job_id}">.*?</section>', self.page, re.DOTALL)
        return found

    def answer(self, job_id):
        """Return what the page answers to the question of an analysis."""
        (found,) = re.findall(r'<p class="answer">(.*?)</p>', self.section(job_id), re.DOTALL)
        return html.unescape(re.sub(r"<[^>]+>", "", found))

    @cached_property
    def rows(self):
        """The rows as servers wrote them, by family; times are Unix us."""
        landing = self.truth.history / LANDING
        return {
            name: [
                _timed(json.loads(line), family.all_columns)
                for path in sorted(landing.glob(f"family={name}/date=*/hour=*/*"))
                for line in lines_of(path)
            ]
            for name, family in FAMILIES.items()
        }

    def ns_id(self, server):
        """Return how a NameServer calls itself in its rows."""
        port = self.truth.ports[server]
        (found,) = {row["ns_id"] for row in self.rows["ns_lifecycle"] if row["ns_id"].endswith(f"_{port}")}
        return found


@pytest.fixture(scope="module")
def of_incident(spark, tmp_path_factory):
    given = os.environ.get("RMQ_INCIDENT")
    truth = Truth(Path(given)) if given else record(tmp_path_factory.mktemp("incident"))
    folder = tmp_path_factory.mktemp("analysed")
    stored = LocalStorage(folder)
    ingest(Places(spark, LocalStorage(truth.history), stored), silent)
    _, end = truth.step("servers stopped")
    window = Span(int(1e6 * end) - 30 * DAY_US, int(1e6 * end))
    run_jobs(spark, stored, load_jobs(), Run("incident", window, raw=True), silent)
    report(Namespace(output=str(folder), file=str(folder / "report.html")))
    return Published(folder, truth, window)


# Heartbeats


def test_only_the_broker_that_was_stopped_missed_registrations(of_incident):
    missed = {
        (row["broker_name"], row["broker_id"]): row["missed"]
        for row in of_incident.published("heartbeat_gaps", source="namesrv")
    }
    assert missed.pop((LONE, 0)) in (1, 2), "one at each of two NameServers"
    assert set(missed.values()) == {0}, missed


def test_no_heartbeat_to_the_controller_was_missed_but_those_delayed_by_the_machine(of_incident):
    """Beats come each second. On a machine that has other things to do one may be half a second late: the rows tell."""
    surely, perhaps = Counter(), Counter()
    for row in of_incident.rows["heartbeat"]:
        if row["source"] == "controller" and "interval_ms" in row:
            periods = row["interval_ms"] / HEARTBEAT_MS
            surely[row["broker_id"]] += max(0, int(periods) - 1)
            perhaps[row["broker_id"]] += max(0, round(periods) - 1)
    rows = of_incident.published("heartbeat_gaps", source="controller")
    for row in rows:
        assert surely[row["broker_id"]] <= row["missed"] <= perhaps[row["broker_id"]], row
    began, _ = of_incident.truth.step("master killed")
    over, _ = of_incident.truth.step("servers stopped")
    late_s = of_incident.truth.late_s(began, over)
    missed = sum(row["missed"] for row in rows)
    note(
        "incident",
        ("beats",),
        f"beats to the controller missed: {missed}; the machine was late by up to {late_s:.2f} s",
    )
    # A broker that starts may be half a second late with its first beats.
    assert missed <= STARTS or late_s > UNNOTICED_S


# Life and death


def down_s(truth):
    """Return how long the set had no master in the answers of any NameServer, at most."""
    killed, _ = truth.step("master killed")
    dead = truth.dead_master()
    led = [
        truth.since(server, lambda to: truth.master_of_set(to) not in (None, "", dead), killed)
        for server in truth.ports
    ]
    return max(latest for _, latest in led) - killed


def found_s(truth):
    """Return how long any NameServer named the dead master, at most."""
    killed, _ = truth.step("master killed")
    dead = truth.dead_master()
    gone = [truth.since(server, lambda to: truth.master_of_set(to) != dead, killed) for server in truth.ports]
    return max(latest for _, latest in gone) - killed


def test_the_set_was_down_no_longer_than_it_had_no_master(of_incident):
    rows = of_incident.published("availability", broker_name=SET)
    assert sum(row["failures"] for row in rows) == 1
    assert 0 < sum(row["unplanned_s"] for row in rows) <= max(AT_ONCE_S, down_s(of_incident.truth))
    assert sum(row["planned_s"] for row in rows) == 0


def test_who_left_in_order_was_planned_to_be_down_and_who_was_stopped_for_a_while_was_up(of_incident):
    (row,) = of_incident.published("availability", broker_name=LONE)
    assert (row["failures"], row["unplanned_s"]) == (0, 0)
    stop_step, _ = of_incident.truth.step("lone broker stopped in order")
    left = [of_incident.truth.since(server, lambda to: LONE not in to, stop_step) for server in of_incident.truth.ports]
    stops, stopped = of_incident.truth.step("servers stopped")
    least_s, most_s = stops - max(to for _, to in left), stopped - min(since for since, _ in left)
    # The last tick of a NameServer is up to a second before its end.
    assert least_s - 1 <= row["planned_s"] <= most_s


def test_failure_was_detected_at_once(of_incident):
    rows = of_incident.published("detection_delay")
    assert {(row["source"], row["reason"]): row["n"] for row in rows} == {
        ("namesrv", "channel_closed"): 2,
        ("controller", "channel_closed"): 1,
    }
    assert max(row["max_ms"] for row in rows) / 1000 <= max(AT_ONCE_S, found_s(of_incident.truth))


def test_failover_has_one_row_with_its_true_duration(of_incident):
    (row,) = of_incident.published("failover_timeline", kind="failover")
    assert (row["broker_name"], row["bytes_at_stake"]) == (SET, 0)
    # It is counted from the last heartbeat, which is up to a second before the end.
    assert row["total_s"] <= max(AT_ONCE_S, down_s(of_incident.truth)) + HEARTBEAT_S


def test_nobody_flapped_nobody_failed_together_and_nothing_was_a_storm(of_incident):
    assert not any(row["flagged_at_end"] or row["time_flagged_s"] for row in of_incident.published("flapping"))
    assert of_incident.published("correlated_failures") == of_incident.published("restart_storms") == []


# The NameServer that came back and knew nobody


def cold(truth):
    """Return when the NameServer began to answer, and when it said what the other one did: each between two moments."""
    killed, _ = truth.step("NameServer killed")
    _, down = truth.since(COLD, lambda to: to == "unreachable", killed)
    return (
        truth.since(COLD, lambda to: to != "unreachable", down),
        truth.since(COLD, lambda to: isinstance(to, dict) and {SET, LONE} <= to.keys() and all(to.values()), down),
    )


def late_at_first(of_incident):
    """Return the brokers that registered late at a NameServer that had just started: what a busy machine did, no fault.

    As rows tell: (ns_id, `<set>:<id>`) for each that the other NameServer had for longer than the analysis lets pass.
    """
    killed, _ = of_incident.truth.step("NameServer killed")
    first = {}
    for row in of_incident.rows["broker_state"]:
        if row["event_type"] == "registered_first" and row["event_time"] < 1e6 * killed:
            times = first.setdefault(f"{row['broker_name']}:{row['broker_id']}", {})
            times.setdefault(row["ns_id"], row["event_time"])
    return {
        (ns_id, broker)
        for broker, times in first.items()
        for ns_id, at in times.items()
        if at - min(times.values()) > PRESENCE_US
    }


def back(of_incident):
    """Return when each broker registered at the NameServer that was killed, after that, as its rows tell: Unix us."""
    killed, _ = of_incident.truth.step("NameServer killed")
    first = {}
    for row in of_incident.rows["broker_state"]:
        is_first = row["event_type"] == "registered_first" and row["ns_id"] == of_incident.ns_id(COLD)
        if is_first and row["event_time"] > 1e6 * killed:
            broker = f"{row['broker_name']}:{row['broker_id']}"
            first[broker] = min(row["event_time"], first.get(broker, row["event_time"]))
    return first


def cold_rows(of_incident):
    """Return what was published of NameServers that were cold: of the one that was killed, and of others."""
    killed, _ = of_incident.truth.step("NameServer killed")
    rows = of_incident.published("divergence", kind="cold")
    of_killed = [row for row in rows if row["ns_id"] == of_incident.ns_id(COLD) and row["start_time"] > 1e6 * killed]
    return of_killed, [row for row in rows if row not in of_killed]


def test_the_cold_name_server_is_found_with_its_duration_and_nobody_else_differed(of_incident):
    (row,), others = cold_rows(of_incident)
    assert {(other["ns_id"], broker) for other in others for broker in other["lacked"]} == late_at_first(of_incident)
    (began, answered), (lacked, whole) = cold(of_incident.truth)
    assert row["ns_id"] == of_incident.ns_id(COLD)
    # It serves a moment before it is asked.
    assert began - 1 <= row["start_time"] / 1e6 <= answered
    # Clients who ask for a topic see masters only: the slave may register after them.
    assert lacked - 0.1 <= row["end_time"] / 1e6 <= max(whole, max(back(of_incident).values()) / 1e6) + 0.1
    # Who happens to register at once is not lacked.
    assert set(row["lacked"]) == {
        broker for broker, at in back(of_incident).items() if at - row["start_time"] > PRESENCE_US
    }
    assert row["lacked"]
    assert (
        of_incident.published("divergence", kind="presence")
        == of_incident.published("divergence", kind="address")
        == []
    )


def test_wrong_responses_of_the_cold_name_server_are_counted(of_incident):
    (row,), _ = cold_rows(of_incident)
    wrong = of_incident.truth.answers(COLD, "code 17")
    # Ticks tell it each 10 s: the cold time may have been over before the first.
    ticks = [
        tick["not_found_total"]
        for tick in of_incident.rows["ns_tick"]
        if tick["ns_id"] == row["ns_id"] and row["start_time"] < tick["event_time"] <= row["end_time"]
    ]
    assert row["not_found_min"] == max(ticks, default=0) <= wrong
    assert row["not_found_max"] is None or row["not_found_max"] >= wrong


# The page


@pytest.mark.parametrize(
    ("job_id", "wrong"),
    [
        # Shares of two minutes, of which one was an incident, are none that anybody could go by.
        ("A1", "%"),
        ("A2", "%"),
        # Nobody was given up for silence.
        ("A4", "silence"),
        ("A5", "are right|should have"),
        ("A6", "All NameServers agreed"),
        # In the end there was one set.
        ("A8", r"\bevenly"),
        ("A13", "behaved as it always does"),
    ],
)
def test_page_states_nothing_false(of_incident, job_id, wrong):
    assert not re.search(wrong, of_incident.answer(job_id)), of_incident.answer(job_id)


@pytest.mark.parametrize("job_id", ["A1", "A2"])
def test_the_page_counts_no_broker_twice(of_incident, job_id):
    """One that became master has had two broker ids."""
    counted = re.search(r"of (\d+) brokers", of_incident.answer(job_id))
    assert not counted or int(counted[1]) <= len(of_incident.truth.brokers) + 1, of_incident.answer(job_id)


def test_page_states_what_happened(of_incident):
    assert of_incident.ns_id(COLD) in of_incident.answer("A6")
    assert re.match("1 failover", of_incident.answer("A10"))
    assert f"{LONE}:0" in of_incident.section("A2")
    assert re.search(rf"\b{TOPIC}\b", of_incident.answer("A7"))


# Another opinion


@pytest.mark.parametrize("job_id", JOBS)
def test_plain_model_gives_the_same_result(of_incident, job_id):
    plan = Plan(start_us=of_incident.window.start_us, end_us=of_incident.window.end_us, servers=(), brokers=())
    (job,) = load_jobs([job_id])
    assert judged(job_id, plan, of_incident, of_incident.published(job.name)) == []
