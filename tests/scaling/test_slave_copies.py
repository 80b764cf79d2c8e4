"""How long a slave needs to copy what its master has changed about a topic."""

import pytest
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab
from peers.servers import registered
from peers.waiting import seconds_until, wait_until
from peers.wire import SUCCESS, Caller

from scaling.sites import GET_ALL_TOPIC_CONFIG, ScalingSite, decoded

pytestmark = [pytest.mark.java, pytest.mark.soak]

#: A static slave of 5.x copies each minute, any other each 10 s; 5.x waits another 2 or 3 s each time.
STATIC_5_S = 63
OTHER_S = 12
#: What a busy machine adds.
SLACK_S = 8


@pytest.fixture
def lab(tmp_path):
    own = Lab(tmp_path)
    yield own
    own.close()


@pytest.mark.parametrize(("version", "seconds"), [(V5_5, STATIC_5_S), (V5_1, STATIC_5_S), (V4_9, OTHER_S)])
def test_static_slave_copies_a_changed_topic(lab, version, seconds):
    site = ScalingSite(lab, version)
    slave = lab.broker(site.broker.name, version=version, namesrv=[site.namesrv.address], broker_id=1).start().ready()

    _copies_each(site, slave, seconds)


@pytest.mark.parametrize("version", [V5_5, V5_1])
def test_slave_under_a_controller_copies_a_changed_topic(lab, version):
    controller = lab.controller()
    wait_until(controller.serves, seconds=60, what="the controller serves")
    settings = controller.broker_settings()
    site = ScalingSite(lab, version, **settings)
    slave = lab.broker(site.broker.name, version=version, label="second", namesrv=[site.namesrv.address], **settings)
    slave.start().ready()

    _copies_each(site, slave, OTHER_S)


def _copies_each(site, slave, seconds):
    wait_until(lambda: registered(site.namesrv, slave), seconds=60, what="the slave is registered")
    site.set_queues("Copied", read=4, write=4)
    wait_until(lambda: _queues(slave) == (4, 4), seconds=seconds + SLACK_S, what="the first copy")
    site.set_queues("Copied", read=6, write=4)

    waited_s = seconds_until(lambda: _queues(slave) == (6, 4), seconds=seconds + SLACK_S, what="the second copy")

    assert waited_s > seconds - SLACK_S


def _queues(slave):
    """Return the two numbers that a slave has of the topic, None while it has none."""
    answer = Caller(slave.address).request(GET_ALL_TOPIC_CONFIG)
    # A slave of 5.5 has no topics for a moment while it copies them.
    topic = decoded(answer.body)["topicConfigTable"].get("Copied") if answer.code == SUCCESS else None
    return topic and (topic["readQueueNums"], topic["writeQueueNums"])
