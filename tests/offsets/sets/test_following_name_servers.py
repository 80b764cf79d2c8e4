"""The masters are followed at NameServers and brokers that answer over real sockets, are silent, or are odd."""

import asyncio
import contextlib

import pytest
from fakes.answering_peer import NOTHING, AnsweringPeer, refusal, success
from fakes.clock import FakeClock
from set_builders import CLUSTER, SET

from offsets.sets import by_name_servers
from offsets.sets.by_name_servers import NameServerFollowing, NamesrvUnusable
from offsets.sets.followed import MasterChangeKind
from offsets.sets.following import FRESH_MS
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import BrokerRequestCode, RequestCode

FOUND, RESTARTED, MOVED = MasterChangeKind.FOUND, MasterChangeKind.RESTARTED, MasterChangeKind.MOVED
RUNTIME = BrokerRequestCode.GET_BROKER_RUNTIME_INFO


class Site:
    """Two NameServers and the brokers that they show."""

    def __init__(self):
        self.boots = {}
        #: Further sets that are shown, by broker name.
        self.other_sets = {}
        #: Sets that are remembered, by broker name.
        self.away = []
        self.changes, self.told = [], []
        self.name_servers = [AnsweringPeer(lambda *_: self.shown()) for _ in range(2)]
        self.brokers = []

    async def __aenter__(self):
        for name_server in self.name_servers:
            await name_server.open()
        self.client = RemotingClient(SystemClock())
        self.clock = FakeClock()
        addresses = [name_server.address for name_server in self.name_servers]
        self.following = NameServerFollowing(addresses, self.client, self.clock, self.told.append)
        self.following.listeners.append(self.changes.append)
        return self

    async def __aexit__(self, *_):
        await self.client.close()
        for peer in (*self.name_servers, *self.brokers):
            await peer.close()

    async def broker(self, boot_unix_ms=1_000):
        """Let a broker run, which NameServers show as the master from now on."""
        broker = AnsweringPeer(lambda code, _: self.runtime(broker, code))
        self.boots[broker] = boot_unix_ms
        self.brokers.append(await broker.open())
        self.master = broker
        return broker

    def runtime(self, broker, code):
        boot = self.boots[broker]
        if not isinstance(boot, int):
            return boot
        return (
            success({"table": {"bootTimestamp": str(boot)}}) if code == RUNTIME else success(b"brokerName=broker-a\n")
        )

    def shown(self, **odd):
        sets = {SET: self.master} | self.other_sets
        table = {
            name: {"brokerName": name, "cluster": CLUSTER, "brokerAddrs": {"0": broker.address}}
            for name, broker in sets.items()
        }
        away = [
            {"cluster": CLUSTER, "brokerName": name, "awaySinceUnixMs": 1, "wasUnregistered": True, "brokerAddrs": {}}
            for name in self.away
        ]
        clusters = {CLUSTER: [*sets]}
        return success({"brokerAddrTable": table | odd, "clusterAddrTable": clusters, "awayBrokerSets": away})

    async def kinds(self, rounds=1):
        """Return what some rounds find."""
        before = len(self.changes)
        for _ in range(rounds):
            await self.following.look()
        return [change.kind for change in self.changes[before:]]

    @property
    def unusable(self):
        return [(event.addr, event.error) for event in self.told if isinstance(event, NamesrvUnusable)]


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    # However busy the machine is.
    monkeypatch.setattr(by_name_servers, "ANSWERS_S", 20)


@pytest.fixture
async def site():
    async with Site() as site:
        await site.broker()
        yield site


async def test_a_master_its_restart_and_its_successor_are_found(site):
    assert await site.kinds() == [FOUND]
    (change,) = site.changes
    assert (change.after.address, change.after.boot_unix_ms, change.after.master_epoch) == (
        site.master.address,
        1_000,
        None,
    )
    assert site.following.is_master(change.after)
    assert [peer.count(RequestCode.GET_BROKER_CLUSTER_INFO) for peer in site.name_servers] == [1, 1]
    assert await site.kinds(5) == []
    # It counts its timer wheel for each answer, which takes 60 to 200 ms of a core.
    assert site.master.count(RUNTIME) == 2
    site.boots[site.master] = 2_000
    site.master.drop_connections()
    assert await site.kinds(2) == [RESTARTED]
    await site.broker(500)
    assert await site.kinds() == [MOVED]


