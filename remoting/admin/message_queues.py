"""Queues as values, and as the keys of fastjson's maps. Pure."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from remoting.admin.admin_request import readable_rows
from remoting.protocol.errors import BodyError
from remoting.protocol.shapes.integers import Int32

Value = TypeVar("Value")


class MessageQueue(msgspec.Struct, frozen=True, kw_only=True, order=True, rename="camel"):
    """One queue of a topic on one broker set: an element of a list or, in its text, the key of a map."""

    topic: str
    broker_name: str
    queue_id: Int32


def by_queue(table: Mapping[str, Value]) -> dict[MessageQueue, Value]:
    """Return a map whose keys are texts of queues, by queue; raises BodyError for a key that is none."""
    return {queue: table[key] for key, queue in readable_rows(table, _queue_in).items()}


def _queue_in(key: str, _: object) -> MessageQueue:
    try:
        return msgspec.json.decode(key, type=MessageQueue, strict=False)
    except msgspec.DecodeError as error:
        raise BodyError(f"a key is no queue: {error}") from None
