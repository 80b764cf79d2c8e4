"""A7: topics that are altered again and again, against planted churners."""

from dataclasses import replace

import pytest
from hand_tables import HOUR_US, MINUTE_US, SECOND_US, days, found, row, tables
from synthetic.frames import frames
from synthetic.generator import generate
from synthetic.plan import HOUR, MINUTE, MONDAY, BrokerKey, Downtime, Outage, Plan, Plant, Topic, brokers, three_servers
from synthetic.plants import churner

from analytics.jobs.a07_route_churn import JOB
from analytics.shared.job import Span

SETS = tuple(broker.key.broker_name for broker in brokers(3))


@pytest.fixture(scope="module")
def history():
    servers = list(three_servers())
    # Sees only a part of what happens, and learns all topics anew.
    servers[1] = replace(servers[1], downtimes=(Downtime(MONDAY + 2 * HOUR, MONDAY + 3 * HOUR),))
    topics = tuple(Topic(name, SETS) for name in ("busy", "less", "calm"))
    plan = Plan(end_us=MONDAY + 5 * HOUR, brokers=brokers(3), servers=tuple(servers))
    return generate(
        plan.with_plants(
            Plant(topics=topics),
            churner("busy", "broker-000", MONDAY + HOUR + MINUTE, every_us=4 * MINUTE, changes=40),
            churner("busy", "broker-001", MONDAY + HOUR + MINUTE, every_us=2 * HOUR, changes=2),
            churner("less", "broker-001", MONDAY + HOUR + MINUTE, every_us=10 * MINUTE, changes=7),
            Plant(outages=(Outage(BrokerKey("broker-002"), MONDAY + HOUR, MONDAY + HOUR + 10 * MINUTE),)),
        )
    )


@pytest.fixture(scope="module")
def result(spark, history):
    rows = found(JOB, frames(spark, history.rows), Span(MONDAY, MONDAY + 5 * HOUR))
    return sorted(rows, key=lambda row: -row["changes"])


def test_planted_churners_are_the_top_ones_with_exact_counts(history, result):
    # Each topic left with a set that crashed, and came back with it: a change, and one back.
    reported = [(each["topic"], each["changes"], each["flips"], each["queues"], each["brokers"]) for each in result]
    assert reported == [("busy", 44, 40, 42, 3), ("less", 9, 7, 7, 2), ("calm", 2, 1, 0, 1)]
    planted = {}
    for each in history.truth.planted["churners"]:
        planted[each.topic] = planted.get(each.topic, 0) + each.changes
    assert {each["topic"]: each["queues"] for each in result if each["queues"]} == planted


def test_changes_are_counted_by_kind(result):
    for each in result:
        assert (each["added"], each["removed"], each["perm"], each["other"]) == (1, 1, 0, 0)
        assert each["changes"] == each["added"] + each["removed"] + each["queues"]


def test_result_has_the_busiest_hour(result):
    assert result[0]["busiest_hour"].timestamp() * 1e6 == MONDAY + HOUR
    # Fifteen of one churner, the first one of the other, and the set that came and went.
    assert result[0]["busiest_hour_changes"] == 18


def test_each_change_brings_at_most_one_query_of_each_connection(result):
    # Six connections at each of three servers, one of which was away for a while.
    assert 44 * 6 * 2 <= result[0]["fetches_max"] <= 44 * 6 * 3


def a_change(at_us, old, new, **values):
    queues = {"old_read": old, "old_write": old, "new_read": new, "new_write": new, "old_perm": 6, "new_perm": 6}
    return row(
        "topic_changed",
        at_us,
        **{"mono_us": at_us, "topic": "t", "broker_name": "b", "kind": "queues", **queues, **values},
    )


