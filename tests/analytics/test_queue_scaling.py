import shlex

import pytest
from hand_tables import DAY_US, HOUR_US, MINUTE_US, days, found, found_by_day, in_order, row, tables

from analytics.queue_scaling import JOB, QUEUE_TPS_TARGET

SETS = ("a", "b")


def queues(topics, count, *, at_us):
    """A snapshot in which these topics have so many queues on each of two sets."""
    name = f"snapshot-{at_us}"
    told = {"snapshot_id": name, "scope": "all", "cluster": None}
    values = {
        "broker_names": list(SETS),
        "topics": topics,
        "read": count,
        "write": count,
        "perm": 6,
        "topic_sys_flag": 0,
    }
    return [row("queues", at_us, **told, **values), row("finished", at_us, **told, rows=1)]


def known_sets():
    return [row("registered_first", 0, broker_name=name, broker_id=0, broker_addr=f"{name}:10911") for name in SETS]


def samples(topic, rates_by_day, *, consumers=2, lag=0, minutes=80):
    """Samples of a topic and its group; a day's rate is a number, or a function of the minute."""
    told = []
    for day, rate in enumerate(rates_by_day):
        for minute in range(minutes):
            # Spread over the day, so that a night is a night.
            at_us = day * DAY_US + minute * (DAY_US // minutes)
            tps = float(rate(minute / minutes * 24) if callable(rate) else rate)
            about = {"topic": topic, "max_offset": 1000, "tps": tps}
            told.append(row("sample", at_us, **about))
            told.append(row("sample", at_us, **about, group="g", consumer_offset=1000 - lag, consumers=consumers))
    return told


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
}


@pytest.fixture(scope="module")
def inputs(spark):
    names = [*CLASSES, "lagging", "many_consumers", "busy_twice"]
    told = [sample for name, rates in CLASSES.items() for sample in samples(name, rates)]
    told += samples("lagging", [10] * 7, lag=5)
    told += samples("many_consumers", [10] * 7, consumers=40)
    told += samples("busy_twice", [2 * rate for rate in CLASSES["growing"]])
    told += samples("short", [50_000] * 7, minutes=30)
    return tables(
        spark,
        offset_sample=told,
        route_snapshot=queues([*names, "short", "unsampled"], 8, at_us=6 * DAY_US + HOUR_US),
        broker_state=known_sets(),
    )


@pytest.fixture(scope="module")
def result(inputs):
    return found(JOB, inputs, days(7))


def topics(result):
    return {row["topic"]: row for row in result if row["kind"] == "topic"}


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
        ("lagging", "wait", 16),
        ("many_consumers", "grow", 40),
    ],
)
def test_each_class_of_topics_gets_what_it_needs(result, topic, verdict, proposed):
    found = topics(result)[topic]
    assert (found["verdict"], found["queues_proposed"]) == (verdict, proposed)


def test_topics_that_are_hardly_sampled_or_not_at_all_are_left_out(result):
    assert not {"short", "unsampled"} & {row["topic"] for row in result}


def test_twice_the_load_never_needs_fewer_queues(result):
    assert topics(result)["busy_twice"]["queues_proposed"] >= topics(result)["growing"]["queues_proposed"]


def test_proposals_tell_how_many_days_speak_for_them(result):
    assert topics(result)["growing"]["confidence"] == pytest.approx(3 / 7)
    assert "14000 messages a second at most on a day, 2 consumers; 3 of 7 days" in topics(result)["growing"]["reason"]
    assert "5 messages are not consumed yet" in topics(result)["lagging"]["reason"]


def test_a_topic_that_shrinks_stops_writing_before_it_stops_reading(result):
    idle = [row for row in result if row["kind"] == "proposal" and row["topic"] == "idle"]
    assert {row["broker_name"] for row in idle} == set(SETS)
    for proposal in idle:
        assert proposal["steps"] == ["update read=8 write=2", "drain", "update read=2 write=2"]
        assert shlex.split(proposal["commands"][0])[:6] == [
            "mqadmin",
            "updateTopic",
            "-n",
            "$NAMESRV_ADDR",
            "-b",
            f"{proposal['broker_name']}:10911",
        ]


def test_a_topic_that_grows_reads_before_it_writes(result):
    growing = [row for row in result if row["kind"] == "proposal" and row["topic"] == "growing"]
    assert [row["steps"] for row in growing] == [["update read=12 write=8", "update read=12 write=12"]] * 2


def test_the_run_after_a_proposal_was_applied_proposes_nothing(spark, inputs, result):
    told = [
        line
        for topic, row in topics(result).items()
        for line in queues([topic], row["queues_proposed"] // 2, at_us=6 * DAY_US + 2 * HOUR_US)
    ]
    whole = [line | {"snapshot_id": "after"} for line in told if line["event_type"] == "queues"]
    finished = [row("finished", 6 * DAY_US + 3 * HOUR_US, snapshot_id="after", scope="all", rows=len(whole))]
    applied = inputs | {"route_snapshot": tables(spark, route_snapshot=[*whole, *finished])["route_snapshot"]}
    again = topics(found(JOB, applied, days(7)))
    assert {topic: row["verdict"] for topic, row in again.items() if row["verdict"] not in ("keep", "wait")} == {}


def test_need_never_falls_when_load_rises(spark):
    rates = range(0, 40_000, 1_000)
    told = [sample for rate in rates for sample in samples(f"t{rate:05}", [rate] * 3, minutes=60)]
    snapshot = queues([f"t{rate:05}" for rate in rates], 8, at_us=2 * DAY_US)
    inputs = tables(spark, offset_sample=told, route_snapshot=snapshot, broker_state=known_sets())
    counts = [row["queues_proposed"] for _, row in sorted(topics(found(JOB, inputs, days(3))).items())]
    assert len(counts) == len(rates)
    assert counts == sorted(counts)
    assert counts[-1] == 39_000 // QUEUE_TPS_TARGET


def test_parts_of_days_give_what_parts_of_the_whole_span_give(spark):
    inputs = tables(
        spark,
        offset_sample=samples("growing", CLASSES["growing"][-3:], minutes=60),
        route_snapshot=queues(["growing"], 8, at_us=DAY_US + MINUTE_US),
        broker_state=known_sets(),
    )
    assert in_order(found_by_day(JOB, inputs, days(3))) == in_order(found(JOB, inputs, days(3)))
