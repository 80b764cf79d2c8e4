"""topicQueueTable: which queues each topic has on each broker set.

Kept from both sides, by topic for route queries and by broker set for its departure. A topic without queues does not
exist here. Equal settings of one set share one value, so a million entries cost little more than their names.
"""

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from remoting.shapes.route import QueueData

_read_of: Final = attrgetter("read_queue_nums")
_write_of: Final = attrgetter("write_queue_nums")
_NO_TOPICS: Final[Mapping[str, QueueData]] = {}


class QueueSum(NamedTuple):
    """How many queues the topics of a broker set have together."""

    read: int = 0
    write: int = 0


class TopicTable:
    """Topic -> broker name -> QueueData, and the same from the broker's side."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[str, QueueData]] = {}
        self._by_broker: dict[str, dict[str, QueueData]] = {}
        #: Broker name -> sum over its topics, kept up at every change: a scrape cannot walk millions of entries.
        self._queue_sums: dict[str, QueueSum] = {}
        #: Moves whenever a topic comes or goes, so that a list of the names knows whether it is still true.
        self.names_version = 0

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

    def queue_sum(self, broker_name: str) -> QueueSum:
        """Return how many queues one broker set has, over all topics."""
        return self._queue_sums.get(broker_name, QueueSum())

    def put(self, broker_name: str, queues: Mapping[str, QueueData]) -> None:
        """Store the queues of some topics of one set."""
        if not queues:
            return
        mine = self._by_broker.setdefault(broker_name, {})
        read, write = self.queue_sum(broker_name)
        by_topic = self._by_topic
        topics_before = len(by_topic)
        former = [old for topic in queues if (old := mine.get(topic)) is not None]
        read += sum(map(_read_of, queues.values())) - sum(map(_read_of, former))
        write += sum(map(_write_of, queues.values())) - sum(map(_write_of, former))
        for topic, queue_data in queues.items():
            if (row := by_topic.get(topic)) is None:
                by_topic[topic] = {broker_name: queue_data}
            else:
                row[broker_name] = queue_data
        mine.update(queues)
        self._queue_sums[broker_name] = QueueSum(read, write)
        self.names_version += len(by_topic) != topics_before

    def remove(self, broker_name: str, topics: Iterable[str]) -> None:
        """Forget some topics of one set, as far as it has them."""
        rows = self._by_broker.get(broker_name, {})
        read, write = self.queue_sum(broker_name)
        topics_before = len(self._by_topic)
        for topic in topics:
            if (old := rows.pop(topic, None)) is None:
                continue
            read -= old.read_queue_nums
            write -= old.write_queue_nums
            row = self._by_topic[topic]
            del row[broker_name]
            if not row:
                del self._by_topic[topic]
        if rows:
            self._queue_sums[broker_name] = QueueSum(read, write)
        else:
            self._by_broker.pop(broker_name, None)
            self._queue_sums.pop(broker_name, None)
        self.names_version += len(self._by_topic) != topics_before
