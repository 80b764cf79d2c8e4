"""What is in the way of a resize: producers with an old route, absent groups, other hands, what is gone."""

import contextlib
import shutil

import pytest
from peers.etcd import Way
from peers.jars import V4_9
from peers.waiting import holds_for, wait_until
from resize_site import described, evidence_of, phases_of

pytestmark = [pytest.mark.java, pytest.mark.soak]

#: What a broker answers to a send beyond its queues: SYSTEM_ERROR, and INVALID_PARAMETER from 5.3.2 on.
REFUSED_SENDS = {"1", "29"}


@contextlib.contextmanager
def ways(site):
    """Ways to all NameServers; one that is held cuts its users off from new routes."""
    made = [Way(each.address) for each in site.namesrvs]
    try:
        yield made
    finally:
        for each in made:
            each.close()


def send_with_old_route(site, name, topic, its_ways, **options):
    """Start a producer that will not see any new route."""
    site.traffic.send(name, topic=topic, namesrv=[each.endpoint for each in its_ways], **options)
    site.traffic.wait_for_acknowledged(1, producer=name)
    for each in its_ways:
        each.hold()


def test_sends_with_an_old_route_are_drained_or_refused(site):
    """Nothing of a producer that is cut off from NameServers is accepted and left unread, whenever it sends."""
    topic, traffic = site.make_topic("Stale", 4), site.traffic
    # The shrink waits for what a lite pull consumer processes, so that messages can come before it ends to drain.
    groups = [site.consume(topic, kind, from_="FIRST_OFFSET") for kind in ("push", "lite")]
    with ways(site) as its_ways:
        send_with_old_route(site, "stale", topic, its_ways, interval_ms=20)
        operation_id = site.start(topic, 2, waits={"processMs": 5000})
        site.wait_for_phase(operation_id, "QUIESCE")
        traffic.wait_for_acknowledged(50, producer="stale").stop("stale")

    def send_to_dropped(phase, count):
        """Send as a producer does that has the old route; the broker decides what becomes of it."""
        site.wait_for_phase(operation_id, phase, "DONE")
        name = f"stale-{phase}"
        traffic.send(name, topic=topic, queue=3, broker="broker-a", count=count, interval_ms=5, retries=0)
        traffic.finish(name)
        return name

    for phase in ("DRAIN", "CONFIRM", "READ_DOWN"):
        send_to_dropped(phase, 100)
    last = send_to_dropped("WATCH", 3)
    operation = site.wait_until_done(operation_id)
    traffic.wait_until_consumed(groups)

    refused = [each for each in traffic.read().unacknowledged if each.producer.startswith("stale")]
    assert {each.code for each in refused} <= REFUSED_SENDS
    assert len([each for each in refused if each.producer == last]) == 3
    assert phases_of(operation).count("QUIESCE") > 1, described(operation)
    assert site.is_everywhere(topic, 2)
    for group in groups:
        assert traffic.verdict([group])[group].missing == ()


def test_shrink_is_blocked_by_a_busy_producer_with_an_old_route_until_it_has_the_new_one(site):
    topic, traffic = site.make_topic("Busy", 4), site.traffic
    group = site.consume(topic, "push", from_="FIRST_OFFSET")
    with ways(site) as its_ways:
        send_with_old_route(site, "busy", topic, its_ways, interval_ms=50)
        operation_id = site.start(topic, 2, waits={"quiesceMs": 5000})
        blocked = site.wait_for_phase(operation_id, "BLOCKED")
        for each in its_ways:
            each.let_go()
        operation = site.wait_until_done_after_block(operation_id)
    traffic.stop("busy")
    traffic.wait_until_consumed([group])

    assert blocked["resumePhase"] == "QUIESCE"
    assert blocked["problem"].startswith("producers still send to the queues")
    assert operation["reopened"] == 0
    assert traffic.verdict([group])[group].missing == ()


