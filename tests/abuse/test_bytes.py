"""Peers that ask and do not read, or ask a great deal, and frames that never end."""

import contextlib
import socket
import threading
import time

import pytest
from bounds import QUERY_P99_MS, QUERY_P99_MS_ON_BUSY_MACHINES, QUERY_P99_MS_UNDER_LOAD
from crowd import Crowd, a_query, push
from peers.scripted import HEARTBEAT, Line, ScriptedBroker
from peers.wire import GET_ALL_TOPICS, QUERY_DATA_VERSION, REGISTER_BROKER, SUCCESS, frame

IN_CI, IN_SOAK = QUERY_P99_MS_ON_BUSY_MACHINES, QUERY_P99_MS
UNREGISTER_BROKER = 104

SLOW = "slow_reader_disconnected"

#: So little the system keeps for a peer that does not read.
LITTLE = {"serverSocketSndBufSize": 64 * 1024}
RECEIVE_BYTES = 16 * 1024
#: So many peers that do not read fill nearly all places.
WAVE = 35


def soak(*values):
    return pytest.param(*values, marks=pytest.mark.soak)


def line_to(served):
    return Line(socket.create_connection(("127.0.0.1", served.port), timeout=30))


@pytest.fixture
def broker_of():
    """Return a broker with topics, registered over a connection that stays."""
    with contextlib.ExitStack() as stack:

        def broker_of(served, name, topics):
            broker = ScriptedBroker(line_to(served), name, address=f"10.0.0.{sum(map(ord, name)) % 250}:10911")
            stack.callback(broker.close)
            broker.register({f"{name}-topic-{number:06}": 4 for number in range(topics)})
            return broker

        yield broker_of


@pytest.mark.parametrize(("count", "idle_s", "p99_ms_max"), [(40, 8, IN_CI), soak(500, 10, QUERY_P99_MS_UNDER_LOAD)])
def test_clients_that_send_requests_and_never_read_are_held_back_closed_and_logged(
    serve, watched, print_figures, count, idle_s, p99_ms_max
):
    served = serve(serverChannelMaxIdleTimeSeconds=idle_s, **LITTLE)
    queries = a_query("x" * 900) * 2000
    with watched(served) as watch, Crowd(served.port) as crowd:
        for each in crowd.connect(count, receive_bytes=RECEIVE_BYTES):
            push(each, queries)
        served.wait_for_metric("connections_paused", lambda paused: paused > 0)
        served.wait_for_metric("response_buffer_bytes", lambda unread: unread > 1_000_000)
        watch.look()
        closed = {"reason": "slow_reader"}
        served.wait_for_metric("connections_closed_total", lambda n: n == count, seconds=3 * idle_s + 60, **closed)
        assert served.metric("connection_pauses_total") == count
        assert served.metric("connections_paused") == 0
        assert served.metric("response_buffer_bytes") == 0
        # Lines about one host are limited.
        logged = len(served.events(SLOW))
        left_out = served.metric("log_suppressed_total", event=SLOW) if logged < count else 0
    assert served.events("connection_paused")
    assert logged + left_out == count
    watch.assert_memory_came_back()
    print_figures(connections=count, **watch.figures())
    watch.assert_unharmed(p99_ms_max=p99_ms_max)
    served.assert_unharmed()


@pytest.mark.parametrize(("count", "p99_ms_max"), [(2 * WAVE, IN_CI), soak(12 * WAVE, QUERY_P99_MS_UNDER_LOAD)])
def test_brokers_are_served_while_peers_that_never_read_hold_all_places_to_wait(
    serve, watched, print_figures, broker_of, count, p99_ms_max
):
    """Their requests are lists of all topics, which are long and wait for their turn."""
    served = serve(**LITTLE)
    broker_of(served, "large", 3000)
    with watched(served) as watch, Crowd(served.port) as crowd:
        while len(crowd.sockets) < count:
            for each in crowd.connect(WAVE, receive_bytes=RECEIVE_BYTES):
                push(each, frame(GET_ALL_TOPICS) * 260)
            senders = len(crowd.sockets)
            served.wait_for_metric("connections_paused", lambda paused, senders=senders: paused == senders, seconds=60)
        watch.look()
        assert served.metric("requests_in_flight") > 9000
        turned_away = served.metric("requests_rejected_total", reason="busy")
        assert turned_away > 0
        codes = codes_of_a_brokers_life(served)
        assert codes == [SUCCESS] * len(codes)
    watch.assert_memory_came_back()
    print_figures(connections=count, turned_away=turned_away, **watch.figures())
    watch.assert_unharmed(p99_ms_max=p99_ms_max)
    served.assert_unharmed()


