"""How far a group is behind in one queue, and why that is not known. Pure.

Nothing is taken for 0: a group that has stored no offset begins where its policy says, so its lag is unknown.
"""

import enum
from typing import NamedTuple

from controller.offsets.restore.rules import QueueBounds


class CommittedIn(enum.StrEnum):
    """Where the offset of a group is stored."""

    #: In this manager: its clients read it from here.
    MANAGER = "manager"
    BROKER = "broker"


class LagQueue(NamedTuple):
    """A queue in which a group's lag is wanted."""

    topic: str
    broker_name: str
    queue_id: int


class GroupLag(NamedTuple):
    """How far a group is in a queue."""

    queue: LagQueue
    #: The next offset to be written; None if it is not known.
    max_offset: int | None
    #: The next offset to consume; None if none is stored, or it is not known.
    committed: int | None
    committed_in: CommittedIn | None
    #: None: unknown.
    lag: int | None
    #: Why it is unknown; blank if it is known.
    reason: str = ""


class CommittedOffset(NamedTuple):
    """What is stored of a group in a queue; without an offset `problem` says why it is not known, blank for none."""

    offset: int | None
    where: CommittedIn | None = None
    problem: str = ""


def lag_in(queue: LagQueue, committed: CommittedOffset, ends: QueueBounds | None, problem: str = "") -> GroupLag:
    """Return the lag in a queue; `problem` says why its ends are not known.

    An offset before the beginning counts from the beginning, as expired messages cannot be consumed; one behind the
    end is none of this queue's messages, so the lag is unknown. Nothing is behind in a queue that never had a message.
    """
    reason = committed.problem or problem
    end = None if ends is None else ends.max_offset
    if not reason and committed.offset is None and end == 0:
        return GroupLag(queue, end, None, None, 0)
    if not reason and committed.offset is None:
        reason = "the group has stored no offset: it begins where its policy for new groups says"
    if not reason and ends is None:
        reason = "the broker does not have this queue"
    if not reason and ends is not None and committed.offset is not None:
        if committed.offset <= ends.max_offset:
            lag = ends.max_offset - max(committed.offset, ends.min_offset)
            return GroupLag(queue, end, committed.offset, committed.where, lag)
        reason = f"the offset is beyond the end of the queue, {ends.max_offset}: messages are lost"
    return GroupLag(queue, end, committed.offset, committed.where, None, reason)
