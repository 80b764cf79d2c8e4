"""Reads how far a group is behind, over all masters of a cluster. The edge.

Offsets are read first and the ends of queues afterwards, so that no end is older than the offset it is compared with.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from controller.offsets.commits.results import OffsetNotFound, ReadAnswer
from controller.offsets.guard.master_queries import MasterQueries
from controller.offsets.restore.broker_facts import BROKER_FAILURES, TopicEnds, each_of, hidden_ends, read_ends
from controller.offsets.restore.lag import CommittedIn, CommittedOffset, GroupLag, LagQueue, lag_in
from controller.offsets.restore.lag_turns import LagTurns
from controller.offsets.restore.requests import RestoreRefused
from controller.offsets.topology.values import FollowedSet
from controller.offsets.values import StoredOffset
from remoting.admin.client import AdminClient
from remoting.admin.groups import GroupConnections, connections_of_group
from remoting.admin.offset_table import OffsetTable, all_offsets, decode_key, decode_offsets
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.protocol.errors import BodyError
from remoting.protocol.shapes.broker_admin import OFFSET_KEY_SEPARATOR
from remoting.protocol.topic_kinds import TopicKind, kind_of
from remoting.slices import in_slices

#: Queues that one answer lists.
LAG_QUEUES_MAX: Final = 10_000
#: Topics of one group.
LAG_TOPICS_MAX: Final = 1_000
#: All brokers have this long together.
READ_S: Final = 20
#: Brokers at work at a time: each may answer with megabytes.
BROKERS_MAX: Final = 4
#: Entries that are looked at before others run.
_SLICE_ENTRIES: Final = 2_000
_SEPARATOR: Final = OFFSET_KEY_SEPARATOR.encode()


class TooManyLags(RestoreRefused):
    """More than one answer lists."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"the group has more than {what}: name a topic")


class LagRequest(NamedTuple):
    """Whose lag is wanted."""

    group: str
    #: None: all topics of which the group has offsets.
    topic: str | None
    #: What this manager has stored of the group.
    managed: Mapping[LagQueue, ReadAnswer]

    def topics(self) -> set[str]:
        """Return the topics that this manager knows the group in."""
        return {queue.topic for queue in self.managed if self.topic in (None, queue.topic)}


class LagReading(NamedTuple):
    """The lag of one group."""

    queues: list[GroupLag]
    #: Broker names of which nothing is known, and why.
    unavailable: dict[str, str]


class _LagBroker:
    """What one broker has answered so far."""

    def __init__(self, name: str, queries: MasterQueries) -> None:
        self.name = name
        self.queries = queries
        #: Topic -> queue id -> offset; None: an entry that cannot be read.
        self.offsets: dict[str, Mapping[int, int] | None] = {}
        self.ends: dict[str, TopicEnds] = {}
        #: The members that are connected to it.
        self.members: GroupConnections | None = None
        #: Why nothing is known of it; blank if something is.
        self.problem = f"it was not read within {READ_S} s"

    def known_topics(self, request: LagRequest) -> set[str]:
        """Return the topics that the group has offsets of here, or subscribes to."""
        subscribed = {} if self.members is None else self.members.subscriptions
        return {*self.offsets, *(topic for topic in subscribed if request.topic in (None, topic))}

    def known_queues(self, request: LagRequest, topic: str) -> set[int]:
        """Return the queues of a topic that the group has offsets of."""
        here = {each.queue_id for each in request.managed if (each.topic, each.broker_name) == (topic, self.name)}
        return here | (self.offsets.get(topic) or {}).keys()

    def lags(self, request: LagRequest, *, is_broadcasting: bool) -> Iterable[GroupLag]:
        """Yield the lag in each queue of the topics; a broadcasting group has none."""
        for topic, ends in self.ends.items():
            for queue_id in sorted(ends.queues.keys() | self.known_queues(request, topic)):
                queue = LagQueue(topic, self.name, queue_id)
                found = ends.queues.get(queue_id)
                problem = ends.problem
                if not problem and queue_id in ends.queues and found is None:
                    problem = "the broker cannot read the queue"
                committed = self._committed(request, queue, is_broadcasting=is_broadcasting)
                yield lag_in(queue, committed, found, problem)

    def _committed(self, request: LagRequest, queue: LagQueue, *, is_broadcasting: bool) -> CommittedOffset:
        managed = request.managed.get(queue)
        if managed is not None and not isinstance(managed, OffsetNotFound):
            return _managed(managed)
        if is_broadcasting:
            return CommittedOffset(None, None, "broadcasting: each member keeps its own offsets, on its own host")
        offsets = self.offsets.get(queue.topic, {})
        if offsets is None:
            return CommittedOffset(None, None, "the offsets of the group in the table of the broker are not readable")
        offset = offsets.get(queue.queue_id)
        return CommittedOffset(offset, None if offset is None else CommittedIn.BROKER)


