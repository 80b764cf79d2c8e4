"""The ways in which a real broker can be told to register: single topics, in parts, compressed, only if changed."""

from dataclasses import dataclass

import pytest
from peers.jars import V4_9, V5_5
from peers.lab import ORIGINAL_UNDER_TEST
from peers.servers import Broker, NameServer, registered
from peers.waiting import holds_for, wait_until
from peers.wire import GET_ALL_TOPICS, brokers_in

pytestmark = pytest.mark.java

SPLIT_SIZE = 5

#: A broker registers again within this time: its period, its search for reachable NameServers, and what it takes.
REGISTRATION_ROUND_S = 14
#: A broker registers a change at once: sooner than it would register anyway.
AT_ONCE_S = 8


@dataclass
class Cluster:
    """Brokers of unusual settings, each in a cluster of its own. All are at `namesrv`; no 4.9 is at `modern`."""

    namesrv: NameServer
    modern: NameServer
    #: Has deleteTopicWithBrokerRegistration=true.
    strict: NameServer
    single: Broker
    split: Broker
    lazy: Broker
    compressed_497: Broker
    compressed_550: Broker


@pytest.fixture(scope="module")
def cluster(module_lab):
    namesrv = module_lab.name_server("namesrv")
    modern = module_lab.name_server("modern")
    strict = module_lab.name_server("strict", deleteTopicWithBrokerRegistration=True)

    def broker(name, *servers, **settings):
        addresses = [server.address for server in servers]
        return module_lab.broker(name, namesrv=addresses, brokerClusterName=f"{name}_cluster", **settings).start()

    made = Cluster(
        namesrv=namesrv,
        modern=modern,
        strict=strict,
        single=broker("single", namesrv, modern, strict, enableSingleTopicRegister=True),
        split=broker("split", namesrv, modern, enableSplitRegistration=True, splitRegistrationSize=SPLIT_SIZE),
        lazy=broker("lazy", namesrv, modern, forceRegister=False),
        compressed_497=broker("compressed_497", namesrv, version=V4_9, compressedRegister=True),
        compressed_550=broker("compressed_550", namesrv, compressedRegister=True),
    )
    for each in (made.single, made.split, made.lazy, made.compressed_497, made.compressed_550):
        each.ready()
    for each in (made.single, made.split, made.lazy):
        wait_until(lambda at=each: registered(modern, at), seconds=REGISTRATION_ROUND_S, what=f"{each.name} at modern")
    return made


@pytest.fixture
def run(cluster, mqadmin):
    return lambda command: mqadmin.run(*command.split(), namesrv=[cluster.namesrv.address])


@pytest.fixture
def update_topic(cluster, mqadmin):
    return lambda words: mqadmin.update_topic(*words.split(), namesrv=[cluster.namesrv.address])


def registrations(broker):
    """Return how many registrations, of all NameServers together, a 5.x broker has completed."""
    return broker.process.text().count("Registering current broker to name server completed")


def topics_routed_to(name_server, broker):
    topics = name_server.caller.request(GET_ALL_TOPICS).json["topicList"]
    return {topic for topic in topics if broker.name in brokers_in(name_server.caller.route(topic))}


def test_a_single_topic_registration_is_routed_before_the_next_full_one(cluster, update_topic):
    update_topic(f"-b {cluster.single.address} -t single_topic -r 4 -w 4")
    for server in (cluster.namesrv, cluster.modern, cluster.strict):
        wait_until(
            lambda at=server: brokers_in(at.caller.route("single_topic")) == {"single"},
            seconds=AT_ONCE_S,
            what="the route",
        )
    assert "register single topic" in cluster.single.process.text().lower()


def test_a_broker_that_registers_only_changes_keeps_quiet_until_there_is_one(cluster, update_topic):
    for server in (cluster.namesrv, cluster.modern):
        wait_until(lambda at=server: registered(at, cluster.lazy), seconds=REGISTRATION_ROUND_S, what="the broker")
    wait_until(lambda: registrations(cluster.lazy) >= 2, seconds=5, what="the broker's own word of that")
    before = registrations(cluster.lazy)
    holds_for(lambda: registrations(cluster.lazy) == before, seconds=REGISTRATION_ROUND_S, what="no registration")
    update_topic(f"-b {cluster.lazy.address} -t lazy_topic -r 4 -w 4")
    wait_until(
        lambda: brokers_in(cluster.namesrv.caller.route("lazy_topic")) == {"lazy"}, seconds=AT_ONCE_S, what="the route"
    )
    assert registrations(cluster.lazy) > before


def test_a_registration_in_parts_brings_every_topic(cluster, update_topic):
    topics = {f"split_topic_{number}" for number in range(2 * SPLIT_SIZE)}
    for topic in topics:
        update_topic(f"-b {cluster.split.address} -t {topic} -r 4 -w 4")
    wait_until(lambda: topics <= cluster.split.stored_topics(), seconds=5, what="the topics on disk")
    cluster.modern.process.kill()
    cluster.modern.start()
    wait_until(
        lambda: topics_routed_to(cluster.modern, cluster.split) == cluster.split.stored_topics(),
        seconds=REGISTRATION_ROUND_S,
        what="all topics of the broker",
    )


