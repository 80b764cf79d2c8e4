"""The command line."""

import re
from importlib.metadata import version

import pytest

from controller.config import CONTROLLER
from namesrv.settings.config import NAMESRV
from serving.config.arguments import Arguments, parse
from serving.config.options import text_of
from serving.config.sources import Sources, from_sources


def test_without_arguments_nothing_is_configured():
    assert parse(NAMESRV, [], {}) == Arguments(options={})


@pytest.mark.parametrize(
    "argv",
    [["-c", "/ns.conf"], ["--configFile", "/ns.conf"], ["--config-file", "/ns.conf"], ["--config-file=/ns.conf"]],
)
def test_the_configuration_file_is_named_in_the_words_of_java_or_ours(argv):
    assert parse(NAMESRV, argv, {"RMQ_NAMESRV_CONFIG_FILE": "/other"}).config_file == "/ns.conf"


def test_the_environment_can_name_the_configuration_file():
    assert parse(NAMESRV, [], {"RMQ_NAMESRV_CONFIG_FILE": "/ns.conf"}).config_file == "/ns.conf"


@pytest.mark.parametrize("argument", ["-p", "--printConfigItem", "--print-config-item"])
def test_the_configuration_can_be_printed(argument):
    assert parse(NAMESRV, [argument], {}).prints_config


@pytest.mark.parametrize("argument", ["-n", "--namesrvAddr", "--namesrv-addr"])
def test_an_address_of_name_servers_is_taken_as_java_takes_it(argument):
    assert parse(NAMESRV, [argument, "ns:9876"], {}) == Arguments(options={})


@pytest.mark.parametrize("argument", ["-n", "--namesrvAddr", "--namesrv-addr"])
def test_an_address_of_name_servers_is_a_property_of_the_controller(argument):
    assert parse(CONTROLLER, [argument, "ns-1:9876;ns-2:9876"], {}) == Arguments(
        options={"namesrvAddr": "ns-1:9876;ns-2:9876"}
    )


def test_every_property_has_an_option():
    defaults = from_sources(NAMESRV, Sources(environment={"HOME": "/h"}))
    for name, option in NAMESRV.options.items():
        text = text_of(getattr(defaults, name))
        assert parse(NAMESRV, [option.argument, text], {}).options == {option.key: text}


def test_a_switch_alone_is_on_and_the_last_of_two_options_counts():
    argv = ["--support-acting-master", "--listen-port", "1", "--listen-port=2", "--enable-topic-list", "false"]
    assert parse(NAMESRV, argv, {}).options == {
        "supportActingMaster": "true",
        "listenPort": "2",
        "enableTopicList": "false",
    }


def test_a_negative_number_is_a_value():
    argv = ["--server-callback-executor-threads", "-1"]
    assert parse(NAMESRV, argv, {}).options == {"serverCallbackExecutorThreads": "-1"}


@pytest.mark.parametrize("argv", [["--listen-prt", "1"], ["--listen"], ["--listen-port"], ["ns.conf"], ["-x"]])
def test_a_bad_option_ends_with_the_exit_code_of_java_and_a_line_that_names_it(argv, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(NAMESRV, argv, {})
    assert caught.value.code == 1
    printed = capsys.readouterr().err
    assert argv[0] in printed
    assert printed.endswith("; --help lists all options\n")
    assert printed.count("\n") == 1


@pytest.mark.parametrize("argument", ["-h", "--help"])
def test_help_lists_every_option_with_its_default(argument, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(NAMESRV, [argument], {})
    assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert all(option.argument in printed for option in NAMESRV.options.values())
    assert "--listen-port N" in printed
    assert "[9876]" in printed


def test_help_lists_which_options_a_request_changes_and_from_when(capsys):
    with pytest.raises(SystemExit):
        parse(NAMESRV, ["-h"], {})
    printed = " ".join(capsys.readouterr().out.split())
    assert "(request 206). [true] (white list) --" in printed
    assert "0: never. [120] (request: a whole number from 120 to 600) --" in printed
    assert "Threads that read frames. [8] (request) --" in printed
    assert "0: any free port. [9876] (fixed) --" in printed
    assert "in bytes. [67108864] (white list, restart) --" in printed
    assert "Marks show what a request" in printed


@pytest.mark.parametrize("kind", [NAMESRV, CONTROLLER], ids=["namesrv", "controller"])
def test_help_shows_for_every_property_whether_a_request_changes_it(kind, capsys):
    with pytest.raises(SystemExit):
        parse(kind, ["-h"], {})
    printed = capsys.readouterr().out
    properties = printed.partition("properties:")[2].partition("Marks show")[0]
    assert len(re.findall(r"\((?:fixed|white\s+list|request(?! [0-9]))\b", properties)) == len(kind.options)


def test_the_version_is_that_of_the_distribution(capsys):
    with pytest.raises(SystemExit) as caught:
        parse(NAMESRV, ["--version"], {})
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"rmq-namesrv {version('rocketmq-control-plane')}\n"
