"""No request holds a server up for long, whatever its code and content, as long as it is accepted or not.

Measured in time of the processor by a witness on the server's own loop (`held.py`), so a busy machine adds nothing.
"""

import contextlib
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

#: As many made-up brokers as there may be (brokersMax), of as many as each connection may have.
CONNECTIONS, OF_A_CONNECTION = 98, 1020

LIMITS = {"namesrv": namesrv_requests.BODY_LIMITS, "controller": controller_handlers.BODY_LIMITS}
CODES = {
    "namesrv": [code for code in NAMESRV_REQUESTS if code is not RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE],
    "controller": CONTROLLER_REQUESTS,
}
FAULTS = ("Traceback", "request_failed", "background_task_failed", "server_failed")
#: With its header it fits into the longest frame.
BODY_BYTES_MAX = 63 * 1024 * 1024
#: Java's peers close the connection at longer frames.
LIST_BYTES_MAX = 16 * 1024 * 1024


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


def registrations(connection, count):
    """Return the frames that register so many brokers, each of a name of its own."""
    names = (f"made-up-{connection}-{number}" for number in range(count))
    return [
        frame(103, IDENTITY | {"brokerName": name, "brokerAddr": "10.6.6.6:10911", "clusterName": "Made-up"})
        for name in names
    ]


def answer_body(answers):
    """Read one answer, and return its body."""
    length = int.from_bytes(answers.read(4))
    data = answers.read(length)
    return data[4 + int.from_bytes(data[1:4]) :]


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_as_many_made_up_brokers_as_may_be_do_not_hold_the_list_of_clusters_up(tmp_path, print_figures):
    server = Watched("namesrv", tmp_path)
    with contextlib.ExitStack() as open_ones:
        lines = []
        for connection in range(CONNECTIONS):
            line = open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=600))
            lines.append((line, open_ones.enter_context(line.makefile("rb"))))
            line.sendall(b"".join(registrations(connection, OF_A_CONNECTION)))
            for _ in range(OF_A_CONNECTION):
                answer_body(lines[-1][1])
        server.held_ms()
        held_ms = {"list": 0.0, "change": 0.0}
        address = ("127.0.0.1", server.port)
        line = open_ones.enter_context(socket.create_connection(address, timeout=600, source_address=("127.0.0.9", 0)))
        answers = open_ones.enter_context(line.makefile("rb"))
        for each in range(5):
            line.sendall(registrations(f"changed-{each}", 1)[0])
            answer_body(answers)
            held_ms["change"] = max(held_ms["change"], server.held_ms())
            line.sendall(frame(106))
            received = answer_body(answers)
            held_ms["list"] = max(held_ms["list"], server.held_ms())
            assert b"made-up-changed-%d-0" % each in received
            # Of those of one host as many as peers can read.
            assert 10_000 < received.count(b'"brokerAddrs"') < CONNECTIONS * OF_A_CONNECTION
            assert len(received) < LIST_BYTES_MAX
        print_figures(**held_ms)
        assert server.process.stop() == 0
    assert max(held_ms.values()) < HELD_MS
