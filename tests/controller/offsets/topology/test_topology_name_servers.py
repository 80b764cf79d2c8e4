"""The masters are followed at NameServers and brokers that answer over real sockets, are silent, or are odd."""

import asyncio
import contextlib
import json

import pytest
from fakes.answering_peer import NOTHING, AnsweringPeer, refusal, success
from fakes.clock import FakeClock
from topology_builders import CLUSTER, SET

from controller.offsets.topology import name_servers
from controller.offsets.topology.name_servers import NameServerParts, NameServerWatch
from controller.offsets.topology.shown_masters import ShownMasters
from controller.offsets.topology.values import MasterChangeKind
from controller.offsets.topology.watch import FRESH_MS
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from remoting.protocol.codes import BrokerRequestCode, RequestCode

FOUND, RESTARTED, MOVED = MasterChangeKind.FOUND, MasterChangeKind.RESTARTED, MasterChangeKind.MOVED


class Site:
    """Two NameServers and the brokers that they show."""

    def __init__(self):
        self.boots = {}
        #: Further sets that are shown, by broker name.
        self.odd_sets = {}
        #: Sets that are remembered, by broker name.
        self.away = []
        self.changes, self.unusable = [], []
        self.name_servers = [AnsweringPeer(lambda *_: self.shown()) for _ in range(2)]
        self.brokers = []

    async def __aenter__(self):
        for each in self.name_servers:
            await each.open()
        self.client = RemotingClient(SystemClock())
        self.clock = FakeClock()
        parts = NameServerParts(self.client, ShownMasters(), self, self, self.clock)
        self.watch = NameServerWatch([each.address for each in self.name_servers], parts)
        return self

    async def __aexit__(self, *_):
        await self.client.close()
        for each in (*self.name_servers, *self.brokers):
            await each.close()

    async def broker(self, boot_unix_ms=1_000):
        """Let a broker run, which NameServers show as the master from now on."""
        broker = AnsweringPeer(lambda code, _: self.runtime(broker, code))
        self.boots[broker] = boot_unix_ms
        self.brokers.append(await broker.open())
        self.master = broker
        return broker

    def runtime(self, broker, code):
        assert code == BrokerRequestCode.GET_BROKER_RUNTIME_INFO
        boot = self.boots[broker]
        return success({"table": {"bootTimestamp": str(boot)}}) if isinstance(boot, int) else boot

    def shown(self):
        data = {"brokerName": SET, "cluster": CLUSTER, "brokerAddrs": {"0": self.master.address}}
        odd = {
            name: {"brokerName": name, "cluster": CLUSTER, "brokerAddrs": {"0": each.address}}
            for name, each in self.odd_sets.items()
        }
        away = [
            {"cluster": CLUSTER, "brokerName": name, "awaySinceUnixMs": 1, "wasUnregistered": True, "brokerAddrs": {}}
            for name in self.away
        ]
        body = {"brokerAddrTable": {SET: data} | odd, "clusterAddrTable": {CLUSTER: [SET, *odd]}}
        return success(body | {"awayBrokerSets": away})

    def masters_changed(self, changes):
        self.changes += changes

    def name_server_unusable(self, address, problem):
        self.unusable.append((address, problem))

    async def kinds(self, rounds=1):
        """Return what some rounds find."""
        before = len(self.changes)
        for _ in range(rounds):
            await self.watch.look()
        return [each.kind for each in self.changes[before:]]


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    # Whoever answers is waited for, however busy the machine is.
    monkeypatch.setattr(name_servers, "ANSWERS_S", 20)


@pytest.fixture
async def site():
    async with Site() as site:
        await site.broker()
        yield site


async def test_set_without_a_cluster_is_left_out_and_named_and_hides_no_other(site, monkeypatch):
    body = json.loads(site.shown().body)
    body["brokerAddrTable"]["odd"] = {"brokerName": "odd", "cluster": None, "brokerAddrs": {"0": "127.0.0.1:1"}}
    monkeypatch.setattr(site, "shown", lambda: success(body))

    assert await site.kinds(2) == [FOUND]
    assert {address for address, _ in site.unusable} == {each.address for each in site.name_servers}
    assert all("'brokerAddrTable.odd'" in problem for _, problem in site.unusable)


