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
from peers.waiting import wait_until
from peers.wire import REGISTER_BROKER, frame

#: The defaults of brokersPerConnectionMax and topicSetsPerHostMax.
OF_A_CONNECTION, SETS_PER_HOST = 1024, 512
#: What one host adds to a route, the sets that are there without it, and what Java's peers read.
ROUTE_BYTES_MAX, FRAME_BYTES_MAX = SETS_PER_HOST * 1024 + 64 * 1024, 16 * 1024 * 1024
#: What one connection may have takes, with a body that is read beside it, and what is kept of that when it is gone.
TOPICS_KIB_MAX, KEPT_KIB = 400 * 1024, 200 * 1024
CLUSTER_INFO, MEMBERS, ALL_TOPICS, TOPICS_OF_CLUSTER, PUT_KV, WATCH_FETCHES = 106, 99, 206, 224, 100, 20105
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


@pytest.mark.parametrize("connections", [1, pytest.param(15, marks=pytest.mark.broad)])
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
            assert len(route.body) < 64 * 1024
            # Another host's slave has a place.
            with a_line(served) as line:
                ScriptedBroker(line, "real", address="10.9.9.7:10911", broker_id=200).register({})
            # A host adds 1 KiB of filter servers for each broker at most, which are three of these.
            assert {len(servers) for servers in route.json["filterServerTable"].values()} == {4}
    served.assert_unharmed()


def test_topics_of_one_connection_take_their_share_of_the_memory_and_no_more(serve, print_figures):
    """As many as a registration may have, again and again, of another broker and of other names each time."""
    served = serve(topicBytesMax=512 * 1024 * 1024)
    before_kib, count = served.memory_kib(), 5
    with real_set(served), a_line(served) as client:
        with a_line(served, "127.0.0.1") as line:
            answers = []
            for number in range(count):
                topics = (f"t{number:02}{topic:06}{'x' * 20}" for topic in range(200_000))
                table = ",".join(f'"{topic}":{{"perm":6,"topicName":"{topic}"}}' for topic in topics)
                body = f'{{"topicConfigSerializeWrapper":{{"topicConfigTable":{{{table}}}}}}}'.encode()
                name = f"stranger-{number}"
                fields = {"clusterName": "C", "brokerName": name, "brokerAddr": "10.6.6.6:1", "brokerId": "0"}
                answers.append(line.request(REGISTER_BROKER, fields, body))
            most_kib = served.memory_kib()
            print_figures(before_kib=before_kib, most_kib=most_kib, taken=count_of(answers))
            # What is refused leaves nothing.
            assert not client.request(*route_query(f"t{count - 1:02}000000{'x' * 20}")).body
        with real_set(served, ("Orders", "Payments")):
            assert queues_in(client.request(*route_query("Orders"))) == {"real": 4}
        wait_until(lambda: served.memory_kib() - before_kib < KEPT_KIB, seconds=60, what="memory comes back")
    assert most_kib - before_kib < TOPICS_KIB_MAX
    assert 0 < count_of(answers) < 4
    assert "topics of this connection" in answers[-1].remark
    assert "topicBytesMax" in answers[-1].remark
    served.assert_unharmed()


def test_lists_of_topics_are_as_long_as_peers_read_and_have_those_of_everybody(serve, print_figures):
    served = serve()
    requests = []
    for number in range(3):
        names = [f"{number:03}{topic:06}{'x' * 1000}" for topic in range(6_000)]
        table = ",".join(f'"{name}":{{"perm":6}}' for name in names)
        body = f'{{"topicConfigSerializeWrapper":{{"topicConfigTable":{{{table}}}}}}}'.encode()
        requests.append(a_stranger(number, body))
    stack, answers = register(served, requests)
    with stack, real_set(served), a_line(served) as client:
        assert [code_of(answer)["code"] for answer in answers] == [0] * 3
        for code, fields in ((ALL_TOPICS, {}), (TOPICS_OF_CLUSTER, {"cluster": "C"})):
            listed = client.request(code, fields)
            print_figures(code=code, bytes=len(listed.body))
            assert len(listed.body) < FRAME_BYTES_MAX
            assert {"Orders", "Payments"} < set(listed.json["topicList"])
    served.assert_unharmed()


def test_the_kv_table_and_watches_of_fetches_have_a_place_though_a_stranger_takes_all_that_it_gets(serve):
    served = serve()
    topics = ("Orders", *(f"t{number}" for number in range(70)))
    with real_set(served, topics), a_line(served) as operator, a_line(served, "127.0.0.1") as stranger:
        entry = {"namespace": "ORDER_TOPIC_CONFIG"}
        for number, size in enumerate([65_000] * 65 + [600] * 80):
            refused = stranger.request(PUT_KV, entry | {"key": str(number), "value": "v" * size})
        assert "the limit is" in refused.remark
        order_conf = ";".join(f"broker-{number}:4" for number in range(200))
        assert operator.request(PUT_KV, entry | {"key": "Orders", "value": order_conf}).code == 0
        watched = [stranger.request(WATCH_FETCHES, {"topic": f"t{number}", "keepMs": "60000"}) for number in range(70)]
        assert [answer.code for answer in watched] == [0] * 64 + [1] * 6
        assert operator.request(WATCH_FETCHES, {"topic": "Orders", "keepMs": "60000"}).code == 0
        # The first of the stranger goes on, its latest has made room.
        assert stranger.request(WATCH_FETCHES, {"topic": "t0", "keepMs": "60000"}).code == 0
        assert stranger.request(WATCH_FETCHES, {"topic": "t63", "keepMs": "60000"}).code == 1
    served.assert_unharmed()


def count_of(answers):
    return sum(answer.code == 0 for answer in answers)
