"""Keeps up what is known of the holders of one cluster, and replays their locks at new masters if that is wanted.

The edge: it runs the loops of the poller and of the release, and starts a replay for each promotion. Everything that it
knows is gone when it ends.
"""

import asyncio
from collections.abc import Collection
from typing import Final, NamedTuple, Protocol

from controller.offsets.locks.holder_poller import GroupSource, HolderMirror, HolderObserver, HolderPoller
from controller.offsets.locks.poll_schedule import WAITED_FOR_MAX
from controller.offsets.locks.release import PERIOD_MS, LockRelease, MasterSource
from controller.offsets.locks.replay import CLIENTS_AT_ONCE, LockReplay, Promotion, ReplayReport
from controller.offsets.locks.replay_rules import ReplayedLocks
from remoting.admin.client import AdminClient, AdminLimits
from remoting.background_tasks import BackgroundTasks, Report
from remoting.client import Requester
from remoting.clock import Clock

#: Requests that clients answer: their bodies in memory are as many, 4 MiB each at most.
CLIENT_LIMITS: Final = AdminLimits(timeout_ms=1000, requests_max=16, requests_per_peer_max=WAITED_FOR_MAX)
BROKER_LIMITS: Final = AdminLimits(timeout_ms=3000, requests_max=32)
#: Of locks at new masters. All sets of a data centre may get new masters at once.
REPLAY_LIMITS: Final = AdminLimits(timeout_ms=1000, requests_max=256, requests_per_peer_max=CLIENTS_AT_ONCE)


class ClusterSource(GroupSource, MasterSource, Protocol):
    """Where the groups and the masters of one cluster are."""


class ClusterObserver(HolderObserver, Protocol):
    """Who logs, counts and records what becomes of the locks of a cluster."""

    def locks_replayed(self, report: ReplayReport) -> None:
        """Note what became of the locks at a new master."""


class ClusterParts(NamedTuple):
    """What the holders of a cluster are followed with."""

    source: ClusterSource
    observer: ClusterObserver
    client: Requester
    clock: Clock
    #: Called with the name of a task that failed.
    report: Report
    #: Whether locks are taken and given up at masters; otherwise their holders are read only.
    replays: bool


class HeldCluster:
    """The holders of one cluster."""

    def __init__(self, parts: ClusterParts) -> None:
        self._parts = parts
        client, clock, source = parts.client, parts.clock, parts.source
        self._tasks = BackgroundTasks(parts.report)
        self._is_running = False
        self.mirror = HolderMirror(clock, parts.observer)
        self._brokers = AdminClient(client, BROKER_LIMITS)
        clients = AdminClient(client, CLIENT_LIMITS)
        self._poller = HolderPoller(self.mirror, clients, self._brokers, self._tasks, clock)
        #: The locks that were taken for clients, until brokers end them.
        self.replayed = ReplayedLocks()
        masters = AdminClient(client, REPLAY_LIMITS)
        self._replay = LockReplay(self.mirror, self._poller, masters, self.replayed, clock, source)
        self._release = LockRelease(self.mirror, self._poller, self.replayed, self._brokers, clock, source)

    async def run(self) -> None:
        """Follow the holders until this is cancelled; then nothing is sent any more."""
        async with self._tasks as tasks:
            tasks.keep_running(self._poller.poll, "query_holders")
            tasks.keep_running(self._list_members, "list_group_members")
            tasks.keep_running(self._poller.keep_listing_at_new_masters, "list_members_at_new_masters")
            tasks.keep_running(self._release.keep_releasing if self._parts.replays else self._forget_lost, "release")
            self._is_running = True
            try:
                await asyncio.Event().wait()
            finally:
                self._is_running = False

    def master_failed(self, broker_name: str, failed: str, replicas: Collection[str]) -> None:
        """Query the holders of a set that has no master any more; `replicas` are its other brokers."""
        if self._is_running and self._parts.replays:
            self._tasks.start(self._replay.prepare(broker_name, failed, replicas), "prepare_replay")
        else:
            self.mirror.drop_broker(failed)

    def master_promoted(self, promotion: Promotion) -> None:
        """Take the locks of its holders at the new master of a set, and look there for overlaps."""
        if self._is_running and self._parts.replays:
            self._tasks.start(self._replayed_at(promotion), "replay_locks")
        else:
            self.mirror.promoted(promotion.broker_name, promotion.address, promotion.former)

    async def _replayed_at(self, promotion: Promotion) -> None:
        report = await self._replay.replay(promotion)
        if report.results:
            self._parts.observer.locks_replayed(report)

    async def _list_members(self) -> None:
        await self._poller.keep_listing(self._parts.source)

    async def _forget_lost(self) -> None:
        while True:
            now_ms = self._parts.clock.now_ms()
            for lost in (self.mirror.members.lost(now_ms), self.mirror.members.unlisted(now_ms)):
                self.mirror.forget(lost)
            await asyncio.sleep(PERIOD_MS / 1000)
