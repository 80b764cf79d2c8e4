"""Who fetched the route of a topic, with real producers and a real broker whose topic changes."""

import pytest
from peers.jars import V4_9, V5_5
from peers.lab import ORIGINAL_UNDER_TEST
from peers.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.skipif(ORIGINAL_UNDER_TEST, reason="the original has no such request")]

WATCH_ROUTE_FETCHES = 20105
#: A broker registers a changed topic at once, and a producer of these tests polls once a second.
FETCHED_WITHIN_S = 10


def watched(fleet, topic):
    answer = fleet.namesrv.caller.request(WATCH_ROUTE_FETCHES, {"topic": topic, "keepMs": "60000"})
    assert answer.code == 0, answer
    return answer.json


@pytest.mark.parametrize("version", [V5_5, V4_9])
def test_producer_is_shown_with_the_new_route_after_its_topic_lost_write_queues(fleet, mqadmin, lab, version):
    topic = f"watched_{version.replace('.', '_')}"

    def update(write_queue_nums):
        command = ["-b", fleet.b550.address, "-t", topic, "-r", "8", "-w", write_queue_nums]
        mqadmin.update_topic(*command, namesrv=[fleet.namesrv.address])
        wait_until(
            lambda: (
                (route := fleet.namesrv.caller.route(topic))
                and route["queueDatas"][0]["writeQueueNums"] == int(write_queue_nums)
            ),
            seconds=5,
            what=f"{write_queue_nums} write queues",
        )

    update("8")
    producer = lab.producer("producer", namesrv=[fleet.namesrv.address], topic=topic, version=version).ready()
    assert watched(fleet, topic)["present"]["number"] == 1
    # Before the change, so that the watch knows the producer's connection with the old route.
    wait_until(lambda: open_versions(watched(fleet, topic)) == [1], seconds=FETCHED_WITHIN_S, what="the old route")
    update("4")
    wait_until(lambda: open_versions(watched(fleet, topic)) == [2], seconds=FETCHED_WITHIN_S, what="the new route")
    assert watched(fleet, topic)["present"]["writeQueueNums"] == {"b550": 4}
    assert producer.failures() == []


def open_versions(answer):
    """Return the version that each open connection has; `Caller` closes its own after each request."""
    return [each["version"] for each in answer["fetches"] if each["closedForMs"] is None]