def lagging(site, topic):
    """Return a shrink that drains queues with messages for a group that has left, and the group."""
    group = site.consume(topic, "push", from_="FIRST_OFFSET")
    fill(site, topic, f"{topic}-before")
    site.traffic.wait_until_consumed([group])
    operation_id = site.start(topic, 4)
    site.wait_for_phase(operation_id, "QUIESCE")
    site.traffic.stop(f"{group}-0")
    fill(site, topic, f"{topic}-after")
    return operation_id, group


def fill(site, topic, name):
    """Send ten messages to queue 7 of broker-a, which takes them whatever the route shows."""
    site.traffic.send(name, topic=topic, queue=7, broker="broker-a", count=10)
    site.traffic.finish(name)


def test_shrink_is_blocked_by_a_group_that_has_left_with_its_name_and_range_until_it_returns(site):
    topic = site.make_topic("Left", 8)
    operation_id, group = lagging(site, topic)

    blocked = site.wait_for_phase(operation_id, "BLOCKED")
    site.consume(topic, "push", from_="FIRST_OFFSET")
    operation = site.wait_until_done_after_block(operation_id)

    assert blocked["resumePhase"] == "DRAIN"
    assert f"nobody of {group} is connected" in blocked["problem"]
    assert f"group {group}, queue broker-a/7: 10 messages are not consumed (10 of 20)" in blocked["problem"]
    site.traffic.wait_until_consumed([group], seconds=1)
    assert site.is_everywhere(topic, 4), described(operation)


def test_group_that_has_left_is_waived_and_what_it_loses_is_recorded(site):
    topic = site.make_topic("Waived", 8)
    operation_id, group = lagging(site, topic)
    site.wait_for_phase(operation_id, "BLOCKED")

    status, body = site.command(operation_id, "waive", {"group": group})
    operation = site.wait_until_done_after_block(operation_id)

    assert status == 200, body
    recorded = [each for each in evidence_of(operation, "DRAIN") if group in each]
    assert any("(10 to 20)" in each for each in recorded), operation["steps"]
    assert site.is_everywhere(topic, 4)


def test_shrink_is_refused_while_a_group_is_offline_with_lag(site):
    topic, traffic = site.make_topic("Offline", 8), site.traffic
    group = site.consume(topic, "push", from_="FIRST_OFFSET")
    fill(site, topic, "offline-before")
    traffic.wait_until_consumed([group])
    traffic.stop(f"{group}-0")
    fill(site, topic, "offline-after")

    status, body = site.request(topic, 4)

    assert status == 422
    assert f"roup {group} is offline and has 10 messages to consume from the queues" in body["error"]["message"]
    operation = site.wait_until_done(site.start(topic, 4, options={"waivedGroups": [group]}))
    assert site.is_everywhere(topic, 4), described(operation)


@pytest.mark.parametrize("command", ["abort", "resume"])
def test_manual_change_stops_a_shrink_and_is_not_overwritten(site, command):
    topic = site.make_topic(f"Conflict-{command}", 8)
    site.traffic.send(f"conflict-{command}", topic=topic, interval_ms=50)
    operation_id = site.start(topic, 4)
    site.wait_for_phase(operation_id, "QUIESCE")
    site.set_counts(topic, "broker-a", read=6, write=6)

    conflict = site.wait_for_phase(operation_id, "CONFLICT")
    counts = {"broker-a": (6, 6), "broker-b": (8, 4)}
    holds_for(lambda: site.counts(topic) == counts, seconds=3, what="nothing is overwritten")

    assert "broker-a shows read 6, write 6, perm 6" in conflict["problem"]
    assert "somebody else has changed it" in conflict["problem"]
    if command == "abort":
        assert site.command(operation_id, "abort", {"reason": "by hand"})[0] == 200
        site.wait_for_phase(operation_id, "ABORTED")
        assert site.counts(topic) == counts
    else:
        # A resume finds the same conflict until somebody gives the broker numbers that the resize knows.
        assert site.command(operation_id, "resume")[0] == 200
        site.wait_for_phase(operation_id, "CONFLICT")
        site.set_counts(topic, "broker-a", read=8, write=8)
        assert site.command(operation_id, "resume")[0] == 200
        site.wait_until_done_after_block(operation_id)
        assert site.is_everywhere(topic, 4)
    site.traffic.stop(f"conflict-{command}")


