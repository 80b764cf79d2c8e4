"""What the sources of a configuration come to."""

import pytest

from namesrv.settings.config import NAMESRV, NameServerConfig
from remoting.protocol.properties import Property, parse
from serving.config.checks import ConfigError
from serving.config.options import INT_MAX, Whole
from serving.config.sources import (
    PropertiesFile,
    Sources,
    WhyIgnored,
    from_sources,
    ignored_keys,
    load_properties,
    load_tls_properties,
    tls_config_path,
)
from serving.durable_file import DamagedFile, NotReadable

HOME = {"HOME": "/home/rmq"}
AT_LEAST_1 = Whole(1, INT_MAX).allowed


def a_file(text, path="/etc/ns.conf"):
    return PropertiesFile(path, tuple(parse(text.encode())))


def sources(file="", tls_file="", options=None, environment=None):
    return Sources(
        options=options or {},
        environment=HOME | (environment or {}),
        file=a_file(file) if file else PropertiesFile(),
        tls_file=a_file(tls_file, "/etc/tls.conf"),
    )


def test_without_any_source_all_defaults_hold_and_files_lie_in_the_home_folder():
    config = from_sources(NAMESRV, sources())
    assert config == NameServerConfig(
        kv_config_path="/home/rmq/namesrv/kvConfig.json", config_store_path="/home/rmq/namesrv/namesrv.properties"
    )


def test_a_file_of_the_java_server_is_taken_as_it_is():
    config = from_sources(
        NAMESRV,
        sources(
            "# namesrv.conf\n"
            "rocketmqHome=/opt/rocketmq\n"
            "listenPort = 9877\n"
            "kvConfigPath: /data/kv.json\n"
            "orderMessageEnable=TRUE\n"
            "serverWorkerThreads=-1\n"
            "connectTimeoutMillis=3000\n"
            "useTLS=true\n"
        ),
    )
    assert config.rocketmq_home == "/opt/rocketmq"
    assert config.listen_port == 9877
    assert config.kv_config_path == "/data/kv.json"
    assert config.order_message_enable is True
    assert config.server_worker_threads == -1
    assert config.tls_enable is True
    assert config.unknown == (Property("connectTimeoutMillis", "3000", 7),)


def test_the_command_line_wins_over_the_environment_which_wins_over_the_tls_file_which_wins_over_the_file():
    given = {
        "file": "tls.ciphers=file\n",
        "tls_file": "tls.ciphers=tls file\n",
        "environment": {"RMQ_NAMESRV_TLS_CIPHERS": "environment"},
        "options": {"tls.ciphers": "option"},
    }
    found = []
    for weakest in ("options", "environment", "tls_file", "file"):
        found.append(from_sources(NAMESRV, sources(**given)).tls_ciphers)
        del given[weakest]
    assert found == ["option", "environment", "tls file", "file"]


def test_of_a_repeated_key_the_last_line_counts():
    assert from_sources(NAMESRV, sources("listenPort=1\nlistenPort=2\n")).listen_port == 2


@pytest.mark.parametrize(
    ("environment", "serialize_type"),
    [
        ({"RMQ_NAMESRV_SERIALIZE_TYPE": "ROCKETMQ"}, "ROCKETMQ"),
        ({"ROCKETMQ_SERIALIZE_TYPE": "ROCKETMQ"}, "ROCKETMQ"),
        ({"RMQ_NAMESRV_SERIALIZE_TYPE": "JSON", "ROCKETMQ_SERIALIZE_TYPE": "ROCKETMQ"}, "JSON"),
        ({"RMQ_NAMESRV_SERIALIZE_TYPE": " "}, "JSON"),
    ],
)
def test_variables_of_the_java_server_count_where_ours_are_not_set(environment, serialize_type):
    assert from_sources(NAMESRV, sources(environment=environment)).serialize_type == serialize_type


def test_java_names_of_our_options_are_taken():
    config = from_sources(
        NAMESRV,
        sources(
            "rocketmq.serialize.type=ROCKETMQ\ncom.rocketmq.remoting.frameMaxLength=4096\n",
            environment={"ROCKETMQ_HOME": "/opt/rocketmq"},
        ),
    )
    assert (config.serialize_type, config.frame_bytes_max) == ("ROCKETMQ", 4096)
    assert config.rocketmq_home == "/opt/rocketmq"


