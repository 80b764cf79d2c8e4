"""HTTP paths about order: declared groups, who holds which queue at brokers, and overlaps. Times are Unix ms, UTC."""

from itertools import accumulate
from typing import Final

from msgspec.structs import replace

from offsets.http.commits import refusals
from offsets.lead import Lead
from offsets.order.declared import GroupRefused
from offsets.order.holders import Holding, Member, OrderlyGroup
from offsets.order.overlaps import Overlap
from offsets.order.service import OrderService
from remoting.admin.message_queues import MessageQueue
from remoting.clock import Clock
from serving.http.paths import Parameter, get, post
from serving.http.views import HttpRefused, StateConflict, Unavailable, ViewRequest, requested_page
from serving.shapes.offsets import (
    DEFAULT_CLUSTER,
    GroupBody,
    HeldQueueView,
    HolderListing,
    HolderView,
    OrderlyAnswer,
    OrderlyGroupListing,
    OrderlyGroupView,
    OverlapListing,
    OverlapView,
)

#: Queues on a page, whatever its limit: a client has up to 4,096. The first client of a page is shown whole.
QUEUES_SHOWN_MAX: Final = 10_000
_GROUP: Final = (
    Parameter("group", "The group; must be given."),
    Parameter("cluster", "Name of the cluster; DefaultCluster by default."),
    Parameter("namespace", "Namespace; none by default."),
)


class OrderViews:
    def __init__(self, order: OrderService, lead: Lead, clock: Clock, *, follows_brokers: bool) -> None:
        self._order, self._lead, self._clock, self._follows_brokers = order, lead, clock, follows_brokers

    @get("/v1/locks/orderly-groups", paged=True, refusals=(400, 503))
    def orderly_groups(self, request: ViewRequest) -> OrderlyGroupListing:
        """Groups that are declared orderly."""
        page = requested_page([f"{cluster}\0{group}" for cluster, group in sorted(self._declared())], request, str)
        groups = [OrderlyGroupView(*key.split("\0")) for key in page.keys]
        return OrderlyGroupListing(page.total, groups, page.next_cursor)

    @get("/v1/locks/holders", parameters=_GROUP, paged=True, refusals=(400, 409, 503))
    def holders(self, request: ViewRequest) -> HolderListing:
        """Clients of a declared group and the queues that they hold at brokers, by their last answers."""
        if not (name := request.query.get("group")):
            raise HttpRefused("group must be given: holders are listed by group.")
        declared, holders = self._followed(), self._order.polling.holders
        of = _named(request.query.get("cluster", DEFAULT_CLUSTER), request.query.get("namespace", ""), name)
        clients = [member.client_id for member in holders.members_of(of)]
        page = requested_page(clients, request, str)
        sizes = accumulate(len(holders.client(Member(of, client_id)).holdings) for client_id in page.keys)
        fitting = max(1, sum(1 for size in sizes if size <= QUEUES_SHOWN_MAX))
        if fitting < len(page.keys):
            page = requested_page(clients, replace(request, page=replace(request.page, limit=fitting)), str)
        return HolderListing(
            of in declared,
            holders.kind_of(of).value,
            len(clients),
            [self._holder(Member(of, client_id)) for client_id in page.keys],
            page.next_cursor,
        )

    @get("/v1/locks/overlaps", paged=True, refusals=(400, 409, 503))
    def overlaps(self, request: ViewRequest) -> OverlapListing:
        """Queues of declared groups that two clients hold at brokers at the same time."""
        self._followed()
        found = {_key(overlap): (overlap, since) for overlap, since in self._order.polling.overlaps.open_now().items()}
        page = requested_page(sorted(found), request, str)
        return OverlapListing(page.total, [self._overlap(*found[key]) for key in page.keys], page.next_cursor)

    @post("/v1/locks/declare-orderly", refusals=(409, 503))
    async def declare_orderly(self, body: GroupBody) -> OrderlyAnswer:
        """Declare a group orderly: watch its lock holders and replay its locks. All its consumers must be orderly."""
        return await self._changed(body, orderly=True)

    @post("/v1/locks/undeclare", refusals=(409, 503))
    async def undeclare(self, body: GroupBody) -> OrderlyAnswer:
        """Withdraw the declaration of a group."""
        return await self._changed(body, orderly=False)

    async def _changed(self, body: GroupBody, *, orderly: bool) -> OrderlyAnswer:
        self._lead.check()
        declared = self._order.declared
        try:
            with refusals(body.writer):
                change = declared.declare if orderly else declared.undeclare
                return OrderlyAnswer(await change(_named(body.cluster, body.namespace, body.group), body.writer))
        except GroupRefused as error:
            raise StateConflict(f"The group is not declared: {error}.") from None

    def _declared(self) -> frozenset[OrderlyGroup]:
        self._lead.check()
        if (groups := self._order.declared.groups) is None:
            raise Unavailable("The declared groups are being loaded: repeat the request in a second.", retry_after_s=1)
        return groups

    def _followed(self) -> frozenset[OrderlyGroup]:
        if not self._follows_brokers:
            raise StateConflict("No brokers are followed: set controllerHttpAddr or namesrvAddr.")
        return self._declared()

    def _overlap(self, overlap: Overlap, since_ms: int) -> OverlapView:
        (cluster, group), queue = overlap.queue
        since = self._unix_ms(since_ms)
        return OverlapView(cluster, group, queue.topic, queue.broker_name, queue.queue_id, overlap.clients, since)

    def _holder(self, member: Member) -> HolderView:
        client = self._order.polling.holders.client(member)
        return HolderView(
            member.client_id,
            None if client.confirmed is None else self._unix_ms(client.confirmed.received_ms),
            [
                self._queue(queue, holding, client.replayed_ms.get(queue))
                for queue, holding in sorted(client.holdings.items())
            ],
        )

    def _queue(self, queue: MessageQueue, holding: Holding, replayed_ms: int | None) -> HeldQueueView:
        state = "dropped" if holding.is_dropped else "expired" if holding.is_expired else "held"
        replayed = None if replayed_ms is None else self._unix_ms(replayed_ms)
        return HeldQueueView(queue.topic, queue.broker_name, queue.queue_id, state, holding.locked_unix_ms, replayed)

    def _unix_ms(self, at_ms: int) -> int:
        """Return a moment of the monotonic clock, ms, as Unix ms."""
        return self._clock.unix_ms() - (self._clock.now_ms() - at_ms)


def _named(cluster: str, namespace: str, group: str) -> OrderlyGroup:
    return OrderlyGroup(cluster, f"{namespace}%{group}" if namespace else group)


def _key(overlap: Overlap) -> str:
    (cluster, group), queue = overlap.queue
    return "\0".join((cluster, group, queue.topic, queue.broker_name, f"{queue.queue_id:05}", *overlap.clients))
