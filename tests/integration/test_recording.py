"""The history of a server, as an operator meets it: any route of the past, and nothing that was not so."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest
from peers.disks import SmallDisk, why_not
from peers.jars import REPOSITORY
from peers.programs import cannot_run
from peers.scripted import Line, ScriptedBroker, route_query
from peers.waiting import wait_until
from peers.wire import PUT_KV_CONFIG, SUCCESS, TOPIC_NOT_EXIST, brokers_in

from history.landing import LANDING, lines_of
from remoting.clock import SystemClock

TOPIC = "orders"
KILLS = 8


class Past:
    """What a server has recorded, asked for with the command."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, *words):
        command = [sys.executable, "-m", "rmq", "--history", str(self.folder), "history", *map(str, words)]
        env = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        ended = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        return ended.returncode, ended.stdout, ended.stderr

    def route(self, at):
        """Return the body that was served at a time, and what speaks against it."""
        code, out, error = self.run("route", TOPIC, "--at", at.isoformat(), "--body")
        assert code == 0, error
        (line,) = out.splitlines()
        decoded = json.loads(line)
        return None if decoded["route"] is None else json.loads(decoded["route"]), decoded["doubt"]

    def rows(self, family=None):
        pattern = f"family={family or '*'}/date=*/hour=*/*"
        paths = sorted((self.folder / LANDING).glob(pattern))
        return [json.loads(line) for path in paths for line in lines_of(path)]

    def boots(self):
        return {row["boot_id"] for row in self.rows("ns_lifecycle")}


def number_of(row):
    return int(row["event_id"].rpartition("-")[2])


@pytest.fixture
def past(tmp_path):
    return Past(tmp_path / "history")


@pytest.fixture
def server(lab, past):
    return lab.name_server("namesrv", http=True, historyDir=past.folder, configWhiteList="orderMessageEnable")


def a_broker(server, name, **values):
    line = Line(socket.create_connection(("127.0.0.1", server.port), timeout=10))
    return ScriptedBroker(line, name, address=f"{name}:10911", **values)


def served(server):
    code, fields = route_query(TOPIC, standard=True)
    answer = server.caller.request(code, fields)
    return answer.json if answer.code == SUCCESS else None


def now():
    return datetime.fromtimestamp(SystemClock().unix_us() / 1e6, UTC)


