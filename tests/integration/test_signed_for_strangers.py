"""Who registers an address of its own gets nothing signed with the operator's keys; whom the operator names does."""

import contextlib
import itertools
import json
import socket
import subprocess
import sys

import pytest
from peers.acl import CONTROL
from peers.controllers import OurController
from peers.jars import REPOSITORY
from peers.processes import free_port
from peers.replicas import EPOCH_CACHE, ROLE_CHANGED, Replica
from peers.scripted import Line, registration_body
from peers.waiting import wait_until
from peers.wire import REGISTER_BROKER, SUCCESS

MIN_ID_CHANGED = 905
SECRETS = {"brokerAccessKey": CONTROL.access, "brokerSecretKey": CONTROL.secret}
SIGNED_WITH = {"AccessKey", "Signature"}
NOT_STARTED = 255


class Listener(Replica):
    """Listens and notes what it is told; it says nothing to any server."""

    def _connected(self):
        return None


@contextlib.contextmanager
def listening(count):
    listeners = [Listener("", "nobody") for _ in range(count)]
    try:
        yield listeners
    finally:
        for each in listeners:
            each.close_port()


def connected(server):
    host, port = server.address.split(":")
    return Line(socket.create_connection((host, int(port)), timeout=10))


def register(namesrv, name, address, broker_id, queues):
    """Register a broker over a line of nobody in particular, and return the line: the broker's life."""
    line = connected(namesrv)
    fields = {"clusterName": "C", "brokerName": name, "brokerAddr": address, "brokerId": str(broker_id)}
    answer = line.request(REGISTER_BROKER, fields | {"enableActingMaster": "true"}, registration_body(queues, 1))
    assert answer.code == SUCCESS
    return line


def lose_a_master(namesrv, name, slave):
    """Register a set of two and lose its master, so that the slave is told."""
    queues = {"t": 1, "u": 1}
    master_line = register(namesrv, name, "127.0.0.1:1", 0, queues)
    slave_line = register(namesrv, name, slave.address, 1, queues)
    master_line.close()
    wait_until(lambda: received(slave, MIN_ID_CHANGED), seconds=20, what="the slave to be told")
    slave_line.close()


def received(peer, code):
    return [each for each in peer.received if each.code == code]


def is_signed(each):
    return each.fields.keys() >= SIGNED_WITH


def shows_keys(each):
    return bool(SIGNED_WITH & each.fields.keys()) or CONTROL.access in str(each)


def events(process, name):
    lines = [line for line in process.text().splitlines() if line.startswith("{")]
    return [line for line in map(json.loads, lines) if line["event"] == name]


def test_a_name_server_signs_for_brokers_that_the_operator_names_and_for_no_other(lab):
    with listening(2) as (named, stranger):
        namesrv = lab.name_server(
            supportActingMaster=True, notifyMinBrokerIdChanged=True, brokerAccessAddresses=named.address, **SECRETS
        )
        lose_a_master(namesrv, "ours", named)
        lose_a_master(namesrv, "theirs", stranger)
    assert [is_signed(each) for each in received(named, MIN_ID_CHANGED)] == [True]
    assert [shows_keys(each) for each in stranger.received] == [False]
    (unsigned,) = events(namesrv.process, "broker_request_not_signed")
    assert unsigned["addr"] == stranger.address
    assert "brokerAccessAddresses" in unsigned["advice"]


@pytest.fixture
def replicas(lab):
    """Return what makes a controller with keys that names the first of two brokers, and both brokers."""
    made = []

    def make(**properties):
        port = free_port()
        named_at = f"127.0.0.1:{port}"
        controller = OurController(lab.folder, brokerAccessAddresses=named_at, **SECRETS, **properties)
        lab.kept(controller).start()
        made.extend([Replica(controller.address, "s", port=port), Replica(controller.address, "t")])
        return controller, *made

    yield make
    for each in made:
        each.die()


def test_a_controller_signs_for_brokers_that_the_operator_names_and_for_no_other(replicas):
    controller, named, stranger = replicas()
    for each in (named, stranger):
        each.join()
        each.elect()
    for each, code in itertools.product((named, stranger), (ROLE_CHANGED, EPOCH_CACHE)):
        if code == EPOCH_CACHE:
            # Who is silent is asked whether it lives.
            each.stop_beating()
        wait_until(lambda who=each, what=code: received(who, what), seconds=20, what=f"{code} to {each.name}")
    assert all(map(is_signed, named.received))
    assert not any(map(shows_keys, stranger.received))
    (unsigned,) = events(controller.process, "broker_request_not_signed")
    assert unsigned["addr"] == stranger.address


@pytest.mark.parametrize("server", ["namesrv", "controller"])
def test_keys_without_the_addresses_they_are_for_end_the_start_with_what_to_set(tmp_path, server):
    file = tmp_path / "server.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in SECRETS.items()))
    command = [sys.executable, "-m", server, "-c", file, "--listen-port", "0", "--http-port", "0"]
    env = {"PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path), "PATH": ""}
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=20, check=False)
    assert result.returncode == NOT_STARTED
    for part in ("brokerAccessAddresses must be", "10.0.0.0/16", "tls.client.authServer"):
        assert part in result.stderr
    assert CONTROL.secret not in result.stderr
    assert "Traceback" not in result.stderr
