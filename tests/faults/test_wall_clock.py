"""The wall clock is set while the server runs: what waits goes on waiting, and only records tell the other time."""

import email.utils
import http.client
import json
import socket
import threading
import time
from datetime import datetime

import pytest
from peers.clocks import WallClock, why_not
from peers.programs import cannot_run
from peers.scripted import Line, ScriptedBroker
from peers.waiting import holds_for, wait_until
from peers.wire import QUERY_DATA_VERSION, REGISTER_BROKER

from remoting.clock import SystemClock

SCAN_MS = 200
#: Longer than a slow machine lets a thread wait, shorter than the jumps by far.
TIMEOUT_MS = 2000
HEARTBEAT_S = 0.2
HOUR_S = 3600
#: How far what the server says may be from what its clock should show.
ROOM_S = 60


@pytest.fixture
def wall_clock(tmp_path):
    if reason := why_not():
        cannot_run(reason)
    return WallClock(tmp_path)


@pytest.fixture
def server(lab, wall_clock):
    settings = {"scanNotActiveBrokerInterval": SCAN_MS, "environment": wall_clock.environment}
    server = lab.name_server("namesrv", http=True, **settings)
    server.process.wait_for("server_ready", seconds=10)
    return server


@pytest.fixture
def beating(server):
    """A broker that beats in a thread of its own, so that no look at the server delays it."""
    broker = registered_broker(server, "beating")
    stopped = threading.Event()

    def heartbeat():
        while not stopped.wait(HEARTBEAT_S):
            broker.heartbeat()

    thread = threading.Thread(target=heartbeat)
    thread.start()
    yield broker
    stopped.set()
    thread.join()
    broker.close()


def registered_broker(server, name):
    line = Line(socket.create_connection(("127.0.0.1", server.port), timeout=10))
    broker = ScriptedBroker(line, name, address=f"{name}:10911", timeout_ms=TIMEOUT_MS)
    broker.register({"topic": 4, name: 4})
    return broker


def is_about(unix_s, offset_s):
    return abs(unix_s - SystemClock().unix_ms() / 1000 - offset_s) < ROOM_S


def get_http(connection, path):
    """Ask over a connection that is kept, and return the time that the answer says it was made, and its body."""
    connection.request("GET", path)
    answer = connection.getresponse()
    return email.utils.parsedate_to_datetime(answer.headers["Date"]).timestamp(), answer.read().decode()


def last_heartbeat(scrape):
    (line,) = [
        line
        for line in scrape.splitlines()
        if line.startswith("rocketmq_namesrv_broker_last_heartbeat_timestamp_seconds{") and "beating" in line
    ]
    return float(line.rpartition(" ")[2])


def check_reported_times(server, connection, offset_s):
    """Check each moment and each duration that the server tells anybody."""
    date, text = get_http(connection, "/v1/brokers")
    assert is_about(date, offset_s)
    (view,) = [each for each in json.loads(text)["items"] if each["brokerName"] == "beating"]
    assert 0 <= view["lastHeartbeatAgeMs"] < TIMEOUT_MS
    # The last one may have come before the clock was set.
    wait_until(
        lambda: is_about(last_heartbeat(get_http(connection, "/metrics")[1]), offset_s),
        seconds=20,
        what="a heartbeat by the clock as it is now",
    )
    # A registration that does not say when its topics changed counts as changed now.
    identity = {"clusterName": "C", "brokerName": f"undated{offset_s}", "brokerAddr": "undated:10911"}
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as plain:
        line, body = Line(plain), b'{"topicConfigSerializeWrapper":{"topicConfigTable":{}}}'
        line.request(REGISTER_BROKER, identity | {"brokerId": "0"}, body)
        version = line.request(QUERY_DATA_VERSION, identity).json
    assert is_about(version["timestamp"] / 1000, offset_s)
    logged = json.loads(server.process.wait_for(rf'^{{.*"broker_registered".*undated{offset_s}".*$', seconds=10)[0])
    assert is_about(datetime.fromisoformat(logged["timestamp"]).timestamp(), offset_s)


def check_that_timers_run(server, beating):
    """Check that a silent broker leaves in its time, and one that beats stays all the while."""
    silent = registered_broker(server, "silent")
    start = time.perf_counter()
    wait_until(lambda: not server.caller.addresses("silent"), seconds=10 + TIMEOUT_MS / 1000, what="the removal")
    assert time.perf_counter() - start > TIMEOUT_MS / 2000
    assert server.caller.addresses("beating") == {"0": beating.address}
    silent.close()


def test_wall_clock_set_by_an_hour_expires_no_broker_and_changes_only_recorded_times(server, wall_clock, beating):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10)
    for offset_s in (HOUR_S, 0, -HOUR_S):
        wall_clock.jump_to(offset_s)
        holds_for(lambda: server.caller.addresses("beating"), seconds=3 * SCAN_MS / 1000, what="the broker is there")
        check_that_timers_run(server, beating)
        check_reported_times(server, connection, offset_s)
    connection.close()
