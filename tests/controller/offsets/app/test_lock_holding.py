"""Locks of declared groups are replayed at new masters by the manager that serves, and by no other."""

import asyncio
import contextlib
from contextlib import asynccontextmanager

import pytest
from fakes.background import background_tasks
from fakes.followed_masters import CLUSTER, FollowedMasters
from fakes.locking_broker import LOCK, MEMBERS, RUNNING, UNLOCK, LockingBroker, OrderlyClient, RecordingHolderObserver
from holder_builders import BROKER, GROUP, a_member, a_queue

from controller.offsets.app import holding
from controller.offsets.app.holding import CLUSTERS_MAX, HoldingParts, LockHolding, polled_groups
from controller.offsets.locks import holder_poller, poll_schedule, release
from controller.offsets.locks.holder_poller import LISTINGS_MAX
from controller.offsets.locks.replay_rules import ReplayOutcome
from controller.offsets.locks.sessions.values import LockGroup
from controller.offsets.service.manager_role import ManagerRole
from remoting.client import RemotingClient
from remoting.clock import SystemClock

ORDERLY = LockGroup(CLUSTER, "", GROUP)


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """What is repeated is repeated often."""
    monkeypatch.setattr(holding, "LOOK_S", 0.05)
    for module in (holder_poller, poll_schedule):
        monkeypatch.setattr(module, "WATCH_PERIOD_MS", 200)
    monkeypatch.setattr(holder_poller, "TICK_MS", 50)
    monkeypatch.setattr(release, "PERIOD_MS", 100)


class RecordingHoldingObserver(RecordingHolderObserver):
    """What was reported, and which groups were left out."""

    def __init__(self):
        super().__init__()
        self.reports, self.left_out = [], []

    def of_cluster(self, cluster):
        assert cluster == CLUSTER
        return self

    def locks_replayed(self, report):
        self.reports.append(report)

    def groups_left_out(self, groups):
        self.left_out.append(groups)


class HoldingSite:
    """A set of two brokers, the first of which is master, and what follows the holders there."""

    def __init__(self, tasks, client, brokers, *, replays):
        clock = SystemClock()
        self.first, self.second = brokers
        self.following = FollowedMasters(clock)
        self.role = ManagerRole(clock, lambda term: None, lambda: None)
        self.declared = {ORDERLY}
        self.observer = RecordingHoldingObserver()
        self.holding = LockHolding(
            HoldingParts(
                following=self.following,
                client=client,
                declared=lambda: self.declared,
                role=self.role,
                tasks=tasks,
                clock=clock,
                observer=self.observer,
            ),
            replays=replays,
        )
        self.following.elect(BROKER, self.first.address, self.second.address)
        (work,) = self.holding.work()
        self.task = tasks.keep_running(work, "hold_locks")

    def serve(self):
        self.role.leads(None)
        self.role.loaded(self.role.term)

    def connect(self, client_id, client, *brokers):
        for each in brokers or (self.first, self.second):
            each.clients[client_id] = client
        return client

    def holds(self, client_id, queue_id=0, group=GROUP):
        held = self.holding.clusters.get(CLUSTER)
        return held is not None and a_queue(queue_id) in held.mirror.table.holdings_of(a_member(client_id, group))

    def fail_over(self):
        self.following.elect(BROKER, None, self.first.address, self.second.address, epoch=1)
        self.following.elect(BROKER, self.second.address, self.first.address, epoch=2)

    def requests(self):
        return [code for broker in (self.first, self.second) for code, _ in broker.received]


async def eventually(is_so):
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def holding_site(*, replays=True, serves=True):
    client = RemotingClient(SystemClock())
    brokers = [await LockingBroker().open() for _ in range(2)]
    try:
        async with background_tasks() as tasks:
            site = HoldingSite(tasks, client, brokers, replays=replays)
            if serves:
                site.serve()
            yield site
            site.task.cancel()
    finally:
        await client.close()
        for each in brokers:
            with contextlib.suppress(OSError):
                await each.close()


async def test_new_master_gets_the_locks_of_holders_of_declared_groups():
    async with holding_site() as site:
        site.connect("c1", OrderlyClient(0, 1))
        await eventually(lambda: site.holds("c1"))
        site.fail_over()
        await eventually(lambda: site.observer.reports)
        assert site.second.locks == {(GROUP, 0): "c1", (GROUP, 1): "c1"}
        assert site.observer.reports[0].count(ReplayOutcome.GRANTED) == 2
        assert site.first.count(LOCK) == 0


async def test_lost_lock_is_given_up_after_a_replay():
    async with holding_site() as site:
        client = site.connect("c1", OrderlyClient(0))
        await eventually(lambda: site.holds("c1"))
        site.fail_over()
        await eventually(lambda: site.observer.reports)
        client.locked.clear()
        await eventually(lambda: site.observer.released)
        assert [each.member.client_id for each in site.observer.released] == ["c1"]
        assert site.second.locks == {}


