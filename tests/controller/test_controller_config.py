"""The options of a controller: its own, those of Java's file, and what does not go together."""

import pytest

from controller.config import CONTROLLER, ControllerConfig
from remoting.protocol.properties import Property, parse
from serving.config.checks import ConfigError
from serving.config.options import Fixed, Flag, Whole, text_of
from serving.config.sources import PropertiesFile, Sources, WhyIgnored, from_sources, ignored_keys

PATH = "/etc/controller.conf"
HOME = {"HOME": "/home/rmq"}

#: ControllerConfig of Java 5.5.0 (docs/protocol/controller.md 8.1), but for what is read here too.
JAVA_ONLY = [
    "scanNotActiveBrokerInterval",
    "scanInactiveMasterInterval",
    "electMasterMaxRetryCount",
    "processReadEvent",
    "isProcessReadEvent",
    "controllerType",
    "controllerDLegerGroup",
    "mappedFileSize",
    "controllerThreadPoolNums",
    "jRaftElectionTimeoutMs",
    "jRaftScanWaitTimeoutMs",
    "jRaftSnapshotIntervalSecs",
    "jRaftGroupId",
    "jRaftServerId",
    "jRaftInitConf",
    "jRaftControllerRPCAddr",
    "metricsExporterType",
    "metricsGrpcExporterTarget",
    "metricsGrpcExporterHeader",
    "metricGrpcExporterTimeOutInMills",
    "metricGrpcExporterIntervalInMills",
    "metricLoggingExporterIntervalInMills",
    "metricsPromExporterPort",
    "metricsPromExporterHost",
    "metricsLabel",
    "metricsInDelta",
]
JAVA_TOO = [
    "controllerDLegerPeers",
    "controllerDLegerSelfId",
    "rocketmqHome",
    "configStorePath",
    "configBlackList",
    "controllerStorePath",
    "enableElectUncleanMaster",
    "notifyBrokerRoleChanged",
    "controllerRequestThreadPoolQueueCapacity",
    "listenPort",
]


def sources(*lines, environment=None, **options):
    file = PropertiesFile(PATH, tuple(parse("\n".join(lines).encode()))) if lines else PropertiesFile()
    return Sources(options=options, environment=HOME | (environment or {}), file=file)


def configured(*lines, **kwargs):
    return from_sources(CONTROLLER, sources(*lines, **kwargs))


def complaints(*lines, **kwargs):
    with pytest.raises(ConfigError) as refused:
        configured(*lines, **kwargs)
    return str(refused.value).splitlines()


def another_value(key):
    """Return a text that is allowed and not the default."""
    name = CONTROLLER.field_of_key[key]
    default = getattr(CONTROLLER.defaults, name)
    match CONTROLLER.options[name].kind:
        case Flag():
            return text_of(not default)
        case Whole():
            return text_of(default + 1)
        case _:
            return "something-else"


# The table of options


def test_store_and_identity_cannot_be_changed_by_request():
    own = ("controller_store", "controller_group", "controller_id", "advertised_address", "on_role_change")
    etcd = [name for name in CONTROLLER.options if name.startswith("etcd_")]
    for name in (*own, "on_role_change_sets", *etcd):
        assert isinstance(CONTROLLER.options[name].by_request, Fixed), name


def test_options_that_take_effect_at_once():
    assert {option.key for option in CONTROLLER.options.values() if option.at_once} == {
        "adoptUnknownBrokers",
        "enableElectUncleanMaster",
        "enableShutdownGracefully",
        "logLevel",
        "notifyBrokerRoleChanged",
        "onRoleChangeTimeoutMs",
        "roleProbeIntervalMs",
        "scalingIntervalMs",
        "scalingOperationsMax",
        "serverChannelMaxIdleTimeSeconds",
        "shutdownWaitTimeSeconds",
        "suspectTimeoutMs",
    }


def test_representation_of_a_configuration_has_no_secrets():
    assert "hunter2" not in repr(ControllerConfig(etcd_user="root", etcd_password="hunter2"))


# Where values come from


def test_defaults_are_one_controller_with_an_embedded_store_in_the_home_folder():
    config = configured()
    assert config == ControllerConfig(
        config_store_path="/home/rmq/controller/controller.properties",
        controller_store_path="/home/rmq/controller/store",
    )
    assert (config.controller_store, config.listen_port, config.http_port) == ("embedded", 9878, 9881)
    assert (config.suspect_timeout_ms, config.enable_elect_unclean_master, config.notify_broker_role_changed) == (
        2800,
        False,
        True,
    )
    assert config.adopt_unknown_brokers is False


