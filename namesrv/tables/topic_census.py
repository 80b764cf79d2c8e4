"""How many topics of which kind each cluster has: kept up at every change, so that a scrape never walks the tables."""

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Final

# Java's `TopicValidator.SYSTEM_TOPIC_SET`, less those that the prefix covers.
_SYSTEM_TOPICS: Final = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    }
)
_SYSTEM_PREFIX: Final = "rmq_sys_"


class TopicKind(Enum):
    """What a topic is for; the values are the metric's labels."""

    NORMAL = "normal"
    SYSTEM = "system"
    RETRY = "retry"
    DLQ = "dlq"


def kind_of(topic: str) -> TopicKind:
    """Return the kind that a topic's name tells."""
    if topic.startswith("%RETRY%"):
        return TopicKind.RETRY
    if topic.startswith("%DLQ%"):
        return TopicKind.DLQ
    if topic in _SYSTEM_TOPICS or topic.startswith(_SYSTEM_PREFIX):
        return TopicKind.SYSTEM
    return TopicKind.NORMAL


class TopicCensus:
    """Counts each topic once per cluster, however many of its broker sets have it."""

    def __init__(self) -> None:
        #: Cluster -> topic -> how many broker sets have it.
        self._holders: dict[str, dict[str, int]] = {}
        self._counts: dict[str, dict[TopicKind, int]] = {}

    def counts(self) -> dict[str, dict[TopicKind, int]]:
        """Return the number of topics by cluster and kind; not to be changed."""
        return self._counts

    def add(self, cluster: str, topics: Collection[str]) -> None:
        """Count topics that one more broker set of the cluster has."""
        if not topics:
            return
        holders = self._holders.setdefault(cluster, {})
        counts = self._counts.setdefault(cluster, dict.fromkeys(TopicKind, 0))
        new = [topic for topic in topics if topic not in holders]
        for topic in topics:
            holders[topic] = holders.get(topic, 0) + 1
        # Nearly all are normal, and counting an enum for each would take longer than all the rest.
        special = [topic for topic in new if topic[:1] == "%" or topic in _SYSTEM_TOPICS or topic[:8] == _SYSTEM_PREFIX]
        counts[TopicKind.NORMAL] += len(new) - len(special)
        for topic in special:
            counts[kind_of(topic)] += 1

    def remove(self, cluster: str, topics: Iterable[str]) -> None:
        """Count topics that one broker set of the cluster no longer has."""
        for topic in topics:
            holders = self._holders[cluster]
            holders[topic] -= 1
            if holders[topic] == 0:
                del holders[topic]
                self._counts[cluster][kind_of(topic)] -= 1
        if cluster in self._holders and not self._holders[cluster]:
            del self._holders[cluster]
            del self._counts[cluster]

    def move(self, before: str, after: str, topics: Iterable[str]) -> None:
        """Count the topics of a broker set whose cluster changed."""
        names = list(topics)
        self.remove(before, names)
        self.add(after, names)
