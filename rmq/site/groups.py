"""Where groups are and how far, over all masters, and what their members hold. The edge: it sends the requests."""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

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
from remoting.admin.offset_table import offsets_of_groups
from remoting.admin.offsets import max_offset, min_offset
from remoting.admin.stored_messages import queue_entry
from remoting.protocol.errors import InvokeError
from remoting.protocol.topic_kinds import TopicKind, kind_of
from rmq.failures import sentence_of
from rmq.site.brokers import BrokerPlace, Gap, gaps_in, masters, members_of_cluster, not_found, places
from rmq.site.site import Answered, Site, at_once, both

#: Members of a group that are requested what they hold.
CLIENTS_MAX: Final = 1_000
Unknown = Literal["unknown"]
#: Hidden queues probed past the last known id, and how many at most where there are any.
_PROBED: Final = 2
_HIDDEN_MAX: Final = 256
_NOT_STORED: Final = "the group has stored no offset: it starts by its policy for new groups"
_BROADCASTING: Final = "broadcasting: each member keeps its own offsets, on its own host"
_BEYOND: Final = "beyond the read queues: members do not read it"
_LOST: Final = "the offset is beyond the end of the queue: messages are lost"


class Masters(NamedTuple):
    found: list[BrokerPlace]
    #: Sets that have none that can be asked.
    gaps: list[Gap]


class HeldQueues(NamedTuple):
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


class LagRow(msgspec.Struct, frozen=True, rename="camel"):
    """How far a group is in one queue, or that this is not known of a topic or a set."""

    #: None of a set that cannot be asked, where no topic was named.
    topic: str | None
    #: None where no master has the topic.
    broker_name: str | None
    queue_id: int | None
    #: The next offset to be written.
    broker_offset: int | None = None
    #: The next offset to consume; None if none is stored, or it is not known whether one is.
    consumer_offset: int | None = None
    #: Messages not consumed. `unknown` is not 0.
    diff: int | Unknown = "unknown"
    #: Members that hold the queue; several may, for a moment or of a broadcasting group.
    clients: list[str] | None = None
    #: When the message before `consumerOffset` was stored.
    last_consumed_unix_ms: int | None = None
    #: Why it is unknown, or not consumed.
    reason: str | None = None


class GroupLag(NamedTuple):
    queues: list[LagRow]
    #: Sets that cannot be asked, of the clusters that have the group, of all while nobody shows it; and those whose
    #: masters did not answer.
    gaps: list[Gap]
    progress: Sequence[Answered[ConsumeStats]]
    connections: Sequence[Answered[GroupConnections | None]]

    @property
    def answers(self) -> list[Answered[Any]]:
        return [*self.progress, *self.connections]

    @property
    def known(self) -> list[int]:
        """The messages that are not consumed in each queue of which that is known."""
        return [each.diff for each in self.queues if each.diff != "unknown"]

    @property
    def unknown_queues(self) -> int:
        return len(self.queues) - len(self.known)

    @property
    def lag(self) -> int | None:
        """The messages not consumed where that is known; None if a set is lacking, or that may be all or nothing."""
        if self.gaps:
            return None
        return sum(self.known) or (None if self.unknown_queues or not self.known else 0)


class _AtMaster:
    def __init__(
        self,
        group: str,
        place: BrokerPlace,
        progress: Answered[ConsumeStats],
        members: Answered[GroupConnections | None],
    ) -> None:
        self.group, self.place = group, place
        self.progress, self.members = progress, members
        #: The answer that failed, so that not all queues are known.
        self.failed: Answered[Any] | None = progress if progress.error is not None else None
        self.queues = dict(progress.result.queues) if progress.error is None else {}
        self.connected = members.result if members.error is None else None
        #: Topics in which nothing is stored here.
        self.unstored: set[str] = set()
        #: Stored offsets by topic and queue id, read where 208 leaves them open; or why they are not known.
        self.stored: Mapping[str, Mapping[int, int]] = {}
        self.problem = ""
        #: Queues that are not read any more: where they begin and end.
        self.hidden: dict[MessageQueue, tuple[int, int]] = {}

    @property
    def topics(self) -> set[str]:
        return {queue.topic for queue in self.queues}

    @property
    def needs_stored(self) -> bool:
        """Whether 208 leaves open what is stored: it shows 0 for none, and not every queue."""
        zeros = (queue for queue, lag in self.queues.items() if lag.consumer_offset == 0 and lag.broker_offset > 0)
        return bool(self.hidden) or any(queue.topic not in self.unstored for queue in zeros)

    @property
    def unread_topics(self) -> set[str]:
        """Topics with offsets whose queues 208 does not list."""
        return {topic for topic, offsets in self.stored.items() if offsets} - self.topics

    def shown(self) -> Iterator[LagRow]:
        for queue, lag in self.queues.items():
            yield self._listed(queue, lag)
        for queue, (first, end) in self.hidden.items():
            offset = self.stored.get(queue.topic, {}).get(queue.queue_id)
            if end > max(first, offset or 0):
                diff: int | Unknown = "unknown" if offset is None else end - max(first, offset)
                yield LagRow(*_place(queue), end, offset, diff, reason=_BEYOND)

    def _listed(self, queue: MessageQueue, lag: QueueLag) -> LagRow:
        place, end = _place(queue), lag.broker_offset
        is_stored = lag.consumer_offset > 0 or queue.queue_id in self.stored.get(queue.topic, {})
        offset = lag.consumer_offset if is_stored else None
        if offset is None and end > 0:
            why = "" if queue.topic in self.unstored else self.problem
            return LagRow(*place, end, reason=why or _NOT_STORED)
        is_lost = offset is not None and offset > end
        diff: int | Unknown = "unknown" if is_lost else end - (offset or 0)
        consumed_unix_ms, reason = lag.last_consumed_unix_ms, _LOST if is_lost else None
        return LagRow(*place, end, offset, diff, last_consumed_unix_ms=consumed_unix_ms, reason=reason)


