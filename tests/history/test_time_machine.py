"""`rmq history` over histories that are torn or cut short: what it says is so, or it says why not."""

import json
import re
from datetime import datetime

import pytest
from written_history import HOUR, SECOND, SETTINGS, THEN, Server, now, seal_all

from history import rows
from history.past.broker_events import timeline
from history.past.rows import StoredRow
from history.rows import BrokerRef
from history.schemas import BROKER_STATE, ROUTE_SNAPSHOT, SCALING
from history.server_rows import HEARTBEATS_MISSING, STATES_MISSING, lifecycle, tick
from rmq.cli import command_line
from rmq.commands.table import COMMANDS


@pytest.fixture(autouse=True)
def all_closed():
    yield
    seal_all()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.seal()


@pytest.fixture
def time_machine(tmp_path, capsys):
    """Ask the command; returns its exit code, what it said and what it complained of."""

    def run(*words):
        code = command_line.run(COMMANDS, ["--history", str(tmp_path), "history", *map(str, words)])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return run


@pytest.fixture
def route(time_machine):
    """Ask for the route of `orders`, or another topic; returns its read queues by broker, and the doubt."""

    def run(at, topic="orders"):
        code, out, error = time_machine("route", topic, "--at", at.isoformat(), "--body")
        assert code == 0, error
        streams = json.loads(out)
        body = json.loads(streams["route"]) if streams["route"] else None
        return body and {each["brokerName"]: each["readQueueNums"] for each in body["queueDatas"]}, streams["doubt"]

    return run


def test_time_after_a_crash_or_pause_is_unobserved(server, route):
    server.starts(THEN)
    server.registers(THEN, "a", orders=4)
    server.ticks(THEN, THEN + 60 * SECOND)
    server.note(THEN + 180 * SECOND, tick({"interval_ms": 120_000}))
    server.ticks(THEN + 190 * SECOND, THEN + 240 * SECOND)
    assert route(THEN + 55 * SECOND) == ({"a": 4}, "")
    for seconds in (61, 100, 179):
        stood_still = route(THEN + seconds * SECOND)
        assert stood_still[0] == {"a": 4}
        assert "the NameServer was paused or down" in stood_still[1]
    assert route(THEN + 185 * SECOND)[1] == ""
    assert "the NameServer was paused or down" in route(THEN + 241 * SECOND)[1]


def test_answer_after_an_orderly_stop_names_its_time(server, route):
    server.starts(THEN)
    server.ticks(THEN, THEN + 30 * SECOND)
    server.note(THEN + 31 * SECOND, lifecycle("stopping"))
    assert route(THEN + 30.5 * SECOND)[1] == ""
    assert "had stopped at" in route(THEN + 33 * SECOND)[1]


def test_last_seconds_are_observed_before_their_tick(server, route):
    began = now() - 20 * SECOND
    server.starts(began)
    server.registers(began, "a", orders=4)
    server.ticks(began, began + 10 * SECOND)
    assert route(now()) == ({"a": 4}, "")


def test_server_older_than_its_files_is_read_from_its_snapshot(server, route):
    server.shows(THEN, "a", "orders", 8)
    server.has(THEN + SECOND, "a", "orders", 16)
    server.ticks(THEN, THEN + 30 * SECOND)
    assert route(THEN + 20 * SECOND) == ({"a": 16}, "")
    assert route(THEN + 0.5 * SECOND) == ({"a": 8}, "")


def test_incomplete_snapshot_is_ignored(server, route):
    server.shows(THEN, "a", "orders", 8)
    server.shows(THEN + 60 * SECOND, "b", "orders", 4, rows=2)
    server.ticks(THEN, THEN + 90 * SECOND)
    assert route(THEN + 80 * SECOND) == ({"a": 8}, "")
    assert route(THEN + 50 * SECOND) == ({"a": 8}, "")


def test_snapshot_of_schema_version_1_is_used_although_it_counts_topics(server, route, monkeypatch):
    monkeypatch.setattr(rows, "SCHEMA_VERSION", 1)
    server.shows(THEN, "broker-a", "orders", 4, rows=3)
    server.ticks(THEN, THEN + 30 * SECOND)
    assert route(THEN + 20 * SECOND) == ({"broker-a": 4}, "")


