"""What a real HAProxy makes of brokers and controllers that are names: who is served, and what DNS cannot change."""

import asyncio
import contextlib
import json
import time

import pytest
from haproxy_config_peer import (
    FAILED,
    SERVES,
    SUPERSEDED,
    WAIT_S,
    Controller,
    RunningHAProxy,
    Server,
    Session,
    eventually,
)
from peers import networks
from peers.dns import DnsServer
from peers.processes import free_port
from peers.programs import require

from rmq.cli import command_line
from rmq.commands.table import COMMANDS

SERVICE = "rmq-set-broker-a.ns.svc.cluster.local"
#: Addresses of pods: all of 127.0.0.0/8 is this host.
ONE, TWO, MOVED = "127.1.0.1", "127.1.0.2", "127.1.0.3"
CONTROLLERS = {"c-0.ns.svc": "127.2.0.1", "c-1.ns.svc": "127.2.0.2"}
#: An idle session to a pod that is gone ends within this time.
GONE_S = 10


@pytest.fixture(autouse=True)
def _haproxy():
    require("haproxy")


class Cluster:
    """HAProxy as the chart runs it, before brokers of one port and two controllers, all of them names."""

    def __init__(self, folder, dns, inside=contextlib.nullcontext):
        """`inside` is entered where HAProxy, DNS and the controllers are."""
        self.dns, self.port, self.health_port, self.broker_port = dns, free_port(), free_port(), free_port()
        self.brokers, self._sessions, self._folder, self._inside = [], [], folder, inside
        self.haproxy = RunningHAProxy(folder, inside)

    async def start(self, capsys):
        port = free_port()
        with self._inside():
            self.controllers = [Controller(host, port) for host in CONTROLLERS.values()]
        (self._folder / "sets.json").write_text(json.dumps([self._set()]))
        arguments = {
            "service-sets": self._folder / "sets.json",
            "role-checks": ",".join(f"{name}:{port}" for name in CONTROLLERS),
            "local-port": free_port(),
            "run-folder": self._folder,
            "nameservers": self.dns.address,
            "health-port": self.health_port,
            "connections-max": 1000,
        }
        words = [f"--{name}={value}" for name, value in arguments.items()]
        assert command_line.run(COMMANDS, ["haproxy-config", *words]) == 0
        (self._folder / "haproxy.cfg").write_text(capsys.readouterr().out)
        self.answer(SERVES, SUPERSEDED)
        await self.haproxy.start()

    def _set(self):
        return {
            "name": "broker-a",
            "port": self.port,
            "service": SERVICE,
            "brokerPort": self.broker_port,
            "brokerIds": [1, 2, 3],
        }

    async def close(self):
        for session in self._sessions:
            await session.close()
        await self.haproxy.stop()
        for each in self.controllers:
            each.fall_silent()
        for broker in self.brokers:
            broker.kill()

    async def broker(self, name, address):
        """Start a broker in a pod of its own."""
        server = Server(name, address, self.broker_port)
        await server.start()
        self.brokers.append(server)
        return server

    def publish(self, broker_id, address):
        """Let DNS know where a broker is."""
        self.dns.addresses[f"b{broker_id}.{SERVICE}"] = address

    def answer(self, one, two):
        for each in self.controllers:
            each.answers = {("broker-a", 1): one, ("broker-a", 2): two}

    async def connect(self):
        with self._inside():
            session = await Session.to("127.0.0.1", self.port)
        self._sessions.append(session)
        return session

    async def who(self):
        session = await self.connect()
        try:
            return await session.ask()
        finally:
            await session.close()

    async def served_by(self, wanted):
        async with asyncio.timeout(WAIT_S):
            while await self.who() != wanted:
                await asyncio.sleep(0.02)

    async def looked_up(self):
        """Wait until HAProxy has looked everything up twice from now on."""
        before = self.dns.queries
        await eventually(lambda: self.dns.queries >= before + 10, "names are looked up")

    async def health(self, path):
        """Return the status that the health port answers."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.health_port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        line = await asyncio.wait_for(reader.readline(), WAIT_S)
        writer.close()
        await writer.wait_closed()
        return int(line.split()[1])


@contextlib.asynccontextmanager
async def running(cluster, capsys):
    try:
        await cluster.start(capsys)
        yield cluster
    finally:
        await cluster.close()


@pytest.fixture
async def cluster(tmp_path, capsys):
    async with DnsServer(CONTROLLERS) as dns:
        cluster = Cluster(tmp_path, dns)
        cluster.one, cluster.two = await cluster.broker("one", ONE), await cluster.broker("two", TWO)
        cluster.publish(1, ONE)
        cluster.publish(2, TWO)
        async with running(cluster, capsys):
            yield cluster


async def test_master_that_is_a_name_is_served_and_fails_over(cluster):
    await cluster.served_by("one")
    session = await cluster.connect()
    assert await session.ask() == "one"
    cluster.answer(FAILED, SUPERSEDED)
    await session.ended()
    cluster.answer(SUPERSEDED, SERVES)
    assert await cluster.who() == "two"


@pytest.mark.parametrize("state", ["silent", "unknown names", "names without addresses"])
async def test_dns_without_addresses_changes_nothing_and_stops_no_failover(cluster, state):
    await cluster.served_by("one")
    session = await cluster.connect()
    assert await session.ask() == "one"
    cluster.dns.is_silent = state == "silent"
    cluster.dns.addresses = {} if state == "unknown names" else dict.fromkeys(cluster.dns.addresses)
    await cluster.looked_up()
    await asyncio.sleep(2)
    assert (await session.ask(), await cluster.who()) == ("one", "one")
    cluster.answer(SUPERSEDED, SERVES)
    await session.ended()
    assert await cluster.who() == "two"


async def test_broker_that_moves_is_served_at_its_new_address(cluster):
    await cluster.served_by("one")
    cluster.one.kill()
    await cluster.broker("moved", MOVED)
    waiting = await cluster.connect()
    asking = asyncio.create_task(waiting.ask())
    cluster.publish(1, MOVED)
    assert await asking == "moved"


async def test_broker_without_an_address_is_served_once_it_has_one(cluster):
    await cluster.served_by("one")
    session = await cluster.connect()
    assert await session.ask() == "one"
    for each in cluster.controllers:
        each.answers = {("broker-a", 1): SUPERSEDED, ("broker-a", 3): SERVES}
    await session.ended()
    await cluster.broker("three", MOVED)
    waiting = await cluster.connect()
    asking = asyncio.create_task(waiting.ask())
    cluster.publish(3, MOVED)
    assert await asking == "three"


async def test_controllers_that_all_move_are_found_again(cluster):
    await cluster.served_by("one")
    session = await cluster.connect()
    assert await session.ask() == "one"
    port = int(cluster.controllers[0].address.rpartition(":")[2])
    for each in cluster.controllers:
        each.fall_silent()
    cluster.controllers = [Controller(host, port) for host in ("127.2.0.8", "127.2.0.9")]
    cluster.dns.addresses |= dict(zip(CONTROLLERS, ("127.2.0.8", "127.2.0.9"), strict=True))
    cluster.answer(SUPERSEDED, SERVES)
    await session.ended()
    assert await cluster.who() == "two"


async def test_fresh_haproxy_has_started_once_a_controller_leads_and_runs_on_without(cluster):
    await cluster.served_by("one")
    assert (await cluster.health("/started"), await cluster.health("/")) == (200, 200)
    for each in cluster.controllers:
        each.leads = False
    async with asyncio.timeout(WAIT_S):
        while await cluster.health("/started") != 503:
            await asyncio.sleep(0.05)
    assert await cluster.health("/") == 200


async def test_idle_session_to_a_pod_that_vanishes_ends_although_nobody_resets_it(tmp_path, capsys):
    """The broker is back at another address before its failure is noticed, so no answer of a controller ends it."""
    if reason := networks.why_not():
        pytest.skip(reason)
    async with contextlib.AsyncExitStack() as stack:
        network = stack.enter_context(contextlib.closing(networks.Network()))
        pod, other = network.host(5), network.host(6)
        with network.inside():
            dns = await stack.enter_async_context(DnsServer(CONTROLLERS))
        cluster = Cluster(tmp_path, dns, network.inside)
        for name, host in (("one", pod), ("moved", other)):
            with host.inside():
                await cluster.broker(name, host.address)
        cluster.publish(1, pod.address)
        await stack.enter_async_context(running(cluster, capsys))
        await cluster.served_by("one")
        session = await cluster.connect()
        assert await session.ask() == "one"
        pod.leave()
        cluster.publish(1, other.address)
        began = time.perf_counter()
        await session.ended()
        assert time.perf_counter() - began < GONE_S
        assert await cluster.who() == "moved"
