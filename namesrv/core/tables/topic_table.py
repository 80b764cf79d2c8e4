"""topicQueueTable and topicQueueMappingInfoTable: which queues each topic has on each broker set, and its mappings.

Kept by broker set, with the names of a topic's holders beside it for route queries. A topic without queues does not
exist here, and an entry goes when the set or the topic goes; Java keeps mappings for ever. Equal settings of one set
share one value, and topics on the same sets their list of holders, so a million entries cost little more than their
names. What a long registration adds is prepared in slices aside, and then stored at once: nobody sees half of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, islice
from operator import add
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from namesrv.core.values.cooperative import BATCH_TOPICS, CooperativeTask, in_batches, run_to_completion
from remoting.protocol.shapes.integers import Int32
from remoting.protocol.shapes.route import QueueData, TopicQueueMappingInfo

#: Topics of one registration, with the mappings of its static topics: twice as many as the largest brokers have.
TOPICS_MAX: Final = 200_000


class TopicSettings(msgspec.Struct, frozen=True, gc=False):
    """The settings of a topic that routes depend on, as `TopicConfig` has them."""

    perm: int
    read_queue_nums: int
    write_queue_nums: int
    topic_sys_flag: int


class SharedSettings(dict[tuple[int, int, int, int], TopicSettings]):
    """One value for all topics that are set alike, by the fields of `TopicSettings`.

    Raises msgspec.ValidationError for a number of more than 32 bits.
    """

    def __missing__(self, settings: tuple[int, int, int, int]) -> TopicSettings:
        value = self[settings] = TopicSettings(*msgspec.convert(settings, tuple[Int32, ...]))
        return value


class QueueTransition(NamedTuple):
    """Some topics that change in the same way."""

    #: None: the set did not have them.
    before: QueueData | None
    after: QueueData
    topics: int


class QueueChanges(NamedTuple):
    """The topics whose queues are not as they are to be."""

    queues: Mapping[str, QueueData] = {}
    transitions: tuple[QueueTransition, ...] = ()
    #: How many topics the set does not get, because its host has too many sets in them.
    left_out: int = 0


Wanted = TypeVar("Wanted")


class _Pair(msgspec.Struct):
    """What some topics have, and what they are to have."""

    old: QueueData | None
    new: QueueData
    differs: bool
    topics: int = 0


def compare_topics(
    before: Mapping[str, QueueData], wanted: Iterable[tuple[str, Wanted]], queues_of: Callable[[Wanted], QueueData]
) -> CooperativeTask[QueueChanges]:
    """Return the topics of which a set has something else `before` than is `wanted`; a cooperative task.

    No topic may be wanted twice. `queues_of` makes queues of what is wanted, once for neighbours that want the same.
    """
    queues: dict[str, QueueData] = {}
    # By the identity of what there is and of what is wanted: topics that are set alike share both, neighbours mostly.
    pairs: dict[tuple[int, int], _Pair] = {}
    old: QueueData | None = None
    last: Wanted | None = None
    pair: _Pair | None = None
    counted = 0
    remaining = iter(wanted)
    for first in remaining:
        for topic, value in chain((first,), islice(remaining, BATCH_TOPICS - 1)):
            if (present := before.get(topic)) is not old or value is not last:
                if pair is not None:
                    pair.topics += len(queues) - counted
                    counted = len(queues)
                old, last = present, value
                if (pair := pairs.get((id(old), id(value)))) is None:
                    new = queues_of(value)
                    pair = pairs[id(old), id(value)] = _Pair(old, new, old != new)
                new, differs = pair.new, pair.differs
            if differs:
                queues[topic] = new
        yield
    if pair is not None:
        pair.topics += len(queues) - counted
    moves = (QueueTransition(pair.old, pair.new, pair.topics) for pair in pairs.values() if pair.differs)
    return QueueChanges(queues, tuple(moves))


def queue_changes(before: Mapping[str, QueueData], wanted: Iterable[tuple[str, QueueData]]) -> QueueChanges:
    """Return what `compare_topics` does, at once."""
    return run_to_completion(compare_topics(before, wanted, lambda queues: queues))


#: What a topic of a set takes beside its name, a mapping beside it, and each queue of that, in bytes.
_TOPIC_BYTES: Final = 130
_MAPPING_BYTES: Final = 600
_QUEUE_BYTES: Final = 160

#: The broker sets that have a topic, in the order they got it.
Holders = tuple[str, ...]
Value = TypeVar("Value")


class QueueSum(NamedTuple):
    """How many queues the topics of a broker set have together, and what they or their mappings take, in bytes."""

    read: int = 0
    write: int = 0
    size_bytes: int = 0


class PreparedPut(NamedTuple, Generic[Value]):
    """Values of some topics of one set, ready to be stored; of no use once the table has changed."""

    broker_name: str
    values: Mapping[str, Value]
    #: Who has those topics that are new to the set.
    added: Mapping[str, Holders]
    #: Over all topics of the set.
    queue_sum: QueueSum


class PreparedRemoval(NamedTuple):
    """Topics of one set, ready to be removed; of no use once the table has changed."""

    broker_name: str
    topics: Sequence[str]
    #: Those of them that nobody else has.
    unheld: Sequence[str]
    #: Who has the others.
    remaining: Mapping[str, Holders]
    #: Over the topics.
    queue_sum: QueueSum


class SetTable(ABC, Generic[Value]):
    """Broker name -> topic -> value, and topic -> broker names."""

    def __init__(self) -> None:
        self._by_broker: dict[str, dict[str, Value]] = {}
        self._holders: dict[str, Holders] = {}
        #: Broker name -> sum over its topics, kept up at every change: a scrape cannot walk millions of entries.
        self._queue_sums: dict[str, QueueSum] = {}
        #: Moves whenever a topic comes or goes, so that a list of the names knows whether it is still true.
        self.names_version = 0

    def __len__(self) -> int:
        return len(self._holders)

    def __contains__(self, topic: str) -> bool:
        return topic in self._holders

    def topics(self) -> Iterable[str]:
        return self._holders

    def holders_of(self, topic: str) -> Holders:
        """Return the broker sets that have a topic, none if it is unknown."""
        return self._holders.get(topic, ())

    def of_topic(self, topic: str) -> Mapping[str, Value] | None:
        """Return what a topic's sets have of it by broker name, None if it is unknown."""
        holders = self._holders.get(topic)
        return {name: self._by_broker[name][topic] for name in holders} if holders else None

    def of_broker(self, broker_name: str) -> Mapping[str, Value]:
        return self._by_broker.get(broker_name, {})

    def queue_sum(self, broker_name: str) -> QueueSum:
        return self._queue_sums.get(broker_name, QueueSum())

    def store(self, prepared: PreparedPut[Value]) -> None:
        """Store what was prepared since the last change of the table."""
        name = prepared.broker_name
        if not prepared.values:
            return
        topics_before = len(self._holders)
        self._holders.update(prepared.added)
        self._by_broker.setdefault(name, {}).update(prepared.values)
        self._queue_sums[name] = prepared.queue_sum
        self.names_version += len(self._holders) != topics_before

    def discard(self, prepared: PreparedRemoval) -> None:
        """Remove what was prepared since the last change of the table, but for what was stored by `store`."""
        name = prepared.broker_name
        if not prepared.topics:
            return
        for topic in prepared.unheld:
            del self._holders[topic]
        self._holders.update(prepared.remaining)
        mine = self._by_broker[name]
        if len(prepared.topics) == len(mine):
            del self._by_broker[name], self._queue_sums[name]
        else:
            for topic in prepared.topics:
                del mine[topic]
            left = (have - gone for have, gone in zip(self._queue_sums[name], prepared.queue_sum, strict=True))
            self._queue_sums[name] = QueueSum(*left)
        self.names_version += bool(prepared.unheld)

    def _prepare_join(self, broker_name: str, topics: Iterable[str]) -> CooperativeTask[dict[str, Holders]]:
        """Return the future holders of those topics that the set has not yet."""
        added: dict[str, Holders] = {}
        mine = self.of_broker(broker_name)
        # By the identity of the former holders, which topics share, as they will share the new ones.
        grown: dict[int, Holders] = {}
        for part in in_batches(topics):
            for topic in [topic for topic in part if topic not in mine]:
                holders = self._holders.get(topic, ())
                if (more := grown.get(id(holders))) is None:
                    more = grown[id(holders)] = (*holders, broker_name)
                added[topic] = more
            yield
        return added

    def prepare_removal(self, broker_name: str, topics: Iterable[str]) -> CooperativeTask[PreparedRemoval]:
        """Work out what it takes to remove topics, each named once, of one set, as far as it has them."""
        mine = self.of_broker(broker_name)
        had: list[str] = []
        unheld: list[str] = []
        remaining: dict[str, Holders] = {}
        queue_sum = QueueSum()
        # As in `_prepare_join`.
        shrunk: dict[int, Holders] = {}
        for part in in_batches(topics if mine else ()):
            held = {topic: mine[topic] for topic in part if topic in mine}
            had += held
            queue_sum = QueueSum(*map(add, queue_sum, self._sum_of(held)))
            yield
            for topic in held:
                holders = self._holders.get(topic, ())
                if len(holders) <= 1:
                    unheld.append(topic)
                    continue
                if (others := shrunk.get(id(holders))) is None:
                    others = shrunk[id(holders)] = tuple(name for name in holders if name != broker_name)
                remaining[topic] = others
            yield
        return PreparedRemoval(broker_name, had, unheld, remaining, queue_sum)

    @abstractmethod
    def _sum_of(self, values: Mapping[str, Value]) -> QueueSum:
        """Return what some topics of a set come to."""


