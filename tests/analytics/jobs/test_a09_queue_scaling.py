import shlex

import pytest
from hand_tables import DAY_US, HOUR_US, MINUTE_US, days, published, row, tables

from analytics.jobs.a09_queue_scaling import JOB, MINUTES_MIN

SETS = ("a", "b")
NOW_US = 6 * DAY_US + HOUR_US


def a_snapshot(counts, *, at_us, wiped=()):
    """A snapshot with these write queues, by topic and set; some of them without the permission to write."""
    reported = {"snapshot_id": f"snapshot-{at_us}", "scope": "all", "cluster": None}
    rows = []
    for topic, held in counts.items():
        for name, count in held.items():
            perm = 4 if (topic, name) in wiped else 6
            values = {"read": count, "write": count, "perm": perm, "topic_sys_flag": 0}
            rows.append(row("queues", at_us, broker_names=[name], topics=[topic], **reported, **values))
    return [*rows, row("finished", at_us, **reported, rows=len(rows))]


def known_sets():
    return [row("registered_first", 0, broker_name=name, broker_id=0, broker_addr=f"{name}:10911") for name in SETS]


def samples(topic, rates_by_day, *, consumers=2, lag=0, minutes=MINUTES_MIN):
    """Samples of a group of a topic; a day's rate is a number, or a function of the hour."""
    about = {"topic": topic, "max_offset": 1000, "group": "g", "consumer_offset": 1000 - lag, "consumers": consumers}
    reported = []
    for day, rate in enumerate(rates_by_day):
        for minute in range(minutes):
            # Spread over the day, so that a night is a night.
            at_us = day * DAY_US + minute * (DAY_US // minutes)
            tps = float(rate(minute / minutes * 24) if callable(rate) else rate)
            reported.append(row("sample", at_us, tps=tps, **about))
    return reported


def samples_of_today(topic, rate):
    """The first hours of the eighth day."""
    return [row("sample", 7 * DAY_US + minute * MINUTE_US, topic=topic, tps=rate) for minute in range(80)]


def night_batch(hour):
    return 7_000 if 1 <= hour < 4 else 10


def spike(hour):
    return 30_000 if 12 <= hour < 12.6 else 1_500


#: 16 queues each, which are enough for 8,000 messages a second.
CLASSES = {
    "steady": [7_000] * 7,
    "growing": [4_000, 6_000, 8_000, 10_000, 11_500, 13_000, 14_000],
    "idle": [10] * 7,
    "spiky": [spike] * 4 + [7_500] * 3,
    "night_batch": [night_batch] * 7,
    "twice_high": [7_500] * 5 + [14_000] * 2,
    "new": [20_000] * 2,
    "young": [10] * 6,
    "drained": [10] * 7,
    "ordered": [10] * 7,
    # 20 queues, and 44.
    "uneven": [10_000] * 7,
    "uneven_growing": [22_000] * 7,
}


#: Write queues as they are.
EVEN = dict.fromkeys(SETS, 8)
COUNTS = dict.fromkeys((*CLASSES, "lagging", "many_consumers", "busy_twice", "short", "unsampled"), EVEN) | {
    "uneven": {"a": 30, "b": 1},
    "uneven_growing": {"a": 30, "b": 2},
}
WIPED = {("drained", "b")}


@pytest.fixture(scope="module")
def parts(spark):
    """Made once: a week has samples of 72,000 minutes."""
    reported = [sample for name, rates in CLASSES.items() for sample in samples(name, rates)]
    reported += samples("lagging", [10] * 7, lag=5)
    reported += samples("many_consumers", [10] * 7, consumers=40)
    reported += samples("busy_twice", [2 * rate for rate in CLASSES["growing"]])
    reported += samples("short", [50_000] * 7, minutes=30)
    reported += samples_of_today("young", 10.0)
    inputs = tables(
        spark,
        offset_sample=reported,
        route_snapshot=a_snapshot(COUNTS, at_us=NOW_US, wiped=WIPED),
        route_change=[row("topic_changed", NOW_US, cluster=None, topic="ordered", kind="order", detail="a:8;b:8")],
        broker_state=known_sets(),
    )
    return JOB.parts(inputs, days(8)).localCheckpoint()


@pytest.fixture(scope="module")
def result(parts):
    return published(JOB, [parts], days(8))


def topics(result):
    return {row["topic"]: row for row in result if row["kind"] == "topic"}


def proposals(result, topic):
    """The proposals for a topic by set, in their order."""
    of_topic = [row for row in result if row["kind"] == "proposal" and row["topic"] == topic]
    return {row["broker_name"]: row for row in sorted(of_topic, key=lambda row: row["position"])}


@pytest.mark.broad
@pytest.mark.parametrize(
    ("topic", "verdict", "proposed"),
    [
        ("steady", "keep", 16),
        # The third of the last days needed 11,500 a second, 23 queues, 24 on two sets.
        ("growing", "grow", 24),
        ("idle", "shrink", 4),
        ("spiky", "keep", 16),
        ("night_batch", "keep", 16),
        ("twice_high", "keep", 16),
        ("new", "keep", 16),
        ("young", "keep", 16),
        ("lagging", "wait", 16),
        ("many_consumers", "grow", 40),
        ("drained", "shrink", 4),
        ("ordered", "keep", 16),
        ("uneven", "shrink", 20),
        ("uneven_growing", "grow", 44),
    ],
)
def test_each_class_of_topics_gets_what_it_needs(result, topic, verdict, proposed):
    found = topics(result)[topic]
    assert (found["verdict"], found["queues_proposed"]) == (verdict, proposed)


def test_topics_that_are_hardly_sampled_or_not_at_all_are_left_out(result):
    assert not {"short", "unsampled"} & {row["topic"] for row in result}


def test_the_first_hours_of_a_day_are_not_a_day_without_load(result):
    assert topics(result)["young"]["days"] == 6


def test_twice_the_load_never_needs_fewer_queues(result):
    assert topics(result)["busy_twice"]["queues_proposed"] >= topics(result)["growing"]["queues_proposed"]


def test_proposals_have_the_number_of_days_that_support_them(result):
    assert topics(result)["growing"]["confidence"] == pytest.approx(3 / 7)
    assert "14000 messages a second at most on a day, 2 consumers; 3 of 7 days" in topics(result)["growing"]["reason"]
    assert "5 messages are not consumed yet" in topics(result)["lagging"]["reason"]


def test_a_topic_that_shrinks_stops_writing_before_it_stops_reading(result):
    idle = proposals(result, "idle")
    assert set(idle) == set(SETS)
    for name, proposal in idle.items():
        assert proposal["steps"] == ["expect read=8 write=8", "update read=8 write=2", "drain", "update read=2 write=2"]
        asks, updates, drains, _ = map(shlex.split, proposal["commands"])
        assert asks == ["mqadmin", "topicRoute", "-n", "$NAMESRV_ADDR", "-t", "idle"]
        assert updates[:6] == ["mqadmin", "updateTopic", "-n", "$NAMESRV_ADDR", "-b", f"{name}:10911"]
        assert drains == ["mqadmin", "consumerProgress", "-n", "$NAMESRV_ADDR", "-g", "g"]


def test_a_topic_that_grows_reads_before_it_writes(result):
    steps = ["expect read=8 write=8", "update read=12 write=8", "update read=12 write=12"]
    assert [row["steps"] for row in proposals(result, "growing").values()] == [steps] * 2


def test_a_topic_that_shrinks_is_even_afterwards_and_gets_queues_before_it_loses_some(result):
    uneven = proposals(result, "uneven")
    assert [(name, row["write_now"], row["write_proposed"]) for name, row in uneven.items()] == [
        ("b", 1, 10),
        ("a", 30, 10),
    ]


def test_a_topic_that_grows_loses_nothing_and_gets_no_more_than_it_needs(result):
    assert {name: row["write_proposed"] for name, row in proposals(result, "uneven_growing").items()} == {"b": 14}


def test_a_set_without_write_permission_is_left_alone(result):
    assert {name: row["write_proposed"] for name, row in proposals(result, "drained").items()} == {"a": 4}


def test_ordered_topic_gets_no_proposal_and_a_reason(result):
    assert proposals(result, "ordered") == {}
    assert topics(result)["ordered"]["reason"].endswith("it has an order or is static, so it is left alone")


@pytest.mark.broad
def test_the_run_after_a_proposal_was_applied_proposes_nothing(spark, parts, result):
    applied = {topic: dict(held) for topic, held in COUNTS.items()}
    for proposal in result:
        if proposal["kind"] == "proposal":
            applied[proposal["topic"]][proposal["broker_name"]] = proposal["write_proposed"]
    written = {
        topic: sum(n for name, n in held.items() if (topic, name) not in WIPED) for topic, held in applied.items()
    }
    reported = topics(result)
    assert {topic: written[topic] for topic in reported} == {
        topic: row["queues_proposed"] for topic, row in reported.items()
    }
    after = tables(spark, route_snapshot=a_snapshot(applied, at_us=NOW_US + HOUR_US, wiped=WIPED))
    again = topics(published(JOB, [parts, JOB.parts(after, days(8))], days(8)))
    assert len(again) == len(reported)
    assert {topic: row["verdict"] for topic, row in again.items() if row["verdict"] not in ("keep", "wait")} == {}
