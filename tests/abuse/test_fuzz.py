"""Hostile bytes to all servers beside a peer who behaves: changed frames, valid frames and HTTP requests of a grammar.

How long the soak run takes is the environment variable FUZZ_S, in seconds; ten minutes if it is not set. FUZZ_SEED
repeats what a failed run did.
"""

import contextlib
import os
import random
import socket
import struct
import sys
import time
import urllib.request

import pytest
from bounds import QUERY_P99_MS_ON_BUSY_MACHINES
from crowd import Reopened
from golden_frames import exchanges
from grammar import GRAMMARS, Grammar, all_codes_are_there
from http_grammar import HttpGrammar, document_of
from peers.controllers import OurController
from peers.offset_managers import OffsetManager
from peers.waiting import wait_until
from served import Served

SOAK_S = int(os.environ.get("FUZZ_S", "600"))
SECONDS = pytest.mark.parametrize(
    "seconds",
    [
        4,
        pytest.param(15, marks=pytest.mark.broad),
        pytest.param(SOAK_S, marks=[pytest.mark.soak, pytest.mark.timeout(SOAK_S + 300)], id="soak"),
    ],
)
CONNECTIONS = 20
CHUNK_BYTES_MAX = 4000
#: Between two sendings of all peers: it is about what is sent, and without a pause nobody else had the processor.
PAUSE_S = 0.02
TIMEOUT_S = 30
REGISTRATION_BYTES_MAX = 1024 * 1024
#: What all of them together may have the server work before somebody else is answered.
HELD_BY_ALL_MS = 100

#: Numbers that have broken readers before.
ODD_NUMBERS = (0, 1, -1, 3, 4, 2**15, 2**24, 2**24 - 1, 2**26, 2**31 - 1, -(2**31))
#: Mutants of these change how the server behaves for everybody, which is what they are for.
COMMANDS_OF_OPERATORS = {318}
#: What is logged of faults of the server itself.
FAULTS = ("request_failed", "background_task_failed", "server_failed", "http_request_failed", "library_logged")


class Fuzz:
    """What is sent, of one seed."""

    def __init__(self, seed):
        self._random = random.Random(seed)
        self._recorded = [
            item.request for item in exchanges() if item.request_header["code"] not in COMMANDS_OF_OPERATORS
        ]

    def pieces(self):
        """Return the next bytes of one peer, in the pieces in which they are sent."""
        make = self._random.choice(
            (self._noise, self._recorded_frame, self._mutated, self._mutated, self._mutated, self._truncated)
        )
        data = make()
        if self._random.random() < 0.3:
            at = self._random.randrange(len(data) + 1)
            return [data[:at], data[at:]]
        return [data]

    def _noise(self):
        noise = self._random.randbytes(self._random.randrange(1, CHUNK_BYTES_MAX))
        if self._random.random() < 0.5:
            return noise
        # A frame as far as its length tells.
        kind, header_bytes = self._random.choice((0, 1, 2, 255)), self._random.randrange(len(noise) + 1)
        return struct.pack(">II", 4 + len(noise), kind << 24 | header_bytes) + noise

    def _recorded_frame(self):
        return self._random.choice(self._recorded)

    def _truncated(self):
        frame = self._recorded_frame()
        return frame[: self._random.randrange(1, len(frame))]

    def _mutated(self):
        frame = bytearray(self._recorded_frame())
        for _ in range(self._random.choice((1, 1, 1, 2, 5, 20))):
            self._random.choice((self._flip, self._number, self._drop, self._insert, self._double))(frame)
        if self._random.random() < 0.7 and len(frame) >= 8:
            # Only with the right length is what follows it looked at.
            frame[:4] = struct.pack(">I", len(frame) - 4)
        return bytes(frame)

    def _at(self, frame):
        return self._random.randrange(len(frame) or 1)

    def _flip(self, frame):
        if frame:
            frame[self._at(frame)] ^= 1 << self._random.randrange(8)

    def _number(self, frame):
        number = self._random.choice(ODD_NUMBERS)
        at = self._at(frame)
        text = struct.pack(">i", number) if self._random.random() < 0.5 else str(number).encode()
        frame[at : at + len(text)] = text

    def _drop(self, frame):
        at = self._at(frame)
        del frame[at : at + self._random.choice((1, 4, 50))]

    def _insert(self, frame):
        frame[self._at(frame) : 0] = self._random.choice(
            (b'"', b"{", b"[" * 50, b"\\u0000", b"\xff", b"\x00", b",,", b"1e999", self._random.randbytes(9))
        )

    def _double(self, frame):
        at = self._at(frame)
        frame[at:at] = frame[at : at + 40]


