"""Brokers and clients of several RocketMQ versions, all at once on one NameServer."""

import pytest
from peers.jars import V4_9, V5_5
from peers.waiting import wait_until
from peers.wire import addresses_in, brokers_in

pytestmark = [pytest.mark.broad, pytest.mark.java]

MESSAGES = 40
BINARY_HEADERS = ["-Drocketmq.serialize.type=ROCKETMQ"]


@pytest.fixture
def everywhere(fleet, mqadmin):
    """A topic with queues on every master."""
    mqadmin.update_topic("-c", "DefaultCluster", "-t", "everywhere", namesrv=[fleet.namesrv.address])
    masters = {broker.name for broker in fleet.masters}
    wait_until(
        lambda: brokers_in(fleet.namesrv.caller.route("everywhere")) == masters,
        seconds=5,
        what=f"the topic on {masters}",
    )
    return "everywhere"


def test_brokers_of_all_versions_are_listed_with_their_addresses(fleet):
    for master in fleet.masters:
        assert fleet.namesrv.caller.addresses(master.name)["0"] == master.address


def test_a_route_names_master_and_slave(fleet):
    route = fleet.namesrv.caller.route("b550")
    assert addresses_in(route, "b550") == {"0": fleet.b550.address, "1": fleet.s550.address}


def test_a_slave_learns_from_its_registration_where_its_master_is(fleet):
    slave, master = fleet.s550.process, fleet.b550
    slave.wait_for(rf"update master address, OLD: \S* NEW: {master.address}", seconds=30)
    slave.wait_for(rf"HAClient connect to master 127.0.0.1:{master.port + 1}", seconds=30)
    master.process.wait_for("HAService receive new connection", seconds=10)


def test_clients_of_all_versions_send_and_consume_through_every_broker(fleet, everywhere, lab):
    namesrv = [fleet.namesrv.address]
    consumers = [
        lab.consumer("c550", namesrv=namesrv, topic=everywhere),
        lab.consumer("c497_binary", namesrv=namesrv, topic=everywhere, version=V4_9, flags=BINARY_HEADERS),
    ]
    producers = [
        lab.producer("p550", namesrv=namesrv, topic=everywhere, count=MESSAGES),
        lab.producer(
            "p550_binary",
            namesrv=namesrv,
            topic=everywhere,
            count=MESSAGES,
            flags=BINARY_HEADERS,
        ),
        lab.producer("p497", namesrv=namesrv, topic=everywhere, count=MESSAGES, version=V4_9),
    ]
    for producer in producers:
        producer.finish()
        assert producer.failures() == []
        assert producer.brokers() == {broker.name for broker in fleet.masters}
    bodies = set().union(*(producer.bodies() for producer in producers))
    assert len(bodies) == len(producers) * MESSAGES
    for consumer in consumers:
        consumer.wait_for_all(bodies)


@pytest.mark.parametrize("version", [V5_5, V4_9])
def test_a_topic_that_nobody_made_comes_to_be_by_sending_to_it(fleet, lab, version):
    namesrv = [fleet.namesrv.address]
    topic = f"on_the_fly_{version.replace('.', '')}"
    consumer = lab.consumer("consumer", namesrv=namesrv, topic=topic, version=version)
    producer = lab.producer("producer", namesrv=namesrv, topic=topic, version=version, count=MESSAGES).finish()
    assert producer.failures() == []
    assert producer.brokers() <= brokers_in(fleet.namesrv.caller.route(topic))
    consumer.wait_for_all(producer.bodies())