def test_a_compressed_registration_of_4_9_is_read(cluster, update_topic):
    wait_until(lambda: registered(cluster.namesrv, cluster.compressed_497), seconds=5, what="the broker")
    update_topic(f"-b {cluster.compressed_497.address} -t compressed_497_topic -r 3 -w 2")
    wait_until(lambda: cluster.namesrv.caller.route("compressed_497_topic"), seconds=AT_ONCE_S, what="the route")
    (queues,) = cluster.namesrv.caller.route("compressed_497_topic")["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 2, 6)


def test_brokers_learn_of_order_topics_when_they_register(cluster, run, update_topic):
    # A broker heeds only the NameServer that answers first, so it has to be one with a single NameServer.
    broker = cluster.compressed_497
    update_topic(f"-b {broker.address} -t told_to_broker")
    run("updateOrderConf -t told_to_broker -m put -v compressed_497:4")
    broker.process.wait_for(r"told_to_broker.*order=true", seconds=REGISTRATION_ROUND_S)
    run("updateOrderConf -t told_to_broker -m delete")


@pytest.mark.skipif(ORIGINAL_UNDER_TEST, reason="the original refuses it, although its own brokers send it")
def test_a_compressed_registration_of_5_x_is_read_although_its_header_denies_the_compression(cluster, update_topic):
    wait_until(lambda: registered(cluster.namesrv, cluster.compressed_550), seconds=5, what="the broker")
    update_topic(f"-b {cluster.compressed_550.address} -t compressed_550_topic -r 3 -w 2")
    wait_until(lambda: cluster.namesrv.caller.route("compressed_550_topic"), seconds=AT_ONCE_S, what="the route")
    (queues,) = cluster.namesrv.caller.route("compressed_550_topic")["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 2, 6)


def test_a_broker_that_registers_only_changes_comes_back_to_a_restarted_nameserver(cluster):
    before = topics_routed_to(cluster.modern, cluster.lazy)
    cluster.modern.process.kill()
    cluster.modern.start()
    wait_until(lambda: registered(cluster.modern, cluster.lazy), seconds=REGISTRATION_ROUND_S, what="the broker")
    assert topics_routed_to(cluster.modern, cluster.lazy) >= before


def test_one_topic_of_a_broker_that_is_not_known_yet_waits_for_its_full_registration(cluster, mqadmin):
    namesrv, broker = cluster.namesrv, cluster.compressed_497
    # Right after a registration there are some seconds until the next one.
    broker.process.wait_for(rf"to name server {namesrv.address} OK", seconds=12, position=broker.process.position())
    namesrv.process.kill()
    namesrv.start()
    position = broker.process.position()
    mqadmin.update_topic("-b", broker.address, "-t", "early", namesrv=[namesrv.address])
    broker.process.wait_for(r"register broker failed|to name server \S+ OK", seconds=5, position=position)
    # On a busy machine the full registration may have come meanwhile: no topic is routed before that.
    assert namesrv.caller.route("early") is None or namesrv.caller.route("compressed_497_cluster")
    wait_until(lambda: namesrv.caller.route("early"), seconds=REGISTRATION_ROUND_S, what="the route")


def test_a_topic_deleted_on_the_broker_leaves_only_a_nameserver_that_is_configured_to_follow(cluster, mqadmin):
    servers = (cluster.namesrv, cluster.modern, cluster.strict)
    for topic in ("kept", "forgotten"):
        mqadmin.update_topic("-b", cluster.single.address, "-t", topic, namesrv=[cluster.modern.address])
    wait_until(lambda: all(server.caller.route("forgotten") for server in servers), seconds=AT_ONCE_S, what="the topic")
    # Right after a registration none is under way that would bring the topic back.
    before = registrations(cluster.single)
    wait_until(lambda: registrations(cluster.single) > before, seconds=REGISTRATION_ROUND_S, what="a registration")
    mqadmin.run("deleteTopic", "-c", "single_cluster", "-t", "forgotten", namesrv=[cluster.modern.address])
    assert "forgotten" not in cluster.single.stored_topics()
    assert cluster.modern.caller.route("forgotten") is None
    wait_until(
        lambda: cluster.strict.caller.route("forgotten") is None, seconds=REGISTRATION_ROUND_S, what="the topic gone"
    )
    assert cluster.strict.caller.route("kept") is not None
    assert cluster.namesrv.caller.route("forgotten") is not None


def test_clients_send_to_a_static_topic_and_consume_it(cluster, module_lab, lab):
    namesrv = [cluster.modern.address]
    tool = module_lab.mqadmin(version=V5_5)
    printed = tool.run("updateStaticTopic", "-t", "static", "-qn", "6", "-b", "lazy,split", namesrv=namesrv)

    def mappings():
        return (cluster.modern.caller.route("static") or {}).get("topicQueueMappingByBroker", {})

    wait_until(lambda: set(mappings()) == {"lazy", "split"}, seconds=5, what=f"the topic; mqadmin printed {printed}")
    assert {mapping["totalQueues"] for mapping in mappings().values()} == {6}
    consumer = lab.consumer("consumer", namesrv=namesrv, topic="static")
    producer = lab.producer("producer", namesrv=namesrv, topic="static", count=30).finish()
    assert producer.failures() == []
    assert producer.brokers() == {"lazy", "split"}
    consumer.wait_for_all(producer.bodies())
