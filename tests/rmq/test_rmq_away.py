"""What is not there now: broker sets that are away, replicas that are not alive, and what nobody can know of them."""

import http.server
import json
import threading
from types import SimpleNamespace

import pytest
from answering_peer import AnsweringPeer, answer
from fakes.offset_broker import CLUSTER, offset_brokers_in_thread
from group_broker import GroupBroker
from rmq_brokers import ADMIN_TOKEN, admin_token

from remoting.clock import SystemClock
from remoting.protocol.codes import RequestCode, ResponseCode
from rmq.site import settings

LIST, TOPICS, ROUTE = (
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
)
QUERY_CONSUME_QUEUE = 321
AWAY_MS, AWAY = 1_700_000_000_000, "away since 2023-11-14T22:13:20.000Z"
#: One server that hangs may take a third of this; all of it would be too long.
HANGING, HANGING_MS = ("--timeout", "10"), 9_000
NO_ROUTE = answer(code=ResponseCode.TOPIC_NOT_EXIST, remark="no route")


def name_server(*brokers, away=(), **more):
    """A NameServer that lists these brokers, and remembers these sets; `away=None` is one of Java."""
    table = {
        each.name: {"cluster": CLUSTER, "brokerName": each.name, "brokerAddrs": {"0": each.address}} for each in brokers
    }
    body = {"brokerAddrTable": table, "clusterAddrTable": {CLUSTER: sorted(table)} if table else {}}
    if away is not None:
        body["awayBrokerSets"] = [
            {
                "cluster": CLUSTER,
                "brokerName": name,
                "awaySinceUnixMs": AWAY_MS,
                "wasUnregistered": False,
                "brokerAddrs": {"0": "10.0.0.9:10911"},
            }
            for name in away
        ]
    return AnsweringPeer({LIST: answer(body | more), TOPICS: answer({"topicList": ["orders"]}), ROUTE: NO_ROUTE})


def controller(sets, *, is_ours=True):
    """A controller that leads, and has stored these sets."""
    leader = AnsweringPeer({})
    metadata = {"isLeader": "true", "controllerLeaderAddress": leader.address, "group": "g", "peers": ""}
    listed = answer({"replicasInfoTable": sets}) if is_ours else answer(code=1, remark="no names")
    leader.answers |= {1005: answer(fields=metadata), 1006: listed}
    return leader


def stored(name, *, master=1, dead=()):
    replicas = [
        {"brokerName": name, "brokerId": i, "brokerAddress": f"10.0.0.{i}:10911", "alive": i not in dead}
        for i in (1, 2)
    ]
    body = {"masterEpoch": 3, "syncStateSetEpoch": 1, "inSyncReplicas": replicas, "notInSyncReplicas": []}
    ours = {"clusterName": CLUSTER, "lastElection": "no broker of the SyncStateSet [1, 2] can lead"}
    return {name: body | ours | ({"masterBrokerId": master} if master else {})}


@pytest.fixture
def brokers():
    """Two masters with the topic orders, of which billing has consumed a part of the first."""
    first, second = GroupBroker("broker-a"), GroupBroker("broker-b")
    for each in (first, second):
        each.topics = {"orders": {0: (0, 100)}}
    first.offsets = {"orders@billing": {0: 40}}
    with offset_brokers_in_thread(first, second):
        yield SimpleNamespace(a=first, b=second)


@pytest.fixture
def run(run_here):
    """Runs a command as JSON at NameServers, and at a controller; returns its exit code, rows and sentences."""
    peers = []

    def run(*words, at, controlled=None):
        peers.extend([*at, *([controlled] if controlled else [])])
        given = ["-n", ";".join(each.address for each in at), "--timeout", "20", "-o", "json"]
        ran = run_here(*given, *words, *(["--controller", controlled.address] if controlled else []))
        return SimpleNamespace(code=ran.code, rows=json.loads(ran.out)["items"] if ran.out else None, err=ran.err)

    yield run
    for each in peers:
        each.close()


def states(rows):
    return {(row["kind"], row["name"]): row["state"] for row in rows}


