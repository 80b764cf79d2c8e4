"""Every NameServer command of mqadmin prints the same against our NameServer as against the original.

The same brokers are registered at both. Masked are the NameServer's own address and what changes by the second: times,
rates, disk use. Lines are compared as a set of lines: the order of topics and brokers is nobody's promise.
"""

import re

import pytest
from peers.jars import REPOSITORY, V4_9, V5_5
from peers.waiting import wait_until
from peers.wire import DELETE_TOPIC, GET_CONFIG, GET_KV_CONFIG, brokers_in, perm_in

pytestmark = pytest.mark.java

#: Properties in which `getNamesrvConfig` may differ, by the name that namesrv/DIFFERENCES.md gives to the difference.
LISTED_ONLY_HERE = {
    "config-listing": {
        "brokersMax",
        "brokersPerConnectionMax",
        "configWhiteList",
        "connectionsMax",
        "consoleEnable",
        "controllerHttpPort",
        "controllerListenPort",
        "frameMaxLength",
        "historyBytesMax",
        "httpBindAddress",
        "httpPort",
        "logFormat",
        "logLevel",
        "lookupPort",
        "memberPort",
        "routeWatchBytesMax",
        "routeWatchChangesMax",
        "routeWatchTopicsMax",
        "routeWatchersMax",
        "routeWorkers",
        "queuedBytesMax",
        "roleAddressFile",
        "serializeType",
        "tls.client.authServer",
        "tls.config.file",
        "tls.enable",
        "tls.server.authClient",
        "tls.server.mode",
        "tls.server.need.client.auth",
        "tls.test.mode.enable",
        "partialFrameBytesMax",
        "responseBufferBytesMax",
        "topicBytesMax",
        "topicSetsPerHostMax",
    }
}
LISTED_ONLY_BY_THE_ORIGINAL = {"rocketmq-home-optional": {"rocketmqHome"}}
OTHER_DEFAULTS = {"scan-interval": {"scanNotActiveBrokerInterval"}}

#: Properties of each server's own place.
OWN = {"configStorePath", "kvConfigPath", "listenPort", "rocketmqHome"}


@pytest.fixture(scope="module", params=[V5_5, V4_9])
def tool(request, module_lab, mqadmin):
    return mqadmin if request.param == V4_9 else module_lab.mqadmin(version=request.param)


@pytest.fixture
def run_at_both(fleet, tool):
    """Run commands against the original, then all of them against ours; return both transcripts, masked."""

    def run(*commands):
        return [
            [_masked(tool.run(*_words(command, server), namesrv=[server.address]), server) for command in commands]
            for server in (fleet.original, fleet.namesrv)
        ]

    return run


@pytest.fixture
def topic(fleet, mqadmin):
    """A topic on all masters, known to both NameServers."""
    mqadmin.update_topic("-c", "DefaultCluster", "-t", "compared", namesrv=[fleet.namesrv.address])
    masters = {broker.name for broker in fleet.masters}
    for server in (fleet.original, fleet.namesrv):
        wait_until(lambda at=server: brokers_in(at.caller.route("compared")) == masters, seconds=5, what="the topic")
    return "compared"


def _words(command, server):
    return command.replace("NAMESRV", server.address).split()


def _masked(printed, server):
    printed = printed.replace(server.address, "NAMESRV")
    printed = re.sub(r"(?<![\d.])\d+\.\d+(?![\d.])", "NUMBER", printed)
    printed = re.sub(r"\d+ms", "TIME", printed)
    # What DIFFERENCES.md calls `config-protected`: the reason follows.
    printed = re.sub(r"(?<=Can not update config in black list\.) \w+: .*?configuration file", "", printed)
    printed = re.sub(r"\d+-\d+\(", "TIMER(", printed)
    return sorted(" ".join(line.split()).rstrip(",") for line in printed.splitlines() if line.strip())


def _assert_all_printed_alike(transcripts):
    original, ours = transcripts
    assert all(original), "a command printed nothing at the original"
    for expected, printed in zip(original, ours, strict=True):
        assert printed == expected


def _property(line):
    key, _, value = line.partition("=")
    return key.strip(), value.strip()


def _named(differences):
    """Return the properties of these differences, each of which has to be described under its name."""
    described = (REPOSITORY / "namesrv" / "DIFFERENCES.md").read_text()
    assert all(f"`{name}`" in described for name in differences)
    return set().union(*differences.values())


def test_cluster_lists_are_alike(run_at_both):
    _assert_all_printed_alike(run_at_both("clusterList", "clusterList -m"))