@pytest.fixture(scope="module")
def by_hand(spark):
    changes = [
        # To and fro, then on, then back after more than an hour.
        a_change(10 * HOUR_US, 8, 16),
        a_change(10 * HOUR_US + MINUTE_US, 16, 8),
        a_change(10 * HOUR_US + 2 * MINUTE_US, 8, 4),
        a_change(11 * HOUR_US + 3 * MINUTE_US, 4, 8),
        # The same on two sets is no flip.
        a_change(10 * HOUR_US, 8, 16, topic="two", broker_name="b"),
        a_change(10 * HOUR_US + SECOND_US, 16, 8, topic="two", broker_name="c"),
        # The mapping of a static topic: the queues stay.
        a_change(10 * HOUR_US, 8, 8, topic="static", kind="mapping"),
        a_change(10 * HOUR_US + SECOND_US, 8, 8, topic="static", kind="mapping"),
        # How things stand, in each snapshot; and what a server is told right after its start.
        *(
            row("snapshot", at_us, mono_us=at_us, topic="static", kind="mapping", broker_name="b", cluster=None)
            for at_us in range(0, 24 * HOUR_US, HOUR_US)
        ),
        *(row("snapshot", at_us, mono_us=at_us, topic="ordered", kind="order") for at_us in (0, HOUR_US)),
        a_change(20 * HOUR_US + SECOND_US, 8, 8, topic="static", kind="mapping"),
        a_change(20 * HOUR_US + SECOND_US, None, 8, topic="static", kind="added"),
        row("topic_changed", 20 * HOUR_US + SECOND_US, mono_us=1, topic="ordered", kind="order"),
        # That is all that it had to learn of this set.
        a_change(20 * HOUR_US + 2 * SECOND_US, None, 8, topic="created", kind="added", cause_event_id="hand"),
        # One server was away while the topic was altered on one set, the other one while it was on the other.
        *(
            a_change(
                15 * HOUR_US + number * SECOND_US, number, number + 1, topic="spread", broker_name=name, ns_id=ns_id
            )
            for name, ns_id, count in (("b", "ns-1", 2), ("c", "ns-1", 1), ("b", "ns-2", 1), ("c", "ns-2", 3))
            for number in range(count)
        ),
        # Another cluster has a topic of the same name.
        a_change(10 * HOUR_US, 8, 16, cluster="other"),
        # A change of yesterday, and one back today.
        a_change(-MINUTE_US, 8, 16, topic="midnight"),
        a_change(MINUTE_US, 16, 8, topic="midnight"),
        row("summary", 10 * HOUR_US, mono_us=1, broker_name="b", changes=5_000),
    ]
    lives = [row("started", 20 * HOUR_US, mono_us=0), row("started", 10 * HOUR_US, mono_us=0, source="controller")]
    inputs = tables(spark, route_change=changes, ns_lifecycle=lives)
    return {(each["cluster"], each["topic"]): each for each in found(JOB, inputs, days(1))}


@pytest.mark.parametrize(
    ("topic", "changes", "flips"), [("t", 4, 1), ("two", 2, 0), ("static", 2, 0), ("midnight", 1, 1)]
)
def test_a_flip_goes_back_to_what_was_before_within_an_hour(by_hand, topic, changes, flips):
    assert (by_hand["c", topic]["changes"], by_hand["c", topic]["flips"]) == (changes, flips)


def test_topics_are_distinguished_by_cluster_and_kind(by_hand):
    assert by_hand["other", "t"]["changes"] == 1
    assert by_hand["c", "static"]["other"] == 2


def test_what_is_shown_in_snapshots_and_learned_at_a_start_is_no_change(by_hand):
    assert [key for key in by_hand if key[1] == "ordered"] == []
    assert by_hand["c", "static"]["changes"] == 2
    assert (None, "static") not in by_hand


def test_changes_of_many_topics_at_once_stand_in_a_row_of_their_own(by_hand):
    assert (by_hand["c", None]["changes"], by_hand["c", None]["brokers"]) == (5_000, 1)


def test_what_is_created_right_after_a_start_is_a_change(by_hand):
    assert (by_hand["c", "created"]["changes"], by_hand["c", "created"]["added"]) == (1, 1)


def test_of_each_set_the_server_counts_that_saw_most(by_hand):
    spread = by_hand["c", "spread"]
    assert (spread["changes"], spread["brokers"], spread["busiest_hour_changes"]) == (5, 2, 5)
