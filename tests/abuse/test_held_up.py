"""No request holds a server up for long, whatever its code and content, and however much there is of what it asks for.

Measured in time of the processor by a witness on the server's own loop (`held.py`), so a busy machine adds nothing.
"""

import contextlib
import json
import socket
import sys

import pytest
from bounds import HELD_MS, HELD_MS_ON_SLOW_MACHINES, HERE
from hostile import IDENTITY, big_registrations, bodies, headers
from peers.jars import REPOSITORY
from peers.java import write_properties
from peers.processes import Process, free_port
from peers.wire import frame

from controller.wire import handlers as controller_handlers
from namesrv.wire import request_table as namesrv_requests
from remoting.protocol.codes import CONTROLLER_REQUESTS, NAMESRV_REQUESTS, RequestCode

pytestmark = pytest.mark.broad

LIMITS = {"namesrv": namesrv_requests.BODY_LIMITS, "controller": controller_handlers.BODY_LIMITS}
CODES = {
    "namesrv": [code for code in NAMESRV_REQUESTS if code is not RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE],
    "controller": CONTROLLER_REQUESTS,
}
FAULTS = ("Traceback", "request_failed", "background_task_failed", "server_failed")
#: With its header it fits into the longest frame.
BODY_BYTES_MAX = 63 * 1024 * 1024


class Watched:
    """A server with a witness on its loop."""

    def __init__(self, program, folder, http_port=0):
        self.port, self._witness = free_port(), free_port()
        own = {
            "listenPort": self.port,
            "bindAddress": "127.0.0.1",
            "httpPort": http_port,
            "kvConfigPath": folder / "kvConfig.json",
            "controllerStorePath": folder / "store",
        }
        file = write_properties(folder / f"{program}.properties", own)
        command = [sys.executable, HERE / "held.py", program, self._witness, "-c", file]
        self.process = Process(
            program, command, folder=folder, env={"PYTHONPATH": str(REPOSITORY), "HOME": str(folder)}
        )
        self.process.wait_for("server_ready", seconds=60)

    def held_ms(self):
        """Return for how long the loop was held without a pause since this was asked last."""
        with (
            socket.create_connection(("127.0.0.1", self._witness), timeout=60) as asking,
            asking.makefile() as received,
        ):
            return 1000 * float(received.read())

    def send(self, data):
        """Send one request and wait until it is answered, or the connection closed."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=600) as each,
            contextlib.suppress(ConnectionError),
        ):
            each.sendall(data)
            each.recv(1)


@pytest.fixture(scope="module", params=["namesrv", "controller"])
def watched(request, tmp_path_factory):
    program = request.param
    server = Watched(program, tmp_path_factory.mktemp(program))
    try:
        if program == "namesrv":
            # Its topics are those that others ask for.
            server.send(frame(103, IDENTITY, big_registrations(103, 100)["topics"]))
        else:
            server.send(frame(1013, IDENTITY))
            server.send(frame(1003, IDENTITY))
        yield program, server
    finally:
        assert server.process.stop() == 0
        lines = server.process.text().splitlines()
        assert [line for line in lines if any(fault in line for fault in FAULTS)] == []


@pytest.mark.timeout(1200)
def test_no_request_holds_the_server_up(watched, capsys):
    program, server = watched
    longest = {}
    for code in CODES[program]:
        size = min(LIMITS[program].of(code), BODY_BYTES_MAX)
        frames = headers(code) | (bodies(code, size) if size < BODY_BYTES_MAX else big_registrations(code, size))
        for name, data in frames.items():
            server.held_ms()
            server.send(data)
            longest[f"{code.name} ({code}): {name}"] = server.held_ms()
    ordered = sorted(longest.items(), key=lambda item: -item[1])
    with capsys.disabled():
        sys.stdout.write(
            "".join(f"\n{held_ms:.1f} ms {what}" for what, held_ms in ordered[:8]) + f"\n{HELD_MS} ms are stated\n"
        )
    assert [each for each in ordered if each[1] > HELD_MS_ON_SLOW_MACHINES] == []


def answer_body(answers):
    """Read one answer, and return its body."""
    length = int.from_bytes(answers.read(4))
    data = answers.read(length)
    return data[4 + int.from_bytes(data[1:4]) :]


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


@pytest.mark.timeout(900)
def test_no_view_and_no_stream_holds_the_server_up_however_many_sets_there_are(tmp_path, print_figures):
    sets, topics, http_port = 4096, 100, free_port()
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
