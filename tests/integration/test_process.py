"""The process as an operator meets it: how it starts, refuses to start, reloads and stops."""

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from peers.jars import REPOSITORY
from peers.processes import Process, free_port
from peers.waiting import wait_until
from peers.wire import GET_CLUSTER_INFO, PUT_KV_CONFIG, Caller

GO_AWAY = 1500
NOT_STARTED = 255
VERSION_BEFORE_GO_AWAY = 475


@pytest.fixture
def run(tmp_path):
    """Run the command to its end, which is expected to come by itself."""

    def run(*words, **environment):
        return subprocess.run(
            [sys.executable, "-m", "namesrv", *map(str, words)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path)} | environment,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )

    return run


@pytest.fixture
def server(lab):
    return lab.name_server("namesrv", http=True)


def events(server, name):
    lines = (line for line in server.process.text().splitlines() if line.startswith("{"))
    return [line for line in map(json.loads, lines) if line["event"] == name]


def test_the_line_that_scripts_wait_for_names_the_address(lab):
    server = lab.name_server("namesrv")
    line = f"The Name Server boot success. serializeType=JSON, address 127.0.0.1:{server.port}"
    assert line in server.process.text().splitlines()


def test_an_output_that_nobody_takes_ends_nothing(tmp_path):
    port = free_port()
    words = ["--bind-address", "127.0.0.1", "--listen-port", port, "--http-port", 0]
    command = [sys.executable, "-m", "namesrv", *words, "--kv-config-path", tmp_path / "kvConfig.json"]
    with Path("/dev/full").open("wb") as full:
        server = subprocess.Popen([str(word) for word in command], stdout=full, cwd=REPOSITORY)
    try:
        wait_until(Caller(f"127.0.0.1:{port}").is_up, seconds=10, what="an answer")
    finally:
        server.terminate()
    assert server.wait(timeout=10) == 0


def test_a_server_opens_as_many_files_as_the_system_allows_and_makes_room_among_its_connections(tmp_path):
    port = free_port()
    words = f"--bind-address 127.0.0.1 --listen-port {port} --http-port 0"
    command = f"ulimit -Sn 100; ulimit -Hn 700; exec {sys.executable} -m namesrv {words}"
    env = os.environ | {"PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path)}
    server = Process("namesrv", ["bash", "-c", command], folder=tmp_path, env=env)
    caller = Caller(f"127.0.0.1:{port}")
    try:
        server.wait_for('"files_limited".*"connections_max":188', seconds=10)
        server.wait_for("server_ready", seconds=10)
        with contextlib.ExitStack() as opened:
            silent = [opened.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(188)]
            assert caller.is_up()
            wait_until(lambda: sum(map(is_closed, silent)) == 1, seconds=10, what="one that makes room")
    finally:
        server.stop()


def is_closed(peer):
    peer.setblocking(False)
    try:
        return not peer.recv(1)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_an_idle_server_does_without_the_history_and_loads_its_http_side_for_the_first_client(lab):
    server = lab.name_server("namesrv", http=True, environment={"PYTHONPROFILEIMPORTTIME": "1"})
    server.process.wait_for("server_ready", seconds=10)

    def loaded():
        return set(re.findall(r"\| +(aiohttp|history|structlog)$", server.process.text(), re.MULTILINE))

    assert not loaded()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/readyz", timeout=10) as answer:
        assert answer.status == 200
    assert "aiohttp" in loaded()


def test_a_stop_is_in_order_and_successful(server):
    server.process.signal(signal.SIGTERM)
    assert server.process.wait(seconds=5) == 0
    assert events(server, "server_stopped")


def test_the_configuration_is_printed_in_the_order_of_its_names(run):
    result = run("-p", "--listen-port", 19876, RMQ_NAMESRV_ENABLE_TOPIC_LIST="false")
    lines = result.stdout.splitlines()
    assert result.returncode == 0
    assert lines == sorted(lines)
    assert {"listenPort=19876", "enableTopicList=false"} <= set(lines)


def test_help_lists_every_property(run):
    result = run("-h")
    assert result.returncode == 0
    assert "--scan-not-active-broker-interval" in result.stdout


def test_a_java_properties_file_is_read_as_it_is(run, tmp_path):
    file = tmp_path / "namesrv.conf"
    file.write_text("# as for mqnamesrv\nlistenPort = 19876\norderMessageEnable:true\n")
    result = run("-c", file, "-p")
    assert {"listenPort=19876", "orderMessageEnable=true", f"configStorePath={file}"} <= set(result.stdout.splitlines())


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a=b\nlistenPort=many\n", ["line 2", "listenPort", "many"]),
        ("clusterTest=true\n", ["line 1", "clusterTest"]),
        ("x=\\u00g0\n", ["line 1"]),
    ],
)
def test_a_configuration_that_cannot_be_taken_ends_the_start_and_names_the_line(run, tmp_path, text, parts):
    file = tmp_path / "namesrv.conf"
    file.write_text(text)
    result = run("-c", file)
    assert result.returncode == NOT_STARTED
    for part in [*parts, str(file)]:
        assert part in result.stderr
    assert "Traceback" not in result.stderr


def test_a_missing_configuration_file_ends_the_start(run, tmp_path):
    result = run("-c", tmp_path / "nowhere.conf")
    assert result.returncode == NOT_STARTED
    assert "nowhere.conf" in result.stderr


def test_an_unknown_option_ends_the_start_with_javas_code(run):
    result = run("--lisen-port", 9876)
    assert result.returncode == 1
    assert "--lisen-port" in result.stderr


