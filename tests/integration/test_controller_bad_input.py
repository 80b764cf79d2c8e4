"""What nobody sane sends, over real sockets: the code of the protocol, a remark that helps, and no state changed."""

import json
import socket
import urllib.request
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from peers.controllers import GET_METADATA, OurController
from peers.lab import Lab
from peers.replicas import (
    ALTER_SYNC_STATE_SET,
    APPLY_ID,
    CLEAN,
    CLUSTER,
    ELECT_MASTER,
    HEARTBEAT,
    NEXT_ID,
    ONE_WAY,
    REGISTER,
    REPLICA_INFO,
    Replica,
)
from peers.scripted import Line
from peers.waiting import wait_until
from peers.wire import SUCCESS, SYSTEM_ERROR, frame

SET = "s"
SYNC_STATE_DATA = 1006
UPDATE_CONFIG = 1009

NOT_SUPPORTED = 3
NO_PERMISSION = 16
FENCED_MASTER_EPOCH = 2000
FENCED_SYNC_STATE_SET_EPOCH = 2001
INVALID_MASTER = 2002
INVALID_REPLICAS = 2003
INVALID_REQUEST = 2005
NOT_ALIVE = 2006
UNKNOWN_METADATA = 2008
INVALID_CLEAN = 2009
TO_BE_REGISTERED = 2010
STILL_EXISTS = 2011
ELECT_FAILED = 2012
ALTER_FAILED = 2013
ID_INVALID = 2014

LONG = "x" * 300
LONG_MAX = 2**63 - 1


class Stage:
    """A set: 1 leads at epoch 1, 1 and 2 live and are in sync since epoch 2, 3 has an id and was never heard."""

    def __init__(self, controller, stack, *, binary):
        self.controller = controller
        self.members = [Replica(controller.address, SET, binary=binary) for _ in range(3)]
        for member in self.members:
            stack.callback(member.die)
        first, second, third = self.members
        assert first.join().elect().code == SUCCESS
        second.join()
        third.broker_id = 3
        assert third.apply(3).code == SUCCESS
        wait_until(lambda: controller.set_state(SET).alive == {1, 2}, seconds=20, what="1 and 2 live")
        assert first.report([1, 2], master_epoch=1, sync_state_set_epoch=1).code == SUCCESS
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", controller.port), timeout=10))
        self.line = Line(connection, binary=binary)

    def request(self, code, fields, body=b""):
        texts = {key: str(value) for key, value in fields.items() if value is not None}
        return self.line.request(code, texts, body)

    def seen(self):
        """Return everything that can be seen of all sets, without times and elections that changed nothing."""
        sets = self.over_http("/v1/broker-sets")["brokerSets"]
        for each in sets:
            del each["lastElection"], each["lastElectionReason"]
        for replica in (replica for each in sets for replica in each["replicas"]):
            del replica["lastContactUnixMs"], replica["suspect"]
        caller = self.controller.caller
        info = caller.request(REPLICA_INFO, {"brokerName": SET})
        data = caller.request(SYNC_STATE_DATA, body=json.dumps([SET]).encode()).json
        next_id = caller.request(NEXT_ID, {"clusterName": CLUSTER, "brokerName": SET}).fields
        return sets, info.fields, info.json, data, next_id

    def over_http(self, path):
        url = f"http://127.0.0.1:{self.controller.http_port}{path}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)


@pytest.fixture(scope="module", params=[False, True], ids=["JSON", "ROCKETMQ"])
def stage(request, tmp_path_factory):
    with closing(Lab(tmp_path_factory.mktemp("bad"))) as lab, ExitStack() as stack:
        # Nobody is suspected here, however slow the machine is.
        controller = lab.kept(OurController(lab.folder, suspectTimeoutMs=60_000)).start()
        controller.process.wait_for("server_ready", seconds=30)
        yield Stage(controller, stack, binary=request.param)