def test_manual_change_stops_a_grow_and_is_not_overwritten(site):
    topic = site.make_topic("ConflictGrow", 4)
    operation_id = site.start(topic, 8, waits={"grownWatchMs": 60_000})
    site.wait_for_phase(operation_id, "VERIFY")
    site.set_counts(topic, "broker-b", read=9, write=4)

    site.wait_for_phase(operation_id, "CONFLICT")

    counts = {"broker-a": (8, 8), "broker-b": (9, 4)}
    holds_for(lambda: site.counts(topic) == counts, seconds=3, what="nothing is overwritten")


def test_abort_of_a_grow_that_is_in_use_stays_the_record_of_a_grow(site):
    topic = site.make_topic("AbortedGrow", 4)
    operation_id = site.start(topic, 8, waits={"grownWatchMs": 60_000})
    site.wait_for_phase(operation_id, "VERIFY")

    assert site.command(operation_id, "abort", {"reason": "not today"})[0] == 200
    operation = site.wait_for_phase(operation_id, "ABORTED")

    assert site.is_everywhere(topic, 4), described(operation)
    assert {"WRITE_DOWN", "DRAIN", "READ_DOWN"} <= set(phases_of(operation))
    assert (operation["kind"], operation["reason"], operation["isUndone"]) == ("grow", "test", True)
    assert {(each["readBefore"], each["target"]) for each in operation["sets"]} == {(4, 8)}
    assert operation["problem"] == "aborted by the operator: not today"


def test_abort_of_a_shrink_gives_back_the_queues(site):
    topic, traffic = site.make_topic("Aborted", 8), site.traffic
    group = site.consume(topic, "push", from_="FIRST_OFFSET")
    traffic.send("aborted", topic=topic, interval_ms=20)
    traffic.wait_for_acknowledged(50, producer="aborted")
    operation_id = site.start(topic, 4, waits={"watchMs": 60_000})
    site.wait_for_phase(operation_id, "WATCH")

    assert site.command(operation_id, "abort", {"reason": "not today"})[0] == 200
    operation = site.wait_for_phase(operation_id, "ABORTED")
    traffic.wait_for_acknowledged(50, producer="aborted")
    traffic.stop("aborted")
    traffic.wait_until_consumed([group])

    assert site.is_everywhere(topic, 8), described(operation)
    assert operation["problem"] == "aborted by the operator: not today"
    assert traffic.verdict([group])[group].missing == ()


