"""topicQueueTable and topicQueueMappingInfoTable: which queues each topic has on each broker set, and its mappings.

Kept by broker set, with the names of a topic's holders beside it for route queries. A topic without queues does not
exist here, and an entry goes when the set or the topic goes; Java keeps mappings for ever. Equal settings of one set
share one value, and topics on the same sets their list of holders, so a million entries cost little more than their
names. What a long registration adds is prepared in slices aside, and then stored at once: nobody sees half of it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import UNSET

from namesrv.core.values.cooperative import CooperativeTask, in_batches, run_to_completion
from namesrv.core.values.topics import QueueChanges, compare_topics
from remoting.protocol.shapes.route import QueueData, TopicQueueMappingInfo

#: The broker sets that have a topic, in the order they got it.
Holders = tuple[str, ...]


class HolderRemoval(NamedTuple):
    """Topics that one set will no longer have."""

    topics: Sequence[str]
    #: Those of them that nobody else has.
    unheld: Sequence[str]
    #: Who has the others.
    remaining: Mapping[str, Holders]


class HolderTable:
    """Topic -> broker names."""

    def __init__(self) -> None:
        self._holders: dict[str, Holders] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def __contains__(self, topic: str) -> bool:
        return topic in self._holders

    def topics(self) -> Iterable[str]:
        """Return every topic that somebody has."""
        return self._holders

    def of(self, topic: str) -> Holders:
        """Return the broker sets that have a topic, none if it is unknown."""
        return self._holders.get(topic, ())

    def prepare_join(
        self, broker_name: str, topics: Iterable[str], mine: Mapping[str, object]
    ) -> CooperativeTask[dict[str, Holders]]:
        """Return the future holders of those topics that the set has not yet, which are not in `mine`."""
        added: dict[str, Holders] = {}
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

    def prepare_leave(self, broker_name: str, topics: Iterable[str]) -> CooperativeTask[HolderRemoval]:
        """Return who will have the topics, each named once, when the set has them no longer; a cooperative task."""
        every: list[str] = []
        unheld: list[str] = []
        remaining: dict[str, Holders] = {}
        # As in `prepare_join`.
        shrunk: dict[int, Holders] = {}
        for part in in_batches(topics):
            every += part
            for topic in part:
                holders = self._holders.get(topic, ())
                if len(holders) <= 1:
                    unheld.append(topic)
                    continue
                if (others := shrunk.get(id(holders))) is None:
                    others = shrunk[id(holders)] = tuple(name for name in holders if name != broker_name)
                remaining[topic] = others
            yield
        return HolderRemoval(every, unheld, remaining)

    def store(self, added: Mapping[str, Holders]) -> None:
        """Store what `prepare_join` returned; of no use once the table has changed."""
        self._holders.update(added)

    def discard(self, removal: HolderRemoval) -> None:
        """Forget what `prepare_leave` returned; of no use once the table has changed, but for `store`."""
        for topic in removal.unheld:
            del self._holders[topic]
        self._holders.update(removal.remaining)


_NO_TOPICS: Final[Mapping[str, QueueData]] = {}


#: What a topic of a set takes beside its name, in bytes: entries of the tables.
_TOPIC_BYTES: Final = 130


class QueueSum(NamedTuple):
    """How many queues the topics of a broker set have together, and what the topics take, in bytes."""

    read: int = 0
    write: int = 0
    size_bytes: int = 0


class PreparedQueues(NamedTuple):
    """Queues of some topics of one set, ready to be stored; of no use once the table has changed."""

    broker_name: str
    queues: Mapping[str, QueueData]
    #: Who has those topics that are new to the set.
    added: Mapping[str, Holders]
    #: Over all topics of the set.
    queue_sum: QueueSum


class PreparedRemoval(NamedTuple):
    """Topics of one set, ready to be removed; of no use once the table has changed."""

    broker_name: str
    holders: HolderRemoval
    #: Over the topics.
    queue_sum: QueueSum


class TopicTable:
    """Broker name -> topic -> QueueData, and topic -> broker names."""

    def __init__(self) -> None:
        self._by_broker: dict[str, dict[str, QueueData]] = {}
        self._holders = HolderTable()
        #: Broker name -> sum over its topics, kept up at every change: a scrape cannot walk millions of entries.
        self._queue_sums: dict[str, QueueSum] = {}
        #: Moves whenever a topic comes or goes, so that a list of the names knows whether it is still true.
        self.names_version = 0

    def __len__(self) -> int:
        return len(self._holders)

    def __contains__(self, topic: str) -> bool:
        return topic in self._holders

    def topics(self) -> Iterable[str]:
        """Return every topic."""
        return self._holders.topics()

    def holders_of(self, topic: str) -> Holders:
        """Return the broker sets that have a topic, none if it is unknown."""
        return self._holders.of(topic)

    def queues_of(self, topic: str) -> Mapping[str, QueueData] | None:
        """Return a topic's queues by broker name, None if nobody has the topic."""
        holders = self._holders.of(topic)
        return {name: self._by_broker[name][topic] for name in holders} if holders else None

    def first_queues_of(self, topic: str) -> QueueData | None:
        """Return what the first of a topic's broker sets has of it, None if nobody has the topic."""
        holders = self._holders.of(topic)
        return self._by_broker[holders[0]][topic] if holders else None

    def topics_of(self, broker_name: str) -> Mapping[str, QueueData]:
        """Return what one broker set has, by topic."""
        return self._by_broker.get(broker_name, _NO_TOPICS)

    def queue_sum(self, broker_name: str) -> QueueSum:
        """Return how many queues one broker set has, over all topics."""
        return self._queue_sums.get(broker_name, QueueSum())

    def prepare_put(self, broker_name: str, changes: QueueChanges) -> CooperativeTask[PreparedQueues]:
        """Work out what it takes to store changed queues of one set; a cooperative task."""
        read, write, size = self.queue_sum(broker_name)
        for before, after, topics in changes.transitions:
            read += topics * (after.read_queue_nums - (before.read_queue_nums if before else 0))
            write += topics * (after.write_queue_nums - (before.write_queue_nums if before else 0))
        added: dict[str, Holders] = {}
        if any(move.before is None for move in changes.transitions):
            added = yield from self._holders.prepare_join(broker_name, changes.queues, self.topics_of(broker_name))
            for part in in_batches(added):
                size += size_bytes(part)
                yield
        return PreparedQueues(broker_name, changes.queues, added, QueueSum(read, write, size))

    def put(self, broker_name: str, queues: Mapping[str, QueueData]) -> None:
        """Store the queues of some topics of one set at once."""
        changes = run_to_completion(compare_topics(self.topics_of(broker_name), queues.items()))
        self.store(run_to_completion(self.prepare_put(broker_name, changes)))

    def store(self, prepared: PreparedQueues) -> None:
        """Store what was prepared since the last change of the table."""
        name = prepared.broker_name
        if not prepared.queues:
            return
        topics_before = len(self._holders)
        self._holders.store(prepared.added)
        self._by_broker.setdefault(name, {}).update(prepared.queues)
        self._queue_sums[name] = prepared.queue_sum
        self.names_version += len(self._holders) != topics_before

    def prepare_removal(self, broker_name: str, topics: Iterable[str]) -> CooperativeTask[PreparedRemoval]:
        """Work out what it takes to remove topics, each named once, of one set, as far as it has them."""
        mine = self.topics_of(broker_name)
        had: list[str] = []
        read = write = size = 0
        for part in in_batches(topics):
            held = [topic for topic in part if topic in mine]
            had += held
            read += sum(mine[topic].read_queue_nums for topic in held)
            write += sum(mine[topic].write_queue_nums for topic in held)
            size += size_bytes(held)
            yield
        removal = yield from self._holders.prepare_leave(broker_name, had)
        return PreparedRemoval(broker_name, removal, QueueSum(read, write, size))

    def discard(self, prepared: PreparedRemoval) -> None:
        """Remove what was prepared since the last change of the table, but for what was stored by `store`."""
        name, removal, queue_sum = prepared
        if not removal.topics:
            return
        self._holders.discard(removal)
        mine = self._by_broker[name]
        if len(removal.topics) == len(mine):
            del self._by_broker[name], self._queue_sums[name]
        else:
            for topic in removal.topics:
                del mine[topic]
            read, write, size = self._queue_sums[name]
            self._queue_sums[name] = QueueSum(
                read - queue_sum.read, write - queue_sum.write, size - queue_sum.size_bytes
            )
        self.names_version += bool(removal.unheld)


