"""The probe of a controller as it is started, and its rows of the history; hand-made brokers, real NameServer."""

import json
import re
import socket
import urllib.request
from contextlib import ExitStack

import pytest
from peers.controllers import OurController
from peers.replicas import Replica
from peers.scripted import Line, ScriptedBroker
from peers.waiting import wait_until
from peers.wire import SUCCESS

from history.landing import LANDING, lines_of

SET = "s"
TOPIC = "RMQ_ROLE_PROBE"
SEND = 310
SYSTEM_BUSY = 2
WAIT_S = 60


@pytest.fixture
def site(lab, tmp_path):
    """Return a started controller with the probe and a history, and its NameServer."""
    namesrv = lab.name_server()
    properties = {"roleProbeTopic": TOPIC, "roleProbeNamesrvAddr": namesrv.address, "historyDir": tmp_path / "history"}
    controller = lab.kept(OurController(lab.folder, **properties)).start()
    controller.process.wait_for('"event":"server_ready"', seconds=WAIT_S)
    return controller, namesrv


@pytest.fixture
def pair(site):
    """Return the master of a set, which has the topic at the NameServer, and a slave in sync."""
    controller, namesrv = site
    with ExitStack() as stack:
        members = []
        for _ in range(2):
            member = Replica(controller.address, SET)
            stack.callback(member.die)
            members.append(member.join())
        master, slave = members
        assert master.elect().code == SUCCESS
        assert master.report((1, 2), master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
        for each in members:
            each.epoch = 1
            each.heartbeat()
        line = Line(socket.create_connection(("127.0.0.1", namesrv.port), timeout=10))
        stack.callback(line.close)
        ScriptedBroker(line, SET, address=master.address).register({TOPIC: 1, "orders": 4})
        yield master, slave


def sends(replica):
    return [each for each in replica.received if each.code == SEND]


def metrics(controller):
    with urllib.request.urlopen(f"http://127.0.0.1:{controller.http_port}/metrics", timeout=10) as answer:
        return answer.read().decode()


def roles(controller):
    with urllib.request.urlopen(f"http://127.0.0.1:{controller.http_port}/v1/roles", timeout=10) as answer:
        (found,) = json.load(answer)["brokerSets"]
    return found


def test_gap_of_a_busy_master_is_measured_logged_and_counted(site, pair):
    controller, _ = site
    master, slave = pair
    wait_until(lambda: len(sends(master)) >= 3, seconds=WAIT_S, what="messages of the probe")
    assert sends(master)[0].fields["b"] == TOPIC

    def gap_with_failures():
        """Let the master be busy for a time; a machine that is short of time may pause the controller meanwhile."""
        master.answers = lambda request: SYSTEM_BUSY if request.code == SEND else SUCCESS
        came = len(sends(master))
        wait_until(lambda: len(sends(master)) >= came + 4, seconds=WAIT_S, what="refused messages")
        master.answers = lambda _: SUCCESS
        came = len(sends(master))
        wait_until(lambda: len(sends(master)) >= came + 3, seconds=WAIT_S, what="taken messages")
        lines = re.findall(r'^\{.*"event":"role_probe_gap_ended".*$', controller.process.text(), re.MULTILINE)
        return next((gap for gap in map(json.loads, lines) if gap["failed"] >= 3), None)

    gap = wait_until(gap_with_failures, seconds=WAIT_S, what="a gap with failed messages")
    assert (gap["cluster"], gap["broker"], gap["addr"]) == ("C", SET, master.address)
    assert gap["error"].startswith("code 2")
    assert gap["gap_ms"] >= 600
    text = metrics(controller)
    (seconds,) = re.findall(r"^rocketmq_controller_role_probe_last_gap_seconds\{.*\} (.*)$", text, re.MULTILINE)
    assert float(seconds) >= 0.6
    assert 'rocketmq_controller_role_probe_sets{state="probed"} 1.0' in text
    assert "rocketmq_controller_role_probe_gap_seconds_count 0.0" not in text
    assert sends(slave) == []


def test_change_of_a_master_is_in_the_history_with_both_addresses(site, pair, tmp_path):
    controller, _ = site
    master, slave = pair
    master.die()

    def led():
        state = controller.set_state(SET)
        return state is not None and state.master == 2

    wait_until(led, seconds=WAIT_S, what="the slave leads")
    # A change is published a moment after it is stored: whoever has the roles of that epoch comes after it.
    wait_until(lambda: roles(controller)["masterEpoch"] == 2, seconds=WAIT_S, what="the roles of epoch 2")
    assert controller.process.stop() == 0
    paths = sorted((tmp_path / "history" / LANDING).glob("family=controller/date=*/hour=*/*"))
    rows = [json.loads(line) for path in paths for line in lines_of(path)]
    changed = [row for row in rows if row["event_type"] == "master_changed"]
    assert [(row.get("former_addr"), row["broker_addr"], row["master_epoch"]) for row in changed] == [
        (None, master.address, 1),
        (master.address, slave.address, 2),
    ]
    elected = next(row for row in rows if row["event_type"] == "elected" and row["master_epoch"] == 2)
    assert changed[1]["failover_id"] == elected["failover_id"]