class LagReader:
    """Reads lags live: nothing of them is cached, so they are not read as often as anybody likes."""

    def __init__(self, admin: AdminClient, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._turns = LagTurns(clock.now_ms())

    async def read(self, sets: Iterable[FollowedSet], request: LagRequest) -> LagReading:
        """Return the lag in each queue of the topics of a group; broker sets that are silent are named.

        Raises LagsTooOften and TooManyLags.
        """
        self._turns.take(self._clock.now_ms())
        unavailable: dict[str, str] = {}
        brokers: list[_LagBroker] = []
        for each in sets:
            if each.master is None:
                unavailable[each.broker_name] = "the broker set has no master now"
            else:
                queries = MasterQueries(self._admin, each.broker_name, each.master.address)
                brokers.append(_LagBroker(each.broker_name, queries))
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_S):
                await self._read_all(brokers, request)
        unavailable |= {each.name: each.problem for each in brokers if each.problem}
        broadcasts = any(each.members is not None and each.members.is_broadcasting for each in brokers)
        answered = (each for each in brokers if not each.problem)
        queues = [lag for each in answered for lag in each.lags(request, is_broadcasting=broadcasts)]
        read = {each.name for each in brokers if not each.problem}
        queues += (
            lag_in(queue, _managed(answer), None, unavailable.get(queue.broker_name, "the broker set is not followed"))
            for queue, answer in request.managed.items()
            if request.topic in (None, queue.topic) and queue.broker_name not in read
        )
        if len(queues) > LAG_QUEUES_MAX:
            raise TooManyLags(f"{LAG_QUEUES_MAX} queues")
        return LagReading(sorted(queues, key=lambda each: each.queue), unavailable)

    async def _read_all(self, brokers: Iterable[_LagBroker], request: LagRequest) -> None:
        left, read = iter(brokers), list[_LagBroker]()

        async def read_offsets() -> None:
            for broker in left:
                try:
                    table = await broker.queries.call(all_offsets())
                    broker.offsets = await _offsets_of(table, request)
                    broker.members = await broker.queries.call(connections_of_group(request.group))
                    read.append(broker)
                except BROKER_FAILURES as error:
                    broker.problem = str(error)

        await all_results(read_offsets() for _ in range(BROKERS_MAX))
        # A group may have no offset yet on a broker whose queues it consumes.
        topics = sorted(request.topics().union(*(broker.known_topics(request) for broker in read)))
        if len(topics) > LAG_TOPICS_MAX:
            raise TooManyLags(f"{LAG_TOPICS_MAX} topics")
        waiting = iter(read)

        async def read_queues() -> None:
            for broker in waiting:
                await _read_queues(broker, topics, request)

        await all_results(read_queues() for _ in range(BROKERS_MAX))


async def _read_queues(broker: _LagBroker, topics: Iterable[str], request: LagRequest) -> None:
    async def read_topic(topic: str) -> None:
        ends = await read_ends(broker.queries, topic, broker.known_queues(request, topic))
        if ends.queues and kind_of(topic, (broker.name,)) is TopicKind.NORMAL:
            try:
                hidden = await hidden_ends(broker.queries, topic, max(ends.queues) + 1)
                ends = replace(ends, queues={**ends.queues, **hidden})
            except BROKER_FAILURES as error:
                ends = replace(ends, problem=f"whether more queues hold messages is not known: {error}")
        broker.ends[topic] = ends

    await each_of(topics, read_topic)
    broker.problem = ""


async def _offsets_of(table: OffsetTable, request: LagRequest) -> dict[str, Mapping[int, int] | None]:
    """Return the offsets of a group by topic; those of its broadcasting members are none that are committed."""
    found: dict[str, Mapping[int, int] | None] = {}
    group = request.group.encode()
    async for entries in in_slices(iter(table.reader().next_entry, None), _SLICE_ENTRIES):
        for entry in entries:
            name, _, of_group = entry.key.partition(_SEPARATOR)
            if of_group != group:
                continue
            topic = decode_key(name)
            if request.topic in (None, topic):
                try:
                    found[topic] = decode_offsets(entry.value)
                except BodyError:
                    found[topic] = None
    return found


def _managed(answer: ReadAnswer) -> CommittedOffset:
    if isinstance(answer, StoredOffset):
        return CommittedOffset(answer.offset, CommittedIn.MANAGER)
    if isinstance(answer, OffsetNotFound):
        return CommittedOffset(None)
    return CommittedOffset(None, None, answer.reason)
