"""Every administrative request against real brokers of three releases, with a Java producer and a Java group."""

import asyncio
import contextlib
import itertools

import pytest
from msgspec.structs import replace
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab
from peers.servers import CLUSTER, registered
from peers.waiting import wait_until

from remoting.admin import brokers, clients, groups, locks, messages, offsets, routes, stored_messages, topics
from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.log_epochs import log_epochs
from remoting.admin.message_queues import MessageQueue
from remoting.admin.offset_table import all_offsets
from remoting.admin.offsets import OffsetCommit
from remoting.admin.topics import TopicDefinition
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.errors import NotSupported, Refused
from remoting.protocol.shapes.broker_clients import TOOL_GROUP

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

SOON_S = 120
MESSAGES = 24
TOPIC = TopicDefinition(topic="orders", read_queue_nums=8, write_queue_nums=4, perm=6, is_order=True)
ATTRIBUTES = {"message.type": "FIFO"}
LIMITS = AdminLimits(timeout_ms=15_000)


class Admin:
    """Requests something of one peer, each time over a client of its own."""

    def __init__(self, address):
        self._address = address

    def __call__(self, wanted):
        return asyncio.run(self._call(wanted))

    async def _call(self, wanted):
        client = RemotingClient(SystemClock())
        try:
            return await AdminClient(client, LIMITS).call(self._address, wanted)
        finally:
            await client.close()

    def refusal(self, wanted):
        with pytest.raises(Refused) as refused:
            self(wanted)
        return refused.value.code


def stored_offsets(site, topic):
    """Return what groups have stored of a topic."""
    pieces = site.admin(all_offsets()).of_topics([topic])
    return {each.group: each.offsets for each in pieces if each is not None and not each.is_broadcast}


class Servers:
    """A NameServer and a broker of one release."""

    def __init__(self, lab, version, **properties):
        self.version = version
        self.namesrv = lab.name_server()
        self.broker = lab.broker("b1", namesrv=[self.namesrv.address], version=version, **properties).start().ready()
        wait_until(lambda: registered(self.namesrv, self.broker), seconds=SOON_S, what="the broker")


class Site:
    """These servers, with a topic and clients of one test."""

    _numbers = itertools.count()

    def __init__(self, lab, servers):
        self.lab, self.version = lab, servers.version
        self.is_4_9 = servers.version == V4_9
        self.address = servers.broker.address
        self.admin, self.namesrv = Admin(servers.broker.address), Admin(servers.namesrv.address)
        self.topic = f"orders-{next(self._numbers)}"
        #: The topic as tests make it.
        self.made = replace(TOPIC, topic=self.topic)
        self._clients = {"namesrv": [servers.namesrv.address], "version": self.version, "topic": self.topic}

    def runtime(self):
        """Return what the broker reports; one of 4.9 fails with code 1 until it has counted for a second."""
        with contextlib.suppress(Refused):
            return self.admin(brokers.broker_runtime())

    def definition(self, topic=None):
        request = topics.topic_definition_of_all if self.is_4_9 else topics.topic_definition
        return self.admin(request(topic or self.topic))

    def queue(self, queue_id):
        return MessageQueue(topic=self.topic, broker_name="b1", queue_id=queue_id)

    def send(self, name, count=MESSAGES):
        producer = self.lab.producer(name, count=count, **self._clients).finish(seconds=SOON_S)
        assert len(producer.sent()) == count
        return producer.bodies()

    def sending(self, name):
        producer = self.lab.producer(name, **self._clients)
        return wait_until(producer.sent, seconds=SOON_S, what="a message") and producer

    def consume(self, bodies):
        """Start a group and return its name once the broker has its offsets."""
        self.lab.consumer("readers", **self._clients).wait_for_all(bodies, seconds=SOON_S)
        return wait_until(self._group_with_offsets, seconds=SOON_S, what="the group's offsets")

    def _group_with_offsets(self):
        stored = stored_offsets(self, self.topic)
        return next((group for group, queues in stored.items() if sum(queues.values()) == MESSAGES), None)


