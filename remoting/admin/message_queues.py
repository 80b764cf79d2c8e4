"""Queues as values, and as the keys of fastjson's maps. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from remoting.admin.admin_request import readable_rows
from remoting.protocol.errors import BodyError
from remoting.protocol.shapes.broker_admin import MessageQueueBody

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MessageQueue:
    """One queue of a topic on one broker set."""

    topic: str
    broker_name: str
    queue_id: int


def queue_of(body: MessageQueueBody) -> MessageQueue:
    return MessageQueue(topic=body.topic, broker_name=body.broker_name, queue_id=body.queue_id)


def body_of(queue: MessageQueue) -> MessageQueueBody:
    return MessageQueueBody(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)


def by_queue(table: Mapping[str, Value]) -> dict[MessageQueue, Value]:
    """Return a map whose keys are texts of queues, by queue; raises BodyError for a key that is none."""
    return {queue: table[key] for key, queue in readable_rows(table, _queue_in).items()}


def _queue_in(key: str, _: object) -> MessageQueue:
    try:
        return queue_of(msgspec.json.decode(key, type=MessageQueueBody, strict=False))
    except msgspec.DecodeError as error:
        raise BodyError(f"a key is no queue: {error}") from None
