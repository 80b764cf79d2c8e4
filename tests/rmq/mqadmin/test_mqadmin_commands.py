"""`rmq mqadmin` at our own servers: which ones it reaches, with which keys, and how it ends where something fails."""

import json
import re

import pytest
from answering_peer import AnsweringPeer, answer
from rmq_brokers import ODD_NAMES, RUNTIME, UPDATE_TOPIC, broker_answers, register

from remoting.protocol.shapes.broker_clients import RunningConsumerView
from rmq.failures import ExitCode
from rmq.mqadmin.running import have_same_subscriptions
from rmq.mqadmin.startup import _command
from rmq.mqadmin.table import MQADMIN_COMMANDS

NOWHERE = "127.0.0.1:1"
ALL_TOPICS = 206
ROUTE = 105
GROUP_STATS = 208
CLEAN_TOPICS = 316
CONSUMERS = 203
RUNNING = 307
DENIED = 16
CLIENT_IDS = ("a/b", "a_b", "..", "x" * 300)

HERE = [name for name, entry in MQADMIN_COMMANDS.items() if entry.module]


def test_every_command_can_be_loaded_and_takes_the_options_of_all():
    assert all({"h", "n"} <= {option.key for option in _command(name).options} for name in HERE)


def test_commands_for_name_servers_and_controllers_are_all_here():
    summaries = {name: entry.summary for name, entry in MQADMIN_COMMANDS.items() if entry.module is None}

    assert not [name for name, text in summaries.items() if "controller" in text.lower() or "namesrv" in text.lower()]


def test_command_that_is_not_here_is_not_supported_and_names_mqadmin(site):
    for words in (("queryMsgById", "-i", "x"), ("help", "QueryMsgTraceById"), ("startmonitoring",)):
        ran = site.rmq.run("mqadmin", *words)

        assert (ran.code, ran.out, ran.err.count("\n")) == (ExitCode.NOT_SUPPORTED, "", 1)
        assert "is not part of rmq mqadmin: use RocketMQ's own mqadmin" in ran.err


def test_name_that_is_no_command_is_told_as_mqadmin_tells_it(site):
    ran = site.rmq.run("mqadmin", "topicz")

    assert (ran.code, ran.out, ran.err) == (0, "The sub command topicz not exist.\n", "")


def test_name_servers_come_from_the_option_then_the_environment(site):
    from_environment = site.rmq.run("mqadmin", "topicList")
    from_option = site.rmq.run("mqadmin", "topicList", "-n", NOWHERE)
    before_it = site.rmq.run("--namesrv", NOWHERE, "mqadmin", "topicList")

    assert (from_environment.code, "Orders" in from_environment.out.split("\n")) == (0, True)
    assert (from_option.code, from_option.out) == (3, "")
    assert before_it.code == 3
    assert "127.0.0.1:1: cannot connect" in from_option.err


@pytest.mark.parametrize("names", ["nowhere", "a:b", ";"])
def test_addresses_that_are_none_are_wrong_use(site, names):
    ran = site.rmq.run("mqadmin", "topicList", "-n", names)
    broker = site.rmq.run("mqadmin", "brokerStatus", "-b", names)

    assert (ran.code, broker.code) == (2, 2)
    assert "is not host:port" in ran.err
    assert "is not the host:port of a server" in broker.err


def test_kv_entries_are_changed_at_every_name_server(site):
    assert site.rmq.run("mqadmin", "updateKvConfig", "-s", "NS", "-k", "key", "-v", "value").code == 0
    assert [
        site.rmq.items("kv", "get", "NS", "key", "-n", each.address)[0]["value"] for each in (site.ns1, site.ns2)
    ] == [
        "value",
        "value",
    ]
    assert site.rmq.run("mqadmin", "deleteKvConfig", "-s", "NS", "-k", "key").code == 0
    assert site.rmq.run("kv", "get", "NS", "key").code == 4


def test_write_permission_fails_at_one_name_server_and_is_taken_at_the_other(site):
    ran = site.rmq.run("mqadmin", "wipeWritePerm", "-b", "broker-a", "-n", f"{NOWHERE};{site.ns1.address}")

    assert ran.code == 7
    assert re.fullmatch(
        rf"wipe write perm of broker\[broker-a\] in name server\[{NOWHERE}\] Failed\n"
        rf"wipe write perm of broker\[broker-a\] in name server\[{site.ns1.address}\] OK, [1-9]\d*\n",
        ran.out,
    )
    assert ran.err.splitlines()[-1] == "rmq: 1 of the requests failed"
    assert site.rmq.run("mqadmin", "addWritePerm", "-b", "broker-a").code == 0


def test_refusal_of_a_broker_is_one_sentence(site):
    site.broker.answers[UPDATE_TOPIC] = answer(code=DENIED, remark="The\x1b[2J broker's permission\nat Java.line")
    ran = site.rmq.run("mqadmin", "updateTopic", "-t", "Orders", "-c", "DefaultCluster")

    assert (ran.code, ran.out) == (5, "")
    assert ran.err == f"rmq: {site.broker.address}: refused with code 16: The\\x1b[2J broker's permission\n"


