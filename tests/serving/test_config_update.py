"""What request 318 makes of a configuration."""

import pytest

from namesrv.config import NAMESRV, NameServerConfig
from remoting.codes import ResponseCode
from remoting.properties import Property
from serving.config_update import BadUpdate, ProtectedOptions, UnreadableUpdate, changes_in, updated


def update(body, **config):
    return updated(NAMESRV, NameServerConfig(**config), changes_in(body.encode()))


def test_a_change_gives_a_new_configuration_and_tells_what_changed():
    update_ = update("enableTopicList=false\nscanNotActiveBrokerInterval=5001\nneedWaitForService=false\n")
    assert update_.config == NameServerConfig(enable_topic_list=False, scan_not_active_broker_interval_ms=5001)
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


def test_an_unknown_key_is_left_aside_and_told():
    update_ = update("brokerName=a\nenableTopicList=false\n")
    assert update_.unknown == ("brokerName",)
    assert update_.config == NameServerConfig(enable_topic_list=False)


def test_only_some_of_many_unknown_keys_are_told():
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
    assert str(caught.value) == "Can not update config in black list."


def test_a_bad_value_refuses_the_whole_request_and_tells_what_is_allowed():
    with pytest.raises(BadUpdate) as caught:
        update("enableTopicList=false\nwaitSecondsForService=soon\n")
    assert caught.value.code is ResponseCode.SYSTEM_ERROR
    assert str(caught.value) == (
        "request: waitSecondsForService must be a whole number from 0 to 2147483647, not 'soon'; nothing was changed"
    )


def test_a_remark_tells_the_first_of_many_bad_values():
    with pytest.raises(BadUpdate) as caught:
        update("connectionsMax=a\nserializeType=b\nlogLevel=c\nlogFormat=d\nclusterTest=true\n")
    assert len(caught.value.bad) == 5
    assert str(caught.value).endswith("; and 2 more; nothing was changed")


def test_a_body_that_is_no_properties_text_is_refused_with_the_remark_of_java():
    with pytest.raises(UnreadableUpdate, match=r"^string2Properties error$") as caught:
        changes_in(b"a=1\nb=\\u12")
    assert caught.value.problem.line == 2
