import pytest

from controller.offsets.config import OFFSET_MANAGER
from controller.offsets.storage.write_behind_options import FLUSH_MS_MAX, FLUSH_MS_MIN
from remoting.protocol.properties import Property
from serving.config.arguments import parse
from serving.config.checks import ConfigError
from serving.config.server_kind import listed_properties
from serving.config.sources import PropertiesFile, Sources, from_sources, ignored_keys


def config(**options):
    return from_sources(OFFSET_MANAGER, Sources(options=options, environment={"HOME": "/home/rmq"}))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"store": "etcd"}, "etcdEndpoints must be set as well, because store is etcd"),
        ({"etcdCertPath": "/c"}, "etcdKeyPath must be set as well: a certificate and its key go together"),
        ({"etcdPassword": "p"}, "etcdUser must be set as well, because etcdPassword is"),
        ({"clientTokenFile": "/t"}, "httpAdminTokenFile must be set as well, because clientTokenFile is"),
        ({"httpBindAddress": "10.0.0.1"}, "httpAdminTokenFile must be set, because httpBindAddress is no loopback"),
        ({"httpBindAddress": "offsets.example.org"}, "httpAdminTokenFile must be set, because httpBindAddress"),
        ({"advertisedAddress": "a:1;b:2"}, "advertisedAddress must be one address"),
        ({"writeThroughGroups": "a[bc]"}, "writeThroughGroups must be names or patterns with * and ?, without ["),
        ({"lockReplay": "on"}, "controllerHttpAddr must be set, or namesrvAddr, because lockReplay is on"),
        ({"flushIntervalMs": "9"}, "flushIntervalMs must be a whole number from 10 to 10000"),
    ],
)
def test_values_that_do_not_go_together_end_the_start(options, sentence):
    with pytest.raises(ConfigError) as raised:
        config(**options)
    assert sentence in str(raised.value)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "[::1]", "localhost", "127.0.0.2"])
def test_loopback_needs_no_token(address):
    assert config(httpBindAddress=address).http_admin_token_file == ""


def test_flush_intervals_are_those_of_the_store():
    assert config(flushIntervalMs=str(FLUSH_MS_MIN)).flush_interval_ms == FLUSH_MS_MIN
    assert config(flushIntervalMs=str(FLUSH_MS_MAX)).flush_interval_ms == FLUSH_MS_MAX


def test_it_has_no_options_of_a_server_for_rocketmq_peers(capsys):
    assert not {"listenPort", "configStorePath", "tls.server.mode"} & set(OFFSET_MANAGER.field_of_key)
    with pytest.raises(SystemExit):
        parse(OFFSET_MANAGER, ["--help"], {})
    help_text = " ".join(capsys.readouterr().out.split())
    assert "RMQ_OFFSET_MANAGER_HTTP_PORT=9883" in help_text
    assert "a request changes it" not in help_text
    assert "Java" not in help_text


def test_a_property_of_another_server_in_its_file_is_named():
    file = PropertiesFile("/etc/rmq/offsets.conf", (Property("listenPort", "1", 1), Property("httpPort", "9999", 2)))
    sources = Sources(file=file, environment={"HOME": "/home/rmq"})
    assert from_sources(OFFSET_MANAGER, sources).http_port == 9999
    (ignored,) = ignored_keys(OFFSET_MANAGER, sources)
    assert str(ignored) == "line 1 of /etc/rmq/offsets.conf: listenPort is not a property of this server"


def test_listings_mask_secrets_and_have_its_own_options_only():
    listed = listed_properties(OFFSET_MANAGER, config(etcdUser="u", etcdPassword="p"))
    assert listed["etcdPassword"] == "******"
    assert listed["storePath"] == "/home/rmq/offset-manager/store"
    assert "listenPort" not in listed
