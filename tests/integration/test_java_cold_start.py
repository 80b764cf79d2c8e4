"""NameServers are restarted one after the other, beside a Java one: clients that start meanwhile find every topic.

`COLD_STARTS=100 pytest tests/integration/test_java_cold_start.py` restarts them as often.
"""

import json
import os
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from peers.figures import print_figures
from peers.processes import free_port
from peers.servers import Broker, JavaNameServer, OurNameServer, registered
from peers.waiting import POLL_S, wait_until
from peers.wire import GET_CLUSTER_INFO, addresses_in, brokers_in

pytestmark = pytest.mark.java

RESTARTS = int(os.environ.get("COLD_STARTS", "4"))
#: The longest that a broker takes: without peers, its topics would be unknown for so long.
PERIOD_MS = 60_000
TOPICS = ("first", "second", "third")
#: How long clients ask after each start, each again and again, beginning before the port is open.
ASKED_S = 1.0
CLIENTS = 4
START_S = 30


@dataclass
class Cluster:
    ours: list[OurNameServer]
    java: JavaNameServer
    brokers: list[Broker]

    @property
    def addresses(self):
        return [server.address for server in (*self.ours, self.java)]


@pytest.fixture(scope="module")
def cluster(module_lab, mqadmin):
    ports = [free_port(), free_port()]
    java = module_lab.java_name_server("java")
    peers = ";".join([*(f"127.0.0.1:{port}" for port in ports), java.address])
    ours = [
        module_lab.kept(OurNameServer(module_lab.folder, f"ours-{port}", port=port, peers=peers, http=True)).start()
        for port in ports
    ]
    addresses = [server.address for server in (*ours, java)]
    brokers = [
        module_lab.broker(name, namesrv=addresses, registerNameServerPeriod=PERIOD_MS).start()
        for name in ("broker-a", "broker-b")
    ]
    made = Cluster(ours, java, [broker.ready() for broker in brokers])
    for topic in TOPICS:
        mqadmin.update_topic("-c", "DefaultCluster", "-t", topic, "-r", "4", "-w", "4", namesrv=[java.address])
    for server in (*ours, java):
        has_all = lambda at=server: all(brokers_in(at.caller.route(topic)) == NAMES for topic in TOPICS)  # noqa: E731
        wait_until(has_all, seconds=2 * START_S, what=f"all topics at {server.name}")
    return made


NAMES = {"broker-a", "broker-b"}


def digests(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/v1/peers") as answer:
        return tuple((view["cluster"], view["digest"]) for view in json.load(answer)["clusters"])


def asked_while_starting(server):
    """Start a server again while clients ask; return the brokers that each answer has, and how many answers came."""
    server.process.stop()
    until = time.perf_counter() + START_S

    def ask(number):
        answers, end = [], None
        while (now := time.perf_counter()) < (end or until):
            try:
                answers.append(brokers_in(server.caller.route(TOPICS[number % len(TOPICS)])))
            except OSError:
                time.sleep(POLL_S)
                continue
            end = end or now + ASKED_S
        return answers

    with ThreadPoolExecutor(CLIENTS) as clients:
        asking = [clients.submit(ask, number) for number in range(CLIENTS)]
        server.start()
        return [answer for each in asking for answer in each.result()]


@pytest.mark.timeout(300 + 20 * RESTARTS)
def test_clients_that_start_with_a_server_find_every_topic_that_a_peer_knows(cluster, capsys):
    answers = []
    for number in range(RESTARTS):
        server = cluster.ours[number % len(cluster.ours)]
        answers += asked_while_starting(server)
    unknown = sum(not answer for answer in answers)
    incomplete = sum(answer != NAMES for answer in answers)
    print_figures(
        capsys, f"{RESTARTS} restarts, {len(answers)} route queries: {unknown} unknown topics, {incomplete} incomplete"
    )
    assert len(answers) >= RESTARTS * CLIENTS
    assert (unknown, incomplete) == (0, 0)


def test_java_clients_send_and_receive_through_a_server_that_has_just_started(cluster, lab):
    server = cluster.ours[0]
    server.process.stop()
    server.start()
    assert not server.caller.request(GET_CLUSTER_INFO).json["brokerAddrTable"]
    options = {"namesrv": [server.address], "topic": "first"}
    consumer, producer = lab.consumer("consumer", **options), lab.producer("producer", count=50, **options)
    producer.finish()
    assert (len(producer.bodies()), producer.failures()) == (50, [])
    consumer.wait_for_all(producer.bodies())


def test_server_is_as_ever_once_all_brokers_have_registered(cluster):
    server = cluster.ours[1]
    server.process.stop()
    server.start()
    ended = r'"event":"cold_start_ended".*"reason":"registered","brokers":0'
    server.process.wait_for(ended, seconds=2 * PERIOD_MS / 1000)
    assert registered(server, *cluster.brokers)
    theirs, mine = (each.caller.route("second") for each in (cluster.java, server))
    key = lambda data: data["brokerName"]  # noqa: E731
    assert sorted(mine["queueDatas"], key=key) == sorted(theirs["queueDatas"], key=key)
    same = lambda: len({digests(each) for each in cluster.ours}) == 1 and digests(server)  # noqa: E731
    wait_until(same, seconds=2 * START_S, what="both know the same of the brokers")
    # Neither a Java peer nor one of ours differs; the other server was there for longer than a difference takes.
    assert [each.process.text().count("peer_differs") for each in cluster.ours] == [0, 0]


def test_broker_that_dies_while_a_server_is_cold_leaves_with_its_peers(cluster):
    server, (_, dying) = cluster.ours[0], cluster.brokers
    server.process.stop()
    server.start()
    assert addresses_in(server.caller.route("third"), "broker-b") == {"0": dying.address}
    dying.process.kill()
    gone = lambda at: brokers_in(at.caller.route("third")) == {"broker-a"}  # noqa: E731
    wait_until(lambda: gone(cluster.java), seconds=START_S, what="the Java NameServer knows")
    known = time.perf_counter()
    wait_until(lambda: gone(server), seconds=START_S, what="the started one knows")
    assert time.perf_counter() - known < 2