def test_set_that_registers_during_an_ordered_pause_gets_no_message_and_the_resize_is_undone(site):
    """With clients of the site's release and old ones, by an `orderTopicConf`."""
    topic, conf = site.make_topic("Beside", 4), "broker-a:4;broker-b:4"
    site.put_order_conf(topic, conf)
    site.start_other_broker("broker-c")
    old = site.lab.traffic("traffic-old", namesrv=site.namesrv_addresses, version=V4_9)
    group = site.consume(topic, "orderly", from_="FIRST_OFFSET")
    senders = {"beside-new": site.traffic, "beside-old": old}
    for name, clients in senders.items():
        clients.send(name, topic=topic, interval_ms=10, keys=20)
        clients.wait_for_acknowledged(100, producer=name)

    # A whole resize: sends fail, and go on with the new numbers.
    operation_id = site.start(topic, 6, ordered="pause")
    site.wait_for_phase(operation_id, "QUIESCE")
    assert site.order_confs(topic) == ["broker-a:0;broker-b:0"] * 2
    site.wait_until_done(operation_id)
    assert site.order_confs(topic) == ["broker-a:6;broker-b:6"] * 2
    assert all(refused_for_a_route(clients, name) for name, clients in senders.items())

    # Another one, during which a third set registers with the topic. Its producers have had no queue for some polls.
    operation_id = site.start(topic, 8, ordered="pause", waits={"producersMs": 20_000})
    site.wait_for_phase(operation_id, "QUIESCE")
    failed = {name: refused_for_a_route(clients, name) for name, clients in senders.items()}
    wait_until(
        lambda: all(refused_for_a_route(clients, name) > failed[name] + 100 for name, clients in senders.items()),
        seconds=15,
        what="producers have no queue",
    )
    site.set_counts(topic, "broker-c", read=8, write=8)
    operation = site.wait_for_phase(operation_id, "ABORTED")
    for name, clients in senders.items():
        clients.wait_for_acknowledged(200, producer=name, seconds=30)
        clients.stop(name)
    site.traffic.wait_until_consumed([group])

    assert "broker-c takes writes of Beside and is not part of this resize" in operation["problem"]
    assert site.order_confs(topic) == ["broker-a:6;broker-b:6"] * 2
    assert set(site.ends(topic, range(8), "broker-c").values()) == {0}
    delivered = site.traffic.verdict([group])[group]
    assert (delivered.missing, delivered.inversions) == ((), ())


def refused_for_a_route(clients, producer):
    """Return how many sends of a producer have failed because it had no queue."""
    failed = (each for each in clients.read().unacknowledged if each.producer == producer)
    return sum("No route info" in each.reason for each in failed)


def test_topic_that_is_deleted_ends_its_resize(site):
    """In a phase that waits, in a conflict, and while the resize is being undone."""
    topics = [site.make_topic(f"Deleted-{each}", 8) for each in ("waits", "conflict", "undone")]
    resizes = [site.start(each, 4, waits={"producersMs": 60_000}) for each in topics]
    for each in resizes:
        site.wait_for_phase(each, "QUIESCE")
    site.set_counts(topics[1], "broker-a", read=6, write=6)
    site.wait_for_phase(resizes[1], "CONFLICT")

    mqadmin = site.lab.mqadmin(version=site.version)
    for each in topics:
        printed = mqadmin.run("deleteTopic", "-c", "DefaultCluster", "-t", each, namesrv=site.namesrv_addresses)
        assert "success" in printed
    site.command(resizes[2], "abort", {"reason": "nobody needs it"})

    for each in resizes:
        operation = site.wait_until_aborted(each)
        assert operation["problem"] == "the topic was deleted", described(operation)


def test_resize_goes_on_without_a_set_that_was_replaced_by_an_empty_one(site):
    replaced = site.start_other_broker("broker-x")
    topic = site.make_topic("Replaced", 4, brokers=["broker-a", "broker-x"])
    operation_id = site.start(topic, 8, waits={"grownWatchMs": 20_000})
    site.wait_for_phase(operation_id, "VERIFY")
    body = {"brokerName": "broker-x", "requestedBy": "ann", "reason": "a new machine"}
    refused, answer = site.command(operation_id, "give-up", body)

    replaced.process.kill()
    shutil.rmtree(replaced.store)
    site.wait_until_ready(replaced.start())
    wait_until(lambda: "broker-x" in str(site.operation(operation_id)["waitsFor"]), seconds=60, what="it is missed")
    status, _ = site.command(operation_id, "give-up", body)
    operation = site.wait_until_done(operation_id)

    assert (refused, status) == (409, 200)
    assert f"broker-x has {topic} at {replaced.address}" in answer["error"]["message"]
    assert "broker-x was given up by ann: a new machine" in evidence_of(operation, "VERIFY")
    assert site.counts(topic, "broker-a", "broker-x") == {"broker-a": (8, 8)}