def test_a_damaged_kv_file_ends_the_start_and_names_the_way_out(run, tmp_path):
    file = tmp_path / "kvConfig.json"
    file.write_text('{"configTable":{"NS":{"k":')
    result = run("--kv-config-path", file, "--http-port", 0)
    assert result.returncode == NOT_STARTED
    assert str(file) in result.stderr
    assert "move the file away" in result.stderr


def test_a_taken_port_ends_the_start(run, server):
    result = run("--bind-address", "127.0.0.1", "--listen-port", server.port, "--http-port", 0)
    assert result.returncode == NOT_STARTED
    assert f"127.0.0.1:{server.port}" in result.stderr


def test_a_taken_http_port_ends_the_start_before_anybody_is_served(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("--bind-address", "127.0.0.1", "--listen-port", free_port(), "--http-port", port)
    assert result.returncode == NOT_STARTED
    assert str(port) in result.stderr
    assert "boot success" not in result.stdout


def test_a_misspelt_key_is_logged_with_its_line_and_the_server_starts(lab):
    server = lab.name_server("namesrv", scanNotActiveBrokerIntervall=1000)
    (warning,) = events(server, "option_ignored")
    assert warning["property"] == "scanNotActiveBrokerIntervall"
    assert warning["line"]
    assert "scanNotActiveBrokerInterval" in warning["error"]


def test_the_server_works_without_its_http_side(lab):
    server = lab.name_server("namesrv", http=False)
    server.process.wait_for("server_ready", seconds=20)
    assert server.caller.request(GET_CLUSTER_INFO).code == 0


def test_a_graceful_stop_sends_new_clients_away_and_serves_old_ones(lab):
    server = lab.name_server("namesrv", enableShutdownGracefully=True, shutdownWaitTimeSeconds=5)
    server.process.signal(signal.SIGTERM)
    wait_until(lambda: events(server, "server_draining"), seconds=5, what="the server drains")
    assert server.caller.request(GET_CLUSTER_INFO).code == GO_AWAY
    assert server.caller.request(GET_CLUSTER_INFO, version=VERSION_BEFORE_GO_AWAY).code == 0
    assert server.process.wait(seconds=10) == 0


def test_a_probe_finds_the_server_ready_while_it_serves(server):
    server.process.wait_for("server_ready", seconds=20)
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/readyz", timeout=5) as answer:
        assert json.load(answer) == {"status": "ready"}


def test_a_write_that_the_disk_refuses_is_reported_and_the_server_goes_on(lab, tmp_path):
    blocked = tmp_path / "kvConfig.json"
    server = lab.name_server("namesrv", kvConfigPath=blocked)
    blocked.mkdir()
    answer = server.caller.request(PUT_KV_CONFIG, {"namespace": "NS", "key": "k", "value": "v"})
    assert answer.code == 1
    assert str(blocked) in answer.remark
    assert server.caller.request(GET_CLUSTER_INFO).code == 0
    # Lines are written aside: the answer can be there first.
    assert wait_until(lambda: events(server, "kv_store_failed"), seconds=10, what="the line")


def new_certificate(folder, name):
    """Write key and certificate for `name` where the server looks for them."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", "-subj", f"/CN={name}"),
        ],
        check=True,
        capture_output=True,
    )


def certificate_of(server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain,
        context.wrap_socket(plain) as secured,
    ):
        return secured.getpeercert(binary_form=True)


@pytest.mark.parametrize("by_signal", [True, False], ids=["SIGHUP", "files watched"])
def test_new_connections_use_a_new_certificate_without_a_restart(lab, tmp_path, by_signal):
    new_certificate(tmp_path, "before")
    server = lab.name_server(
        "namesrv",
        **{
            "tls.test.mode.enable": False,
            "tls.server.keyPath": tmp_path / "key.pem",
            "tls.server.certPath": tmp_path / "cert.pem",
        },
    )
    before = certificate_of(server)
    new_certificate(tmp_path, "after")
    if by_signal:
        server.process.signal(signal.SIGHUP)
    wait_until(lambda: certificate_of(server) != before, seconds=5, what="the new certificate is in use")


def test_a_damaged_certificate_is_logged_and_the_old_one_stays(lab, tmp_path):
    new_certificate(tmp_path, "before")
    paths = {"tls.server.keyPath": tmp_path / "key.pem", "tls.server.certPath": tmp_path / "cert.pem"}
    server = lab.name_server("namesrv", **{"tls.test.mode.enable": False} | paths)
    before = certificate_of(server)
    (tmp_path / "cert.pem").write_text("nothing")
    server.process.signal(signal.SIGHUP)
    wait_until(lambda: events(server, "certificate_load_failed"), seconds=5, what="the failure is told")
    assert certificate_of(server) == before


def test_enforcing_tls_without_a_readable_certificate_ends_the_start(run, tmp_path):
    (tmp_path / "key.pem").write_text("nothing")
    (tmp_path / "cert.pem").write_text("nothing")
    result = run(
        *("--tls-server-mode", "enforcing", "--tls-test-mode-enable", "false", "--http-port", 0),
        *("--tls-server-key-path", tmp_path / "key.pem", "--tls-server-cert-path", tmp_path / "cert.pem"),
        *("--bind-address", "127.0.0.1", "--listen-port", free_port()),
    )
    assert result.returncode == NOT_STARTED
    assert "cert.pem" in result.stderr
