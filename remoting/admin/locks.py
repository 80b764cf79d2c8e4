"""Requests about the locks that orderly consumers hold on queues. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec

from remoting.admin.admin_request import AdminRequest, command, decode_broker_body, read_nothing
from remoting.admin.message_queues import MessageQueue
from remoting.protocol.codes import BrokerRequestCode
from remoting.protocol.command import RemotingCommand

#: In the order of their names, as fastjson writes fields.
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class LockRequestBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""

    client_id: str
    consumer_group: str
    mq_set: list[MessageQueue]
    #: 5.x, which otherwise passes the request on to the set's other members if it runs in strict mode.
    only_this_broker: bool


class LockResponseBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of the answer to LOCK_BATCH_MQ (41)."""

    lock_ok_mq_set: frozenset[MessageQueue] = msgspec.field(name="lockOKMQSet", default=frozenset())


def lock_queues(client_id: str, group: str, queues: Iterable[MessageQueue]) -> AdminRequest[frozenset[MessageQueue]]:
    """Lock queues for a client, at this broker alone (41); the result are those that it holds now.

    The broker checks neither client, topic nor queue. A lock ends 60 s after it was last taken.
    Source: docs/protocol/broker-admin.md 21.
    """
    return AdminRequest(command(BrokerRequestCode.LOCK_BATCH_MQ, body=_body(client_id, group, queues)), _read_locked)


def unlock_queues(client_id: str, group: str, queues: Iterable[MessageQueue]) -> AdminRequest[None]:
    """Give up locks of a client, at this broker alone (42); succeeds for those that it does not hold too.

    Source: docs/protocol/broker-admin.md 21.
    """
    return AdminRequest(command(BrokerRequestCode.UNLOCK_BATCH_MQ, body=_body(client_id, group, queues)), read_nothing)


def _body(client_id: str, group: str, queues: Iterable[MessageQueue]) -> bytes:
    body = LockRequestBody(client_id=client_id, consumer_group=group, mq_set=sorted(queues), only_this_broker=True)
    return _encode(body)


def _read_locked(answer: RemotingCommand) -> frozenset[MessageQueue]:
    return decode_broker_body(LockResponseBody, answer.body).lock_ok_mq_set