def test_topic_lists_are_alike(run_at_both, topic):
    _assert_all_printed_alike(run_at_both("topicList"))


def test_topics_and_their_clusters_are_listed_alike(run_at_both, topic):
    # The third column, consumer groups, is what some broker of the topic knows, and any may be asked.
    original, ours = ({tuple(line.split()[:2]) for line in printed[0]} for printed in run_at_both("topicList -c"))
    assert ("DefaultCluster", topic) in original
    assert ours == original


def test_routes_are_alike(run_at_both, topic):
    transcripts = run_at_both(f"topicRoute -t {topic}", "topicRoute -t b550", f"topicClusterList -t {topic}")
    _assert_all_printed_alike(transcripts)


def test_a_route_that_does_not_exist_is_refused_alike(run_at_both):
    transcripts = run_at_both("topicRoute -t nowhere", "topicClusterList -t nowhere")
    _assert_all_printed_alike(transcripts)
    assert any("CODE: 17" in line for line in transcripts[0][0])


def test_topics_are_made_and_deleted_alike(run_at_both, fleet):
    transcripts = run_at_both(
        "updateTopic -c DefaultCluster -t brief -r 4 -w 4",
        "updateTopic -c DefaultCluster -t brief -r 8 -w 8 -u true",
        "deleteTopic -c DefaultCluster -t brief",
        "topicRoute -t brief",
    )
    _assert_all_printed_alike(transcripts)
    for server in (fleet.original, fleet.namesrv):
        server.caller.request(DELETE_TOPIC, {"topic": "brief"})  # the brokers told both, the tool only the second


def test_key_values_are_put_and_deleted_alike(run_at_both, fleet):
    transcripts = run_at_both("updateKvConfig -s space -k key -v value")
    _assert_all_printed_alike(transcripts)
    for server in (fleet.original, fleet.namesrv):
        assert server.caller.request(GET_KV_CONFIG, {"namespace": "space", "key": "key"}).fields == {"value": "value"}
    _assert_all_printed_alike(run_at_both("deleteKvConfig -s space -k key", "deleteKvConfig -s space -k key"))


def test_order_configurations_are_put_shown_and_deleted_alike(run_at_both):
    transcripts = run_at_both(
        "updateOrderConf -t ordered -m put -v b550:4;b514:4",
        "updateOrderConf -t ordered -m get",
        "updateOrderConf -t ordered -m delete",
        "updateOrderConf -t ordered -m get",
    )
    _assert_all_printed_alike(transcripts)
    assert any("b550:4;b514:4" in line for line in transcripts[0][1])


def test_write_permission_is_wiped_and_added_alike(run_at_both, fleet, topic):
    _assert_all_printed_alike(run_at_both("wipeWritePerm -b b514", f"topicRoute -t {topic}", "wipeWritePerm -b nobody"))
    assert perm_in(fleet.namesrv.caller.route(topic), "b514") == 4
    _assert_all_printed_alike(run_at_both("addWritePerm -b b514", f"topicRoute -t {topic}"))
    assert perm_in(fleet.namesrv.caller.route(topic), "b514") == 6


def test_the_configuration_is_shown_alike(run_at_both):
    original, ours = (dict(_property(line) for line in printed[0]) for printed in run_at_both("getNamesrvConfig"))
    assert set(ours) - set(original) <= _named(LISTED_ONLY_HERE)
    assert set(original) - set(ours) <= _named(LISTED_ONLY_BY_THE_ORIGINAL)
    compare_topics = {key for key in set(original) & set(ours) if original[key] != ours[key]}
    assert compare_topics <= _named(OTHER_DEFAULTS) | OWN


def test_the_configuration_is_changed_alike(run_at_both, fleet):
    transcripts = run_at_both(
        "updateNamesrvConfig -k waitSecondsForService -v 46",
        "updateNamesrvConfig -k nobodyKnows -v this",
        "updateNamesrvConfig -k kvConfigPath -v /elsewhere",
    )
    _assert_all_printed_alike(transcripts)
    for server in (fleet.original, fleet.namesrv):
        text = server.caller.request(GET_CONFIG).body.decode()
        assert "waitSecondsForService=46\n" in text
        assert "nobodyKnows" not in text


def test_a_request_that_no_nameserver_knows_is_refused_alike(run_at_both):
    transcripts = run_at_both("brokerStatus -b NAMESRV")
    _assert_all_printed_alike(transcripts)
    assert any("CODE: 3" in line for line in transcripts[0][0])
