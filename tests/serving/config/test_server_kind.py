"""What tells servers apart, and a configuration as properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from other_server import OTHER, OtherConfig

from namesrv.settings.config import NAMESRV, NameServerConfig
from remoting.protocol.properties import Property, file_text, listing_text, parse
from serving.config import arguments
from serving.config.checks import ConfigError, conflicts
from serving.config.console_options import ConsolePeerList
from serving.config.options import (
    AddressList,
    AlwaysFalse,
    FilePath,
    Flag,
    NamedAddressList,
    OneOf,
    Secret,
    Text,
    Whole,
    text_of,
)
from serving.config.server_kind import listed_properties, persisted_properties, shown_unknown
from serving.config.sources import PropertiesFile, Sources, from_sources
from serving.config.update import BadUpdate, changes_in, updated
from serving.logging.events import common_keys
from serving.metrics.families import ServerFamilies
from serving.metrics.label_values import UNKNOWN, request_name

HOME = {"HOME": "/h"}


def test_options_of_any_server_have_the_defaults_of_each():
    config = from_sources(OTHER, Sources(environment=HOME))
    assert config == OtherConfig(config_store_path="/h/other/other.properties")
    assert (config.listen_port, NAMESRV.defaults.listen_port) == (1234, 9876)


def test_the_own_options_come_first_and_each_once():
    names = list(OTHER.options)
    shared = ["config_store_path", "config_black_list", "listen_port", "http_port", "frame_bytes_max"]
    assert names[:7] == [*shared, "least", "most"]
    assert len(names) == len(set(names))
    assert set(NAMESRV.options) & set(names) == set(names) - {"least", "most"}


def test_each_server_has_variables_of_its_own():
    given = HOME | {"RMQ_OTHER_LISTEN_PORT": "7", "RMQ_NAMESRV_LISTEN_PORT": "8", "RMQ_OTHER_CONFIG_FILE": "/o.conf"}
    assert from_sources(OTHER, Sources(environment=given)).listen_port == 7
    assert from_sources(NAMESRV, Sources(environment=given)).listen_port == 8
    assert arguments.parse(OTHER, [], given).config_file == "/o.conf"
    assert arguments.parse(NAMESRV, [], given).config_file == ""


def test_help_describes_the_server_that_prints_it(capsys):
    with pytest.raises(SystemExit):
        arguments.parse(OTHER, ["-h"], {})
    printed = capsys.readouterr().out
    assert "The other server of Apache RocketMQ." in printed
    assert "RMQ_OTHER_LISTEN_PORT=1234" in printed
    assert "--least N" in printed
    assert "NAMESRV_" not in printed


def test_values_that_do_not_go_together_in_one_server_are_found_at_the_start_and_in_requests():
    printed = "least must be at most most, which is 5, not '6'"
    with pytest.raises(ConfigError, match=f"option --least: {printed}"):
        from_sources(OTHER, Sources(environment=HOME, options={"least": "6"}))
    with pytest.raises(BadUpdate, match=f"request: {printed}"):
        updated(OTHER, OTHER.defaults, changes_in(b"least=6"))


def test_a_change_by_request_gives_a_configuration_of_the_same_server():
    update = updated(OTHER, OTHER.defaults, changes_in(b"most=7\nkvConfigPath=/x"))
    assert (update.config, update.changed, update.unknown) == (OtherConfig(most=7), ("most",), ("kvConfigPath",))
    assert listed_properties(OTHER, update.config)["most"] == "7"


def test_requests_of_other_servers_have_no_name():
    assert request_name(OTHER, 904) == "broker_heartbeat"
    assert request_name(OTHER, 105) == UNKNOWN
    assert request_name(NAMESRV, 105) == "get_routeinfo_by_topic"


def test_metrics_and_log_lines_differ_by_server():
    assert ServerFamilies(OTHER).traffic.requests.name == "rocketmq_other_requests_total"
    assert [key.name for key in common_keys(OTHER)][3] == "other_id"


# The answer to request 319 of the Java NameServer 5.5.0 (mqadmin 5.5.0 getNamesrvConfig).
JAVA_LISTING = """\
bindAddress=127.0.0.1
clientRequestThreadPoolNums=8
clientRequestThreadPoolQueueCapacity=50000
clusterTest=false
configBlackList=configBlackList;configStorePath;kvConfigPath
configStorePath=/opt/rocketmq/c1/ns.conf
defaultThreadPoolNums=16
defaultThreadPoolQueueCapacity=10000
deleteTopicWithBrokerRegistration=false
enableAllTopicList=true
enableControllerInNamesrv=false
enableShutdownGracefully=false
enableTopicList=true
kvConfigPath=/opt/rocketmq/c1/ns/namesrv/kvConfig.json
listenPort=9876
needWaitForService=false
notifyMinBrokerIdChanged=false
orderMessageEnable=false
productEnvName=center
returnOrderTopicConfigToBroker=true
rocketmqHome=/opt/rocketmq/c1/ns
scanNotActiveBrokerInterval=5000
serverAsyncSemaphoreValue=64
serverCallbackExecutorThreads=0
serverChannelMaxIdleTimeSeconds=120
serverNettyWorkerGroupEnable=true
serverOnewaySemaphoreValue=256
serverPooledByteBufAllocatorEnable=true
serverSelectorThreads=3
serverSocketBacklog=1024
serverSocketRcvBufSize=0
serverSocketSndBufSize=0
serverWorkerThreads=8
shutdownWaitTimeSeconds=30
supportActingMaster=false
unRegisterBrokerQueueCapacity=3000
useEpollNativeSelector=false
waitSecondsForService=45
writeBufferHighWaterMark=0
writeBufferLowWaterMark=0
"""


def test_the_properties_of_java_are_listed_as_java_lists_them():
    config = NameServerConfig(
        bind_address="127.0.0.1",
        config_store_path="/opt/rocketmq/c1/ns.conf",
        kv_config_path="/opt/rocketmq/c1/ns/namesrv/kvConfig.json",
        rocketmq_home="/opt/rocketmq/c1/ns",
        scan_not_active_broker_interval_ms=5000,
    )
    java_keys = {each.key for each in parse(JAVA_LISTING.encode())}
    listed = listed_properties(NAMESRV, config)
    assert listing_text({key: text for key, text in listed.items() if key in java_keys}) == JAVA_LISTING
    assert set(listed) - java_keys == {
        "brokersMax",
        "brokersPerConnectionMax",
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


def test_what_came_from_the_file_is_stored_and_nothing_else():
    lines = (Property("productEnvName", "", 1), Property("tls.server.keyPassword", "hunter2", 2), Property("x", "1", 3))
    sources = Sources(
        environment={"HOME": "/h", "RMQ_NAMESRV_TLS_CLIENT_KEY_PASSWORD": "hunter3"},
        options={"listenPort": "7"},
        file=PropertiesFile("/ns.conf", lines),
    )
    config = from_sources(NAMESRV, sources)
    assert config.tls_client_key_password == "hunter3"
    assert persisted_properties(config) == {"productEnvName": "", "tls.server.keyPassword": "hunter2", "x": "1"}


def test_a_secret_is_never_listed():
    config = NameServerConfig(
        tls_server_key_password="hunter2", unknown=(Property("tls.sever.keyPassword", "hunter3"), Property("x", "1"))
    )
    assert listed_properties(NAMESRV, config)["tls.server.keyPassword"] == "******"
    assert listed_properties(NAMESRV, config)["tls.sever.keyPassword"] == "******"
    assert listed_properties(NAMESRV, config)["x"] == "1"


def test_an_unknown_property_is_masked_only_if_its_name_promises_a_secret():
    assert shown_unknown("mySecretKey", "x") == "******"
    assert shown_unknown("mySecretKey", "") == ""
    assert shown_unknown("other", "x") == "x"


LINES = st.text("/~aé\\=:#!🚀 ", max_size=9).map(str.strip).filter(lambda text: text and text[0] != "~")
VALUES = {
    AlwaysFalse: lambda _: st.just(False),
    Flag: lambda _: st.booleans(),
    Whole: lambda kind: st.integers(kind.least, kind.most),
    OneOf: lambda kind: st.sampled_from(kind.words),
    Secret: lambda _: st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    Text: lambda _: LINES,
    FilePath: lambda _: LINES.filter(lambda text: "://" not in text),
    AddressList: lambda _: st.just("ns1:9876;ns2:9876"),
    NamedAddressList: lambda _: st.just("10.0.0.0/8;broker-a:10911"),
    ConsolePeerList: lambda _: st.just("namesrv=http://ns1:9880;controller=https://c1:9881"),
}
TOGETHER = {
    "brokerAccessKey",
    "brokerAccessKeyPath",
    "brokerSecretKey",
    "brokerSecretKeyPath",
    "writeBufferLowWaterMark",
    "tls.server.keyPath",
    "tls.server.certPath",
    "tls.client.keyPath",
    "tls.client.certPath",
}
CONFIGS = st.builds(
    NameServerConfig,
    kv_config_path=st.just("/kv"),
    config_store_path=st.just("/ns.conf"),
    http_port=st.just(0),
    **{
        name: VALUES[type(option.kind)](option.kind)
        for name, option in NAMESRV.options.items()
        if option.key not in {*TOGETHER, "kvConfigPath", "configStorePath", "httpPort", "configWhiteList"}
    },
    unknown=st.dictionaries(st.text("ab=é", min_size=1), st.text(" a\\")).map(
        lambda items: tuple(Property(key, value) for key, value in sorted(items.items()))
    ),
).filter(lambda config: not any(conflicts(NAMESRV, config)))


@given(CONFIGS)
def test_what_is_stored_starts_the_same_configuration_again(config):
    chosen = [Property(option.key, text_of(getattr(config, name))) for name, option in NAMESRV.options.items()]
    first = from_sources(NAMESRV, Sources(file=PropertiesFile("/ns.conf", (*chosen, *config.unknown))))
    stored = parse(file_text(persisted_properties(first)).encode("ascii"))
    again = from_sources(NAMESRV, Sources(file=PropertiesFile("/ns.conf", tuple(stored))))
    assert listed_properties(NAMESRV, again) == listed_properties(NAMESRV, first)
    assert persisted_properties(again) == persisted_properties(first)
    assert [(each.key, each.value) for each in again.unknown] == [(each.key, each.value) for each in config.unknown]
