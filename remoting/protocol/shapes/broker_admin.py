"""Headers and bodies of the requests that administer brokers: topics, offsets and locks, in the order of their codes.

Clients, groups and brokers themselves: `broker_clients.py`. What Java always writes is required, so that what is
missing is not taken for zero. Source: docs/protocol/broker-admin.md 1 to 24.
"""

from typing import Final

import msgspec

from remoting.protocol.shapes.integers import Int32, Int64

#: What Java sends as `defaultTopic` with UPDATE_AND_CREATE_TOPIC (17); brokers ignore it.
DEFAULT_TOPIC: Final = "TBW102"
#: The usual `topicFilterType`.
SINGLE_TAG: Final = "SINGLE_TAG"

#: Between the parts of a key of `offsetTable` in the answer to GET_ALL_CONSUMER_OFFSET (43).
OFFSET_KEY_SEPARATOR: Final = "@"
#: Third part of the key under which a broker keeps what members of a broadcasting group have read.
BROADCAST_SUFFIX: Final = "@broadcast"
#: The field of that answer which holds the offsets.
OFFSET_TABLE: Final = "offsetTable"
#: Remark of the answer to UPDATE_CONSUMER_OFFSET (15) when a reset on the server is pending, and nothing was stored.
RESET_PENDING: Final = "Offset has been previously reset"
#: Remark of the refusal of GET_TIMER_METRICS (61) where there is no timer.
TIMER_IS_OFF: Final = "The timer message store is null"


class QueueHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_MAX_OFFSET (30) and GET_MIN_OFFSET (31)."""

    topic: str
    queue_id: Int32


class SearchOffsetHeader(QueueHeader, frozen=True, kw_only=True, rename="camel"):
    """Header of SEARCH_OFFSET_BY_TIMESTAMP (29)."""

    #: Unix ms.
    timestamp: Int64


class QueryConsumerOffsetHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of QUERY_CONSUMER_OFFSET (14)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool


class UpdateConsumerOffsetHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of UPDATE_CONSUMER_OFFSET (15)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class OffsetResponseHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of the answers to 14, 30 and 31."""

    offset: Int64 | None = None


class UpdateTopicHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of UPDATE_AND_CREATE_TOPIC (17)."""

    topic: str
    default_topic: str = DEFAULT_TOPIC
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32
    order: bool
    #: `+key=value,-key`; None changes none.
    attributes: str | None = None


class AllTopicConfigs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to GET_ALL_TOPIC_CONFIG (21); the topics are not decoded."""

    topic_config_table: dict[str, msgspec.Raw]


class TimedCount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many timed messages of one topic wait."""

    count: Int64


class TimerMetricsBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to GET_TIMER_METRICS (61), by topic."""

    timing_count: dict[str, TimedCount]


class ConsumeStatsHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_CONSUME_STATS (208)."""

    consumer_group: str
    #: None: every topic of which the group has offsets.
    topic: str | None = None
