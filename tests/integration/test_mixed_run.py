"""Brokers and clients of several versions for a long time, while one of two NameServers comes and goes.

How long is the environment variable MIXED_RUN_S, in seconds; an hour if it is not set.
"""

import itertools
import json
import os
import subprocess
import time
from dataclasses import dataclass, field

import pytest
from peers.clients import Consumer, Mqadmin, Producer
from peers.jars import V4_9, V5_1, V5_5
from peers.servers import CLUSTER, Broker, NameServer, registered
from peers.waiting import wait_until
from peers.wire import GET_ALL_TOPICS, READ, WRITE, brokers_in, perm_in

RUN_S = int(os.environ.get("MIXED_RUN_S", "3600"))

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(RUN_S + 900)]

#: Until classes are loaded and buffers have their sizes, memory may grow.
WARM_UP_S = min(600, RUN_S / 3)
GROWTH_MAX = 1.2

TOPIC = "steady"
SEND_INTERVAL_MS = 50

#: What stopping with notice may take: Java answers up to 3 s as ever, then this long with "go away".
GO_AWAY_S = 3

#: A broker registers again within this time: its period, its search for reachable NameServers, and what it takes.
REGISTRATION_ROUND_S = 14

#: A slave takes over its master's topics each 10 s.
SLAVE_ROUND_S = 30


@dataclass
class Cluster:
    """`steady` runs from start to end; `restless` comes and goes."""

    steady: NameServer
    restless: NameServer
    brokers: list[Broker]
    tool: Mqadmin
    producers: list[Producer] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)

    @property
    def servers(self):
        return [self.steady, self.restless]

    @property
    def addresses(self):
        return [server.address for server in self.servers]

    @property
    def names(self):
        return {broker.name for broker in self.brokers}

    def mqadmin(self, command):
        return self.tool.run(*command.split(), namesrv=self.addresses)


@pytest.fixture
def cluster(lab):
    graceful = {"enableShutdownGracefully": True, "shutdownWaitTimeSeconds": GO_AWAY_S}
    steady, restless = (lab.name_server(name, **graceful) for name in ("steady", "restless"))

    def broker(name, **settings):
        # A message may wait until a busy machine has time for it; by default brokers refuse it after 200 ms.
        patient = {"waitTimeMillsInSendQueue": 10_000}
        return lab.broker(name, namesrv=[steady.address, restless.address], **patient, **settings).start()

    brokers = [
        broker("b550"),
        broker("b550", broker_id=1),
        broker("b514", version=V5_1),
        broker("b497", version=V4_9),
    ]
    for each in brokers:
        each.ready()
    made = Cluster(steady, restless, brokers, tool=lab.mqadmin(version=V4_9))
    wait_until_complete(made)
    make_topic(made, TOPIC)
    start_clients(made, lab)
    return made


def start_clients(cluster, lab):
    settings = {"namesrv": cluster.addresses, "topic": TOPIC}
    for version in (V5_5, V5_1, V4_9):
        name = version.replace(".", "")
        cluster.consumers.append(lab.consumer(f"c{name}", version=version, **settings))
        pace = {"interval-ms": SEND_INTERVAL_MS}
        cluster.producers.append(lab.producer(f"p{name}", version=version, **settings, **pace))
    for client in (*cluster.consumers, *cluster.producers):
        client.ready()
    wait_until_all_send(cluster)


def wait_until_complete(cluster):
    for server in cluster.servers:
        wait_until(
            lambda at=server: registered(at, *cluster.brokers),
            seconds=2 * REGISTRATION_ROUND_S,
            what=f"all brokers at {server.name}",
        )


def wait_until_all_send(cluster):
    """Wait until every producer has sent one message more."""
    for producer in cluster.producers:
        producer.process.wait_for(r"^SENT ", seconds=30, position=producer.process.position())


def wait_until_routed(cluster, topic, condition, what):
    """Wait until the routes of both NameServers to `topic` fulfil a condition."""
    for server in cluster.servers:
        wait_until(
            lambda at=server: condition(at.caller.route(topic)),
            seconds=2 * REGISTRATION_ROUND_S,
            what=f"{topic} {what} at {server.name}",
        )


