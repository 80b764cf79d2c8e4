"""What a topic is for, by its name: Java's `TopicValidator`, retry topics and dead-letter topics.

Brokers make topics of their own too: one named after their cluster, one after their set, and one for replies.
"""

from collections.abc import Container, Iterable
from enum import Enum
from typing import Final

#: Java's `TopicValidator.SYSTEM_TOPIC_SET`, less those that the prefix covers.
SYSTEM_TOPICS: Final = frozenset(
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
SYSTEM_PREFIX: Final = "rmq_sys_"
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"


class TopicKind(Enum):
    """What a topic is for; the values are the metric's labels."""

    NORMAL = "normal"
    SYSTEM = "system"
    RETRY = "retry"
    DLQ = "dlq"


def kind_of(topic: str, owners: Container[str]) -> TopicKind:
    """Return the kind of a topic by its name; `owners` are the names of clusters and broker sets, as 304 answers."""
    if topic.startswith("%RETRY%"):
        return TopicKind.RETRY
    if topic.startswith("%DLQ%"):
        return TopicKind.DLQ
    if topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX) or topic.removesuffix(_REPLY_SUFFIX) in owners:
        return TopicKind.SYSTEM
    return TopicKind.NORMAL


def topics_of(owners: Iterable[str]) -> set[str]:
    """Return the topics that are system topics because of these clusters and broker sets, whether brokers have them."""
    return {topic for owner in owners for topic in (owner, owner + _REPLY_SUFFIX)}
