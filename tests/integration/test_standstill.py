"""What becomes of brokers while our process stands still, and of silent ones while it runs."""

import socket
import time

import pytest
from peers.figures import print_figures
from peers.scripted import Line, ScriptedBroker
from peers.waiting import holds_for, seconds_until, wait_until
from peers.wire import GET_CLUSTER_INFO

TIMEOUT_MS = 1500
SCAN_MS = 300
HEARTBEAT_S = 0.3

#: The real thing: longer than the 120 s of silence that brokers are allowed unless they say otherwise.
STANDSTILL_S = 150
DEFAULT_SCAN_S = 5
#: Brokers beat and register so often unless told otherwise.
DEFAULT_HEARTBEAT_S = 1
DEFAULT_REGISTRATION_S = 30


@pytest.fixture
def server(lab):
    return lab.name_server("namesrv", scanNotActiveBrokerInterval=SCAN_MS)


@pytest.fixture
def broker_at():
    made = []

    def make(server, name, timeout_ms):
        """Register a broker over a connection of its own."""
        address = f"10.0.0.{sum(map(ord, name)) % 250}:10911"
        line = Line(socket.create_connection(("127.0.0.1", server.port)))
        broker = ScriptedBroker(line, name, address=address, timeout_ms=timeout_ms)
        made.append(broker)
        broker.register()
        return broker

    yield make
    for broker in made:
        broker.close()


@pytest.fixture
def brokers(server, broker_at):
    return lambda name, timeout_ms=TIMEOUT_MS: broker_at(server, name, timeout_ms)


def heartbeat_for(seconds, *beating):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for broker in beating:
            broker.heartbeat()
        time.sleep(HEARTBEAT_S)


def test_brokers_that_go_on_with_heartbeats_survive_a_standstill_of_the_server(server, brokers):
    alive = [brokers("a"), brokers("b")]
    server.process.pause()
    heartbeat_for(2 * TIMEOUT_MS / 1000, *alive)
    server.process.resume()
    heartbeat_for(3 * SCAN_MS / 1000, *alive)
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


def test_a_silent_broker_leaves_at_its_deadline_long_before_the_next_scan(lab, broker_at):
    server = lab.name_server("seldom", scanNotActiveBrokerInterval=600_000)
    silent, patient = broker_at(server, "silent", TIMEOUT_MS), broker_at(server, "patient", 600_000)
    wait_until(lambda: not server.caller.addresses(silent.name), seconds=60, what="the removal")
    assert server.caller.addresses(patient.name)


def test_a_broker_that_only_sends_heartbeats_stays(server, brokers):
    broker = brokers("a")
    end = time.perf_counter() + 2 * TIMEOUT_MS / 1000

    def still_there():
        broker.heartbeat()
        return server.caller.addresses(broker.name)

    holds_for(still_there, seconds=end - time.perf_counter(), what="the broker is registered")


def live_for(seconds, *living):
    """Beat and register as brokers do, and leave the answers unread: the server may be stopped."""
    for heartbeat in range(round(seconds / DEFAULT_HEARTBEAT_S)):
        for broker in living:
            broker.heartbeat()
            if heartbeat % (DEFAULT_REGISTRATION_S / DEFAULT_HEARTBEAT_S) == 0:
                broker.send_registration()
        time.sleep(DEFAULT_HEARTBEAT_S)


@pytest.mark.soak
@pytest.mark.timeout(STANDSTILL_S + 120)
def test_after_a_standstill_longer_than_the_default_timeout_only_the_brokers_that_died_meanwhile_leave(
    lab, broker_at, capsys
):
    server = lab.name_server("namesrv")
    alive = [broker_at(server, f"alive-{number}", None) for number in range(20)]
    silent, ended = broker_at(server, "silent", None), broker_at(server, "ended", None)
    server.process.pause()
    ended.close()
    live_for(STANDSTILL_S, *alive)
    server.process.resume()
    answered_s = seconds_until(server.caller.is_up, seconds=10, what="an answer")
    left_s = {}
    start = time.perf_counter()
    lowest = len(alive)

    def look():
        nonlocal lowest
        for broker in alive:
            broker.heartbeat()
        table = server.caller.request(GET_CLUSTER_INFO).json["brokerAddrTable"]
        lowest = min(lowest, sum(broker.name in table for broker in alive))
        for broker in (silent, ended):
            if broker.name not in table:
                left_s.setdefault(broker.name, time.perf_counter() - start)
        return lowest == len(alive)

    # The first scan is skipped, the second removes who is silent; the third could only be wrong.
    holds_for(look, seconds=4 * DEFAULT_SCAN_S, what="all living brokers are registered")
    assert left_s.keys() == {silent.name, ended.name}
    print_figures(
        capsys,
        f"standstill: {STANDSTILL_S} s, {len(alive)} living brokers never fewer than {lowest}, first answer after "
        f"{answered_s:.2f} s, the closed one left after {left_s[ended.name]:.1f} s, "
        f"the silent one after {left_s[silent.name]:.1f} s",
    )
