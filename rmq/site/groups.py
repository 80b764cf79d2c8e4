"""Where a group is, and how far, over all masters. The edge: it sends the requests."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from remoting.admin.clients import RunningConsumer, running_consumer
from remoting.admin.groups import (
    ConsumeStats,
    GroupConnections,
    QueueLag,
    configured_groups,
    connections_of_group,
    progress_of_group,
)
from remoting.admin.message_queues import MessageQueue
from remoting.admin.offset_table import GroupTopicName, offsets_of_groups
from rmq.failures import UnknownName, sentence_of
from rmq.site.brokers import BrokerPlace, masters, members_of_cluster, places
from rmq.site.nearest import unknown_sentence
from rmq.site.site import Answered, Site, at_once

#: Members of a group that are requested what they hold.
CLIENTS_MAX: Final = 1_000

Unknown = Literal["unknown"]
#: By group and topic, offsets by queue id; or the sentence why they are not known.
StoredOffsets = Mapping[GroupTopicName, Mapping[int, int]] | str

_NOT_STORED: Final = "the group has stored no offset: it begins where its policy for new groups says"


class GroupInQueue(NamedTuple):
    """How far a group is in one queue."""

    queue: MessageQueue
    lag: QueueLag
    #: The next offset to consume; None if none is stored, or it is not known whether one is.
    consumer_offset: int | None
    #: None: unknown.
    diff: int | None
    #: Why it is unknown.
    reason: str | None = None


class HeldQueues(NamedTuple):
    """Which members of a group hold which queues."""

    clients: Mapping[MessageQueue, Sequence[str]]
    #: Members that did not answer.
    unknown: Sequence[str]


async def masters_of(site: Site, cluster: str | None) -> list[BrokerPlace]:
    """Return all masters of a cluster, or of all; raises UnknownName."""
    brokers = await site.cluster()
    return masters(members_of_cluster(brokers, cluster) if cluster else places(brokers))


async def check_group(site: Site, group: str, found: Iterable[BrokerPlace]) -> None:
    """Raise UnknownName, with names like it, unless a master has a configuration of the group."""
    answers = await site.answers((each.address for each in found), configured_groups())
    known = {name for each in answers if each.error is None for name in each.result}
    if group not in known and all(each.error is None for each in answers):
        raise UnknownName(unknown_sentence("group", group, known))


async def progress_at(
    site: Site, addresses: Sequence[str], groups: Collection[str], topic: str | None
) -> list[tuple[str, Answered[ConsumeStats]]]:
    """Return what each master answers about each group (208), with the group."""
    wanted = [(group, address) for group in groups for address in addresses]
    answers = await site.answers_to((address, progress_of_group(group, topic)) for group, address in wanted)
    return [(group, answer) for (group, _), answer in zip(wanted, answers, strict=True)]


async def members_of(
    site: Site, addresses: Sequence[str], groups: Collection[str]
) -> dict[str, list[Answered[GroupConnections | None]]]:
    """Return by group which members are connected to each of these masters (203)."""
    answers = await at_once(connections_at(site, addresses, group) for group in groups)
    return dict(zip(groups, answers, strict=True))


async def stored_at(site: Site, addresses: Iterable[str], groups: Collection[str]) -> dict[str, StoredOffsets]:
    """Return what each of these brokers has stored of some groups (43), by its address."""
    answers = await site.answers(addresses, offsets_of_groups(groups))
    return {
        each.address: f"whether an offset is stored is not known: {sentence_of(each.error)}"
        if each.error is not None
        else each.result
        for each in answers
    }


def shows_zeros(progress: ConsumeStats) -> bool:
    """Return whether 208 alone leaves open what is stored: it shows 0 for none."""
    return any(each.consumer_offset == 0 for each in progress.queues.values())


def progress_in(group: str, progress: ConsumeStats, stored: StoredOffsets | None) -> list[GroupInQueue]:
    """Return how far a group is in each queue of a broker; `stored` is needed where 208 shows zeros."""
    return [_progress(group, queue, lag, stored) for queue, lag in sorted(progress.queues.items())]


def total_lag(found: Iterable[GroupInQueue]) -> tuple[int, int]:
    """Return the sum of what is known, and of how many queues nothing is known."""
    queues = list(found)
    return sum(each.diff for each in queues if each.diff is not None), sum(each.diff is None for each in queues)


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


def _progress(group: str, queue: MessageQueue, lag: QueueLag, stored: StoredOffsets | None) -> GroupInQueue:
    if lag.consumer_offset == 0:
        if isinstance(stored, str):
            return GroupInQueue(queue, lag, None, None, stored)
        if queue.queue_id not in (stored or {}).get(GroupTopicName(group, queue.topic), {}):
            return GroupInQueue(queue, lag, None, None, _NOT_STORED)
    if lag.consumer_offset > lag.broker_offset:
        reason = "the offset is beyond the end of the queue: messages are lost"
        return GroupInQueue(queue, lag, lag.consumer_offset, None, reason)
    return GroupInQueue(queue, lag, lag.consumer_offset, lag.broker_offset - lag.consumer_offset)