def size_bytes(topics: Collection[str]) -> int:
    """Return what topics of a set take; a character that is not ASCII makes all of its name wide."""
    wide = sum(len(topic) for topic in topics if not topic.isascii())
    return len(topics) * _TOPIC_BYTES + sum(map(len, topics)) + 3 * wide


#: What a mapping takes, and each of its queues, in bytes.
_MAPPING_BYTES: Final = 600
_QUEUE_BYTES: Final = 160

_NO_MAPPINGS: Final[Mapping[str, TopicQueueMappingInfo]] = {}


class PreparedMappings(NamedTuple):
    """Mappings of one set, ready to be stored; of no use once the table has changed."""

    broker_name: str
    mappings: Mapping[str, TopicQueueMappingInfo]
    #: Who has those topics that are new to the set.
    added: Mapping[str, Holders]
    #: What all mappings of the set take then.
    size_bytes: int


class PreparedMappingRemoval(NamedTuple):
    """Mappings of one set, ready to be removed; of no use once the table has changed."""

    broker_name: str
    holders: HolderRemoval
    #: What the removed mappings took.
    size_bytes: int


class MappingTable:
    """Static topic -> broker name -> mapping, and the topics of each broker set."""

    def __init__(self) -> None:
        self._by_broker: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        self._holders = HolderTable()
        #: Broker name -> what its mappings take.
        self._sizes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def of_topic(self, topic: str) -> Mapping[str, TopicQueueMappingInfo] | None:
        """Return a static topic's mappings by broker name, None for an ordinary topic."""
        holders = self._holders.of(topic)
        return {name: self._by_broker[name][topic] for name in holders} if holders else None

    def of_broker(self, broker_name: str) -> Mapping[str, TopicQueueMappingInfo]:
        """Return the mappings that a set has, by topic."""
        return self._by_broker.get(broker_name, _NO_MAPPINGS)

    def size_bytes(self, broker_name: str) -> int:
        """Return what the mappings of a set take."""
        return self._sizes.get(broker_name, 0)

    def prepare_put(
        self, broker_name: str, mappings: Mapping[str, TopicQueueMappingInfo]
    ) -> CooperativeTask[PreparedMappings]:
        """Work out what it takes to store a set's mappings of static topics; a cooperative task."""
        mine, size = self.of_broker(broker_name), self.size_bytes(broker_name)
        added = yield from self._holders.prepare_join(broker_name, mappings, mine)
        for part in in_batches(mappings.items()):
            size += sum(_size_bytes(topic, mapping) - _size_bytes(topic, mine.get(topic)) for topic, mapping in part)
            yield
        return PreparedMappings(broker_name, mappings, added, size)

    def prepare_removal(self, broker_name: str, topics: Iterable[str]) -> CooperativeTask[PreparedMappingRemoval]:
        """Work out what it takes to remove a set's mappings of some topics, each named once; a cooperative task."""
        mine = self.of_broker(broker_name)
        mapped = (topic for topic in topics if topic in mine) if mine else ()
        removal = yield from self._holders.prepare_leave(broker_name, mapped)
        size = 0
        for part in in_batches(removal.topics):
            size += sum(_size_bytes(topic, mine[topic]) for topic in part)
            yield
        return PreparedMappingRemoval(broker_name, removal, size)

    def store(self, prepared: PreparedMappings) -> None:
        """Store what was prepared since the last change of the table."""
        if prepared.mappings:
            self._holders.store(prepared.added)
            self._by_broker.setdefault(prepared.broker_name, {}).update(prepared.mappings)
            self._sizes[prepared.broker_name] = prepared.size_bytes

    def discard(self, prepared: PreparedMappingRemoval) -> None:
        """Remove what was prepared since the last change of the table, but for what was stored by `store`."""
        name, removal, size = prepared
        if not removal.topics:
            return
        self._holders.discard(removal)
        mine = self._by_broker[name]
        if len(removal.topics) == len(mine):
            del self._by_broker[name], self._sizes[name]
            return
        self._sizes[name] -= size
        for topic in removal.topics:
            del mine[topic]

    def put(self, broker_name: str, mappings: Mapping[str, TopicQueueMappingInfo]) -> None:
        """Store a set's mappings of static topics at once."""
        self.store(run_to_completion(self.prepare_put(broker_name, mappings)))


def _size_bytes(topic: str, mapping: TopicQueueMappingInfo | None) -> int:
    if mapping is None:
        return 0
    queues = 0 if mapping.curr_id_map is UNSET else len(mapping.curr_id_map)
    return _MAPPING_BYTES + 4 * len(topic) + _QUEUE_BYTES * queues


class PermissionOverrides:
    """Broker name -> topic -> the permission that replaces the registered one; empty but for maintenance."""

    def __init__(self) -> None:
        self._overrides: dict[str, dict[str, int]] = {}

    def of(self, broker_name: str) -> Mapping[str, int]:
        """Return a set's overrides by topic."""
        return self._overrides.get(broker_name, {})

    def put(self, broker_name: str, overrides: Mapping[str, int]) -> None:
        """Store overrides of some topics."""
        if overrides:
            self._overrides.setdefault(broker_name, {}).update(overrides)

    def remove(self, broker_name: str, topics: Iterable[str]) -> None:
        """Lift the overrides of some topics."""
        mine = self._overrides.get(broker_name)
        if mine is None:
            return
        for topic in topics:
            mine.pop(topic, None)
        if not mine:
            del self._overrides[broker_name]