async def read_lags(site: Site, masters: Masters, groups: Collection[str], topic: str | None) -> dict[str, GroupLag]:
    """Return how far each group is in its topics, or in one (208, 203; 43 and 321 where these leave it open)."""
    cells = await _cells(site, masters.found, groups, topic)
    if topic is None:
        await _read_other_topics(site, cells)
    await _read_hidden(site, [cell for each in cells.values() for cell in each])
    await _read_stored(site, cells, groups)
    return {group: _lag_of(cells[group], masters, topic) for group in groups}


async def _cells(
    site: Site, found: Sequence[BrokerPlace], groups: Collection[str], topic: str | None
) -> dict[str, list[_AtMaster]]:
    pairs = [(group, place) for group in groups for place in found]
    progress, members = await both(
        site.answers_to((place.address, progress_of_group(group, topic)) for group, place in pairs),
        site.answers_to((place.address, connections_of_group(group)) for group, place in pairs),
    )
    cells: dict[str, list[_AtMaster]] = {group: [] for group in groups}
    for (group, place), how_far, who in zip(pairs, progress, members, strict=True):
        cells[group].append(_AtMaster(group, place, how_far, who))
    return cells


async def _read_other_topics(site: Site, cells: Mapping[str, Sequence[_AtMaster]]) -> None:
    """Read the topics that a group has offsets of on another master, or subscribes to: 208 leaves them out."""
    wanted = []
    for of_group in cells.values():
        topics = _subscribed(of_group).union(*(each.topics for each in of_group))
        clusters = {each.place.cluster for each in of_group if each.queues or each.connected}
        asked = [each for each in of_group if each.progress.error is None and each.place.cluster in clusters]
        wanted += [(each, topic) for each in asked for topic in topics - each.topics]
    answers = await site.answers_to(
        (each.place.address, progress_of_group(each.group, topic)) for each, topic in wanted
    )
    for (each, topic), answer in zip(wanted, answers, strict=True):
        if answer.error is None:
            each.queues |= answer.result.queues
            each.unstored.add(topic)


async def _read_stored(site: Site, cells: Mapping[str, Sequence[_AtMaster]], groups: Collection[str]) -> None:
    """Read what masters have stored (43), where 208 shows zeros, or a group nowhere."""
    every = [each for of_group in cells.values() for each in of_group]
    nowhere = {group for group, of_group in cells.items() if not any(each.queues for each in of_group)}
    needing = {each.place.address for each in every if each.needs_stored or each.group in nowhere}
    answers = {each.address: each for each in await site.answers(needing, offsets_of_groups(groups))}
    for each in every:
        answer = answers.get(each.place.address)
        if answer is not None and answer.error is None:
            each.stored = {name.topic: found for name, found in answer.result.items() if name.group == each.group}
        elif answer is not None and answer.error is not None:
            each.problem = f"it is unknown whether an offset is stored: {sentence_of(answer.error)}"


