"""By what the kinds of consumers are told apart, and where each kind's progress shows."""

import json

import pytest
from peers.jars import V5_5
from peers.waiting import wait_until

from scaling.sites import GET_ALL_CONSUMER_OFFSET, GET_ASSIGNMENT, GET_CONSUMERS, GET_CONSUMING_GROUPS, WITH_POP

pytestmark = pytest.mark.java

TOPIC = "Kinds"
QUEUES = 2


@pytest.fixture(scope="module")
def kinds(site):
    """By kind, the client id of a consumer that holds its queues and has committed; its group is the kind."""
    site.set_queues(TOPIC, read=QUEUES, write=QUEUES)
    ids, names = {}, ["push", "orderly", "lite", "broadcast", *([] if site.is_4_9 else ["pop"])]
    for kind in names:
        if kind == "pop":
            site.let_pop(TOPIC, kind)
        options = {"kind": kind, "group": kind, "from_": "FIRST_OFFSET", "persist_ms": 1000}
        ids[kind] = site.traffic.receive(f"kinds-{kind}", topic=TOPIC, **options)
    site.traffic.send("kinds", topic=TOPIC, interval_ms=20, count=40)
    site.traffic.finish("kinds")
    site.traffic.wait_until_consumed(names)
    yield ids
    for kind in names:
        site.traffic.stop(f"kinds-{kind}")


def test_connections_tell_pull_and_broadcasting_groups_from_others(site, kinds):
    seen = {}
    for kind in kinds:
        found = site.asked(GET_CONSUMERS, {"consumerGroup": kind})
        seen[kind] = (found["consumeType"], found["messageModel"], sorted(found["subscriptionTable"]))

    assert seen == {
        kind: expected
        for kind, expected in {
            "push": ("CONSUME_PASSIVELY", "CLUSTERING", ["%RETRY%push", TOPIC]),
            "orderly": ("CONSUME_PASSIVELY", "CLUSTERING", ["%RETRY%orderly", TOPIC]),
            "lite": ("CONSUME_ACTIVELY", "CLUSTERING", [TOPIC]),
            "broadcast": ("CONSUME_PASSIVELY", "BROADCASTING", [TOPIC]),
            "pop": ("CONSUME_PASSIVELY", "CLUSTERING", ["%RETRY%pop", TOPIC]),
        }.items()
        if kind in kinds
    }


def test_running_consumers_tell_orderly_ones(site, kinds):
    seen = {kind: _properties(site, kinds, kind).get("PROP_CONSUMEORDERLY") for kind in kinds}

    assert seen == {kind: {"orderly": "true", "lite": None}.get(kind, "false") for kind in kinds}


def test_locks_of_queues_do_not_tell_orderly_consumers(site, kinds):
    held = site.running("push", kinds["push"])["mqTable"]

    assert {each["locked"] for each in held.values()} == {True}


def test_running_consumers_show_their_queues(site, kinds):
    held = {kind: _queues(site.running(kind, client_id)["mqTable"]) for kind, client_id in kinds.items()}

    # One that pops has all queues of a broker set; those of a lite pull consumer are not shown before 5.x.
    nothing = {"pop"} | ({"lite"} if site.is_4_9 else set())
    assert held == {kind: [] if kind in nothing else list(range(QUEUES)) for kind in kinds}


@pytest.mark.parametrize("site", WITH_POP, indirect=True)
def test_popping_consumer_shows_all_queues_of_a_broker_set(site, kinds):
    popping = {kind: _queues(site.running(kind, client_id)["mqPopTable"]) for kind, client_id in kinds.items()}

    assert popping == {kind: [-1] if kind == "pop" else [] for kind in kinds}
    assert [kind for kind in kinds if _properties(site, kinds, kind).get("clientRebalance") == "false"] == ["pop"]
    assert [kind for kind in kinds if _mode(site, kinds, kind) == "POP"] == ["pop"]


def test_progress_shows_in_committed_offsets(site, kinds):
    def progress():
        return {kind: sum(_table(site).get(f"{TOPIC}@{kind}", {}).values()) for kind in kinds}

    expected = {kind: 0 if kind == "broadcast" else 40 for kind in kinds}
    wait_until(lambda: progress() == expected, seconds=30, what=lambda: f"{progress()} becomes {expected}")


def test_progress_of_broadcasting_groups_shows_under_a_key_of_their_own_on_5_x(site, kinds):
    key = f"{TOPIC}@broadcast@broadcast"
    if site.is_4_9:
        assert key not in _table(site)
        return

    # Its refresh is only as recent as the last pull before it.
    wait_until(lambda: sum(_table(site).get(key, {}).values()) == 40, seconds=60, what="all is pulled")


def test_positions_of_pulls_stand_in_a_table_of_their_own_on_5_5(site, kinds):
    pulled = site.asked(GET_ALL_CONSUMER_OFFSET).get("pullOffsetTable")

    assert (pulled is not None) == (site.version == V5_5)
    assert pulled is None or f"{TOPIC}@broadcast" in pulled


def test_groups_of_a_topic_are_listed_of_every_kind(site, kinds):
    listed = set(site.asked(GET_CONSUMING_GROUPS, {"topic": TOPIC})["groupList"])

    assert listed == set(kinds)


def _table(site):
    return site.asked(GET_ALL_CONSUMER_OFFSET)["offsetTable"]


def _properties(site, kinds, kind):
    return site.running(kind, kinds[kind])["properties"]


def _queues(table):
    return sorted(queue["queueId"] for queue in map(json.loads, table) if queue["topic"] == TOPIC)


def _mode(site, kinds, kind):
    body = {"clientId": kinds[kind], "consumerGroup": kind, "messageModel": "CLUSTERING", "strategyName": "AVG"}
    found = site.asked(GET_ASSIGNMENT, body=body | {"topic": TOPIC})
    return found["messageQueueAssignments"][0]["mode"]
