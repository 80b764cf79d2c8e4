"""What an operator sees and changes of groups and clients.

Answers whole, as an operator's tool prints them: what the shapes for rules leave out is in these. Numbers that an older
release does not write are 0, as in Java's objects, unless that would say something else. Source:
docs/protocol/broker-admin.md 10 to 39.
"""

import msgspec

from remoting.protocol.shapes.integers import Int32, Int64


class GroupQueueView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue in the answers to GET_CONSUME_STATS (208) and GET_BROKER_CONSUME_STATS (317)."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    #: 5.1.0+; without it nobody knows how many messages are under way.
    pull_offset: Int64 | None = None
    #: Unix ms.
    last_timestamp: Int64 = 0


class GroupStatsView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to 208, and each group and topic in that to 317; the keys are queues."""

    consume_tps: float = 0
    offset_table: dict[str, GroupQueueView] = {}


class BrokerGroupStatsView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to 317: for each group one map with the group alone."""

    consume_stats_list: list[dict[str, list[GroupStatsView]]] = []
    total_diff: Int64 = 0


class ConnectedClientView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One client in the answers to GET_CONSUMER_CONNECTION_LIST (203) and GET_PRODUCER_CONNECTION_LIST (204)."""

    client_id: str | None = None
    client_addr: str | None = None
    language: str | None = None
    version: Int32 = 0


class SubscriptionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a client takes of a topic."""

    topic: str | None = None
    sub_string: str | None = None
    expression_type: str | None = None
    class_filter_mode: bool = False


class ConsumersView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to 203."""

    connection_set: list[ConnectedClientView] = []
    subscription_table: dict[str, SubscriptionView] = {}
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


class ProducersView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to 204."""

    connection_set: list[ConnectedClientView] = []


class RunningQueueView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue that a consumer holds, in the answer to GET_CONSUMER_RUNNING_INFO (307)."""

    commit_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_count: Int32 = 0
    cached_msg_size_in_mi_b: Int32 = msgspec.field(name="cachedMsgSizeInMiB", default=0)
    transaction_msg_min_offset: Int64 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: Int64 = 0
    #: Unix ms, as the next ones.
    last_lock_timestamp: Int64 = 0
    #: Java's spelling.
    droped: bool = False
    last_pull_timestamp: Int64 = 0
    last_consume_timestamp: Int64 = 0


class PoppedQueueView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue that a consumer pops from, in the answer to 307."""

    wait_ack_count: Int32 = 0
    droped: bool = False
    last_pop_timestamp: Int64 = 0


class ConsumeRateView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The rates of a topic in the answer to 307."""

    pull_rt: float = msgspec.field(name="pullRT", default=0.0)
    pull_tps: float = msgspec.field(name="pullTPS", default=0.0)
    consume_rt: float = msgspec.field(name="consumeRT", default=0.0)
    consume_ok_tps: float = msgspec.field(name="consumeOKTPS", default=0.0)
    consume_failed_tps: float = msgspec.field(name="consumeFailedTPS", default=0.0)
    consume_failed_msgs: Int64 = 0


class RunningConsumerView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to 307; the keys of both queue tables are queues."""

    properties: dict[str, str] = {}
    subscription_set: list[SubscriptionView] = []
    mq_table: dict[str, RunningQueueView] = {}
    mq_pop_table: dict[str, PoppedQueueView] = {}
    status_table: dict[str, ConsumeRateView] = {}
    user_consumer_info: dict[str, str] = {}
    jstack: str | None = None


class RetryPolicyView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When a group gets a message again that it could not consume; whichever of the policies is set."""

    type: str = "CUSTOMIZED"
    exponential_retry_policy: dict[str, int] | None = None
    customized_retry_policy: dict[str, list[int]] | None = None


class SimpleSubscriptionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One subscription that the configuration of a group names."""

    topic: str | None = None
    expression_type: str | None = None
    expression: str | None = None
    version: Int64 = 0


class SubscriptionGroupView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """A group: body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200), and in that of the answer to 201.

    The values that are here by default are Java's.
    """

    group_name: str | None = None
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    group_retry_policy: RetryPolicyView | None = RetryPolicyView()
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int32 = 0
    consume_timeout_minute: Int32 = 15
    subscription_data_set: list[SimpleSubscriptionView] | None = None
    attributes: dict[str, str] = {}


class BrokerGroupStatsHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Header of GET_BROKER_CONSUME_STATS (317)."""

    is_order: bool = msgspec.field(name="isOrder")


class ProducerGroupHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Header of GET_PRODUCER_CONNECTION_LIST (204)."""

    producer_group: str


class RequestModeBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of SET_MESSAGE_REQUEST_MODE (401)."""

    topic: str
    consumer_group: str
    #: PULL or POP.
    mode: str
    pop_share_queue_num: Int32
