"""What the HTTP paths about holders at brokers answer, as values; knows no web server."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Final, Protocol

from msgspec.structs import replace

from controller.offsets.http import holder_shapes as shapes
from controller.offsets.http.refusing import refusals
from controller.offsets.http.shapes import DEFAULT_CLUSTER
from controller.offsets.locks.held_cluster import HeldCluster
from controller.offsets.locks.holders import GroupMember, Holding, name_at_brokers
from controller.offsets.locks.overlaps import OpenOverlap, Overlap
from controller.offsets.locks.sessions.values import LockGroup
from controller.offsets.service.lock_service import LockService
from controller.offsets.service.manager_role import ManagerRole
from remoting.admin.message_queues import MessageQueue
from remoting.clock import Clock
from serving.http.views import HttpRefused, StateConflict, ViewRequest, requested_page

#: Queues on a page, whatever its limit: a client has up to 4,096. The first client of a page is shown whole.
QUEUES_SHOWN_MAX: Final = 10_000


class ShownClusters(Protocol):
    """Who is followed."""

    @property
    def clusters(self) -> Mapping[str, HeldCluster]:
        """By name of the cluster, what is known of its holders."""


class HolderPages:
    """Pages about the holders of all clusters."""

    def __init__(self, locks: LockService, role: ManagerRole, clock: Clock, shown: ShownClusters | None) -> None:
        """`shown` is None where no brokers are followed."""
        self._locks = locks
        self._role = role
        self._clock = clock
        self._shown = shown

    def holders(self, request: ViewRequest) -> shapes.HolderListing:
        """Return a page of the clients of a group, and of what they hold."""
        if not (name := request.query.get("group")):
            raise HttpRefused("group must be given: holders are listed by group.")
        cluster = request.query.get("cluster", DEFAULT_CLUSTER)
        group = LockGroup(cluster, request.query.get("namespace", ""), name)
        held, at_brokers = self._clusters().get(cluster), name_at_brokers(group)
        is_declared = self._locks.table.is_orderly(group)
        if held is None:
            return shapes.HolderListing(is_declared, "unknown", 0, [], None)
        table = held.mirror.table
        page = requested_page(table.clients_of(at_brokers), request, str)
        sizes = accumulate(len(table.holdings_of(GroupMember(at_brokers, each))) for each in page.keys)
        fitting = max(1, sum(1 for each in sizes if each <= QUEUES_SHOWN_MAX))
        if fitting < len(page.keys):
            shorter = replace(request, page=replace(request.page, limit=fitting))
            page = requested_page(table.clients_of(at_brokers), shorter, str)
        return shapes.HolderListing(
            is_declared,
            table.kind_of(at_brokers).value,
            len(held.mirror.members.clients_of(at_brokers)),
            [self._holder(held, GroupMember(at_brokers, each)) for each in page.keys],
            page.next_cursor,
        )

    def overlaps(self, request: ViewRequest) -> shapes.OverlapListing:
        """Return a page of the overlaps that are open."""
        found = {
            _key(cluster, each.overlap): (cluster, each)
            for cluster, held in self._clusters().items()
            for each in held.mirror.overlaps.open_now()
        }
        page = requested_page(sorted(found), request, str)
        views = [self._overlap(*found[each]) for each in page.keys]
        return shapes.OverlapListing(page.total, views, page.next_cursor)

    def _clusters(self) -> Mapping[str, HeldCluster]:
        """Return what is known; raises HttpRefused where holders are not followed, or by another manager."""
        if self._shown is None:
            raise StateConflict("No brokers are followed: set controllerHttpAddr or namesrvAddr.")
        with refusals():
            self._role.check_serves()
        return self._shown.clusters

    def _overlap(self, cluster: str, found: OpenOverlap) -> shapes.OverlapView:
        (group, queue), clients = found.overlap
        since = self._unix_ms(found.since_ms)
        return shapes.OverlapView(cluster, group, queue.topic, queue.broker_name, queue.queue_id, clients, since)

    def _holder(self, held: HeldCluster, member: GroupMember) -> shapes.HolderView:
        table = held.mirror.table
        confirmed = table.confirmed(member)
        assert confirmed is not None, "clients in the table have answered"
        replayed = held.replayed.of(member)
        return shapes.HolderView(
            member.client_id,
            self._unix_ms(confirmed.received_ms),
            [
                self._queue(queue, holding, replayed.get(queue))
                for queue, holding in sorted(table.holdings_of(member).items())
            ],
        )

    def _queue(self, queue: MessageQueue, holding: Holding, replayed_ms: int | None) -> shapes.HeldQueueView:
        state = "dropped" if holding.is_dropped else "expired" if holding.is_expired else "held"
        return shapes.HeldQueueView(
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            state,
            holding.locked_unix_ms,
            None if replayed_ms is None else self._unix_ms(replayed_ms),
        )

    def _unix_ms(self, at_ms: int) -> int:
        """Return a moment of the monotonic clock, ms, as Unix ms."""
        return self._clock.unix_ms() - (self._clock.now_ms() - at_ms)


def _key(cluster: str, overlap: Overlap) -> str:
    """Return what overlaps are sorted by."""
    (group, queue), clients = overlap
    return "\0".join((cluster, group, queue.topic, queue.broker_name, f"{queue.queue_id:05}", *clients))