async def test_nothing_is_locked_while_replay_is_off_and_overlaps_are_found_all_the_same():
    async with holding_site(replays=False) as site:
        site.connect("c1", OrderlyClient(0))
        await eventually(lambda: site.holds("c1"))
        site.fail_over()
        site.connect("c2", OrderlyClient(0), site.second)
        await eventually(lambda: site.observer.opened)
        assert site.observer.opened[0].overlap.clients == ("c1", "c2")
        assert not {LOCK, UNLOCK}.intersection(site.requests())


async def test_manager_that_does_not_serve_for_a_moment_still_knows_holders_and_the_locks_that_it_replayed():
    async with holding_site() as site:
        client = site.connect("c1", OrderlyClient(0))
        await eventually(lambda: site.holds("c1"))
        site.fail_over()
        await eventually(lambda: site.observer.reports)
        site.role.follows(None)
        site.holding.look()
        assert not site.holding.clusters
        site.serve()
        site.holding.look()
        assert site.holds("c1")
        client.locked.clear()
        await eventually(lambda: site.observer.released)
        assert site.second.locks == {}


async def test_manager_that_serves_again_after_brokers_have_ended_locks_reads_holders_again(monkeypatch):
    monkeypatch.setattr(holding, "BROKER_LOCK_MS", -1)
    async with holding_site() as site:
        site.connect("c1", OrderlyClient(0))
        await eventually(lambda: site.holds("c1"))
        site.role.follows(None)
        site.holding.look()
        site.serve()
        site.holding.look()
        assert not site.holds("c1")
        await eventually(lambda: site.holds("c1"))


async def test_manager_that_does_not_serve_queries_nobody_and_one_that_ceases_to_takes_no_locks():
    async with holding_site(serves=False) as site:
        site.connect("c1", OrderlyClient(0))
        site.holding.look()
        assert not site.holding.clusters
        site.serve()
        await eventually(lambda: site.holds("c1"))
        site.role.follows(None)
        site.fail_over()
        assert not site.holding.clusters
        assert LOCK not in site.requests()
        assert not site.observer.reports


async def test_no_request_is_sent_while_no_group_is_declared():
    async with holding_site() as site:
        site.declared = set()
        site.holding.look()
        assert not site.holding.clusters
        assert site.requests() == []


async def test_group_that_is_withdrawn_gets_no_locks():
    async with holding_site() as site:
        site.declared = {ORDERLY, ORDERLY._replace(group="g2")}
        site.connect("c1", OrderlyClient(0))
        site.connect("c2", OrderlyClient(1, group="g2"))
        await eventually(lambda: site.holds("c1") and site.holds("c2", 1, "g2"))
        site.declared = {ORDERLY._replace(group="g2")}
        site.holding.look()
        site.fail_over()
        await eventually(lambda: site.observer.reports)
        assert set(site.second.locks.values()) == {"c2"}


async def test_locks_at_a_master_that_is_not_known_for_certain_stay_as_they_are():
    async with holding_site() as site:
        site.connect("c1", OrderlyClient(0))
        await eventually(lambda: site.holds("c1"))
        site.following.fresh = False
        site.fail_over()
        await eventually(lambda: site.observer.reports)
        assert site.observer.reports[0].count(ReplayOutcome.UNCONFIRMED) == 1
        assert site.second.locks == {}


async def test_groups_of_a_namespace_are_known_by_their_names_at_brokers():
    async with holding_site() as site:
        site.declared = {LockGroup(CLUSTER, "tenant", "g9")}
        site.connect("c1", OrderlyClient(0, group="tenant%g9"))
        await eventually(lambda: RUNNING in site.requests())
        assert {fields["consumerGroup"] for code, fields in site.first.received if code == MEMBERS} == {"tenant%g9"}


async def test_holders_are_known_as_long_as_their_only_set_has_no_master():
    async with holding_site() as site:
        site.connect("c1", OrderlyClient(0))
        await eventually(lambda: site.holds("c1"))
        site.following.elect(BROKER, None, site.first.address, site.second.address, epoch=1)
        site.holding.look()
        site.following.elect(BROKER, site.second.address, site.first.address, epoch=2)
        await eventually(lambda: site.second.locks)
        assert site.second.locks == {(GROUP, 0): "c1"}


@pytest.mark.parametrize(("sets", "kept"), [(1, 6000), (2, 2500), (100, 50), (20_000, 1)])
def test_as_many_groups_are_polled_as_their_sets_allow(sets, kept):
    declared = [LockGroup("c", "", f"g{number:04}") for number in range(6000)]
    polled = polled_groups(declared, {"c": sets})
    expected = min(kept, LISTINGS_MAX)
    assert len(polled.groups["c"]) == expected
    assert polled.left_out == 6000 - expected


def test_groups_of_clusters_without_sets_are_not_polled_and_of_too_many_clusters_the_last_are_not():
    declared = [LockGroup(f"c{number:02}", "", "g") for number in range(CLUSTERS_MAX + 2)]
    sets = {each.cluster: 1 for each in declared[1:]}
    polled = polled_groups(declared, sets)
    assert sorted(polled.groups) == sorted(sets)[:CLUSTERS_MAX]
    assert polled.left_out == 1