@pytest.fixture(scope="module", params=[V4_9, pytest.param(V5_1, marks=pytest.mark.soak), V5_5])
def servers(tmp_path_factory, request):
    with contextlib.closing(Lab(tmp_path_factory.mktemp("servers"))) as shared:
        yield Servers(shared, request.param)


@pytest.fixture
def site(lab, servers):
    return Site(lab, servers)


def test_topic_of_a_java_broker_changes_in_one_field_alone(site):
    site.admin(topics.update_topic(site.made, ATTRIBUTES))
    created = site.definition()
    # Releases before 5.1.0 store no order flag, those before 5.0.0 no attributes.
    assert created == (replace(site.made, is_order=False) if site.is_4_9 else replace(site.made, attributes=ATTRIBUTES))
    assert site.admin(topics.topic_definition_of_all(site.topic)) == created
    assert site.definition("nobody-has-it") is None

    site.admin(topics.update_topic(replace(created, read_queue_nums=12)))
    assert site.definition() == replace(created, read_queue_nums=12)
    routed = wait_until(
        lambda: site.namesrv(routes.route_of(site.topic)).queues["b1"], seconds=SOON_S, what="the topic's route"
    )
    assert (routed.read_queue_nums, routed.write_queue_nums, routed.perm) == (12, 4, 6)

    invalid = replace(site.made, topic="no topic")
    assert site.admin.refusal(topics.update_topic(invalid)) == (29 if site.version == V5_5 else 1)
    if site.is_4_9:
        with pytest.raises(NotSupported):
            site.admin(topics.topic_definition(site.topic))
    else:
        assert site.admin.refusal(topics.update_topic(site.made, {"no.such": "x"})) == 1
        site.admin(topics.update_topic(created, {"message.type": None}))
        assert site.definition() == replace(created, attributes={})


def test_offsets_of_a_java_broker_are_those_sent_and_committed(site):
    site.admin(topics.update_topic(site.made))
    before = site.admin(offsets.committed_offset("nobody", site.topic, 0))
    assert before == (0 if site.is_4_9 else None)
    assert stored_offsets(site, site.topic) == {}
    group = site.consume(site.send("producer"))

    ends = site.admin(topics.queue_offsets(site.topic))
    assert sorted(ends) == [site.queue(i) for i in range(8 if site.version == V5_5 else 4)]
    assert sum(each.max_offset for each in ends.values()) == MESSAGES
    assert {each.min_offset for each in ends.values()} == {0}
    assert ends[site.queue(0)].last_stored_unix_ms is not None
    assert [site.admin(offsets.max_offset(site.topic, i)) for i in (0, 7)] == [ends[site.queue(0)].max_offset, 0]
    assert site.admin(offsets.min_offset(site.topic, 0)) == 0
    assert site.admin.refusal(topics.queue_offsets("nobody-has-it")) == 17

    lag = site.admin(groups.lag_of_group(group, site.topic))
    assert sorted(lag) == [site.queue(i) for i in range(8)]
    assert {each.broker_offset - each.consumer_offset for each in lag.values()} == {0}
    assert (lag[site.queue(0)].pull_offset is None) == site.is_4_9

    assert site.admin(offsets.commit_offset(group, site.topic, 20, 3)) is OffsetCommit.STORED
    assert site.admin(offsets.committed_offset(group, site.topic, 20)) == 3
    assert stored_offsets(site, site.topic)[group][20] == 3
    unknown = offsets.commit_offset("nobody", site.topic, 0, 1)
    assert site.version != V5_5 or site.admin.refusal(unknown) == 26
    missing = offsets.commit_offset(group, "nobody-has-it", 0, 1)
    assert site.is_4_9 or site.admin.refusal(missing) == 17

    timed = offsets.timed_messages(site.topic)
    assert site.admin.refusal(timed) == 3 if site.is_4_9 else site.admin(timed) == 0