def test_without_start_and_snapshot_the_answer_is_unknown(server, route, time_machine):
    server.note(THEN, lifecycle("configured", detail=SETTINGS))
    server.ticks(THEN, THEN + 30 * SECOND)
    assert "routes are not known" in route(THEN + 20 * SECOND)[1]
    code, out, _ = time_machine("route", "orders", "--at", (THEN + 20 * SECOND).isoformat())
    assert (code, "not_known" in out) == (0, True)


def test_new_process_starts_without_the_routes_of_the_previous_one(server, route, tmp_path):
    server.starts(THEN)
    server.shows(THEN + SECOND, "a", "orders", 8)
    server.ticks(THEN, THEN + 30 * SECOND)
    reborn = Server(tmp_path, boot=1_700_000_000_001)
    reborn.starts(THEN + 40 * SECOND)
    reborn.ticks(THEN + 40 * SECOND, THEN + 90 * SECOND)
    reborn.registers(THEN + 60 * SECOND, "b", orders=2)
    reborn.seal()
    assert route(THEN + 25 * SECOND) == ({"a": 8}, "")
    assert route(THEN + 50 * SECOND) == (None, "")
    assert route(THEN + 70 * SECOND) == ({"b": 2}, "")


def test_missing_changes_carry_a_warning_until_the_next_snapshot(server, route):
    server.starts(THEN)
    server.registers(THEN, "a", orders=4)
    server.ticks(THEN, THEN + 120 * SECOND)
    server.resumes(THEN + 50 * SECOND, THEN + 30 * SECOND, STATES_MISSING)
    server.shows(THEN + 70 * SECOND, "a", "orders", 16)
    assert route(THEN + 25 * SECOND) == ({"a": 4}, "")
    for seconds in (35, 60):
        assert "changes are missing from" in route(THEN + seconds * SECOND)[1]
    assert route(THEN + 80 * SECOND) == ({"a": 16}, "")


def test_missing_heartbeats_carry_no_warning(server, route):
    server.starts(THEN)
    server.ticks(THEN, THEN + 60 * SECOND)
    server.resumes(THEN + 40 * SECOND, THEN + 10 * SECOND, HEARTBEATS_MISSING)
    assert route(THEN + 30 * SECOND) == (None, "")


def test_time_that_a_clock_showed_twice_carries_a_warning(server, route):
    server.starts(THEN)
    for step in range(30):
        server.note(THEN + (step % 15) * 10 * SECOND, tick({"interval_ms": 10_000}), mono=step * 10_000_000)
    assert "showed this time twice" in route(THEN + 65 * SECOND)[1]


@pytest.mark.parametrize(
    "topic", ['with "quotes"', "back\\slash", "täglich/日本", "%RETRY%group", "a.b*c", "tab\there"]
)
def test_topic_of_any_name_is_found(server, route, topic):
    server.starts(THEN)
    server.registers(THEN, "a", **{topic: 4, f"{topic}2": 8})
    server.ticks(THEN, THEN + 30 * SECOND)
    assert route(THEN + 20 * SECOND, topic) == ({"a": 4}, "")


def test_deleted_and_recreated_topic_has_its_new_queues(server, route):
    server.starts(THEN)
    server.registers(THEN, "a", orders=4)
    server.registers(THEN, "b", orders=4)
    server.has(THEN + 10 * SECOND, "a", "orders", 0)
    server.has(THEN + 12 * SECOND, "b", "orders", 0)
    server.has(THEN + 20 * SECOND, "a", "orders", 2)
    server.ticks(THEN, THEN + 40 * SECOND)
    assert route(THEN + 11 * SECOND) == ({"b": 4}, "")
    assert route(THEN + 15 * SECOND) == (None, "")
    assert route(THEN + 25 * SECOND) == ({"a": 2}, "")


def test_changed_properties_during_a_snapshot_hide_no_order_configuration(server, time_machine):
    server.starts(THEN - 2 * HOUR)
    server.shows(THEN, "a", "orders", 8)
    # As if it had come between two pieces of the snapshot: later in time, before its end.
    server.note(THEN, lifecycle("configured", detail=SETTINGS))
    server.row(THEN, ROUTE_SNAPSHOT, "finished", snapshot_id=f"{THEN.timestamp()}", scope="all", rows=1)
    server.ticks(THEN, THEN + 30 * SECOND)
    _, out, _ = time_machine("route", "orders", "--at", (THEN + 20 * SECOND).isoformat(), "-o", "json")
    assert [row["orderTopicConf"] for row in json.loads(out)["items"]] == ["a:8"]


