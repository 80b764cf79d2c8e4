"""No HTTP request holds a server up for long, however much there is of what it asks for."""

import contextlib
import json
import socket

import pytest
from bounds import HELD_MS
from peers.processes import free_port
from peers.wire import frame
from test_held_up import Watched, answer_body

SETS_OF_A_CONNECTION = 1000
#: Answers, and the first events of a stream, are there within this time.
PATIENCE_S = 60


def registration(number, topics):
    """Return the frame that registers a broker of a name and a cluster of its own, with these topics."""
    table = {topic: {"perm": 6, "topicName": topic, "readQueueNums": 4, "writeQueueNums": 4} for topic in topics}
    wrapper = {"dataVersion": {"counter": 1}, "topicConfigTable": table}
    identity = {
        "brokerName": f"made-up-{number}",
        "brokerAddr": "10.6.6.6:10911",
        "clusterName": f"Made-up-{number}",
        "brokerId": "0",
    }
    return frame(103, identity, json.dumps({"topicConfigSerializeWrapper": wrapper, "filterServerList": []}).encode())


@contextlib.contextmanager
def made_up_sets(port, count, topics):
    """Have so many broker sets, over as few connections as may be."""
    with contextlib.ExitStack() as stack:
        for first in range(0, count, SETS_OF_A_CONNECTION):
            line = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=600))
            answers = stack.enter_context(line.makefile("rb"))
            for number in range(first, min(first + SETS_OF_A_CONNECTION, count)):
                line.sendall(registration(number, topics))
                answer_body(answers)
        yield


def read(port, path, until=None):
    """Send a GET, and read its answer to the end or until enough of a stream has come; return its bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as line:
        line.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        received = bytearray()
        while data := line.recv(1 << 20):
            received += data
            if until is not None and until(received):
                break
        return bytes(received)


@pytest.mark.broad
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("sets", "topics"), [(4096, 100), pytest.param(15_360, 2, marks=pytest.mark.soak)])
def test_no_view_and_no_stream_holds_the_server_up_however_many_sets_there_are(tmp_path, print_figures, sets, topics):
    http_port = free_port()
    server = Watched("namesrv", tmp_path, http_port)
    names = [f"topic-{number}" for number in range(topics)]
    watched = "/v1/routes/watch?" + "&".join(f"topic={name}" for name in names)
    paths = {
        "route": (f"/v1/topics/{names[0]}/route", None),
        "watch": (watched, lambda text: text.count(b"event: route\n") == topics),
        "clusters": ("/v1/clusters?limit=1", None),
        "brokers": ("/v1/brokers?limit=1", None),
        "topics": ("/v1/topics", None),
        "metrics": ("/metrics", None),
    }
    held_ms = {}
    with made_up_sets(server.port, sets, names):
        for name, (path, until) in paths.items():
            server.held_ms()
            assert read(http_port, path, until).startswith(b"HTTP/1.1 200 ")
            held_ms[name] = round(server.held_ms(), 1)
    print_figures(sets=sets, **held_ms)
    server.process.stop()
    assert max(held_ms.values()) < HELD_MS
