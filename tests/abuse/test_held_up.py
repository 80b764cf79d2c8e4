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

from controller import handlers as controller_handlers
from namesrv import handlers as namesrv_handlers
from remoting.codes import CONTROLLER_REQUESTS, NAMESRV_REQUESTS, RequestCode

LIMITS = {"namesrv": namesrv_handlers.BODY_LIMITS, "controller": controller_handlers.BODY_LIMITS}
CODES = {
    "namesrv": [code for code in NAMESRV_REQUESTS if code is not RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE],
    "controller": CONTROLLER_REQUESTS,
}
FAULTS = ("Traceback", "request_failed", "chore_failed", "server_failed")
#: With its header it fits into the longest frame.
BODY_BYTES_MAX = 63 * 1024 * 1024


class Watched:
    """A server with a witness on its loop."""

    def __init__(self, program, folder):
        self.port, self._witness = free_port(), free_port()
        own = {
            "listenPort": self.port,
            "bindAddress": "127.0.0.1",
            "httpPort": 0,
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
        with socket.create_connection(("127.0.0.1", self._witness), timeout=60) as asking, asking.makefile() as told:
            return 1000 * float(told.read())

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
