"""What real brokers and mqadmin said to the Java controller 5.5.0, replayed in order against ours.

Each connection of the recording is a connection here, closed when its peer closed it. The brokers' ports are listened
at, so that brokers live as long as those of the recording, however long the replay takes. Headers are those of the
recording, and then all again in RocketMQ's own form.
"""

import json
import re
import socket
from contextlib import ExitStack, closing
from importlib.resources import files
from types import SimpleNamespace

import pytest
from golden_frames import Closing, exchanges, recording
from peers.controllers import GET_METADATA, GET_REPLICA_INFO, GET_SYNC_STATE_DATA, OurController
from peers.lab import Lab
from peers.processes import free_port
from peers.replicas import CLEAN, ELECT_MASTER, HEARTBEAT, REGISTER, Replica
from peers.scripted import Line
from peers.waiting import wait_until
from peers.wire import SUCCESS

from remoting.protocol import fastjson
from remoting.protocol.errors import BodyError
from remoting.protocol.frame_reader import CommandReader

GET_CONFIG = 1010
INVALID_CLEAN = 2009
SET = "broker-a"
CLUSTER = "DefaultCluster"

#: The brokers' own ports, and those of the proxies at which they saw the controller.
PORTS = {"broker0": 30911, "broker1": 30921}
PROXIES = re.compile(r"127\.0\.0\.1:983\d")

#: Broker 2, alone in sync, is killed; an operator cleans it.
KILLED = next(item.line for item in recording("controller") if isinstance(item, Closing) and "broker1" in item.peer)
CLEANED = next(item.line for item in exchanges("controller") if item.request_header["code"] == CLEAN)

#: The Java controller's own file, and the two that name a controller here.
AS_RECORDED = {
    "controllerDLegerGroup": "group1",
    "controllerDLegerSelfId": "n0",
    "controllerGroup": "group1",
    "controllerId": "n0",
}
#: Properties that 1010 may not list here, by the difference `config-listing`.
NOT_LISTED = {"isProcessReadEvent", "jraftConfig", "rocketmqHome"}
#: Properties of each server's own place.
OWN = {"bindAddress", "configStorePath", "controllerDLegerPeers", "controllerStorePath", "listenPort"}

REPLAYED = [item for item in recording("controller") if item.peer.endswith("-controller")]
ANSWERED = [item for item in REPLAYED if not isinstance(item, Closing) and item.answer is not None]


@pytest.fixture(scope="module", params=["JSON", "ROCKETMQ"])
def replayed(request, tmp_path_factory):
    """Replay the whole recording and return what our controller answered, by line, and where it is."""
    with closing(Lab(tmp_path_factory.mktemp("replay"))) as lab, ExitStack() as stack:
        port = free_port()
        peers = {"controllerDLegerPeers": f"n0-127.0.0.1:{port}"}
        controller = OurController(lab.folder, port=port, **AS_RECORDED | peers)
        lab.kept(controller).start()
        replay = Replay(controller, stack, is_binary=request.param == "ROCKETMQ")
        for item in REPLAYED:
            replay.take(item)
        yield SimpleNamespace(answers=replay.answers, address=controller.address, ports=replay.ports)


class Replay:
    """Plays the peers of the recording."""

    def __init__(self, controller, stack, *, is_binary):
        self.answers = {}
        #: Recorded port -> the port that stands for it; nobody else of this machine listens there.
        self.ports = {recorded: free_port() for recorded in PORTS.values()}
        self._controller = controller
        self._stack = stack
        self._is_binary = is_binary
        self._lines = {}
        self._brokers = {}
        for name, recorded in PORTS.items():
            broker = Replica(controller.address, SET, port=self.ports[recorded])
            self._brokers[name] = broker
            stack.callback(broker.die)

    def take(self, item):
        key = item.peer, item.connection
        if isinstance(item, Closing):
            self._close(item, key)
            return
        if key not in self._lines:
            connection = self._stack.enter_context(
                socket.create_connection(("127.0.0.1", self._controller.port), timeout=10)
            )
            self._lines[key] = connection, Line(connection, binary=self._is_binary)
        _, line = self._lines[key]
        command = decoded(moved(item.request, self.ports))
        number = line.send(command.code, command.ext_fields or {}, command.body, flag=command.flag)
        if item.answer is not None:
            answered, answer = line.receive()
            assert answered == number
            self.answers[item.line] = answer
        elif command.code == HEARTBEAT:
            self._wait_until_received(command.ext_fields)
        if item.line == CLEANED:
            self._clean_all()

    def _close(self, item, key):
        if item.line == KILLED:
            self._brokers["broker1"].die()
        if key in self._lines:
            self._lines.pop(key)[0].close()
        if item.line == KILLED:
            wait_until(lambda: self._state().master is None, seconds=30, what="nobody leads any more")

    def _wait_until_received(self, fields):
        """A heartbeat is not answered: go on when it was heard."""
        broker_id = int(fields["brokerId"])
        wait_until(lambda: broker_id in self._state().alive, seconds=30, what=f"broker {broker_id} lives")

    def _clean_all(self):
        """Forget the whole set, as the Java controller did by itself; see `clean-last-in-sync`."""
        fields = {"clusterName": CLUSTER, "brokerName": SET, "isCleanLivingBroker": "true"}
        assert self._controller.caller.request(CLEAN, fields).code == SUCCESS

    def _state(self):
        return self._controller.set_state(SET)


