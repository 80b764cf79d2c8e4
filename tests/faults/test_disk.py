"""A disk that is full or read-only: what cannot be kept is refused, and everything else goes on."""

import json
import socket
import urllib.request

import pytest
from peers.disks import SmallDisk, why_not
from peers.programs import cannot_run
from peers.scripted import Line, ScriptedBroker
from peers.waiting import wait_until
from peers.wire import GET_CONFIG, GET_KV_CONFIG, PUT_KV_CONFIG, SUCCESS, SYSTEM_ERROR, UPDATE_CONFIG, brokers_in

ENTRY = {"namespace": "NS", "key": "k"}
OPTION = "waitSecondsForService"
TOPIC = "topic"
LOST_LINES = "rocketmq_namesrv_log_lines_dropped_total"
BEFORE = "old" + "v" * 6_000
AFTER = "new" + "w" * 6_000


@pytest.fixture
def disk(tmp_path):
    if reason := why_not():
        cannot_run(reason)
    return SmallDisk(tmp_path / "data")


@pytest.fixture
def server(lab, disk):
    server = lab.name_server("namesrv", **on(disk))
    disk.attach(server.process)
    return server


@pytest.fixture
def broker(server):
    broker = registered_broker(server, "broker-a")
    yield broker
    broker.close()


def on(disk, **wrapping):
    """Return the settings of a server that keeps its files on a disk."""
    return {
        "http": True,
        "wrapper": disk.wrapper(**wrapping),
        "environment": {"RMQ_NAMESRV_CONFIG_STORE_PATH": str(disk.folder / "namesrv.properties")},
        "kvConfigPath": disk.folder / "kvConfig.json",
        "configWhiteList": OPTION,
    }


def registered_broker(server, name):
    line = Line(socket.create_connection(("127.0.0.1", server.port), timeout=10))
    broker = ScriptedBroker(line, name, address=f"{name}:10911")
    broker.register({TOPIC: 4, name: 4})
    return broker


def put(server, value):
    return server.caller.request(PUT_KV_CONFIG, ENTRY | {"value": value})


def update(server, value):
    return server.caller.request(UPDATE_CONFIG, {}, f"{OPTION}={value}\n".encode())


def check_values(server, disk, *, entry, option):
    """Check that entry and option are these, by request and on disk."""
    assert server.caller.request(GET_KV_CONFIG, ENTRY).fields["value"] == entry
    assert f"{OPTION}={option}" in server.caller.request(GET_CONFIG).body.decode().splitlines()
    assert json.loads(disk.path("kvConfig.json").read_text())["configTable"] == {"NS": {"k": entry}}
    assert f"{OPTION}={option}" in disk.path("namesrv.properties").read_text().splitlines()


def check_refusals(server, disk, reason):
    for answer, name in ((put(server, AFTER), "kvConfig.json"), (update(server, 8), "namesrv.properties")):
        assert (answer.code, answer.remark) == (SYSTEM_ERROR, f"cannot write {disk.folder / name}: {reason}")
    check_values(server, disk, entry=BEFORE, option=7)
    assert not [path.name for path in disk.path().iterdir() if path.name.endswith(".tmp")]


def check_that_routes_are_served(server, *brokers):
    for broker in brokers:
        broker.register({TOPIC: 4, broker.name: 4})
    assert brokers_in(server.caller.route(TOPIC)) == {broker.name for broker in brokers}


def check_that_writes_succeed(server, disk):
    assert put(server, AFTER).code == update(server, 8).code == SUCCESS
    check_values(server, disk, entry=AFTER, option=8)


def test_full_disk_refuses_changes_until_space_is_free_and_routes_are_served(server, disk, broker):
    assert put(server, BEFORE).code == update(server, 7).code == SUCCESS
    disk.fill()
    check_refusals(server, disk, "No space left on device")
    check_that_routes_are_served(server, broker)
    disk.make_room()
    check_that_writes_succeed(server, disk)
    check_that_routes_are_served(server, broker)


def test_disk_with_space_for_part_of_a_change_keeps_the_old_value(server, disk):
    assert put(server, "first").code == put(server, BEFORE).code == SUCCESS
    assert update(server, 6).code == update(server, 7).code == SUCCESS
    refused = 0
    # The file before, as its backup, and the new file have two pages each here.
    for pages in range(6):
        disk.fill(pages_left=pages)
        answer = put(server, AFTER)
        if answer.code == SUCCESS:
            check_values(server, disk, entry=AFTER, option=7)
            assert put(server, BEFORE).code == SUCCESS
        else:
            refused += 1
            check_values(server, disk, entry=BEFORE, option=7)
        disk.make_room()
    assert 0 < refused < 6


def test_read_only_disk_refuses_changes_until_it_is_writable(server, disk, broker):
    assert put(server, BEFORE).code == update(server, 7).code == SUCCESS
    disk.set_read_only(True)
    check_refusals(server, disk, "Read-only file system")
    check_that_routes_are_served(server, broker)
    disk.set_read_only(False)
    check_that_writes_succeed(server, disk)


def test_server_on_a_read_only_disk_starts_and_serves_the_stored_values(lab, disk):
    (disk.folder / "kvConfig.json").write_text(json.dumps({"configTable": {"NS": {"k": BEFORE}}}))
    (disk.folder / "namesrv.properties").write_text(f"{OPTION}=7\n")
    # What a crash left cannot be removed, and is in nobody's way.
    (disk.folder / ".kvConfig.json.left.tmp").write_text("{")
    server = lab.name_server("namesrv", waitSecondsForService=7, **on(disk, read_only=True))
    disk.attach(server.process)
    assert put(server, AFTER).remark == f"cannot write {disk.folder / 'kvConfig.json'}: Read-only file system"
    assert update(server, 8).code == SYSTEM_ERROR
    check_values(server, disk, entry=BEFORE, option=7)
    broker = registered_broker(server, "broker-a")
    check_that_routes_are_served(server, broker)
    broker.close()
    disk.set_read_only(False)
    check_that_writes_succeed(server, disk)


def test_full_disk_of_the_log_delays_no_request_and_logging_resumes_with_free_space(lab, disk):
    server = lab.idle_name_server("namesrv", **on(disk, output="output.log"))
    server.process = server._launch()
    wait_until(server.caller.is_up, seconds=30, what="an answer")
    disk.attach(server.process)
    wait_until(lambda: "server_ready" in log(disk), seconds=10, what="the last line of the start")
    disk.fill()
    brokers = [registered_broker(server, f"broker-{number}") for number in range(100)]
    check_that_routes_are_served(server, *brokers)
    wait_until(lambda: lines_lost(server) > 0, seconds=10, what="lines are counted as lost")
    assert put(server, AFTER).code == SYSTEM_ERROR
    disk.make_room()
    assert put(server, BEFORE).code == SUCCESS
    brokers.append(registered_broker(server, "heard"))
    wait_until(lambda: '"broker":"heard"' in log(disk), seconds=10, what="a line about the last broker")
    # The line that the disk had no room for stands alone: none was written on behind it.
    assert [line for line in log(disk).splitlines() if line.count('"level":') > 1] == []
    check_that_routes_are_served(server, *brokers)
    for broker in brokers:
        broker.close()


def log(disk):
    return disk.path("output.log").read_text(errors="replace")


def lines_lost(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=5) as answer:
        (line,) = [line for line in answer.read().decode().splitlines() if line.startswith(LOST_LINES)]
    return float(line.split()[1])
