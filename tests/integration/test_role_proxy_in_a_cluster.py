"""A controller process, a real HAProxy as the chart runs it, and a server that answers as the API server does."""

import contextlib
import json

import pytest
from peers import networks
from peers.kubernetes_site import SLICE, KubernetesSite, StandInCluster, session_ends
from peers.programs import require
from peers.waiting import wait_until


@pytest.fixture
def site(tmp_path):
    require("haproxy")
    if reason := networks.why_not():
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(contextlib.closing(networks.Network()))
        cluster = stack.enter_context(contextlib.closing(StandInCluster(network, tmp_path)))
        stack.enter_context(network.inside())
        yield stack.enter_context(contextlib.closing(KubernetesSite(network, tmp_path, cluster)))


def events(site, name):
    lines = [json.loads(line) for line in site.controller.process.text().splitlines() if line.startswith("{")]
    return [each for each in lines if each["event"] == name]


def test_failover_goes_on_while_api_server_and_dns_are_away_and_what_was_missed_follows(site):
    first, second = site.two_brokers()
    site.published(b1="10.99.0.2", b2="10.99.0.3")
    site.start_haproxy()
    site.served_by(1)
    session = site.connect()
    site.cluster.go_away()
    first.die()
    wait_until(lambda: session_ends(session), seconds=20, what="the session to the old master ends")
    site.served_by(2)
    session.close()
    third = site.broker(4).join()
    wait_until(lambda: events(site, "endpoint_slices_failing"), seconds=20, what="a failure is logged")
    assert third.broker_id == 3
    site.cluster.come_back()
    site.published(b1="10.99.0.2", b2="10.99.0.3", b3="10.99.0.4")
    assert [each["slice"] for each in events(site, "endpoint_slice_written")][-1] == SLICE
    assert second.broker_id == site.who()


def test_broker_that_moves_is_served_at_its_new_address_once_it_is_master(site):
    first, second = site.two_brokers()
    site.start_haproxy()
    site.served_by(1)
    first.die()
    site.served_by(2)
    moved = site.broker(5)
    moved.broker_id = 1
    assert moved.register().code == 0
    moved.keep_beating()
    site.published(b1="10.99.0.5", b2="10.99.0.3")
    assert second.report([1, 2], master_epoch=2, sync_state_set_epoch=3).code == 0
    second.die()
    site.served_by(1)
