"""A NameServer with all the waiting requests it takes tells others so, goes on with routes, and recovers by itself."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

import pytest
from peers.lab import ORIGINAL_UNDER_TEST
from peers.servers import Broker, NameServer, registered
from peers.waiting import wait_until
from peers.wire import GET_CLUSTER_INFO, PUT_KV_CONFIG, SUCCESS, addresses_in, answer_over, frame

pytestmark = [
    pytest.mark.broad,
    pytest.mark.java,
    pytest.mark.skipif(ORIGINAL_UNDER_TEST, reason="the original does not read its KV file before it writes it"),
]

SYSTEM_BUSY = 2
BUSY_REMARK = "[OVERLOAD]system busy, start flow control for a while"

#: So few requests may wait.
WAITING_MAX = 5

#: A broker registers again within this time, also on a busy machine: two of its periods, and its search for reachable
#: NameServers.
REGISTRATION_ROUND_S = 90


class StuckDisk:
    """A KV file that nobody can read before `mend`, so that every change of the KV table waits."""

    def __init__(self, path):
        self._path = Path(path)
        self._path.unlink(missing_ok=True)
        os.mkfifo(self._path)

    def mend(self):
        if self._path.is_fifo():
            # Whoever waits for bytes of it learns that there are none.
            os.close(os.open(self._path, os.O_WRONLY | os.O_NONBLOCK))


@dataclass
class Cluster:
    namesrv: NameServer
    broker: Broker

    @property
    def kv_file(self):
        return self.namesrv.folder / "kvConfig.json"


@pytest.fixture(scope="module")
def cluster(module_lab):
    namesrv = module_lab.name_server(defaultThreadPoolQueueCapacity=WAITING_MAX)
    broker = module_lab.broker("b550", namesrv=[namesrv.address]).start().ready()
    wait_until(lambda: registered(namesrv, broker), seconds=REGISTRATION_ROUND_S, what="the broker")
    return Cluster(namesrv, broker)


@pytest.fixture
def crowd(cluster):
    """Let requests that wait for a disk use up all the room, until it is mended or the test is over."""
    disk = StuckDisk(cluster.kv_file)
    request = frame(PUT_KV_CONFIG, {"namespace": "NS", "key": "k", "value": "v"})
    with socket.create_connection(("127.0.0.1", cluster.namesrv.port), timeout=60) as waiting:
        waiting.sendall(WAITING_MAX * request)
        wait_until(lambda: answer_code(cluster) == SYSTEM_BUSY, seconds=10, what="all the room is taken")
        yield disk.mend
        disk.mend()
        # Each of them replaces the file, also the one that is stuck for the next test.
        assert [answer_over(waiting).code for _ in range(WAITING_MAX)] == WAITING_MAX * [SUCCESS]


def answer_code(cluster):
    return cluster.namesrv.caller.request(GET_CLUSTER_INFO).code


def test_mqadmin_gets_system_busy_and_is_served_when_the_server_no_longer_is(cluster, crowd, mqadmin):
    namesrv = cluster.namesrv
    printed = mqadmin.run("clusterList", namesrv=[namesrv.address])
    assert f"CODE: {SYSTEM_BUSY}  DESC: {BUSY_REMARK}" in printed
    crowd()
    wait_until(lambda: namesrv.caller.request(GET_CLUSTER_INFO).code == SUCCESS, seconds=5, what="room again")
    assert cluster.broker.address in mqadmin.run("clusterList", namesrv=[namesrv.address])


def test_routes_are_answered_meanwhile_and_producers_send(cluster, crowd, lab):
    producer = lab.producer("producer", namesrv=[cluster.namesrv.address], topic="b550", count=20).finish()
    assert producer.failures() == []
    assert cluster.namesrv.caller.request(GET_CLUSTER_INFO).code == SYSTEM_BUSY


def test_a_broker_whose_registration_meets_a_busy_server_stays_and_registers_again_later(cluster, crowd):
    broker, caller = cluster.broker.process, cluster.namesrv.caller
    refused = rf"Failed to register current broker to name server.*\n.*CODE: {SYSTEM_BUSY} .*OVERLOAD"
    broker.wait_for(refused, seconds=REGISTRATION_ROUND_S, position=broker.position())
    assert addresses_in(caller.route("b550"), "b550") == {"0": cluster.broker.address}
    crowd()
    accepted = "Registering current broker to name server completed"
    broker.wait_for(accepted, seconds=REGISTRATION_ROUND_S, position=broker.position())
    assert registered(cluster.namesrv, cluster.broker)
