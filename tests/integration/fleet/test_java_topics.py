"""What happens to topics and permissions when operators and brokers change them, with real brokers."""

import pytest
from peers.waiting import holds_for, wait_until
from peers.wire import (
    GET_ALL_TOPICS,
    GET_SYSTEM_TOPICS,
    GET_TOPICS_BY_CLUSTER,
    GET_UNIT_TOPICS,
    SYSTEM_ERROR,
    brokers_in,
    perm_in,
)

pytestmark = pytest.mark.java

#: A broker registers again within this time, even if nothing changed: its period and what it takes.
REGISTRATION_ROUND_S = 14


@pytest.fixture
def run(fleet, mqadmin):
    """Run mqadmin against the NameServer under test."""
    return lambda command: mqadmin.run(*command.split(), namesrv=[fleet.namesrv.address])


@pytest.fixture
def update_topic(fleet, mqadmin):
    return lambda words: mqadmin.update_topic(*words.split(), namesrv=[fleet.namesrv.address])


@pytest.fixture
def new_topic(fleet, update_topic):
    """Make a topic with 4 queues on all masters of the fleet and wait until the NameServer knows all of it."""

    def make(topic, options=""):
        update_topic(f"-c DefaultCluster -t {topic} -r 4 -w 4 {options}")
        masters = {broker.name for broker in fleet.masters}
        wait_until(lambda: brokers_in(fleet.namesrv.caller.route(topic)) == masters, seconds=5, what=topic)
        return topic

    return make


@pytest.fixture
def setting(fleet, run):
    """Change one property of the NameServer for the time of a test."""
    restore = []

    def change(key, value, *, back_to):
        run(f"updateNamesrvConfig -k {key} -v {value}")
        restore.append(f"updateNamesrvConfig -k {key} -v {back_to}")

    yield change
    for command in restore:
        run(command)


def topics_of(fleet, code, fields=None):
    answer = fleet.namesrv.caller.request(code, fields)
    assert answer.code == 0, answer
    return set(answer.json["topicList"])


@pytest.mark.parametrize("broker", ["b550", "b514", "b514_binary", "b497"])
def test_a_topic_made_on_one_broker_is_routed_at_once(fleet, update_topic, broker):
    address = getattr(fleet, broker).address
    update_topic(f"-b {address} -t only_{broker} -r 4 -w 4")
    wait_until(
        lambda: brokers_in(fleet.namesrv.caller.route(f"only_{broker}")) == {broker}, seconds=5, what="the route"
    )


def test_a_changed_topic_is_routed_with_its_new_queue_counts(fleet, update_topic, new_topic):
    topic = new_topic("resized")
    update_topic(f"-c DefaultCluster -t {topic} -r 6 -w 5 -p 4")

    def all_changed():
        queues = fleet.namesrv.caller.route(topic)["queueDatas"]
        return {(queue["readQueueNums"], queue["writeQueueNums"], queue["perm"]) for queue in queues} == {(6, 5, 4)}

    wait_until(all_changed, seconds=5, what="the new counts on every broker")


def test_wiped_write_permission_survives_registrations_until_it_is_added_again(fleet, run, new_topic):
    topic = new_topic("wiped")
    caller = fleet.namesrv.caller
    run("wipeWritePerm -b b550")
    holds_for(lambda: perm_in(caller.route(topic), "b550") == 4, seconds=REGISTRATION_ROUND_S, what="read only")
    assert perm_in(caller.route(topic), "b514") == 6
    run("addWritePerm -b b550")
    assert perm_in(caller.route(topic), "b550") == 6


def test_no_message_goes_to_a_broker_without_write_permission(fleet, run, new_topic, lab):
    topic = new_topic("partly_wiped")
    run("wipeWritePerm -b b550")
    producer = lab.producer("producer", namesrv=[fleet.namesrv.address], topic=topic, count=30).finish()
    run("addWritePerm -b b550")
    assert producer.failures() == []
    assert producer.brokers() == {"b514", "b514_binary", "b497"}