def test_status_names_sets_that_are_away_with_the_moment(run, brokers):
    ran = run("status", at=[name_server(brokers.a, away=["broker-b"])])

    (away,) = [row for row in ran.rows if row["name"] == "broker-b"]
    assert (ran.code, away["state"], away["awaySinceUnixMs"]) == (7, "away", AWAY_MS)
    assert states(ran.rows)["broker", "10.0.0.9:10911"] == "away"
    assert "broker-b" in ran.err


def test_status_is_not_well_without_any_broker(run):
    server = name_server()
    ran = run("status", at=[server])

    assert (ran.code, states(ran.rows)["namesrv", server.address]) == (7, "no_brokers")


def test_sets_of_a_default_controller_are_not_away_from_name_servers_that_are_named(run, brokers, monkeypatch):
    controlled = controller(stored("broker-z", dead={1, 2}))
    monkeypatch.setattr(settings, "DEFAULT_CONTROLLER", controlled.address)
    ran = run("status", at=[name_server(brokers.a)])
    controlled.close()

    assert (ran.code, ("controller", controlled.address) in states(ran.rows)) == (0, True)
    assert "broker-z" not in str(ran.rows)


@pytest.mark.parametrize("dead", [{2}, {1, 2}])
def test_status_names_brokers_that_controllers_miss(run, brokers, dead):
    ran = run("status", at=[name_server(brokers.a)], controlled=controller(stored("broker-a", dead=dead)))

    found = states(ran.rows)
    assert (ran.code, found["broker", "10.0.0.2:10911"]) == (7, "away")
    assert found["brokerSet", "broker-a"] == ("under_replicated" if dead == {2} else "no_master")


def test_status_has_sets_that_only_controllers_know_and_why_nobody_leads(run):
    sets = stored("broker-a", master=None, dead={1, 2})
    ran = run("status", at=[name_server(away=None)], controlled=controller(sets))

    found = states(ran.rows)
    assert (ran.code, found["brokerSet", "broker-a"], found["broker", "10.0.0.1:10911"]) == (7, "away", "away")
    assert any("no broker of the SyncStateSet [1, 2] can lead" in row["detail"] for row in ran.rows)


def test_status_shows_topics_that_a_master_or_a_slave_lacks(run, brokers):
    lost = {"cluster": CLUSTER, "brokerName": "broker-a", "sinceUnixMs": 1, "count": 1, "topics": ["Orders"]}
    stale = {"cluster": CLUSTER, "brokerName": "broker-b", "brokerId": 0, "brokerAddr": brokers.b.address}
    server = name_server(brokers.a, brokers.b, lostTopics=[lost], staleReplicas=[stale])
    ran = run("status", at=[server])

    found = states(ran.rows)
    assert (ran.code, found["brokerSet", "broker-a"], found["broker", brokers.b.address]) == (
        7,
        "lost_topics",
        "lacks_topics",
    )


def test_lists_name_sets_that_are_away(run, brokers):
    clusters = run("cluster", "list", at=[name_server(brokers.a, away=["broker-b"])])
    listed = run("broker", "list", at=[name_server(brokers.a, away=["broker-b"])])
    shown = run("broker", "show", "broker-b", at=[name_server(brokers.a, away=["broker-b"])])

    (cluster,) = clusters.rows
    assert (clusters.code, cluster["away"], cluster["awaySinceUnixMs"]) == (7, ["broker-b"], AWAY_MS)
    assert (listed.code, [row["awaySinceUnixMs"] for row in listed.rows]) == (7, [None, AWAY_MS])
    assert (shown.code, AWAY in shown.err) == (3, True)


def test_a_cluster_of_which_all_sets_are_away_is_known(run):
    ran = run("cluster", "list", at=[name_server(away=["broker-a", "broker-b"])])
    listed = run("broker", "list", "--cluster", CLUSTER, at=[name_server(away=["broker-b"])])

    assert (ran.code, ran.rows[0]["brokers"], ran.rows[0]["away"]) == (7, 0, ["broker-a", "broker-b"])
    assert (listed.code, len(listed.rows)) == (7, 1)


def test_name_servers_are_read_together(run, brokers):
    for at in ([name_server(), name_server(brokers.a)], [name_server(brokers.a), name_server(away=["broker-a"])]):
        assert [row["brokerName"] for row in run("broker", "list", "--no-runtime", at=at).rows] == ["broker-a"]


