"""Whoever asks for a route after a registration was answered gets the route that it made, however busy both are.

How long the long run asks is the environment variable FRESH_S, in seconds; five minutes if it is not set.
"""

import itertools
import os
import socket
import threading
import time
from dataclasses import dataclass

import pytest
from peers.figures import print_figures
from peers.scripted import VERSION_4_9_3, Line, ScriptedBroker, queues_in, route_query
from peers.wire import VERSION

SOAK_S = int(os.environ.get("FRESH_S", "300"))

TOPICS = [f"topic-{number}" for number in range(3)]
PIPELINED = 8

#: How each reader asks: its header, its release, and whether it says that it reads standard JSON only.
DIALECTS = [
    (binary, version, standard)
    for binary in (False, True)
    for version, standard in ((VERSION_4_9_3, False), (VERSION_4_9_3, True), (VERSION, False))
]


@dataclass
class Registered:
    """The last number of queues that a registration was sent with, and the last that was answered."""

    sent: int = 1
    answered: int = 1


class Worker(threading.Thread):
    """Does one thing again and again until it is told to stop or it fails."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self._work = work
        self._stopped = threading.Event()
        self._failure = None
        self.done = 0
        self.start()

    def run(self):
        try:
            while not self._stopped.is_set():
                self._work()
                self.done += 1
        except BaseException as failure:  # noqa: BLE001  # raised again where the test waits
            self._failure = failure

    def finish(self):
        self._stopped.set()
        self.join(timeout=10)
        assert not self.is_alive()
        if self._failure:
            raise self._failure


@pytest.fixture(params=["JSON", "ROCKETMQ"])
def line_to(lab, request):
    """Opens lines to a server that writes the headers of its answers in either form."""
    server = lab.name_server("namesrv", serializeType=request.param)
    opened = []

    def line(**form):
        opened.append(Line(socket.create_connection(("127.0.0.1", server.port), timeout=10), **form))
        return opened[-1]

    yield line
    for each in opened:
        each.close()


def changing(line, name, registered):
    """Return what gives all topics of a broker one queue more."""
    broker = ScriptedBroker(line, name, address=f"{name}:10911")

    def change():
        registered.sent += 1
        broker.register(dict.fromkeys(TOPICS, registered.sent), counter=registered.sent)
        registered.answered = registered.sent

    broker.register(dict.fromkeys(TOPICS, 1), counter=1)
    return change


def asking(line, registered, standard):
    """Return what asks for routes, some requests at once, and looks at every answer."""
    topics = itertools.cycle(TOPICS)

    def query():
        least = {name: each.answered for name, each in registered.items()}
        sent = {line.send(*route_query(next(topics), standard=standard)) for _ in range(PIPELINED)}
        for _ in range(PIPELINED):
            number, answer = line.receive()
            sent.remove(number)
            queues = queues_in(answer)
            for name, each in registered.items():
                assert least[name] <= queues[name] <= each.sent

    return query


def query_while_topics_change(line_to, seconds):
    """Return how many times topics were changed and routes answered meanwhile."""
    registered = {name: Registered() for name in ("broker-a", "broker-b")}
    changes = [changing(line_to(), name, each) for name, each in registered.items()]
    readers = [
        Worker(asking(line_to(binary=binary, version=version), registered, standard))
        for binary, version, standard in DIALECTS
    ]
    writers = [Worker(change) for change in changes]
    time.sleep(seconds)
    for worker in (*writers, *readers):
        worker.finish()
    return [writer.done for writer in writers], [reader.done * PIPELINED for reader in readers]


def test_route_is_not_older_than_the_last_registration_with_a_response_before_the_request(line_to):
    changed, answered = query_while_topics_change(line_to, seconds=2)
    assert min(changed + answered) > 10


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S + 60)
def test_no_route_is_stale_in_minutes_of_requests(line_to, capsys):
    changed, answered = query_while_topics_change(line_to, seconds=SOAK_S)
    print_figures(
        capsys, f"fresh answers: {SOAK_S} s, {sum(changed)} changes, {sum(answered)} answers, none of them old"
    )
    assert min(changed + answered) > 10
