"""The Java clients with which tests of scaling send and consume, with brokers of every release."""

import contextlib

import pytest
from peers.etcd import Way
from peers.jars import V5_5
from peers.waiting import wait_until

pytestmark = pytest.mark.java


def test_every_kind_of_consumer_gets_every_message_while_consumers_end(site):
    topic, traffic = "Ending", site.traffic
    site.set_queues(topic, read=4, write=4)
    kinds = ["push", "orderly", "broadcast", "lite", *([] if site.is_4_9 else ["pop"])]
    for kind in kinds:
        if kind == "pop":
            site.let_pop(topic, "ending-pop")
        for number in range(2):
            options = {"kind": kind, "group": f"ending-{kind}", "from_": "FIRST_OFFSET", "invisible_ms": 10_000}
            traffic.receive(f"ending-{kind}-{number}", topic=topic, **options)
    traffic.send("keyed", topic=topic, interval_ms=5, keys=7)
    traffic.wait_for_acknowledged(100, producer="keyed")
    for kind in kinds:
        # Who is killed keeps its locks for a minute.
        (traffic.stop if kind == "orderly" else traffic.kill)(f"ending-{kind}-0")
    traffic.wait_for_acknowledged(100, producer="keyed")
    traffic.stop("keyed")
    groups = [f"ending-{kind}" for kind in kinds]

    traffic.wait_until_consumed([*groups, "ending-broadcast/ending-broadcast-1"], seconds=150)

    assert traffic.verdict(["ending-orderly"])["ending-orderly"].inversions == ()
    for kind in kinds:
        traffic.stop(f"ending-{kind}-1")


def test_producer_that_sees_no_new_routes_writes_dropped_queues_until_they_are_not_read(site):
    topic, traffic = "Stale", site.traffic
    site.set_queues(topic, read=2, write=2)
    with contextlib.closing(Way(site.namesrv.address)) as way:
        traffic.send("stale", topic=topic, namesrv=[way.endpoint], interval_ms=20)
        traffic.wait_for_acknowledged(20, producer="stale")
        way.hold()
        site.set_queues(topic, read=2, write=1)
        before = site.max_offset(topic, 1)
        traffic.wait_for_acknowledged(100, producer="stale")
        assert site.max_offset(topic, 1) > before + 20

        site.set_queues(topic, read=1, write=1)

        # A message that passed the broker's check before may be stored a moment later.
        traffic.wait_for_acknowledged(5, producer="stale")
        fenced = site.max_offset(topic, 1)
        traffic.wait_for_acknowledged(100, producer="stale")
        assert site.max_offset(topic, 1) == fenced
        way.let_go()
        traffic.stop("stale")

    # Code 1 lets the client try another queue by itself; code 29 does not.
    refused = {each.code for each in traffic.read().unacknowledged if each.producer == "stale"}
    assert refused == ({"29"} if site.version == V5_5 else set())


@pytest.mark.soak
def test_messages_of_every_kind_of_producer_are_consumed(site):
    topic, traffic = "Kinds", site.traffic
    site.set_queues(topic, read=2, write=2)
    traffic.receive("kinds-push", topic=topic, group="kinds", kind="push", from_="FIRST_OFFSET")
    for kind in ("async", "oneway", "transaction"):
        traffic.send(f"kinds-{kind}", topic=topic, kind=kind, interval_ms=20)
        traffic.wait_for_acknowledged(50, producer=f"kinds-{kind}")
    for kind in ("async", "oneway"):
        traffic.stop(f"kinds-{kind}")
    sent = {each.message for each in traffic.read().acknowledged if each.producer.startswith("kinds-")}

    # Some transactions are committed only when the broker checks back, at the earliest 6 s after they were sent.
    consumed = lambda: {each.message for each in traffic.read().consumed if each.group == "kinds"}  # noqa: E731
    wait_until(lambda: sent <= consumed(), seconds=200, what=lambda: f"{len(sent - consumed())} more to be consumed")

    traffic.stop("kinds-transaction")
    traffic.stop("kinds-push")
