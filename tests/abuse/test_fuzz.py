"""Random, mutated and truncated frames on many connections beside real traffic.

How long the soak run takes is the environment variable FUZZ_S, in seconds; ten minutes if it is not set. FUZZ_SEED
repeats what a failed run did.
"""

import os
import random
import struct
import sys
import time

import pytest
from bounds import QUERY_P99_MS_ON_BUSY_MACHINES, QUERY_P99_MS_UNDER_LOAD
from crowd import Reopened
from golden_frames import exchanges

SOAK_S = int(os.environ.get("FUZZ_S", "600"))
CONNECTIONS = 50
CHUNK_BYTES_MAX = 4000
#: Between two sendings of a peer: it is about what is sent, and without a pause the server had no time for anybody.
PAUSE_S = 0.02

#: Numbers that have broken readers before.
ODD_NUMBERS = (0, 1, -1, 3, 4, 2**15, 2**24, 2**24 - 1, 2**26, 2**31 - 1, -(2**31))

#: Mutants of these change how the server behaves for everybody, which is what they are for.
COMMANDS_OF_OPERATORS = {318}


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

    def leaves(self):
        return self._random.random() < 0.05

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


class FuzzedPeers(Reopened):
    """Peers that send bytes that were changed."""

    def __init__(self, port, fuzz):
        super().__init__(port, CONNECTIONS)
        self._fuzz = fuzz
        self.sent = 0

    def step(self):
        """Let every peer send something."""
        for number in range(CONNECTIONS):
            each = self.line(number, leaves=self._fuzz.leaves())
            each.settimeout(30)
            try:
                for piece in self._fuzz.pieces():
                    each.sendall(piece)
            except ConnectionError:
                continue
            self.sent += 1


@pytest.mark.parametrize(
    ("seconds", "p99_ms_max"),
    [
        (12, QUERY_P99_MS_ON_BUSY_MACHINES),
        pytest.param(SOAK_S, QUERY_P99_MS_UNDER_LOAD, marks=[pytest.mark.soak, pytest.mark.timeout(SOAK_S + 300)]),
    ],
)
def test_no_bytes_break_the_server_or_harm_others(serve, watched, print_figures, seconds, p99_ms_max):
    seed = int(os.environ.get("FUZZ_SEED") or random.randrange(2**32))
    # Shown if the test fails.
    sys.stdout.write(f"FUZZ_SEED={seed}\n")
    served = serve(serverChannelMaxIdleTimeSeconds=10)
    with watched(served) as watch:
        began = time.perf_counter()
        peers = FuzzedPeers(served.port, Fuzz(seed))
        warm_kib = None
        try:
            while (passed := time.perf_counter() - began) < seconds:
                peers.step()
                time.sleep(PAUSE_S)
                assert served.server.process.running, "the server ended"
                if warm_kib is None and passed > seconds / 3:
                    warm_kib = served.memory_kib()
        finally:
            peers.close()
        watch.look()
        assert watch.most_kib < 1.2 * warm_kib + 32 * 1024, "memory grows"
    watch.assert_memory_came_back()
    print_figures(
        seed=seed, sent=peers.sent, reconnected=peers.reconnected, warm_mib=round(warm_kib / 1024), **watch.figures()
    )
    served.assert_unharmed()
    watch.assert_unharmed(p99_ms_max=p99_ms_max)