@pytest.mark.parametrize("words", [("topic", "show", "gone"), ("topic", "route", "gone"), ("group", "lag", "gone")])
def test_what_a_set_may_have_that_is_away_is_not_unknown(run, brokers, words):
    there = run(*words, at=[name_server(brokers.a)])
    away = run(*words, at=[name_server(brokers.a, away=["broker-b"])])

    assert (there.code, away.code) == (4, 7)
    assert f"gone; others may have it: broker-b is {AWAY}" in away.err


def test_sets_that_a_name_server_has_forgotten_are_known_from_controllers(run, brokers):
    for words in (("topic", "show", "gone"), ("group", "lag", "gone"), ("cluster", "list")):
        ran = run(*words, at=[name_server(brokers.a)], controlled=controller(stored("broker-z", dead={1, 2})))
        assert (ran.code, "broker-z is away" in ran.err) == (7, True), words


def test_controller_that_hangs_holds_up_nothing_while_another_one_says_who_leads(run, brokers):
    silent, leader = AnsweringPeer({1005: None}), controller(stored("broker-z", dead={1, 2}))
    both = SimpleNamespace(address=f"{silent.address};{leader.address}", close=lambda: None)
    began_ms = SystemClock().now_ms()
    ran = run("topic", "show", "gone", at=[name_server(brokers.a)], controlled=both)
    took_ms = SystemClock().now_ms() - began_ms
    for each in (silent, leader):
        each.close()

    assert (ran.code, "broker-z is away" in ran.err, took_ms < 15_000) == (7, True, True), ran


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("cluster", "list"),
        ("topic", "list"),
        ("topic", "route", "orders"),
        ("topic", "show", "orders"),
        ("group", "list"),
    ],
)
def test_a_name_server_that_hangs_holds_up_no_view_and_is_named(run, brokers, words):
    silent, server = AnsweringPeer(dict.fromkeys((LIST, TOPICS, ROUTE))), name_server(brokers.a)
    server.answers |= {ROUTE: answer(brokers.a(ROUTE, {"topic": "orders"}).body)}
    began_ms = SystemClock().now_ms()
    ran = run(*words, *HANGING, at=[silent, server])
    took_ms = SystemClock().now_ms() - began_ms

    assert (ran.code, silent.address in ran.err, bool(ran.rows), took_ms < HANGING_MS) == (7, True, True, True), ran


@pytest.mark.parametrize("words", [("status",), ("cluster", "list"), ("topic", "list")])
def test_controllers_that_hang_hold_up_no_view_and_are_named(run, brokers, words):
    silent = AnsweringPeer({1005: None})
    began_ms = SystemClock().now_ms()
    ran = run(*words, *HANGING, at=[name_server(brokers.a)], controlled=silent)
    took_ms = SystemClock().now_ms() - began_ms

    assert (ran.code, silent.address in ran.err, bool(ran.rows), took_ms < HANGING_MS) == (7, True, True, True), ran


def test_a_set_whose_master_hangs_is_not_ok_and_its_lag_is_unknown_in_every_view(run, brokers):
    brokers.b.instead = dict.fromkeys(range(400))
    brokers.a.offsets = {"orders@billing": {0: 100}}

    def at_both(*words):
        return run(*words, "--timeout", "1", at=[name_server(brokers.a, brokers.b)])

    status, lag, listed = at_both("status"), at_both("group", "lag", "billing"), at_both("group", "list", "--long")
    assert (status.code, states(status.rows)["brokerSet", "broker-b"]) == (7, "failed")
    assert (lag.code, [(row["brokerName"], row["diff"]) for row in lag.rows]) == (
        7,
        [("broker-a", 0), ("broker-b", "unknown")],
    )
    assert (listed.code, [row["lag"] for row in listed.rows]) == (7, ["unknown"])
    brokers.a.topics = {}
    assert "no master that answers has the topic" in str(at_both("group", "lag", "billing").rows)