@pytest.mark.parametrize(("text", "bytes_max"), [("", 17179869184), ("historyBytesMax=67108864\n", 67108864)])
def test_the_history_has_a_limit_that_can_be_beyond_a_java_int(text, bytes_max):
    assert from_sources(NAMESRV, sources(text)).history_bytes_max == bytes_max


def test_the_configuration_file_takes_later_changes_whatever_it_names_itself():
    assert from_sources(NAMESRV, sources("configStorePath=/old/place\n")).config_store_path == "/etc/ns.conf"


def test_another_place_for_later_changes_can_still_be_configured():
    given = sources("listenPort=1\n", options={"configStorePath": "~/ns.properties"})
    assert from_sources(NAMESRV, given).config_store_path == "/home/rmq/ns.properties"


@pytest.mark.parametrize(
    ("environment", "path"), [({"HOME": "/"}, "/namesrv/kvConfig.json"), ({"HOME": "/h/"}, "/h/namesrv/kvConfig.json")]
)
def test_any_home_folder_gives_a_clean_path(environment, path):
    assert from_sources(NAMESRV, sources(environment=environment)).kv_config_path == path


def test_without_a_home_folder_a_path_must_be_given():
    with pytest.raises(ConfigError) as caught:
        from_sources(NAMESRV, Sources(options={"configStorePath": "/a"}))
    assert str(caught.value) == (
        "default: kvConfigPath must be a path without ~, because the environment variable HOME is not set, "
        "not '~/namesrv/kvConfig.json'"
    )
    from_sources(NAMESRV, Sources(options={"configStorePath": "/a", "kvConfigPath": "/b"}))


def test_all_bad_values_are_reported_at_once_each_with_where_it_stands():
    with pytest.raises(ConfigError) as caught:
        from_sources(
            NAMESRV,
            sources(
                "listenPort=98760\n\nenableTopicList=yes\nclusterTest=true\n",
                options={"listenPort": "1", "logLevel": "loud"},
                environment={"RMQ_NAMESRV_CONNECTIONS_MAX": "0"},
            ),
        )
    assert str(caught.value).splitlines() == [
        "line 1 of /etc/ns.conf: listenPort must be a whole number from 0 to 65535, not '98760'",
        "line 3 of /etc/ns.conf: enableTopicList must be true or false, not 'yes'",
        f"line 4 of /etc/ns.conf: clusterTest must be {NAMESRV.options['cluster_test'].kind.allowed}, not 'true'",
        f"environment variable RMQ_NAMESRV_CONNECTIONS_MAX: connectionsMax must be {AT_LEAST_1}, not '0'",
        "option --log-level: logLevel must be debug, info, warning or error, not 'loud'",
    ]
    assert [each.key for each in caught.value.bad] == [
        "listenPort",
        "enableTopicList",
        "clusterTest",
        "connectionsMax",
        "logLevel",
    ]


def test_cluster_test_mode_is_refused_with_what_to_do():
    with pytest.raises(ConfigError) as caught:
        from_sources(NAMESRV, sources(options={"clusterTest": "true"}))
    assert "cluster-test mode is not part of this server; leave it out, or run the Java NameServer" in str(caught.value)


def test_values_that_do_not_go_together_are_reported_with_where_they_stand():
    with pytest.raises(ConfigError) as caught:
        from_sources(NAMESRV, sources("writeBufferHighWaterMark=1\nwriteBufferLowWaterMark=2\ntls.server.keyPath=/k\n"))
    assert str(caught.value).splitlines() == [
        "line 2 of /etc/ns.conf: writeBufferLowWaterMark must be at most writeBufferHighWaterMark, which is 1, not '2'",
        "default: tls.server.certPath must be set as well, because tls.server.keyPath is, and is blank",
    ]


@pytest.mark.parametrize(
    ("file", "calls_over_tls"),
    [
        ("tls.server.mode=permissive\n", False),
        ("tls.server.mode=enforcing\n", True),
        ("tls.server.mode=enforcing\ntls.enable=false\n", False),
    ],
)
def test_our_own_requests_go_over_tls_if_everybody_must(file, calls_over_tls):
    assert from_sources(NAMESRV, sources(file)).tls_enable is calls_over_tls


