import shlex

import pytest
from hand_tables import DAY_US, HOUR_US, days, found, found_by_day, in_order, row, tables

from analytics.queue_balance import JOB


def a_snapshot(at_us, *groups, ns="ns-1", rows=None, **more):
    """Rows of one snapshot: groups of (sets, topics, queues)."""
    name = f"{ns}-{at_us}"
    told = [
        row(
            "queues",
            at_us,
            ns_id=ns,
            cluster=None,
            snapshot_id=name,
            scope="all",
            broker_names=list(sets),
            topics=list(topics),
            **{"read": queues, "write": queues, "perm": 6, "topic_sys_flag": 0, **more},
        )
        for sets, topics, queues in groups
    ]
    count = len(told) if rows is None else rows
    return [*told, row("finished", at_us + 1_000_000, ns_id=ns, cluster=None, snapshot_id=name, rows=count)]


def sets(*names, cluster="c", at_us=0):
    return [
        row("registered_first", at_us, cluster=cluster, broker_name=name, broker_id=0, broker_addr=f"{name}:10911")
        for name in names
    ]


def of_kind(rows, kind):
    return [row for row in rows if row["kind"] == kind]


@pytest.fixture(scope="module")
def clusters(spark):
    """Three clusters: even, all on one of four sets, and one by hand."""
    even, one, hand = [f"even-{n}" for n in range(3)], [f"one-{n}" for n in range(4)], ["h-1", "h-2", "h-3"]
    inputs = tables(
        spark,
        route_snapshot=a_snapshot(
            HOUR_US,
            (even, ["orders", "payments"], 8),
            (one[:1], ["orders"], 40),
            (one, ["TBW102", "%RETRY%group", "rmq_sys_x"], 1),
            (["h-1"], ["orders"], 6),
            (["h-2"], ["orders"], 2),
            (["h-3"], ["orders"], 1),
        ),
        broker_state=[*sets(*even, cluster="even"), *sets(*one, cluster="one"), *sets(*hand, cluster="hand")],
    )
    return found(JOB, inputs, days(1))


def in_cluster(rows, cluster, kind):
    return [row for row in of_kind(rows, kind) if row["cluster"] == cluster]


def test_an_even_cluster_has_gini_zero_and_no_proposal(clusters):
    brokers = in_cluster(clusters, "even", "broker")
    assert [row["queues"] for row in brokers] == [16, 16, 16]
    assert all(row["gini"] == pytest.approx(0) for row in brokers)
    assert all(row["cv"] == 0 for row in brokers)
    assert all(row["share"] == pytest.approx(1 / 3) for row in brokers)
    assert in_cluster(clusters, "even", "proposal") == []
    assert in_cluster(clusters, "even", "topic") == []


def test_a_cluster_with_all_queues_on_one_of_n_sets_has_gini_n_minus_one_over_n(clusters):
    brokers = {row["broker_name"]: row for row in in_cluster(clusters, "one", "broker")}
    assert all(row["gini"] == pytest.approx(3 / 4) for row in brokers.values())
    assert all(row["max_mean"] == pytest.approx(4) for row in brokers.values())
    assert {name: row["queues"] for name, row in brokers.items()} == {"one-0": 40, "one-1": 0, "one-2": 0, "one-3": 0}


def test_topics_of_the_system_count_for_nothing(clusters):
    assert {row["topic"] for row in of_kind(clusters, "topic")} == {"orders"}
    assert {row["topic"] for row in of_kind(clusters, "proposal")} == {"orders"}


def test_figures_of_a_cluster_are_those_counted_by_hand(clusters):
    brokers = in_cluster(clusters, "hand", "broker")
    # 6, 2, 1: mean 3, deviations 3, -1, -2; Gini 2 * (1*1 + 2*2 + 3*6) / (3 * 9) - 4/3.
    assert all(row["cv"] == pytest.approx((14 / 3) ** 0.5 / 3) for row in brokers)
    assert all(row["gini"] == pytest.approx(46 / 27 - 4 / 3) for row in brokers)
    assert all(row["max_mean"] == pytest.approx(2) for row in brokers)
    assert [row["spread"] for row in in_cluster(clusters, "hand", "topic")] == [5]


def test_proposals_keep_the_number_of_queues_and_bring_the_fullest_set_down(clusters):
    for cluster, total in (("one", 40), ("hand", 9)):
        queues = {row["broker_name"]: row["queues"] for row in in_cluster(clusters, cluster, "broker")}
        for proposal in in_cluster(clusters, cluster, "proposal"):
            queues[proposal["broker_name"]] += proposal["write_proposed"] - proposal["write_now"]
        assert sum(queues.values()) == total
        assert max(queues.values()) * len(queues) / total <= 4 / 3


