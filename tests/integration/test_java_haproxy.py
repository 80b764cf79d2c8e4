"""HAProxy between real peers and the NameServer, announcing the caller by the proxy protocol, version 1 and 2."""

from dataclasses import dataclass

import pytest
from peers.programs import require
from peers.servers import Broker, HAProxy, NameServer, registered
from peers.waiting import wait_until

pytestmark = [pytest.mark.broad, pytest.mark.java]

#: A broker registers within this time, also if it did not find the NameServer at first.
REGISTRATION_ROUND_S = 14


@dataclass
class Cluster:
    namesrv: NameServer
    v1: HAProxy
    v2: HAProxy
    broker: Broker


@pytest.fixture(scope="module")
def cluster(module_lab):
    require("haproxy")
    namesrv = module_lab.name_server()
    v1 = module_lab.haproxy("haproxy-v1", target=namesrv.address, send="send-proxy")
    v2 = module_lab.haproxy("haproxy-v2", target=namesrv.address, send="send-proxy-v2")
    speaks_tls = ["-Dtls.server.mode=permissive"]
    broker = module_lab.broker("proxied", namesrv=[v2.address], flags=speaks_tls).start().ready()
    wait_until(lambda: registered(namesrv, broker), seconds=REGISTRATION_ROUND_S, what="the broker through HAProxy")
    return Cluster(namesrv, v1, v2, broker)


@pytest.fixture(params=["v1", "v2"])
def proxy(request, cluster):
    return getattr(cluster, request.param)


def test_mqadmin_sees_the_same_through_haproxy(cluster, proxy, mqadmin):
    through = mqadmin.run("topicRoute", "-t", "proxied", namesrv=[proxy.address])
    assert through == mqadmin.run("topicRoute", "-t", "proxied", namesrv=[cluster.namesrv.address])
    assert cluster.broker.address in through


@pytest.mark.parametrize("flags", [[], ["-Dtls.enable=true"]], ids=["plain", "tls"])
def test_clients_send_and_consume_through_haproxy(cluster, proxy, lab, flags):
    options = {"namesrv": [proxy.address], "topic": "through_haproxy", "flags": flags}
    producer = lab.producer("producer", count=20, **options).finish()
    assert producer.failures() == []
    lab.consumer("consumer", **options).wait_for_all(producer.bodies())


def test_a_broker_killed_behind_haproxy_leaves_the_routes_long_before_its_timeout(cluster):
    cluster.broker.process.kill()
    wait_until(lambda: cluster.namesrv.caller.route("proxied") is None, seconds=10, what="no route")
