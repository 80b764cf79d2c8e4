"""HTTP requests of every path with hostile content, to all servers, beside a client that behaves.

FUZZ_S and FUZZ_SEED are as in `test_grammar_fuzz.py`.
"""

import contextlib
import os
import random
import socket
import sys
import urllib.request

import pytest
from crowd import Reopened
from http_grammar import HttpGrammar, document_of
from peers.controllers import OurController
from peers.offset_managers import OffsetManager
from peers.waiting import wait_until
from served import Served
from test_grammar_fuzz import CONNECTIONS, SOAK_S, assert_nobody_harmed, attack

SERVERS = ["namesrv", "controller", "offsets"]


class OverHttp(Served):
    """A server as its HTTP side shows it."""

    def __init__(self, server, port):
        super().__init__(server)
        self.port = port

    def document(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/openapi.json", timeout=30) as answer:
            return document_of(answer.read())


@pytest.fixture
def start(lab):
    def start(kind):
        if kind == "namesrv":
            server = lab.name_server("namesrv", http=True)
        elif kind == "controller":
            server = lab.kept(OurController(lab.folder)).start()
        else:
            server = lab.kept(OffsetManager(lab.folder)).start()
        served = OverHttp(server, server.port if kind == "offsets" else server.http_port)
        server.process.wait_for("server_ready", seconds=30)
        wait_until(lambda: is_open(served.port), seconds=30, what="the HTTP side listens")
        return served

    return start


def is_open(port):
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


class HostileClients(Reopened):
    """Clients of another host than that of the client that behaves."""

    def __init__(self, port, grammar, randomness):
        super().__init__(port, CONNECTIONS, address="127.0.0.2")
        self._grammar = grammar
        self._random = randomness

    def step(self):
        """Let every client send a request or a part of one, and then read, close its half, or do nothing."""
        for number in range(CONNECTIONS):
            # One in four never reads.
            each = self.line(number, leaves=self._random.random() < 1 / 20, reads=number % 4)
            data = self._grammar.request()
            if self._random.random() < 1 / 20:
                data = data[: self._random.randrange(len(data))]
            each.setblocking(False)
            with contextlib.suppress(OSError):
                each.sendall(data)
                if self._random.random() < 1 / 20:
                    each.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize(
    "seconds", [7, pytest.param(SOAK_S, marks=[pytest.mark.soak, pytest.mark.timeout(SOAK_S + 300)], id="soak")]
)
def test_no_http_request_breaks_a_server_or_harms_others(start, watched, print_figures, kind, seconds):
    seed = int(os.environ.get("FUZZ_SEED") or random.randrange(2**32))
    # Shown if the test fails.
    sys.stdout.write(f"FUZZ_SEED={seed}\n")
    served, randomness = start(kind), random.Random(seed)
    grammar = HttpGrammar(served.document(), randomness)
    clients, watch = attack(
        served, watched, "http_witness.py", lambda: HostileClients(served.port, grammar, randomness), seconds
    )
    print_figures(seed=seed, sent=sum(grammar.sent.values()), reconnected=clients.reconnected, **watch.figures())
    assert_nobody_harmed(served, watch)