def test_torn_lines_are_skipped_and_counted(server, tmp_path, route, time_machine):
    server.starts(THEN)
    server.registers(THEN, "a", orders=4)
    server.ticks(THEN, THEN + 30 * SECOND)
    server.seal()
    for path in tmp_path.rglob("*.jsonl"):
        whole = path.read_bytes()
        boot, topic = b'"host_9876-1700000000000"', b'"orders"'
        path.write_bytes(b'{"torn":' + boot + topic + b'"configured"\n' + b"\0" * 100 + b"\n" + whole)
    assert route(THEN + 20 * SECOND) == ({"a": 4}, "")
    _, _, error = time_machine("route", "orders", "--at", (THEN + 20 * SECOND).isoformat())
    assert "unreadable lines are left out" in error


def test_diff_names_what_is_unknown_of_either_time_and_of_later_servers(server, time_machine, tmp_path):
    server.starts(THEN)
    server.registers(THEN, "a", orders=4)
    server.ticks(THEN, THEN + 60 * SECOND)
    server.has(THEN + 30 * SECOND, "a", "orders", 4, flag=1)
    other = Server(tmp_path, "other:9876")
    other.starts(THEN + 40 * SECOND)
    other.ticks(THEN + 40 * SECOND, THEN + 60 * SECOND)
    other.seal()
    words = ("route", "orders", "--at", (THEN + 20 * SECOND).isoformat(), "-o", "json", "--diff")
    code, out, _ = time_machine(*words, (THEN + 50 * SECOND).isoformat())
    assert code == 0
    assert [(row["nsId"], row["change"], row["topicSysFlag"]) for row in json.loads(out)["items"]] == [
        ("host_9876", "removed", None),
        ("host_9876", "added", 1),
        ("other_9876", "added", None),
    ]
    _, _, error = time_machine(*words, (THEN + 5 * HOUR).isoformat())
    assert "after, host_9876: unobserved: the NameServer" in error


def test_unknown_server_or_time_is_answered_with_what_exists(server, time_machine):
    server.starts(THEN)
    printed = re.escape(f"the history has host_9876, from {THEN.isoformat()} to {THEN.isoformat()}")
    for words, what in (
        (("--at", (THEN - HOUR).isoformat()), f"no NameServer recorded anything in the 31 days before .*; {printed}"),
        (("--ns-id", "host"), f"no NameServer host recorded anything in .*; {printed}"),
    ):
        code, _, error = time_machine("route", "orders", *words)
        assert (code, bool(re.search(what, error))) == (4, True), error


def test_time_without_a_zone_is_utc(server, route):
    server.starts(THEN)
    server.registers(THEN + 10 * SECOND, "a", orders=4)
    server.ticks(THEN, THEN + 40 * SECOND)
    at = THEN + 20 * SECOND
    in_india = at.astimezone(datetime.fromisoformat("2026-01-01T00:00:00+05:30").tzinfo)
    assert in_india.isoformat() != at.isoformat()
    for each in (at, in_india, at.replace(tzinfo=None)):
        assert route(each) == ({"a": 4}, "")


def test_empty_history_folder_is_reported(tmp_path, time_machine):
    (tmp_path / "landing/v1").mkdir(parents=True)
    code, _, error = time_machine("route", "orders")
    assert (code, "the history has nothing of any NameServer" in error) == (4, True)


def test_broker_events_include_unobserved_times(server, time_machine):
    server.starts(THEN)
    server.registers(THEN + SECOND, 'a "b"', orders=4)
    server.ticks(THEN, THEN + 30 * SECOND)
    server.note(THEN + 90 * SECOND, tick({"interval_ms": 60_000}))
    server.resumes(THEN + 100 * SECOND, THEN + 95 * SECOND, STATES_MISSING)
    span = ("--from", THEN.isoformat(), "--to", (THEN + HOUR).isoformat())
    code, out, _ = time_machine("timeline", 'a "b"', *span, "-o", "json")
    assert code == 0
    printed = [row["event"] for row in json.loads(out)["items"]]
    assert [line.split(":")[0] for line in printed] == [
        "this server starts; what it was before is not in the history",
        "registers",
        "this server was paused for 60000 ms, and observed nothing",
        "this server records again",
    ]
    assert "was paused for 60000 ms" in printed[2]
    code, out, error = time_machine("timeline", "nobody", *span)
    assert (code, "nothing happened to nobody" in error, "was paused" in out) == (4, True, True)


