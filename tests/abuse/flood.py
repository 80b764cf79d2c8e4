"""Registrations with long compressed bodies, over many connections at once; each sends the next when one is answered.

    flood.py PORT CONNECTIONS

`ready` tells that all have sent their first. Goes on until its input ends, then prints how many were answered.
"""

import json
import random
import select
import socket
import struct
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from peers.wire import REGISTER_BROKER, frame

#: With names that can hardly be compressed they take half a megabyte.
TOPICS = 100_000


def compressed_body(perm):
    numbers = random.Random(1)
    lines = [f"{numbers.getrandbits(32):08x} 4 4 {perm} SINGLE_TAG".encode() for _ in range(TOPICS)]
    version = {"counter": perm, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    parts = [_part(json.dumps(version).encode()), struct.pack(">i", TOPICS), *map(_part, lines), _part(b"[]")]
    return zlib.compress(b"".join([*parts, struct.pack(">i", 0)]))


def _part(text):
    return struct.pack(">i", len(text)) + text


def registrations(number):
    """Return two that a broker sends in turn, each of which changes all of its topics."""
    address = f"10.66.{number // 250}.{1 + number % 250}:10911"
    fields = {
        "brokerName": f"flood-{number}",
        "brokerAddr": address,
        "clusterName": "Flood",
        "haServerAddr": address,
        "brokerId": "0",
        "compressed": "true",
    }
    return [frame(REGISTER_BROKER, fields, body) for body in BODIES]


BODIES = [compressed_body(perm) for perm in (4, 6)]


class Sender:
    def __init__(self, port, number):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._registrations = registrations(number)
        self._sent = 0
        self.answered = 0
        self._received = b""

    def send(self):
        self.socket.sendall(self._registrations[self._sent % 2])
        self._sent += 1

    def receive(self):
        """Send the next where the one before is answered; return whether the server still listens."""
        try:
            chunk = self.socket.recv(65536)
            if not chunk:
                return False
            self._received += chunk
            while len(self._received) >= 4 and len(self._received) >= 4 + int.from_bytes(self._received[:4]):
                self._received = self._received[4 + int.from_bytes(self._received[:4]) :]
                self.answered += 1
                self.send()
        except OSError:
            return False
        return True


def run(port, count):
    senders = {each.socket: each for each in (Sender(port, number) for number in range(count))}
    answered = list(senders.values())
    for each in answered:
        each.send()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        readable, _, _ = select.select([sys.stdin, *senders], [], [])
        if sys.stdin in readable:
            break
        for each in readable:
            if not senders[each].receive():
                del senders[each]
    return {"connections": count, "body_bytes": len(BODIES[0]), "answered": sum(each.answered for each in answered)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]))))
