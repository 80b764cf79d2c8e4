"""What request 318 makes of a configuration."""

import pytest

from namesrv.settings.config import NAMESRV, NameServerConfig
from remoting.protocol.codes import ResponseCode
from remoting.protocol.properties import Property
from serving.config.update import BadUpdate, ProtectedOptions, UnreadableUpdate, changes_in, updated

IDLE_WHY = "a lower value disconnects live brokers, a higher one keeps idle peers connected"
#: What operators may open.
OPENED = "enableTopicList;needWaitForService;waitSecondsForService;serializeType"


def update(body, **config):
    config.setdefault("config_white_list", OPENED)
    return updated(NAMESRV, NameServerConfig(**config), changes_in(body.encode()))


def test_a_change_gives_a_new_configuration_and_what_changed():
    update_ = update("enableTopicList=false\nscanNotActiveBrokerInterval=5001\nneedWaitForService=false\n")
    assert update_.config == NameServerConfig(
        config_white_list=OPENED, enable_topic_list=False, scan_not_active_broker_interval_ms=5001
    )
    assert update_.changed == ("enableTopicList", "scanNotActiveBrokerInterval")
    assert update_.unknown == ()


def test_of_a_repeated_key_the_last_value_counts():
    assert update("waitSecondsForService=bad\nwaitSecondsForService=2\n").config.wait_for_service_seconds == 2


def test_properties_of_another_server_in_the_same_process_are_not_changed():
    """Whoever reaches the NameServer's port would else decide where the controller beside it keeps its sets."""
    held = (Property("controllerStorePath", "/data", 4),)
    with pytest.raises(ProtectedOptions) as refused:
        update("controllerStorePath=/tmp\n", unknown=held, enable_controller_in_namesrv=True)
    assert refused.value.keys == ("controllerStorePath",)
    assert update("controllerStorePath=/tmp\n", unknown=held).config.unknown[0].value == "/tmp"


@pytest.mark.parametrize("key", ["onRoleChange", "onRoleChangeSets", "onRoleChangeTokenFile"])
def test_what_a_controller_runs_is_not_changed_in_a_file_that_it_shares_with_a_nameserver(key):
    """Whoever reaches the NameServer's port would else run programs as the user of the controller."""
    with pytest.raises(ProtectedOptions, match="it decides what a controller runs") as refused:
        update(f"{key}=/tmp/x\n", unknown=(Property(key, "/usr/local/bin/move-address", 4),))
    assert refused.value.keys == (key,)


def test_an_unknown_key_is_left_aside_and_reported():
    update_ = update("brokerName=a\nenableTopicList=false\n")
    assert update_.unknown == ("brokerName",)
    assert update_.config == NameServerConfig(config_white_list=OPENED, enable_topic_list=False)


def test_only_some_of_many_unknown_keys_are_reported():
    assert len(update("".join(f"key{number}\n" for number in range(1000))).unknown) == 20


def test_a_further_property_of_the_file_can_be_changed_too():
    update_ = update("mine=2\n", unknown=(Property("mine", "1", 4), Property("other", "1", 5)))
    assert update_.config.unknown == (Property("mine", "2", 4), Property("other", "1", 5))
    assert update_.changed == ("mine",)
    assert update_.unknown == ()


def test_a_further_property_of_the_file_must_stay_on_one_line():
    with pytest.raises(BadUpdate, match=r"mine must be text of at most 4096 characters .*not 'a\\nlistenPort=1'"):
        update("mine=a\\nlistenPort=1\n", unknown=(Property("mine", "1", 4), Property("old", "a\nb", 5)))


@pytest.mark.parametrize(
    "key",
    [
        "configBlackList",
        "configStorePath",
        "kvConfigPath",
        "rocketmqHome",
        "tls.server.mode",
        "useTLS",
        "tls.server.keyPassword",
        "httpBindAddress",
        "bindAddress",
        "listenPort",
        "httpPort",
        "controllerListenPort",
        "controllerHttpPort",
        "enableTopicList",
        "brokerName",
    ],
)
def test_a_protected_property_refuses_the_whole_request(key):
    with pytest.raises(ProtectedOptions) as caught:
        update(f"logLevel=bad\n{key}=/x\n", config_black_list="enableTopicList; brokerName;")
    assert caught.value.keys == (key,)
    assert caught.value.code is ResponseCode.NO_PERMISSION
    assert str(caught.value).startswith(f"Can not update config in black list. {key}: ")