def moved(frame, ports):
    """Return a frame with the ports that stand for the recorded ones; all have five digits."""
    for recorded, port in ports.items():
        frame = frame.replace(b"127.0.0.1:%d" % recorded, b"127.0.0.1:%d" % port)
    return frame


def decoded(frame):
    (command,) = CommandReader().receive(frame)
    return command


def value_of(body):
    """Return the JSON value of a body; the order of lists is nobody's promise."""
    try:
        return canonical(fastjson.parse(body)) if body else None
    except BodyError:
        return body


def canonical(value):
    if isinstance(value, dict):
        return {key: canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((canonical(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


@pytest.mark.parametrize("exchange", ANSWERED, ids=str)
def test_our_answer_is_the_recorded_one(replayed, exchange):
    ours = replayed.answers[exchange.line]
    recorded = decoded(moved(exchange.answer, replayed.ports))
    wanted = SimpleNamespace(
        code=int(recorded.code),
        fields={key: PROXIES.sub(replayed.address, text) for key, text in (recorded.ext_fields or {}).items()},
        body=recorded.body.decode() if exchange.request_header["code"] == GET_CONFIG else value_of(recorded.body),
    )
    named = differ(exchange, wanted)
    assert named <= named_differences()
    assert (ours.code, ours.fields) == (wanted.code, wanted.fields)
    # A refusal has its reason, in other words than Java's.
    assert bool(ours.remark) == (ours.code != SUCCESS)
    if exchange.request_header["code"] == GET_CONFIG:
        assert_only_own_properties_differ(ours.body.decode(), wanted.body)
    else:
        assert value_of(ours.body) == wanted.body


def differ(exchange, wanted):
    """Change what is wanted to what ours is known to answer instead, and return the names of these differences."""
    code, named = exchange.request_header["code"], set()
    if code == ELECT_MASTER and wanted.code == SUCCESS:
        # mqadmin reads the body as a bare group, and prints no members otherwise.
        wanted.body |= wanted.body["brokerMemberGroup"]
        named.add("elected-group-at-the-top")
    if KILLED < exchange.line < CLEANED:
        # Java holds the failed election three times more, and each moves the epoch.
        if code == GET_REPLICA_INFO:
            assert wanted.fields["masterEpoch"] == "5"
            wanted.fields["masterEpoch"] = "3"
            named.add("one-epoch-for-one-loss")
        elif code == GET_SYNC_STATE_DATA:
            assert wanted.body["replicasInfoTable"][SET]["masterEpoch"] == 5
            wanted.body["replicasInfoTable"][SET]["masterEpoch"] = 3
            named.add("one-epoch-for-one-loss")
    if exchange.line == CLEANED:
        # Java forgets the whole set, and the broker that is left could never register again.
        wanted.code = INVALID_CLEAN
        named.add("clean-last-in-sync")
    if wanted.code != SUCCESS:
        named.add("remarks")
    if code == GET_CONFIG:
        named.add("config-listing")
    return named


def assert_only_own_properties_differ(ours, recorded):
    here, there = properties(ours), properties(recorded)
    assert there.keys() - here.keys() <= NOT_LISTED
    assert {key for key in there.keys() & here.keys() if here[key] != there[key]} <= OWN


def properties(text):
    """Return what is set; the Java controller also lists what is not."""
    return {key: value for key, value in (line.split("=", 1) for line in text.splitlines() if line) if value}


def named_differences():
    """Return the names of the differences that the controller declares."""
    page = files("controller").joinpath("DIFFERENCES.md").read_text()
    return set(re.findall(r"^\| `([a-z0-9-]+)` \|", page, re.MULTILINE))


def test_the_recording_has_every_request_of_brokers_and_mqadmin():
    codes = {item.request_header["code"] for item in ANSWERED}
    assert codes >= {GET_METADATA, GET_REPLICA_INFO, GET_SYNC_STATE_DATA, GET_CONFIG, CLEAN, ELECT_MASTER, REGISTER}
    assert codes >= {1001, 1009, 1012, 1013}