def test_stored_messages_of_a_java_broker_are_found_in_its_log(site):
    site.admin(topics.update_topic(site.made))
    site.send("producer")
    entries = [site.admin(stored_messages.queue_entry(site.topic, each, 0)) for each in range(4)]
    for queue_id, entry in enumerate(entries):
        message = site.admin(stored_messages.message_in_log(entry.physical_offset))
        assert (message.queue_id, message.queue_offset) == (queue_id, 0)
        assert message.physical_offset == entry.physical_offset
        assert (entry.min_offset, entry.max_offset) == (0, site.admin(offsets.max_offset(site.topic, queue_id)))
    assert site.admin(stored_messages.queue_entry(site.topic, 0, 1000)) is None
    assert site.admin.refusal(stored_messages.queue_entry(site.topic, 7, 0)) == 1
    assert site.admin.refusal(stored_messages.queue_entry("nobody-has-it", 0, 0)) == 1
    assert site.admin.refusal(stored_messages.message_in_log(7)) == 1
    # There is no controller.
    assert site.admin.refusal(log_epochs()) == (3 if site.is_4_9 else 1)


@pytest.mark.parametrize("version", [pytest.param(V5_1, marks=pytest.mark.soak), V5_5])
def test_reset_on_a_java_broker_refuses_the_commits_that_follow(lab, version):
    site = Site(lab, Servers(lab, version, useServerSideResetOffset=True))
    options = site.admin(brokers.broker_options([offsets.RESETS_ON_SERVER]))
    assert options == {offsets.RESETS_ON_SERVER: "true"}
    site.admin(topics.update_topic(site.made))
    site.send("producer")
    assert site.admin(offsets.max_offset(site.topic, 0)) > 1

    site.admin(offsets.reset_offset(TOOL_GROUP, site.topic, 0, 1))
    assert site.admin(offsets.committed_offset(TOOL_GROUP, site.topic, 0)) == 1
    # 5.1.4 keeps it apart until the next pull.
    stored = {TOOL_GROUP: {0: 1}} if version == V5_5 else {}
    assert stored_offsets(site, site.topic) == stored
    assert site.admin(offsets.commit_offset(TOOL_GROUP, site.topic, 0, 2)) is OffsetCommit.RESET_PENDING
    assert stored_offsets(site, site.topic) == stored
    # There is no such message.
    assert site.admin.refusal(offsets.reset_offset(TOOL_GROUP, site.topic, 0, 1000)) == 1


@pytest.mark.parametrize("version", [pytest.param(V5_1, marks=pytest.mark.soak), V5_5])
def test_java_broker_whose_timer_is_off_answers_so(lab, version):
    site = Site(lab, Servers(lab, version, timerWheelEnable=False))
    with pytest.raises(Refused) as refused:
        site.admin(offsets.timed_messages(site.topic))
    assert offsets.is_timer_off(refused.value)


def test_groups_and_clients_of_a_java_broker_are_those_running(site):
    site.admin(topics.update_topic(site.made))
    group = site.consume(site.send("producer"))
    assert site.admin(groups.groups_of_topic(site.topic)) == (group,)
    assert site.admin(groups.connections_of_group("nobody")) is None

    connections = site.admin(groups.connections_of_group(group))
    [member] = connections.clients
    assert set(connections.subscriptions) == {site.topic, f"%RETRY%{group}"}
    assert (connections.consume_type, connections.is_broadcasting) == ("CONSUME_PASSIVELY", False)
    assert member.language == "JAVA"

    running = site.admin(clients.running_consumer(group, member.client_id))
    held = {each.queue_id: found for each, found in running.queues.items() if each.topic == site.topic}
    assert sorted(held) == list(range(8))
    assert sum(held[i].commit_offset for i in range(4)) == MESSAGES
    assert (running.is_orderly, running.pop_queues) == (False, {})
    assert running.client_version == "V" + site.version.replace(".", "_")
    assert site.admin.refusal(clients.running_consumer(group, "nobody")) == 1

    settings = site.admin(groups.group_definition(group))
    assert (settings.is_consume_enabled, settings.retry_queue_nums) == (True, 1)
    assert site.admin(groups.group_definition("nobody")) is None

    sending = site.sending("sender")
    name = wait_until(
        lambda: next((group for group in site.admin(clients.producers()) if "sender" in group), None),
        seconds=SOON_S,
        what="the producer's heartbeat",
    )
    assert name.startswith("sender")
    sending.process.kill()


