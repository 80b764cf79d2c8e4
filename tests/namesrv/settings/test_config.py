"""The table of options as a whole."""

import dataclasses

import pytest

from namesrv.settings.config import NAMESRV, NameServerConfig
from serving.config.checks import conflicts
from serving.config.options import FilePath, Fixed, Secret, text_of
from serving.config.server_config import LIMITS

#: Fields that are no options: what the file holds beside them.
OF_THE_FILE = {"unknown", "stored", "others_keys"}


def test_every_field_but_what_the_file_holds_is_an_option():
    assert {each.name for each in dataclasses.fields(NameServerConfig)} == {*NAMESRV.options, *OF_THE_FILE}


@pytest.mark.parametrize("name", NAMESRV.options)
def test_a_default_is_a_value_that_its_kind_allows(name):
    default = getattr(NameServerConfig(), name)
    assert NAMESRV.options[name].kind.value_of(text_of(default)) == default


def test_no_two_options_share_a_name():
    options = NAMESRV.options.values()
    assert len({each.argument for each in options}) == len(options)
    assert len({each.variable for each in options}) == len(options)
    assert len(NAMESRV.field_of_key) == sum(1 + len(each.also) for each in options)


def test_every_explanation_is_one_sentence():
    for option in NAMESRV.options.values():
        assert option.explanation.endswith(".")
        assert "%" not in option.explanation, "argparse would take it for a format"


def test_no_request_may_change_a_file_or_a_secret_or_anything_about_tls():
    for option in NAMESRV.options.values():
        if isinstance(option.kind, FilePath | Secret) or option.key.startswith("tls."):
            assert isinstance(option.by_request, Fixed), option.key


def test_no_request_may_change_where_it_listens():
    for key in (
        "bindAddress",
        "listenPort",
        "httpBindAddress",
        "httpPort",
        "controllerListenPort",
        "controllerHttpPort",
    ):
        assert isinstance(NAMESRV.options[NAMESRV.field_of_key[key]].by_request, Fixed), key


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
