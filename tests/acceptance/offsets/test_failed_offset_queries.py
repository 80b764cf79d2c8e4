"""What real clients do when a broker cannot tell them their offset: absent and unavailable are two answers."""

import contextlib
import socket

import pytest
from failing_front import FailingFront
from offset_site import BROKER, SOON_S, UPDATE_CONSUMER_OFFSET, OffsetSite, consumed
from peers.jars import V4_9, V5_5
from peers.lab import Lab
from peers.offset_managers import OffsetManager, an_entry
from peers.scripted import Line, ScriptedBroker
from peers.servers import CLUSTER
from peers.waiting import holds_for, wait_until
from peers.wire import SYSTEM_ERROR

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

TOPIC = "Billing"
SENT, STORED = 5, 2
BUSY = 2


class FrontSite(OffsetSite):
    """A broker of 5.5.0 that clients reach through a front alone, with a topic of five messages."""

    def __init__(self, lab):
        super().__init__(lab, broker_version=V5_5)
        self.manager = lab.kept(OffsetManager(lab.folder)).start()
        self.ready()
        self.front = FailingFront(self.broker.address)
        self.shown = lab.name_server("shown")
        self._line = Line(socket.create_connection(("127.0.0.1", self.shown.port)))
        broker = ScriptedBroker(self._line, BROKER, address=self.front.address, cluster=CLUSTER, timeout_ms=1_800_000)
        self.make_topics(TOPIC)
        # A single topic would be taken for a change of a broker that is registered.
        broker.register({TOPIC: 1, "Other": 1})
        for number in range(SENT):
            self.send(TOPIC, f"sent:{number}")
        wait_until(lambda: self.max_offset(TOPIC) == SENT, seconds=SOON_S, what="all are in the queue")

    def close(self):
        self._line.close()
        self.front.close()

    def receive(self, version, group, **options):
        traffic = self.lab.traffic(f"{group}-{version}", namesrv=[self.shown.address], version=version)
        # Its policy would begin at the end.
        traffic.receive("c", topic=TOPIC, group=group, kind="push", from_="LAST_OFFSET", **options)
        return traffic


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with contextlib.closing(Lab(tmp_path_factory.mktemp("fronts"))) as lab, contextlib.closing(FrontSite(lab)) as site:
        yield site


@pytest.mark.parametrize("code", [SYSTEM_ERROR, BUSY])
@pytest.mark.parametrize("version", [V5_5, V4_9])
def test_client_of_4_9_jumps_to_the_end_where_its_offset_cannot_be_queried_and_one_of_5_x_waits(site, version, code):
    group = f"at-the-broker-{version[0]}-{code}"
    site.create_group(group)
    fields = {"consumerGroup": group, "topic": TOPIC, "queueId": "0", "commitOffset": str(STORED)}
    site.asked(UPDATE_CONSUMER_OFFSET, fields)
    end, failed = site.max_offset(TOPIC), site.front.failed
    site.front.failure = code
    traffic = site.receive(version, group)
    wait_until(lambda: site.front.failed > failed, seconds=SOON_S, what="its query has failed")
    holds_for(lambda: not consumed(group, traffic), seconds=2, what="nothing is consumed")

    site.front.failure = None
    # A 4.9 client has begun at the end, and gets this one only.
    site.send(TOPIC, "later")

    wait_until(lambda: consumed(group, traffic), seconds=SOON_S, what="it consumes")
    wait_until(lambda: end in offsets(group, traffic), seconds=SOON_S, what="it gets the last one")
    assert offsets(group, traffic) == list(range(end if version == V4_9 else STORED, end + 1))
    traffic.process.kill()


@pytest.mark.parametrize("version", [V5_5, V4_9])
def test_client_with_an_offset_store_begins_where_its_group_was_whatever_its_broker_answers(site, version):
    group = f"at-the-manager-{version[0]}"
    site.create_group(group)
    assert site.manager.commit(an_entry(STORED, group=group, topic=TOPIC, broker=BROKER)).statuses == ["ok"]
    site.front.failure = SYSTEM_ERROR

    traffic = site.receive(version, group, offset_managers=site.manager.address)

    wait_until(lambda: len(offsets(group, traffic)) >= SENT - STORED, seconds=SOON_S, what="it consumes")
    assert offsets(group, traffic)[0] == STORED
    site.front.failure = None
    traffic.process.kill()


def offsets(group, traffic):
    return sorted({each.offset for each in consumed(group, traffic)})
