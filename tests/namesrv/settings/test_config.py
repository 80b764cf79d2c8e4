"""The table of options as a whole."""

import pytest

from namesrv.settings.config import NAMESRV, NameServerConfig
from serving.config.checks import conflicts
from serving.config.server_config import LIMITS


def test_a_change_by_request_counts_at_once_where_the_present_configuration_is_read():
    assert {option.key for option in NAMESRV.options.values() if option.at_once} == {
        "brokersMax",
        "brokersPerConnectionMax",
        "deleteTopicWithBrokerRegistration",
        "enableAllTopicList",
        "enableShutdownGracefully",
        "enableTopicList",
        "logLevel",
        "namesrvAddrList",
        "needWaitForService",
        "notifyMinBrokerIdChanged",
        "orderMessageEnable",
        "returnOrderTopicConfigToBroker",
        "scanNotActiveBrokerInterval",
        "serverChannelMaxIdleTimeSeconds",
        "shutdownWaitTimeSeconds",
        "supportActingMaster",
        "topicSetsPerHostMax",
        "waitSecondsForService",
    }


def test_a_configuration_does_not_show_its_secrets():
    config = NameServerConfig(tls_server_key_password="hunter2", tls_client_key_password="hunter3")
    assert "hunter" not in repr(config)


@pytest.mark.parametrize(
    ("low", "high", "limits"),
    [
        (0, 0, (LIMITS.response_buffer_low_bytes, LIMITS.response_buffer_high_bytes)),
        (1, 0, (LIMITS.response_buffer_low_bytes, LIMITS.response_buffer_high_bytes)),
        (0, 1, (LIMITS.response_buffer_low_bytes, LIMITS.response_buffer_high_bytes)),
        (10, 20, (10, 20)),
    ],
)
def test_water_marks_count_only_if_both_are_set(low, high, limits):
    config = NameServerConfig(write_buffer_low_water_mark_bytes=low, write_buffer_high_water_mark_bytes=high)
    assert config.write_buffer_bytes == limits


@pytest.mark.parametrize("other", ["listen_port", "http_port"])
def test_member_port_has_to_be_a_port_of_its_own(other):
    config = NameServerConfig(member_port=9866, **{other: 9866})
    assert [field for field, _ in conflicts(NAMESRV, config)] == ["member_port"]
    assert not list(conflicts(NAMESRV, NameServerConfig(member_port=9866)))


def test_member_port_differs_from_those_of_a_controller_in_the_same_process():
    config = NameServerConfig(member_port=9878, enable_controller_in_namesrv=True)
    assert list(conflicts(NAMESRV, config)) == [("member_port", "another port than controllerListenPort")]
