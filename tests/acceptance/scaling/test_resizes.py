"""Topics grow and shrink under load, and no group misses a message."""

import pytest
from peers.waiting import wait_until
from resize_site import GROWN, SHRUNK, phases_of

pytestmark = pytest.mark.java

GATED = ["PLANNED", "PRECHECK", "GATE", "SEED", "READ_UP", "WRITE_UP", "RELEASE", "VERIFY"]


def queues_used(traffic, producer, *, since=0):
    """Return the ids of queues that have acknowledged messages of a producer, from the given number of them on."""
    mine = [each for each in traffic.read().acknowledged if each.producer == producer]
    return {each.queue for each in mine[since:]}


def sent_since_consumers_have_every_queue(site, topic, producer, names):
    """Start a steady producer once these consumers share all queues, so that no default of a client skips a message."""
    for group, members in names.items():
        site.wait_until_shared_out(topic, group, members, 4)
    site.traffic.send(producer, topic=topic, interval_ms=10)
    site.traffic.wait_for_acknowledged(200, producer=producer).wait_until_consumed(list(names))


def test_grow_loses_nothing_while_a_consumer_is_killed(site):
    topic, traffic = site.make_topic("Grow", 4), site.traffic
    # A client that sees new queues late, so that others can be killed before all of them are assigned.
    push, broadcast = site.consume(topic, "push", clients=3), site.consume(topic, "broadcast", poll_ms=4000)
    names = [f"{push}-{number}" for number in range(3)]
    sent_since_consumers_have_every_queue(site, topic, "grow", {push: names, broadcast: [f"{broadcast}-0"]})

    operation_id = site.start(topic, 8)
    site.wait_for_phase(operation_id, "ASSIGN")
    traffic.kill(names[0])
    operation = site.wait_until_done(operation_id)
    wait_until(lambda: queues_used(traffic, "grow") == set(range(8)), seconds=30, what="producers use all queues")
    traffic.stop("grow")
    traffic.wait_until_consumed([push, broadcast])

    assert phases_of(operation) == GROWN
    assert site.is_everywhere(topic, 8)
    for group in (push, broadcast):
        assert traffic.verdict([group])[group].missing == ()


def test_write_queues_raised_before_read_queues_lose_messages(site):
    """Proves the test above: it would see a loss.

    Brokers of 5.x let a group without an offset begin at the first message of a queue if that is in memory; nobody does
    so for a broadcasting group.
    """
    topic, traffic = site.make_topic("WriteFirst", 4), site.traffic
    push, broadcast = site.consume(topic, "push"), site.consume(topic, "broadcast")
    members = {push: [f"{push}-0"], broadcast: [f"{broadcast}-0"]}
    sent_since_consumers_have_every_queue(site, topic, "write-first", members)

    site.set_all_counts(topic, read=4, write=8)
    wait_until(lambda: queues_used(traffic, "write-first") == set(range(8)), seconds=30, what="new queues are used")
    site.set_all_counts(topic, read=8, write=8)
    for group, names in members.items():
        site.wait_until_shared_out(topic, group, names, 8)
    traffic.stop("write-first")

    losers = [broadcast, push] if site.is_4_9 else [broadcast]
    for group in losers:
        missing = still_missing(traffic, group)
        assert missing
        assert {each.queue for each in missing} <= {4, 5, 6, 7}


def still_missing(traffic, group):
    """Return what a group misses once it has consumed the queues that it had from the start."""

    def missing():
        return traffic.verdict([group])[group].missing

    wait_until(lambda: all(each.queue >= 4 for each in missing()), seconds=30, what="old queues are consumed")
    return missing()


@pytest.mark.soak
def test_read_and_write_queues_lowered_at_once_lose_messages(site):
    """Proves the next test: it would see a loss."""
    topic, traffic = site.make_topic("ReadFirst", 8), site.traffic
    group = site.consume(topic, "push", from_="FIRST_OFFSET", work_ms=200)
    traffic.send("read-first", topic=topic, interval_ms=10)
    wait_until(lambda: queues_used(traffic, "read-first") == set(range(8)), seconds=30, what="all queues are used")

    site.set_all_counts(topic, read=4, write=4)
    traffic.wait_for_acknowledged(50, producer="read-first")
    traffic.stop("read-first")

    missing = still_missing(traffic, group)
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


def test_plain_resize_of_a_topic_with_an_orderly_group_is_refused(site):
    topic = site.make_topic("Orderly", 4)
    group = site.consume(topic, "orderly", from_="FIRST_OFFSET")
    site.wait_until_shared_out(topic, group, [f"{group}-0"], 4)

    status, body = site.request(topic, 8)

    assert status == 422
    assert f"Orderly is an ordered topic (groups that consume in order: {group})" in body["error"]["message"]
    assert "--ordered pause (ordered: pause)" in body["error"]["message"]
    assert site.is_everywhere(topic, 4)


@pytest.mark.parametrize(("before", "after"), [(8, 12), (8, 4)])
def test_ordered_resize_keeps_the_order_of_every_key(site, before, after):
    topic, traffic = site.make_topic(f"Ordered{after}", before, brokers=["broker-a"]), site.traffic
    group = site.consume(topic, "orderly", clients=2, from_="FIRST_OFFSET")
    producers = [f"{topic}-keyed-{number}" for number in range(2)]
    for name in producers:
        traffic.send(name, topic=topic, interval_ms=10, keys=40)
        traffic.wait_for_acknowledged(100, producer=name)

    operation = site.wait_until_done(site.start(topic, after, ordered="pause"))
    for name in producers:
        traffic.wait_for_acknowledged(200, producer=name)
        traffic.stop(name)
    traffic.wait_until_consumed([group])

    assert operation["kind"] == "ordered"
    assert {phase for phase in phases_of(operation) if "PAUSE" in phase} == {"PAUSE", "UNPAUSE"}
    assert site.counts(topic) == {"broker-a": (after, after)}
    assert queues_used(traffic, producers[0], since=-150) == set(range(after))
    delivery = traffic.verdict([group])[group]
    assert (delivery.missing, delivery.inversions) == ((), ())


def test_gated_grow_keeps_the_order_of_keys(site):
    topic, traffic = site.make_topic("Gated", 4, brokers=["broker-a"]), site.traffic
    # A slow listener: old queues hold older messages of a key while new ones get newer messages.
    group = site.consume(topic, "orderly", clients=2, from_="FIRST_OFFSET", work_ms=15)
    traffic.send("gated", topic=topic, interval_ms=10, keys=50)
    traffic.wait_for_acknowledged(300, producer="gated")

    operation = site.wait_until_done(site.start(topic, 8, ordered="gate"))
    before = len(traffic.read().acknowledged)
    wait_until(
        lambda: (
            {each.queue for each in traffic.read().acknowledged[before:] if each.producer == "gated"} == set(range(8))
        ),
        seconds=30,
        what="producers use all queues",
    )
    traffic.stop("gated")
    traffic.wait_until_consumed([group], seconds=120)

    delivered = traffic.verdict([group])[group]
    assert phases_of(operation) == GATED
    assert delivered.missing == ()
    assert delivered.inversions == ()


def test_gated_grow_of_several_broker_sets_is_refused(site):
    topic = site.make_topic("GatedSets", 4)
    site.consume(topic, "orderly")

    status, body = site.request(topic, 8, ordered="gate")

    assert status == 422
    assert "2 broker sets have GatedSets" in body["error"]["message"]
