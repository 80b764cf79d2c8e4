"""The Java clients with which tests of scaling send and consume, with brokers of every release."""

import pytest

pytestmark = pytest.mark.java


def test_every_kind_of_consumer_gets_every_message_while_consumers_end(site):
    topic, traffic = "Ending", site.traffic
    site.set_queues(topic, read=4, write=4)
    kinds = ["push", "orderly", "broadcast", "lite", *([] if site.is_4_9 else ["pop"])]
    for kind in kinds:
        if kind == "pop":
            site.let_pop(topic, "ending-pop")
        for number in range(2):
            options = {"kind": kind, "group": f"ending-{kind}", "from_": "FIRST_OFFSET"}
            traffic.receive(f"ending-{kind}-{number}", topic=topic, **options)
    traffic.send("keyed", topic=topic, interval_ms=5, keys=7)
    traffic.wait_for_acknowledged(100, producer="keyed")
    for kind in kinds:
        # Who is killed keeps its locks for a minute.
        (traffic.stop if kind == "orderly" else traffic.kill)(f"ending-{kind}-0")
    traffic.wait_for_acknowledged(100, producer="keyed")
    traffic.stop("keyed")
    groups = [f"ending-{kind}" for kind in kinds]

    traffic.wait_until_consumed([*groups, "ending-broadcast/ending-broadcast-1"], seconds=90)

    assert traffic.verdict(["ending-orderly"])["ending-orderly"].inversions == ()
    for kind in kinds:
        traffic.stop(f"ending-{kind}-1")
