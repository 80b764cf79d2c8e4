"""A host that loses its power leaves its connection half open: no broker stays in the routes because of that.

The new process of the broker registers over a connection of its own, and ends soon; Java drops it with that one.
"""

import contextlib
import socket
import time
import urllib.request

import pytest
from peers.scripted import Line, ScriptedBroker
from peers.waiting import seconds_until, wait_until

ADDRESS = "10.9.9.9:10911"
#: From linux/tcp.h. A socket that is closed while it is repaired tells its peer nothing.
TCP_REPAIR = 19
#: Two questions a second apart, and room for a busy machine; a connection once counted for 45 s.
GONE_S = 10
#: All has been asked and answered after that.
PROBED_S = 5


@pytest.fixture
def server(network, lab):
    server = lab.name_server("namesrv", http=True, bindAddress="0.0.0.0")
    server.process.wait_for("server_ready", seconds=10)
    yield server
    assert server.process.stop() == 0


def a_broker_on(host, network, server):
    with host.inside():
        line = Line(socket.create_connection((network.server, server.port), timeout=10))
    broker = ScriptedBroker(line, "broker-a", address=ADDRESS)
    broker.register({"a": 4, "b": 4})
    return broker


def lose_power(broker):
    """Let the host forget a connection without a word; what comes for it is answered as a host does that was booted."""
    connection = broker.line._connection
    connection.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    connection.close()


def seconds_until_gone(server):
    return seconds_until(
        lambda: not server.caller.addresses("broker-a"), seconds=GONE_S, what="the broker has left the routes"
    )


@pytest.mark.parametrize("is_booted_again", [True, False], ids=["booted again", "gone"])
def test_broker_of_a_host_without_power_is_removed_within_seconds(network, server, is_booted_again):
    former = network.host(2)
    with contextlib.closing(a_broker_on(former, network, server)) as broker:
        if is_booted_again:
            lose_power(broker)
        else:
            former.leave()
        a_broker_on(former if is_booted_again else network.host(3), network, server).close()
        assert seconds_until_gone(server) < GONE_S


def test_broker_is_removed_at_once_if_its_former_connection_was_detected_as_half_open(network, server):
    host = network.host(2)
    lose_power(a_broker_on(host, network, server))
    with contextlib.closing(a_broker_on(host, network, server)) as broker:
        wait_until(lambda: connections_of_brokers(server) == 1, seconds=GONE_S, what="the former connection is closed")
        assert server.caller.addresses("broker-a") == {"0": ADDRESS}
        broker.close()
        assert seconds_until_gone(server) < 1


def test_living_broker_with_another_address_of_this_server_stays(network, server):
    host = network.host(2)
    with contextlib.closing(a_broker_on(host, network, server)) as broker:
        a_broker_on(host, network, server).close()
        wait_until(lambda: connections_of_brokers(server) == 1, seconds=GONE_S, what="one of two is closed")
        for _ in range(PROBED_S * 2):
            assert server.caller.addresses("broker-a") == {"0": ADDRESS}
            time.sleep(0.5)
        broker.register({"a": 4, "b": 4})


def connections_of_brokers(server):
    """Return how many connections of brokers are open."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=5) as answer:
        (line,) = [
            line
            for line in answer.read().decode().splitlines()
            if line.startswith("rocketmq_namesrv_connections{") and 'kind="broker"' in line
        ]
    return float(line.rpartition(" ")[2])