def test_the_tls_file_can_set_certificates_but_neither_the_mode_nor_anything_else():
    config = from_sources(
        NAMESRV,
        sources(
            tls_file="tls.server.keyPath=/k\ntls.server.certPath=/c\ntls.server.mode=disabled\ntls.enable=true\n"
            "listenPort=1\nunknown=1\n"
        ),
    )
    assert (config.tls_server_key_path, config.tls_server_cert_path) == ("/k", "/c")
    assert (config.tls_server_mode, config.tls_enable, config.listen_port) == ("permissive", False, 9876)
    assert config.unknown == ()


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "/etc/rocketmq/tls.properties"),
        ({"file": "tls.config.file=/a\n"}, "/a"),
        ({"file": "tls.config.file=/a\n", "options": {"tls.config.file": "~/b"}}, "/home/rmq/b"),
        ({"options": {"tls.config.file": ""}}, ""),
        ({"options": {"tls.config.file": "~/b"}, "environment": {"HOME": ""}}, ""),
    ],
)
def test_the_place_of_the_tls_file_is_known_before_all_else(given, path):
    assert tls_config_path(NAMESRV, sources(**given)) == path


def test_lines_that_change_nothing_are_named_with_the_reason():
    ignored = ignored_keys(
        NAMESRV,
        sources(
            "lisenPort=1\nlistenport=1\nqwertz=1\nlistenPort=1\nlistenPort=2\n"
            "serverWorkerThreads=8\nserverSelectorThreads=4\n",
            tls_file="tls.server.mode=disabled\ntls.ciphers=A\ntls.server.keyPfd=/k\n",
        ),
    )
    assert [str(each) for each in ignored] == [
        "line 1 of /etc/ns.conf: lisenPort is not a property of this server; did you mean listenPort?",
        "line 2 of /etc/ns.conf: listenport is not a property of this server; did you mean listenPort?",
        "line 3 of /etc/ns.conf: qwertz is not a property of this server",
        "line 4 of /etc/ns.conf: listenPort is overridden by line 5",
        "line 7 of /etc/ns.conf: serverSelectorThreads has an effect in the Java server only",
        "line 1 of /etc/tls.conf: tls.server.mode cannot be set in this file",
        "line 3 of /etc/tls.conf: tls.server.keyPfd is not a property of this server; did you mean tls.server.keyPath?",
    ]
    assert [each.why for each in ignored[2:5]] == [WhyIgnored.UNKNOWN, WhyIgnored.REPEATED, WhyIgnored.NO_EFFECT]


@pytest.mark.parametrize("load", [load_properties, load_tls_properties])
def test_a_properties_file_is_read_with_its_lines(tmp_path, load):
    path = tmp_path / "ns.conf"
    path.write_bytes(b"# c\nlistenPort=1\n")
    assert load(str(path)) == PropertiesFile(str(path), (Property("listenPort", "1", 2),))


def test_a_configuration_file_must_be_there(tmp_path):
    with pytest.raises(NotReadable, match=f"^cannot read {tmp_path}/ns.conf: there is no such file$"):
        load_properties(str(tmp_path / "ns.conf"))


def test_what_a_crash_left_beside_the_configuration_file_is_removed(tmp_path):
    path = tmp_path / "ns.conf"
    path.write_bytes(b"")
    (tmp_path / ".ns.conf.abc.tmp").write_bytes(b"")
    assert load_properties(str(path)) == PropertiesFile(str(path))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("path", ["", "/none/tls.properties"])
def test_without_a_tls_file_nothing_is_given(path):
    assert load_tls_properties(path) == PropertiesFile()


def test_a_tls_file_that_is_there_and_cannot_be_read_is_reported(tmp_path):
    with pytest.raises(NotReadable):
        load_tls_properties(str(tmp_path))


def test_a_broken_escape_is_reported_with_file_and_line(tmp_path):
    path = tmp_path / "ns.conf"
    path.write_bytes(b"a=1\nb=\\u12\n")
    with pytest.raises(DamagedFile) as caught:
        load_properties(str(path))
    assert str(caught.value) == f"{path}: line 2: \\u must be followed by four hexadecimal digits"
