"""A manager mirrors a real broker: a consumer's offsets, rewinds at the broker, also while the manager is dead."""

import asyncio
import contextlib
import json

import pytest
from peers.lab import Lab
from peers.offset_managers import OffsetManager
from peers.waiting import wait_until
from peers.wire import Caller

from remoting.admin.client import AdminClient, AdminLimits
from remoting.admin.offsets import OffsetCommit, commit_offset, committed_offset
from remoting.client import RemotingClient
from remoting.clock import SystemClock

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

SOON_S = 120
GROUP, MESSAGES = "billing", 40
#: Every broker has it, with one queue.
SYSTEM_TOPIC = "SELF_TEST_TOPIC"
UPDATE_GROUP = 200
ONE_QUEUE = {"autoCreateTopicEnable": "true", "defaultTopicQueueNums": 1}


@pytest.fixture
def lab(tmp_path):
    with contextlib.closing(Lab(tmp_path)) as own:
        yield own


def admin(address, wanted):
    async def call():
        client = RemotingClient(SystemClock())
        try:
            return await AdminClient(client, AdminLimits(timeout_ms=60_000)).call(address, wanted)
        finally:
            await client.close()

    return asyncio.run(call())


def until(condition, what):
    wait_until(condition, seconds=SOON_S, what=what)


class Site:
    """A broker, a manager that mirrors it, and the offsets of a group in the first queue of a topic."""

    def __init__(self, lab, topic):
        self.topic = topic
        self.namesrv = lab.name_server()
        self.broker = lab.broker("broker-a", namesrv=[self.namesrv.address], **ONE_QUEUE).start().ready()
        manager = OffsetManager(lab.folder, namesrv_addr=self.namesrv.address, mirror_period_ms=1000)
        self.manager = lab.kept(manager).start()

    def regressions(self):
        """Return what the manager shows of the group, the newest first."""
        found = self.manager.get(f"/v1/offsets/regressions?group={GROUP}&topic={self.topic}").body["regressions"]
        return [(each["cause"], each["fromOffset"], each["toOffset"], each["times"]) for each in found]

    def commit(self, offset):
        """Commit as tools do that talk to the broker (15), and check it (14)."""
        assert admin(self.broker.address, commit_offset(GROUP, self.topic, 0, offset)) is OffsetCommit.STORED
        assert self.stored() == offset

    def stored(self):
        return admin(self.broker.address, committed_offset(GROUP, self.topic, 0))

    def read(self, times):
        """Wait until the manager has read the broker so many times more; the first of them may have begun before."""
        name = 'mirror_polls_total{result="ok"}'
        before = self.manager.metric(name)
        until(lambda: self.manager.metric(name) >= before + times, f"{times} further readings")


def check_rewinds(site, first):
    """Set the group back while the manager runs and while it is dead; `first` is where it is."""
    until(lambda: site.manager.metric("mirrored_entries") >= 1, "the manager has the group")
    site.read(2)
    site.commit(25)
    until(lambda: site.regressions() == [("rewind", first, 25, 1)], "the rewind")
    site.read(3)
    assert site.stored() == 25

    site.manager.process.kill()
    site.commit(15)
    site.manager.start()
    until(lambda: site.regressions() == [("rewind", 25, 15, 2)], "what went back while no manager ran")
    site.read(3)
    assert site.regressions() == [("rewind", 25, 15, 2)]
    assert site.manager.metric('offset_regressions_total{cause="rewind"}') == 1
    assert site.stored() == 15
    assert site.manager.process.stop() == 0


def test_rewind_at_a_broker_is_recorded_and_stays_also_where_no_manager_has_seen_it(lab):
    site = Site(lab, SYSTEM_TOPIC)
    answer = Caller(site.broker.address).request(UPDATE_GROUP, {}, json.dumps({"groupName": GROUP}).encode())
    assert answer.code == 0, answer
    site.commit(MESSAGES)
    check_rewinds(site, MESSAGES)


@pytest.mark.soak
def test_rewind_of_a_real_consumer_starts_from_what_it_had_consumed(lab):
    site = Site(lab, "orders")
    names = {"namesrv": [site.namesrv.address], "topic": site.topic}
    sent = lab.producer("producer", count=MESSAGES, **names).finish()
    consumer = lab.consumer("consumer", group=GROUP, **names)
    consumer.wait_for_all(sent.bodies())
    until(lambda: site.stored() == MESSAGES, "the consumer's offset is at the broker")
    consumer.process.kill()
    check_rewinds(site, MESSAGES)
