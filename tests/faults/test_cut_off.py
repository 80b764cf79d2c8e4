"""Brokers that are cut off without a word: no connection ends, packets are lost, and some day they come back.

How many cuts the long run has is the environment variable CUTS; 500 if it is not set.
"""

import json
import os
import random
import socket
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from peers.figures import print_figures
from peers.scripted import Line, ScriptedBroker
from peers.waiting import seconds_until, wait_until
from peers.wire import GET_ALL_TOPICS, GET_CLUSTER_INFO, brokers_in

SOAK_CUTS = int(os.environ.get("CUTS", "500"))
CI_CUTS = 15
SEED = 5

BROKERS = 5
TOPIC = "everywhere"
TIMEOUT_MS = 1500
SCAN_MS = 100
HEARTBEAT_S = 0.2
#: Connections whose other end is gone for good are found by their silence.
IDLE_S = 5

#: One end waits for its old connection, which works again when packets come through; the other makes a new one soon.
PATIENT_S, IMPATIENT_S = 10, 0.5

#: What a cut-off broker may take to leave or to come back on a machine that is busy with other things.
ROOM_S = 30


class RemoteBroker(threading.Thread):
    """Beats and registers from its own host until it is stopped; connects again when its connection fails."""

    def __init__(self, host, server, number):
        super().__init__(daemon=True)
        self.name = f"broker-{number}"
        self.host = host
        self.address = f"{host.address}:10911"
        self.patience_s = PATIENT_S if number % 2 else IMPATIENT_S
        self.connected = 0
        self._server = server
        self._stopped = threading.Event()
        self.start()

    def run(self):
        while not self._stopped.is_set():
            try:
                self._live(self._connect())
            except OSError:
                self._stopped.wait(HEARTBEAT_S)

    def _connect(self):
        with self.host.inside():
            connection = socket.create_connection(self._server, timeout=self.patience_s)
        self.connected += 1
        return ScriptedBroker(Line(connection), self.name, address=self.address, timeout_ms=TIMEOUT_MS)

    def _live(self, broker):
        try:
            while not self._stopped.is_set():
                broker.register({TOPIC: 4, self.name: 4})
                for _ in range(3):
                    self._stopped.wait(HEARTBEAT_S)
                    broker.heartbeat()
        finally:
            broker.close()

    def stop(self):
        self._stopped.set()
        self.join(timeout=2 * PATIENT_S)
        assert not self.is_alive()


@dataclass
class Seen:
    """How long it took, in seconds, until a broker that was cut off had left, and until it was back."""

    #: Next to nothing where a broker was cut off while it changed over: it came back over its old connection, with all
    #: that was queued there and the end of it, and had not registered over its new one yet.
    left: list = field(default_factory=list)
    back: list = field(default_factory=list)
    #: Cuts that were over before anybody had to notice.
    short: int = 0


@pytest.fixture
def server(network, lab):
    """A server on every address of a network that leads nowhere."""
    settings = {"scanNotActiveBrokerInterval": SCAN_MS, "serverChannelMaxIdleTimeSeconds": IDLE_S}
    server = lab.name_server("namesrv", http=True, bindAddress="0.0.0.0", **settings)
    server.process.wait_for("server_ready", seconds=10)
    yield server
    assert server.process.stop() == 0


@pytest.fixture
def brokers(network, server):
    made = [RemoteBroker(network.host(2 + n), (network.server, server.port), n) for n in range(BROKERS)]
    yield made
    for broker in made:
        broker.stop()


def is_known(server, broker):
    return server.caller.addresses(broker.name) == {"0": broker.address}


def cut_off_and_return(server, broker, chance, seen):
    """Cut one broker off, mostly until it has left, and wait until it is back."""
    host = broker.host
    cut, mend = chance.choice([(host.cut, host.mend), (host.leave, host.join)])
    is_short = chance.random() < 0.25
    cut()
    if is_short:
        time.sleep(chance.uniform(0, TIMEOUT_MS / 2000))
        seen.short += 1
    else:
        gone = lambda: not server.caller.addresses(broker.name)  # noqa: E731
        seen.left.append(seconds_until(gone, seconds=ROOM_S, what=f"{broker.name} has left"))
    mend()
    back_s = seconds_until(lambda: is_known(server, broker), seconds=ROOM_S, what=f"{broker.name} is back")
    if not is_short:
        seen.back.append(back_s)


