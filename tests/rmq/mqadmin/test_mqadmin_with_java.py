"""`rmq mqadmin` prints what mqadmin 5.5.0 prints, byte for byte, at servers of Java and of ours."""

import pytest
from mqadmin_pair import check_same
from mqadmin_site import CHANGEABLE, GROUP, PRODUCERS, TOPIC

from rmq.mqadmin.table import MQADMIN_COMMANDS

pytestmark = pytest.mark.java

NS = ("-n", "{ns}")
CLUSTER = ("-c", "DefaultCluster")
HERE = sorted(name for name, entry in MQADMIN_COMMANDS.items() if entry.module)
#: A rate of the last seconds.
RATE = r"[\d.]+\d"
#: What a broker reports is another number at each request.
VALUES = (r"(?<=: ).*",)
ADDRESS = r"127\.0\.0\.1:\d+ *"
LOAD = (r"[ \d.,()|msNw-]+",)

READS = {
    "topicList": [(), CLUSTER[:1]],
    "topicRoute": [("-t", TOPIC), ("-t", TOPIC, "-l"), ("-t", "SELF_TEST_TOPIC", "-l")],
    "topicStatus": [("-t", TOPIC), ("-t", TOPIC, *CLUSTER)],
    "topicClusterList": [("-t", TOPIC)],
    "allocateMQ": [("-t", TOPIC, "-i", "10.0.0.2,10.0.0.1,10.0.0.3")],
    "updateOrderConf": [("-t", TOPIC, "-m", "what")],
    "getConsumerConfig": [("-g", GROUP), ("-g", "nobody")],
    "consumerProgress": [("-g", GROUP, "-t", TOPIC), ("-g", GROUP), ("-g", GROUP, "-t", TOPIC, "-s", "true")],
    "getBrokerConfig": [("-b", "{a}"), CLUSTER],
    # Java's can run once in a JVM: it keeps a client that it has shut down.
    "brokerConsumeStats": [("-b", "{a}")],
    "haStatus": [("-b", "{a}"), CLUSTER, ()],
    "getBrokerEpoch": [("-b", "broker-a")],
    "getNamesrvConfig": [()],
    "getSyncStateSet": [
        ("-a", "{controller}", "-b", "broker-a"),
        ("-a", "{controller}", *CLUSTER),
        ("-a", "{controller}", "-b", "nobody"),
        ("-a", "{controller}"),
    ],
}


@pytest.fixture
def pair(site_5_5):
    return site_5_5.pair


def test_all_commands_are_listed(pair):
    check_same(pair.run())


def test_usage_of_every_command_is_the_same(pair):
    for name in HERE:
        check_same(pair.run("help", name))
    check_same(pair.run("help", "nobody"))
    check_same(pair.run("nobody"))


@pytest.mark.parametrize(
    "words",
    [
        ("updateTopic",),
        ("updateTopic", "-h"),
        ("topicRoute", "-t"),
        ("topicRoute", "-t", "T", "--nope"),
        ("updateTopic", "-t", "T", "-b", "x", "-c", "y"),
        ("updateSubGroup", "-g", "G", "--consume", "true"),
        ("electMaster", "-a", "x", "-bn"),
    ],
)
def test_wrong_options_have_the_same_message_and_exit_code(pair, words):
    found = pair.run(*words)

    check_same(found)
    assert (found.ours.err, found.ours.code) == (found.java.err, found.java.code)


@pytest.mark.parametrize(
    "words", [("TOPICROUTE", "-topic", TOPIC, "-l"), ("topicRoute", f"-t{TOPIC}", "ignored"), ("topicList", "--", "-x")]
)
def test_options_may_be_written_in_every_way_of_mqadmin(pair, words):
    check_same(pair.run(words[0], *NS, *words[1:]))


@pytest.mark.parametrize("name", READS)
def test_reads_print_the_same(pair, name):
    for words in READS[name]:
        check_same(pair.run(name, *words, *NS), [rf"(?<=TPS: ){RATE}"])


@pytest.mark.parametrize(
    "words", [("topicList",), ("topicList", "-c"), ("topicRoute", "-t", TOPIC), ("getNamesrvConfig",)]
)
def test_our_name_server_is_read_as_that_of_java(pair, words):
    check_same(pair.run(*words, "-n", "{our_ns}"))


