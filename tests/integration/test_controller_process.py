"""The controller as an operator meets it: how it starts, refuses to start, keeps what it knows and stops."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack

import pytest
from peers.controllers import GET_METADATA, OurController
from peers.jars import REPOSITORY
from peers.processes import free_port
from peers.replicas import Replica
from peers.waiting import wait_until
from peers.wire import SUCCESS

NOT_STARTED = 255
SET = "s"

#: Every property of a Java controller's file, with values of one that is alone (docs/protocol/controller.md 8.1).
JAVA_FILE = {
    "rocketmqHome": "/opt/rocketmq",
    "configBlackList": "configBlackList;configStorePath",
    "controllerType": "DLedger",
    "controllerDLegerGroup": "group1",
    "controllerDLegerPeers": "n0-127.0.0.1:9878",
    "controllerDLegerSelfId": "n0",
    "mappedFileSize": 1073741824,
    "scanNotActiveBrokerInterval": 5000,
    "scanInactiveMasterInterval": 5000,
    "electMasterMaxRetryCount": 3,
    "enableElectUncleanMaster": True,
    "notifyBrokerRoleChanged": False,
    "processReadEvent": False,
    "controllerThreadPoolNums": 16,
    "controllerRequestThreadPoolQueueCapacity": 50000,
    "jRaftElectionTimeoutMs": 1000,
    "jRaftScanWaitTimeoutMs": 1000,
    "jRaftSnapshotIntervalSecs": 3600,
    "jRaftGroupId": "jRaft-Controller",
    "jRaftServerId": "localhost:9880",
    "jRaftInitConf": "localhost:9880,localhost:9881",
    "jRaftControllerRPCAddr": "localhost:9770,localhost:9771",
    "metricsExporterType": "PROM",
    "metricsGrpcExporterTarget": "x",
    "metricsGrpcExporterHeader": "y",
    "metricGrpcExporterTimeOutInMills": 3000,
    "metricGrpcExporterIntervalInMills": 60000,
    "metricLoggingExporterIntervalInMills": 10000,
    "metricsPromExporterPort": 5557,
    "metricsPromExporterHost": "h",
    "metricsLabel": "k:v",
    "metricsInDelta": True,
}
WITH_MEANING = {
    *("configBlackList", "enableElectUncleanMaster", "notifyBrokerRoleChanged"),
    *("controllerDLegerPeers", "controllerDLegerSelfId", "controllerRequestThreadPoolQueueCapacity"),
}


@pytest.fixture
def run(tmp_path):
    """Run the command to its end, which is expected to come by itself."""

    def run(*words, **environment):
        return subprocess.run(
            [sys.executable, "-m", "controller", *map(str, words)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path)} | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def new_controller(lab):
    """Return a function that makes a controller, not yet started."""
    return lambda **settings: lab.kept(OurController(lab.folder, **settings))


@pytest.fixture
def controller(new_controller):
    return new_controller().start()


@pytest.fixture
def broker(controller):
    with ExitStack() as stack:

        def made(name=SET):
            replica = Replica(controller.address, name)
            stack.callback(replica.die)
            return replica

        yield made


def events(controller, name):
    lines = (line for line in controller.process.text().splitlines() if line.startswith("{"))
    return [line for line in map(json.loads, lines) if line["event"] == name]


def refusal_at(port, tmp_path, **more):
    words = {"bind-address": "127.0.0.1", "listen-port": port, "http-port": 0}
    words |= {"controller-store-path": tmp_path / "other-store"} | {k.replace("_", "-"): v for k, v in more.items()}
    return [word for key, value in words.items() for word in (f"--{key}", value)]


def test_the_line_that_scripts_wait_for_names_the_address_and_then_it_leads(controller):
    line = f"The Controller Server boot success. serializeType=JSON, address 127.0.0.1:{controller.port}"
    assert line in controller.process.text().splitlines()
    assert controller.metadata() == {
        "group": "rocketmq",
        "controllerLeaderId": controller.address,
        "controllerLeaderAddress": controller.address,
        "isLeader": "true",
        "peers": f"{controller.address}:{controller.address};",
    }


def test_a_stop_is_in_order_and_successful(controller):
    assert controller.process.stop() == 0
    assert [events(controller, name) != [] for name in ("server_draining", "server_stopped")] == [True, True]
    assert events(controller, "request_failed") == []


def test_a_stop_while_requests_are_under_way_answers_or_closes_and_keeps_what_was_answered(controller):
    joined = []

    def join_sets(worker):
        for number in range(10_000):
            try:
                replica = Replica(controller.address, f"set-{worker}-{number}")
            except OSError:
                return
            try:
                if replica.apply(1).code != SUCCESS:
                    return
                joined.append(replica.name)
            except OSError:
                return
            finally:
                replica.die()

    workers = [threading.Thread(target=join_sets, args=(worker,)) for worker in range(4)]
    for worker in workers:
        worker.start()
    wait_until(lambda: len(joined) > 20, seconds=30, what="some sets are stored")
    assert controller.process.stop() == 0
    for worker in workers:
        worker.join(timeout=30)
    assert events(controller, "request_failed") == events(controller, "server_failed") == []
    controller.start()
    assert [name for name in joined if controller.set_state(name) is None] == []


def test_a_restart_keeps_sets_ids_and_epochs(controller, broker):
    first = broker().join()
    assert first.elect().code == SUCCESS
    second = broker().join()
    wait_until(lambda: controller.set_state(SET).alive == {1, 2}, seconds=20, what="both live")
    assert first.report([1, 2], master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
    before = controller.set_state(SET)
    controller.process.kill()
    controller.start()
    after = controller.set_state(SET)
    assert (after.epochs, after.in_sync, after.addresses) == (before.epochs, before.in_sync, before.addresses)
    assert after.sync_state_set_epoch == 2
    second.reconnect()
    assert second.next_id() == 3


def test_the_start_is_no_standstill(controller):
    controller.process.wait_for("server_ready", seconds=30)
    assert events(controller, "failure_detection_suspended") == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("listenPort=many\n", ["line 1", "listenPort", "many"]),
        ("a=b\nsuspectTimeoutMs=1\n", ["line 2", "suspectTimeoutMs", "500"]),
        ("controllerStore=paper\n", ["controllerStore", "paper"]),
        ("advertisedAddress=a:1;b:2\n", ["advertisedAddress"]),
        ("controllerStorePath=\n", ["controllerStorePath"]),
        (
            "controllerDLegerPeers=n0-a:1;n1-b:1\n",
            ["line 1", "controllerDLegerPeers", "unless controllerStore is etcd"],
        ),
    ],
)
def test_a_configuration_that_cannot_be_taken_ends_the_start_and_names_the_cause(run, tmp_path, text, parts):
    file = tmp_path / "controller.conf"
    file.write_text(text)
    result = run("-c", file)
    assert result.returncode == NOT_STARTED
    for part in [*parts, str(file)]:
        assert part in result.stderr
    assert "Traceback" not in result.stderr


def test_etcd_without_endpoints_ends_the_start(run):
    result = run("--controller-store", "etcd")
    assert result.returncode == NOT_STARTED
    assert "etcdEndpoints" in result.stderr


def test_an_unknown_option_and_a_missing_file_end_the_start(run, tmp_path):
    assert run("--lisen-port", 1).returncode == 1
    result = run("-c", tmp_path / "nowhere.conf")
    assert result.returncode == NOT_STARTED
    assert "nowhere.conf" in result.stderr


def test_help_and_configuration_are_printed(run):
    assert "--suspect-timeout-ms" in run("-h").stdout
    result = run("-p", "--listen-port", 19878, RMQ_CONTROLLER_ENABLE_ELECT_UNCLEAN_MASTER="true")
    assert result.returncode == 0
    assert {"listenPort=19878", "enableElectUncleanMaster=true"} <= set(result.stdout.splitlines())


def test_a_java_controllers_file_is_taken_as_it_is(new_controller):
    port = free_port()
    controller = new_controller(port=port, **JAVA_FILE | {"controllerDLegerPeers": f"n0-127.0.0.1:{port}"}).start()
    ignored = {line["property"] for line in events(controller, "option_ignored")}
    assert ignored
    assert ignored <= JAVA_FILE.keys() - WITH_MEANING
    listed = controller.caller.request(1010).body.decode().splitlines()
    assert "enableElectUncleanMaster=true" in listed
    assert "notifyBrokerRoleChanged=false" in listed


def test_what_means_nothing_here_is_named_with_its_line(new_controller):
    meaningless = {key: JAVA_FILE[key] for key in ("controllerDLegerGroup", "metricsLabel")}
    controller = new_controller(notifyBrokerRoleChanged=True, **meaningless).start()
    ignored = {line["property"]: line for line in events(controller, "option_ignored")}
    assert ignored.keys() == meaningless.keys()
    assert all(line["error"] and line["line"] for line in ignored.values())


def test_a_store_in_use_by_another_process_ends_the_start_with_the_reason(run, controller, tmp_path):
    store = controller.folder / "store"
    result = run(*refusal_at(free_port(), tmp_path, controller_store_path=store))
    assert result.returncode == NOT_STARTED
    for part in (str(store), "another controller"):
        assert part in result.stderr
    assert "Traceback" not in result.stderr
    assert controller.serves()


@pytest.mark.parametrize("kind", ["junk", "folder", "file in the way"])
def test_a_store_that_cannot_be_read_ends_the_start_and_names_it(run, tmp_path, kind):
    store = tmp_path / "store"
    if kind == "file in the way":
        store.write_text("not a folder")
    else:
        store.mkdir()
        file = store / "controller.db"
        file.mkdir() if kind == "folder" else file.write_bytes(b"no database at all\n" * 1000)
    result = run(*refusal_at(free_port(), tmp_path, controller_store_path=store))
    assert result.returncode == NOT_STARTED
    assert str(store) in result.stderr
    assert "Traceback" not in result.stderr


def test_a_taken_port_ends_the_start(run, controller, tmp_path):
    result = run(*refusal_at(controller.port, tmp_path))
    assert result.returncode == NOT_STARTED
    assert f"127.0.0.1:{controller.port}" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_taken_http_port_ends_the_start_before_anybody_is_served(run, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run(*refusal_at(free_port(), tmp_path, http_port=taken.getsockname()[1]))
    assert result.returncode == NOT_STARTED
    assert "boot success" not in result.stdout


def test_it_works_without_its_http_side(new_controller):
    controller = new_controller(httpPort=0).start()
    controller.process.wait_for("server_ready", seconds=30)
    assert controller.serves()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{controller.http_port}/healthz", timeout=2)
    assert controller.process.stop() == 0


def test_probes_and_views_are_served_over_http(controller):
    controller.process.wait_for("server_ready", seconds=30)

    def over_http(path):
        with urllib.request.urlopen(f"http://127.0.0.1:{controller.http_port}{path}", timeout=10) as answer:
            return json.load(answer)

    assert over_http("/healthz") == {"status": "ok"}
    assert over_http("/readyz") == {"status": "ready"}
    group = over_http("/v1/controllers")
    assert (group["role"], group["leaderAddress"], group["store"]) == ("leader", controller.address, "embedded")
    lines = [json.loads(line) for line in controller.process.text().splitlines() if line.startswith("{")]
    assert {line["controller_id"] for line in lines} == {group["leaderId"]}


def test_a_changed_configuration_survives_a_restart(controller):
    assert controller.caller.request(1009, body=b"serverChannelMaxIdleTimeSeconds=321\n").code == SUCCESS
    assert controller.process.stop() == 0
    controller.start()
    assert b"serverChannelMaxIdleTimeSeconds=321" in controller.caller.request(1010).body


def test_a_hangup_ends_nothing(controller):
    controller.process.signal(signal.SIGHUP)
    assert controller.caller.request(GET_METADATA).code == SUCCESS
    assert controller.process.stop() == 0
