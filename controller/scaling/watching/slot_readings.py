"""What brokers answer about some topics at one moment: offsets, ends and load. A broker's own are requested once.

Offsets come before ends: what is consumed in between must not look as if it lay behind the end of a queue.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, TypeVar

from controller.scaling.autoscaler.readings import GroupReading, Offsets, SetReading, TopicReading
from controller.scaling.autoscaler.signals import BrokerLoad
from controller.scaling.execution.broker_views import FAILURES
from controller.scaling.execution.shared_offsets import read_offsets
from controller.scaling.watching.topic_facts import TopicFacts
from remoting.admin.admin_request import AdminRequest
from remoting.admin.brokers import BrokerRuntime, broker_runtime
from remoting.admin.client import AdminClient
from remoting.admin.offset_table import OffsetTable, all_offsets
from remoting.admin.topics import queue_offsets
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.protocol.errors import BodyError

#: `osPageCacheBusyTimeOutMills` of brokers, and what they take for a fault of the clock.
PAGE_CACHE_BUSY_MS: Final = 1_000
_PAGE_CACHE_MS_MAX: Final = 10_000_000

#: Shorter differences of waits are no news.
WAIT_STEP_MS: Final = 20

#: A queue id above it is no queue.
_QUEUE_ID_MAX: Final = 65_535

Found = TypeVar("Found")

#: Topic -> group -> offsets by queue id; a topic whose offsets cannot be read is absent.
_StoredOffsets = Mapping[str, Mapping[str, Mapping[int, int]]]


class _BrokerAnswers(NamedTuple):
    """What one broker answered for all of its topics; None without an answer."""

    offsets: _StoredOffsets | None
    load: BrokerLoad


class SlotReadings:
    """Reads topics, some at a time."""

    def __init__(self, admin: AdminClient, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock

    async def read(self, topics: Mapping[str, TopicFacts]) -> list[TopicReading]:
        """Return what is known of each topic now; what did not answer is None."""
        by_master: dict[str, list[str]] = {}
        for topic, facts in topics.items():
            for master in facts.masters.values():
                if master is not None:
                    by_master.setdefault(master, []).append(topic)
        answers = await all_results(self._of_broker(*each) for each in by_master.items())
        brokers = dict(zip(by_master, answers, strict=True))
        return await all_results(self._of_topic(topic, facts, brokers) for topic, facts in topics.items())

    async def _of_broker(self, address: str, topics: Collection[str]) -> _BrokerAnswers:
        runtime = await self._answer(address, broker_runtime())
        table = await self._answer(address, all_offsets())
        return _BrokerAnswers(None if table is None else await _offsets_of(table, topics), _load(runtime))

    async def _of_topic(self, topic: str, facts: TopicFacts, brokers: Mapping[str, _BrokerAnswers]) -> TopicReading:
        ends = await all_results(self._ends(topic, each) for each in facts.masters.values())
        sets, stored = {}, {}
        for (name, master), max_offsets in zip(facts.masters.items(), ends, strict=True):
            counts = facts.counts.get(name)
            if master is None or max_offsets is None or counts is None:
                sets[name] = SetReading()
                continue
            answers = brokers[master]
            sets[name] = SetReading(
                read_queues=counts.read, write_queues=counts.write, max_offsets=max_offsets, load=answers.load
            )
            if answers.offsets is not None and topic in answers.offsets:
                stored[name] = answers.offsets[topic]
        groups = {
            group: GroupReading(
                kind=each.kind,
                clients=each.clients,
                holders=each.holders,
                offsets={name: _by_queue(offsets.get(group, {})) for name, offsets in stored.items()},
            )
            for group, each in facts.groups.items()
        }
        return TopicReading(
            topic=topic,
            unix_ms=self._clock.unix_ms(),
            sets=sets,
            groups=groups,
            is_ordered=facts.is_ordered,
            is_static=facts.is_static,
            special_type=facts.special_type,
        )

    async def _ends(self, topic: str, master: str | None) -> Offsets | None:
        if master is None:
            return None
        found = await self._answer(master, queue_offsets(topic))
        return None if found is None else _by_queue({each.queue_id: ends.max_offset for each, ends in found.items()})

    async def _answer(self, address: str, wanted: AdminRequest[Found]) -> Found | None:
        try:
            return await self._admin.call(address, wanted)
        except FAILURES:
            return None


async def _offsets_of(table: OffsetTable, topics: Collection[str]) -> _StoredOffsets | None:
    try:
        found = await read_offsets(table, topics)
    except BodyError:
        return None
    return {topic: each.by_group for topic, each in found.items() if not isinstance(each, BodyError)}


def _load(runtime: BrokerRuntime | None) -> BrokerLoad:
    if runtime is None:
        return BrokerLoad()
    lock_ms = runtime.page_cache_lock_ms
    wait_ms = runtime.send_queue_wait_ms
    # A broker's rate tells nothing without what it takes at most, and would make idle topics look as if they changed.
    return BrokerLoad(
        queue_wait_ms=None if wait_ms is None else wait_ms // WAIT_STEP_MS * WAIT_STEP_MS,
        is_page_cache_busy=None if lock_ms is None else PAGE_CACHE_BUSY_MS < lock_ms < _PAGE_CACHE_MS_MAX,
    )


def _by_queue(offsets: Mapping[int, int]) -> Offsets:
    known = [each for each in offsets if 0 <= each <= _QUEUE_ID_MAX]
    return tuple(offsets.get(each) for each in range(max(known, default=-1) + 1))
