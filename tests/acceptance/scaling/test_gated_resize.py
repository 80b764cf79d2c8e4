"""An ordered topic of one broker set grows without a pause, and no key is consumed out of order."""

import pytest
from peers.waiting import wait_until
from resize_site import phases_of

pytestmark = pytest.mark.java

GATED = ["PLANNED", "PRECHECK", "GATE", "SEED", "READ_UP", "WRITE_UP", "RELEASE", "VERIFY"]


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
