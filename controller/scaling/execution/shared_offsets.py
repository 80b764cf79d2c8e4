"""The stored offsets of brokers (43), which several resizes look at: one request answers all that wait for it.

Drained, seeded and confirmed rest on these offsets. So an answer counts for those alone that wanted it before it was
requested; nothing is kept for a later one.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from remoting.admin.client import AdminClient
from remoting.admin.offset_table import OffsetTable, TopicOffsets, UnreadableOffsets, all_offsets
from remoting.background_tasks import start_task
from remoting.protocol.errors import BodyError, InvokeError, Refused, without_origin

#: From one request to a broker to the next one; whoever comes meanwhile waits for that.
PAUSE_S: Final = 0.5

#: By topic; an error where a broker has something stored of the topic that cannot be read.
_Offsets = Mapping[str, TopicOffsets | BodyError]


class SharedOffsets:
    """Requests the offsets of brokers, of each of them once at a time."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        #: By address; those that nobody has looked at for a while are forgotten.
        self._brokers: dict[str, _BrokerOffsets] = {}

    async def of_topic(self, master: str, topic: str) -> TopicOffsets:
        """Return the offsets of a topic at "host:port", requested after this call; raises as `AdminClient.call`."""
        if (broker := self._brokers.get(master)) is None:
            now_s = asyncio.get_running_loop().time()
            self._brokers = {name: each for name, each in self._brokers.items() if not each.is_idle(now_s)}
            broker = self._brokers[master] = _BrokerOffsets(self._admin, master)
        return await broker.of_topic(topic)


class _BrokerOffsets:
    """One broker, and who waits for its next answer."""

    def __init__(self, admin: AdminClient, address: str) -> None:
        self._admin = admin
        self._address = address
        self._turn = asyncio.Lock()
        self._next_s = 0.0
        #: Topics that the next request is for, and what it brings; None while nobody waits for one.
        self._topics: set[str] = set()
        self._next: asyncio.Task[_Offsets | Exception] | None = None

    def is_idle(self, now_s: float) -> bool:
        """Return whether nothing is to be known of it."""
        return self._next is None and not self._turn.locked() and self._next_s <= now_s

    async def of_topic(self, topic: str) -> TopicOffsets:
        if self._next is None:
            self._topics = set()
            self._next = start_task(self._request())
        self._topics.add(topic)
        # One that gives up waiting must not end it for the others.
        found = await asyncio.shield(self._next)
        offsets = found if isinstance(found, Exception) else found[topic]
        if isinstance(offsets, Exception):
            raise offsets
        return offsets

    async def _request(self) -> _Offsets | Exception:
        """Request the offsets when it is time; a failure is returned: it is for all that wait, be it nobody."""
        async with self._turn:
            await asyncio.sleep(self._next_s - asyncio.get_running_loop().time())
            self._next_s = asyncio.get_running_loop().time() + PAUSE_S
            # Whoever comes from now on wants a newer answer.
            topics, self._next = self._topics, None
            try:
                return await read_offsets(await self._admin.call(self._address, all_offsets()), topics)
            except (InvokeError, Refused, BodyError) as error:
                return without_origin(error)


async def read_offsets(table: OffsetTable, topics: Collection[str]) -> _Offsets:
    """Return the offsets of topics, while others go on: brokers with many groups answer megabytes.

    What cannot be read of one topic is an error of that topic alone. Raises BodyError for text that is no such table.
    """
    by_group: dict[str, dict[str, Mapping[int, int]]] = {topic: {} for topic in topics}
    broadcast: dict[str, dict[str, Mapping[int, int]]] = {topic: {} for topic in topics}
    errors: dict[str, BodyError] = {}
    for each in table.of_topics(topics):
        if each is None:
            await asyncio.sleep(0)
        elif isinstance(each, UnreadableOffsets):
            errors[each.topic] = each.error
        else:
            (broadcast if each.is_broadcast else by_group)[each.topic][each.group] = each.offsets
    readable = {each: TopicOffsets(by_group=by_group[each], broadcast_by_group=broadcast[each]) for each in topics}
    return readable | errors
