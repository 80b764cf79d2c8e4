"""A well-behaved client and a well-behaved broker beside what is going on: how long they wait, and what is refused.

    witness.py PORT [PID]

With the server's process id it also tells for how long the server worked during one query, which other load on the
machine does not change. Runs as a process of its own, so that the load of a test does not count as the server's. Asks
until its input ends, then prints one JSON object. `ready` tells that it has begun.
"""

import json
import select
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from peers.scripted import Line, ScriptedBroker, route_query
from peers.wire import SUCCESS

TOPIC = "witnessed"
PAUSE_S = 0.004
#: The broker speaks once in so many queries.
BROKER_EVERY = 25
TIMEOUT_S = 30


class Processor:
    """How long a process has had processors, in seconds; never more if nobody wants to know."""

    def __init__(self, pid=None):
        # As clock_getcpuclockid(3): the clock that counts what all threads of a process have worked.
        self._clock = None if pid is None else (~int(pid) << 3) | 2

    def seconds(self):
        return 0.0 if self._clock is None else time.clock_gettime(self._clock)


class Witness:
    def __init__(self, port, processor):
        self._port = port
        self._processor = processor
        self._held_s = 0.0
        self._client = self._line()
        self._broker = ScriptedBroker(self._line(), "witness", address="10.9.9.9:10911", cluster="Witnesses")
        self._counter = 0
        self.queries = []
        self.registrations = []
        self.refused = []

    def _line(self):
        return Line(socket.create_connection(("127.0.0.1", self._port), timeout=TIMEOUT_S))

    def query(self):
        began, worked_s = time.perf_counter(), self._processor.seconds()
        answer = self._client.request(*route_query(TOPIC))
        self._held_s = max(self._held_s, self._processor.seconds() - worked_s)
        self.queries.append(time.perf_counter() - began)
        if answer.code != SUCCESS:
            self.refused.append(f"route: {answer.code} {answer.remark}")

    def register(self):
        """Register with changed topics."""
        self._counter += 1
        began = time.perf_counter()
        try:
            self._broker.register({TOPIC: 4 + self._counter % 2, "another": 4}, counter=self._counter)
        except AssertionError as error:
            self.refused.append(f"registration: {error}")
        self.registrations.append(time.perf_counter() - began)
        self._broker.heartbeat()

    def run(self):
        self.register()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            self.query()
            if len(self.queries) % BROKER_EVERY == 0:
                self.register()

    def figures(self):
        return {
            "queries": len(self.queries),
            "p99_ms": share(self.queries, 0.99),
            "max_ms": share(self.queries, 1),
            "held_ms": round(1000 * self._held_s, 2),
            "registrations": len(self.registrations),
            "registration_p99_ms": share(self.registrations, 0.99),
            "refused": self.refused[:3],
        }


def share(seconds, part):
    ordered = sorted(seconds) or [0.0]
    return round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * part))], 2)


if __name__ == "__main__":
    witness = Witness(int(sys.argv[1]), Processor(*sys.argv[2:]))
    try:
        witness.run()
    except OSError as error:
        witness.refused.append(repr(error))
    sys.stdout.write(json.dumps(witness.figures()))
