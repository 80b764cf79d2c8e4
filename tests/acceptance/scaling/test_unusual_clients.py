"""What shows less than others: transactions in RocksDB, queues that applications choose, topics of special types."""

import pytest
from peers.jars import V5_5
from peers.waiting import wait_until
from resize_site import described, phases_of

pytestmark = [pytest.mark.java, pytest.mark.soak]

ROCKSDB = {"transRocksDBEnable": True, "transWriteOriginTransHalfEnable": False}
#: A broker gives up a transaction after 1 + (15 + 1) * 2 s.
CHECKS = {"transactionTimeOut": 1000, "transactionCheckMax": 15, "transactionCheckInterval": 2000}
GIVEN_UP_MS = 33_000
#: Longer than a shrink takes that waits for no transaction.
UNDECIDED_MS = 25_000


def only_of_5_5(site):
    if site.version != V5_5:
        pytest.skip("of 5.5")


def test_shrink_waits_for_transactions_in_rocksdb_for_as_long_as_the_broker_checks_them(site):
    only_of_5_5(site)
    topic, name, traffic = "Transactions", "broker-rocksdb", site.traffic
    site.start_other_broker(name, **ROCKSDB, **CHECKS)
    site.make_topic(topic, 8, brokers=[name])
    group = site.consume(topic, "push", from_="FIRST_OFFSET")
    traffic.send(topic, topic=topic, kind="transaction", count=8, undecided_ms=UNDECIDED_MS)
    traffic.wait_for_acknowledged(8, producer=topic)

    operation_id = site.start(topic, 4, waits={"transactionMs": 1000})
    late = site.wait_for_waiting(operation_id, "LATE")
    operation = site.wait_until_done(operation_id)
    traffic.wait_until_consumed([group])
    traffic.finish(topic)

    assert "8 transactional messages in RocksDB, decided or not" in late["waitsFor"][0]
    (step,) = [each for each in operation["steps"] if each["phase"] == "LATE"]
    assert step["endedUnixMs"] - step["beganUnixMs"] >= GIVEN_UP_MS
    assert (operation["reopened"], site.counts(topic, name)) == (0, {name: (4, 4)})
    assert traffic.verdict([group])[group].missing == ()


def kinds(site, topic):
    """Return the kinds of the groups of a topic, as a plan names them."""
    status, plan = site.call("POST", "plan", {"topic": topic, "queues": 8})
    assert status == 200, plan
    return {each["group"]: each["kind"] for each in plan["groups"]}


def choosing(site, topic, **options):
    """Return a group whose only member is assigned the four queues of each broker, and has committed."""
    topic = site.make_topic(topic, 4)
    group = site.consume(topic, "assign", from_="FIRST_OFFSET", **options)
    site.traffic.send(topic, topic=topic, interval_ms=20)
    site.traffic.wait_for_acknowledged(50, producer=topic)
    site.traffic.wait_until_consumed([group])
    # A client stores its first offsets 10 s after its start; until then nothing shows that it consumes the topic.
    wait_until(lambda: kinds(site, topic) == {group: "assigned"}, seconds=30, what=lambda: kinds(site, topic))
    return group


def everything_is_consumed(site, topic, group):
    site.traffic.wait_for_acknowledged(50, producer=topic).stop(topic)
    site.traffic.wait_until_consumed([group])
    return site.traffic.verdict([group])[group].missing == ()


def test_grow_is_undone_if_a_group_does_not_choose_the_new_queues(site):
    topic = "Kept"
    group = choosing(site, topic)

    status, body = site.request(topic, 8, waits={"assignMs": 5000})
    if site.is_4_9:
        assert (status, "does not show when it reads new ones" in body["error"]["message"]) == (422, True)
    else:
        operation = site.wait_for_phase(body["id"], "ABORTED")
        assert f"no member of group {group}, which chooses its queues itself, consumes" in operation["problem"]

    assert site.is_everywhere(topic, 4)
    assert everything_is_consumed(site, topic, group)


def test_topic_is_grown_and_shrunk_under_a_group_that_chooses_all_of_its_queues(site):
    topic = "Followed"
    group = choosing(site, topic, follows="true")
    options = {"ignoreUnassigned": site.is_4_9}

    grown = site.wait_until_done(site.start(topic, 8, options=options))
    shrunk = site.wait_until_done(site.start(topic, 4))

    assert "ASSIGN" in phases_of(grown), described(grown)
    assert shrunk["reopened"] == 0, described(shrunk)
    assert site.is_everywhere(topic, 4)
    assert everything_is_consumed(site, topic, group)


@pytest.mark.parametrize(
    ("attribute", "sentence"),
    [
        ("message.type=PRIORITY", "has message.type PRIORITY: each queue is a priority"),
        ("message.type=LITE", "has message.type LITE: brokers place lite topics by its queues"),
        ("cleanup.policy=COMPACTION", "is an ordered topic (order flag, message type, compaction)"),
    ],
)
def test_topic_whose_queues_have_a_meaning_by_its_attributes_is_refused(site, attribute, sentence):
    only_of_5_5(site)
    topic = site.make_topic(attribute.partition("=")[2].title(), 4, attributes=f"+{attribute}")

    status, body = site.request(topic, 8)

    assert (status, sentence in body["error"]["message"]) == (422, True), body
    assert site.is_everywhere(topic, 4)