def make_topic(cluster, topic):
    cluster.tool.update_topic(*f"-c {CLUSTER} -t {topic} -r 4 -w 4".split(), namesrv=cluster.addresses)
    wait_until_routed(cluster, topic, lambda route: brokers_in(route) == cluster.names, "everywhere")


# What happens in each round


def make_and_delete_a_topic(cluster, topic):
    make_topic(cluster, topic)
    cluster.mqadmin(f"deleteTopic -c {CLUSTER} -t {topic}")
    # A NameServer that starts anew may hear from the slave first, so it has to have forgotten the topic as well.
    wait_until(
        lambda: not any(topic in broker.stored_topics() for broker in cluster.brokers),
        seconds=SLAVE_ROUND_S,
        what=f"no broker has {topic}",
    )
    wait_until_routed(cluster, topic, lambda route: route is None, "nowhere")


def wipe_and_give_back_write_permission(cluster, topic):
    def is_writable(route):
        return perm_in(route, "b514") & (READ | WRITE) == READ | WRITE

    cluster.mqadmin("wipeWritePerm -b b514")
    wait_until_routed(cluster, TOPIC, lambda route: not is_writable(route), "wiped")
    wait_until_all_send(cluster)
    cluster.mqadmin("addWritePerm -b b514")
    wait_until_routed(cluster, TOPIC, is_writable, "writable")


def kill_a_nameserver(cluster, topic):
    """Kill it, make a topic without it, and let it come back."""
    cluster.restless.process.kill()
    wait_until_all_send(cluster)
    broker = cluster.brokers[0]
    cluster.tool.update_topic("-b", broker.address, "-t", topic, namesrv=[cluster.steady.address])
    cluster.restless.start()
    wait_until_routed(cluster, topic, lambda route: brokers_in(route) == {broker.name}, f"on {broker.name}")
    wait_until_complete(cluster)


def stop_a_nameserver(cluster, topic):
    cluster.restless.process.terminate()
    assert cluster.restless.process.wait(seconds=GO_AWAY_S + 10) == 0
    wait_until_all_send(cluster)
    cluster.restless.start()
    wait_until_complete(cluster)


EVENTS = (kill_a_nameserver, make_and_delete_a_topic, wipe_and_give_back_write_permission, stop_a_nameserver)


def memory_kib(server):
    """Return the resident memory of a server."""
    command = ["ps", "-o", "rss=", "-p", str(server.process.pid)]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


def routes(server):
    """Return the route of every topic; the order of lists is nobody's promise."""
    topics = server.caller.request(GET_ALL_TOPICS).json["topicList"]
    return {topic: sorted_within(server.caller.route(topic)) for topic in topics}


def sorted_within(value):
    if isinstance(value, dict):
        return {key: sorted_within(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted((sorted_within(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def test_a_mixed_cluster_runs_on_whatever_happens_to_one_of_its_nameservers(cluster):
    start = time.perf_counter()
    warm_kib = None
    for number in itertools.count():
        for event in EVENTS:
            event(cluster, f"{event.__name__}_{number}")
            wait_until_all_send(cluster)
        elapsed_s = time.perf_counter() - start
        if warm_kib is None and elapsed_s > WARM_UP_S:
            warm_kib = memory_kib(cluster.steady)
        if elapsed_s > RUN_S:
            break

    grown = memory_kib(cluster.steady) / warm_kib
    for producer in cluster.producers:
        producer.process.kill()
        assert producer.failures() == []
    sent = set().union(*(producer.bodies() for producer in cluster.producers))
    for consumer in cluster.consumers:
        consumer.wait_for_all(sent, seconds=120)
    steady, restless = cluster.servers
    wait_until(lambda: routes(steady) == routes(restless), seconds=2 * REGISTRATION_ROUND_S, what="equal routes")
    assert len(routes(steady)) > number
    assert grown <= GROWTH_MAX
