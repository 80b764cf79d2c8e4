"""Mirrors who holds which queue of the groups that are declared orderly, and replays locks at new masters.

Only the manager that serves begins to: it alone has the declared groups, and one that queries clients is enough. One
that ceases to serve goes on for as long as brokers keep a lock, as it may serve again a moment later, and changes no
locks meanwhile. What is known of holders is a minute old at most, so nothing of it is stored: the next manager that
serves reads it again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from controller.offsets.app.following import Following
from controller.offsets.locks.held_cluster import ClusterObserver, ClusterParts, HeldCluster
from controller.offsets.locks.holder_poller import LISTINGS_MAX
from controller.offsets.locks.holders import BROKER_LOCK_MS, name_at_brokers
from controller.offsets.locks.replay import Promotion
from controller.offsets.locks.sessions.values import LockGroup
from controller.offsets.service.manager_role import ManagerRole
from controller.offsets.topology.values import MasterChange, MasterChangeKind, SetMaster
from remoting.background_tasks import BackgroundTasks
from remoting.client import Requester
from remoting.clock import Clock
from serving.process.background_tasks import BackgroundTask

#: How often it is looked whether this manager serves, and which groups are declared orderly.
LOOK_S: Final = 0.5
#: Clusters whose holders are followed: each has limits of its own.
CLUSTERS_MAX: Final = 16
#: After these the master has an empty table of locks, or may have one.
_BEGINS_WITHOUT_LOCKS: Final = frozenset(
    {
        MasterChangeKind.GAINED,
        MasterChangeKind.MOVED,
        MasterChangeKind.ADDRESS_CHANGED,
        MasterChangeKind.RESTARTED,
    }
)


class HoldingObserver(Protocol):
    """Who logs and counts what is found."""

    def of_cluster(self, cluster: str) -> ClusterObserver:
        """Return who observes one cluster."""

    def groups_left_out(self, groups: int) -> None:
        """Note that the holders of so many declared groups are not followed: they are more than can be polled."""


class HoldingParts(NamedTuple):
    """What holders are followed with."""

    following: Following
    client: Requester
    #: Returns the groups that are declared orderly.
    declared: Callable[[], Collection[LockGroup]]
    role: ManagerRole
    tasks: BackgroundTasks
    clock: Clock
    observer: HoldingObserver


class LockHolding:
    """The holders of all clusters with groups that are declared orderly."""

    def __init__(self, parts: HoldingParts, *, replays: bool) -> None:
        """Listen to changes of masters; `replays`: take locks at new masters, and give up those of lost clients."""
        self._parts = parts
        self._replays = replays
        self._clusters: dict[str, HeldCluster] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        #: By cluster, the groups that are polled.
        self._groups: Mapping[str, Sequence[str]] = {}
        #: When this manager was seen to serve last, monotonic ms.
        self._served_ms: int | None = None
        #: Groups that are declared orderly and not polled.
        self.left_out = 0
        parts.following.listeners.append(self)

    @property
    def clusters(self) -> Mapping[str, HeldCluster]:
        """By name of the cluster, what is known of its holders; none while this manager does not serve."""
        return self._clusters if self._parts.role.is_serving else {}

    def work(self) -> list[BackgroundTask]:
        """Return what is to run while the process serves."""
        return [self.hold_locks]

    async def hold_locks(self) -> None:
        """Follow the holders of declared groups for ever, while this manager serves and BROKER_LOCK_MS afterwards."""
        try:
            while True:
                self.look()
                await asyncio.sleep(LOOK_S)
        finally:
            self._keep({})

    def look(self) -> None:
        """Follow the clusters with declared groups and broker sets, and no others."""
        self._keep(self._polled())
        for cluster, names in self._groups.items():
            self._clusters[cluster].mirror.keep_groups(frozenset(names))

    def masters_changed(self, changes: Sequence[MasterChange]) -> None:
        """Prepare for the next master of a set that has lost its own, and replay locks at a new one."""
        for change in changes:
            master = change.after or change.before
            held = None if master is None else self._clusters.get(master.cluster)
            if held is not None:
                self._act(held, change)

    def _act(self, held: HeldCluster, change: MasterChange) -> None:
        before, after, name = change.before, change.after, change.broker_name
        if change.kind in _BEGINS_WITHOUT_LOCKS and after is not None:
            former = before.address if before is not None and before.address != after.address else None
            if self._parts.role.is_serving:
                # By this manager's clock: that of the controller may differ by more than a replay may take.
                now_ms = self._parts.clock.now_ms()
                promotion = Promotion(broker_name=name, address=after.address, former=former, promoted_ms=now_ms)
                held.master_promoted(promotion)
            else:
                held.mirror.promoted(name, after.address, former)
        elif change.kind is MasterChangeKind.LOST and before is not None:
            known = self._parts.following.sets.get(name)
            members = [] if known is None else [each.address for each in known.members]
            held.master_failed(name, before.address, [each for each in members if each != before.address])
        elif change.kind is MasterChangeKind.REMOVED and before is not None:
            held.mirror.drop_broker(before.address)

    def _keep(self, wanted: Mapping[str, Sequence[str]]) -> None:
        """Begin to follow what is wanted, and end what is not."""
        self._groups = wanted
        for cluster in self._clusters.keys() - wanted.keys():
            del self._clusters[cluster]
            self._running.pop(cluster).cancel()
        for cluster in wanted.keys() - self._clusters.keys():
            held = self._clusters[cluster] = HeldCluster(self._cluster_parts(cluster))
            self._running[cluster] = self._parts.tasks.keep_running(held.run, "hold_locks_of_cluster")

    def _cluster_parts(self, cluster: str) -> ClusterParts:
        parts = self._parts
        source = _SourceOfCluster(cluster, parts, lambda: self._groups.get(cluster, ()))
        return ClusterParts(
            source, parts.observer.of_cluster(cluster), parts.client, parts.clock, parts.tasks.report, self._replays
        )

    def _polled(self) -> Mapping[str, Sequence[str]]:
        now_ms = self._parts.clock.now_ms()
        if not self._parts.role.is_serving:
            self.left_out = 0
            is_kept = self._served_ms is not None and now_ms - self._served_ms <= BROKER_LOCK_MS
            return self._groups if is_kept else {}
        self._served_ms = now_ms
        declared = self._parts.declared()
        if not declared:
            self.left_out = 0
            return {}
        # Sets without a master too: their holders are needed as soon as they have one.
        polled = polled_groups(declared, Counter(each.cluster for each in self._parts.following.sets.values()))
        if polled.left_out > self.left_out:
            self._parts.observer.groups_left_out(polled.left_out)
        self.left_out = polled.left_out
        return polled.groups


class PolledGroups(NamedTuple):
    """Groups whose clients are queried."""

    #: By cluster, as brokers spell them.
    groups: Mapping[str, Sequence[str]]
    #: How many are not, because they are more than can be polled.
    left_out: int


def polled_groups(declared: Iterable[LockGroup], sets: Mapping[str, int]) -> PolledGroups:
    """Return the declared groups by cluster, as many of each as may be polled; `sets` counts its broker sets."""
    of_cluster: dict[str, set[str]] = {}
    for group in declared:
        if group.cluster in sets:
            of_cluster.setdefault(group.cluster, set()).add(name_at_brokers(group))
    polled = {
        cluster: sorted(of_cluster[cluster])[: max(1, LISTINGS_MAX // sets[cluster])]
        for cluster in sorted(of_cluster)[:CLUSTERS_MAX]
    }
    return PolledGroups(polled, sum(map(len, of_cluster.values())) - sum(map(len, polled.values())))


class _SourceOfCluster:
    """The groups and masters of one cluster, as they are at the moment."""

    def __init__(self, cluster: str, parts: HoldingParts, groups: Callable[[], Sequence[str]]) -> None:
        self._cluster = cluster
        self._following, self._role = parts.following, parts.role
        self._groups = groups

    def masters(self) -> Mapping[str, Sequence[str]]:
        """Return the groups by the address of each master; one that may have failed still answers for itself."""
        groups = self._groups()
        return {each.address: groups for each in self._masters()}

    def master_addresses(self) -> Mapping[str, str]:
        """Return the masters at which locks may change; none while it is not known who is master."""
        if not self._role.is_serving or not self._following.is_fresh():
            return {}
        return {each.broker_name: each.address for each in self._masters()}

    def is_master(self, broker_name: str, address: str) -> bool:
        """Return whether locks may change at a broker now."""
        known = self._following.sets.get(broker_name)
        if known is None or known.master is None or known.master.address != address:
            return False
        return self._role.is_serving and self._following.is_master(known.master)

    def _masters(self) -> Iterator[SetMaster]:
        return (each for each in self._following.masters() if each.cluster == self._cluster)