def test_answer_that_is_none_is_one_sentence(site):
    site.broker.answers[RUNTIME] = answer("<html>")
    ran = site.rmq.run("mqadmin", "brokerStatus", "-c", "DefaultCluster")

    assert (ran.code, ran.out) == (1, "")
    assert "the answer cannot be read" in ran.err


def test_names_are_shown_as_text(site, tmp_path):
    line = register(site.ns1, "broker-o", "127.0.0.1:2", ODD_NAMES)
    try:
        ran = site.rmq.run("mqadmin", "topicList", "-n", site.ns1.address)
    finally:
        line.close()

    shown = set(ran.out.splitlines())
    assert {
        'it\'s "quoted"',
        "<script>alert(1)</script>",
        "订单主题",
        "x" * 255,
        "a\\u3164b",
        "=cmd|calc",
    } <= shown
    assert "\u3164" not in ran.out


def test_requests_are_signed_with_the_keys_of_mqadmin(site, tmp_path):
    home = tmp_path / "rocketmq"
    (home / "conf").mkdir(parents=True)
    keys = home / "conf" / "tools.yml"
    keys.write_text("accessKey: rocketmq2\nsecretKey: 12345678\n")
    keys.chmod(0o644)
    site.broker.answers[CLEAN_TOPICS] = answer()
    words = ("mqadmin", "cleanUnusedTopic", "-b", site.broker.address)
    site.rmq.environment["ROCKETMQ_HOME"] = str(home)
    assert site.rmq.run(*words).out == "success"
    keys.write_text("accessKey: only\n")
    assert site.rmq.run(*words).code == 0

    signed, unsigned = (fields for code, fields in site.broker.received if code == CLEAN_TOPICS)
    assert (signed["AccessKey"], "Signature" in signed, unsigned) == ("rocketmq2", True, {})


def test_brokers_without_counters_are_listed(site):
    site.broker.answers[RUNTIME] = answer({"table": {"brokerVersionDesc": "V4_9_7"}})
    loads = site.rmq.run("mqadmin", "clusterList")
    totals = site.rmq.run("mqadmin", "clusterList", "-m")

    assert (loads.code, totals.code) == (0, 0)
    row = loads.out.splitlines()[1].split()
    assert row[:5] == ["DefaultCluster", "broker-a", "0", site.broker.address, "V4_9_7"]
    assert totals.out.splitlines()[1].split() == ["DefaultCluster", "broker-a", "0", "0", "0", "0"]


def test_route_without_queues_of_a_broker_is_shown(site):
    body = {
        "brokerDatas": [{"brokerAddrs": {"1": "127.0.0.1:2"}, "brokerName": "b", "cluster": "c"}],
        "filterServerTable": {},
        "queueDatas": [],
    }
    peer = AnsweringPeer({ROUTE: answer(json.dumps(body))})
    try:
        ran = site.rmq.run("mqadmin", "topicRoute", "-t", "Orders", "-l", "-n", peer.address)
        status = site.rmq.run("mqadmin", "updateTopicPerm", "-t", "Orders", "-p", "6", "-n", peer.address)
    finally:
        peer.close()

    assert ran.out.splitlines()[1].split() == ["c", "b", "{1=127.0.0.1:2}", "0", "0", "0"]
    assert (status.code, "has no queues" in status.err) == (1, True)


def test_topics_are_read_once_for_a_list(site):
    peer = AnsweringPeer({ALL_TOPICS: answer({"topicList": ["b", "a", "%RETRY%g"]})})
    try:
        ran = site.rmq.run("mqadmin", "topicList", "-n", peer.address)
    finally:
        peer.close()

    assert (sorted(ran.out.split()), [code for code, _ in peer.received]) == (["%RETRY%g", "a", "b"], [ALL_TOPICS])


def test_blank_name_is_no_command(site):
    ran = site.rmq.run("mqadmin", "", "-t", "Orders", "-c", "DefaultCluster")
    helped = site.rmq.run("mqadmin", "help", "")

    assert (ran.code, ran.out, helped.out) == (0, "The sub command  not exist.\n", "The sub command  not exist.\n")
    assert UPDATE_TOPIC not in [code for code, _ in site.broker.received]


def test_blank_name_server_or_cluster_does_not_lead_elsewhere(site):
    for words in (
        ("topicList", "-n", ""),
        ("deleteExpiredCommitLog", "-c", ""),
        ("cleanUnusedTopic", "-c", " "),
        ("deleteTopic", "-t", "Orders", "-c", ""),
    ):
        ran = site.rmq.run("mqadmin", *words)

        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran
    assert site.broker.received == []


@pytest.mark.parametrize(
    "words",
    [
        ("updateTopic", "-t", "T", "-b", NOWHERE, "-r=-+5"),
        ("updateTopic", "-t", "T", "-b", NOWHERE, "-r", "+-5"),
        ("cleanBrokerMetadata", "-a", NOWHERE, "-bn", "b", "-c", "c", "-b", "1;" + "9" * 5_000),
        ("resetOffsetByTime", "-g", "g", "-t", "T", "-s", "9" * 5_000),
    ],
)
def test_numbers_that_are_none_are_wrong_use(run_here, words):
    ran = run_here("mqadmin", *words)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran


