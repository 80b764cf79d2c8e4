"""The words that all parts of the offset manager share. Pure."""

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from remoting.protocol.shapes.broker_admin import BROADCAST_SUFFIX

#: Offsets by queue id; a queue without one is absent.
QueueOffsets = Mapping[int, int]


class SetName(NamedTuple):
    cluster: str
    broker_name: str


class GroupTopic(NamedTuple):
    group: str
    topic: str


class QueueKey(NamedTuple):
    group: str
    topic: str
    queue_id: int


class GroupKind(enum.StrEnum):
    """How a group consumes, as far as its members show now."""

    #: All members hold queues, and none pops: its offset says what was consumed.
    PULL = "pull"
    #: A member pops, or there is a pop retry topic: messages below its offset may not be acknowledged.
    POP = "pop"
    #: Every member gets every message and keeps its own offsets.
    BROADCAST = "broadcast"
    #: No member is connected, or one of them does not tell.
    UNKNOWN = "unknown"


class GroupMembers(NamedTuple):
    """How a group consumes, as its members say now."""

    kind: GroupKind
    #: A member is connected to the broker.
    is_online: bool = False
    #: Up to where a member has pulled, by topic and queue id of this broker; absent where no member tells.
    positions: Mapping[tuple[str, int], int] = {}


#: The longest cluster, namespace, group, topic or broker name, in characters.
NAME_CHARACTERS_MAX: Final = 255
#: Java's long.
OFFSET_MAX: Final = 2**63 - 1
#: A topic has at most so many queues on one broker set here; Java's int is far larger, and so is a forged queue id.
QUEUES_MAX: Final = 1_024
#: Topics of light message queues begin so; their offsets are never written.
LMQ_PREFIX: Final = "%LMQ%"
RETRY_PREFIX: Final = "%RETRY%"


def is_writable(key: GroupTopic) -> bool:
    """Return whether a group's offsets in a topic may ever be written: not those of light queues and broadcasting."""
    return not (key.topic.startswith(LMQ_PREFIX) or key.group.endswith(BROADCAST_SUFFIX))


def is_pop_retry(key: GroupTopic) -> bool:
    """Return whether a group has a retry topic of its own for messages that it has popped: `%RETRY%group_topic`."""
    return key.topic.startswith((f"{RETRY_PREFIX}{key.group}_", f"{RETRY_PREFIX}{key.group}+"))
