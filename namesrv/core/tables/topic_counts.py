"""How many topics of which kind each cluster has: kept up at every change, so that a scrape never walks the tables."""

from collections import Counter
from collections.abc import Collection, Mapping
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
    """Return the kind of a topic by its name."""
    if topic.startswith("%RETRY%"):
        return TopicKind.RETRY
    if topic.startswith("%DLQ%"):
        return TopicKind.DLQ
    if topic in _SYSTEM_TOPICS or topic.startswith(_SYSTEM_PREFIX):
        return TopicKind.SYSTEM
    return TopicKind.NORMAL


def kinds_of(topics: Collection[str]) -> Counter[TopicKind]:
    """Return how many of the topics are of each kind."""
    # Nearly all are normal, and counting an enum for each would take longer than all the rest.
    special = [topic for topic in topics if topic[:1] == "%" or topic in _SYSTEM_TOPICS or topic[:8] == _SYSTEM_PREFIX]
    kinds = Counter(map(kind_of, special))
    kinds[TopicKind.NORMAL] += len(topics) - len(special)
    return kinds


class TopicCountTable:
    """Counts by cluster and kind; each topic once per cluster, however many of its broker sets have it."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[TopicKind, int]] = {}

    def counts(self) -> Mapping[str, Mapping[TopicKind, int]]:
        """Return the number of topics by cluster and kind."""
        return self._counts

    def add(self, cluster: str, kinds: Counter[TopicKind]) -> None:
        """Count topics that no broker set of the cluster had before."""
        if not any(kinds.values()):
            return
        counts = self._counts.setdefault(cluster, dict.fromkeys(TopicKind, 0))
        for kind, topics in kinds.items():
            counts[kind] += topics

    def remove(self, cluster: str, kinds: Counter[TopicKind]) -> None:
        """Count topics that no broker set of the cluster has any longer."""
        if not any(kinds.values()):
            return
        counts = self._counts[cluster]
        for kind, topics in kinds.items():
            counts[kind] -= topics
        if not any(counts.values()):
            del self._counts[cluster]
