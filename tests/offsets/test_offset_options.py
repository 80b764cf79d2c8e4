"""Which options of an offset manager go together."""

import pytest

from offsets.config import OFFSET_MANAGER
from serving.config.checks import ConfigError
from serving.config.sources import Sources, from_sources


def config(**options):
    return from_sources(OFFSET_MANAGER, Sources(options=options, environment={"HOME": "/home/rmq"}))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"store": "etcd"}, "etcdEndpoints must be set as well, because store is etcd"),
        ({"clientTokenFile": "/t"}, "httpAdminTokenFile must be set as well, because clientTokenFile is"),
        ({"httpBindAddress": "10.0.0.1"}, "httpAdminTokenFile must be set, because httpBindAddress is not a loopback"),
        ({"advertisedAddress": "a:1;b:2"}, "advertisedAddress must be one address"),
        ({"writeThroughGroups": "a[bc]"}, "writeThroughGroups must be names or patterns with * and ?, without ["),
        ({"repairGroups": "a[bc]"}, "repairGroups must be names or patterns with * and ?, without ["),
        ({"repair": "off"}, "repair must be report or act"),
        ({"repair": "act"}, "namesrvAddr must be set, or controllerHttpAddr, because repair is act"),
        ({"lockReplay": "on"}, "namesrvAddr must be set, or controllerHttpAddr, because lockReplay is on"),
        ({"controllerHttpAddr": "a:1", "namesrvAddr": "b:2"}, "namesrvAddr must be blank, because controllerHttpAddr"),
        ({"flushIntervalMs": "9"}, "flushIntervalMs must be a whole number from 10 to 10000"),
    ],
)
def test_options_that_do_not_go_together_end_the_start(options, sentence):
    with pytest.raises(ConfigError) as raised:
        config(**options)
    assert sentence in str(raised.value)


def test_without_options_it_reads_from_nobody_and_writes_nothing():
    defaults = config()
    assert (defaults.repair, defaults.repair_groups, defaults.lock_replay, defaults.follows_brokers) == (
        "report",
        "*",
        "off",
        False,
    )
    assert config(namesrvAddr="a:9876", repair="act").follows_brokers


def test_its_options_are_these_and_those_of_any_server_without_peers():
    own = {
        option.key for name, option in OFFSET_MANAGER.options.items() if name not in (OFFSET_MANAGER.inherited or ())
    }
    assert own == {
        *("advertisedAddress", "clientTokenFile", "controllerHttpAddr", "dirtyKeysMax", "flushIntervalMs"),
        *("etcdCaPath", "etcdCertPath", "etcdEndpoints", "etcdKeyPath", "etcdPassword", "etcdUser"),
        *("lockReplay", "managerGroup", "managerId", "namesrvAddr", "offsetsMax", "readingPeriodMs"),
        *("readingsBytesMax", "repair", "repairGroups", "store", "storePath", "writeThroughGroups"),
    }
