"""topicQueueTable: which queues each topic has on each broker set.

Kept from both sides, by topic for route queries and by broker set for its departure. A topic without queues does not
exist here. Equal settings of one set share one value, so a million entries cost little more than their names.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from remoting.shapes.route import QueueData

_NO_TOPICS: Final[Mapping[str, QueueData]] = {}


class TopicTable:
    """Topic -> broker name -> QueueData, and the same from the broker's side."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[str, QueueData]] = {}
        self._by_broker: dict[str, dict[str, QueueData]] = {}

    def __len__(self) -> int:
        return len(self._by_topic)

    def __contains__(self, topic: str) -> bool:
        return topic in self._by_topic

    def topics(self) -> Iterable[str]:
        """Return every topic."""
        return self._by_topic

    def queues_of(self, topic: str) -> Mapping[str, QueueData] | None:
        """Return a topic's queues by broker name, None if nobody has the topic."""
        return self._by_topic.get(topic)

    def topics_of(self, broker_name: str) -> Mapping[str, QueueData]:
        """Return what one broker set has, by topic."""
        return self._by_broker.get(broker_name, _NO_TOPICS)

    def put(self, broker_name: str, queues: Mapping[str, QueueData]) -> None:
        """Store the queues of some topics of one set."""
        if not queues:
            return
        self._by_broker.setdefault(broker_name, {}).update(queues)
        by_topic = self._by_topic
        for topic, queue_data in queues.items():
            if (row := by_topic.get(topic)) is None:
                by_topic[topic] = {broker_name: queue_data}
            else:
                row[broker_name] = queue_data

    def remove(self, broker_name: str, topics: Iterable[str]) -> None:
        """Forget some topics of one set, as far as it has them."""
        rows = self._by_broker.get(broker_name, {})
        for topic in topics:
            if rows.pop(topic, None) is None:
                continue
            row = self._by_topic[topic]
            del row[broker_name]
            if not row:
                del self._by_topic[topic]
        if not rows:
            self._by_broker.pop(broker_name, None)
