"""`rmq group` at brokers of three releases: what it shows equals what mqadmin shows, and members go where it resets."""

import time

import pytest
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab
from peers.servers import CLUSTER
from peers.waiting import wait_until
from rmq_runs import Rmq

# Three brokers with clients take a minute each.
pytestmark = [pytest.mark.java, pytest.mark.soak]

TOPIC, GROUP = "Orders", "billing"
MESSAGES = 20
WAIT_S = 180
#: Under load a JVM misses the 5 s that mqadmin gives each request.
TRIES, LATE = 4, "RemotingTimeoutException"
RESET = ("group", "reset", GROUP, "--topic", TOPIC)


class GroupSite:
    """A Java NameServer of 5.5.0, and a broker of one release with a topic and a group that has read all of it."""

    def __init__(self, lab, version):
        self.lab = lab
        self.namesrv = lab.java_name_server()
        self.broker = lab.broker("broker-a", namesrv=[self.namesrv.address], version=version).start().ready()
        self.rmq = Rmq(lab.folder / "operator", NAMESRV_ADDR=self.namesrv.address)
        # That of 5.5.0 sends 351 for its consumerProgress, which a broker of 4.9.7 does not know.
        self.mqadmin = lab.mqadmin(version=V4_9 if version == V4_9 else V5_5)
        listed = lambda: CLUSTER in self.rmq.run("cluster", "list").out  # noqa: E731
        wait_until(listed, seconds=WAIT_S, what="the broker is listed")
        create = ("topic", "create", TOPIC, "--cluster", CLUSTER, "--read", "2", "--write", "2", "--yes")
        self.rmq.items(*create)
        self.rmq.items("group", "create", GROUP, "--cluster", CLUSTER, "--yes")
        wait_until(lambda: TOPIC in self.rmq.run("topic", "list").out, seconds=WAIT_S, what="the topic is listed")
        self.bodies = set()
        self.send()
        self.consumer = self.consume("first")

    def send(self):
        producer = self.lab.producer("producer", namesrv=[self.namesrv.address], topic=TOPIC, count=MESSAGES)
        self.bodies |= producer.finish(seconds=WAIT_S).bodies()

    def consume(self, name):
        consumer = self.lab.consumer(name, namesrv=[self.namesrv.address], topic=TOPIC, group=GROUP).ready()
        consumer.wait_for_all(self.bodies, seconds=WAIT_S)
        return consumer

    def admin(self, *words):
        for _ in range(TRIES):
            text = self.mqadmin.run(*words, namesrv=[self.namesrv.address], seconds=WAIT_S)
            if LATE not in text:
                break
        return text

    def lags(self):
        rows = self.rmq.items("group", "lag", GROUP, "--topic", TOPIC)
        return {row["queueId"]: row for row in rows}

    def progress(self):
        """Return what mqadmin shows of each queue of the topic: broker offset, consumer offset and difference."""
        text = self.admin("consumerProgress", "-g", GROUP)
        titles = next(line for line in text.splitlines() if line.startswith("#Topic")).split("#")[1:]
        names = [each.strip() for each in titles]
        places = [names.index(each) for each in ("QID", "Broker Offset", "Consumer Offset", "Diff")]
        lines = (line.split() for line in text.splitlines() if line.startswith(f"{TOPIC} "))
        cells = [[int(line[place]) for place in places] for line in lines]
        return {queue: tuple(numbers) for queue, *numbers in cells}

    def is_read(self):
        return all(row["diff"] == 0 for row in self.lags().values())

    def times(self, body):
        return self.consumer.process.text().count(f" {body}\n")


@pytest.fixture(scope="module", params=[V5_5, V5_1, V4_9])
def site(request, tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("groups"))
    try:
        yield GroupSite(lab, request.param)
    finally:
        lab.close()


