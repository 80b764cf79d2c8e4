"""Too many connections, silent ones, and slow ones."""

import contextlib
import itertools
import socket
import time

import pytest
from bounds import QUERY_P99_MS, QUERY_P99_MS_ON_BUSY_MACHINES
from crowd import Crowd, a_query, is_closed, need_files, read_answers
from peers.controllers import OurController
from peers.scripted import Line, ScriptedBroker
from peers.waiting import wait_until
from peers.wire import frame

IN_CI, IN_SOAK = QUERY_P99_MS_ON_BUSY_MACHINES, QUERY_P99_MS


def soak(*values):
    return pytest.param(*values, marks=pytest.mark.soak)


@pytest.mark.parametrize(("count", "held_s", "p99_ms_max"), [(2000, 1, IN_CI), soak(15_000, 20, IN_SOAK)])
def test_as_many_connections_as_allowed_are_served_and_their_memory_comes_back(
    serve, watched, print_figures, count, held_s, p99_ms_max
):
    need_files(count)
    served = serve(scanNotActiveBrokerInterval=60_000)
    query = a_query()
    with watched(served) as watch, Crowd(served.port) as crowd:
        began = time.perf_counter()
        crowd.connect(count)
        connected_s = time.perf_counter() - began
        for each in crowd.sockets:
            each.sendall(query)
        for each in crowd.sockets:
            read_answers(each, 1)
        watch.look()
        assert sum(served.metric("connections", kind=kind) for kind in ("client", "broker", "unknown")) == count + 2
        time.sleep(held_s)
        crowd.leave()
        served.wait_for_metric("connections", lambda open_ones: open_ones == 1, kind="client")
    watch.assert_memory_came_back()
    print_figures(connections=count, connected_s=round(connected_s, 1), **watch.figures())
    watch.assert_unharmed(p99_ms_max=p99_ms_max)
    served.assert_unharmed()


@pytest.mark.parametrize(("count", "idle_s", "p99_ms_max"), [(500, 2, IN_CI), soak(2000, 15, IN_SOAK)])
def test_peers_that_connect_and_send_nothing_are_closed_and_harm_nobody(
    serve, watched, print_figures, count, idle_s, p99_ms_max
):
    need_files(count)
    served = serve(serverChannelMaxIdleTimeSeconds=idle_s)
    with watched(served) as watch, Crowd(served.port) as crowd:
        crowd.connect(count)
        watch.look()
        time.sleep(idle_s / 2)
        assert crowd.closed() == 0
        wait_until(lambda: crowd.closed() == count, seconds=2 * idle_s + 20, what="all are closed")
        assert served.metric("connections_closed_total", reason="idle") == count
    watch.assert_memory_came_back()
    print_figures(connections=count, **watch.figures())
    watch.assert_unharmed(p99_ms_max=p99_ms_max)
    served.assert_unharmed()


@pytest.mark.parametrize(("count", "pause_s", "idle_s"), [(100, 0.1, 2), soak(500, 1, 30)])
def test_peers_that_send_a_byte_now_and_then_are_answered_if_they_end_in_time_and_else_closed(
    serve, watched, print_figures, count, pause_s, idle_s
):
    """One in ten has sent all but a few bytes of its query before it becomes slow."""
    served = serve(serverChannelMaxIdleTimeSeconds=idle_s)
    query = a_query()
    assert len(query) * pause_s > 2 * idle_s
    with watched(served) as watch, Crowd(served.port) as crowd:
        sockets = crowd.connect(count)
        rest = {each: query[-5:] if number % 10 == 0 else query for number, each in enumerate(sockets)}
        in_time = sockets[::10]
        for each in in_time:
            each.sendall(query[:-5])
        open_ones = set(sockets)
        while open_ones:
            round_began = time.perf_counter()
            for each in list(open_ones):
                if not send_a_byte(each, rest):
                    open_ones.discard(each)
            watch.look()
            time.sleep(max(0, pause_s - (time.perf_counter() - round_began)))
        assert all(len(read_answers(each, 1)) == 1 for each in in_time)
        late = [each for each in sockets if each not in set(in_time)]
        wait_until(lambda: all(map(is_closed, late)), seconds=20, what="the late ones are closed")
        assert served.metric("requests_rejected_total", reason="bad_frame") == len(late)
        assert served.metric("partial_frame_bytes") == 0
    assert "incomplete" in served.events("frame_rejected")[0]["error"]
    watch.assert_memory_came_back()
    print_figures(connections=count, **watch.figures())
    watch.assert_unharmed(p99_ms_max=IN_CI if count < 500 else IN_SOAK)
    served.assert_unharmed()


def send_a_byte(each, rest):
    """Send the next byte; return whether there are more, and somebody who takes them."""
    try:
        each.sendall(rest[each][:1])
    except ConnectionError:
        return False
    rest[each] = rest[each][1:]
    return bool(rest[each])


def register_strangers(served, crowd, count, numbers):
    """Let so many strangers connect, each of which really registers a broker of a name of its own."""
    for each in crowd.connect(count):
        broker = ScriptedBroker(Line(each), f"made-up-{next(numbers)}", address="10.6.6.6:10911")
        # The server may have closed the connection for the next one before it answers.
        with contextlib.suppress(ConnectionError):
            broker.register({"a": 4, "b": 4})


def test_a_broker_finds_a_place_and_keeps_it_though_foreign_brokers_that_really_register_hold_all(serve):
    served = serve(connectionsMax=20)
    numbers = itertools.count()
    with Crowd(served.port) as crowd:
        register_strangers(served, crowd, 20, numbers)
        line = Line(socket.create_connection(("127.0.0.1", served.port), timeout=30))
        with contextlib.closing(ScriptedBroker(line, "late", address="10.9.9.9:10911")) as broker:
            broker.register({"a": 4, "b": 4})
            register_strangers(served, crowd, 40, numbers)
            broker.register({"a": 4, "b": 4}, counter=2)
        assert served.metric("requests_rejected_total", reason="connections") == 0
        assert served.metric("connections_closed_total", reason="host_share") > 0
    served.assert_unharmed()


def test_a_member_of_a_stored_set_finds_a_place_at_a_controller_and_keeps_it(lab):
    controller = lab.kept(OurController(lab.folder, connectionsMax=20)).start()
    wait_until(controller.serves, seconds=30, what="the controller serves")
    member = {"clusterName": "C", "brokerName": "kept", "brokerId": "1", "brokerAddress": "127.0.0.1:1"}
    applied = {"appliedBrokerId": "1", "registerCheckCode": "127.0.0.1:1;1"}
    stranger = frame(904, member | {"brokerName": "nobody", "brokerAddr": "127.0.0.1:2"})
    claim = frame(904, member | {"brokerAddr": "127.0.0.1:1"})
    with Crowd(controller.port) as crowd:
        for each in crowd.connect(20):
            each.sendall(stranger)
            read_answers(each, 1)
        broker = Line(socket.create_connection(("127.0.0.1", controller.port), timeout=30))
        with contextlib.closing(broker):
            assert broker.request(1013, member | applied).code == 0
            assert broker.request(904, member | {"brokerAddr": "127.0.0.1:1"}).code == 0
            # The others claim to be the member, or somebody else.
            for number in range(60):
                (each,) = crowd.connect(1)
                each.sendall(claim if number % 2 else stranger)
                read_answers(each, 1)
            assert broker.request(904, member | {"brokerAddr": "127.0.0.1:1"}).code == 0
