"""Requests for connections as a real kernel hands them out, and what it does with those that were passed on."""

import socket
import struct
import subprocess
from ipaddress import ip_interface

import pytest
from connecting_hosts import BUSY_S, ConnectingHost, is_connected
from peers.waiting import wait_until

from role_agent.network.frames import with_tcp_checksum
from role_agent.network.kernel import AddressTable
from role_agent.network.syns import relayed
from role_agent.syn_relay import SynSockets

ADDRESS = ip_interface("10.99.0.100/24")
ADDRESS_6 = ip_interface("fd99::100/64")
BOTH = pytest.mark.parametrize("address", [ADDRESS, ADDRESS_6], ids=["ipv4", "ipv6"])


@pytest.fixture
def host(network):
    """The test is on this host."""
    host = network.host(2)
    with host.inside():
        subprocess.run(["ip", "address", "add", "fd99::2/64", "dev", "inner", "nodad"], check=True)
        yield host


@pytest.fixture
def sockets(host):
    sockets = SynSockets("inner", [ADDRESS.ip, ADDRESS_6.ip])
    assert sockets.read(2) == []
    yield sockets
    sockets.close()


@pytest.fixture
def client(network, host):
    return ConnectingHost(network)


@pytest.fixture
def server(host):
    """A port of this host, for both families."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        yield server


def next_of(sockets):
    return wait_until(lambda: sockets.read(2), seconds=BUSY_S, what="a request for a connection")[0]


@BOTH
def test_requests_are_seen_though_nobody_listens_and_then_nobody_has_the_address(sockets, client, address):
    AddressTable("inner").add(address, 60)
    for is_present in (True, False):
        if not is_present:
            AddressTable("inner").remove(address)
        with client.begin(str(address.ip), 9):
            assert relayed(next_of(sockets)) is not None


def test_requests_to_other_addresses_are_not_seen(sockets, client, server):
    for address in ("10.99.0.2", "fd99::2"):
        with client.begin(address, server.getsockname()[1]) as connection:
            assert is_connected(connection, BUSY_S)
    assert sockets.read(9) == []


def test_no_more_are_read_than_requested_and_as_many_of_each_family(sockets, client, server):
    table, port = AddressTable("inner"), server.getsockname()[1]
    for address in (ADDRESS, ADDRESS_6):
        table.add(address, 60)
        for _ in range(3):
            with client.begin(str(address.ip), port) as connection:
                assert is_connected(connection, BUSY_S)
    assert [len(sockets.read(4)) for _ in range(3)] == [4, 2, 0]


def test_requests_are_seen_again_after_the_interface_was_down(sockets, client):
    subprocess.run(["ip", "link", "set", "inner", "down"], check=True)
    with pytest.raises(OSError, match="Network is down"):
        sockets.read(2)
    subprocess.run(["ip", "link", "set", "inner", "up"], check=True)
    wait_until(lambda: sockets.read(2) == [], seconds=BUSY_S, what="open sockets")
    AddressTable("inner").add(ADDRESS, 60)
    with client.begin(str(ADDRESS.ip), 9):
        next_of(sockets)


def test_interface_that_is_not_there_is_an_error(host):
    with pytest.raises(OSError, match="No such device"):
        SynSockets("nosuch0", [ADDRESS.ip]).read(2)


@BOTH
def test_connection_is_not_ended_by_late_requests_for_it(network, sockets, client, server, address):
    """Not by its own, passed on although it was answered, and not by one of a former connection of the same ports."""
    AddressTable("inner").add(address, 60)
    with client.begin(str(address.ip), server.getsockname()[1]) as connection:
        assert is_connected(connection, BUSY_S)
        served, _ = server.accept()
        own = relayed(next_of(sockets))
        other = network.host(3)
        with other.inside():
            subprocess.run(["ip", "address", "add", "fd99::3/64", "dev", "inner", "nodad"], check=True)
            SynSockets("inner", [address.ip]).send([own, *(renumbered(own, number) for number in (0, 1 << 31))])
        arrived = []
        wait_until(lambda: arrived.extend(sockets.read(9)) or len(arrived) == 3, seconds=BUSY_S, what="all of them")
        with served:
            connection.settimeout(BUSY_S)
            connection.sendall(b"request")
            assert served.recv(100) == b"request"
            served.sendall(b"answer")
            assert connection.recv(100) == b"answer"


def renumbered(packet, sequence):
    """Return the same request with another sequence number."""
    header, addresses = (20, packet[12:20]) if packet[0] >> 4 == 4 else (40, packet[8:40])
    segment = packet[header:]
    return packet[:header] + with_tcp_checksum(addresses, segment[:4] + struct.pack("!I", sequence) + segment[8:])
