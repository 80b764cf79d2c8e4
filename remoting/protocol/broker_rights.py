"""Which rights the access control of brokers wants for requests that this product sends. Pure.

Sources: ACL 2.0 (5.3 and later) DefaultAuthorizationContextBuilder and `@RocketMQAction` of the header classes; ACL 1.0
PlainAccessResource (5.1.4) and PlainAccessValidator (4.9.7). What neither names needs a user alone.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from remoting.protocol.codes import BrokerRequestCode, RequestCode

_TOPIC_GET: Final = "with ACL 2.0 Get of the topic"
_GROUP_GET: Final = "with ACL 2.0 Get of the group"
_CLUSTER_UPDATE: Final = "with ACL 2.0 Update of the cluster"
_SUB: Final = "with ACL 2.0 Sub of the group and of its topics"

#: By request code. A retry topic counts as its group.
_RIGHTS: Final[Mapping[int, str]] = MappingProxyType(
    {
        BrokerRequestCode.QUERY_CONSUMER_OFFSET: "with ACL 2.0 Get (or Sub) of the topic and of the group",
        BrokerRequestCode.UPDATE_CONSUMER_OFFSET: (
            "with ACL 2.0 Update (or Sub) of the topic and of the group, with ACL 1.0 SUB of both"
        ),
        BrokerRequestCode.INVOKE_BROKER_TO_RESET_OFFSET: "with ACL 2.0 Update of the topic and of the group",
        BrokerRequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _TOPIC_GET,
        BrokerRequestCode.GET_MAX_OFFSET: _TOPIC_GET,
        BrokerRequestCode.GET_MIN_OFFSET: _TOPIC_GET,
        BrokerRequestCode.GET_TOPIC_STATS_INFO: _TOPIC_GET,
        BrokerRequestCode.GET_TOPIC_CONFIG: _TOPIC_GET,
        BrokerRequestCode.QUERY_CONSUME_QUEUE: "with ACL 2.0 Get of the topic and of groups",
        BrokerRequestCode.GET_CONSUMER_CONNECTION_LIST: _GROUP_GET,
        BrokerRequestCode.GET_CONSUMER_RUNNING_INFO: _GROUP_GET,
        BrokerRequestCode.LOCK_BATCH_MQ: _SUB,
        BrokerRequestCode.UNLOCK_BATCH_MQ: _SUB,
        RequestCode.NOTIFY_BROKER_ROLE_CHANGED: _CLUSTER_UPDATE,
        RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: _CLUSTER_UPDATE,
    }
)


def needed_rights(request_code: int) -> str:
    """Return what a user needs beside its password for a request; blank where no right is known."""
    return _RIGHTS.get(request_code, "")
