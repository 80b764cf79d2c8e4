"""Where a group is, over all masters, and what its members hold. The edge: it sends the requests."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from remoting.admin.clients import RunningConsumer, running_consumer
from remoting.admin.groups import GroupConnections, configured_groups, connections_of_group
from remoting.admin.message_queues import MessageQueue
from rmq.site.brokers import BrokerPlace, Gap, gaps_in, masters, members_of_cluster, not_found, places
from rmq.site.site import Answered, Site, at_once

#: Members of a group that are requested what they hold.
CLIENTS_MAX: Final = 1_000


class Masters(NamedTuple):
    """The masters of a cluster, or of all."""

    found: list[BrokerPlace]
    #: Sets that have none that can be asked.
    gaps: list[Gap]


class HeldQueues(NamedTuple):
    """Which members of a group hold which queues."""

    clients: Mapping[MessageQueue, Sequence[str]]
    #: Members that did not answer.
    unknown: Sequence[str]


async def masters_of(site: Site, cluster: str | None) -> Masters:
    """Return all masters of a cluster, or of all; raises UnknownName."""
    brokers = await site.cluster()
    found = members_of_cluster(brokers, cluster) if cluster else places(brokers)
    return Masters(masters(found), gaps_in(brokers, cluster))


async def check_group(site: Site, group: str, found: Iterable[BrokerPlace], gaps: Collection[Gap]) -> None:
    """Raise UnknownName, with names like it, unless a master has a configuration of the group.

    That is NotShownNow where a set cannot be asked.
    """
    answers = await site.answers((each.address for each in found), configured_groups())
    known = {name for each in answers if each.error is None for name in each.result}
    if group not in known and all(each.error is None for each in answers):
        raise not_found("group", group, known, gaps)


async def connections_at(site: Site, addresses: Iterable[str], group: str) -> list[Answered[GroupConnections | None]]:
    """Return which members of a group are connected to each of these brokers (203)."""
    return await site.answers(addresses, connections_of_group(group))


async def held_queues(site: Site, group: str, found: Sequence[Answered[GroupConnections | None]]) -> HeldQueues:
    """Return who holds which queue, as the members answer through a broker (307), within the timeout of a request."""
    at = {
        client.client_id: answer.address
        for answer in found
        if answer.error is None and answer.result is not None
        for client in answer.result.clients
    }
    wanted = sorted(at.items())[:CLIENTS_MAX]
    deadline = asyncio.get_running_loop().time() + site.settings.timeout_s
    answers = await at_once(_running_until(deadline, site, address, group, name) for name, address in wanted)
    holders: dict[MessageQueue, list[str]] = {}
    unknown = [name for name, _ in sorted(at.items())[CLIENTS_MAX:]]
    for (name, _), consumer in zip(wanted, answers, strict=True):
        if consumer is None:
            unknown.append(name)
            continue
        for queue in _queues_of(consumer):
            holders.setdefault(queue, []).append(name)
    return HeldQueues(holders, unknown)


async def _running_until(
    deadline: float, site: Site, address: str, group: str, client_id: str
) -> RunningConsumer | None:
    """Return what a member does now; None if it does not answer in time: many may hang, and few are queried at once."""
    try:
        async with asyncio.timeout_at(deadline):
            answer = await site.answer_of(address, running_consumer(group, client_id))
    except TimeoutError:
        return None
    return answer.result if answer.error is None else None


def _queues_of(consumer: RunningConsumer) -> list[MessageQueue]:
    held = [queue for queue, each in consumer.queues.items() if not each.is_dropped]
    return held + [queue for queue, each in consumer.pop_queues.items() if not each.is_dropped]
