"""What becomes of brokers while our process stands still, and of silent ones while it runs."""

import json
import socket
import struct
import time

import pytest
from peers.waiting import holds_for, wait_until

TIMEOUT_MS = 1500
SCAN_MS = 300
BEAT_S = 0.3

REGISTER_BROKER = 103
HEARTBEAT = 904


class BeatingBroker:
    """Registers once over a connection of its own, then beats when told to."""

    def __init__(self, port, name, timeout_ms):
        self.name = name
        self.address = f"10.0.0.{sum(map(ord, name)) % 250}:10911"
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._timeout_ms = timeout_ms
        self._identity = {"clusterName": "C", "brokerName": name, "brokerAddr": self.address}

    def register(self):
        fields = self._identity | {"brokerId": "0", "heartbeatTimeoutMillis": str(self._timeout_ms)}
        self._send(REGISTER_BROKER, fields)
        assert self._connection.recv(65536)

    def beat(self):
        self._send(HEARTBEAT, self._identity, flag=2)

    def close(self):
        self._connection.close()

    def _send(self, code, fields, flag=0):
        header = json.dumps({"code": code, "flag": flag, "version": 513, "extFields": fields}).encode()
        self._connection.sendall(struct.pack(">II", 4 + len(header), len(header)) + header)


@pytest.fixture
def server(lab):
    return lab.name_server("namesrv", scanNotActiveBrokerInterval=SCAN_MS)


@pytest.fixture
def brokers(server):
    made = []

    def make(name, timeout_ms=TIMEOUT_MS):
        broker = BeatingBroker(server.port, name, timeout_ms)
        broker.register()
        made.append(broker)
        return broker

    yield make
    for broker in made:
        broker.close()


def beat_for(seconds, *beating):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for broker in beating:
            broker.beat()
        time.sleep(BEAT_S)


def test_brokers_that_beat_on_survive_a_standstill_of_the_server(server, brokers):
    alive = [brokers("a"), brokers("b")]
    server.process.pause()
    beat_for(2 * TIMEOUT_MS / 1000, *alive)
    server.process.resume()
    beat_for(3 * SCAN_MS / 1000, *alive)
    for broker in alive:
        assert server.caller.addresses(broker.name) == {"0": broker.address}


def test_a_broker_that_fell_silent_during_a_standstill_is_removed_after_it(server, brokers):
    silent = brokers("a")
    server.process.pause()
    time.sleep(2 * TIMEOUT_MS / 1000)
    server.process.resume()
    wait_until(
        lambda: not server.caller.addresses(silent.name), seconds=(TIMEOUT_MS + 4 * SCAN_MS) / 1000, what="the removal"
    )


def test_a_silent_broker_leaves_after_its_own_timeout_and_others_stay(server, brokers):
    quick, patient = brokers("quick"), brokers("patient", timeout_ms=60_000)
    wait_until(
        lambda: not server.caller.addresses(quick.name), seconds=(TIMEOUT_MS + 4 * SCAN_MS) / 1000, what="the removal"
    )
    assert server.caller.addresses(patient.name)


def test_a_broker_that_only_beats_stays(server, brokers):
    broker = brokers("a")
    end = time.perf_counter() + 2 * TIMEOUT_MS / 1000

    def still_there():
        broker.beat()
        return server.caller.addresses(broker.name)

    holds_for(still_there, seconds=end - time.perf_counter(), what="the broker is registered")
