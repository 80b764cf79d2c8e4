"""Two NameServers while brokers come, go and change their topics: they never seem to differ, until they do.

`CHURN_S=600 pytest -m soak tests/integration/test_views_in_churn.py` is shorter than an hour.
"""

import json
import os
import random
import socket
import time
import urllib.request

import pytest
from peers.figures import print_figures
from peers.processes import free_port
from peers.scripted import Line, ScriptedBroker
from peers.servers import OurNameServer
from peers.waiting import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(4500)]

CHURN_S = float(os.environ.get("CHURN_S", "3600"))
BROKERS = 20
TOPICS = 200
SEED = 7
#: Two periods of registrations, and two looks.
FOUND_S = 90


class ChurningBroker:
    """A broker that registers with one NameServer after the other, as far apart as the test lets pass."""

    def __init__(self, number, servers, chosen):
        self.number, self._servers, self._chosen = number, servers, chosen
        self.queues = {f"topic-{number}-{topic}": 4 for topic in range(TOPICS)}
        self.counter = 1
        self.lines = []

    def come(self):
        for server in self._servers:
            line = Line(socket.create_connection(("127.0.0.1", server.port), timeout=10))
            address = f"10.0.0.{self.number}:10911"
            self.lines.append(ScriptedBroker(line, f"b-{self.number}", address=address, timeout_ms=12 * 3600 * 1000))
        self.register(self._servers)

    def change(self):
        topics = list(self.queues)
        for topic in self._chosen.sample(topics, self._chosen.randint(1, 20)):
            self.queues[topic] = self._chosen.randint(1, 16)
        del self.queues[self._chosen.choice(topics)]
        self.queues[f"topic-{self.number}-{self.counter}-new"] = 4
        self.register(self._servers)

    def register(self, servers):
        self.counter += 1
        for server, line in zip(self._servers, self.lines, strict=True):
            if server in servers:
                line.register(self.queues, counter=self.counter)
                time.sleep(self._chosen.random() / 10)

    def leave(self):
        for line in self.lines:
            line.close()
        self.lines = []


def view(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/v1/peers", timeout=10) as answer:
        return json.loads(answer.read())


def differences(servers):
    return [each for server in servers for peer in view(server)["peers"] for each in peer["differences"]]


def digests(server):
    return [each["digest"] for each in view(server)["clusters"]]


def test_views_are_equal_in_an_hour_of_churn_and_one_queue_is_found(tmp_path, capsys):
    ports, chosen = [free_port(), free_port()], random.Random(SEED)
    peers = ";".join(f"127.0.0.1:{port}" for port in ports)
    servers = [OurNameServer(tmp_path, f"ns-{port}", port=port, peers=peers, http=True) for port in ports]
    for server in servers:
        server.start()
    brokers = [ChurningBroker(number, servers, chosen) for number in range(BROKERS)]
    try:
        for broker in brokers:
            broker.come()
        over_s, seen_s, changes = time.perf_counter() + CHURN_S, 0.0, 0
        while (now_s := time.perf_counter()) < over_s:
            broker, changes = chosen.choice(brokers), changes + 1
            if not broker.lines:
                broker.come()
            elif chosen.random() < 0.1:
                broker.leave()
            else:
                broker.change()
            if now_s - seen_s > 5:
                seen_s = now_s
                assert differences(servers) == []
        for broker in brokers:
            if not broker.lines:
                broker.come()
        wait_until(lambda: digests(servers[0]) == digests(servers[1]), seconds=FOUND_S, what="equal digests")
        brokers[0].queues[f"topic-0-{brokers[0].counter}-other"] = 5
        brokers[0].register(servers[:1])
        found = [{"cluster": "C", "brokerName": "b-0", "kind": "topics"}] * 2
        wait_until(lambda: differences(servers) == found, seconds=FOUND_S, what="one topic is found at both")
        print_figures(
            capsys, f"{changes} changes in {CHURN_S:.0f} s, seed {SEED}: no difference; then one, found by both"
        )
    finally:
        for broker in brokers:
            broker.leave()
        for server in servers:
            server.process.kill()
