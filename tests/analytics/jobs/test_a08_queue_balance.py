import shlex

import pytest
from builders import a_broker_set, queue_datas
from hand_tables import DAY_US, HOUR_US, MINUTE_US, MONDAY_US, days, found, row, tables
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
    """A snapshot is torn; a topic has a hostile name and flags."""
    flags = {"topic_sys_flag": 3}
    yield "route_snapshot", a_snapshot("days", HOUR_US, (["a", "b"], [HOSTILE], 4))
    yield "route_snapshot", a_snapshot("days", NOW_US, (["a"], [HOSTILE], 30, flags), (["b"], [HOSTILE], 2, flags))
    yield "route_snapshot", a_snapshot("days", NOW_US + HOUR_US, (["a"], [HOSTILE], 99), rows=2)
    seen = {"cluster": "days", "broker_name": "b", "set_ids": [0, 1], "set_addrs": ["b:1", "b:2"]}
    yield "broker_state", [*sets("days", "a"), row("snapshot", 5, ns_id="days", **seen)]


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


CASES = (one_server, two_days, a_set_is_drained, some_topics_are_fixed, topics_are_sampled, reported_by_a_server)


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
