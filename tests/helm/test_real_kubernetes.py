"""The chart's rights and proxy with a real API server (RBAC, validation) and a real HAProxy.

`kube-apiserver` has to be on PATH, and `coredns` for a real DNS; docs/role-addresses-kubernetes.md has the versions.
"""

import contextlib

import pytest
from peers import networks, real_kubernetes
from peers.figures import print_figures
from peers.kubernetes_site import BROKER_PORT, ROLE_PORT, SERVICE, SET, SLICE, KubernetesSite, session_ends
from peers.programs import require
from peers.real_kubernetes import SLICES, RealCluster, resolves
from peers.waiting import seconds_until, wait_until
from rendered_chart import FULLNAME, objects

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

ACCOUNT = f"{FULLNAME}-controller"
VALUES = {
    "controller": {"roleCheckPort": 9879},
    "roleProxy": {
        "enabled": True,
        "sets": [{"name": SET, "port": ROLE_PORT, "brokerPort": BROKER_PORT, "brokerIds": [1, 2, 3]}],
        "service": {"clusterIP": "10.96.0.50"},
    },
}


@pytest.fixture
def cluster(tmp_path):
    require("haproxy")
    if reason := networks.why_not() or real_kubernetes.why_not():
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(contextlib.closing(networks.Network()))
        stack.enter_context(network.inside())
        cluster = stack.enter_context(contextlib.closing(RealCluster(network, tmp_path)))
        assert cluster.apply(objects(VALUES)) == {}
        yield cluster


def a_slice(name):
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "mq"},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    }


def test_rights_of_the_controllers_suffice_and_allow_nothing_else(cluster, capsys):
    print_figures(capsys, f"Kubernetes {cluster.version}")
    token = cluster.give_token(ACCOUNT)

    def status(method, path, body=None):
        return cluster.call(method, path, body, token=token)[0]

    assert status("POST", SLICES, a_slice(SLICE)) == 201
    assert status("GET", f"{SLICES}/{SLICE}") == 200
    found = cluster.call("GET", f"{SLICES}/{SLICE}")[1]
    assert status("PUT", f"{SLICES}/{SLICE}", found) == 200
    cluster.call("POST", SLICES, a_slice("another"))
    another = cluster.call("GET", f"{SLICES}/another")[1]
    api = "/api/v1/namespaces/mq"
    refused = {
        "list": status("GET", SLICES),
        "watch": status("GET", f"{SLICES}?watch=true"),
        "get another": status("GET", f"{SLICES}/another"),
        "update another": status("PUT", f"{SLICES}/another", another),
        "delete": status("DELETE", f"{SLICES}/{SLICE}"),
        "another namespace": status("POST", SLICES.replace("/mq/", "/default/"), a_slice(SLICE)),
        **{each: status("GET", f"{api}/{each}") for each in ("pods", "services", "secrets", "configmaps", "endpoints")},
        "nodes": status("GET", "/api/v1/nodes"),
    }
    assert refused == dict.fromkeys(refused, 403)


def test_broker_that_moves_is_found_by_way_of_slice_and_dns_and_failovers_need_neither(cluster, tmp_path, capsys):
    cluster.give_token(ACCOUNT)
    with contextlib.closing(KubernetesSite(cluster.network, tmp_path, cluster)) as site:
        first, second = site.two_brokers()
        site.published(b1="10.99.0.2", b2="10.99.0.3")
        name = f"b1.{SERVICE}.mq.svc.cluster.local"
        wait_until(lambda: resolves(cluster.nameserver, name) == "10.99.0.2", seconds=60, what="DNS knows broker 1")
        site.start_haproxy()
        site.served_by(1)
        # The pod of the master goes, and is back at another address; the other broker is elected meanwhile.
        first.die()
        site.served_by(2)
        moved = site.broker(5)
        moved.broker_id = 1
        assert moved.register().code == 0
        moved.keep_beating()
        slice_s = seconds_until(lambda: cluster.endpoints()["b1"] == ["10.99.0.5"], seconds=60, what="the slice has it")
        dns_s = seconds_until(lambda: resolves(cluster.nameserver, name) == "10.99.0.5", seconds=60, what="DNS has it")
        dns = "CoreDNS" if cluster.has_coredns else "the DNS of the tests"
        print_figures(capsys, f"moved broker, {dns}: in the slice after {slice_s:.2f} s, in DNS {dns_s:.2f} s later")
        # Without DNS it would go on with the address before.
        site.haproxy.wait_for(r"broker_1 changed its IP from 10\.99\.0\.2 to 10\.99\.0\.5", seconds=60)
        assert second.report([1, 2], master_epoch=2, sync_state_set_epoch=3).code == 0
        wait_until(lambda: site.controller.set_state(SET).in_sync == {1, 2}, seconds=60, what="broker 1 is in sync")
        session = site.connect()
        cluster.go_away()
        second.die()
        serves_s = seconds_until(lambda: site.who() == 1, seconds=60, what="the moved broker answers")
        assert session_ends(session)
        session.close()
        print_figures(capsys, f"API server and {dns} away: the next master answered {serves_s:.2f} s after the kill")
