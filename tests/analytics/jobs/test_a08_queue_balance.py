import shlex

import pytest
from builders import a_broker_set, queue_datas
from hand_tables import DAY_US, HOUR_US, MINUTE_US, MONDAY_US, days, found, found_by_day, in_order, row, tables
from route_tables import pieces_of, route_tables

from analytics.jobs.a08_queue_balance import JOB
from history.rows import Moment, RowMaker

HOSTILE = "x'; reboot '"
NOW_US = DAY_US + HOUR_US


def a_snapshot(ns, at_us, *groups, rows=None):
    """Rows of one snapshot: groups of sets, topics, queues and, if they are others, settings."""
    name = f"{ns}-{at_us}"
    envelope = {"ns_id": ns, "cluster": None, "snapshot_id": name}
    reported = [row("queues", at_us, scope="all", **envelope, **_alike(*group)) for group in groups]
    count = len(reported) if rows is None else rows
    return [*reported, row("finished", at_us + 1_000_000, **envelope, rows=count)]


def _alike(names, topics, queues, settings=None):
    settings = {"read": queues, "write": queues, "perm": 6, "topic_sys_flag": 0} | (settings or {})
    return {"broker_names": list(names), "topics": list(topics), **settings}


def sets(ns, *names, cluster=None):
    """The sets of a cluster that is called like its NameServer; sets of the same name may be in each of them."""
    cluster = cluster or ns
    return [
        row(
            "registered_first",
            0,
            ns_id=ns,
            cluster=cluster,
            broker_name=name,
            broker_id=0,
            broker_addr=f"{cluster}-{name}:10911",
        )
        for name in names
    ]


def one_server():
    """Three clusters that one NameServer knows: an even one, one with all on one of four sets, and one by hand."""
    even, one, hand = [f"even-{n}" for n in range(3)], [f"one-{n}" for n in range(4)], ["h-1", "h-2", "h-3"]
    yield (
        "route_snapshot",
        a_snapshot(
            "main",
            NOW_US,
            (even, ["orders", "payments"], 8),
            (one[:1], ["orders"], 40),
            (one, ["TBW102", "%RETRY%group", "rmq_sys_x", "one", "one_REPLY_TOPIC"], 1),
            (one[1:2], ["one-1"], 1),
            (["h-1"], ["orders"], 6),
            (["h-2"], ["orders"], 2),
            (["h-3"], ["orders"], 1),
        ),
    )
    for cluster, names in (("even", even), ("one", one), ("hand", hand)):
        yield "broker_state", sets("main", *names, cluster=cluster)


def two_days():
    """A NameServer that has just started knows one set; a snapshot is torn; a topic has a hostile name and flags."""
    flags = {"topic_sys_flag": 3}
    yield "route_snapshot", a_snapshot("days", HOUR_US, (["a", "b"], [HOSTILE], 4))
    yield "route_snapshot", a_snapshot("days", NOW_US, (["a"], [HOSTILE], 30, flags), (["b"], [HOSTILE], 2, flags))
    yield "route_snapshot", a_snapshot("days", NOW_US + HOUR_US, (["a"], [HOSTILE], 99), rows=2)
    yield "route_snapshot", a_snapshot("days-2", NOW_US + MINUTE_US, (["a", "b"], [HOSTILE], 1))
    seen = {"cluster": "days", "broker_name": "b", "set_ids": [0, 1], "set_addrs": ["b:1", "b:2"]}
    yield "broker_state", [*sets("days", "a"), row("snapshot", 5, ns_id="days", **seen)]
    yield "broker_state", sets("days-2", "a", cluster="days")
    started = {"ns_id": "days-2", "boot_id": "days-2-2", "cluster": None}
    yield "ns_lifecycle", [row("started", NOW_US + HOUR_US, **started)]
    yield "route_change", [a_change("days-2", NOW_US + HOUR_US + MINUTE_US, "a", HOSTILE, 1, boot_id="days-2-2")]


def a_set_was_removed():
    before, after = (["a"], ["orders"], 30), (["b"], ["orders"], 2)
    yield "route_snapshot", a_snapshot("removed", NOW_US, before, after, (["gone"], ["orders"], 1))
    yield "route_snapshot", a_snapshot("removed", NOW_US + HOUR_US, before, after)
    yield "broker_state", sets("removed", "a", "b", "gone")


