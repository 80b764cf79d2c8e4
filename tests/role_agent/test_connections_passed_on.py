"""Clients that connect while no host answers for the address: real kernels, ARP and connections."""

import contextlib
import json
import socket
from datetime import datetime

import pytest
from agent_sites import ADDRESS, ADDRESS_6, BROKER_PORT
from connecting_hosts import BUSY_S, ConnectingHost, answer, is_connected
from peers.figures import print_figures
from peers.waiting import wait_until

from remoting.clock import SystemClock

pytestmark = pytest.mark.broad

BOTH = pytest.mark.parametrize("address", [ADDRESS, ADDRESS_6], ids=["ipv4", "ipv6"])
#: Within the files that a process may open as it comes.
MANY = 800
MANY_PORT = 12_000
#: As many have it: what comes by the loopback interface passes.
_FIREWALL = f"""
nft add table inet firewall
nft add chain inet firewall input "{{ type filter hook input priority 0; }}"
nft add rule inet firewall input iif != lo ip saddr 10.99.0.4 tcp dport {BROKER_PORT} drop
"""


@pytest.fixture
def client(site):
    """A host whose kernel knows where the address is, as that of a client that was connected to it."""
    client = ConnectingHost(site.network)
    for address in (ADDRESS, ADDRESS_6):
        with client.begin(address, BROKER_PORT) as connection:
            assert answer(connection) == "broker-2"
    return client


def taken_at(host):
    lines = [json.loads(line) for line in host.agent.text().splitlines()]
    at = next(each["timestamp"] for each in lines if each["event"] == "address_taken")
    return datetime.fromisoformat(at).timestamp()


def release(site, answer="down #superseded epoch 2"):
    site.controller.roles = {2: answer, 3: "#unknown the master is not confirmed"}
    wait_until(lambda: not site.hosts[0].has_address, seconds=BUSY_S, what="the release")


@BOTH
@pytest.mark.parametrize("is_killed", [False, True], ids=["released", "broker killed"])
def test_client_that_connects_too_early_is_answered_when_the_new_master_has_the_address(
    site, client, capsys, address, is_killed
):
    if is_killed:
        # Its port is closed while the host still has the address.
        site.hosts[0].broker.kill()
    else:
        release(site)
    with client.begin(address, BROKER_PORT) as connection:
        client.send_not_again()
        assert not is_connected(connection, 0.2)
        site.controller.elect(3, 2, 2)
        assert answer(connection) == "broker-3"
    answered_s = SystemClock().unix_ms() / 1000 - taken_at(site.hosts[1])
    print_figures(
        capsys, f"role address: connected too early, {address}: answered {answered_s * 1000:.0f} ms after it moved"
    )
    site.hosts[0].agent.wait_for('"connections_passed_on"', seconds=BUSY_S)


@BOTH
def test_client_is_answered_that_still_sends_to_the_old_host(site, client, address):
    old, new = site.hosts
    client.run("ip", "neighbour", "replace", address, "lladdr", old.mac, "dev", "inner", "nud", "permanent")
    # Where it is would be answered to the old host too.
    new.run(
        "ip",
        "neighbour",
        "replace",
        address.removesuffix("100") + "4",
        "lladdr",
        client.mac,
        "dev",
        "inner",
        "nud",
        "permanent",
    )
    site.controller.elect(3, 2, 2)
    wait_until(lambda: site.holders() == [3], seconds=BUSY_S, what="the address on host 3")
    with client.begin(address, BROKER_PORT) as connection:
        client.send_not_again()
        assert is_connected(connection, BUSY_S)


@BOTH
def test_client_that_connects_in_a_hold_is_answered_when_the_same_master_serves_again(site, client, address):
    release(site, "down #held epoch 1")
    with client.begin(address, BROKER_PORT) as connection:
        assert not is_connected(connection, 0.2)
        site.controller.elect(2, 1)
        assert answer(connection) == "broker-2"


def test_client_that_the_firewall_of_the_host_blocks_is_not_let_in_after_a_hold(site, client):
    host = site.hosts[0]
    host.run("sh", "-ec", _FIREWALL)
    release(site, "down #held epoch 1")
    with client.begin(ADDRESS, BROKER_PORT) as connection:
        assert not is_connected(connection, 0.2)
        site.controller.elect(2, 1)
        wait_until(lambda: host.has_address, seconds=BUSY_S, what="the address on the same host")
        assert not is_connected(connection, 1)


def test_thousands_that_connect_too_early_are_answered_and_the_agent_goes_on(site, client, capsys):
    with contextlib.ExitStack() as opened:
        with site.hosts[1].host.inside():
            listener = socket.create_server(("", MANY_PORT), backlog=MANY)
        opened.enter_context(listener)
        release(site)
        connections = [opened.enter_context(client.begin(ADDRESS, MANY_PORT)) for _ in range(MANY)]
        client.send_not_again()
        site.controller.elect(3, 2, 2)
        assert all(is_connected(each, BUSY_S) for each in connections)
        answered_s = SystemClock().unix_ms() / 1000 - taken_at(site.hosts[1])
    print_figures(
        capsys, f"role address: {MANY} clients connected too early: answered within {answered_s * 1000:.0f} ms"
    )
    assert site.hosts[0].status()["phase"] == "standby"