class HostilePeers(Reopened):
    """Peers that send what is made for them; one in `leaves` leaves instead."""

    def __init__(self, port, make, randomness, *, leaves):
        super().__init__(port, CONNECTIONS)
        self._make, self._random, self._leaves = make, randomness, leaves

    def step(self):
        """Let every peer send something, or leave."""
        for number in range(CONNECTIONS):
            each = self.line(number, leaves=self._random.random() < 1 / self._leaves)
            each.settimeout(TIMEOUT_S)
            with contextlib.suppress(ConnectionError):
                for piece in self._make():
                    each.sendall(piece)


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


@pytest.fixture
def seed():
    seed = int(os.environ.get("FUZZ_SEED") or random.randrange(2**32))
    # Shown if the test fails.
    sys.stdout.write(f"FUZZ_SEED={seed}\n")
    return seed


@pytest.fixture
def start(lab):
    """Start a server of a kind, which tells brokers what it would tell them."""

    def start(kind):
        if kind == "namesrv":
            server = lab.name_server(kind, http=True, notifyMinBrokerIdChanged=True, supportActingMaster=True)
        else:
            server = lab.kept({"controller": OurController, "offsets": OffsetManager}[kind](lab.folder)).start()
        server.process.wait_for("server_ready", seconds=30)
        return Served(server)

    return start


@pytest.fixture
def attack(watched, print_figures):
    """Let hostile peers send for some time beside one that behaves, and fail if that one or the server is harmed."""

    def attack(served, witness, make_peers, seconds):
        with watched(served, witness) as watch:
            began = time.perf_counter()
            peers = make_peers()
            try:
                while time.perf_counter() - began < seconds:
                    peers.step()
                    time.sleep(PAUSE_S)
                    assert served.server.process.running, "the server ended"
                watch.look()
            finally:
                peers.close()
        watch.assert_memory_came_back()
        print_figures(reconnected=peers.reconnected, **watch.figures())
        assert {each: served.events(each)[:1] for each in FAULTS if served.events(each)} == {}
        assert "Traceback" not in served.server.process.text()
        assert watch.seen["refused"] == []
        # Others wait for what the server works, and for the rest of the machine.
        assert 0 < watch.seen["held_ms"] < HELD_BY_ALL_MS
        assert watch.seen["max_ms"] < 5 * QUERY_P99_MS_ON_BUSY_MACHINES

    return attack


def test_the_grammar_knows_every_request():
    assert all_codes_are_there()


@SECONDS
def test_no_bytes_break_a_server_or_harm_others(start, attack, seed, seconds):
    served, fuzz = start("namesrv"), Fuzz(seed)
    attack(served, "namesrv", lambda: HostilePeers(served.port, fuzz.pieces, random.Random(seed), leaves=20), seconds)


@pytest.mark.parametrize("kind", GRAMMARS)
@SECONDS
def test_no_request_breaks_a_server_or_harms_others(start, attack, seed, kind, seconds):
    served = start(kind)
    grammar = Grammar(kind, random.Random(seed), registration_bytes_max=REGISTRATION_BYTES_MAX)

    def make_peers():
        return HostilePeers(served.port, lambda: [grammar.frame()], random.Random(seed), leaves=100)

    attack(served, kind, make_peers, seconds)


@pytest.mark.parametrize("kind", ["namesrv", "controller", "offsets"])
@SECONDS
def test_no_http_request_breaks_a_server_or_harms_others(start, attack, seed, kind, seconds):
    served, randomness = start(kind), random.Random(seed)
    served.port = served.server.port if kind == "offsets" else served.server.http_port
    wait_until(lambda: is_open(served.port), seconds=30, what="the HTTP side listens")
    with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/v1/openapi.json", timeout=30) as answer:
        grammar = HttpGrammar(document_of(answer.read()), randomness)
    attack(served, "http", lambda: HostileClients(served.port, grammar, randomness), seconds)


def is_open(port):
    with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False
