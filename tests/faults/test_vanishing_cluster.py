"""Brokers that go one right after another, as when their machines are switched off."""

import random
import socket
import time

from peers.scripted import Line, ScriptedBroker
from peers.waiting import wait_until
from peers.wire import brokers_in

GET_BROKER_CLUSTER_INFO = 106
BROKERS = 60
#: Enough that a departure takes more than one slice.
TOPICS = {f"t{number}": 4 for number in range(5_000)}


def test_all_brokers_of_a_vanished_cluster_are_removed_and_the_server_continues(lab):
    server = lab.name_server("namesrv")
    rng = random.Random(7)
    for _ in range(2):
        brokers = []
        for number in range(BROKERS):
            line = Line(socket.create_connection(("127.0.0.1", server.port), timeout=30))
            brokers.append(ScriptedBroker(line, f"broker-{number}", address=f"10.0.0.{number}:10911"))
            # Large and small ones: what is long and what is short end between each other.
            brokers[-1].register(TOPICS if number % 4 == 0 else {"t1": 4, "t2": 4})
        assert len(brokers_in(server.caller.route("t1"))) == BROKERS
        for broker in brokers:
            broker.close()
            time.sleep(rng.uniform(0, 0.02))
        wait_until(lambda: not any(live_brokers(server)), seconds=30, what="all brokers to be gone")


def live_brokers(server):
    """Return the names of the brokers that a list of the clusters has."""
    table = server.caller.request(GET_BROKER_CLUSTER_INFO).json["clusterAddrTable"]
    return [name for names in table.values() for name in names]
