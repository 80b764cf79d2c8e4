"""Reads what a reset has to know of brokers, and plans it. The edge: it sends only requests that read."""

from collections.abc import Iterable, Mapping, Sequence

from remoting.admin.admin_request import AdminRequest
from remoting.admin.configuration import broker_config
from remoting.admin.offset_table import GroupTopicName, offsets_of_groups
from remoting.admin.offsets import RESETS_ON_SERVER, max_offset, min_offset, offset_at
from remoting.admin.routes import TopicRoute
from remoting.admin.topics import QueueOffsets, queue_offsets
from remoting.protocol.shapes.route import MASTER_ID
from rmq.commands.groups.reset_plan import (
    BrokerReset,
    QueueFacts,
    ResetWay,
    TargetKind,
    WantedReset,
    planned_row,
    way_at,
)
from rmq.failures import CommandFailed, NotReachable, UnknownName, failure_of_all
from rmq.site.brokers import BrokerPlace
from rmq.site.groups import connections_at
from rmq.site.nearest import unknown_sentence
from rmq.site.queue_ids import queue_ids
from rmq.site.site import Found, Site


def masters_in(route: TopicRoute, broker: str | None) -> list[BrokerPlace]:
    """Return the masters of a route, or of one broker set of it; raises UnknownName where a set has none."""
    if broker is not None and broker not in route.queues:
        raise UnknownName(unknown_sentence("broker set of this topic", broker, route.queues))
    found = []
    for name in sorted(route.queues if broker is None else {broker}):
        broker_set = route.broker_sets.get(name)
        if broker_set is None or broker_set.master_address is None:
            raise NotReachable(f"{name} has no master now: the group cannot be reset there; --broker names others")
        found.append(BrokerPlace(broker_set.cluster, name, MASTER_ID, broker_set.master_address))
    return found


async def plan_reset(
    site: Site, wanted: WantedReset, found: Sequence[BrokerPlace], route: TopicRoute
) -> list[BrokerReset]:
    """Return what is planned at each master; raises CommandFailed."""
    ways = await _ways(site, wanted, found)
    planned = []
    for place, way in zip(found, ways, strict=True):
        routed = queue_ids(place.broker_name, route.queues[place.broker_name].read_queue_nums)
        facts = await _facts_at(site, wanted, place.address, routed)
        rows = [planned_row(place.broker_name, each, wanted.target, way) for each in facts]
        planned.append(BrokerReset(place.broker_name, place.address, way, rows))
    return planned


async def _ways(site: Site, wanted: WantedReset, found: Sequence[BrokerPlace]) -> list[ResetWay]:
    addresses = [each.address for each in found]
    options = [await site.call(address, broker_config()) for address in addresses]
    connections = await connections_at(site, addresses, wanted.group)
    for each in connections:
        if each.error is not None:
            raise failure_of_all([(each.address, each.error)])
        if each.result is not None and each.result.is_broadcasting:
            raise CommandFailed(f"the members of {wanted.group} broadcast: each has its own offsets, and brokers none")
    is_online = any(each.result is not None for each in connections)
    return [
        way_at(
            place.broker_name,
            wanted,
            resets_on_server=table.get(RESETS_ON_SERVER, "").lower() == "true",
            is_online=is_online,
        )
        for place, table in zip(found, options, strict=True)
    ]


async def _facts_at(site: Site, wanted: WantedReset, address: str, routed: Iterable[int]) -> list[QueueFacts]:
    stored = await site.call(address, offsets_of_groups([wanted.group]))
    old = stored.get(GroupTopicName(wanted.group, wanted.topic), {})
    found = await site.call(address, queue_offsets(wanted.topic))
    ends = {queue.queue_id: each for queue, each in found.items()}
    known = sorted({*ends, *routed})
    if wanted.queue_id is not None:
        if wanted.queue_id not in known:
            raise UnknownName(f"the topic has no queue {wanted.queue_id} there, but 0 to {len(known) - 1}")
        known = [wanted.queue_id]
    facts = await _facts_of(site, wanted, address, {each: ends.get(each) for each in known})
    return [each._replace(old=old.get(each.queue_id)) for each in facts]


async def _facts_of(
    site: Site, wanted: WantedReset, address: str, ends: Mapping[int, QueueOffsets | None]
) -> list[QueueFacts]:
    # Brokers up to 5.2 leave out queues that are only read from.
    missing = [each for each, found in ends.items() if found is None or found.min_offset is None]
    begins = await _results(site, address, [min_offset(wanted.topic, each) for each in missing])
    lasts = await _results(site, address, [max_offset(wanted.topic, each) for each in missing])
    facts = {
        queue_id: QueueFacts(queue_id, None, begin or 0, max(begin or 0, last))
        for queue_id, begin, last in zip(missing, begins, lasts, strict=True)
    }
    for queue_id, each in ends.items():
        if each is not None and each.min_offset is not None:
            limits = each.min_offset, each.max_offset
            facts[queue_id] = QueueFacts(queue_id, None, *limits, last_stored_unix_ms=each.last_stored_unix_ms)
    if wanted.target.kind is not TargetKind.TIME:
        return [facts[each] for each in ends]
    found = await _results(site, address, [offset_at(wanted.topic, each, wanted.target.value) for each in ends])
    return [facts[queue_id]._replace(at_time=offset) for queue_id, offset in zip(ends, found, strict=True)]


async def _results(site: Site, address: str, requests: Sequence[AdminRequest[Found]]) -> list[Found]:
    """Return what a broker answers to each of these; raises CommandFailed if it fails once."""
    answers = await site.answers_to((address, each) for each in requests)
    for each in answers:
        if each.error is not None:
            raise failure_of_all([(address, each.error)])
    return [each.result for each in answers]
