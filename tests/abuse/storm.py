"""Connections at a rate, open loop: each is made, asks once, reads its answer and closes.

    storm.py PORT RATE SECONDS

Prints one JSON object: how many were offered, answered, and closed without an answer, and how long they took from when
they were due.
"""

import json
import selectors
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from peers.scripted import route_query
from peers.wire import frame
from witness import TOPIC, share

REQUEST = frame(*route_query(TOPIC))
TICK_S = 0.002
#: After the last is offered, all are answered or closed within this time.
PATIENCE_S = 60


class Storm:
    def __init__(self, port):
        self._port = port
        self._selector = selectors.DefaultSelector()
        self.offered = 0
        self.closed = 0
        self.seconds = []

    @property
    def open(self):
        return len(self._selector.get_map())

    def offer(self, due):
        visitor = socket.socket()
        visitor.setblocking(False)
        # One address of loopback has too few ports for so many connections to one place.
        visitor.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
        visitor.bind((f"127.0.0.{2 + self.offered % 50}", 0))
        visitor.connect_ex(("127.0.0.1", self._port))
        self._selector.register(visitor, selectors.EVENT_WRITE, due)
        self.offered += 1

    def move(self, timeout):
        for key, events in self._selector.select(timeout):
            try:
                if events & selectors.EVENT_WRITE:
                    key.fileobj.send(REQUEST)
                    self._selector.modify(key.fileobj, selectors.EVENT_READ, key.data)
                else:
                    self._leave(key, is_answered=bool(key.fileobj.recv(65536)))
            except ConnectionError:
                self._leave(key, is_answered=False)

    def _leave(self, key, *, is_answered):
        self._selector.unregister(key.fileobj)
        key.fileobj.close()
        if is_answered:
            self.seconds.append(time.perf_counter() - key.data)
        else:
            self.closed += 1

    def run(self, rate, seconds):
        began = time.perf_counter()
        while (now := time.perf_counter()) < began + seconds:
            while self.offered < (now - began) * rate:
                self.offer(began + self.offered / rate)
            self.move(TICK_S)
        while self.open and time.perf_counter() < began + seconds + PATIENCE_S:
            self.move(TICK_S)
        return {
            "offered": self.offered,
            "answered": len(self.seconds),
            "refused": self.closed,
            "seconds": round(time.perf_counter() - began, 1),
            "visit_p50_ms": share(self.seconds, 0.5),
            "visit_p99_ms": share(self.seconds, 0.99),
        }


if __name__ == "__main__":
    figures = Storm(int(sys.argv[1])).run(int(sys.argv[2]), float(sys.argv[3]))
    sys.stdout.write(json.dumps(figures))