async def _read_hidden(site: Site, cells: Sequence[_AtMaster]) -> None:
    """Read where queues end that still hold messages and are not read, as after a topic got fewer of them."""
    behind: dict[tuple[BrokerPlace, str], int] = {}
    owners = _owners(cells)
    for place, queue in ((cell.place, each) for cell in cells for each in cell.queues):
        if kind_of(queue.topic, owners) is TopicKind.NORMAL:
            behind[place, queue.topic] = max(behind.get((place, queue.topic), 0), queue.queue_id + 1)
    lost: dict[str, Answered[Any]] = {}
    found = await _hidden_queues(site, behind, lost)
    firsts, ends = await both(
        site.answers_to((place.address, min_offset(topic, queue_id)) for place, topic, queue_id in found),
        site.answers_to((place.address, max_offset(topic, queue_id)) for place, topic, queue_id in found),
    )
    lost |= {each.address: each for answers in (firsts, ends) for each in answers if each.error is not None}
    for cell in cells:
        cell.failed = cell.failed or lost.get(cell.place.address)
    for (place, topic, queue_id), first, end in zip(found, firsts, ends, strict=True):
        if first.error is None and end.error is None:
            queue = MessageQueue(topic=topic, broker_name=place.broker_name, queue_id=queue_id)
            for cell in cells:
                if cell.place == place and topic in cell.topics:
                    cell.hidden[queue] = first.result or 0, end.result


async def _hidden_queues(
    site: Site, behind: Mapping[tuple[BrokerPlace, str], int], lost: dict[str, Answered[Any]]
) -> list[tuple[BrokerPlace, str, int]]:
    """Return the queues that masters have from these ids on, found by 321, which makes none that is not there.

    `lost` takes masters that did not answer.
    """
    found: list[tuple[BrokerPlace, str, int]] = []
    for _ in range(_HIDDEN_MAX // _PROBED):
        wanted = [(*key, first + n) for key, first in behind.items() for n in range(_PROBED)]
        answers = await site.answers_to((place.address, queue_entry(topic, i, 0)) for place, topic, i in wanted)
        there = [key for key, answer in zip(wanted, answers, strict=True) if answer.error is None]
        # A refusal says that there is no such queue.
        lost |= {each.address: each for each in answers if isinstance(each.error, InvokeError)}
        found += there
        behind = {(place, topic): behind[place, topic] + _PROBED for place, topic, _ in there}
    return found


def _lag_of(cells: Sequence[_AtMaster], masters: Masters, topic: str | None) -> GroupLag:
    connections = [each.members for each in cells]
    clusters = {each.place.cluster for each in cells if each.queues or each.connected or each.unread_topics}
    gaps = [each for each in masters.gaps if not clusters or not each.cluster or each.cluster in clusters]
    gaps += [unread(each.place, each.failed) for each in cells if each.failed is not None]
    queues = [queue for each in cells for queue in each.shown()]
    queues += _without_queues(cells, topic, is_complete=not gaps)
    if any(each.connected is not None and each.connected.is_broadcasting for each in cells):
        unknown = {"consumer_offset": None, "diff": "unknown", "reason": _BROADCASTING}
        queues = [msgspec.structs.replace(queue, **unknown) for queue in queues]
    queues.sort(key=lambda each: (each.topic or "", each.broker_name or "", each.queue_id or 0))
    return GroupLag(queues, gaps, [each.progress for each in cells], connections)


def unread(place: BrokerPlace, answer: Answered[Any]) -> Gap:
    assert answer.error is not None, "it has answered"
    return Gap(place.cluster, place.broker_name, f"not readable: {sentence_of(answer.error)}")


def _without_queues(cells: Sequence[_AtMaster], topic: str | None, *, is_complete: bool) -> Iterator[LagRow]:
    """Yield what a group has stored of, or subscribes to, topics of which no master shows a queue to it."""
    gone = f"no master {'' if is_complete else 'that answers '}has the topic"
    known = set[str]().union(*(each.topics for each in cells))
    named = set[str]()
    for each in cells:
        for unread in sorted(each.unread_topics - known):
            if topic in (None, unread):
                named.add(unread)
                is_left = each.connected is not None and unread not in each.connected.subscriptions
                reason = "its members do not subscribe to the topic" if is_left else gone
                for queue, offset in sorted(each.stored[unread].items()):
                    yield LagRow(unread, each.place.broker_name, queue, consumer_offset=offset, reason=reason)
    owners = _owners(cells)
    for wanted in sorted(_subscribed(cells) - known - named):
        if topic in (None, wanted) and kind_of(wanted, owners) is TopicKind.NORMAL:
            yield LagRow(wanted, None, None, reason=gone)


def _owners(cells: Iterable[_AtMaster]) -> set[str]:
    return {name for each in cells for name in (each.place.cluster, each.place.broker_name)}


def _subscribed(cells: Iterable[_AtMaster]) -> set[str]:
    return {topic for each in cells if each.connected is not None for topic in each.connected.subscriptions}


def _place(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id
