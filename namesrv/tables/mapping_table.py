"""topicQueueMappingInfoTable: where the logical queues of static topics are.

An entry belongs to the broker set that registered it and goes when the set or the topic goes; Java keeps it for ever.
"""

from collections.abc import Iterable, Mapping

from remoting.shapes.route import TopicQueueMappingInfo


class MappingTable:
    """Static topic -> broker name -> mapping, and the topics of each broker set."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        self._by_broker: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._by_topic)

    def of_topic(self, topic: str) -> Mapping[str, TopicQueueMappingInfo] | None:
        """Return a static topic's mappings by broker name, None for an ordinary topic."""
        return self._by_topic.get(topic)

    def topics_of(self, broker_name: str) -> Iterable[str]:
        """Return the static topics that a set has mappings of."""
        return tuple(self._by_broker.get(broker_name, ()))

    def put(self, broker_name: str, mappings: Mapping[str, TopicQueueMappingInfo]) -> None:
        """Store what a set says of its static topics."""
        for topic, mapping in mappings.items():
            self._by_topic.setdefault(topic, {})[broker_name] = mapping
            self._by_broker.setdefault(broker_name, set()).add(topic)

    def remove(self, broker_name: str, topics: Iterable[str]) -> None:
        """Forget what a set said of some topics."""
        mine = self._by_broker.get(broker_name, set())
        for topic in mine.intersection(topics):
            mine.remove(topic)
            row = self._by_topic[topic]
            del row[broker_name]
            if not row:
                del self._by_topic[topic]
        if not mine:
            self._by_broker.pop(broker_name, None)