def a_set_is_drained():
    """The write permission of `b` was wiped; `closed` may not be written on `c`."""
    wiped = {"perm": 4}
    yield (
        "route_snapshot",
        a_snapshot(
            "drained",
            NOW_US,
            (["a"], ["orders", "closed"], 20),
            (["b"], ["orders", "closed", "TBW102"], 8, wiped),
            (["c"], ["orders"], 2),
            (["c"], ["closed"], 2, wiped),
        ),
    )
    yield "broker_state", sets("drained", "a", "b", "c")


def some_topics_are_fixed():
    """Orders have an order and `split` is static; `former` had an order once."""
    topics = ["orders", "split", "former"]
    yield "route_snapshot", a_snapshot("fixed", NOW_US, (["a"], topics, 20), (["b"], ["TBW102"], 8))
    yield "broker_state", sets("fixed", "a", "b")
    reported = {"ns_id": "fixed", "cluster": None}
    yield (
        "route_change",
        [
            row("topic_changed", NOW_US, topic="orders", kind="order", detail="a:20", **reported),
            row("topic_changed", NOW_US, topic="split", kind="mapping", broker_name="a", detail="{}", **reported),
            row("topic_changed", HOUR_US, topic="former", kind="order", detail="a:20", **reported),
            row("topic_changed", NOW_US, topic="former", kind="order", **reported),
        ],
    )


def topics_are_sampled():
    yield (
        "route_snapshot",
        a_snapshot("sampled", NOW_US, (["a"], ["busy"], 10), (["b"], ["idle"], 10), (["b"], ["busy"], 2)),
    )
    yield "broker_state", sets("sampled", "a", "b")
    of_topic = {"cluster": "sampled", "topic": "busy"}
    yield (
        "offset_sample",
        [
            *(row("sample", n * MINUTE_US, tps=1200.0, **of_topic) for n in range(3)),
            row("sample", 0, tps=0.0, **(of_topic | {"topic": "idle"})),
            row("sample", 0, group="g", tps=5.0, consumers=1, **of_topic),
        ],
    )


def reported_by_a_server():
    """Rows as a NameServer writes them: a hundred topics are alike and share their rows."""
    held = route_tables(
        a_broker_set(broker_name="a", cluster="server"), a_broker_set(broker_name="b", cluster="server")
    )
    held.topics.put("a", queue_datas(*(f"alike-{n}" for n in range(100)), broker_name="a"))
    held.topics.put("b", queue_datas("alike-7", broker_name="b", write_queue_nums=8))
    maker, moment = RowMaker("server", 1, "namesrv"), Moment(MONDAY_US + NOW_US, 1)
    for piece in pieces_of(held):
        for each in piece.rows(maker, moment):
            yield each.family.name, [each.columns]


def a_change(ns, at_us, name, topic, queues, **values):
    """A topic of a set has so many queues from now on; None: it is gone."""
    settings = {} if queues is None else {"new_read": queues, "new_write": queues, "new_perm": 6, "topic_sys_flag": 0}
    envelope = {"ns_id": ns, "cluster": None, "broker_name": name, "topic": topic, "kind": "queues"}
    return row("topic_changed", at_us, **(envelope | settings | values))


def topics_changed_since():
    """`grown`, `gone`, `wiped` and `new` did after the snapshot, `old` before it, and of `many` there is a summary."""
    topics = ["grown", "gone", "wiped", "many", "mapped"]
    before = a_change("since", NOW_US - MINUTE_US, "a", "old", 99)
    yield "route_snapshot", a_snapshot("since", NOW_US, (["a", "b"], topics, 4))
    yield "broker_state", sets("since", "a", "b")
    later = NOW_US + MINUTE_US
    yield (
        "route_change",
        [
            before,
            a_change("since", later, "a", "grown", 16),
            a_change("since", later + 1, "a", "grown", 8),
            a_change("since", later, "a", "gone", None, kind="removed"),
            a_change("since", later, "a", "wiped", 4, kind="perm", new_perm=4),
            a_change("since", later, "a", "new", 2, kind="added"),
            a_change("since", later, "a", "mapped", None, kind="mapping", detail="{}"),
            row("summary", later, ns_id="since", cluster=None, broker_name="a", changes=2000),
        ],
    )
    many = {"ns_id": "since", "cluster": None, "scope": "change", "broker_names": ["a"]}
    yield (
        "route_snapshot",
        [
            row("queues", later, **many, topics=["many"], read=32, write=32, perm=6, topic_sys_flag=0),
            row("queues", later, **many, topics=["retired"]),
        ],
    )