def codes_of_a_brokers_life(served):
    """Register, beat, compare versions and unregister many brokers, and return what they were answered."""
    codes = []
    for number in range(50):
        with contextlib.closing(line_to(served)) as line:
            broker = ScriptedBroker(line, f"b{number}", address=f"10.1.0.{number}:10911")
            broker.register({f"t{number}": 4, f"u{number}": 4})
            identity = {"clusterName": "C", "brokerName": broker.name, "brokerAddr": broker.address, "brokerId": "0"}
            version = b'{"counter":1,"stateVersion":0,"timestamp":1700000000000}'
            codes.append(line.request(QUERY_DATA_VERSION, identity, version).code)
            codes.append(line.request(HEARTBEAT, identity).code)
            codes.append(line.request(UNREGISTER_BROKER, identity).code)
    return codes


def test_unread_answers_over_the_limit_end_those_who_left_most_and_the_others_are_served(serve, watched):
    limit = 10 * 1024 * 1024
    served = serve(responseBufferBytesMax=limit, **LITTLE)
    queries = a_query("x" * 900) * 2000
    with watched(served) as watch, Crowd(served.port) as crowd:
        for each in crowd.connect(40, receive_bytes=RECEIVE_BYTES):
            push(each, queries)
        served.wait_for_metric("connections_closed_total", lambda n: n > 0, reason="slow_reader")
        # On a busy machine the first go before the server has come to the requests of the others.
        served.wait_for_metric("connections_paused", lambda paused: paused > 0)
        assert served.metric("response_buffer_bytes") <= limit
    assert served.events(SLOW)
    watch.assert_unharmed(p99_ms_max=IN_CI)
    served.assert_unharmed()


def test_unfinished_frames_over_the_limit_end_the_largest_and_a_brokers_registration_comes_through(serve):
    served = serve(partialFrameBytesMax=20 * 1024 * 1024)
    with Crowd(served.port) as crowd, socket.create_connection(("127.0.0.1", served.port), timeout=30) as slow:
        begun = frame(REGISTER_BROKER, body=bytes(5 * 1024 * 1024))[:-1]
        for each in crowd.connect(3):
            each.sendall(begun)
        broker = ScriptedBroker(Line(Halves(slow)), "slow", address="10.0.0.1:10911")
        broker.send_registration({f"topic-{number:06}": 4 for number in range(2000)})
        served.wait_for_metric("partial_frame_bytes", lambda unfinished: unfinished > 3 * len(begun))
        for each in crowd.connect(3):
            push(each, begun)
        served.wait_for_metric("requests_rejected_total", lambda count: count >= 2, reason="partial_frame_bytes")
        assert served.metric("partial_frame_bytes") < 20 * 1024 * 1024
        broker.line._connection.send_rest()
        assert broker.line.receive()[1].code == SUCCESS
    assert "partialFrameBytesMax" in served.events("frame_rejected")[0]["error"]
    served.assert_unharmed()


class Halves:
    """A connection that keeps the second half of what it is given to send."""

    def __init__(self, connection):
        self._connection = connection
        self.recv = connection.recv

    def sendall(self, data):
        self._connection.sendall(data[: len(data) // 2])
        self._rest = data[len(data) // 2 :]

    def send_rest(self):
        self._connection.sendall(self._rest)


@pytest.mark.parametrize(("count", "p99_ms_max"), [(100_000, IN_CI), soak(1_000_000, IN_SOAK)])
def test_a_client_with_very_many_requests_at_once_gets_every_answer_and_delays_nobody(
    serve, watched, print_figures, count, p99_ms_max
):
    served = serve()
    at_once = 1000
    queries = a_query() * at_once
    with watched(served) as watch, socket.create_connection(("127.0.0.1", served.port), timeout=60) as client:
        client.sendall(a_query())
        answer_bytes = 4 + int.from_bytes(client.recv(4, socket.MSG_WAITALL))
        client.recv(answer_bytes - 4, socket.MSG_WAITALL)
        began = time.perf_counter()
        asking = threading.Thread(target=lambda: [client.sendall(queries) for _ in range(count // at_once)])
        asking.start()
        left, looked = count * answer_bytes, began
        while left:
            chunk = client.recv(min(left, 1 << 20))
            assert chunk, "the server closed the connection"
            left -= len(chunk)
            if time.perf_counter() > looked + 0.2:
                watch.look()
                looked = time.perf_counter()
        asking.join()
        seconds = time.perf_counter() - began
    watch.assert_memory_came_back()
    print_figures(requests=count, requests_per_s=round(count / seconds), **watch.figures())
    watch.assert_unharmed(p99_ms_max=p99_ms_max)
    served.assert_unharmed()