def test_controllers_are_read(pair):
    for controller in ("{controller}", "{our_controller}"):
        check_same(pair.run("getControllerMetaData", "-a", controller))
        check_same(pair.run("getControllerConfig", "-a", controller))


def test_what_changes_from_moment_to_moment_has_the_same_form(pair):
    check_same(pair.run("brokerStatus", "-b", "{a}", *NS), VALUES)
    check_same(pair.run("clusterList", *NS), LOAD)
    check_same(pair.run("clusterList", "-m", *NS), [r" +\d+"])
    check_same(pair.run("statsAll", "-t", TOPIC, *NS), [r"\d+\.\d\d +\d*\.?\d* +\d+ +\d+"])
    check_same(pair.run("statsAll", "-t", "TBW102", "-a", *NS))
    check_same(pair.run("consumerProgress", *NS), [r" +\d+ +\d+$"])


def test_clients_are_shown(pair):
    check_same(pair.run("consumerConnection", "-g", GROUP, "-b", "{a}", *NS))
    # Of several brokers mqadmin takes any: the client has another port at each.
    check_same(pair.run("consumerConnection", "-g", GROUP, *NS), [ADDRESS])
    check_same(pair.run("producerConnection", "-g", PRODUCERS, "-t", TOPIC, *NS), [ADDRESS])
    check_same(pair.run("producer", "-b", "{a}", *NS), [r"lastUpdateTimestamp=\d+"])


def test_consumer_is_shown_with_its_file(pair):
    found = pair.run("consumerStatus", "-g", GROUP, *NS)
    client_id = found.ours.out.splitlines()[1].split()[1]

    check_same(found, [r"\d{13}(?=/)"])
    check_same(pair.run("consumerStatus", "-g", GROUP, "-i", client_id, *NS), [r"\d{17}", r" +\d+\.\d\d", r"\d+$"])


def test_name_servers_are_changed(pair):
    for server in ("{ns}", "{our_ns}"):
        for words in (
            ("updateKvConfig", "-s", "NS", "-k", "key", "-v", "a b"),
            ("deleteKvConfig", "-s", "NS", "-k", "key"),
            ("updateOrderConf", "-t", TOPIC, "-m", "put", "-v", "broker-a:4"),
            ("updateOrderConf", "-t", TOPIC, "-m", "get"),
            ("updateOrderConf", "-t", TOPIC, "-m", "delete"),
            ("wipeWritePerm", "-b", "broker-b"),
            ("addWritePerm", "-b", "broker-b"),
            ("updateNamesrvConfig", "-k", CHANGEABLE, "-v", "false"),
        ):
            check_same(pair.run(*words, "-n", server))


def test_controllers_are_changed(pair):
    for controller in ("{controller}", "{our_controller}"):
        check_same(pair.run("updateControllerConfig", "-a", controller, "-k", "electMasterMaxRetryCount", "-v", "4"))


@pytest.mark.parametrize(
    "words",
    [
        ("updateTopic", "-t", "NAME", "-b", "{b}", "-r", "3", "-w", "2", "-p", "4", "-u", "true", "-s", "true"),
        ("updateTopic", "-t", "NAME", *CLUSTER, "-o", "true", "-a", "+message.type=FIFO"),
        ("updateSubGroup", "-g", "NAME", "-b", "{b}", "-s", "false", "-r", "3", "-q", "2", "-d", "true"),
        ("updateSubGroup", "-g", "NAME", *CLUSTER, "-p", '{"type":"EXPONENTIAL","exponentialRetryPolicy":{"max":9}}'),
        ("setConsumeMode", "-g", "NAME", "-t", TOPIC, "-m", "POP", "-q", "3", "-b", "{b}"),
        ("setConsumeMode", "-g", "NAME", "-t", TOPIC, "-m", "PULL", *CLUSTER),
        ("updateTopic", "-t", "NAME", "-c", "nowhere"),
        ("updateBrokerConfig", "-b", "{b}", "-k", "fileReservedTime", "-v", "47"),
        ("updateBrokerConfig", *CLUSTER, "-a", "true", "-k", "fileReservedTime", "-v", "48"),
        ("updateBrokerConfig", "-k", "fileReservedTime", "-v", "48"),
        ("cleanExpiredCQ", "-b", "{b}"),
        ("cleanUnusedTopic", *CLUSTER),
        ("cleanUnusedTopic", "-c", "nowhere"),
        ("deleteExpiredCommitLog",),
    ],
)
def test_changes_print_the_same(pair, words):
    check_same(pair.apart(*words, *NS))


