"""The autoscaler with real brokers: it grows where queues are missing, and says why it does not elsewhere."""

import re

import pytest
from peers.waiting import wait_until
from resize_site import ScalingClient

#: A consumer works on 20 messages at a time, one second each: 20 messages a second.
WORK_MS = 1000
#: A hundred messages a second: more than four consumers manage, and less than eight.
SEND_MS = 10
#: From the first finding to the resize: three looks, and a minute until clients are known again.
DECIDED_S = 150
#: A grow is watched for five minutes after its end, and nothing shortens that here.
GROWN_S = 600

pytestmark = [pytest.mark.java, pytest.mark.soak, pytest.mark.timeout(1500)]


def watched(site, topic, mode):
    """Start a controller whose autoscaler looks at one topic each 5 s, and return an operator's client of it."""
    client = ScalingClient(site.new_controller(f"autoscaler-{topic}", scalingIntervalMs=5000)).ready()
    policy = {"topic": topic, "min": 2, "max": 8, "window": "15s", "behind": "2s", "cooldown": "1m", "mode": mode}
    status, body = client.call("PUT", "policies", {"policy": [policy]})
    assert status == 200, body
    return client


def decision(client, topic):
    status, body = client.call("GET", f"decisions?prefix={topic}")
    assert status == 200, body
    return body["decisions"][0] if body["decisions"] else None


def lag(client, topic):
    return (decision(client, topic) or {}).get("lag")


def operations(client):
    return client.call("GET", "operations")[1]["operations"]


def test_topic_whose_consumers_find_no_queue_grows_once_and_its_lag_shrinks(site):
    topic = site.make_topic("ramp", 2)
    group = site.consume(topic, "push", work_ms=WORK_MS, clients=4, from_="FIRST_OFFSET")
    client = watched(site, topic, "auto")
    site.traffic.send("ramp-producer", topic=topic, interval_ms=SEND_MS)
    for number in range(4, 8):
        named = {"topic": topic, "group": group, "kind": "push", "persist_ms": 500, "work_ms": WORK_MS}
        site.traffic.receive(f"{group}-{number}", **named)
    (operation,) = wait_until(
        lambda: operations(client), seconds=DECIDED_S, what=lambda: f"a resize, not {decision(client, topic)}"
    )
    assert (operation["requestedBy"], operation["kind"]) == ("autoscaler", "grow")
    assert "8 consumers, 4 queues: 4 have none" in operation["reason"]
    wait_until(lambda: site.is_everywhere(topic, 4), seconds=120, what="four queues on each broker")
    begun = int(re.search(r"lag is (\d+) messages", operation["reason"])[1])
    wait_until(lambda: (lag(client, topic) or begun) < begun, seconds=120, what=lambda: f"a lag below {begun}")
    client.wait_until_done(operation["id"], seconds=GROWN_S)
    assert [each["id"] for each in operations(client)] == [operation["id"]]
    assert decision(client, topic)["outcome"] == "kept"


def test_slow_listeners_with_free_queues_are_named_and_nothing_is_resized(site):
    topic = site.make_topic("slow", 2)
    site.consume(topic, "push", work_ms=WORK_MS, clients=2, from_="FIRST_OFFSET")
    client = watched(site, topic, "auto")
    site.traffic.send("slow-producer", topic=topic, interval_ms=SEND_MS)

    def named():
        found = decision(client, topic)
        return found if found and [each["kind"] for each in found["findings"]] == ["slow_listener"] else None

    found = wait_until(named, seconds=DECIDED_S, what=lambda: f"slow_listener, not {decision(client, topic)}")
    assert (found["outcome"], found["target"], found["findings"][0]["effect"]) == ("kept", None, "queues do not help")
    assert "2 consumers, 4 queues: each consumer has a queue" in found["reason"]
    assert operations(client) == []