def test_group_is_shown_as_mqadmin_shows_it_reset_online_and_offline(site):
    """One story: each step leaves what the next one begins with, as a broker and its clients take long to start."""
    wait_until(site.is_read, seconds=WAIT_S, what="the group's offsets are committed")
    _check_reads(site)
    _check_reset_of_members(site)
    site.consumer.process.kill()
    wait_until(lambda: not site.rmq.items("group", "connections", GROUP), seconds=WAIT_S, what="the member left")
    _check_reset_without_members(site)
    _check_deleted(site)


def _check_reads(site):
    rows = site.lags()
    shown = {queue: (row["brokerOffset"], row["consumerOffset"], row["diff"]) for queue, row in rows.items()}
    assert shown == site.progress()
    (member,) = site.rmq.items("group", "connections", GROUP)
    assert {client for row in rows.values() for client in row["clients"]} == {member["clientId"]}
    admin = site.admin("consumerConnection", "-g", GROUP)
    assert all(member[each] in admin for each in ("clientId", "clientAddr", "language", "version")), admin
    subscriptions = {
        row["topic"]: row["expression"] for row in site.rmq.items("group", "connections", GROUP, "--subscriptions")
    }
    assert subscriptions == {TOPIC: "*", f"%RETRY%{GROUP}": "*"}
    (listed,) = site.rmq.items("group", "list", GROUP, "--long")
    assert (listed["clients"], listed["consumeType"], listed["lag"]) == (1, "CONSUME_PASSIVELY", 0)
    (settings,) = site.rmq.items("group", "show", GROUP)
    assert f"retryMaxTimes={settings['retryMaxTimes']}" in site.admin("getConsumerConfig", "-g", GROUP).replace(" ", "")
    stored = {row["queueId"]: row["offset"] for row in site.rmq.items("group", "offsets", GROUP, "--topic", TOPIC)}
    assert stored == {queue: row["consumerOffset"] for queue, row in rows.items()}


def _check_reset_of_members(site):
    rows = site.rmq.items(*RESET, "--to", "earliest", "--yes")
    assert {row["state"] for row in rows} == {"done"}
    assert sum(row["messagesAgain"] for row in rows) == len(site.bodies)
    body = min(site.bodies)
    wait_until(lambda: site.times(body) > 1, seconds=WAIT_S, what="a message is read again")
    wait_until(site.is_read, seconds=WAIT_S, what="all messages are read again")


def _check_reset_without_members(site):
    before = time.time_ns() // 1_000_000
    time.sleep(0.1)
    site.send()
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(before / 1000)) + f".{before % 1000:03}Z"
    ends = {queue: row["brokerOffset"] for queue, row in site.lags().items()}

    latest = site.rmq.items(*RESET, "--to", "latest", "--yes")
    assert sum(row["messagesSkipped"] for row in latest) == MESSAGES
    assert {row["queueId"]: row["new"] for row in latest} == ends
    assert {queue: numbers[1] for queue, numbers in site.progress().items()} == ends

    planned = {row["queueId"]: row["new"] for row in site.rmq.items(*RESET, "--to", text, "--dry-run")}
    site.admin("resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", str(before), "-f", "true")
    assert {queue: numbers[1] for queue, numbers in site.progress().items()} == planned
    assert sum(ends.values()) - sum(planned.values()) == MESSAGES

    (row, *_) = site.rmq.items(*RESET, "--to", "1", "--broker", "broker-a", "--queue", "0", "--yes")
    assert (row["state"], site.lags()[0]["consumerOffset"]) == ("done", 1)


def _check_deleted(site):
    site.rmq.items("group", "delete", GROUP, "--cluster", CLUSTER, "--yes")

    assert site.rmq.items("group", "list", GROUP) == []
    assert site.rmq.run("group", "lag", GROUP).code == 4
    assert GROUP not in site.admin("getConsumerConfig", "-g", GROUP) or "not exist" in site.admin(
        "getConsumerConfig", "-g", GROUP
    )
