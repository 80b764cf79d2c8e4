"""Topics grow and shrink under load, and no group misses a message."""

import pytest
from peers.waiting import wait_until
from resize_site import phases_of

pytestmark = pytest.mark.java

GROWN = ["PLANNED", "PRECHECK", "SEED", "READ_UP", "ASSIGN", "WRITE_UP", "VERIFY"]
SHRUNK = [
    "PLANNED", "PRECHECK", "WRITE_DOWN", "QUIESCE", "LATE", "DRAIN", "CONFIRM", "READ_DOWN", "WATCH",
]  # fmt: skip


def queues_used(traffic, producer, *, since=0):
    """Return the ids of queues that have acknowledged messages of a producer, from the given number of them on."""
    mine = [each for each in traffic.read().acknowledged if each.producer == producer]
    return {each.queue for each in mine[since:]}


def test_grow_loses_nothing_while_a_consumer_is_killed(site):
    topic, traffic = site.make_topic("Grow", 4), site.traffic
    group = site.consume(topic, "push", clients=3)
    names = [f"{group}-{number}" for number in range(3)]
    site.wait_until_shared_out(topic, group, names, 4)
    traffic.send("grow", topic=topic, interval_ms=10)
    traffic.wait_for_acknowledged(200, producer="grow").wait_until_consumed([group])

    operation_id = site.start(topic, 8)
    site.wait_for_phase(operation_id, "ASSIGN")
    traffic.kill(names[0])
    operation = site.wait_until_done(operation_id)
    wait_until(lambda: queues_used(traffic, "grow") == set(range(8)), seconds=30, what="producers use all queues")
    traffic.stop("grow")
    traffic.wait_until_consumed([group])

    assert phases_of(operation) == GROWN
    assert site.is_everywhere(topic, 8)
    assert traffic.verdict([group])[group].missing == ()


def test_new_write_queues_before_read_queues_lose_messages(site):
    """Proves the test above: it would see a loss."""
    topic, traffic = site.make_topic("WriteFirst", 4), site.traffic
    group = site.consume(topic, "push")
    site.wait_until_shared_out(topic, group, [f"{group}-0"], 4)
    traffic.send("write-first", topic=topic, interval_ms=10)
    traffic.wait_for_acknowledged(100, producer="write-first").wait_until_consumed([group])

    site.set_all_counts(topic, read=4, write=8)
    wait_until(lambda: queues_used(traffic, "write-first") == set(range(8)), seconds=30, what="new queues are used")
    site.set_all_counts(topic, read=8, write=8)
    site.wait_until_shared_out(topic, group, [f"{group}-0"], 8)
    traffic.stop("write-first")

    def missing_of_old_queues():
        return [each for each in traffic.verdict([group])[group].missing if each.queue < 4]

    wait_until(lambda: not missing_of_old_queues(), seconds=30, what="messages of the old queues are consumed")
    missing = traffic.verdict([group])[group].missing
    assert missing
    assert {each.queue for each in missing} <= {4, 5, 6, 7}


def test_shrink_loses_nothing_of_any_kind_of_group(site):
    topic, traffic = site.make_topic("Shrink", 8), site.traffic
    kinds = ["push", "lite", "broadcast", *([] if site.is_4_9 else ["pop"])]
    groups = [site.consume(topic, kind, clients=2, from_="FIRST_OFFSET") for kind in kinds]
    broadcast = f"{topic}-broadcast"
    judged = [*groups, f"{broadcast}/{broadcast}-0", f"{broadcast}/{broadcast}-1"]
    traffic.send("shrink", topic=topic, interval_ms=10)
    traffic.wait_for_acknowledged(200, producer="shrink").wait_until_consumed(judged)

    operation = site.wait_until_done(site.start(topic, 4))
    traffic.wait_for_acknowledged(50, producer="shrink")
    traffic.stop("shrink")
    traffic.wait_until_consumed(judged)

    assert phases_of(operation) == SHRUNK
    assert site.is_everywhere(topic, 4)
    for group in judged:
        assert traffic.verdict([group])[group].missing == ()
