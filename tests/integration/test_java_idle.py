"""Silent connections are closed; real brokers, which send rarely but do send, are not touched by that."""

import socket
import struct
import time
from dataclasses import dataclass

import pytest
from peers.jars import V4_9
from peers.servers import Broker, NameServer, registered
from peers.waiting import wait_until
from peers.wire import GET_CLUSTER_INFO

SHORT_IDLE_S = 2

#: Longer than a 4.9 broker is silent: all it sends is a registration each 10 s.
IDLE_S = 15

#: When a connection is seen to be idle, and closed, on a busy machine.
SLACK_S = 5

#: A broker registers within this time: its period, its search for reachable NameServers, and what it takes.
REGISTRATION_ROUND_S = 14


class Peer:
    """One connection that stays open until the server closes it."""

    def __init__(self, address):
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=SLACK_S)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._socket.close()

    def request(self):
        header = b'{"code":%d,"language":"JAVA","version":513,"opaque":1,"flag":0}' % GET_CLUSTER_INFO
        self._socket.sendall(struct.pack(">II", 4 + len(header), len(header)) + header)
        assert len(self._socket.recv(65536)) > 4

    def is_closed(self):
        """Return whether the server has closed the connection, without waiting."""
        self._socket.setblocking(False)
        try:
            return self._socket.recv(1) == b""
        except BlockingIOError:
            return False
        finally:
            self._socket.settimeout(SLACK_S)


def test_a_silent_connection_is_closed_and_one_that_sends_is_kept(lab):
    address = lab.name_server("namesrv", serverChannelMaxIdleTimeSeconds=SHORT_IDLE_S).address
    with Peer(address) as never_spoke, Peer(address) as spoke_once, Peer(address) as talkative:
        spoke_once.request()
        start = time.perf_counter()

        def silent_ones_are_closed():
            talkative.request()
            assert not talkative.is_closed()
            return spoke_once.is_closed() and never_spoke.is_closed()

        wait_until(silent_ones_are_closed, seconds=SHORT_IDLE_S + SLACK_S, what="the end of silent connections")
        assert time.perf_counter() - start >= SHORT_IDLE_S - 0.1
        talkative.request()


@dataclass
class Cluster:
    namesrv: NameServer
    brokers: list[Broker]


@pytest.fixture
def cluster(lab):
    namesrv = lab.name_server("namesrv", serverChannelMaxIdleTimeSeconds=IDLE_S)
    versions = {"b550": {}, "b497": {"version": V4_9}}
    brokers = [lab.broker(name, namesrv=[namesrv.address], **settings).start() for name, settings in versions.items()]
    for broker in brokers:
        broker.ready()
    wait_until(lambda: registered(namesrv, *brokers), seconds=REGISTRATION_ROUND_S, what="the brokers")
    return Cluster(namesrv, brokers)


@pytest.mark.broad
@pytest.mark.java
def test_brokers_that_only_register_now_and_then_stay_while_a_silent_peer_is_sent_away(cluster):
    with Peer(cluster.namesrv.address) as silent:
        silent.request()

        def sent_away():
            assert registered(cluster.namesrv, *cluster.brokers)
            return silent.is_closed()

        wait_until(sent_away, seconds=IDLE_S + SLACK_S, what="the end of the silent connection")
