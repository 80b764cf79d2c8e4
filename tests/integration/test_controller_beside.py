"""enableControllerInNamesrv: a NameServer and a controller in one process, from one file."""

import json
import urllib.request

import pytest
from peers.controllers import GET_METADATA
from peers.processes import free_port
from peers.wire import GET_CLUSTER_INFO, GET_CONFIG, SUCCESS, UPDATE_CONFIG, Caller

NOT_STARTED = 255
UPDATE_CONTROLLER_CONFIG, GET_CONTROLLER_CONFIG = 1009, 1010
NO_PERMISSION = 16


@pytest.fixture
def beside(tmp_path):
    """What stands in the file for the controller."""
    return {
        "enableControllerInNamesrv": True,
        "controllerListenPort": free_port(),
        "controllerHttpPort": free_port(),
        "controllerStorePath": tmp_path / "sets",
    }


def lines(server):
    return [json.loads(line) for line in server.process.text().splitlines() if line.startswith("{")]


def test_both_serve_and_both_stop(lab, beside):
    server = lab.name_server("namesrv", http=True, **beside)
    server.process.wait_for(r"^The Controller Server boot success", seconds=30)
    address = f"127.0.0.1:{beside['controllerListenPort']}"
    assert server.caller.request(GET_CLUSTER_INFO).code == 0
    assert Caller(address).request(GET_METADATA).fields["controllerLeaderAddress"] == address
    for port in (server.http_port, beside["controllerHttpPort"]):
        server.process.wait_for(rf'"http_addr":"127.0.0.1:{port}"', seconds=30)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            assert json.load(answer) == {"status": "ready"}
    assert server.process.stop() == 0
    stopped = [line for line in lines(server) if line["event"] == "server_stopped"]
    assert {"ns_id", "controller_id"} <= set().union(*stopped)


def test_what_is_the_controllers_in_the_file_is_not_reported_as_unknown(lab, beside):
    server = lab.name_server("namesrv", **beside, controllerDLegerGroup="group1", nobodyKnows=1)
    server.process.wait_for(r"^The Controller Server boot success", seconds=30)
    ignored = [(line["property"], line["reason"]) for line in lines(server) if line["event"] == "option_ignored"]
    assert sorted(ignored) == [("controllerDLegerGroup", "no effect"), ("nobodyKnows", "unknown")]


def test_a_controller_that_cannot_start_ends_the_nameserver_too(lab, beside, tmp_path):
    (tmp_path / "sets").write_text("a file in the place of the folder")
    server = lab.idle_name_server("namesrv", **beside)
    process = server._launch()
    assert process.wait(seconds=30) == NOT_STARTED
    assert f"{tmp_path / 'sets'}" in process.text()


def test_what_a_request_changes_of_either_is_there_after_a_restart(lab, beside):
    server = lab.name_server("namesrv", http=True, configWhiteList="suspectTimeoutMs", **beside)
    server.process.wait_for(r"^The Controller Server boot success", seconds=30)
    controller = Caller(f"127.0.0.1:{beside['controllerListenPort']}")
    path = server.folder / "namesrv.properties"
    path.write_text("# ours\n" + path.read_text())
    assert controller.request(UPDATE_CONTROLLER_CONFIG, {}, b"suspectTimeoutMs=4321").code == SUCCESS
    assert server.caller.request(UPDATE_CONFIG, {}, b"supportActingMaster=true").code == SUCCESS
    assert controller.request(UPDATE_CONTROLLER_CONFIG, {}, b"suspectTimeoutMs=4322").code == SUCCESS
    assert server.process.stop() == 0
    server.start()
    server.process.wait_for(r"^The Controller Server boot success", seconds=30)
    assert b"suspectTimeoutMs=4322\n" in controller.request(GET_CONTROLLER_CONFIG).body
    assert b"supportActingMaster=true\n" in server.caller.request(GET_CONFIG).body
    lines = path.read_text().splitlines()
    assert (lines[0], lines[-2:]) == ("# ours", ["suspectTimeoutMs=4322", "supportActingMaster=true"])
    server.process.kill()


def test_a_request_to_the_controller_changes_nothing_of_the_nameserver(lab, beside):
    """Both have a scanNotActiveBrokerInterval: Java's controller looks for brokers by it, and here the NameServer."""
    server = lab.name_server("namesrv", **beside)
    server.process.wait_for(r"^The Controller Server boot success", seconds=30)
    path = server.folder / "namesrv.properties"
    before = path.read_bytes()
    controller = Caller(f"127.0.0.1:{beside['controllerListenPort']}")
    for change in (b"scanNotActiveBrokerInterval=2147483647", b"logLevel=info", b"serverChannelMaxIdleTimeSeconds=121"):
        refused = controller.request(UPDATE_CONTROLLER_CONFIG, {}, change)
        assert (refused.code, "it is not this server's" in refused.remark) == (NO_PERMISSION, True), change
    assert path.read_bytes() == before
    server.process.kill()