async def test_a_set_that_is_away_is_followed_without_a_master(site):
    site.away = ["broker-z"]
    assert await site.kinds() == [FOUND]
    away = site.following.sets["broker-z"]
    assert (away.set_name.cluster, away.master) == (CLUSTER, None)


async def test_an_odd_row_is_left_out_and_named_and_hides_no_other(site):
    odd = {"brokerName": "odd", "cluster": None, "brokerAddrs": {"0": "127.0.0.1:1"}}
    for name_server in site.name_servers:
        name_server.answer = lambda *_: site.shown(odd=odd)
    assert await site.kinds(2) == [FOUND]
    assert {address for address, _ in site.unusable} == {peer.address for peer in site.name_servers}
    assert all("'brokerAddrTable.odd'" in problem for _, problem in site.unusable)


async def test_a_broker_that_refuses_lives_and_is_found_without_its_start(site):
    site.boots[site.master] = refusal(1, "The broker does not work")
    assert await site.kinds() == [FOUND]
    assert site.changes[0].after.boot_unix_ms is None


async def test_a_broker_that_hangs_delays_no_round_and_is_not_lost(site, monkeypatch):
    assert await site.kinds() == [FOUND]
    monkeypatch.setattr(by_name_servers, "ANSWERS_S", 0.2)
    site.boots[site.master] = NOTHING
    began = asyncio.get_running_loop().time()
    assert await site.kinds(3) == []
    assert asyncio.get_running_loop().time() - began < 5
    # One request is under way to it, not one of each round; on a busy machine a second one may follow its end.
    assert site.master.count(RUNTIME) in {2, 3}
    assert len([task for task in asyncio.all_tasks() if "_query_boot" in repr(task.get_coro())]) <= 1


async def test_candidates_that_hang_keep_no_known_master_from_being_asked(monkeypatch):
    monkeypatch.setattr(by_name_servers, "LIMITS", by_name_servers.AdminLimits(timeout_ms=60_000, requests_max=2))
    async with Site() as site:
        known = await site.broker()
        assert await site.kinds() == [FOUND]
        monkeypatch.setattr(by_name_servers, "ANSWERS_S", 0.2)
        site.other_sets = {f"odd-{number}": await site.broker(NOTHING) for number in range(4)}
        site.master = known
        async with asyncio.timeout(60):
            while len(known.received) < 4:
                assert await site.kinds() == []
        # So many at a time, whatever is shown.
        assert sum(broker.count(RUNTIME) for broker in site.other_sets.values()) == 2
        site.following._candidates.cancel()


async def test_name_servers_that_hang_are_gone_or_odd_change_nothing_and_are_named_once(site, monkeypatch):
    assert await site.kinds() == [FOUND]
    answered_ms = site.following.answered_ms
    site.clock.pass_ms(100)
    first, second = site.name_servers
    first.answer = lambda *_: success(b"<html>")
    await second.close()
    assert await site.kinds(2) == []
    assert sorted(address for address, _ in site.unusable) == sorted(peer.address for peer in site.name_servers)
    assert site.following.answered_ms == answered_ms
    first.answer = lambda *_: NOTHING
    monkeypatch.setattr(by_name_servers, "ANSWERS_S", 0.2)
    assert await site.kinds() == []
    site.clock.pass_ms(FRESH_MS - 100)
    assert site.following.is_master(site.changes[0].after)
    site.clock.pass_ms(1)
    assert not site.following.is_master(site.changes[0].after)


async def test_one_name_server_that_answers_is_enough(site):
    await site.name_servers[0].close()
    assert await site.kinds() == [FOUND]
    assert site.following.is_fresh()


async def test_rounds_follow_each_other_and_an_end_leaves_no_request_behind(site, monkeypatch):
    monkeypatch.setattr(by_name_servers, "PERIOD_S", 0.05)
    task = asyncio.create_task(site.following.run())
    async with asyncio.timeout(10):
        while site.name_servers[0].count(RequestCode.GET_BROKER_CLUSTER_INFO) < 4:
            await asyncio.sleep(0.01)
    site.boots[site.master] = NOTHING
    await asyncio.sleep(0.1)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [task for task in tasks if "_query" in repr(task.get_coro())]