def alter(body=None, **fields):
    wanted = {"syncStateSet": [1], "syncStateSetEpoch": 2} | (body or {})
    return ALTER_SYNC_STATE_SET, alteration(**fields), json.dumps(wanted).encode()


def alteration(**fields):
    return {"brokerName": SET, "masterBrokerId": 1, "masterEpoch": 1} | fields


def alter_as(text, **fields):
    return ALTER_SYNC_STATE_SET, alteration(**fields), text


def elect(**fields):
    defaults = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": 2, "designateElect": "true"}
    return ELECT_MASTER, defaults | fields, b""


def register(**fields):
    defaults = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": 2, "brokerAddress": "127.0.0.1:1"}
    return REGISTER, defaults | fields, b""


def apply(**fields):
    defaults = {"clusterName": CLUSTER, "brokerName": SET, "appliedBrokerId": 4, "registerCheckCode": "127.0.0.1:1;7"}
    return APPLY_ID, defaults | fields, b""


def clean(**fields):
    return CLEAN, {"clusterName": CLUSTER, "brokerName": SET} | fields, b""


def heartbeat(**fields):
    defaults = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": 2, "brokerAddr": "127.0.0.1:1", "epoch": 1}
    return HEARTBEAT, defaults | fields, b""


def sync_state_data(text):
    return SYNC_STATE_DATA, {}, text


