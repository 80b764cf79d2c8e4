"""TLS, signatures, and white lists of real brokers behind the HAProxy of a role address."""

import time

import pytest
from peers.acl import CONTROL, acl_1, acl_2, request_as, servers_keys
from peers.jars import V5_1, V5_5
from peers.wire import SUCCESS, Caller
from role_addressed import SET, first_acknowledged, longest_gap_s, now_ms, role_addressed_sets

pytestmark = [pytest.mark.java, pytest.mark.broad, pytest.mark.timeout(900)]

GET_BROKER_CONFIG = 26
LISTED = "127.0.0.2"
USE_TLS = ["-Dtls.enable=true"]
STEADY_S, AFTER_S = 4, 2
#: Far more than on an idle machine: benchmarks/role_addresses.py measures.
GAP_MAX_S = 9


@pytest.fixture
def begin(tmp_path):
    """Return what starts a set with its address; all of it ends with the test."""
    with role_addressed_sets(tmp_path) as begin:
        yield begin


@pytest.mark.parametrize("version", [V5_5, pytest.param(V5_1, marks=pytest.mark.soak)])
def test_client_over_tls_notices_a_killed_master_for_a_moment_only(begin, version):
    site = begin(version, flags=USE_TLS)
    load = site.load(flags=USE_TLS)
    time.sleep(STEADY_S)
    # The first session of a cold JVM may take longer than a message may, on a busy machine.
    early = load.failures()
    victim, since_ms = site.master(), now_ms()
    victim.process.kill()
    first_acknowledged(load, since_ms, not_by=victim)
    time.sleep(AFTER_S)
    assert longest_gap_s(load, since_ms) < GAP_MAX_S
    assert load.failures() == early
    load.stop()
    site.brokers.lose_nothing(load)


@pytest.mark.parametrize("version", [V5_5, pytest.param(V5_1, marks=pytest.mark.soak)])
def test_signed_requests_pass_the_proxy_and_others_are_refused_by_the_broker(begin, tmp_path, version):
    properties = acl_2() if version == V5_5 else acl_1(tmp_path, f"{SET}-n0")
    site = begin(version, count=1, server_properties=servers_keys(CONTROL), **properties)
    signed = request_as(site, CONTROL, GET_BROKER_CONFIG, {})
    assert signed.code == SUCCESS
    assert f"brokerName={SET}" in signed.body.decode()
    assert Caller(site.address).request(GET_BROKER_CONFIG, {}).code != SUCCESS


@pytest.mark.soak
def test_white_list_of_a_broker_sees_clients_if_the_proxy_sends_its_header(begin, tmp_path):
    properties = acl_1(tmp_path, f"{SET}-n0", white_list=[LISTED])
    options = {"server_properties": servers_keys(CONTROL), "proxy_options": ["--send-proxy"]}
    site = begin(V5_1, count=1, **options, **properties)
    codes = {
        source: Caller(site.address, source=source).request(GET_BROKER_CONFIG, {}).code
        for source in (LISTED, "127.0.0.1")
    }
    assert codes[LISTED] == SUCCESS
    assert codes["127.0.0.1"] != SUCCESS
