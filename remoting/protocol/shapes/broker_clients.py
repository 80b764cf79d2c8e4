"""Headers and bodies of the requests to brokers about groups, clients and the broker itself, by their codes.

Source: docs/protocol/broker-admin.md 9 to 27.
"""

from typing import Final

import msgspec

from remoting.protocol.shapes.integers import Int32, Int64

#: `messageModel` of a group whose members get every message.
BROADCASTING: Final = "BROADCASTING"
#: Groups of the brokers' own, and of tools that come and go.
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
TOOL_GROUP: Final = "TOOLS_CONSUMER"
#: Key of the table in the answer to GET_BROKER_RUNTIME_INFO (28), with a delay level behind it: `delivered,max`.
SCHEDULE_OFFSET_PREFIX: Final = "scheduleMessageOffset_"


class BrokerRuntimeFields(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is read of the table in the answer to GET_BROKER_RUNTIME_INFO (28), all of whose values are text."""

    broker_version_desc: str | None = None
    boot_timestamp: Int64 | None = None
    commit_log_min_offset: Int64 | None = None
    commit_log_max_offset: Int64 | None = None
    dispatch_behind_bytes: Int64 | None = None
    #: Three numbers: messages a second over the last 10 s, 60 s and 600 s. Blank until they are known.
    put_tps: str | None = None
    #: How long the first request to send has waited for a thread.
    send_thread_pool_queue_head_wait_time_mills: Int64 | None = None
    #: How long the append that is under way has held the log; 0 while none is.
    page_cache_lock_time_mills: Int64 | None = None


class NewSubscriptionGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200) for a new group; Java has defaults for the rest."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True


class DeleteGroupHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of DELETE_SUBSCRIPTIONGROUP (207)."""

    group_name: str
    #: 5.x.
    clean_offset: bool
    #: The same in 4.9; each release ignores the other's field.
    remove_offset: bool


class AllSubscriptionGroups(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201); the groups are not decoded."""

    subscription_group_table: dict[str, msgspec.Raw]


class ConsumerGroupHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_CONSUMER_CONNECTION_LIST (203)."""

    consumer_group: str


class SubscriptionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a client takes of a topic."""

    topic: str | None = None
    sub_string: str | None = None
    expression_type: str | None = None
    class_filter_mode: bool = False


class GroupListBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to QUERY_TOPIC_CONSUME_BY_WHO (300)."""

    group_list: list[str]


class ConsumerRunningInfoHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_CONSUMER_RUNNING_INFO (307), which the broker passes on to the client."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class RunningQueueView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue that a client holds, in the answer to 307."""

    #: The client's own position, which the broker may not have yet.
    commit_offset: Int64 | None = None
    cached_msg_min_offset: Int64 | None = None
    cached_msg_max_offset: Int64 | None = None
    cached_msg_count: Int32 | None = None
    cached_msg_size_in_mi_b: Int32 | None = msgspec.field(name="cachedMsgSizeInMiB", default=None)
    transaction_msg_min_offset: Int64 | None = None
    transaction_msg_max_offset: Int64 | None = None
    transaction_msg_count: Int32 | None = None
    locked: bool | None = None
    try_unlock_times: Int64 | None = None
    last_lock_timestamp: Int64 | None = None
    #: Java's spelling.
    is_dropped: bool | None = msgspec.field(name="droped", default=None)
    last_pull_timestamp: Int64 | None = None
    last_consume_timestamp: Int64 | None = None


class PoppedQueueView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue that a client pops from, in the answer to 307."""

    wait_ack_count: Int32 | None = None
    is_dropped: bool | None = msgspec.field(name="droped", default=None)
    last_pop_timestamp: Int64 | None = None


class ConsumeRateView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The rates of a topic in the answer to 307."""

    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_failed_msgs: Int64 = 0


class RunningProperties(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a client's properties in the answer to 307, all of whose values are text."""

    is_orderly: bool | None = msgspec.field(name="PROP_CONSUMEORDERLY", default=None)
    consume_type: str | None = msgspec.field(name="PROP_CONSUME_TYPE", default=None)
    client_version: str | None = msgspec.field(name="PROP_CLIENT_VERSION", default=None)
    start_timestamp: Int64 | None = msgspec.field(name="PROP_CONSUMER_START_TIMESTAMP", default=None)
    message_model: str | None = msgspec.field(name="messageModel", default=None)


class RunningConsumerBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What rules read of the answer to 307; the keys of both queue tables are queues."""

    mq_table: dict[str, RunningQueueView]
    mq_pop_table: dict[str, PoppedQueueView] = {}
    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionView] = []


class RunningConsumerView(RunningConsumerBody, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to 307: a rule must not depend on whether the rest can be read."""

    status_table: dict[str, ConsumeRateView] = {}
    user_consumer_info: dict[str, str] = {}
    jstack: str | None = None


class ProducerInfoBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One producer in the answer to GET_ALL_PRODUCER_INFO (328)."""

    client_id: str
    remote_ip: str | None = msgspec.field(name="remoteIP", default=None)
    language: str | None = None
    version: Int32 | None = None
    last_update_timestamp: Int64 | None = None


class AllProducersBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to 328: producer group -> its producers."""

    data: dict[str, list[ProducerInfoBody]]
