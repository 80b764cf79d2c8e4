"""Real brokers, clients and tools over TLS, with NameServers that allow it and that insist on it."""

import ssl
from dataclasses import dataclass

import pytest
from peers.jars import V4_9, V5_5
from peers.servers import Broker, NameServer, registered
from peers.waiting import wait_until
from peers.wire import GET_CLUSTER_INFO, Caller

pytestmark = [pytest.mark.broad, pytest.mark.java]

USE_TLS = ["-Dtls.enable=true"]

#: A broker registers within this time, also if it did not find all NameServers at first.
REGISTRATION_ROUND_S = 14


@dataclass
class Cluster:
    permissive: NameServer
    enforcing: NameServer
    broker: Broker


@pytest.fixture(scope="module")
def cluster(module_lab):
    permissive = module_lab.name_server("permissive")
    enforcing = module_lab.name_server("enforcing", tls_mode="enforcing")
    addresses = [permissive.address, enforcing.address]
    broker = module_lab.broker("secured", namesrv=addresses, flags=USE_TLS).start().ready()
    wait_until(lambda: registered(permissive, broker), seconds=REGISTRATION_ROUND_S, what="the broker over TLS")
    return Cluster(permissive, enforcing, broker)


@pytest.fixture(scope="module")
def secured_mqadmin(module_lab):
    return module_lab.mqadmin(version=V5_5, flags=USE_TLS)


def over_tls(name_server):
    """Return a caller that, like a Java client in test mode, trusts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return Caller(name_server.address, tls=context)


def test_a_broker_registers_over_tls_where_tls_is_enforced(cluster):
    caller = over_tls(cluster.enforcing)
    wait_until(
        lambda: caller.addresses("secured") == {"0": cluster.broker.address},
        seconds=REGISTRATION_ROUND_S,
        what="the broker",
    )


def test_a_plain_request_is_not_answered_where_tls_is_enforced(cluster):
    with pytest.raises(OSError, match=r"closed|reset"):
        cluster.enforcing.caller.request(GET_CLUSTER_INFO)


def test_plain_and_secured_requests_are_answered_alike_where_tls_is_allowed(cluster):
    route = cluster.permissive.caller.route("secured")
    assert route is not None
    assert over_tls(cluster.permissive).route("secured") == route


@pytest.mark.parametrize("version", [V5_5, V4_9])
def test_clients_send_and_consume_over_tls(cluster, lab, version):
    options = {"topic": "TBW102_made", "version": version, "flags": USE_TLS}
    producer = lab.producer("producer", namesrv=[cluster.enforcing.address], count=20, **options).finish()
    assert producer.failures() == []
    consumer = lab.consumer("consumer", namesrv=[cluster.enforcing.address], **options)
    consumer.wait_for_all(producer.bodies())


def test_mqadmin_lists_brokers_over_tls(cluster, secured_mqadmin):
    printed = secured_mqadmin.run("clusterList", namesrv=[cluster.enforcing.address])
    assert cluster.broker.address in printed


def test_a_plain_mqadmin_gets_no_answer_where_tls_is_enforced(cluster, mqadmin):
    assert "SubCommandException" in mqadmin.run("clusterList", namesrv=[cluster.enforcing.address])
