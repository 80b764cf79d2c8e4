"""Role checks of a controller as a proxy meets them: through a failover of scripted brokers, and bad configurations."""

import json
import socket
import urllib.request

import pytest
from peers.controllers import OurController
from peers.processes import free_port
from peers.replicas import CLEAN, ROLE_CHANGED, Replica
from peers.waiting import wait_until

SET = "broker-a"
NOT_STARTED = 255


@pytest.fixture
def controller(tmp_path):
    controller = OurController(tmp_path, roleCheckPort=free_port())
    yield controller
    if controller.process is not None and controller.process.running:
        assert controller.process.stop() == 0


def check(controller, line):
    port = controller._properties["roleCheckPort"]
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(line.encode() + b"\n")
        answer = b""
        while piece := connection.recv(400):
            answer += piece
    return answer.decode().strip()


def answers(controller, wanted):
    """Wait until the brokers are answered so, by id."""
    last = {}

    def fulfilled():
        last.update({broker_id: check(controller, f"{SET}/{broker_id}") for broker_id in wanted})
        return last == wanted

    wait_until(fulfilled, seconds=60, what=lambda: f"{wanted}; now {last}")


def two_brokers(controller):
    first, second = (Replica(controller.address, SET).join() for _ in range(2))
    assert first.elect().code == 0
    assert first.report([1, 2], master_epoch=1, sync_state_set_epoch=1).code == 0
    return first, second


def get(controller, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{controller.http_port}{path}", timeout=20) as answer:
        return answer.read().decode()


def test_checks_follow_a_failover_and_doubt_is_no_answer(controller):
    controller.start()
    wait_until(lambda: check(controller, "leader") == "up #this controller leads", seconds=60, what="it leads")
    first, second = two_brokers(controller)
    waits = "#unknown the master is not confirmed to serve"
    answers(controller, {1: waits, 2: "down #superseded epoch 1"})
    first.is_master = True
    answers(controller, {1: "up ready #epoch 1", 2: "down #superseded epoch 1"})
    first.die()
    answers(controller, {1: "down #superseded epoch 2", 2: waits})
    second.is_master = True
    answers(controller, {1: "down #superseded epoch 2", 2: "up ready #epoch 2"})
    assert check(controller, f"{SET}/3") == "down #superseded epoch 2"
    assert check(controller, "broker-b/1") == "#unknown no such set is stored"
    assert check(controller, "nonsense").startswith("#unknown the line must be")
    (shown,) = json.loads(get(controller, "/v1/roles"))["brokerSets"]
    assert [each["verdict"] for each in shown["roles"]] == ["superseded", "serves"]
    assert shown["confirmed"]
    metrics = get(controller, "/metrics")
    assert 'rocketmq_controller_role_checks_total{verdict="invalid"} 1' in metrics
    assert 'rocketmq_controller_failover_phase_duration_seconds_count{phase="serve"} 2' in metrics
    lines = [json.loads(line) for line in controller.process.text().splitlines() if line.startswith("{")]
    changes = [
        (each["broker_id"], each["old"], each["new"]) for each in lines if each["event"] == "role_answer_changed"
    ]
    # A check between the failure and the election sees `failed` first.
    assert changes[0] in {(1, "serves", "failed"), (1, "serves", "superseded")}
    assert changes[-1] == (2, "superseded", "serves")
    assert [each["broker_id"] for each in lines if each["event"] == "master_serves"] == [1, 2]
    second.die()


def test_cleaned_master_is_down_before_its_successor_is_elected_and_learns_of_it(controller):
    controller.start()
    first, second = two_brokers(controller)
    first.is_master = True
    answers(controller, {1: "up ready #epoch 1", 2: "down #superseded epoch 1"})
    asked = {"isCleanLivingBroker": True, "brokerControllerIdsToClean": "1"}
    assert first.request_for_set(CLEAN, **asked).code == 0
    assert check(controller, f"{SET}/1") in {"down #superseded epoch 2", "down #superseded epoch 3"}
    second.is_master = True
    answers(controller, {1: "down #superseded epoch 3", 2: "up ready #epoch 3"})

    def told():
        return [each.fields["masterBrokerId"] for each in first.received if each.code == ROLE_CHANGED][-1:] == ["2"]

    wait_until(told, seconds=60, what="the cleaned broker knows who leads")
    for each in (first, second):
        each.die()


def test_port_in_use_ends_the_start_with_a_sentence(controller):
    with socket.create_server(("127.0.0.1", controller._properties["roleCheckPort"])):
        controller.launch()
        assert controller.process.wait(seconds=60) == NOT_STARTED
    assert "roleCheckPort: cannot listen on 127.0.0.1:" in controller.process.text()


def test_port_of_the_peers_is_refused_with_a_sentence(controller):
    controller._configure(controller._properties | {"roleCheckPort": controller.port})
    controller.launch()
    assert controller.process.wait(seconds=60) == NOT_STARTED
    assert "roleCheckPort" in controller.process.text()
    assert "another port than listenPort" in controller.process.text()