def servers_have_started():
    """One has told all it learned since its start; of another one changes were lost, and no snapshot came since."""
    started = {"ns_id": "started", "boot_id": "started-2", "cluster": None}
    yield "route_snapshot", a_snapshot("started", NOW_US, (["a", "z"], ["orders"], 40))
    yield "broker_state", sets("started", "a", "b")
    yield "ns_lifecycle", [row("started", NOW_US + MINUTE_US, **started)]
    later = NOW_US + 2 * MINUTE_US
    changes = [a_change("started", later, name, "orders", 8, boot_id="started-2") for name in ("a", "b")]
    yield "route_change", changes
    yield "route_snapshot", a_snapshot("lost", NOW_US, (["a", "b"], ["orders"], 99))
    yield "broker_state", sets("lost", "a", "b", cluster="started")
    resumed = {"ns_id": "lost", "cluster": None, "reason": "state changes are missing"}
    yield "ns_lifecycle", [row("recording_resumed", later, **resumed)]


def most_servers_agree():
    """One of three did not hear that a topic was made smaller, and another one that set `c` is gone."""
    yield "route_snapshot", a_snapshot("agree-1", NOW_US, (["a", "b"], ["orders"], 8))
    yield "route_snapshot", a_snapshot("agree-2", NOW_US + 1, (["a"], ["orders"], 32), (["b"], ["orders"], 8))
    yield "route_snapshot", a_snapshot("agree-3", NOW_US - 1, (["a", "b", "c"], ["orders"], 8))
    for ns in ("agree-1", "agree-2", "agree-3"):
        yield "broker_state", sets(ns, "a", "b", "c", cluster="agree")


def a_set_has_lost_its_master():
    yield "route_snapshot", a_snapshot("led", NOW_US, (["a", "b", "c"], ["orders"], 8))
    yield "broker_state", sets("led", "a", "b", "c")
    left = {"ns_id": "led", "cluster": "led", "broker_name": "c", "broker_id": 0}
    yield "broker_state", [row("expired", NOW_US + 5, **left, set_ids=[1], set_addrs=["led-c:2"])]


CASES = (
    topics_changed_since,
    servers_have_started,
    most_servers_agree,
    a_set_has_lost_its_master,
    one_server,
    two_days,
    a_set_was_removed,
    a_set_is_drained,
    some_topics_are_fixed,
    topics_are_sampled,
    reported_by_a_server,
)


@pytest.fixture(scope="module")
def inputs(spark):
    """All cases in one history, each with a NameServer and a cluster of its own: most of a job's time is its plan."""
    rows = {}
    for case in CASES:
        for family, more in case():
            rows.setdefault(family, []).extend(more)
    return tables(spark, **rows)


@pytest.fixture(scope="module")
def result(inputs):
    return found(JOB, inputs, days(2))


def of_kind(rows, kind):
    return [row for row in rows if row["kind"] == kind]


def in_cluster(rows, cluster, kind):
    return [row for row in of_kind(rows, kind) if row["cluster"] == cluster]


def queues_of(rows, cluster):
    return {row["broker_name"]: row["queues"] for row in in_cluster(rows, cluster, "broker")}


def proposals_of(rows, cluster):
    return {row["broker_name"]: row for row in in_cluster(rows, cluster, "proposal")}


def test_an_even_cluster_has_gini_zero_and_no_proposal(result):
    brokers = in_cluster(result, "even", "broker")
    assert [row["queues"] for row in brokers] == [16, 16, 16]
    assert all(row["gini"] == pytest.approx(0) for row in brokers)
    assert all(row["cv"] == 0 for row in brokers)
    assert all(row["share"] == pytest.approx(1 / 3) for row in brokers)
    assert in_cluster(result, "even", "proposal") == []
    assert in_cluster(result, "even", "topic") == []