REFUSED = {
    # 1001, in the order of its checks
    "set unknown": (alter(brokerName="nobody"), ALTER_FAILED, ["nobody"]),
    "set missing": (alter(brokerName=None), INVALID_REQUEST, ["brokerName"]),
    "set too long": (alter(brokerName=LONG), INVALID_REQUEST, ["brokerName", "300", "255"]),
    "nothing changes": (alter({"syncStateSet": [2, 1]}), ALTER_FAILED, ["[1, 2]"]),
    "nothing changes, twice the same": (alter({"syncStateSet": [2, 1, 2]}), ALTER_FAILED, ["[1, 2]"]),
    "not the master": (alter(masterBrokerId=2), INVALID_MASTER, ["is 1", "not 2"]),
    "master that does not exist": (alter(masterBrokerId=LONG_MAX), INVALID_MASTER, ["is 1", str(LONG_MAX)]),
    "master missing": (alter(masterBrokerId=None), INVALID_REQUEST, ["masterBrokerId"]),
    "master negative": (alter(masterBrokerId=-1), INVALID_REQUEST, ["masterBrokerId", "-1"]),
    "master too large for a long": (alter(masterBrokerId=LONG_MAX + 1), INVALID_REQUEST, ["masterBrokerId"]),
    "master epoch stale": (alter(masterEpoch=0), FENCED_MASTER_EPOCH, ["epoch 1", "says 0"]),
    "master epoch of the future": (alter(masterEpoch=2), FENCED_MASTER_EPOCH, ["epoch 1", "says 2"]),
    "master epoch negative": (alter(masterEpoch=-1), FENCED_MASTER_EPOCH, ["epoch 1", "says -1"]),
    "master epoch missing": (alter(masterEpoch=None), INVALID_REQUEST, ["masterEpoch"]),
    "master epoch no number": (alter(masterEpoch="one"), INVALID_REQUEST, ["masterEpoch"]),
    "master epoch too large for an int": (alter(masterEpoch=2**31), INVALID_REQUEST, ["masterEpoch"]),
    "set epoch stale": (alter({"syncStateSetEpoch": 1}), FENCED_SYNC_STATE_SET_EPOCH, ["epoch 2", "says 1"]),
    "set epoch of the future": (alter({"syncStateSetEpoch": 3}), FENCED_SYNC_STATE_SET_EPOCH, ["epoch 2", "says 3"]),
    "set epoch negative": (alter({"syncStateSetEpoch": -1}), FENCED_SYNC_STATE_SET_EPOCH, ["epoch 2", "says -1"]),
    "set epoch too large for an int": (alter({"syncStateSetEpoch": 2**31}), SYSTEM_ERROR, ["syncStateSetEpoch"]),
    "strangers": (alter({"syncStateSet": [1, 99]}), INVALID_REPLICAS, ["99"]),
    "strangers, negative": (alter({"syncStateSet": [1, -1]}), INVALID_REPLICAS, ["-1"]),
    "strangers, huge": (alter({"syncStateSet": [1, LONG_MAX]}), INVALID_REPLICAS, [str(LONG_MAX)]),
    "strangers before the silent": (alter({"syncStateSet": [1, 3, 99]}), INVALID_REPLICAS, ["99"]),
    "more than anybody has": (alter({"syncStateSet": list(range(1, 2000))}), INVALID_REQUEST, ["1999", "1000"]),
    "too large for longs": (alter({"syncStateSet": [LONG_MAX + 1]}), SYSTEM_ERROR, []),
    "silent": (alter({"syncStateSet": [1, 2, 3]}), NOT_ALIVE, ["3"]),
    "without the master": (alter({"syncStateSet": [2]}), ALTER_FAILED, ["[2]", "master"]),
    "empty": (alter({"syncStateSet": []}), ALTER_FAILED, ["[]", "master"]),
    "body missing": (alter_as(b""), SYSTEM_ERROR, ["body"]),
    "body broken": (alter_as(b'{"syncStateSet":[1'), SYSTEM_ERROR, []),
    "body no text": (alter_as(b"\xff\xfe\x00"), SYSTEM_ERROR, []),
    "body of the wrong type": (alter_as(b"[1]"), SYSTEM_ERROR, []),
    "body null": (alter_as(b"null"), SYSTEM_ERROR, []),
    "body with a set of texts": (alter(body={"syncStateSet": ["a"]}), SYSTEM_ERROR, []),
    "body without the epoch": (alter_as(b'{"syncStateSet":[1]}'), SYSTEM_ERROR, ["syncStateSetEpoch"]),
    "body without the set": (alter_as(b'{"syncStateSetEpoch":2}'), SYSTEM_ERROR, ["syncStateSet"]),
    "body of brackets": (alter_as(b"[" * 100_000), SYSTEM_ERROR, []),
    # 1002
    "election of an unknown set": (elect(brokerName="nobody"), TO_BE_REGISTERED, ["nobody"]),
    "election in another cluster": (elect(clusterName="D"), TO_BE_REGISTERED, ["cluster C", "says D"]),
    "election without a set": (elect(brokerName=None), INVALID_REQUEST, ["brokerName"]),
    "election of a set too long": (elect(brokerName=LONG), INVALID_REQUEST, ["brokerName"]),
    "designated that does not exist": (elect(brokerId=99), ELECT_FAILED, []),
    "designated that is negative": (elect(brokerId=-7), ELECT_FAILED, []),
    "designated that is huge": (elect(brokerId=LONG_MAX), ELECT_FAILED, []),
    "designated out of sync": (elect(brokerId=3), ELECT_FAILED, ["3"]),
    # 1003
    "start in an unknown set": (register(brokerName="nobody"), TO_BE_REGISTERED, ["nobody"]),
    "start with an unknown id": (register(brokerId=99), TO_BE_REGISTERED, [SET, "99"]),
    "start in another cluster": (register(clusterName="D"), TO_BE_REGISTERED, ["cluster C", "says D"]),
    "start without a cluster": (register(clusterName=None), INVALID_REQUEST, ["clusterName"]),
    "start without an id": (register(brokerId=None), INVALID_REQUEST, ["brokerId"]),
    "start with a negative id": (register(brokerId=-1), INVALID_REQUEST, ["brokerId", "-1"]),
    "start with an id that is no number": (register(brokerId="0x2"), INVALID_REQUEST, ["brokerId"]),
    "start without an address": (register(brokerAddress=None), INVALID_REQUEST, ["brokerAddress"]),
    "start at no address": (register(brokerAddress="here"), INVALID_REQUEST, ["brokerAddress", "here"]),
    "start at no port": (register(brokerAddress="127.0.0.1:0"), INVALID_REQUEST, ["brokerAddress", "127.0.0.1:0"]),
    "start at a port too large": (register(brokerAddress="127.0.0.1:65536"), INVALID_REQUEST, ["65536"]),
    "start at an address with a NUL": (register(brokerAddress="\0:80"), INVALID_REQUEST, ["brokerAddress"]),
    "start at an address too long": (register(brokerAddress=LONG + ":80"), INVALID_REQUEST, ["303"]),
    # 1004, 1006
    "metadata of an unknown set": ((REPLICA_INFO, {"brokerName": "nobody"}, b""), UNKNOWN_METADATA, ["nobody"]),
    "metadata of no set": ((REPLICA_INFO, {}, b""), INVALID_REQUEST, ["brokerName"]),
    "sync state of nothing": (sync_state_data(b""), SYSTEM_ERROR, ["names"]),
    "sync state of an empty list": (sync_state_data(b"[]"), SYSTEM_ERROR, ["names"]),
    "sync state of an object": (sync_state_data(b"{}"), SYSTEM_ERROR, []),
    "sync state of numbers": (sync_state_data(b"[[1]]"), SYSTEM_ERROR, []),
    "sync state of broken text": (sync_state_data(b'["s'), SYSTEM_ERROR, []),
    # 1009
    "configuration on the black list": ((UPDATE_CONFIG, {}, b"configBlackList=x"), NO_PERMISSION, []),
    "configuration of a path": ((UPDATE_CONFIG, {}, b"controllerStorePath=/tmp/x"), NO_PERMISSION, []),
    "configuration of no number": (
        (UPDATE_CONFIG, {}, b"serverChannelMaxIdleTimeSeconds=soon"),
        SYSTEM_ERROR,
        ["serverChannelMaxIdleTimeSeconds", "soon"],
    ),
    # 1011
    "cleaning an unknown set": (clean(brokerName="nobody"), INVALID_CLEAN, ["nobody"]),
    "cleaning no set": (clean(brokerName=None), INVALID_REQUEST, ["brokerName"]),
    "cleaning a set with a master": (clean(), INVALID_CLEAN, ["master 1"]),
    "cleaning the living": (clean(brokerControllerIdsToClean="2;3"), INVALID_CLEAN, ["[2]"]),
    "cleaning no numbers": (clean(brokerControllerIdsToClean="three"), INVALID_CLEAN, ["three"]),
    "cleaning negative ids": (clean(brokerControllerIdsToClean="-3"), INVALID_CLEAN, ["-3"]),
    "cleaning strangers": (clean(brokerControllerIdsToClean="3;99"), INVALID_CLEAN, ["99"]),
    "cleaning huge ids": (clean(brokerControllerIdsToClean="9" * 30), INVALID_CLEAN, ["999"]),
    "cleaning separators": (clean(brokerControllerIdsToClean=";;"), INVALID_CLEAN, []),
    "cleaning too many": (clean(brokerControllerIdsToClean=";".join("3" * 1001)), INVALID_CLEAN, ["1001", "1000"]),
    "cleaning in another cluster": (clean(clusterName="D", brokerControllerIdsToClean="3"), INVALID_CLEAN, ["C", "D"]),
    "cleaning all in another cluster": (clean(clusterName="D", isCleanLivingBroker="true"), INVALID_CLEAN, ["C", "D"]),
    "cleaning all in sync": (
        clean(brokerControllerIdsToClean="1;2", isCleanLivingBroker="true"),
        INVALID_CLEAN,
        ["[1, 2]"],
    ),
    # 1012, 1013
    "next id of no set": ((NEXT_ID, {"clusterName": CLUSTER}, b""), INVALID_REQUEST, ["brokerName"]),
    "id that is not the next": (apply(appliedBrokerId=5), ID_INVALID, ["5", "next is 4"]),
    "id that is taken": (apply(appliedBrokerId=2), ID_INVALID, ["2", "next is 4"]),
    "id zero": (apply(appliedBrokerId=0), ID_INVALID, ["0", "next is 4"]),
    "id negative": (apply(appliedBrokerId=-4), INVALID_REQUEST, ["appliedBrokerId", "-4"]),
    "id huge": (apply(appliedBrokerId=LONG_MAX), ID_INVALID, [str(LONG_MAX), "next is 4"]),
    "id missing": (apply(appliedBrokerId=None), INVALID_REQUEST, ["appliedBrokerId"]),
    "id in another cluster": (apply(clusterName="D"), ID_INVALID, ["cluster C", "says D"]),
    "id in no cluster": (apply(clusterName=None), INVALID_REQUEST, ["clusterName"]),
    "id of an unknown set that is not the first": (apply(brokerName="nobody", appliedBrokerId=2), ID_INVALID, ["1"]),
    "id for no check code": (apply(registerCheckCode=None), INVALID_REQUEST, ["registerCheckCode"]),
    "id for a check code without address": (apply(registerCheckCode=";7"), INVALID_REQUEST, ["registerCheckCode"]),
    "id for a check code too long": (apply(registerCheckCode=f"h:1;{LONG}"), INVALID_REQUEST, ["registerCheckCode"]),
    "id of a set too long": (apply(brokerName=LONG, appliedBrokerId=1), INVALID_REQUEST, ["brokerName"]),
    "id in a cluster too long": (apply(clusterName=LONG), INVALID_REQUEST, ["clusterName"]),
    # 904
    "beat without an id": (heartbeat(brokerId=None), INVALID_REQUEST, ["brokerId"]),
    "beat with a negative id": (heartbeat(brokerId=-1), INVALID_REQUEST, ["brokerId"]),
    "beat of no set": (heartbeat(brokerName=None), INVALID_REQUEST, ["brokerName"]),
    "beat from no address": (heartbeat(brokerAddr="nowhere"), INVALID_REQUEST, ["brokerAddr", "nowhere"]),
} | {
    f"code {code}": ((code, {"brokerName": SET}, b"{}"), NOT_SUPPORTED, [str(code)])
    for code in (-1, 0, 103, 105, 901, 1007, 1008, 1014, 1015, 1016, 1017, 1018, 1019, 32_767)
}

