"""Which requests for connections another host gets: real kernels, without the agents around them."""

import asyncio
import contextlib
import json
import socket
import subprocess
from ipaddress import ip_interface

import pytest
from connecting_hosts import BUSY_S, ConnectingHost, is_connected

from remoting.clock import BootClock
from role_agent.log import AgentLog
from role_agent.network.kernel import AddressTable, close_sessions
from role_agent.network.syns import connection_of
from role_agent.syn_relay import SynRelay, SynSockets

ADDRESS = ip_interface("10.99.0.100/24")
ADDRESS_6 = ip_interface("fd99::100/64")
#: A firewall that lets nothing out with an address of somebody else.
_NOTHING_OF_CLIENTS = """
nft add table inet own
nft add chain inet own out "{ type filter hook output priority 0; }"
nft add rule inet own out ip saddr 10.99.0.4 drop
"""


@pytest.fixture
def sockets():
    """Return what makes sockets for an address; they are closed with the test."""
    with contextlib.ExitStack() as opened:
        yield lambda address: opened.enter_context(contextlib.closing(SynSockets("inner", [address.ip])))


@pytest.mark.parametrize("address", [ADDRESS, ADDRESS_6], ids=["ipv4", "ipv6"])
def test_another_host_gets_what_was_not_answered_and_nothing_of_sessions_that_ended(network, sockets, address):
    old, new, client = network.host(2), network.host(3), ConnectingHost(network)
    seen_by_old, seen_by_new = sockets(address), sockets(address)
    relay = SynRelay(seen_by_old, BootClock(), AgentLog(BootClock(), {}))
    with old.inside():
        table = prepared(2)
        relay.tick()
        table.add(address, 60)
        listener = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    answered = client.begin(str(address.ip), listener.getsockname()[1])
    with listener, answered:
        assert is_connected(answered, BUSY_S)
        with old.inside():
            table.remove(address)
            relay.ended(close_sessions(address.ip))
        with new.inside():
            prepared(3).add(address, 60)
            assert seen_by_new.read(9) == []
        # Nobody has announced that the address has moved.
        with client.begin(str(address.ip), 9) as too_early, old.inside():
            port = too_early.getsockname()[1]
            asyncio.run(relay.pass_on(2))
    assert {client_port(each) for each in seen_by_new.read(99)} == {port}


def test_requests_that_the_kernel_refuses_to_send_do_not_count_as_passed_on(network, sockets, capfd):
    client = ConnectingHost(network)
    with network.host(2).inside():
        relay = SynRelay(sockets(ADDRESS), BootClock(), AgentLog(BootClock(), {}))
        table = prepared(2)
        relay.tick()
        table.add(ADDRESS, 60)
        subprocess.run(["sh", "-ec", _NOTHING_OF_CLIENTS], check=True)
        with client.begin(str(ADDRESS.ip), 9):
            table.remove(ADDRESS)
            asyncio.run(relay.pass_on(2))
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(each["event"], each.get("error")) for each in lines] == [
        ("connections_not_passed_on", "[Errno 1] Operation not permitted")
    ]


async def test_agent_that_stops_passes_on_nothing_more(network, sockets):
    with network.host(2).inside():
        relay = SynRelay(sockets(ADDRESS), BootClock(), AgentLog(BootClock(), {}))
        passing = asyncio.create_task(relay.pass_on(2))
        await asyncio.sleep(0)
        relay.stop()
        async with asyncio.timeout(2):
            await passing


def client_port(packet):
    return int.from_bytes(connection_of(packet)[-4:-2])


def prepared(number):
    subprocess.run(["ip", "address", "add", f"fd99::{number}/64", "dev", "inner", "nodad"], check=True)
    return AddressTable("inner")