def test_each_option_has_a_variable_and_the_command_line_wins():
    environment = {
        "RMQ_CONTROLLER_LISTEN_PORT": "1",
        "RMQ_CONTROLLER_CONTROLLER_STORE": "etcd",
        "RMQ_CONTROLLER_ETCD_ENDPOINTS": "e1:2379;e2:2379",
        "RMQ_CONTROLLER_ENABLE_ELECT_UNCLEAN_MASTER": "true",
        "RMQ_CONTROLLER_SUSPECT_TIMEOUT_MS": " ",
    }
    config = configured("listenPort=3", "suspectTimeoutMs=1500", environment=environment, listenPort="2")
    assert config.listen_port == 2
    assert (config.controller_store, config.etcd_endpoints) == ("etcd", "e1:2379;e2:2379")
    assert config.enable_elect_unclean_master is True
    # A blank variable counts as none.
    assert config.suspect_timeout_ms == 1500


def test_variables_of_the_nameserver_are_ignored():
    assert configured(environment={"RMQ_NAMESRV_LISTEN_PORT": "1"}).listen_port == 9878


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("controllerStore=zookeeper", "embedded"),
        ("suspectTimeoutMs=499", "500"),
        ("suspectTimeoutMs=soon", "500"),
        ("enableElectUncleanMaster=perhaps", "true"),
        ("etcdEndpoints=e1", "host:port"),
        ("controllerGroup=", "blank"),
        ("controllerStorePath=", "blank"),
        ("onRoleChange=move-address", "the absolute path of a program"),
        ("onRoleChange=/bin/sh -c 'exit", "quoted as in a shell"),
        ("onRoleChange=https://user:secret@example.com/", "without user, password"),
        ("onRoleChange=ftp://example.com/", "http(s)://"),
        ("onRoleChangeTimeoutMs=99", "100"),
        ("onRoleChangeCallsMax=65", "64"),
    ],
)
def test_invalid_value_is_reported_with_its_line(line, sentence):
    (complaint,) = complaints("# a comment", line)
    key = line.partition("=")[0]
    assert complaint.startswith(f"line 2 of {PATH}: {key} must be ")
    assert sentence in complaint


# The file of a Java controller


@pytest.mark.parametrize("key", JAVA_ONLY + JAVA_TOO)
def test_every_property_of_java_is_known(key):
    assert key in CONTROLLER.field_of_key


@pytest.mark.parametrize("key", JAVA_ONLY)
def test_property_without_effect_here_is_kept_and_reported_by_name(key):
    given = sources(f"{key}={another_value(key)}")
    (ignored,) = ignored_keys(CONTROLLER, given)
    assert (ignored.key, ignored.why) == (key, WhyIgnored.NO_EFFECT)
    assert str(ignored) == f"line 1 of {PATH}: {key} has an effect in the Java server only"
    name = CONTROLLER.field_of_key[key]
    assert text_of(getattr(from_sources(CONTROLLER, given), name)) == another_value(key)


def test_defaults_of_java_in_a_file_are_not_reported():
    listing = [f"{key}={text_of(getattr(CONTROLLER.defaults, CONTROLLER.field_of_key[key]))}" for key in JAVA_ONLY]
    assert ignored_keys(CONTROLLER, sources(*listing)) == ()


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("controllerType", "DLedger"),
        ("electMasterMaxRetryCount", "3"),
        ("scanInactiveMasterInterval", "5000"),
        ("controllerThreadPoolNums", "16"),
        ("controllerRequestThreadPoolQueueCapacity", "50000"),
        ("mappedFileSize", "1073741824"),
        ("jRaftInitConf", "localhost:9880,localhost:9881,localhost:9882"),
        ("metricsPromExporterPort", "5557"),
        ("enableElectUncleanMaster", "false"),
        ("notifyBrokerRoleChanged", "true"),
    ],
)
def test_defaults_are_those_of_java(key, default):
    assert text_of(getattr(CONTROLLER.defaults, CONTROLLER.field_of_key[key])) == default


def test_unknown_property_is_kept_and_reported_with_a_suggestion():
    given = sources("enableElectUncleanMasters=true")
    (ignored,) = ignored_keys(CONTROLLER, given)
    assert (ignored.why, ignored.instead) == (WhyIgnored.UNKNOWN, "enableElectUncleanMaster")
    assert from_sources(CONTROLLER, given).unknown == (Property("enableElectUncleanMasters", "true", 1),)