def test_a_deleted_topic_leaves_the_route_at_once_and_stays_away(fleet, mqadmin, new_topic):
    topic = new_topic("deleted")
    # At the original too, or the topic would be found there by those who compare the two.
    namesrv = [fleet.namesrv.address, fleet.original.address]
    mqadmin.run("deleteTopic", "-c", "DefaultCluster", "-t", topic, namesrv=namesrv)
    assert fleet.namesrv.caller.route(topic) is None
    holds_for(
        lambda: topic not in topics_of(fleet, GET_ALL_TOPICS), seconds=REGISTRATION_ROUND_S, what=f"no topic {topic}"
    )


def test_a_zone_client_is_given_only_the_brokers_of_its_zone(fleet, new_topic, lab):
    topic = new_topic("zoned")
    zoned = {"__ZONE_MODE": "true", "__ZONE_NAME": "z1"}
    assert brokers_in(fleet.namesrv.caller.route(topic, **zoned)) == {"b550"}
    flags = ["-Drocketmq.zone=z2", "-Drocketmq.zone.mode=true"]
    producer = lab.producer("producer", namesrv=[fleet.namesrv.address], topic=topic, count=20, flags=flags).finish()
    assert producer.failures() == []
    assert producer.brokers() == {"b514"}


def test_an_order_configuration_is_routed_while_order_messages_are_enabled(fleet, run, new_topic, setting):
    topic = new_topic("ordered")
    caller = fleet.namesrv.caller
    run(f"updateOrderConf -t {topic} -m put -v b550:4;b514:4")
    assert "orderTopicConf" not in caller.route(topic)
    setting("orderMessageEnable", "true", back_to="false")
    assert caller.route(topic)["orderTopicConf"] == "b550:4;b514:4"
    run(f"updateOrderConf -t {topic} -m delete")
    assert "orderTopicConf" not in caller.route(topic)


def test_a_producer_keeps_to_the_brokers_of_the_order_configuration(fleet, run, new_topic, setting, lab):
    topic = new_topic("kept_in_order")
    run(f"updateOrderConf -t {topic} -m put -v b514:2;b497:2")
    setting("orderMessageEnable", "true", back_to="false")
    producer = lab.producer("producer", namesrv=[fleet.namesrv.address], topic=topic, count=20).finish()
    run(f"updateOrderConf -t {topic} -m delete")
    assert producer.failures() == []
    assert producer.brokers() == {"b514", "b497"}


def test_topic_lists_can_be_switched_off(fleet, run, setting):
    caller = fleet.namesrv.caller
    setting("enableAllTopicList", "false", back_to="true")
    assert "disable" in run("topicList")
    assert caller.request(GET_ALL_TOPICS).code == SYSTEM_ERROR
    assert "b550" in topics_of(fleet, GET_TOPICS_BY_CLUSTER, {"cluster": "DefaultCluster"})
    setting("enableTopicList", "false", back_to="true")
    assert caller.request(GET_TOPICS_BY_CLUSTER, {"cluster": "DefaultCluster"}).code == SYSTEM_ERROR
    assert caller.request(GET_UNIT_TOPICS).code == SYSTEM_ERROR
    assert caller.request(GET_SYSTEM_TOPICS).code == 0


def test_unit_topics_are_listed_apart(fleet, new_topic):
    unit, ordinary = new_topic("unit_topic", "-u true"), new_topic("ordinary_topic")
    listed = topics_of(fleet, GET_UNIT_TOPICS)
    assert unit in listed
    assert ordinary not in listed


def test_topics_of_a_cluster_and_names_of_clusters_and_brokers_are_listed(fleet, new_topic):
    assert new_topic("in_cluster") in topics_of(fleet, GET_TOPICS_BY_CLUSTER, {"cluster": "DefaultCluster"})
    assert topics_of(fleet, GET_TOPICS_BY_CLUSTER, {"cluster": "elsewhere"}) == set()
    assert topics_of(fleet, GET_SYSTEM_TOPICS) == {"DefaultCluster", *(broker.name for broker in fleet.masters)}
