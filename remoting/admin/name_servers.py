"""Requests that change or list what one NameServer has: write permissions, topics, KV entries. Pure.

Routes and clusters: `routes.py`. Each NameServer has its own state: a change is sent to all of them.
"""

from collections.abc import Mapping

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body, read_nothing
from remoting.protocol.codec import decode_fields
from remoting.protocol.codes import RequestCode, ResponseCode
from remoting.protocol.command import RemotingCommand
from remoting.protocol.errors import BodyError
from remoting.protocol.shapes.namesrv import (
    AddedWritePermHeader,
    BrokerNameHeader,
    ClusterHeader,
    KvConfigHeader,
    KvTable,
    NamespaceHeader,
    TopicHeader,
    TopicList,
    WipedWritePermHeader,
)


def wipe_write_perm(broker_name: str) -> AdminRequest[int]:
    """Take the write permission from all topics of a broker set (205); the result is how many topics it has.

    It lasts until the broker registers with another data version. 0 also for an unknown broker.
    Source: docs/protocol/namesrv.md 2.12.
    """

    def read(answer: RemotingCommand) -> int:
        return decode_fields(WipedWritePermHeader, answer.ext_fields).wipe_topic_count or 0

    return AdminRequest(command(RequestCode.WIPE_WRITE_PERM_OF_BROKER, BrokerNameHeader(broker_name=broker_name)), read)


def add_write_perm(broker_name: str) -> AdminRequest[int]:
    """Give all topics of a broker set read and write permission (327); the result is how many topics it has.

    Source: docs/protocol/namesrv.md 2.13.
    """

    def read(answer: RemotingCommand) -> int:
        return decode_fields(AddedWritePermHeader, answer.ext_fields).add_topic_count or 0

    return AdminRequest(command(RequestCode.ADD_WRITE_PERM_OF_BROKER, BrokerNameHeader(broker_name=broker_name)), read)


def topics_of_cluster(cluster: str) -> AdminRequest[frozenset[str]]:
    """Request the names of the topics of a cluster (224), none for an unknown one.

    Raises Refused with code 1 where `enableTopicList` is false. Source: docs/protocol/namesrv.md 2.17.
    """
    request = command(RequestCode.GET_TOPICS_BY_CLUSTER, ClusterHeader(cluster=cluster))
    return AdminRequest(request, lambda answer: frozenset(decode_broker_body(TopicList, answer.body).topic_list))


def delete_topic_route(topic: str, cluster: str | None) -> AdminRequest[None]:
    """Remove the route of a topic (216), with a cluster only of its brokers.

    A broker that still has the topic brings it back. Source: docs/protocol/namesrv.md 2.15.
    """
    header = TopicHeader(topic=topic, cluster_name=cluster)
    return AdminRequest(command(RequestCode.DELETE_TOPIC_IN_NAMESRV, header), read_nothing)


def kv_value(namespace: str, key: str) -> AdminRequest[str | None]:
    """Request the value of a KV entry (101); None if there is none. Source: docs/protocol/namesrv.md 2.2."""
    request = command(RequestCode.GET_KV_CONFIG, KvConfigHeader(namespace=namespace, key=key))

    def read(answer: RemotingCommand) -> str:
        value = decode_fields(KvConfigHeader, answer.ext_fields).value
        if value is None:
            raise BodyError("the response has no value")
        return value

    return AdminRequest(request, read, {ResponseCode.QUERY_NOT_FOUND: None})


def put_kv(namespace: str, key: str, value: str) -> AdminRequest[None]:
    """Set the value of a KV entry (100). Source: docs/protocol/namesrv.md 2.1."""
    header = KvConfigHeader(namespace=namespace, key=key, value=value)
    return AdminRequest(command(RequestCode.PUT_KV_CONFIG, header), read_nothing)


def delete_kv(namespace: str, key: str) -> AdminRequest[None]:
    """Remove a KV entry (102), which may not be there. Source: docs/protocol/namesrv.md 2.3."""
    header = KvConfigHeader(namespace=namespace, key=key)
    return AdminRequest(command(RequestCode.DELETE_KV_CONFIG, header), read_nothing)


def kv_namespace(namespace: str) -> AdminRequest[Mapping[str, str] | None]:
    """Request all entries of a KV namespace (219); None for an unknown one. Source: docs/protocol/namesrv.md 2.4."""
    request = command(RequestCode.GET_KVLIST_BY_NAMESPACE, NamespaceHeader(namespace=namespace))
    return AdminRequest(
        request, lambda answer: decode_broker_body(KvTable, answer.body).table, {ResponseCode.QUERY_NOT_FOUND: None}
    )