def test_a_cluster_with_all_queues_on_one_of_n_sets_has_gini_n_minus_one_over_n(result):
    brokers = in_cluster(result, "one", "broker")
    assert all(row["gini"] == pytest.approx(3 / 4) for row in brokers)
    assert all(row["max_mean"] == pytest.approx(4) for row in brokers)
    assert queues_of(result, "one") == {"one-0": 40, "one-1": 0, "one-2": 0, "one-3": 0}


def test_topics_of_the_system_count_for_nothing(result):
    for kind in ("topic", "proposal"):
        assert {row["topic"] for row in in_cluster(result, "one", kind)} == {"orders"}


def test_figures_of_a_cluster_are_those_counted_by_hand(result):
    brokers = in_cluster(result, "hand", "broker")
    # 6, 2, 1: mean 3, deviations 3, -1, -2; Gini 2 * (1*1 + 2*2 + 3*6) / (3 * 9) - 4/3.
    assert all(row["cv"] == pytest.approx((14 / 3) ** 0.5 / 3) for row in brokers)
    assert all(row["gini"] == pytest.approx(46 / 27 - 4 / 3) for row in brokers)
    assert all(row["max_mean"] == pytest.approx(2) for row in brokers)
    assert [row["spread"] for row in in_cluster(result, "hand", "topic")] == [5]


def test_proposals_keep_the_number_of_queues_and_bring_the_fullest_set_down(result):
    for cluster, total in (("one", 40), ("hand", 9)):
        queues = queues_of(result, cluster)
        for proposal in in_cluster(result, cluster, "proposal"):
            queues[proposal["broker_name"]] += proposal["write_proposed"] - proposal["write_now"]
        assert sum(queues.values()) == total
        assert max(queues.values()) * len(queues) / total <= 4 / 3


def test_sets_that_grow_come_before_those_that_shrink(result):
    for cluster in ("one", "hand", "days"):
        proposals = sorted(in_cluster(result, cluster, "proposal"), key=lambda row: row["position"])
        grows = [row["write_proposed"] > row["write_now"] for row in proposals]
        assert grows == sorted(grows, reverse=True)
        assert len(set(grows)) == 2
        assert [row["position"] for row in proposals] == list(range(1, len(proposals) + 1))


def test_writes_shrink_before_reads_and_reads_grow_before_writes(result):
    shrinking = proposals_of(result, "one")["one-0"]
    then = shrinking["write_proposed"]
    assert shrinking["steps"] == [
        "expect read=40 write=40",
        f"update read=40 write={then}",
        "drain",
        f"update read={then} write={then}",
    ]
    assert proposals_of(result, "hand")["h-3"]["steps"] == [
        "expect read=1 write=1",
        "update read=3 write=1",
        "update read=3 write=3",
    ]


def test_proposal_creates_the_topic_on_a_set_that_lacks_it(result):
    growing = proposals_of(result, "one")["one-1"]
    then = growing["write_proposed"]
    steps = ["expect absent", f"create read={then} write=0", f"update read={then} write={then}"]
    assert growing["steps"] == steps
    assert growing["reason"].endswith("; creates the topic there")
    assert all(" -p 6" in command for command in growing["commands"][1:])


def test_each_step_has_a_command_that_goes_to_the_master_or_shows_what_is_there(result):
    for proposal in [*in_cluster(result, "one", "proposal"), *in_cluster(result, "hand", "proposal")]:
        for step, command in zip(proposal["steps"], proposal["commands"], strict=True):
            words = shlex.split(command)
            assert words[0] == "mqadmin"
            match step.split()[0]:
                case "expect":
                    assert words[1:] == ["topicRoute", "-n", "$NAMESRV_ADDR", "-t", "orders"]
                case "drain":
                    assert words[1:] == ["consumerProgress", "-n", "$NAMESRV_ADDR", "-g", "EACH-GROUP-OF-orders"]
                case reported:
                    assert words[1] == "updateTopic"
                    assert words[words.index("-t") + 1] == "orders"
                    assert words[words.index("-b") + 1] == f"{proposal['cluster']}-{proposal['broker_name']}:10911"
                    counts = f"read={words[words.index('-r') + 1]} write={words[words.index('-w') + 1]}"
                    assert f"{reported} {counts}" == step