def cut_off_all_the_time(server, brokers, cuts):
    """Cut every broker off again and again, one independent of the other, `cuts` times altogether."""
    seen = Seen()

    def suffer(number):
        chance = random.Random(SEED + number)
        for _ in range(number, cuts, len(brokers)):
            cut_off_and_return(server, brokers[number], chance, seen)
            time.sleep(chance.uniform(0, 2 * HEARTBEAT_S))

    with ThreadPoolExecutor(len(brokers)) as pool:
        list(pool.map(suffer, range(len(brokers))))
    return seen


# Every view of who is there


def http_get(server, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}{path}", timeout=5) as answer:
        return answer.read().decode()


def sum_of(scrape, metric):
    lines = [line for line in scrape.splitlines() if line.startswith(f"rocketmq_namesrv_{metric}{{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def views(server):
    """Return whom each view names, by view; of metrics that have no names, how many."""
    cluster_info = server.caller.request(GET_CLUSTER_INFO).json
    scrape = http_get(server, "/metrics")
    return {
        "route": brokers_in(server.caller.route(TOPIC)),
        "own topics": set(server.caller.request(GET_ALL_TOPICS).json["topicList"]) - {TOPIC},
        "addresses": {group["brokerAddrs"]["0"] for group in cluster_info["brokerAddrTable"].values()},
        "clusters": {name for names in cluster_info["clusterAddrTable"].values() for name in names},
        "http": {each["address"] for each in json.loads(http_get(server, "/v1/brokers"))["items"]},
        "topics over http": len(json.loads(http_get(server, "/v1/topics"))["items"]),
        "broker_info": sum_of(scrape, "broker_info"),
        "active_brokers": sum_of(scrape, "active_brokers"),
        "broker_sets": sum_of(scrape, "broker_sets"),
        "topics": sum_of(scrape, "topics"),
        "queues": sum_of(scrape, "queues"),
        "heartbeats": scrape.count("broker_last_heartbeat_timestamp_seconds{"),
    }


def views_with(brokers):
    """Return what all views show when exactly these brokers are there."""
    names, addresses = {broker.name for broker in brokers}, {broker.address for broker in brokers}
    topics = len(names) + 1 if names else 0
    return {
        "route": names,
        "own topics": names,
        "addresses": addresses,
        "clusters": names,
        "http": addresses,
        "topics over http": topics,
        "broker_info": len(names),
        "active_brokers": len(names),
        "broker_sets": len(names),
        "topics": topics,
        # Two topics of four queues each, which can be read and written.
        "queues": 2 * 2 * 4 * len(names),
        "heartbeats": len(names),
    }


def wait_for_views(server, brokers):
    expected = views_with(brokers)
    wait_until(lambda: views(server) == expected, seconds=ROOM_S, what=lambda: f"{expected}, not {views(server)}")


def check_cuts(server, brokers, cuts):
    wait_for_views(server, brokers)
    seen = cut_off_all_the_time(server, brokers, cuts)
    assert len(seen.left) + seen.short == cuts
    wait_for_views(server, brokers)
    for broker in brokers:
        broker.host.leave()
    wait_for_views(server, [])
    # Nothing is left of the connections over which they registered, however many there were.
    wait_until(
        lambda: sum_of(http_get(server, "/metrics"), "connections") == 0, seconds=ROOM_S, what="no connection is open"
    )
    for broker in brokers:
        broker.host.join()
    wait_for_views(server, brokers)
    for broker in brokers:
        broker.stop()
    wait_for_views(server, [])
    return seen


def test_partitioned_brokers_expire_by_their_timeout_and_return_with_a_heartbeat(server, brokers):
    seen = check_cuts(server, brokers, CI_CUTS)
    assert seen.left
    assert seen.short


@pytest.mark.soak
@pytest.mark.timeout(60 + SOAK_CUTS * 10)
def test_hundreds_of_partitions_leave_no_expired_broker_in_any_view(server, brokers, capsys):
    start = time.perf_counter()
    seen = check_cuts(server, brokers, SOAK_CUTS)
    left, back = sorted(seen.left), sorted(seen.back)
    print_figures(
        capsys,
        f"cut off: {SOAK_CUTS} cuts of {BROKERS} brokers in {time.perf_counter() - start:.0f} s, {seen.short} short; "
        f"left after {left[0]:.1f} to {left[-1]:.1f} s (allowed silence {TIMEOUT_MS / 1000} s), back after "
        f"{back[len(back) // 2]:.1f} s, at most {back[-1]:.1f} s; connections made {[b.connected for b in brokers]}",
    )
