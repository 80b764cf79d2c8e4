"""Where groups begin in a queue that became readable, and what becomes of popped messages in one that was closed."""

import contextlib

import pytest
from peers.jars import V4_9, V5_1, V5_5
from peers.lab import Lab
from peers.waiting import wait_until
from peers.wire import SUCCESS

from scaling.sites import ACK, GET_ALL_TOPIC_CONFIG, ILLEGAL_MESSAGE, NOT_FOUND, WITH_POP, ScalingSite

pytestmark = pytest.mark.java

#: Messages of the past are removed as soon as a file of the log is full; the first time a minute after the start.
SHORT_RETENTION = {
    "mappedFileSizeCommitLog": 1024 * 1024,
    "fileReservedTime": 0,
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
    "cleanResourceInterval": 1000,
}
FILE_TEXT = "x" * 100_000
#: 4.9 takes no message to be in memory, as a broker does that has written much since.
LONG_LOG = {"accessMessageInMemoryMaxRatio": 0}


@pytest.mark.soak
@pytest.mark.parametrize("version", [V5_5, V5_1, V4_9])
def test_group_with_a_stored_offset_gets_all_of_a_reopened_queue_and_one_without_loses_messages(version, tmp_path):
    properties = LONG_LOG if version == V4_9 else SHORT_RETENTION
    with contextlib.closing(ScalingSite(Lab(tmp_path), version, **properties)) as site:
        topic, traffic = "Reopened", site.traffic
        _leave_an_old_queue(site, topic)
        ids = {group: traffic.receive(group, topic=topic, group=group, kind="push") for group in ("seeded", "bare")}
        for group, client_id in ids.items():
            wait_until(lambda: site.holds(group, client_id, topic, 0), seconds=30, what="queue 0 is held")  # noqa: B023
        assert site.commit("seeded", topic, 1, site.max_offset(topic, 1)) == SUCCESS
        # What scaling never does: the queue is written before it is read.
        site.set_queues(topic, read=1, write=2)
        traffic.send("unread", topic=topic, queue=1, broker=site.broker.name, count=20)
        traffic.finish("unread")
        assert site.committed("bare", topic, 1).code == NOT_FOUND

        site.set_queues(topic, read=2, write=2)

        wait_until(lambda: site.holds("bare", ids["bare"], topic, 1), seconds=30, what="the queue is held")
        traffic.send("read", topic=topic, queue=1, broker=site.broker.name, count=200, interval_ms=20)
        traffic.finish("read")
        traffic.wait_until_consumed(["seeded"])
        assert {each.message for each in traffic.verdict(["bare"])["bare"].missing} >= {
            f"unread:{number}" for number in range(20)
        }


def _leave_an_old_queue(site, topic):
    """Let queue 1 have had a message that has expired, or could have on 4.9, and be dropped."""
    site.set_queues(topic, read=2, write=2)
    assert site.send(topic, 1) == SUCCESS
    site.set_queues(topic, read=1, write=1)

    def expired():
        assert site.send(topic, 0, text=FILE_TEXT) == SUCCESS
        return site.min_offset(topic, 1) == 1

    if not site.is_4_9:
        wait_until(expired, seconds=120, what="the message of queue 1 has expired")


def test_new_group_gets_all_of_a_young_queue(site):
    topic, traffic = "Young", site.traffic
    site.set_queues(topic, read=1, write=1)
    traffic.send("young", topic=topic, count=20)
    traffic.finish("young")

    traffic.receive("late", topic=topic, group="late", kind="push")

    traffic.wait_until_consumed(["late"])
    traffic.stop("late")


@pytest.mark.parametrize("site", WITH_POP, indirect=True)
def test_acknowledgements_are_refused_after_a_queue_was_closed_and_messages_come_again(site):
    site.set_queues("Popped", read=2, write=2)
    for _ in range(2):
        assert site.send("Popped", 1) == SUCCESS
    wait_until(lambda: site.max_offset("Popped", 1) == 2, seconds=10, what="the messages are in their queue")
    handles = [site.pop_one("Popped", "popping", 1, invisible_ms=5000) for _ in range(2)]
    assert site.request(ACK, handles[0]).code == SUCCESS

    site.set_queues("Popped", read=1, write=1)

    assert site.request(ACK, handles[1]).code == ILLEGAL_MESSAGE
    # Popped is committed, acknowledged or not.
    wait_until(lambda: site.offsets("Popped@popping").get("1") == 2, seconds=30, what="both are behind the offset")
    retry = "%RETRY%popping_Popped"
    wait_until(lambda: site.max_offset(retry, 0) == 1, seconds=60, what="the message comes again")
    assert retry in site.asked(GET_ALL_TOPIC_CONFIG)["topicConfigTable"]