def test_the_present_is_the_newest_whole_snapshot_but_for_that_of_a_server_that_has_just_started(result):
    assert queues_of(result, "days") == {"a": 30, "b": 2}


def test_the_present_is_the_newest_snapshot_and_all_changes_since(result):
    # grown 8, new 2, many 32, mapped 4; b has what the snapshot says.
    assert queues_of(result, "since") == {"a": 46, "b": 20}
    assert {row["topic"]: row["spread"] for row in in_cluster(result, "since", "topic")} == {
        "grown": 4,
        "gone": 4,
        "wiped": 4,
        "new": 2,
        "many": 28,
    }


def test_restarted_server_has_no_earlier_routes_and_one_that_lost_changes_has_none(result):
    assert queues_of(result, "started") == {"a": 8, "b": 8}


def test_what_most_name_servers_have_is_the_present(result):
    assert queues_of(result, "agree") == {"a": 8, "b": 8}


def test_a_set_without_a_master_takes_no_messages_and_does_not_count(result):
    assert queues_of(result, "led") == {"a": 8, "b": 8}


def test_a_set_that_is_gone_gets_nothing(result):
    assert queues_of(result, "removed") == {"a": 30, "b": 2}
    assert set(proposals_of(result, "removed")) == {"a", "b"}


def test_confidence_is_the_share_of_days_on_which_a_set_was_too_full(result):
    assert all(row["confidence"] == pytest.approx(0.5) for row in in_cluster(result, "days", "proposal"))


def test_a_topic_name_is_one_word_of_the_shell_and_settings_that_stay_are_given(result):
    words = shlex.split(proposals_of(result, "days")["b"]["commands"][1])
    assert words[words.index("-t") + 1] == HOSTILE
    assert words[words.index("-b") + 1] == "b:1"
    assert words[words.index("-p") + 1] == "6"
    assert words[-4:] == ["-u", "true", "-s", "true"]


def test_a_set_that_is_drained_neither_counts_nor_gets_anything(result):
    assert queues_of(result, "drained") == {"a": 40, "c": 2}
    assert set(proposals_of(result, "drained")) == {"a", "c"}


def test_a_topic_that_may_not_be_written_somewhere_stays_as_it_is(result):
    assert {row["topic"] for row in in_cluster(result, "drained", "proposal")} == {"orders"}
    commands = [command for row in in_cluster(result, "drained", "proposal") for command in row["commands"]]
    assert not [command for command in commands if "updateTopic" in command and " -p 6" not in command]


def test_topics_with_an_order_and_static_ones_are_not_moved(result):
    assert {row["topic"] for row in in_cluster(result, "fixed", "proposal")} == {"former"}


def test_load_is_counted_in_messages_where_topics_are_sampled(result):
    brokers = {row["broker_name"]: row for row in in_cluster(result, "sampled", "broker")}
    assert brokers["a"]["tps"] == pytest.approx(1000)
    assert brokers["b"]["tps_share"] == pytest.approx(1 / 6)
    proposals = in_cluster(result, "sampled", "proposal")
    assert {row["topic"] for row in proposals} == {"busy"}
    assert {row["basis"] for row in proposals} == {"tps"}
    # 1,000 and 200 messages a second; a queue of `busy` brings 100: four of them go.
    assert {row["broker_name"]: row["write_proposed"] for row in proposals} == {"a": 7, "b": 5}


def test_plan_checks_the_lag_of_sampled_groups(result):
    shrinking = proposals_of(result, "sampled")["a"]
    drain = shrinking["commands"][shrinking["steps"].index("drain")]
    assert drain == """mqadmin consumerProgress -n "$NAMESRV_ADDR" -g 'g'"""


def test_what_a_nameserver_writes_of_its_routes_is_a_whole_snapshot(result):
    brokers = queues_of(result, "server")
    assert set(brokers) == {"a", "b"}
    assert brokers["a"] >= 100 * 16
    assert {row["broker_addr"] for row in in_cluster(result, "server", "broker")} == {"a-0:10911", "b-0:10911"}


def test_parts_of_days_give_what_parts_of_the_whole_span_give(inputs, result):
    assert in_order(found_by_day(JOB, inputs, days(2))) == in_order(result)


def test_an_empty_history_has_no_result(spark):
    assert found(JOB, tables(spark), days(1)) == []
