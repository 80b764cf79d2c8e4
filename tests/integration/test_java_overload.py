"""A NameServer with all the waiting requests it takes tells others so, goes on with routes, and recovers by itself."""

import contextlib
import json
import socket
import struct
from dataclasses import dataclass

import pytest
from peers.lab import ORIGINAL_UNDER_TEST
from peers.servers import Broker, NameServer, registered
from peers.waiting import wait_until
from peers.wire import GET_CLUSTER_INFO, GET_ROUTE, SUCCESS, VERSION, addresses_in

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(ORIGINAL_UNDER_TEST, reason="requests whose answers are not read do not wait at the original"),
]

SYSTEM_BUSY = 2
BUSY_REMARK = "[OVERLOAD]system busy, start flow control for a while"

#: So few requests may wait, and so many bytes of answers may be unread before a connection's requests have to wait.
WAITING_MAX = 5
UNREAD_BYTES = 16 * 1024

#: A broker registers again within this time: its period, its search for reachable NameServers, and what it takes.
REGISTRATION_ROUND_S = 14


class Hog:
    """A peer that asks for more than it reads.

    Lists wait for their turn and routes do not, so the answers of its routes keep its lists waiting.
    """

    #: Also the answers that the system keeps for it have to be few.
    RECEIVE_BYTES = 4096
    SENDINGS = 30

    def __init__(self, address):
        host, port = address.split(":")
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.RECEIVE_BYTES)
        self._socket.connect((host, int(port)))

    def ask(self):
        """Send requests until the server takes no more, or many times as many as it has answers to keep."""
        requests = frame(GET_CLUSTER_INFO) + 10 * frame(GET_ROUTE, {"topic": "unknown" * 100})
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for _ in range(self.SENDINGS):
                if self._socket.send(requests) < len(requests):
                    return

    def leave(self):
        self._socket.close()


def frame(code, fields=None):
    header = {"code": code, "language": "JAVA", "version": VERSION, "opaque": 1, "flag": 0, "extFields": fields or {}}
    text = json.dumps(header).encode()
    return struct.pack(">II", 4 + len(text), len(text)) + text


@dataclass
class Cluster:
    namesrv: NameServer
    broker: Broker


@pytest.fixture(scope="module")
def cluster(module_lab):
    namesrv = module_lab.name_server(
        defaultThreadPoolQueueCapacity=WAITING_MAX,
        serverSocketSndBufSize=UNREAD_BYTES,
        writeBufferHighWaterMark=UNREAD_BYTES,
        writeBufferLowWaterMark=UNREAD_BYTES // 2,
    )
    broker = module_lab.broker("b550", namesrv=[namesrv.address]).start().ready()
    wait_until(lambda: registered(namesrv, broker), seconds=REGISTRATION_ROUND_S, what="the broker")
    return Cluster(namesrv, broker)


@pytest.fixture
def crowd(cluster):
    """Let peers that read nothing use up all the room, until they are told to leave or the test is over."""
    hogs = []

    def is_busy():
        hogs.append(Hog(cluster.namesrv.address))
        hogs[-1].ask()
        return cluster.namesrv.caller.ask(GET_CLUSTER_INFO).code == SYSTEM_BUSY

    def leave():
        while hogs:
            hogs.pop().leave()

    wait_until(is_busy, seconds=30, what="all the room is taken")
    yield leave
    leave()
    wait_until(lambda: cluster.namesrv.caller.ask(GET_CLUSTER_INFO).code == SUCCESS, seconds=5, what="room again")


def test_mqadmin_is_told_that_the_server_is_busy_and_is_served_when_it_no_longer_is(cluster, crowd, mqadmin):
    namesrv = cluster.namesrv
    printed = mqadmin.run("clusterList", namesrv=[namesrv.address])
    assert f"CODE: {SYSTEM_BUSY}  DESC: {BUSY_REMARK}" in printed
    crowd()
    wait_until(lambda: namesrv.caller.ask(GET_CLUSTER_INFO).code == SUCCESS, seconds=5, what="room again")
    assert cluster.broker.address in mqadmin.run("clusterList", namesrv=[namesrv.address])


def test_routes_are_answered_meanwhile_and_producers_send(cluster, crowd, lab):
    producer = lab.producer("producer", namesrv=[cluster.namesrv.address], topic="b550", count=20).finish()
    assert producer.failures() == []
    assert cluster.namesrv.caller.ask(GET_CLUSTER_INFO).code == SYSTEM_BUSY


def test_a_broker_whose_registration_meets_a_busy_server_stays_and_registers_again_later(cluster, crowd):
    broker, caller = cluster.broker.process, cluster.namesrv.caller
    refused = rf"Failed to register current broker to name server.*\n.*CODE: {SYSTEM_BUSY} .*OVERLOAD"
    broker.wait_for(refused, seconds=REGISTRATION_ROUND_S, position=broker.position())
    assert addresses_in(caller.route("b550"), "b550") == {"0": cluster.broker.address}
    crowd()
    accepted = "Registering current broker to name server completed"
    broker.wait_for(accepted, seconds=REGISTRATION_ROUND_S, position=broker.position())
    assert registered(cluster.namesrv, cluster.broker)