def metric(server, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def test_any_route_of_the_past_is_shown_as_it_was_served(server, past):
    moments = [(now(), None)]

    def note():
        # What was done is over by then, and what comes next has not begun.
        time.sleep(0.02)
        moments.append((now(), served(server)))
        time.sleep(0.02)

    first, second = a_broker(server, "broker-a"), a_broker(server, "broker-b")
    first.register({TOPIC: 4, "other": 8})
    note()
    second.register({TOPIC: 16, "other": 8})
    note()
    first.register({TOPIC: 8, "other": 8, "new": 1}, counter=2)
    note()
    server.caller.request(PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", "key": TOPIC, "value": "broker-a:8"})
    assert server.caller.request(318, {}, b"orderMessageEnable=true\n").code == SUCCESS
    note()
    second.close()
    wait_until(lambda: brokers_in(server.caller.route(TOPIC)) == {"broker-a"}, seconds=20, what="a lost broker")
    note()
    first.register({f"topic-{number}": 4 for number in range(1500)} | {TOPIC: 8}, counter=3)
    note()
    first.close()
    wait_until(lambda: served(server) is None, seconds=20, what="no route")
    note()
    bodies = [body for _, body in moments]
    assert len({json.dumps(body, sort_keys=True) for body in bodies}) >= 6
    last = moments[-1][0]
    wait_until(
        lambda: any(
            row.get("event_type") == "channel_closed" and row.get("broker_name") == "broker-a"
            for row in past.rows("broker_state")
        ),
        seconds=20,
        what="the last change in the files",
    )
    for at, body in moments[1:]:
        assert past.route(at) == (body, "")
    span = ("--at", moments[1][0].isoformat(), "--diff", moments[2][0].isoformat())
    code, out, _ = past.run("route", TOPIC, *span, "-o", "json")
    (row,) = json.loads(out)["items"]
    assert (code, row["change"], row["brokerAddrs"]) == (0, "added", {"0": "broker-b:10911"})
    code, out, _ = past.run("timeline", "broker-b", "--to", last.isoformat(), "-o", "json")
    assert code == 0
    printed = [row["event"] for row in json.loads(out)["items"]]
    assert [line.split(":")[0] for line in printed] == [
        "this server starts; what it was before is not in the history",
        "registers",
        "last heartbeat of broker 0",
        "master 0 leaves",
    ]


def test_what_was_never_recorded_differs_from_what_was_empty(server, past, tmp_path):
    wait_until(lambda: past.rows("ns_lifecycle"), seconds=20, what="the first row")
    long_ago = now() - timedelta(hours=5)
    code, _, error = past.run("route", TOPIC, "--at", long_ago.isoformat())
    assert (code, "no NameServer recorded anything in the 31 days before" in error) == (4, True)
    code, out, error = past.run("route", TOPIC)
    assert code == 0, error
    assert "no_route" in out
    code, _, error = Past(tmp_path / "elsewhere").run("route", TOPIC)
    assert (code, "there is no history in" in error) == (2, True)
    code, _, error = past.run("route", TOPIC, "--at", "yesterday")
    assert (code, "'yesterday' is not a time; write 2026-11-21T20:00:00" in error) == (2, True)


def test_each_tick_counts_the_route_queries_that_found_no_topic_since_the_start(server, past):
    queries = 7
    for _ in range(queries):
        assert server.caller.request(*route_query("nobody has it", standard=True)).code == TOPIC_NOT_EXIST
    broker = a_broker(server, "broker-a")
    broker.register({TOPIC: 4, "other": 8})
    assert served(server) is not None
    broker.close()
    wait_until(lambda: past.rows("ns_tick"), seconds=30, what="a tick")
    assert [row.get("not_found_total") for row in past.rows("ns_tick")][:1] == [queries]


def test_a_server_that_waits_for_its_brokers_shows_how_long_it_does(lab, past):
    server = lab.name_server("waiting", historyDir=past.folder, needWaitForService="true", waitSecondsForService=3)
    wait_until(lambda: past.rows("ns_lifecycle"), seconds=20, what="the first row")
    server.process.stop()
    (printed,) = [json.loads(row["detail"]) for row in past.rows("ns_lifecycle") if row["event_type"] == "configured"]
    assert (printed["needWaitForService"], printed["waitSecondsForService"]) == (True, 3)


def test_a_server_that_is_killed_again_and_again_leaves_whole_rows_each_once_and_marks_what_nobody_saw(server, past):
    known = past.boots()
    for kill in range(KILLS):
        broker = a_broker(server, f"broker-{kill}")
        for counter in range(1, 6):
            broker.register({f"t{n}": counter for n in range(200)}, counter=counter)
            # Some die before they have written anything, others between two writings.
            time.sleep(0.03 * kill)
        if kill % 2:
            wait_until(lambda before=known: past.boots() > before, seconds=30, what="rows of this process")
        known = past.boots()
        server.process.kill()
        broker.close()
        server.start()
    server.process.stop()
    rows = past.rows()
    assert not list((past.folder / LANDING).rglob("*.part"))
    ids = [row["event_id"] for row in rows]
    assert len(ids) == len(set(ids))
    by_boot = {}
    for row in rows:
        by_boot.setdefault(row["boot_id"], []).append(number_of(row))
    assert len(by_boot) >= KILLS // 2
    # What says that the server was there is written after all that happened before: of that nothing is missing.
    vouching = [row for row in rows if row["event_type"] in ("started", "ready", "configured", "tick")]
    for boot_id, numbers in by_boot.items():
        last = max(number_of(row) for row in vouching if row["boot_id"] == boot_id)
        assert set(range(1, last + 1)) <= set(numbers)
    started = sorted((row for row in rows if row["event_type"] == "started"), key=lambda row: row["event_time"])
    assert len(started) == len(by_boot)


@pytest.fixture
def disk(tmp_path):
    if reason := why_not():
        cannot_run(reason)
    return SmallDisk(tmp_path / "data")


def test_on_a_full_disk_recording_stops_with_a_log_event_and_resumes_by_itself_while_routes_are_served(lab, disk):
    server = lab.name_server("namesrv", http=True, wrapper=disk.wrapper(), historyDir=disk.folder / "history")
    disk.attach(server.process)
    broker = a_broker(server, "broker-a")
    broker.register({TOPIC: 4, "other": 4})
    wait_until(lambda: metric(server, "rocketmq_history_recording") == 1, seconds=20, what="it records")
    disk.fill()
    for counter in range(2, 100):
        broker.register({TOPIC: counter, "other": 4}, counter=counter)
        if metric(server, "rocketmq_history_recording") == 0:
            break
        time.sleep(0.1)
    assert metric(server, "rocketmq_history_recording") == 0
    assert '"event":"recording_stopped"' in server.process.text()
    broker.register({TOPIC: 3, "other": 4}, counter=100)
    assert served(server)["queueDatas"][0]["readQueueNums"] == 3
    disk.make_room()
    wait_until(lambda: metric(server, "rocketmq_history_recording") == 1, seconds=30, what="it records again")
    assert '"event":"recording_resumed"' in server.process.text()
    past = Past(disk.path("history"))
    wait_until(lambda: past.route(now())[0]["queueDatas"][0]["readQueueNums"] == 3, seconds=20, what="nothing is lost")
    broker.close()