@pytest.mark.parametrize(
    ("change", "why", "instead"),
    [
        ("listenPort=1", "it decides where the server listens", "--listen-port, RMQ_NAMESRV_LISTEN_PORT"),
        ("enableTopicList=true", "configBlackList names it", "--enable-topic-list, RMQ_NAMESRV_ENABLE_TOPIC_LIST"),
        (
            "connectionsMax=1",
            "it can lock out all peers, or exhaust the memory",
            "--connections-max, RMQ_NAMESRV_CONNECTIONS_MAX",
        ),
        (
            "serverChannelMaxIdleTimeSeconds=601",
            f"a request may set it to a whole number from 120 to 600: {IDLE_WHY}",
            "--server-channel-max-idle-time-seconds, RMQ_NAMESRV_SERVER_CHANNEL_MAX_IDLE_TIME_SECONDS",
        ),
    ],
)
def test_a_refusal_names_the_reason_and_where_to_change_it_instead(change, why, instead):
    with pytest.raises(ProtectedOptions) as caught:
        update(change, config_black_list="enableTopicList")
    refusal = f"{change.split('=')[0]}: {why}; set it at the start, by {instead} or the configuration file"
    assert str(caught.value).removesuffix(", or name it in configWhiteList there") == (
        f"Can not update config in black list. {refusal}"
    )


def test_of_many_protected_properties_some_are_reported():
    with pytest.raises(ProtectedOptions) as caught:
        update("listenPort\nconnectionsMax\nhttpPort\nlogFormat\n" + "x" * 1000, config_black_list="x" * 1000)
    assert len(caught.value.keys) == 5
    assert str(caught.value).endswith("; and 2 more")


def test_a_black_listed_property_is_refused_under_every_name():
    with pytest.raises(ProtectedOptions):
        update("rocketmq.serialize.type=ROCKETMQ", config_black_list="serializeType", config_white_list="serializeType")


def test_what_the_operator_opens_takes_every_value_that_the_file_takes():
    opened = {"config_white_list": "connectionsMax; waitSecondsForService"}
    assert update("connectionsMax=1\nwaitSecondsForService=61", **opened).changed == (
        "connectionsMax",
        "waitSecondsForService",
    )
    with pytest.raises(BadUpdate):
        update("connectionsMax=0", **opened)
    with pytest.raises(ProtectedOptions):
        update("frameMaxLength=2000", **opened)


def test_a_value_that_nobody_may_give_is_reported_as_such():
    with pytest.raises(BadUpdate, match="scanNotActiveBrokerInterval must be a whole number from 1 to"):
        update("scanNotActiveBrokerInterval=soon")


def stored(file, change, **config):
    held = tuple(Property(*line.split("="), number) for number, line in enumerate(file, 1))
    config = NameServerConfig(stored=held, **{"config_white_list": OPENED} | config)
    result = updated(NAMESRV, config, changes_in(change.encode())).config
    return [f"{each.key}={each.value}" for each in result.stored]


def test_a_change_is_stored_and_the_other_lines_of_the_file_stay_as_they_are():
    assert stored(["listenPort=9876", "logLevel=INFO"], "enableTopicList=false") == [
        "listenPort=9876",
        "logLevel=INFO",
        "enableTopicList=false",
    ]


def test_what_is_so_already_is_not_stored():
    assert stored([], "enableTopicList=true\nsupportActingMaster=true") == ["supportActingMaster=true"]


def test_a_change_takes_the_place_of_every_line_of_its_property():
    file = ["ROCKETMQ_SERIALIZE_TYPE=JSON", "serializeType=JSON"]
    assert stored(file, "serializeType=ROCKETMQ", config_white_list="serializeType") == ["serializeType=ROCKETMQ"]


def test_a_bad_value_refuses_the_whole_request_and_names_what_is_allowed():
    with pytest.raises(BadUpdate) as caught:
        update("enableTopicList=false\nwaitSecondsForService=soon\n")
    assert caught.value.code is ResponseCode.SYSTEM_ERROR
    assert str(caught.value) == (
        "request: waitSecondsForService must be a whole number from 0 to 2147483647, not 'soon'; nothing was changed"
    )


def test_a_remark_names_the_first_of_many_bad_values():
    with pytest.raises(BadUpdate) as caught:
        update("enableTopicList=a\nneedWaitForService=b\nlogLevel=c\nserverWorkerThreads=d\nclusterTest=true\n")
    assert len(caught.value.bad) == 5
    assert str(caught.value).endswith("; and 2 more; nothing was changed")


def test_a_body_that_is_no_properties_text_is_refused_with_the_remark_of_java():
    with pytest.raises(UnreadableUpdate, match=r"^string2Properties error$") as caught:
        changes_in(b"a=1\nb=\\u12")
    assert caught.value.problem.line == 2
