"""Valid frames of every request with hostile content, to both servers, beside peers who behave.

How long the soak run takes is the environment variable FUZZ_S, in seconds; ten minutes if it is not set. FUZZ_SEED
repeats what a failed run did.
"""

import contextlib
import os
import random
import socket
import sys
import tempfile
import time
from pathlib import Path

import pytest
from bounds import QUERY_P99_MS_ON_BUSY_MACHINES
from crowd import Reopened
from grammar import GRAMMARS, Grammar, all_codes_are_there
from peers.controllers import OurController
from peers.wire import frame
from served import Served

SOAK_S = int(os.environ.get("FUZZ_S", "600"))
CONNECTIONS = 20
#: Between two sendings of all peers: it is about what is sent, and without a pause nobody else had the processor.
PAUSE_S = 0.02
TIMEOUT_S = 30

#: Longest bodies of registrations, in bytes: beside each other, and where the work of a single one is counted, which
#: longer ones are given in slices.
REGISTRATION_BYTES_MAX = 1024 * 1024
SINGLE_REGISTRATION_BYTES_MAX = 64 * 1024

#: What one request may cost the thread that serves everybody. It counts what that thread worked, so that a busy machine
#: changes nothing.
WORK_MS_MAX = 100
#: What all of them together may have it work before somebody else is answered.
HELD_BY_ALL_MS = 100
#: No server answers it, so that its answer tells that what came before is done.
UNKNOWN_CODE = 9_999

#: What is logged of faults of the server itself.
FAULTS = ("request_failed", "background_task_failed", "server_failed", "http_request_failed", "library_logged")


class HostilePeers(Reopened):
    """Peers that send requests of a grammar."""

    def __init__(self, port, grammar, seed):
        super().__init__(port, CONNECTIONS)
        self._grammar = grammar
        self._random = random.Random(seed)

    def step(self):
        """Let every peer send one request, or leave."""
        for number in range(CONNECTIONS):
            each = self.line(number, leaves=self._random.random() < 1 / 100)
            each.settimeout(TIMEOUT_S)
            with contextlib.suppress(ConnectionError):
                each.sendall(self._grammar.frame())


class OneByOne:
    """A peer that waits for the end of each of its requests, and knows what the server worked for it."""

    def __init__(self, served, grammar):
        self._served = served
        self._grammar = grammar
        self._process = served.server.process.pid
        self._connect()
        #: The dearest so far, and its bytes.
        self.dearest = (0.0, b"")

    def _connect(self):
        self._line = socket.create_connection(("127.0.0.1", self._served.port), timeout=TIMEOUT_S)
        self._answers = self._line.makefile("rb")

    def step(self):
        request = self._grammar.frame()
        before_ms = self._worked_ms()
        if not self._is_done(request + frame(UNKNOWN_CODE)):
            self.close()
            self._connect()
        self.dearest = max(self.dearest, (self._worked_ms() - before_ms, request))

    def _is_done(self, data):
        """Send it and return whether its last request is answered; False if the server closes instead."""
        try:
            self._line.sendall(data)
            while b"request type 9999 not supported" not in (answer := self._answer()):
                if not answer:
                    return False
        except ConnectionError:
            return False
        return True

    def _answer(self):
        return self._answers.read(int.from_bytes(self._answers.read(4)))

    def _worked_ms(self):
        """Return for how long the main thread had a processor."""
        return int(Path(f"/proc/{self._process}/task/{self._process}/schedstat").read_text().split()[0]) / 1e6

    def close(self):
        self._answers.close()
        self._line.close()


@pytest.fixture
def start(lab, serve):
    """Start a server of a kind, which tells brokers what it would tell them."""

    def start(kind):
        if kind == "namesrv":
            return serve(notifyMinBrokerIdChanged=True, supportActingMaster=True)
        controller = lab.kept(OurController(Path(tempfile.mkdtemp(dir=lab.folder)))).start()
        controller.process.wait_for("server_ready", seconds=30)
        return Served(controller)

    return start


def attack(served, watched, witness, make_peers, seconds):
    """Let hostile peers send for some time beside one that behaves; return them, and what that one saw."""
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
    return peers, watch


def assert_nobody_harmed(served, watch):
    assert {each: served.events(each)[:1] for each in FAULTS if served.events(each)} == {}
    assert "Traceback" not in served.server.process.text()
    assert watch.seen["refused"] == []
    # Others wait for what the server works, and for the rest of the machine.
    assert 0 < watch.seen["held_ms"] < HELD_BY_ALL_MS
    assert watch.seen["max_ms"] < 5 * QUERY_P99_MS_ON_BUSY_MACHINES


def test_the_grammar_knows_every_request():
    assert all_codes_are_there()


@pytest.mark.parametrize("kind", GRAMMARS)
@pytest.mark.parametrize(
    "seconds", [7, pytest.param(SOAK_S, marks=[pytest.mark.soak, pytest.mark.timeout(SOAK_S + 300)], id="soak")]
)
def test_no_request_breaks_a_server_or_harms_others(start, watched, print_figures, kind, seconds):
    seed = int(os.environ.get("FUZZ_SEED") or random.randrange(2**32))
    # Shown if the test fails.
    sys.stdout.write(f"FUZZ_SEED={seed}\n")
    served = start(kind)
    grammar = Grammar(kind, random.Random(seed), registration_bytes_max=REGISTRATION_BYTES_MAX)
    witness = "witness.py" if kind == "namesrv" else "controller_witness.py"
    peers, watch = attack(served, watched, witness, lambda: HostilePeers(served.port, grammar, seed), seconds)
    print_figures(seed=seed, sent=sum(grammar.sent.values()), reconnected=peers.reconnected, **watch.figures())
    assert_nobody_harmed(served, watch)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not tell what a thread works")
@pytest.mark.parametrize("kind", GRAMMARS)
@pytest.mark.parametrize(
    "seconds", [4, pytest.param(SOAK_S / 10, marks=[pytest.mark.soak, pytest.mark.timeout(SOAK_S + 300)], id="soak")]
)
def test_no_request_holds_everybody_up(start, print_figures, kind, seconds):
    seed = int(os.environ.get("FUZZ_SEED") or random.randrange(2**32))
    sys.stdout.write(f"FUZZ_SEED={seed}\n")
    grammar = Grammar(kind, random.Random(seed), registration_bytes_max=SINGLE_REGISTRATION_BYTES_MAX)
    peer = OneByOne(start(kind), grammar)
    began = time.perf_counter()
    try:
        while time.perf_counter() - began < seconds:
            peer.step()
    finally:
        peer.close()
    work_ms, request = peer.dearest
    print_figures(seed=seed, dearest_ms=round(work_ms, 1), bytes=len(request))
    assert work_ms < WORK_MS_MAX, request[:1_000]