def test_queues_of_which_a_master_says_nothing_may_hold_messages(run, brokers):
    brokers.a.instead = {QUERY_CONSUME_QUEUE: None}
    ran = run("group", "lag", "billing", "--timeout", "1", at=[name_server(brokers.a)])

    assert (ran.code, [row["diff"] for row in ran.rows]) == (7, [60, "unknown"]), ran


def test_nobody_knows_what_is_away_while_no_name_server_answers(run):
    server = AnsweringPeer({LIST: b"", TOPICS: b""})
    ran = run("status", at=[server], controlled=controller(stored("broker-a", dead={2})))

    found = {row["name"]: (row["state"], row["detail"]) for row in ran.rows}
    assert ran.code == 3
    assert found["broker-a"] == (
        "unknown",
        "no NameServer answers; the controller has heartbeats of 1 of 2 brokers",
    )
    assert (found["10.0.0.1:10911"][0], found["10.0.0.2:10911"][0]) == ("unknown", "away")


def test_a_default_controller_is_missed_where_no_name_server_answers_either(run):
    ran = run("status", at=[AnsweringPeer({LIST: b"", TOPICS: b""})])

    assert states(ran.rows)["controller", settings.DEFAULT_CONTROLLER] == "failed"


def test_topics_of_a_set_that_is_away_are_missing_from_the_list_and_that_is_said(run, brokers):
    ran = run("topic", "list", at=[name_server(brokers.a, away=["broker-b"])])

    assert (ran.code, len(ran.rows), f"broker-b is {AWAY}: topics that only these sets have" in ran.err) == (
        7,
        1,
        True,
    ), ran


def test_a_set_that_may_only_not_have_registered_again_since_the_name_server_started_is_not_away(run, brokers):
    def at(*words, **sets):
        starting = {"cluster": CLUSTER, "brokerName": "broker-z", "awaySinceUnixMs": None, "wasUnregistered": False}
        server = name_server(brokers.a, away=None, awayBrokerSets=[starting | {"brokerAddrs": {"1": "10.0.0.1:10911"}}])
        return run(*words, at=[server], controlled=controller(stored("broker-z", **sets)))

    alive, dead, listed = at("status"), at("status", dead={1, 2}), at("cluster", "list")
    assert (alive.code, states(alive.rows)["brokerSet", "broker-z"]) == (7, "starting")
    assert states(alive.rows)["broker", "10.0.0.1:10911"] == "starting"
    assert states(dead.rows)["brokerSet", "broker-z"] == "away"
    assert (listed.code, listed.rows[0]["away"]) == (7, None)
    assert "broker-z is not registered since the NameServer started" in listed.err


def test_a_set_that_a_started_name_server_knows_of_its_peers_is_shown_and_not_called_missing(run, brokers):
    server = name_server(away=["broker-a"])
    queues = {"brokerName": "broker-a", "readQueueNums": 8, "writeQueueNums": 8, "perm": 6, "topicSysFlag": 0}
    members = {"cluster": CLUSTER, "brokerName": "broker-a", "brokerAddrs": {"0": brokers.a.address}}
    server.answers[ROUTE] = answer({"queueDatas": [queues], "brokerDatas": [members], "filterServerTable": {}})
    ran = run("topic", "route", "orders", at=[server])
    assert (ran.code, ran.rows[0]["brokerName"], ran.err) == (0, "broker-a", ""), ran


def test_without_any_broker_nobody_can_say_that_a_topic_or_group_is_not_there(run):
    for words in (("topic", "show", "gone"), ("group", "lag", "gone"), ("group", "list"), ("cluster", "list")):
        ran = run(*words, at=[name_server(away=None)])
        assert (ran.code, "no broker is registered" in ran.err) == (7, True), words


def test_sets_are_not_ok_where_their_controller_does_not_say_how_they_are(run, brokers):
    follower = controller({})
    follower.answers[1005] = answer(fields={"isLeader": "false", "controllerLeaderAddress": "127.0.0.1:1"})
    ran = run("status", at=[name_server(brokers.a)], controlled=follower)

    assert (ran.code, states(ran.rows)["controller", "127.0.0.1:1"]) == (7, "failed")


