"""A server of another kind: its own options beside those of any server, and its own names."""

import pytest
from other_server import OTHER, OtherConfig

from namesrv.settings.config import NAMESRV
from serving.config.arguments import parse
from serving.config.checks import ConfigError
from serving.config.code_names import UNKNOWN, request_name
from serving.config.sources import Sources, from_sources
from serving.config.text import listed_properties
from serving.config.update import BadUpdate, changes_in, updated
from serving.logging.events import common_keys
from serving.metrics.families import ServerFamilies

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
    assert parse(OTHER, [], given).config_file == "/o.conf"
    assert parse(NAMESRV, [], given).config_file == ""


def test_help_speaks_of_the_server_that_is_asked(capsys):
    with pytest.raises(SystemExit):
        parse(OTHER, ["-h"], {})
    told = capsys.readouterr().out
    assert "The other server of Apache RocketMQ." in told
    assert "RMQ_OTHER_LISTEN_PORT=1234" in told
    assert "--least N" in told
    assert "NAMESRV_" not in told


def test_values_that_do_not_go_together_in_one_server_are_found_at_the_start_and_in_requests():
    told = "least must be at most most, which is 5, not '6'"
    with pytest.raises(ConfigError, match=f"option --least: {told}"):
        from_sources(OTHER, Sources(environment=HOME, options={"least": "6"}))
    with pytest.raises(BadUpdate, match=f"request: {told}"):
        updated(OTHER, OTHER.defaults, changes_in(b"least=6"))


def test_a_change_by_request_gives_a_configuration_of_the_same_server():
    update = updated(OTHER, OTHER.defaults, changes_in(b"most=7\nkvConfigPath=/x"))
    assert (update.config, update.changed, update.unknown) == (OtherConfig(most=7), ("most",), ("kvConfigPath",))
    assert listed_properties(OTHER, update.config)["most"] == "7"


def test_requests_of_other_servers_have_no_name():
    assert request_name(OTHER, 904) == "broker_heartbeat"
    assert request_name(OTHER, 105) == UNKNOWN
    assert request_name(NAMESRV, 105) == "get_routeinfo_by_topic"


def test_metrics_and_log_lines_tell_servers_apart():
    assert ServerFamilies(OTHER).requests.name == "rocketmq_other_requests_total"
    assert [key.name for key in common_keys(OTHER)][3] == "other_id"
