"""The console of a real NameServer process: its options, and what happens where one is wrong."""

import contextlib
import json
import urllib.error
import urllib.request

import pytest
from peers.lab import Lab
from peers.processes import free_port
from peers.wire import UPDATE_CONFIG

#: How a server ends that did not start.
NOT_STARTED = 255


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


def fetched(port, path):
    """Return status and body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def ready(server):
    server.process.wait_for(r'"event":"server_ready"', seconds=30)
    return server


def test_console_is_on_by_default_and_each_server_has_its_own(lab, tmp_path):
    ports = {"controllerListenPort": free_port(), "controllerHttpPort": free_port()}
    settings = {"enableControllerInNamesrv": "true", "controllerStorePath": tmp_path / "sets"}
    server = lab.name_server(http=True, **settings, **ports)
    for port, kind in ((server.http_port, "namesrv"), (ports["controllerHttpPort"], "controller")):
        server.process.wait_for(rf'"http_addr":"127.0.0.1:{port}"', seconds=30)
        status, page = fetched(port, "/ui/")
        assert (status, b"<!doctype html>" in page) == (200, True)
        assert json.loads(fetched(port, "/ui/session")[1])["server"] == kind
        (own,) = json.loads(fetched(port, "/ui/peers")[1])["items"]
        assert (own["kind"], own["isSelf"], own["reachable"]) == (kind, True, True)


def test_console_can_be_turned_off(lab):
    server = ready(lab.name_server(http=True, consoleEnable="false"))
    assert [fetched(server.http_port, path)[0] for path in ("/ui", "/ui/", "/ui/session", "/ui/peers")] == [404] * 4
    assert fetched(server.http_port, "/v1/clusters")[0] == 200


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("consolePeers", "controller=127.0.0.1:9881"),
        ("consoleHosts", "http://console.example.org"),
        ("consoleReadTokenFile", "/nowhere/token"),
    ],
)
def test_wrong_option_ends_the_start_with_a_sentence_that_names_it(lab, option, value):
    process = lab.idle_name_server("namesrv", http=True, **{option: value})._launch()
    assert process.wait(seconds=30) == NOT_STARTED
    assert option in process.text()


def test_no_request_changes_who_may_use_the_console(lab):
    server = ready(lab.name_server(http=True))
    for change in ("consolePeers=namesrv=http://evil:1", "consoleHosts=evil", "consoleEnable=false"):
        answer = server.caller.request(UPDATE_CONFIG, {}, change.encode())
        assert answer.code != 0
        assert change.partition("=")[0] in answer.remark
