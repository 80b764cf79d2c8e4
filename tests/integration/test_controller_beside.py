"""enableControllerInNamesrv: a NameServer and a controller in one process, from one file."""

import json
import urllib.request

import pytest
from peers.controllers import GET_METADATA
from peers.processes import free_port
from peers.wire import GET_CLUSTER_INFO, Caller

NOT_STARTED = 255


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
    assert server.caller.ask(GET_CLUSTER_INFO).code == 0
    assert Caller(address).ask(GET_METADATA).fields["controllerLeaderAddress"] == address
    for port in (server.http_port, beside["controllerHttpPort"]):
        server.process.wait_for(rf'"http_addr":"127.0.0.1:{port}"', seconds=30)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            assert json.load(answer) == {"status": "ready"}
    assert server.process.stop() == 0
    stopped = [line for line in lines(server) if line["event"] == "server_stopped"]
    assert {"ns_id", "controller_id"} <= set().union(*stopped)


def test_what_is_the_controllers_in_the_file_is_not_reported_as_unknown(lab, beside):
    server = lab.name_server("namesrv", **beside, controllerDLegerPeers="n0-127.0.0.1:1", nobodyKnows=1)
    server.process.wait_for(r"^The Controller Server boot success", seconds=30)
    ignored = [(line["property"], line["reason"]) for line in lines(server) if line["event"] == "option_ignored"]
    assert sorted(ignored) == [("controllerDLegerPeers", "no effect"), ("nobodyKnows", "unknown")]


def test_a_controller_that_cannot_start_ends_the_nameserver_too(lab, beside, tmp_path):
    (tmp_path / "sets").write_text("a file in the place of the folder")
    server = lab.idle_name_server("namesrv", **beside)
    process = server._launch()
    assert process.wait(seconds=30) == NOT_STARTED
    assert f"{tmp_path / 'sets'}" in process.text()