def test_locked_queue_of_a_java_broker_is_refused_to_others(site):
    both = [site.queue(0), site.queue(1)]
    assert site.admin(locks.lock_queues("c1", "g", both)) == set(both)
    assert site.admin(locks.lock_queues("c2", "g", both)) == set()
    site.admin(locks.unlock_queues("c1", "g", both[:1]))
    assert site.admin(locks.lock_queues("c2", "g", both)) == {site.queue(0)}


def test_java_broker_reports_its_version_options_and_replication(site):
    runtime = wait_until(site.runtime, seconds=SOON_S, what="a report")
    assert runtime.version == "V" + site.version.replace(".", "_")
    assert runtime.commit_log_max_offset >= 0
    assert runtime.dispatch_behind_bytes >= 0
    assert runtime.boot_unix_ms > 0
    wanted = {"brokerRole", "brokerId", "useServerSideResetOffset", "noSuchOption"}
    found = site.admin(brokers.broker_options(wanted))
    assert (found["brokerRole"], found["brokerId"]) == ("ASYNC_MASTER", "0")
    identity = site.admin(brokers.broker_options({"brokerName", "brokerIP1", "listenPort"}))
    assert (identity["brokerName"], f"{identity['brokerIP1']}:{identity['listenPort']}") == ("b1", site.address)
    assert found.get("useServerSideResetOffset") == {V4_9: None, V5_1: "false", V5_5: "true"}[site.version]
    assert "noSuchOption" not in found
    if site.is_4_9:
        with pytest.raises(NotSupported):
            site.admin(brokers.ha_status())
    else:
        status = site.admin(brokers.ha_status())
        assert (status.is_master, status.ha_connection_info) == (True, [])
        assert status.max_offset >= runtime.commit_log_max_offset


def test_java_broker_acknowledges_a_message_of_the_probe_and_creates_no_topic(site):
    site.admin(topics.update_topic(site.made))
    for number in range(3):
        unix_ms = 1_780_000_000_000 + number
        site.admin(messages.send_message(site.topic, "b1", b"probe", producer_group="p", unix_ms=unix_ms))
    wait_until(lambda: site.admin(offsets.max_offset(site.topic, 0)) == 3, seconds=SOON_S, what="the messages")
    unknown = messages.send_message("nobody-has-it", "b1", b"probe", producer_group="p", unix_ms=1)
    assert site.admin.refusal(unknown) in {1, 17}
    assert site.definition("nobody-has-it") is None


def test_name_server_keeps_the_order_configuration_of_a_topic(site):
    known = site.namesrv(routes.cluster_brokers())
    assert known.broker_sets["b1"].master_address == site.address
    assert known.clusters == {CLUSTER: {"b1"}}
    assert site.namesrv(routes.order_conf(site.topic)) is None
    site.namesrv(routes.put_order_conf(site.topic, "b1:4"))
    assert site.namesrv(routes.order_conf(site.topic)) == "b1:4"
    site.namesrv(routes.delete_order_conf(site.topic))
    assert site.namesrv(routes.order_conf(site.topic)) is None
    assert site.namesrv.refusal(routes.route_of("nobody-has-it")) == 17
