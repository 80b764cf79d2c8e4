"""A peer that behaves beside what is going on at a server: how long it waits, and what is refused.

    witness.py namesrv|controller|http PORT [PID]

With the server's process id it also tells for how long the server worked during one query, which other load on the
machine does not change. Runs as a process of its own, so that the load of a test does not count as the server's. Asks
until its input ends, then prints one JSON object. `ready` tells that it has begun.
"""

import http.client
import json
import select
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from peers.replicas import Replica
from peers.scripted import Line, ScriptedBroker, route_query
from peers.waiting import wait_until
from peers.wire import SUCCESS

TOPIC = "witnessed"
PAUSE_S = 0.004
#: The broker speaks once in so many queries.
BROKER_EVERY = 25
TIMEOUT_S = 30


class OfNameServer:
    """A client, and a broker whose topics change."""

    def __init__(self, port):
        self._client, line = (Line(socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)) for _ in range(2))
        self._broker = ScriptedBroker(line, "witness", address="10.9.9.9:10911", cluster="Witnesses")
        self.between(0)

    def ask(self):
        answer = self._client.request(*route_query(TOPIC))
        return "" if answer.code == SUCCESS else f"route: {answer.code} {answer.remark}"

    def between(self, number):
        if number % BROKER_EVERY == 0:
            try:
                self._broker.register({TOPIC: 4 + number // BROKER_EVERY % 2, "another": 4}, counter=number + 1)
                self._broker.heartbeat()
            except AssertionError as error:
                return f"registration: {error}"
        return ""


class OfController:
    """A broker that asks who leads its set, as one does again and again."""

    def __init__(self, port):
        self._replica = Replica(f"127.0.0.1:{port}", "witnessed", cluster="Witnesses").join()
        wait_until(lambda: self._replica.elect().code == SUCCESS, seconds=TIMEOUT_S, what="the witness to be master")
        self._master = self._replica.info().fields

    def ask(self):
        answer = self._replica.info()
        if answer.code == SUCCESS and answer.fields == self._master:
            return ""
        return f"poll: {answer.code} {answer.remark} {answer.fields}, not {self._master}"

    def between(self, _):
        return ""


class OfHttp:
    """A client of the HTTP side."""

    def __init__(self, port):
        self._client = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)

    def ask(self):
        self._client.request("GET", "/livez")
        answer = self._client.getresponse()
        answer.read()
        return "" if answer.status == 200 else f"{answer.status}"

    between = OfController.between


def worked_s(pid=None):
    """Return how long a process has had processors; 0 if nobody wants to know."""
    # As clock_getcpuclockid(3): the clock that counts what all threads of a process have worked.
    return 0.0 if pid is None else time.clock_gettime((~int(pid) << 3) | 2)


def share(seconds, part):
    ordered = sorted(seconds) or [0.0]
    return round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * part))], 2)


def run(kind, port, *pid):
    waited, held_s, refused = [], 0.0, []
    peer = {"namesrv": OfNameServer, "controller": OfController, "http": OfHttp}[kind](int(port))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
            began, worked_before_s = time.perf_counter(), worked_s(*pid)
            refused.append(peer.ask())
            held_s = max(held_s, worked_s(*pid) - worked_before_s)
            waited.append(time.perf_counter() - began)
            refused.append(peer.between(len(waited)))
    except (OSError, http.client.HTTPException) as error:
        refused.append(repr(error))
    return {
        "queries": len(waited),
        "p99_ms": share(waited, 0.99),
        "max_ms": share(waited, 1),
        "held_ms": round(1000 * held_s, 2),
        "refused": [each for each in refused if each][:3],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(*sys.argv[1:])))
