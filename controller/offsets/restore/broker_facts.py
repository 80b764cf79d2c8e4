"""Requests of a master what decides about offsets there: offsets, ends of queues, members that are online. The edge.

The offset table is read first and the queues afterwards, so the end of a queue is never older than the offset that is
compared with it. A queue that the broker does not have is never requested by 30 or 31: a broker of 4.9 makes it then.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from controller.offsets.guard.candidates import ShownTable, TableKey
from controller.offsets.guard.group_kinds import pulls
from controller.offsets.guard.log_facts import MasterLog, can_pop
from controller.offsets.guard.master_queries import MasterQueries
from controller.offsets.restore.rules import GroupState, QueueBounds, ShownQueue
from remoting.admin.brokers import broker_runtime
from remoting.admin.groups import connections_of_group
from remoting.admin.offsets import max_offset, min_offset
from remoting.admin.stored_messages import queue_entry
from remoting.admin.topics import queue_offsets, topic_definition, topic_definition_of_all
from remoting.background_tasks import all_results
from remoting.protocol.codes import ResponseCode
from remoting.protocol.errors import BodyError, InvokeError, NotSupported, Refused

#: Requests of one run under way to its broker.
REQUESTS_MAX: Final = 16
#: So many queues behind the last one that is known are looked for, and so many in all.
HIDDEN_PROBED: Final = 2
HIDDEN_MAX: Final = 256
#: What a broker fails with.
BROKER_FAILURES: Final = (Refused, InvokeError, BodyError)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEnds:
    """Where the queues of a topic begin and end; None: the broker cannot read that queue."""

    queues: Mapping[int, QueueBounds | None]
    #: Why nothing is known; blank if something is.
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """What a master has answered."""

    table: ShownTable
    topics: Mapping[str, TopicEnds]
    #: With a sentence where it is not known how a group consumes.
    groups: Mapping[str, GroupState | str]
    #: It sends members that are online to an offset (222).
    can_reset: bool = False

    def queue(self, topic: str, group: str, queue_id: int) -> ShownQueue:
        """Return what it shows of a queue of a group."""
        offset = self.table.offset(TableKey(group, topic), queue_id)
        state = self.groups[group]
        found = state if isinstance(state, GroupState) else GroupState()
        problem = "; ".join(self._problems(topic, group, queue_id))
        return ShownQueue(offset, self.topics[topic].queues.get(queue_id), found, problem)

    def _problems(self, topic: str, group: str, queue_id: int) -> Iterator[str]:
        """Yield all that is not known: who mends the first alone would run into the next."""
        ends, state = self.topics[topic], self.groups[group]
        if topic in self.table.unreadable_topics:
            yield f"the offsets of topic {topic} in its table are not readable"
        if ends.problem:
            yield ends.problem
        if queue_id in ends.queues and ends.queues[queue_id] is None:
            yield "the broker cannot read the queue"
        if isinstance(state, str):
            yield state


async def read_facts(queries: MasterQueries, queues: Collection[tuple[str, str, int]]) -> BrokerFacts:
    """Return what a master shows of these queues, each as topic, group and queue id.

    What it answers to a part of the requests counts. Raises one of BROKER_FAILURES where that is none of its offsets.
    """
    by_topic: dict[str, set[int]] = {}
    for topic, _, queue_id in queues:
        by_topic.setdefault(topic, set()).add(queue_id)
    groups = dict.fromkeys(group for _, group, _ in queues)
    table = await queries.shown(by_topic.keys())
    can_reset = await queries.can_reset()
    runtime = await queries.call(broker_runtime())
    pops = can_pop(MasterLog(runtime=runtime, epochs=None))
    loses_popped = pops and await queries.loses_popped()
    ends: dict[str, TopicEnds] = {}
    states: dict[str, GroupState | str] = {}

    async def read_topic(topic: str) -> None:
        ends[topic] = await read_ends(queries, topic, by_topic[topic])

    async def read_group(group: str) -> None:
        state = await _state_of(queries, group, can_pop=pops)
        states[group] = state if isinstance(state, str) else state._replace(loses_popped=loses_popped)

    await each_of(by_topic, read_topic)
    await each_of(groups, read_group)
    return BrokerFacts(table=table, topics=ends, groups=states, can_reset=can_reset)


async def read_ends(queries: MasterQueries, topic: str, wanted: Collection[int]) -> TopicEnds:
    """Return where the queues of a topic begin and end, those that are wanted among them; never raises."""
    try:
        listed = await queries.call(queue_offsets(topic))
        found = {
            queue.queue_id: None if each.min_offset is None else QueueBounds(each.min_offset, each.max_offset)
            for queue, each in listed.items()
        }
        if missing := [each for each in wanted if each not in found]:
            # Up to 5.2.0 queues that are only read from are not listed.
            readable = await _readable_queues(queries, topic)
            found |= {each: await _ends_of(queries, topic, each) for each in missing if each < readable}
    except Refused as refused:
        if refused.code == ResponseCode.TOPIC_NOT_EXIST:
            return TopicEnds(queues={})
        return TopicEnds(queues={}, problem=f"the ends of topic {topic} are not known: {refused}")
    except (InvokeError, BodyError) as error:
        return TopicEnds(queues={}, problem=f"the ends of topic {topic} are not known: {error}")
    return TopicEnds(queues=found)


async def with_hidden(queries: MasterQueries, topic: str, ends: TopicEnds) -> TopicEnds:
    """Return the ends with those of queues that hold messages and are not read, as after a shrink by hand.

    They are found by 321, which makes none that is not there. Never raises.
    """
    found = dict(ends.queues)
    first = max(found) + 1
    last = first + HIDDEN_PROBED
    for queue_id in range(first, first + HIDDEN_MAX):
        if queue_id == last:
            break
        try:
            await queries.call(queue_entry(topic, queue_id, 0))
            bounds = await _ends_of(queries, topic, queue_id)
        except Refused:
            # It does not have the queue.
            continue
        except (InvokeError, BodyError) as error:
            return replace(ends, problem=f"whether more queues hold messages is not known: {error}")
        last = queue_id + 1 + HIDDEN_PROBED
        if bounds is not None and bounds.max_offset > bounds.min_offset:
            found[queue_id] = bounds
    return replace(ends, queues=found)


async def each_of(items: Iterable[Item], work: Callable[[Item], Awaitable[None]]) -> None:
    """Do `work` for each item, REQUESTS_MAX at a time."""
    left = iter(items)

    async def worker() -> None:
        for item in left:
            await work(item)

    await all_results(worker() for _ in range(REQUESTS_MAX))


async def _readable_queues(queries: MasterQueries, topic: str) -> int:
    try:
        found = await queries.call(topic_definition(topic))
    except NotSupported:
        found = await queries.call(topic_definition_of_all(topic))
    return 0 if found is None else found.read_queue_nums


async def _ends_of(queries: MasterQueries, topic: str, queue_id: int) -> QueueBounds | None:
    first = await queries.call(min_offset(topic, queue_id))
    return None if first is None else QueueBounds(first, await queries.call(max_offset(topic, queue_id)))


async def _state_of(queries: MasterQueries, group: str, *, can_pop: bool) -> GroupState | str:
    try:
        found = await queries.call(connections_of_group(group))
    except BROKER_FAILURES as error:
        return f"whether members of group {group} are online is not known: {error}"
    if found is None:
        return GroupState(pulls=not can_pop)
    shows_pull = not can_pop or await pulls(queries, group, found)
    return GroupState(is_online=True, is_broadcasting=found.is_broadcasting, pulls=shows_pull)
