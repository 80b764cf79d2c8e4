"""What a stranger learns of ports from a controller that probes brokers, and where it can send it."""

import json
import socket
import time
import urllib.request

import pytest
from peers.controllers import OurController
from peers.replicas import Replica
from peers.waiting import wait_until
from peers.wire import SUCCESS

REFUSES = "its port refuses connections"
ALIKE = "does not answer"
TOKEN = "0123456789abcdef"
#: An address of the machine beside 127.0.0.1, which no broker uses.
ELSEWHERE = "127.9.9.9"


def read(controller, path, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{controller.http_port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


def failed_master(controller):
    """Let a master die, so that its port refuses; return when an election has told why."""
    first = Replica(controller.address, "s").join()
    wait_until(lambda: first.elect().code == SUCCESS, seconds=30, what="a master")
    second = Replica(controller.address, "s").join()
    assert first.report([1, 2], master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
    # Its port is reached once before that counts.
    wait_until(lambda: first.received, seconds=30, what="a probe of the master")
    time.sleep(1)
    first.die()
    wait_until(lambda: "master 1 failed" in read(controller, "/v1/elections"), seconds=30, what="an election")
    return second


@pytest.fixture
def public(lab):
    """A controller whose HTTP side is bound to all addresses, with a token and a history."""
    token = lab.folder / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    settings = {"httpBindAddress": "0.0.0.0", "httpAdminTokenFile": token, "historyDir": lab.folder / "history"}
    return lab.kept(OurController(lab.folder, **settings)).start()


def test_strangers_read_no_difference_between_an_open_port_and_a_closed_one(public):
    failed_master(public)
    (election,) = [each for each in json.loads(read(public, "/v1/elections"))["elections"] if "failed" in each["cause"]]
    assert ALIKE in election["cause"]
    assert election["phases"]["judgeMs"] is None
    past = "/v1/history/broker?broker=s"
    wait_until(lambda: "broker 1 failed" in read(public, past), seconds=30, what="the failure, recorded")
    for path in ("/v1/elections", "/v1/broker-sets", "/v1/roles", "/metrics", past):
        text = read(public, path)
        assert REFUSES not in text, path
        assert 'probes_total{outcome="refused"}' not in text, path
    wrong = read(public, "/v1/elections", Authorization="Bearer wrong-wrong-wrong-1")
    assert REFUSES not in wrong


def test_operators_read_it(public):
    failed_master(public)
    assert REFUSES in read(public, "/v1/elections", Authorization=f"Bearer {TOKEN}")
    # A proxy may send what it authenticates its own users by.
    assert REFUSES not in read(public, "/v1/elections", Authorization="Basic dTpw")


def test_wrong_tokens_of_readers_count_as_tries(public):
    failed_master(public)
    for number in range(5):
        assert REFUSES not in read(public, "/v1/elections", Authorization=f"Bearer wrong-{number}")
    # Nobody guesses on: the right token shows nothing either.
    assert REFUSES not in read(public, "/v1/elections", Authorization=f"Bearer {TOKEN}")


def is_called(listener):
    """Return whether a connection comes within some probes."""
    listener.settimeout(6)
    try:
        listener.accept()[0].close()
    except TimeoutError:
        return False
    return True


def stranger(controller, address):
    """Apply and register with an address, and send heartbeats; return the answers."""
    broker = Replica(controller.address, "strangers")
    broker.address, broker.broker_id = address, 1
    answers = broker.apply(1), broker.register()
    broker.keep_beating()
    return answers


def test_controller_connects_to_no_broker_outside_of_its_networks(lab):
    controller = lab.kept(OurController(lab.folder, brokerNetworks="127.0.0.1;10.0.0.0/8")).start()
    with socket.create_server((ELSEWHERE, 0)) as listener:
        address = f"{ELSEWHERE}:{listener.getsockname()[1]}"
        answers = stranger(controller, address)
        assert not is_called(listener)
    for answer in answers:
        assert answer.code != SUCCESS
        assert f"{address} is outside brokerNetworks: add it there if it is yours" in answer.remark
        assert f'"error":"{answer.remark}"' in controller.process.text()
    # Brokers of these networks are as before.
    failed_master(controller)


def test_name_that_leads_outside_is_not_followed(lab):
    controller = lab.kept(OurController(lab.folder, brokerNetworks="10.0.0.0/8")).start()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert stranger(controller, f"localhost:{listener.getsockname()[1]}")[0].code == SUCCESS
        assert not is_called(listener)