def test_very_many_sets_that_are_away_do_not_fill_the_screen(run, brokers):
    many = [f"stranger-{n}" for n in range(1000)]
    for words in (("topic", "show", "gone"), ("cluster", "list"), ("status",)):
        ran = run(*words, at=[name_server(brokers.a, away=many)])
        assert (ran.code, "more" in ran.err, len(ran.err) < 1500) == (7, True, True), words


def test_a_set_that_is_away_is_cleaned_from_a_controller_of_java_by_the_cluster_that_name_servers_know(run, brokers):
    controlled = controller({}, is_ours=False)
    body = {"masterEpoch": 3, "syncStateSetEpoch": 1, "inSyncReplicas": [], "notInSyncReplicas": []}
    controlled.answers[1006] = answer({"replicasInfoTable": {"broker-b": body}})
    at = [name_server(brokers.a, away=["broker-b"])]
    ran = run("controller", "clean", "broker-b", "--dry-run", at=at, controlled=controlled)

    assert (ran.code, [row["state"] for row in ran.rows]) == (0, ["planned"]), ran


def test_a_topic_that_keeps_its_queues_loses_none(run, brokers):
    brokers.a.write_queue_nums = {"orders": 4}
    words = ("topic", "create", "orders", "--broker", "broker-a", "--read", "1", "--write", "4", "--dry-run")
    ran = run(*words, at=[name_server(brokers.a)])

    assert (ran.code, "broker-a: 1/4 -> 1/4 queues" in ran.rows[0]["change"]) == (0, True), ran


def test_java_name_servers_remember_nothing_so_controllers_are_asked(run, brokers):
    sets = stored("broker-z", dead={1, 2})
    ours = run("topic", "show", "gone", at=[name_server(brokers.a, away=None)], controlled=controller(sets))
    java = run(
        "topic", "show", "gone", at=[name_server(brokers.a, away=None)], controlled=controller(sets, is_ours=False)
    )

    assert (ours.code, "broker-z is away" in ours.err, java.code) == (7, True, 4)


def test_groups_of_a_set_that_is_away_are_missing_from_lists_and_that_is_said(run, brokers):
    for words in (("group", "list"), ("group", "offsets", "billing"), ("group", "show", "billing")):
        ran = run(*words, at=[name_server(brokers.a, away=["broker-b"])])
        assert (ran.code, len(ran.rows), AWAY in ran.err) == (7, 1, True), ran


def test_a_lag_that_lacks_a_set_is_no_number(run, brokers, run_here):
    server = name_server(brokers.a, away=["broker-b"])
    ran = run("group", "lag", "billing", at=[server])
    (listed,) = run("group", "list", "--long", at=[name_server(brokers.a, away=["broker-b"])]).rows
    table = run_here("group", "lag", "billing", "-n", server.address, "--timeout", "20")

    assert [(row["brokerName"], row["queueId"], row["diff"]) for row in ran.rows] == [
        ("broker-a", 0, 60),
        ("broker-b", None, "unknown"),
    ]
    assert (ran.code, ran.rows[1]["reason"], listed["lag"]) == (7, AWAY, "unknown")
    assert "billing: lag unknown. Known: 60 messages in 1 queue. Unknown: all of broker-b.\n" in table.err


def test_deleted_topic_comes_back_with_sets_that_were_not_reached(run, brokers):
    server = name_server(brokers.a, away=["broker-b"])
    route = {"queueDatas": [], "brokerDatas": [], "filterServerTable": {}}
    server.answers |= {ROUTE: answer(route)}
    ran = run("topic", "delete", "orders", "--cluster", CLUSTER, "--dry-run", at=[server])

    assert (ran.code, f"broker-b is {AWAY}: if orders is there, it returns with them" in ran.err) == (7, True), ran


@pytest.mark.parametrize(
    "words",
    [
        ("config", "set", "broker", "useServerSideResetOffset=true", "--dry-run"),
        ("config", "get", "broker"),
        ("topic", "create", "orders", "--dry-run"),
        ("group", "create", "new", "--dry-run"),
    ],
)
def test_sets_that_a_command_does_not_reach_are_named(run, brokers, words):
    part = run(*words, "--cluster", CLUSTER, at=[name_server(brokers.a, away=["broker-b"])])
    none = run(*words, "--cluster", CLUSTER, at=[name_server(away=["broker-b"])])

    assert (part.code, bool(part.rows), AWAY in part.err) == (7, True, True), part
    assert (none.code, none.rows, AWAY in none.err) == (3, None, True), none


