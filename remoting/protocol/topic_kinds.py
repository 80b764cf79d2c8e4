"""What a topic is for, by its name: Java's `TopicValidator`, retry topics and dead-letter topics."""

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
    if topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX):
        return TopicKind.SYSTEM
    return TopicKind.NORMAL
