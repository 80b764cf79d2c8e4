"""Addresses and connections of a real kernel."""

import asyncio
import contextlib
import socket
import subprocess
from ipaddress import ip_interface
from pathlib import Path

import pytest
from peers.waiting import seconds_until, wait_until

from role_agent.network.host import Neighbours
from role_agent.network.kernel import AddressTable, can_close, close_connections_at, close_sessions

ADDRESS = ip_interface("10.99.0.100/24")
ADDRESS_6 = ip_interface("fd99::100/64")
BOTH = pytest.mark.parametrize("address", [ADDRESS, ADDRESS_6], ids=["ipv4", "ipv6"])


@pytest.fixture
def host(network):
    """The test is on this host."""
    host = network.host(2)
    with host.inside():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        yield host


@pytest.fixture
def table(host):
    return AddressTable("inner")


def connected(address, port):
    """Return a connection to an address that was just added: the kernel adds the route of an IPv6 address later."""

    def attempt():
        with contextlib.suppress(OSError):
            return socket.create_connection((str(address.ip), port))
        return None

    return wait_until(attempt, seconds=20, what=f"a connection to {address.ip}")


@BOTH
def test_address_is_there_for_its_lifetime_and_removed_by_the_kernel(table, address):
    assert table.lifetime_s(address) is None
    table.add(address, 2)
    assert table.lifetime_s(address) in (1, 2)
    assert 1 < seconds_until(lambda: table.lifetime_s(address) is None, seconds=20, what="the removal") < 20


@BOTH
def test_renewed_address_has_its_new_lifetime(table, address):
    table.add(address, 2)
    table.add(address, 20)
    assert table.lifetime_s(address) in (19, 20)


@BOTH
def test_removed_address_is_not_there(table, address):
    table.add(address, 20)
    assert table.remove(address) is True
    assert table.lifetime_s(address) is None
    assert table.remove(address) is False


def test_unknown_interface_is_an_error(host):
    with pytest.raises(OSError, match="no interface with this name"):
        AddressTable("nosuch0").add(ADDRESS, 2)


@BOTH
def test_connections_of_the_address_are_closed_and_no_others(table, address):
    kept, closed = ip_interface(f"{address.ip + 1}/{address.network.prefixlen}"), address
    for each in (kept, closed):
        table.add(each, 60)
    # As brokers do: one listener for both families, so that addresses of IPv4 are IPv6 ones.
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        port = server.getsockname()[1]
        clients = {each: connected(each, port) for each in (kept, closed)}
        served = [server.accept()[0] for _ in clients]
    with _all_closed([*clients.values(), *served]):
        sessions = close_sessions(closed.ip)
        assert {session.remote_port for session in sessions} >= {clients[closed].getsockname()[1]}
        assert {session.local for session in sessions} == {closed.ip}
        with pytest.raises((ConnectionResetError, ConnectionAbortedError)):
            clients[closed].recv(1)
        clients[kept].sendall(b"x")
        assert [each.recv(1) for each in served if each.getsockname()[0].endswith(str(kept.ip))] == [b"x"]


@pytest.mark.parametrize("is_dual", [False, True], ids=["ipv4", "both families"])
def test_connections_to_a_port_are_closed_and_no_others(host, is_dual):
    with contextlib.ExitStack() as stack:
        family, own = (socket.AF_INET6, "::") if is_dual else (socket.AF_INET, "127.0.0.1")
        servers = [
            stack.enter_context(socket.create_server((own, 0), family=family, dualstack_ipv6=is_dual)) for _ in range(2)
        ]
        closed, kept = (
            stack.enter_context(socket.create_connection(("127.0.0.1", server.getsockname()[1]))) for server in servers
        )
        served = [stack.enter_context(server.accept()[0]) for server in servers]
        assert close_connections_at(servers[0].getsockname()[1]) == 1
        with pytest.raises(ConnectionResetError):
            closed.recv(1)
        served[1].sendall(b"x")
        assert kept.recv(1) == b"x"


def _all_closed(sockets):
    stack = contextlib.ExitStack()
    for each in sockets:
        stack.enter_context(each)
    return stack


def test_kernel_closes_connections(host):
    assert can_close()


@BOTH
def test_owner_of_an_address_is_found(network, host, address):
    other = network.host(3)
    neighbours = Neighbours("inner")
    assert asyncio.run(neighbours.owner_of(address.ip)) is None
    with other.inside():
        AddressTable("inner").add(address, 60)
    found = None
    for _ in range(20):
        # A busy machine may take longer to answer than a probe waits.
        found = found or asyncio.run(neighbours.owner_of(address.ip))
    assert found == (str(address.ip) if address is ADDRESS_6 else _mac(other))


def _mac(host):
    with host.inside(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as frames:
        frames.bind(("inner", 0))
        return frames.getsockname()[4].hex(":")


def test_announcement_replaces_what_a_neighbour_knows(network, host):
    other, client = network.host(3), network.host(4)
    with other.inside():
        AddressTable("inner").add(ADDRESS, 60)
    with client.inside():
        for _ in range(3):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.sendto(b"x", (str(ADDRESS.ip), 9))
    AddressTable("inner").add(ADDRESS, 60)
    Neighbours("inner").announce(ADDRESS.ip)
    own = _mac(host)
    assert seconds_until(lambda: own in _neighbour(client), seconds=20, what="the new MAC") < 20


def _neighbour(host):
    with host.inside():
        lines = Path("/proc/thread-self/net/arp").read_text().splitlines()
    return next((line for line in lines if line.startswith(f"{ADDRESS.ip} ")), "")
