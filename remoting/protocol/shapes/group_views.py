"""What an operator sees and changes of groups and clients.

Answers whole, as an operator's tool prints them: what the shapes for rules leave out is in these. Numbers that an older
release does not write are 0, as in Java's objects, unless that would say something else. Source:
docs/protocol/broker-admin.md 10 to 39.
"""

import msgspec

from remoting.protocol.shapes.integers import Int32, Int64


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