class TopicTable(SetTable[QueueData]):
    """The queues of each topic on each set."""

    def first_queues_of(self, topic: str) -> QueueData | None:
        """Return what the first of a topic's broker sets has of it, None if nobody has the topic."""
        holders = self.holders_of(topic)
        return self._by_broker[holders[0]][topic] if holders else None

    def prepare_put(self, broker_name: str, changes: QueueChanges) -> CooperativeTask[PreparedPut[QueueData]]:
        """Work out what it takes to store changed queues of one set; a cooperative task."""
        read, write, size = self.queue_sum(broker_name)
        for before, after, topics in changes.transitions:
            read += topics * (after.read_queue_nums - (before.read_queue_nums if before else 0))
            write += topics * (after.write_queue_nums - (before.write_queue_nums if before else 0))
        added: dict[str, Holders] = {}
        if any(move.before is None for move in changes.transitions):
            added = yield from self._prepare_join(broker_name, changes.queues)
            for part in in_batches(added):
                size += size_bytes(part)
                yield
        return PreparedPut(broker_name, changes.queues, added, QueueSum(read, write, size))

    def put(self, broker_name: str, queues: Mapping[str, QueueData]) -> None:
        changes = queue_changes(self.of_broker(broker_name), queues.items())
        self.store(run_to_completion(self.prepare_put(broker_name, changes)))

    def _sum_of(self, values: Mapping[str, QueueData]) -> QueueSum:
        read = sum(data.read_queue_nums for data in values.values())
        write = sum(data.write_queue_nums for data in values.values())
        return QueueSum(read, write, size_bytes(values))