@pytest.mark.parametrize(
    ("event_type", "columns", "sentence"),
    [
        ("master_changed", {"new_master": 1, "broker_addr": "b:1"}, "master 1 at b:1, epoch 2, no master before"),
        ("master_changed", {"old_master": 1, "former_addr": "b:1"}, "no master, epoch 2, was 1 at b:1"),
        ("elected", {"new_master": 1}, "election ends (done): master 1, epoch 2, no master before; unknown"),
        ("elected", {"old_master": 1, "reason": "why"}, "election ends (done): no master, epoch 2, was 1; why"),
        ("unregistered", {"role": "slave"}, "slave unknown unregisters"),
    ],
)
def test_timeline_has_words_for_what_is_unknown_and_for_no_master(event_type, columns, sentence):
    common = {
        "event_id": "boot-1",
        "event_time": THEN,
        "ns_id": "c",
        "boot_id": "boot",
        "master_epoch": 2,
        "result": "done",
    }
    (event,) = timeline([StoredRow(event_type=event_type, **common | columns)])
    assert event.sentence == sentence


def test_resizes_of_its_topics_are_events_of_a_broker(server, time_machine):
    server.starts(THEN)
    about = {"operation_id": "orders.1", "topic": "orders", "kind": "shrink", "from_write": 16, "to_write": 8}
    about |= {"broker_names": ["a", "b"], "requested_by": "an operator"}
    server.row(THEN + SECOND, SCALING, "plan", step="PLANNED", **about)
    blocked = {"former_step": "DRAIN", "step": "BLOCKED", "duration_ms": 9, "problem": "readers does not consume"}
    server.row(THEN + 2 * SECOND, SCALING, "step_started", **about, **blocked)
    server.row(THEN + 3 * SECOND, SCALING, "step_started", **about, former_step="BLOCKED", step="DRAIN", duration_ms=1)
    server.row(THEN + 4 * SECOND, SCALING, "verified", **about, step="DONE")
    server.row(THEN + 5 * SECOND, SCALING, "plan", **(about | {"broker_names": ["c"]}), step="PLANNED")
    span = ("--from", THEN.isoformat(), "--to", (THEN + HOUR).isoformat())
    code, out, _ = time_machine("timeline", "a", *span, "-o", "json")
    assert code == 0
    assert [row["event"] for row in json.loads(out)["items"]][1:] == [
        "a resize of orders is planned (shrink, by an operator): 16 to 8 queues in all",
        "the resize of orders goes from DRAIN to BLOCKED after 9 ms: readers does not consume",
        "the resize of orders goes from BLOCKED to DRAIN after 1 ms",
        "the resize of orders is done: it has 8 queues in all",
    ]


def test_last_heartbeat_is_not_listed_before_the_registration(server, time_machine):
    server.starts(THEN)
    server.registers(THEN + SECOND, "a", orders=4)
    gone = THEN + 2 * SECOND
    # Silence is counted in whole ms: the beat that it counts from seems to be older than it is.
    last_heartbeat = int((THEN + SECOND).timestamp() * 1e6) - 1000
    row = {"role": "master", "silent_ms": 1001, "last_heartbeat_time": last_heartbeat}
    server.row(gone, BROKER_STATE, "channel_closed", BrokerRef("C", "a", 0, "a:1"), **row)
    code, out, _ = time_machine(
        "timeline", "a", "--from", THEN.isoformat(), "--to", (THEN + HOUR).isoformat(), "-o", "json"
    )
    printed = [row["event"] for row in json.loads(out)["items"]]
    assert (code, [line.split(":")[0] for line in printed[1:]]) == (
        0,
        ["registers", "last heartbeat of broker 0", "master 0 leaves"],
    )
