"""A controller in the process of a NameServer: what both have from one file, and what each has of its own."""

import dataclasses

import pytest

from controller.app.embedded import EmbeddedController, embedded_controller
from controller.config import CONTROLLER
from namesrv.settings.config import NAMESRV, NameServerConfig
from serving.config.checks import ConfigError
from serving.config.server_config import ServerConfig
from serving.config.server_kind import persisted_properties
from serving.config.sources import WhyIgnored

PORTS = (19878, 19881)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for option in CONTROLLER.options.values():
        monkeypatch.delenv(CONTROLLER.variable(option), raising=False)

    def written(*lines):
        path = tmp_path / "namesrv.conf"
        path.write_text("\n".join(lines))
        return str(path)

    return written


def test_embedded_controller_without_a_file_has_defaults_and_the_given_ports(file, tmp_path):
    config = embedded_controller("", NameServerConfig(), *PORTS, ()).config
    assert (config.listen_port, config.http_port) == PORTS
    assert config.controller_store_path == f"{tmp_path}/controller/store"
    assert config.frame_bytes_max == 2 * 1024 * 1024
    assert (config.controller_store, config.suspect_timeout_ms) == ("embedded", 2800)


def test_options_of_the_controller_come_from_the_shared_file(file):
    path = file("enableElectUncleanMaster=true", "controllerStorePath=/data/sets", "suspectTimeoutMs=1500")
    config = embedded_controller(path, NameServerConfig(), *PORTS, ()).config
    assert config.enable_elect_unclean_master is True
    assert (config.controller_store_path, config.suspect_timeout_ms) == ("/data/sets", 1500)


def test_common_options_are_those_of_the_nameserver(file):
    other = NameServerConfig(
        bind_address="10.1.2.3",
        http_bind_address="10.1.2.4",
        log_level="debug",
        tls_server_mode="enforcing",
        tls_server_cert_path="/c.pem",
        tls_server_key_path="/k.pem",
        tls_server_key_password="hunter2",
        write_buffer_high_water_mark_bytes=77,
    )
    # What the file says of it was the other server's to read: the command line may have told it otherwise.
    config = embedded_controller(file("bindAddress=9.9.9.9", "logLevel=error"), other, *PORTS, ()).config
    for name in (each.name for each in dataclasses.fields(ServerConfig)):
        if name not in {"listen_port", "http_port", "frame_bytes_max", "unknown", "others_keys"}:
            assert getattr(config, name) == getattr(other, name), name


def test_ports_of_the_nameserver_are_not_those_of_the_controller(file):
    other = NameServerConfig(listen_port=9876, http_port=9880)
    config = embedded_controller(file("listenPort=9876", "httpPort=9880"), other, *PORTS, ()).config
    assert (config.listen_port, config.http_port) == PORTS


def test_changed_controller_options_are_stored_in_the_shared_file(file):
    path = file("configStorePath=/data/namesrv.properties", "enableElectUncleanMaster=true")
    config = embedded_controller(path, NameServerConfig(config_store_path=path), *PORTS, NAMESRV.field_of_key).config
    assert config.config_store_path == path
    assert persisted_properties(config) == {"enableElectUncleanMaster": "true"}
    assert {"scanNotActiveBrokerInterval", "logLevel", "useTLS"} <= config.others_keys


def test_options_of_the_nameserver_are_neither_kept_nor_reported_by_the_controller(file):
    path = file("kvConfigPath=/data/kv.json", "orderMessageEnable=true", "nobodyKnows=1", "logLevel=error")
    beside = embedded_controller(path, NameServerConfig(), *PORTS, ())
    assert beside.config.unknown == ()
    assert beside.ignored == ()


def test_option_of_the_java_controller_only_is_reported_with_its_line(file):
    path = file("controllerStorePath=/data/sets", "controllerDLegerGroup=group1")
    (ignored,) = embedded_controller(path, NameServerConfig(), *PORTS, ()).ignored
    assert (ignored.path, ignored.line, ignored.key, ignored.why) == (
        path,
        2,
        "controllerDLegerGroup",
        WhyIgnored.NO_EFFECT,
    )


def test_option_that_the_nameserver_reported_is_not_reported_again(file):
    # Threads of the Java servers, both of which have them.
    assert embedded_controller(file("serverWorkerThreads=99"), NameServerConfig(), *PORTS, ()).ignored == ()


def test_embedded_controller_knows_its_own_options():
    assert EmbeddedController.knows("enableElectUncleanMaster")
    assert EmbeddedController.knows("isProcessReadEvent")
    assert not EmbeddedController.knows("orderMessageEnable")
    assert not EmbeddedController.knows("nobodyKnows")


def test_environment_of_the_controller_sets_only_its_own_options(file, monkeypatch):
    monkeypatch.setenv("RMQ_CONTROLLER_SUSPECT_TIMEOUT_MS", "2500")
    monkeypatch.setenv("RMQ_CONTROLLER_LISTEN_PORT", "1")
    monkeypatch.setenv("RMQ_CONTROLLER_BIND_ADDRESS", "9.9.9.9")
    other = NameServerConfig(bind_address="10.1.2.3")
    config = embedded_controller(file("suspectTimeoutMs=1500"), other, *PORTS, ()).config
    assert config.suspect_timeout_ms == 2500
    # One process has one address, and its ports stand in the other server's configuration.
    assert (config.bind_address, config.listen_port) == ("10.1.2.3", PORTS[0])


def test_invalid_controller_options_abort_the_start(file):
    path = file("listenPort=9876", "controllerStore=etcd")
    with pytest.raises(ConfigError, match="etcdEndpoints must be set as well"):
        embedded_controller(path, NameServerConfig(), *PORTS, ())
    with pytest.raises(ConfigError, match=r"line 1 of .*: suspectTimeoutMs must be "):
        embedded_controller(file("suspectTimeoutMs=0"), NameServerConfig(), *PORTS, ())


@pytest.mark.parametrize(
    ("bind_address", "expected"),
    [("", "127.0.0.1:9876"), ("0.0.0.0", "127.0.0.1:9876"), ("10.0.0.7", "10.0.0.7:9876"), ("::1", "[::1]:9876")],
)
def test_queues_are_scaled_by_the_name_server_of_the_process(bind_address, expected):
    other = NameServerConfig(bind_address=bind_address)

    assert embedded_controller("", other, *PORTS, ()).config.namesrv_addr == expected


def test_queues_are_scaled_by_the_name_servers_that_the_file_names(file):
    config = embedded_controller(file("namesrvAddr=ns-1:9876;ns-2:9876"), NameServerConfig(), *PORTS, ()).config

    assert config.namesrv_addr == "ns-1:9876;ns-2:9876"
