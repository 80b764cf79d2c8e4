"""Two HAProxies on hosts of their own, with one role address between them, as VRRP moves it."""

import asyncio
import contextlib
import socket
import struct
import subprocess

import pytest
from haproxy_config_peer import (
    LAST,
    SERVES,
    SUPERSEDED,
    WAIT_S,
    Controller,
    ProxiedSet,
    RunningHAProxy,
    Server,
    Session,
    eventually,
    frontend_of,
)
from peers import networks
from peers.programs import require

from rmq.haproxy_config.configuration import reset_rules
from rmq.haproxy_config.frontends import Frontends

SET = "broker-a"
ROLE_HOST, ROLE_PORT = "10.99.0.100", 10911
#: As long as the shortest frame of RocketMQ.
FRAME = "an answer that has 29 bytes ."
_ARP = 0x0806


class Pair(ProxiedSet):
    """The brokers and a controller are where the server is, the client is on a host, each HAProxy on another one."""

    def __init__(self, network, folder):
        self.network, self.set_name = network, SET
        self.client, self.hosts = network.host(9), [network.host(2), network.host(3)]
        self.proxies = []
        for host in self.hosts:
            # As keepalived has it: the one that does not have the address listens there all the same.
            network._run(f"ip netns exec {host._name} sysctl -q net.ipv4.ip_nonlocal_bind=1")
            (folder / host._name).mkdir()
            self.proxies.append(RunningHAProxy(folder / host._name, host.inside))

    async def start(self):
        with self.network.inside():
            self.one, self.two = Server("one", self.network.server), Server("two", self.network.server)
            self.controller = Controller(self.network.server)
            self.controllers = [self.controller]
            await self.one.start()
            await self.two.start()
        frontend = frontend_of(SET, f"{ROLE_HOST}:{ROLE_PORT}", self.one, self.two)
        for host, proxy in zip(self.hosts, self.proxies, strict=True):
            self._reset_sessions(host, reset_rules(Frontends((frontend,), ())))
            proxy.configure(frontend, (self.controller.address,))
            await proxy.start()

    def _reset_sessions(self, host, rules):
        with host.inside():
            subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)

    async def stop(self):
        for proxy in self.proxies:
            await proxy.stop()
        self.controller.fall_silent()
        self.one.kill()
        self.two.kill()

    def sessions_of_proxies(self):
        """Return a line for each connection at the role port that a process has."""
        command = ["ss", "-Htnp", "sport", "=", f":{ROLE_PORT}"]
        found = []
        for host in self.hosts:
            with host.inside():
                found += subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return [line for line in found if "users:" in line]

    def move_address(self, before, after):
        """Let a host have the role address and say so on the network, as VRRP does."""
        if before is not None:
            self.network._run(f"ip -n {before._name} address del {ROLE_HOST}/24 dev inner")
        self.network._run(f"ip -n {after._name} address add {ROLE_HOST}/24 dev inner")
        with after.inside(), contextlib.closing(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as raw:
            raw.bind(("inner", _ARP))
            mac, ip = raw.getsockname()[4], socket.inet_aton(ROLE_HOST)
            announcement = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 1, mac, ip, b"\0" * 6, ip)
            raw.send(b"\xff" * 6 + mac + struct.pack("!H", _ARP) + announcement)

    async def connect(self):
        with self.client.inside():
            return await Session.to(ROLE_HOST, ROLE_PORT)


@pytest.fixture
async def pair(tmp_path):
    require("haproxy", "nft")
    if reason := networks.why_not():
        pytest.skip(reason)
    with contextlib.closing(networks.Network()) as network:
        pair = Pair(network, tmp_path)
        await pair.start()
        yield pair
        await pair.stop()


async def test_second_haproxy_leads_to_the_master_from_its_first_connection(pair):
    first, second = pair.hosts
    pair.move_address(None, first)
    pair.answer(SERVES, SUPERSEDED)
    assert await pair.who() == "one"
    # The master changes: the one without the address follows as well.
    pair.answer(SUPERSEDED, SERVES)
    async with asyncio.timeout(WAIT_S):
        for proxy in pair.proxies:
            while [(await proxy.states())[f"broker_{i}"] == "no check" for i in (1, 2)] != [False, True]:
                await asyncio.sleep(0.05)
    session = await pair.connect()
    assert await session.ask() == "two"
    await pair.proxies[0].stop()
    await session.ended()
    pair.move_address(first, second)
    assert await pair.who() == "two"
    await session.close()


async def test_address_moves_back_and_sessions_end_at_each_role_change(pair):
    first, second = pair.hosts
    pair.move_address(None, second)
    pair.answer(SERVES, SUPERSEDED)
    assert await pair.who() == "one"
    pair.move_address(second, first)
    assert await pair.who() == "one"
    session = await pair.connect()
    assert await session.ask() == "one"
    pair.answer(SUPERSEDED, SERVES)
    # As the rules of nftables have it: a client 4.9 does not notice the end of a session otherwise.
    assert await session.ended()
    assert await pair.who() == "two"
    await session.close()
    await eventually(lambda: pair.controller.checked, "both check")


async def test_last_answer_before_the_end_of_a_session_arrives_and_haproxy_keeps_no_session(pair):
    pair.move_address(None, pair.hosts[0])
    pair.answer(SERVES, SUPERSEDED)
    pair.one.name = FRAME
    assert await pair.who() == FRAME
    for _ in range(100):
        session = await pair.connect()
        assert await session.ask(LAST) == FRAME
        await session.close()
    # A broker that closes idle connections sends no answer with the end.
    idle = await pair.connect()
    assert await idle.ask() == FRAME
    for writer in pair.one.writers:
        writer.close()
    assert await idle.ended()
    await eventually(lambda: not pair.sessions_of_proxies(), "HAProxy has no session")