def test_route_with_more_queues_than_can_be_is_refused(run_here):
    queues = {"brokerName": "b", "readQueueNums": 2**31 - 1, "writeQueueNums": 1, "perm": 6, "topicSysFlag": 0}
    peer = AnsweringPeer({ROUTE: answer({"brokerDatas": [], "filterServerTable": {}, "queueDatas": [queues]})})
    try:
        ran = run_here("mqadmin", "allocateMQ", "-t", "T", "-i", "a", "-n", peer.address)
    finally:
        peer.close()

    assert (ran.code, ran.err) == (1, "rmq: b: the topic is reported with 2147483647 queues, more than 65536\n")


def test_messages_on_their_way_are_not_known_of_a_broker_that_does_not_tell(run_here):
    queues = {
        '{"brokerName":"b","queueId":0,"topic":"T"}': {"brokerOffset": 9, "consumerOffset": 8, "lastTimestamp": 0},
        '{"brokerName":"b","queueId":1,"topic":"T"}': {"brokerOffset": 9, "consumerOffset": 8, "pullOffset": 9},
    }
    peer = AnsweringPeer({GROUP_STATS: answer({"consumeTps": 0.0, "offsetTable": queues})})
    brokers = [{"brokerAddrs": {"0": peer.address}, "brokerName": "b", "cluster": "c"}]
    peer.answers[ROUTE] = answer({"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": []})
    try:
        ran = run_here("mqadmin", "consumerProgress", "-g", "g", "-n", peer.address)
    finally:
        peer.close()

    _, first, second, _, *totals = ran.out.splitlines()
    assert (first.split()[-3:], second.split()[-3:]) == (["1", "N/A", "N/A"], ["1", "1", "N/A"])
    assert totals == ["Consume TPS: 0.00", "Consume Diff Total: 2", "Consume Inflight Total: N/A"]


def test_change_that_fails_everywhere_has_the_code_of_its_failure(site):
    ran = site.rmq.run("mqadmin", "wipeWritePerm", "-b", "broker-a", "-n", f"{NOWHERE};127.0.0.1:2")

    assert (ran.code, ran.err.splitlines()[-1]) == (3, "rmq: no request succeeded")


def test_change_that_fails_after_others_names_where_it_is_done(site):
    words = ("updateKvConfig", "-s", "PARTLY_DONE", "-k", "k", "-v", "v", "-n", f"{site.ns1.address};{NOWHERE}")
    kv = site.rmq.run("mqadmin", *words)
    topic = site.rmq.run(
        "mqadmin", "deleteTopic", "-t", "Orders", "-c", "DefaultCluster", "-n", f"{site.ns1.address};{NOWHERE}"
    )

    assert (kv.code, f"done at {site.ns1.address}\n" in kv.err) == (7, True), kv
    assert (topic.code, f"done at {site.broker.address}, {site.ns1.address}\n" in topic.err) == (7, True), topic


def test_change_of_several_steps_that_fails_names_where_it_is_done(site):
    unlisted = AnsweringPeer(broker_answers())
    try:
        ran = site.rmq.run("mqadmin", "updateTopic", "-b", unlisted.address, "-t", "Orders", "-o", "true")
    finally:
        unlisted.close()

    assert UPDATE_TOPIC in [code for code, _ in unlisted.received]
    assert f"order configuration was not set; done at {unlisted.address}\n" in ran.err, ran
    assert ran.code == 7


def test_clients_have_files_of_their_own_whatever_their_ids(run_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clients = [{"clientId": name, "clientAddr": "c:1", "language": "JAVA", "version": 513} for name in CLIENT_IDS]
    members = {"connectionSet": clients, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
    peer = AnsweringPeer({CONSUMERS: answer(members), RUNNING: answer({"mqTable": {}, "properties": {}})})
    brokers = [{"brokerAddrs": {"0": peer.address}, "brokerName": "b", "cluster": "c"}]
    peer.answers[ROUTE] = answer({"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": []})
    try:
        ran = run_here("mqadmin", "consumerStatus", "-g", "g", "-n", peer.address)
    finally:
        peer.close()

    printed = [line.split()[-1] for line in ran.out.splitlines() if re.match(r"\d", line)]
    assert [name.partition("/")[2] for name in printed] == ["a_b", "a_b-2", "_"]
    assert {str(each.relative_to(tmp_path)) for each in tmp_path.glob("*/*")} == set(printed)
    # The last one has a name that is too long: it is named, and the others are there.
    assert (ran.code, ran.err.count("cannot be written")) == (7, 1), ran


def test_start_of_a_member_that_is_no_number_is_taken_as_an_old_one():
    consumers = [
        RunningConsumerView(
            mq_table={}, properties={"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMER_START_TIMESTAMP": started}
        )
        for started in ("soon", "1")
    ]

    assert have_same_subscriptions(consumers, 10**13)