def test_question_before_a_change_names_sets_that_it_does_not_reach(run, brokers):
    for words in (("topic", "create", "orders"), ("topic", "delete", "orders"), ("group", "create", "new")):
        server = name_server(brokers.a, away=["broker-b"])
        server.answers[ROUTE] = answer({"queueDatas": [], "brokerDatas": [], "filterServerTable": {}})
        ran = run(*words, "--cluster", CLUSTER, at=[server])
        assert (ran.code, "? Not reached: broker-b" in ran.err, AWAY in ran.err) == (2, True, True), ran


def test_slaves_that_have_not_copied_a_group_are_shown(run, brokers):
    brokers.b.groups = {}
    addresses = {"0": brokers.a.address, "1": brokers.b.address}
    table = {"broker-a": {"cluster": CLUSTER, "brokerName": "broker-a", "brokerAddrs": addresses}}
    ran = run("group", "show", "billing", at=[name_server(brokers.a, brokerAddrTable=table)])

    shown = [(row["brokerId"], row["clients"], row["retryQueueNums"], row["reason"]) for row in ran.rows]
    assert (ran.code, shown) == (0, [(0, 0, 1, None), (1, None, None, "not copied")])


def test_group_of_a_set_without_master_cannot_be_reset_now(run, brokers):
    server = name_server(brokers.a)
    queues = {"brokerName": "broker-b", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0}
    members = {"cluster": CLUSTER, "brokerName": "broker-b", "brokerAddrs": {"1": "10.0.0.9:10911"}}
    server.answers[ROUTE] = answer({"queueDatas": [queues], "brokerDatas": [members], "filterServerTable": {}})
    ran = run("group", "reset", "billing", "--topic", "orders", "--to", "latest", "--dry-run", at=[server])

    assert (ran.code, "broker-b has no master now" in ran.err) == (3, True), ran


def answers_of(run, brokers):
    """The lag of billing by `group lag`, and why it is unknown; the other answers to that question are the same."""
    lag = run("group", "lag", "billing", at=[name_server(brokers.a, brokers.b)])
    of_topic = run("group", "lag", "billing", "--topic", "orders", at=[name_server(brokers.a, brokers.b)])
    (listed,) = run("group", "list", "billing", "--long", at=[name_server(brokers.a, brokers.b)]).rows
    assert lag.rows == of_topic.rows
    unknown = [row for row in lag.rows if row["diff"] == "unknown"]
    assert listed["unknownQueues"] == len(unknown)
    known = [row["diff"] for row in lag.rows if row["diff"] != "unknown"]
    assert listed["lag"] == (sum(known) or "unknown" if unknown or not known else sum(known))
    return [(row["brokerName"], row["queueId"], row["diff"]) for row in lag.rows], [row["reason"] for row in unknown]


def test_a_set_without_a_stored_offset_is_unknown_in_every_answer(run, brokers):
    rows, (reason,) = answers_of(run, brokers)

    assert rows == [("broker-a", 0, 60), ("broker-b", 0, "unknown")]
    assert "no offset" in reason


def test_a_group_that_may_be_behind_is_not_listed_with_a_lag_of_0(run, brokers):
    brokers.a.offsets["orders@billing"][0] = 100
    (listed,) = run("group", "list", "billing", "--long", at=[name_server(brokers.a, brokers.b)]).rows

    assert (listed["lag"], listed["unknownQueues"]) == ("unknown", 1)


def test_nothing_is_behind_in_a_queue_that_never_had_a_message(run, brokers):
    brokers.b.topics["orders"][0] = (0, 0)

    assert answers_of(run, brokers)[0] == [("broker-a", 0, 60), ("broker-b", 0, 0)]


def test_a_broadcasting_group_has_no_lag_and_its_members_have_its_offsets(run, brokers):
    brokers.a.online = {"billing": "BROADCASTING"}
    rows, reasons = answers_of(run, brokers)

    assert rows == [("broker-a", 0, "unknown"), ("broker-b", 0, "unknown")]
    assert all("each member keeps its own offsets" in reason for reason in reasons)