NOT_REFUSED = {
    "election of the master": (elect(brokerId=1), STILL_EXISTS),
    "election by an id that does not exist": (elect(brokerId=99, designateElect="false"), STILL_EXISTS),
    "election of anybody": (elect(brokerId=None, designateElect=None), STILL_EXISTS),
    "sync state of unknown sets": (sync_state_data(b'["nobody","nowhere"]'), SUCCESS),
    "next id of an unknown set": ((NEXT_ID, {"clusterName": CLUSTER, "brokerName": "nobody"}, b""), SUCCESS),
    "configuration of nothing": ((UPDATE_CONFIG, {}, b""), SUCCESS),
    "beat of another cluster": (heartbeat(clusterName="D", epoch=1000), SUCCESS),
    "beat of a stranger": (heartbeat(brokerId=77, epoch=1000, heartbeatTimeoutMills=LONG_MAX), SUCCESS),
    "beat of a stranger with an absurd epoch": (heartbeat(brokerId=79, epoch=2**31 - 1), SUCCESS),
    "beat of a stranger with an epoch too large for an int": (heartbeat(brokerId=80, epoch=2**31), SUCCESS),
    "beat with absurd timeouts": (heartbeat(brokerId=78, heartbeatTimeoutMills=-LONG_MAX), SUCCESS),
    "id that the same broker has": (None, SUCCESS),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_cannot_be_is_refused_with_its_code_and_a_reason_and_changes_nothing(stage, case):
    request, expected, parts = REFUSED[case]
    before = stage.seen()
    answer = stage.request(*request)
    assert answer.code == expected
    assert answer.body == b""
    for part in parts:
        assert part in answer.remark
    assert len(answer.remark) < 1_000
    assert stage.seen() == before


@pytest.mark.parametrize("case", NOT_REFUSED, ids=str)
def test_a_request_for_what_is_already_so_changes_nothing(stage, case):
    request, expected = NOT_REFUSED[case]
    if request is None:
        member = stage.members[1]
        request = apply(appliedBrokerId=2, registerCheckCode=f"{member.address};17")
    before = stage.seen()
    assert stage.request(*request).code == expected
    assert stage.seen() == before


def test_a_refused_alteration_is_marked_in_its_header_as_java_does(stage):
    answer = stage.request(*alter(masterEpoch=9))
    assert (answer.code, answer.fields) == (FENCED_MASTER_EPOCH, {"newSyncStateSetEpoch": "0"})


def test_a_refused_start_repeats_who_started_as_java_does(stage):
    answer = stage.request(*register(brokerId=99))
    assert answer.fields == {"clusterName": CLUSTER, "brokerName": SET}


def test_what_wants_no_answer_gets_none_however_bad_it_is(stage):
    before = stage.seen()
    for code, fields, body in (request for request, _, _ in REFUSED.values()):
        texts = {key: str(value) for key, value in fields.items() if value is not None}
        stage.line.send(code, texts, body, flag=ONE_WAY)
    assert stage.request(GET_METADATA, {}).code == SUCCESS
    assert stage.seen() == before


def test_bytes_that_are_no_frame_end_their_connection_and_nothing_else(stage):
    before = stage.seen()
    # Fewer than twelve bytes could be the beginning of anything, and are waited for.
    too_long, header_too_long = b"\x7f\xff\xff\xff" + bytes(12), b"\x00\x00\x00\x0c\x00\xff\xff\xff" + bytes(8)
    for junk in (b"GET / HTTP/1.1\r\n\r\n", header_too_long, too_long):
        with socket.create_connection(("127.0.0.1", stage.controller.port), timeout=10) as connection:
            connection.sendall(junk)
            assert connection.recv(100) == b""
    assert stage.seen() == before


@pytest.mark.parametrize("stage", [False], ids=["JSON"], indirect=True)
def test_heartbeats_of_made_up_brokers_cost_little_and_hurt_nobody(stage):
    before = stage.seen()
    mb_before = resident_mb(stage)
    crowd = [flood(number) for number in range(4)]
    for chunks in zip(*crowd, strict=True):
        with socket.create_connection(("127.0.0.1", stage.controller.port), timeout=30) as connection:
            for chunk in chunks:
                connection.sendall(chunk)
            # All of it was read once the next request is answered.
            assert Line(connection).request(GET_METADATA, {}).code == SUCCESS
            assert stage.seen() == before
    assert resident_mb(stage) - mb_before < 60
    for member in stage.members[:2]:
        assert member.info().fields["masterEpoch"] == "1"
    assert stage.seen() == before


def flood(number, *, heartbeats=40_000, chunk=5_000):
    """Yield heartbeats, half of sets that do not exist, half of ids that a known set does not have."""
    for start in range(0, heartbeats, chunk):
        yield b"".join(
            frame(HEARTBEAT, {key: str(value) for key, value in made_up(number, i).items()}, opaque=i, flag=ONE_WAY)
            for i in range(start, start + chunk)
        )


def made_up(number, i):
    name, broker_id = (f"made-up-{number}-{i}" + "x" * 200, 1) if i % 2 else (SET, 1_000_000 * (number + 1) + i)
    return heartbeat(brokerName=name, brokerId=broker_id, heartbeatTimeoutMills=86_400_000)[1]


def resident_mb(stage):
    status = Path(f"/proc/{stage.controller.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024
