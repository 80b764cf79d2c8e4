"""Two NameServers: brokers and clients that know both do not notice when one of them goes."""

from dataclasses import dataclass

import pytest
from peers.jars import V4_9, V5_5
from peers.lab import ORIGINAL_UNDER_TEST
from peers.servers import Broker, NameServer, registered
from peers.waiting import wait_until

pytestmark = pytest.mark.java

#: A broker registers again within this time: its period, its search for reachable NameServers, and what it takes.
REGISTRATION_ROUND_S = 14

#: What stopping with notice may take: Java answers up to 3 s as ever, then this long with "go away".
GO_AWAY_S = 3

#: Under load for this long before and after a NameServer goes: a client asks for its routes every second.
LOAD_S = 3

#: Java leaves with the number of the signal.
STOPPED_IN_ORDER = 143 if ORIGINAL_UNDER_TEST else 0


@dataclass
class Cluster:
    first: NameServer
    second: NameServer
    brokers: list[Broker]

    @property
    def servers(self):
        return [self.first, self.second]

    @property
    def addresses(self):
        return [server.address for server in self.servers]


@pytest.fixture(scope="module")
def cluster(module_lab, mqadmin):
    graceful = {"enableShutdownGracefully": True, "shutdownWaitTimeSeconds": GO_AWAY_S}
    servers = [module_lab.name_server(name, **graceful) for name in ("first", "second")]
    addresses = [server.address for server in servers]
    brokers = [
        module_lab.broker("b550", namesrv=addresses),
        module_lab.broker("b497", namesrv=addresses, version=V4_9),
    ]
    for broker in brokers:
        broker.start()
    for broker in brokers:
        broker.ready()
    made = Cluster(*servers, brokers)
    _wait_until_complete(made)
    mqadmin.update_topic("-c", "DefaultCluster", "-t", "steady", "-r", "4", "-w", "4", namesrv=addresses)
    return made


@pytest.fixture(autouse=True)
def _complete(cluster):
    """Start each test with all brokers at both NameServers."""
    _wait_until_complete(cluster)


@dataclass
class Load:
    """Clients of both versions that send and receive all the time; which NameServer each asks is its own choice."""

    producers: list
    consumers: list

    def runs_on(self):
        """Wait until every producer has sent for some seconds more."""
        wanted = [len(producer.sent()) + LOAD_S * 50 for producer in self.producers]
        for producer, count in zip(self.producers, wanted, strict=True):
            wait_until(lambda p=producer, c=count: len(p.sent()) >= c, seconds=10 * LOAD_S, what=f"{count} messages")

    def check(self):
        """Fail if a producer saw an error or a consumer misses a message."""
        for producer in self.producers:
            assert producer.failures() == []
        sent = set().union(*(producer.bodies() for producer in self.producers))
        for consumer in self.consumers:
            consumer.wait_for_all(sent)


@pytest.fixture
def load(cluster, lab):
    options = {"namesrv": cluster.addresses, "topic": "steady"}
    versions = {"550": V5_5, "497": V4_9}
    running = Load(
        producers=[lab.producer(f"p{name}", version=version, **options) for name, version in versions.items()],
        consumers=[lab.consumer(f"c{name}", version=version, **options) for name, version in versions.items()],
    )
    for client in (*running.producers, *running.consumers):
        client.ready()
    running.runs_on()
    return running


def _wait_until_complete(cluster):
    for server in cluster.servers:
        wait_until(
            lambda at=server: registered(at, *cluster.brokers),
            seconds=REGISTRATION_ROUND_S,
            what=f"all at {server.name}",
        )


def test_no_client_notices_that_a_nameserver_was_killed(cluster, load):
    for server in cluster.servers:
        _wait_until_complete(cluster)
        server.process.kill()
        load.runs_on()
        server.start()
    load.check()


@pytest.mark.broad
def test_no_client_notices_that_a_nameserver_sends_go_away_and_stops(cluster, load):
    for server in cluster.servers:
        _wait_until_complete(cluster)
        server.process.terminate()
        load.runs_on()
        assert server.process.wait(seconds=GO_AWAY_S + 10) == STOPPED_IN_ORDER
        load.runs_on()
        server.start()
    load.check()


def test_a_topic_made_while_one_nameserver_is_away_is_known_to_it_when_it_returns(cluster, mqadmin):
    cluster.first.process.kill()
    broker = cluster.brokers[0]
    mqadmin.update_topic("-b", broker.address, "-t", "meanwhile", namesrv=[cluster.second.address])
    wait_until(lambda: cluster.second.caller.route("meanwhile"), seconds=10, what="the route")
    cluster.first.start()
    wait_until(lambda: cluster.first.caller.route("meanwhile"), seconds=REGISTRATION_ROUND_S, what="the route")
    assert cluster.first.caller.route("meanwhile") == cluster.second.caller.route("meanwhile")