# What does not go together


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (
            ["controllerStore=etcd"],
            "default: etcdEndpoints must be set as well, because controllerStore is etcd, and is blank",
        ),
        (
            ["etcdCertPath=/c.pem"],
            "default: etcdKeyPath must be set as well: a certificate and its key go together, and is blank",
        ),
        (
            ["etcdKeyPath=/k.pem"],
            "default: etcdCertPath must be set as well: a certificate and its key go together, and is blank",
        ),
        (["etcdPassword=hunter2"], "default: etcdUser must be set as well, because etcdPassword is, and is blank"),
        (
            ["advertisedAddress=a:1;b:2"],
            f"line 1 of {PATH}: advertisedAddress must be one address, not 'a:1;b:2'",
        ),
        (
            ["controllerDLegerPeers=n0-a:1;n1-b:1", "controllerDLegerSelfId=n0"],
            (
                f"line 1 of {PATH}: controllerDLegerPeers must be one peer, unless controllerStore is etcd: with the "
                "embedded store each would lead alone, not 'n0-a:1;n1-b:1'"
            ),
        ),
        (
            ["controllerType=jRaft", "jRaftInitConf=a:1,b:1,c:1"],
            (
                f"line 2 of {PATH}: jRaftInitConf must be one peer, unless controllerStore is etcd: with the embedded "
                "store each would lead alone, not 'a:1,b:1,c:1'"
            ),
        ),
        (
            ["onRoleChange=/usr/bin/true", "onRoleChangeTokenFile=/t"],
            (
                f"line 1 of {PATH}: onRoleChange must be the URL that gets the token, because onRoleChangeTokenFile is "
                "set, not '/usr/bin/true'"
            ),
        ),
        (
            ["onRoleChangeSets=broker-a"],
            "default: onRoleChange must be set as well, because onRoleChangeSets is, and is blank",
        ),
        (
            ["roleProbeTopic=RMQ_ROLE_PROBE"],
            (
                "default: roleProbeNamesrvAddr must be set as well, or namesrvAddr, because roleProbeTopic is, and is "
                "blank"
            ),
        ),
        (
            ["controllerDLegerPeers=n0-127.0.0.1:9877", "listenPort=9878"],
            (
                f"line 1 of {PATH}: controllerDLegerPeers must be blank, or have 9878 as the port of this controller, "
                "not 'n0-127.0.0.1:9877'"
            ),
        ),
        (["httpPort=9878"], f"line 1 of {PATH}: httpPort must be another port than listenPort, not '9878'"),
        (
            ["tls.server.keyPath=/k.pem"],
            "default: tls.server.certPath must be set as well, because tls.server.keyPath is, and is blank",
        ),
    ],
)
def test_contradicting_options_abort_the_start_with_a_sentence(lines, complaint):
    found = complaints(*lines)
    assert found == [complaint]
    assert "hunter2" not in found[0]


def test_all_contradictions_are_reported_together():
    found = complaints("controllerStore=etcd", "etcdKeyPath=/k.pem", "advertisedAddress=a:1;b:2")
    assert len(found) == 3


@pytest.mark.parametrize(
    "lines",
    [
        ["controllerDLegerPeers=n0-127.0.0.1:9877", "controllerDLegerSelfId=n0"],
        ["controllerDLegerPeers=n0-a:1;n1-b:1", "controllerStore=etcd", "etcdEndpoints=e1:2379"],
        ["controllerType=jRaft", "jRaftInitConf=localhost:9880", "controllerDLegerPeers=n0-a:1;n1-b:1"],
    ],
)
def test_java_file_of_one_controller_is_accepted_and_of_several_with_etcd(lines):
    assert configured(*lines).controller_dleger_peers


@pytest.mark.parametrize(
    ("lines", "port"),
    [
        (["controllerDLegerPeers=n0-127.0.0.1:9877"], 9877),
        (["controllerDLegerPeers=n0-127.0.0.1:9877", "listenPort=9877"], 9877),
        (["controllerDLegerPeers=n0-127.0.0.1:9877", "listenPort=0"], 0),
        (
            [
                "controllerDLegerPeers = n0-127.0.0.1:9878;n1-127.0.0.1:9868",
                "controllerDLegerSelfId=n1",
                "controllerStore=etcd",
                "etcdEndpoints=e1:2379",
            ],
            9868,
        ),
        (["controllerDLegerPeers=n0-a:1", "controllerType=jRaft", "jRaftInitConf=localhost:9880"], 9878),
    ],
)
def test_a_controller_listens_on_the_port_that_a_java_file_gives_it(lines, port):
    assert configured(*lines).listen_port == port


def test_consistent_options_are_accepted():
    config = configured(
        "controllerStore=etcd",
        "etcdEndpoints=e1:2379 ; e2:2379;",
        "etcdUser=root",
        "etcdPassword=hunter2",
        "etcdCaPath=/ca.pem",
        "etcdCertPath=/c.pem",
        "etcdKeyPath=/k.pem",
        "advertisedAddress=ctl-0.example.com:9878",
    )
    assert config.etcd_endpoints == "e1:2379;e2:2379"
    assert config.advertised_address == "ctl-0.example.com:9878"
