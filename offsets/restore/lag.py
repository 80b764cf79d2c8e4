"""How far a group is behind, read from all masters of a cluster now. The edge, but for `lag_in`.

An unknown lag is never reported as 0: a group that has stored no offset begins where its policy says, so its lag is
unknown. Offsets are read before the ends of queues.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, Literal, NamedTuple

from offsets.at_broker import BROKER_FAILURES, AtBroker, for_all
from offsets.proof import QueueEnds
from offsets.restore.restorer import RestoreRefused
from offsets.sets.followed import FollowedSet
from remoting.admin.client import AdminClient
from remoting.admin.groups import GroupConnections, connections_of_group
from remoting.clock import Clock
from serving.shapes.offsets import LagView

#: Queues that one answer lists, and topics of one group.
QUEUES_MAX: Final = 10_000
TOPICS_MAX: Final = 1_000
#: All brokers have this long together.
READ_S: Final = 20
#: Brokers at work at a time: each may answer with megabytes.
BROKERS_MAX: Final = 4
#: Lags that may be read in a burst, and how often one more may be.
LAGS_MAX: Final = 20
PERIOD_MS: Final = 1000

_BROADCASTS: Final = "broadcasting: each member keeps its own offsets, on its own host"
_NO_OFFSET: Final = "the group has stored no offset: it begins where its policy for new groups says"


class LagQueue(NamedTuple):
    topic: str
    broker_name: str
    queue_id: int


class LagReading(NamedTuple):
    queues: list[LagView]
    #: Broker names of which nothing is known, and why.
    unavailable: dict[str, str]


class LagsTooOften(RestoreRefused):
    """Too many lags were requested; nothing was sent to brokers."""

    def __init__(self) -> None:
        super().__init__(
            f"Brokers are read for {LAGS_MAX} lags at once, and for one each {PERIOD_MS} ms after that: repeat the "
            "request in a second, or take the lag from the metrics of brokers."
        )


def lag_in(
    queue: LagQueue,
    committed: int | None,
    where: Literal["manager", "broker"],
    ends: QueueEnds | None,
    problem: str = "",
) -> LagView:
    """Return the lag in a queue; `problem` says why nothing is known.

    An offset before the beginning counts from the beginning, as expired messages cannot be consumed; one behind the end
    is none of this queue's messages, so the lag is unknown. Nothing is behind in a queue that never had a message.
    """
    end = None if ends is None else ends.max_offset
    if problem or ends is None:
        stored = None if committed is None else where
        return LagView(*queue, end, committed, stored, "unknown", problem or "the broker does not have this queue")
    if committed is None:
        return LagView(*queue, end, None, None, "unknown" if end else 0, _NO_OFFSET if end else "")
    if committed > ends.max_offset:
        reason = f"the offset is beyond the end of the queue, {end}: messages are lost"
        return LagView(*queue, end, committed, where, "unknown", reason)
    return LagView(*queue, end, committed, where, ends.max_offset - max(committed, ends.min_offset), "")


class LagReader:
    """Reads lags live: nothing is cached, so reads are rate-limited."""

    def __init__(self, admin: AdminClient, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._left, self._since_ms = float(LAGS_MAX), clock.now_ms()

    async def read(
        self, sets: Iterable[FollowedSet], group: str, topic: str | None, managed: Mapping[LagQueue, int]
    ) -> LagReading:
        """Return the lag in each queue of the topics of a group; `managed` are offsets that this manager stores.

        Broker sets that are silent are named. Raises LagsTooOften and RestoreRefused.
        """
        self._take_turn()
        unavailable: dict[str, str] = {}
        brokers: list[_LagBroker] = []
        for followed in sets:
            if followed.master is None:
                unavailable[followed.set_name.broker_name] = "the broker set has no master now"
            else:
                at = AtBroker(self._admin, followed.set_name, followed.master.address)
                brokers.append(_LagBroker(at, group, topic, managed))
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_S):
                await for_all(brokers, _LagBroker.read_offsets, BROKERS_MAX)
                topics = sorted({queue.topic for queue in managed}.union(*(broker.topics() for broker in brokers)))
                if len(topics) > TOPICS_MAX:
                    raise RestoreRefused(f"The group has more than {TOPICS_MAX} topics: name one.")
                # A group may have no offset yet on a broker whose queues it consumes.
                read = [broker for broker in brokers if broker.is_read]
                await for_all(read, lambda broker: broker.read_ends(topics), BROKERS_MAX)
        unavailable |= {broker.name: broker.problem for broker in brokers if broker.problem}
        broadcasts = any(broker.members is not None and broker.members.is_broadcasting for broker in brokers)
        answered = [broker for broker in brokers if not broker.problem]
        queues = [lag for broker in answered for lag in broker.lags(is_broadcasting=broadcasts)]
        names = {broker.name for broker in answered}
        queues += (
            lag_in(queue, offset, "manager", None, unavailable.get(queue.broker_name, "the broker set is not followed"))
            for queue, offset in managed.items()
            if queue.broker_name not in names
        )
        if len(queues) > QUEUES_MAX:
            raise RestoreRefused(f"The group has more than {QUEUES_MAX} queues: name a topic.")
        return LagReading(sorted(queues, key=lambda lag: (lag.topic, lag.broker_name, lag.queue_id)), unavailable)

    def _take_turn(self) -> None:
        now_ms = self._clock.now_ms()
        self._left = min(LAGS_MAX, self._left + (now_ms - self._since_ms) / PERIOD_MS)
        self._since_ms = now_ms
        if self._left < 1:
            raise LagsTooOften
        self._left -= 1


class _LagBroker:
    """What one broker has answered so far."""

    def __init__(self, at: AtBroker, group: str, topic: str | None, managed: Mapping[LagQueue, int]) -> None:
        self._at, self._group, self._topic, self._managed = at, group, topic, managed
        self.name = at.set_name.broker_name
        self._offsets: dict[str, Mapping[int, int]] = {}
        self._unreadable: set[str] = set()
        self._ends: dict[str, dict[int, QueueEnds] | str] = {}
        #: The members that are connected to it.
        self.members: GroupConnections | None = None
        self.is_read = False
        #: Why nothing is known of it; blank if something is.
        self.problem = f"it was not read within {READ_S} s"

    def topics(self) -> set[str]:
        """Return the topics that the group has offsets of here, or subscribes to."""
        subscribed = set() if self.members is None else set(self.members.subscriptions)
        return {topic for topic in {*self._offsets, *self._unreadable, *subscribed} if self._topic in (None, topic)}

    async def read_offsets(self) -> None:
        try:
            shown = await self._at.shown()
            self.members = await self._at.call(connections_of_group(self._group))
        except BROKER_FAILURES as error:
            self.problem = str(error)
            return
        self._offsets = {name.topic: offsets for name, offsets in shown.offsets.items() if name.group == self._group}
        self._unreadable = {name.topic for name in shown.unreadable if name.group == self._group}
        self.is_read = True

    async def read_ends(self, topics: Iterable[str]) -> None:
        async def read(topic: str) -> None:
            here = [queue.queue_id for queue in self._managed if (queue.topic, queue.broker_name) == (topic, self.name)]
            try:
                self._ends[topic] = await self._at.topic_ends(topic, {*here, *self._offsets.get(topic, ())})
            except BROKER_FAILURES as error:
                self._ends[topic] = f"the ends of topic {topic} are not known: {error}"

        await for_all(topics, read)
        self.problem = ""

    def lags(self, *, is_broadcasting: bool) -> Iterable[LagView]:
        """Yield the lag in each queue of the topics; a broadcasting group has none."""
        for topic, found in self._ends.items():
            ends, problem = ({}, found) if isinstance(found, str) else (found, "")
            here = {queue.queue_id for queue in self._managed if (queue.topic, queue.broker_name) == (topic, self.name)}
            for queue_id in sorted(ends.keys() | here | self._offsets.get(topic, {}).keys()):
                queue = LagQueue(topic, self.name, queue_id)
                if (managed := self._managed.get(queue)) is not None:
                    yield lag_in(queue, managed, "manager", ends.get(queue_id), problem)
                    continue
                why = _BROADCASTS if is_broadcasting else problem
                if topic in self._unreadable:
                    why = "the offsets of the group in the table of the broker are not readable"
                yield lag_in(queue, self._offsets.get(topic, {}).get(queue_id), "broker", ends.get(queue_id), why)