async def test_master_is_found_and_its_restart_and_successor_too(site):
    assert await site.kinds() == [FOUND]
    (change,) = site.changes
    assert (change.after.address, change.after.boot_unix_ms) == (site.master.address, 1_000)
    assert change.after.master_epoch is None
    assert [each.count(RequestCode.GET_BROKER_CLUSTER_INFO) for each in site.name_servers] == [1, 1]
    assert await site.kinds() == []
    site.boots[site.master] = 2_000
    assert await site.kinds() == [RESTARTED]
    await site.broker(500)
    assert await site.kinds() == [MOVED]


async def test_set_that_is_away_is_followed_without_a_master_also_by_a_manager_that_never_saw_it(site):
    site.away = ["broker-z"]

    assert await site.kinds() == [FOUND]
    assert (site.watch.masters.sets["broker-z"].cluster, site.watch.masters.sets["broker-z"].master) == (CLUSTER, None)


async def test_broker_that_refuses_lives_and_is_found_without_the_time_of_its_start(site):
    site.boots[site.master] = refusal(1, "The broker does not work")
    assert await site.kinds() == [FOUND]
    assert site.changes[0].after.boot_unix_ms is None


async def test_broker_that_hangs_delays_no_round_and_is_not_lost(site, monkeypatch):
    assert await site.kinds() == [FOUND]
    monkeypatch.setattr(name_servers, "ANSWERS_S", 0.2)
    hanging = site.master
    site.boots[hanging] = NOTHING
    began = asyncio.get_running_loop().time()
    assert await site.kinds(3) == []
    assert asyncio.get_running_loop().time() - began < 5
    # One request is under way to it, not one of each round; on a busy machine a second one may follow its end.
    assert hanging.count(BrokerRequestCode.GET_BROKER_RUNTIME_INFO) in {2, 3}


async def test_candidates_that_hang_keep_no_known_master_from_being_queried(site, monkeypatch):
    assert await site.kinds() == [FOUND]
    monkeypatch.setattr(name_servers, "ANSWERS_S", 0.2)
    monkeypatch.setattr(name_servers, "CANDIDATES_MAX", 2)
    known, hanging = site.master, [await site.broker(NOTHING) for _ in range(4)]
    site.odd_sets = {f"odd-{number}": each for number, each in enumerate(hanging)}
    site.master = known
    async with asyncio.timeout(60):
        while known.count(BrokerRequestCode.GET_BROKER_RUNTIME_INFO) < 4:
            assert await site.kinds() == []
            assert len(site.watch._candidates.under_way) <= 2


async def test_name_servers_that_hang_or_are_gone_or_odd_change_nothing_and_are_named_once(site, monkeypatch):
    assert await site.kinds() == [FOUND]
    answered_ms = site.watch.answered_ms
    first, second = site.name_servers
    first.answer = lambda *_: success(b"<html>")
    await second.close()
    assert await site.kinds(2) == []
    assert sorted(address for address, _ in site.unusable) == sorted(each.address for each in site.name_servers)
    assert site.watch.answered_ms == answered_ms
    first.answer = lambda *_: NOTHING
    monkeypatch.setattr(name_servers, "ANSWERS_S", 0.2)
    assert await site.kinds() == []
    assert site.watch.masters.is_master(site.changes[0].after)


async def test_nobody_is_known_to_be_master_once_no_name_server_has_answered_for_a_while(site):
    assert await site.kinds() == [FOUND]
    found = site.changes[0].after
    assert site.watch.is_master(found)
    for each in site.name_servers:
        await each.close()
    site.clock.pass_ms(FRESH_MS + 1)
    assert await site.kinds() == []
    assert not site.watch.is_master(found)


async def test_one_name_server_that_answers_is_enough(site):
    await site.name_servers[0].close()
    assert await site.kinds() == [FOUND]


async def test_rounds_follow_each_other_and_an_end_leaves_no_request_behind(site, monkeypatch):
    monkeypatch.setattr(name_servers, "PERIOD_S", 0.05)
    task = asyncio.create_task(site.watch.run())
    async with asyncio.timeout(10):
        while site.name_servers[0].count(RequestCode.GET_BROKER_CLUSTER_INFO) < 4:
            await asyncio.sleep(0.01)
    site.boots[site.master] = NOTHING
    await asyncio.sleep(0.1)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [each for each in tasks if "_query" in repr(each.get_coro())]