def test_sets_that_grow_come_before_those_that_shrink(clusters):
    proposals = sorted(in_cluster(clusters, "one", "proposal"), key=lambda row: row["position"])
    grows = [row["write_proposed"] > row["write_now"] for row in proposals]
    assert grows[0]
    assert [row["position"] for row in proposals] == list(range(1, len(proposals) + 1))


def test_writes_shrink_before_reads_and_reads_grow_before_writes(clusters):
    proposals = {row["broker_name"]: row for row in in_cluster(clusters, "one", "proposal")}
    shrinking, growing = proposals["one-0"], proposals["one-1"]
    then = shrinking["write_proposed"]
    assert shrinking["steps"] == [f"update read=40 write={then}", "drain", f"update read={then} write={then}"]
    then = growing["write_proposed"]
    assert growing["steps"] == [f"update read={then} write=0", f"update read={then} write={then}"]


def test_each_step_has_a_command_that_goes_to_the_master(clusters):
    for proposal in of_kind(clusters, "proposal"):
        assert len(proposal["commands"]) == len(proposal["steps"])
        for step, command in zip(proposal["steps"], proposal["commands"], strict=True):
            words = shlex.split(command)
            assert words[0] == "mqadmin"
            assert words[words.index("-t") + 1] == "orders"
            if step != "drain":
                assert words[1] == "updateTopic"
                assert words[words.index("-b") + 1] == f"{proposal['broker_name']}:10911"
                told = f"update read={words[words.index('-r') + 1]} write={words[words.index('-w') + 1]}"
                assert told == step


@pytest.fixture(scope="module")
def two_days(spark):
    """A NameServer that has just started knows one set; a snapshot is torn; a topic has a hostile name and flags."""
    hostile = "x'; reboot '"
    return tables(
        spark,
        route_snapshot=[
            *a_snapshot(HOUR_US, (["a", "b"], [hostile], 4)),
            *a_snapshot(DAY_US + HOUR_US, (["a"], [hostile], 30), (["b"], [hostile], 2), topic_sys_flag=3, perm=4),
            *a_snapshot(DAY_US + HOUR_US + 60_000_000, (["a"], [hostile], 1), ns="ns-2"),
            *a_snapshot(DAY_US + 2 * HOUR_US, (["a"], [hostile], 99), rows=2),
        ],
        broker_state=[*sets("a"), row("shown", 5, broker_name="b", set_ids=[0, 1], set_addrs=["b:1", "b:2"])],
    )


@pytest.fixture(scope="module")
def second_day(two_days):
    return found(JOB, two_days, days(2))


def test_the_present_is_the_last_whole_snapshot_that_knows_most_sets(second_day):
    assert {row["broker_name"]: row["queues"] for row in of_kind(second_day, "broker")} == {"a": 30, "b": 2}


def test_confidence_is_the_share_of_days_on_which_a_set_was_too_full(second_day):
    assert all(row["confidence"] == pytest.approx(0.5) for row in of_kind(second_day, "proposal"))


def test_a_topic_name_is_one_word_of_the_shell_and_settings_that_stay_are_given(second_day):
    proposals = {row["broker_name"]: row for row in of_kind(second_day, "proposal")}
    words = shlex.split(proposals["b"]["commands"][0])
    assert words[words.index("-t") + 1] == "x'; reboot '"
    assert words[words.index("-b") + 1] == "b:1"
    assert words[words.index("-p") + 1] == "4"
    assert words[-4:] == ["-u", "true", "-s", "true"]


def test_parts_of_days_give_what_parts_of_the_whole_span_give(two_days, second_day):
    assert in_order(found_by_day(JOB, two_days, days(2))) == in_order(second_day)


def test_load_is_counted_in_messages_where_topics_are_sampled(spark):
    inputs = tables(
        spark,
        route_snapshot=a_snapshot(HOUR_US, (["a"], ["busy"], 10), (["b"], ["idle"], 10), (["b"], ["busy"], 2)),
        broker_state=sets("a", "b"),
        offset_sample=[
            *(row("sample", n * 60_000_000, topic="busy", tps=1200.0) for n in range(3)),
            row("sample", 0, topic="idle", tps=0.0),
            row("sample", 0, topic="busy", group="g", tps=5.0, consumers=1),
        ],
    )
    rows = found(JOB, inputs, days(1))
    brokers = {row["broker_name"]: row for row in of_kind(rows, "broker")}
    assert brokers["a"]["tps"] == pytest.approx(1000)
    assert brokers["b"]["tps_share"] == pytest.approx(1 / 6)
    proposals = of_kind(rows, "proposal")
    assert {row["topic"] for row in proposals} == {"busy"}
    assert {row["basis"] for row in proposals} == {"tps"}
    # 1,000 and 200 messages a second; a queue of `busy` brings 100: four of them go.
    assert {row["broker_name"]: row["write_proposed"] for row in proposals} == {"a": 7, "b": 5}


def test_an_empty_history_has_no_result(spark):
    assert found(JOB, tables(spark), days(1)) == []
