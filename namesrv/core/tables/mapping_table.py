"""topicQueueMappingInfoTable: where the logical queues of static topics are.

An entry belongs to the broker set that registered it and goes when the set or the topic goes; Java keeps it for ever.
As in `topic_table.py` changes are prepared in slices, and then stored at once.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import UNSET

from namesrv.core.tables.topic_brokers import HolderRemoval, Holders, HolderTable
from namesrv.core.values.cooperative import CooperativeTask, in_batches, run_to_completion
from remoting.protocol.shapes.route import TopicQueueMappingInfo

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
