"""What clients make of an `orderTopicConf` without queues, by which ordered topics pause."""

import pytest
from peers.waiting import wait_until
from peers.wire import PUT_KV_CONFIG, SUCCESS

pytestmark = pytest.mark.java

#: How producers choose queues: by the hash of a key, and one after the other.
CHOICES = {"keyed": {"keys": 7}, "in-turn": {}}


def put_entry(site, topic, entry):
    fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": entry}
    assert site.namesrv.caller.request(PUT_KV_CONFIG, fields).code == SUCCESS


def without_route(traffic, producer):
    """Return how many sends of a producer have failed because it had no queue."""
    failed = [each for each in traffic.read().unacknowledged if each.producer == producer]
    assert all("No route info" in each.reason for each in failed), failed
    return len(failed)


def test_producers_have_no_queue_of_any_set_while_the_entry_has_none_and_go_on_once_it_has(site):
    """The broker stays writable: it is as one that registers during a pause, and that the entry does not name."""
    topic, traffic = "Entry", site.traffic
    site.set_queues(topic, read=4, write=4)
    put_entry(site, topic, "broker-a:4")
    for name, options in CHOICES.items():
        traffic.send(name, topic=topic, interval_ms=20, **options)
        traffic.wait_for_acknowledged(50, producer=name)

    put_entry(site, topic, "broker-x:0;broker-y:0")
    wait_until(
        lambda: all(without_route(traffic, each) for each in CHOICES), seconds=10, what="producers have no queue"
    )
    ends = [site.max_offset(topic, queue) for queue in range(4)]
    failed = {each: without_route(traffic, each) for each in CHOICES}
    wait_until(
        lambda: all(without_route(traffic, each) > failed[each] + 100 for each in CHOICES),
        seconds=30,
        what="producers have no queue for some polls",
    )
    assert [site.max_offset(topic, queue) for queue in range(4)] == ends

    put_entry(site, topic, "broker-a:4")
    for name in CHOICES:
        traffic.wait_for_acknowledged(50, producer=name, seconds=10)
        traffic.stop(name)