def test_permissions_are_changed_and_topics_deleted(pair):
    for words in (
        ("updateTopic", "-t", "PermNAME", "-b", "{b}"),
        ("updateTopicPerm", "-t", "PermNAME", "-b", "{b}", "-p", "4"),
        ("updateTopicPerm", "-t", "PermNAME", "-b", "10.0.0.1:1", "-p", "4"),
        ("updateTopicPerm", "-t", "PermNAME", "-p", "6"),
        ("deleteTopic", "-t", "PermNAME", *CLUSTER),
    ):
        check_same(pair.apart(*words, *NS))
    assert pair.java("topicRoute", "-t", "PermByOurs", *NS).out == ""


@pytest.mark.parametrize("when", ["1700000000000", "2023-01-01#00:00:00:000", "now"])
def test_offsets_of_a_group_that_never_read_are_reset(pair, when):
    for words in (
        ("updateSubGroup", "-g", "Reset-NAME", *CLUSTER),
        ("resetOffsetByTime", "-g", "Reset-NAME", "-t", TOPIC, "-s", when),
    ):
        check_same(pair.apart(*words, *NS), [r"(?<=timestamp\(long\)\[)\d+"])
    check_same(pair.run("consumerProgress", "-g", "Reset-ByOurs", "-t", TOPIC, *NS))


def test_offsets_are_reset_by_queue_skipped_cloned_and_deleted(pair):
    for words in (
        ("updateSubGroup", "-g", "Skip-NAME", *CLUSTER),
        ("resetOffsetByTime", "-g", "Skip-NAME", "-t", TOPIC, "-s", "0", "-b", "{a}", "-q", "1", "-o", "2"),
        ("skipAccumulatedMessage", "-g", "Skip-NAME", "-t", TOPIC),
        ("cloneGroupOffset", "-s", GROUP, "-d", "Skip-NAME", "-t", TOPIC),
        ("consumerProgress", "-g", "Skip-NAME", "-t", TOPIC),
        ("deleteSubGroup", "-g", "Skip-NAME", "-b", "{a}", "-r", "true"),
        ("deleteSubGroup", "-g", "Skip-NAME", *CLUSTER, "-r", "true"),
    ):
        check_same(pair.apart(*words, *NS), [rf"(?<=TPS: ){RATE}"])


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("topicRoute", "-t", "nowhere"), 1, "refused with code 17: No topic route info"),
        (("consumerConnection", "-g", "nobody"), 1, "No topic route info"),
        (("getBrokerEpoch", "-b", "broker-b"), 1, "this request only for controllerMode"),
        (("electMaster", "-a", "{controller}", "-b", "1", "-bn", "broker-a", *CLUSTER), 1, "code 2011"),
        (("cleanBrokerMetadata", "-a", "{controller}", "-bn", "broker-a", *CLUSTER), 1, "code 2009"),
        (("cleanBrokerMetadata", "-a", "{controller}", "-bn", "broker-a"), 2, "clusterName option can not be empty"),
        (("updateTopic", "-t", "T", "-b", "{b}", "-p", "9"), 2, "topicPermission value: 9 is invalid"),
        (("updateTopic", "-t", "T", "-b", "{b}", "-r", "many"), 2, "-r: many is not a number"),
        (("resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", "never"), 2, "never is not a time"),
        (("brokerStatus", "-b", "127.0.0.1:1"), 3, "cannot connect"),
        (("producerConnection", "-g", PRODUCERS + "-gone", "-t", TOPIC), 1, "refused with code 1"),
    ],
)
def test_a_stack_trace_of_mqadmin_is_a_sentence_and_an_exit_code(pair, words, code, sentence):
    found = pair.run(*words, *NS)

    assert (found.ours.out, found.java.out) == ("", ""), found
    assert ("\tat org.apache.rocketmq" in found.java.err, found.java.code) == (True, 0), found
    assert (found.ours.code, sentence in found.ours.err, found.ours.err.count("\n")) == (code, True, 1), found
