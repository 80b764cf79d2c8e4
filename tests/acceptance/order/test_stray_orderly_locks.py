"""What a lock does that nobody should have taken: it keeps owners out, and sends retries to the dead-letter queue."""

import time

import pytest
from measured import note
from orderly_builders import CLUSTER
from peers.jars import V4_9
from peers.waiting import wait_until
from peers.wire import GET_MAX_OFFSET, Caller

from offsets.order.holders import ConsumerKind, Member, OrderlyGroup
from offsets.order.replay import queues_to_replay
from offsets.values import SetName
from remoting.admin.locks import unlock_queues
from remoting.admin.message_queues import MessageQueue

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(600)]

SECTION = "stray locks"


def queue_of(topic):
    return MessageQueue(topic=topic, broker_name="alone", queue_id=0)


def end_of(lone, topic):
    """Return how many messages are in queue 0."""
    answer = Caller(lone.broker.address).request(GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})
    return int(answer.fields["offset"])


def test_lock_of_a_client_that_has_lost_the_queue_keeps_its_owner_out_until_the_broker_ends_it(lone):
    """The broker ends locks after 15 s here, after 60 s by default: why only confirmed holders are replayed."""
    topic, group = "Stale", "orders"
    lone.send(topic)
    address = lone.broker.address
    assert lone.manager.lock(address, group, "stale@1", queue_of(topic))
    locked = time.perf_counter()
    lone.traffic.receive("owner", topic=topic, group=group, kind="orderly", from_="FIRST_OFFSET", heartbeat_ms=1000)
    wait_until(lambda: lone.traffic.read().consumed, seconds=60, what="the owner consumes")
    kept_out_s = time.perf_counter() - locked
    note(
        SECTION,
        lone.version,
        f"{lone.version}: a stale lock kept the owner out for {kept_out_s:.1f} s of {lone.LOCK_S} s",
    )
    assert kept_out_s > lone.LOCK_S
    assert not lone.manager.lock(address, group, "stale@1", queue_of(topic))
    lone.traffic.stop("owner")


def test_lock_on_a_queue_of_a_concurrent_group_sends_its_retries_to_the_dead_letter_queue(lone):
    """Brokers of 4.9 keep them where they are. The mirror holds nothing of such a group, and nothing is replayed."""
    topic, group = "Concurrent", "readers"
    lone.send(topic)
    client_id = lone.traffic.receive("reader", topic=topic, group=group, kind="push", from_="FIRST_OFFSET")
    member, address = Member(OrderlyGroup(CLUSTER, group), client_id), lone.broker.address

    def listed():
        lone.manager.list_group(address, member.of)
        return lone.manager.confirm(member, address)

    wait_until(listed, seconds=60, what="the client answers")
    retry, dead = f"%RETRY%{group}", f"%DLQ%{group}"

    def sent_to():
        """Send a retry, and return which topic gets it."""
        before = {topic: end_of(lone, topic) for topic in (retry, dead)}
        lone.send(retry)
        return wait_until(
            lambda: [topic for topic, end in before.items() if end_of(lone, topic) > end],
            seconds=30,
            what="the retry is stored",
        )

    assert sent_to() == [retry]
    assert lone.manager.lock(address, group, "stray@1", queue_of(topic))
    assert sent_to() == ([retry] if lone.version == V4_9 else [dead])
    lone.manager.run(lone.manager.admin.call(address, unlock_queues("stray@1", group, [queue_of(topic)])))
    assert sent_to() == [retry]

    assert lone.manager.holders.kind_of(member.of) is ConsumerKind.CONCURRENT
    assert queues_to_replay(lone.manager.holders, member, SetName(CLUSTER, "alone")) == frozenset()
    lone.traffic.stop("reader")