class MappingTable(SetTable[TopicQueueMappingInfo]):
    """Where the logical queues of static topics are."""

    def prepare_put(
        self, broker_name: str, mappings: Mapping[str, TopicQueueMappingInfo]
    ) -> CooperativeTask[PreparedPut[TopicQueueMappingInfo]]:
        """Work out what it takes to store a set's mappings of static topics; a cooperative task."""
        mine, size = self.of_broker(broker_name), self.queue_sum(broker_name).size_bytes
        added = yield from self._prepare_join(broker_name, mappings)
        for part in in_batches(mappings.items()):
            size += sum(_mapping_bytes(topic, new) - _mapping_bytes(topic, mine.get(topic)) for topic, new in part)
            yield
        return PreparedPut(broker_name, mappings, added, QueueSum(size_bytes=size))

    def put(self, broker_name: str, mappings: Mapping[str, TopicQueueMappingInfo]) -> None:
        self.store(run_to_completion(self.prepare_put(broker_name, mappings)))

    def _sum_of(self, values: Mapping[str, TopicQueueMappingInfo]) -> QueueSum:
        return QueueSum(size_bytes=sum(_mapping_bytes(topic, mapping) for topic, mapping in values.items()))


def size_bytes(topics: Collection[str]) -> int:
    """Return what topics of a set take; a character that is not ASCII makes all of its name wide."""
    wide = sum(len(topic) for topic in topics if not topic.isascii())
    return len(topics) * _TOPIC_BYTES + sum(map(len, topics)) + 3 * wide


def _mapping_bytes(topic: str, mapping: TopicQueueMappingInfo | None) -> int:
    if mapping is None:
        return 0
    queues = 0 if mapping.curr_id_map is UNSET else len(mapping.curr_id_map)
    return _MAPPING_BYTES + 4 * len(topic) + _QUEUE_BYTES * queues


class PermissionOverrides:
    """Broker name -> topic -> the permission that replaces the registered one; empty but for maintenance."""

    def __init__(self) -> None:
        self._overrides: dict[str, dict[str, int]] = {}

    def of(self, broker_name: str) -> Mapping[str, int]:
        return self._overrides.get(broker_name, {})

    def put(self, broker_name: str, overrides: Mapping[str, int]) -> None:
        if overrides:
            self._overrides.setdefault(broker_name, {}).update(overrides)

    def remove(self, broker_name: str, topics: Iterable[str]) -> None:
        mine = self._overrides.get(broker_name)
        if mine is None:
            return
        for topic in topics:
            mine.pop(topic, None)
        if not mine:
            del self._overrides[broker_name]