def test_a_group_whose_topic_is_gone_has_no_lag(run, brokers):
    for each in (brokers.a, brokers.b):
        each.topics = {}
    rows, reasons = answers_of(run, brokers)

    assert rows == [("broker-a", 0, "unknown")]
    assert reasons == ["no master has the topic"]


def test_a_topic_that_members_no_longer_subscribe_to_is_not_called_gone(run, brokers):
    for each in (brokers.a, brokers.b):
        each.online, each.subscribed = {"billing": "CLUSTERING"}, []

    assert answers_of(run, brokers)[1] == ["its members do not subscribe to the topic"]


def test_a_group_that_never_connected_is_not_up_to_date(run, brokers, run_here):
    brokers.a.offsets = {}
    server = name_server(brokers.a, brokers.b)

    assert run("group", "lag", "billing", at=[server]).rows == []
    said = run_here("group", "lag", "billing", "-n", server.address, "--timeout", "20").err
    assert "billing: lag unknown. No offset is stored, and no member consumes a topic.\n" in said


def test_queues_that_are_not_read_any_more_count_while_they_hold_messages(run, brokers):
    brokers.a.topics["orders"] |= {1: (0, 50), 2: (0, 7), 3: (9, 9)}
    brokers.a.read_queue_nums = {"orders": 1}
    brokers.a.offsets["orders@billing"][1] = 20
    brokers.b.offsets = {"orders@billing": {0: 100}}
    rows, (reason,) = answers_of(run, brokers)

    assert rows == [("broker-a", 0, 60), ("broker-a", 1, 30), ("broker-a", 2, "unknown"), ("broker-b", 0, 0)]
    assert "beyond the read queues" in reason


class Forgetting(http.server.BaseHTTPRequestHandler):
    """The HTTP side of a NameServer that knows broker-b to be away; others have never had it."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"items":[]}')

    def do_DELETE(self):
        self.server.forgotten.append((self.path, self.headers["Authorization"]))
        is_known = self.path == "/v1/broker-sets/away/broker-b" and self.server.knows
        body = {"brokerName": "broker-b"} if is_known else {"error": {"code": "not_found", "message": "no"}}
        self.send_response(200 if is_known else 404)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def http_sides():
    """Two of them, of which only the first knows the set."""
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forgetting) for _ in range(2)]
    for each, knows in zip(servers, (True, False), strict=True):
        each.forgotten, each.knows = [], knows
        threading.Thread(target=each.serve_forever, daemon=True).start()
    yield servers
    for each in servers:
        each.shutdown()
        each.server_close()


def test_a_set_that_was_decommissioned_is_forgotten_at_every_name_server(run, brokers, http_sides, tmp_path):
    urls = ";".join(f"http://127.0.0.1:{each.server_port}" for each in http_sides)
    given = ("--namesrv-http", urls, "--admin-token-file", str(admin_token(tmp_path)))
    planned = run("broker", "forget", "broker-b", "--dry-run", *given, at=[name_server(brokers.a, away=["broker-b"])])
    assert [each.forgotten for each in http_sides] == [[], []]
    done = run("broker", "forget", "broker-b", "--yes", *given, at=[name_server(brokers.a, away=["broker-b"])])
    lives = run("broker", "forget", "broker-a", "--yes", *given, at=[name_server(brokers.a)])
    unknown = run("broker", "forget", "broker-z", "--yes", *given, at=[name_server(brokers.a)])
    given = ("--namesrv-http", f"{urls};http://127.0.0.1:1")
    partly = run("broker", "forget", "broker-b", "--dry-run", *given, at=[name_server(brokers.a, away=["broker-b"])])

    assert [row["state"] for row in planned.rows] == ["planned", "planned"]
    assert (done.code, [row["detail"] for row in done.rows]) == (0, [None, "it did not know the set"])
    assert [each.forgotten for each in http_sides] == [
        [("/v1/broker-sets/away/broker-b", f"Bearer {ADMIN_TOKEN}")] for _ in http_sides
    ]
    assert (lives.code, unknown.code) == (1, 4)
    assert (partly.code, [row["state"] for row in partly.rows]) == (7, ["planned", "planned", "failed"])
