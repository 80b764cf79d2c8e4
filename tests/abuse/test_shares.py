"""What everybody gets has a limit, and each host a share of it: strangers take only their own.

Strangers are at 127.0.0.1, those who behave at another address.
"""

import contextlib
import json
import socket
import struct

import pytest
from crowd import read_answers
from peers.scripted import Line, ScriptedBroker, queues_in, registration_body, route_query
from peers.wire import REGISTER_BROKER, frame

#: The defaults of brokersPerConnectionMax and topicSetsPerHostMax.
OF_A_CONNECTION, SETS_PER_HOST = 1024, 512
#: What one host adds to a route, the sets that are there without it, and what Java's peers read.
ROUTE_BYTES_MAX, FRAME_BYTES_MAX = SETS_PER_HOST * 1024 + 64 * 1024, 16 * 1024 * 1024
CLUSTER_INFO, MEMBERS, ALL_TOPICS = 106, 99, 206
SERVERS = [f"{number}{'f' * 240}:9" for number in range(9)] * 2


@contextlib.contextmanager
def a_line(served, host="127.0.0.9"):
    source = (host, 0)
    with contextlib.closing(
        Line(socket.create_connection(("127.0.0.1", served.port), timeout=120, source_address=source))
    ) as line:
        yield line


@contextlib.contextmanager
def real_set(served, topics=("Orders", "Payments")):
    with a_line(served) as line:
        broker = ScriptedBroker(line, "real", address="10.9.9.9:10911")
        broker.register(dict.fromkeys(topics, 4))
        yield broker


def a_stranger(number, body, **fields):
    """Return the registration of an invented set with a name as long as may be."""
    identity = {"clusterName": "C", "brokerName": f"{number:07}{'n' * 248}", "brokerId": "0"}
    return frame(REGISTER_BROKER, identity | {"brokerAddr": f"{'a' * 240}:10911"} | fields, body)


def register(served, requests, connections=1):
    """Register all over some connections, which stay open until the end, and return the answers' frames by connection.

    Use it as a context.
    """
    stack = contextlib.ExitStack()
    size = -(-len(requests) // connections)
    answers = []
    for start in range(0, len(requests), size):
        each = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=120))
        for few in range(start, min(start + size, len(requests)), 64):
            batch = requests[few : min(few + 64, start + size)]
            each.sendall(b"".join(batch))
            answers += read_answers(each, len(batch), seconds=120)
    return stack, answers


def code_of(answer):
    (length,) = struct.unpack(">I", answer[4:8])
    return json.loads(answer[8 : 8 + (length & 0xFFFFFF)])


@pytest.mark.parametrize("connections", [1, 15])
def test_a_topic_stays_findable_though_strangers_claim_it(serve, print_figures, connections):
    served = serve()
    body = registration_body({"Orders": 4, "other": 4}, 1)
    requests = [a_stranger(number, body) for number in range(connections * OF_A_CONNECTION)]
    with real_set(served, ("Orders", "Old")), a_line(served) as client:
        stack, answers = register(served, requests, connections)
        with stack, a_line(served) as line:
            late = ScriptedBroker(line, "late", address="10.9.9.8:10911")
            late.register({"Orders": 4, "Late": 4})
            route, clusters = client.request(*route_query("Orders")), client.request(CLUSTER_INFO, {})
            sets = queues_in(route)
            print_figures(sets=len(sets), route_bytes=len(route.body), clusters_bytes=len(clusters.body))
            assert {code_of(answer)["code"] for answer in answers} == {0}
            assert {"real", "late"} < set(sets)
            assert len(sets) <= SETS_PER_HOST + 2
            assert len(route.body) < ROUTE_BYTES_MAX
            assert len(clusters.body) < FRAME_BYTES_MAX
            assert {"real", "late"} < set(clusters.json["brokerAddrTable"])
            # Those that are left out have their other topics, and are told of in the log.
            assert served.events("broker_registered")[-2]["ignored_topics"] > 0
    served.assert_unharmed()


def test_strangers_as_slaves_of_a_real_set_leave_its_route_short(serve, print_figures):
    """Each claims an address and filter servers as long as may be, in every set of the topic."""
    served = serve()
    body = json.dumps({"filterServerList": SERVERS, "topicConfigSerializeWrapper": {}}).encode()
    requests = [
        a_stranger(0, body, brokerName="real", brokerId=str(number), brokerAddr=f"{number}{'a' * 240}:9")
        for number in range(1, MEMBERS + 1)
    ]
    with real_set(served), a_line(served) as client:
        stack, _ = register(served, requests)
        with stack:
            route = client.request(*route_query("Orders"))
            print_figures(route_bytes=len(route.body))
            assert queues_in(route) == {"real": 4}
            assert "0" in route.json["brokerDatas"][0]["brokerAddrs"]
            assert len(route.body) < ROUTE_BYTES_MAX
            # A host adds 1 KiB of filter servers for each broker at most, which are three of these.
            assert {len(servers) for servers in route.json["filterServerTable"].values()} == {4}
    served.assert_unharmed()
