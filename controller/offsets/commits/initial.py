"""Where a group begins in a queue for which it has no offset (docs/protocol/offsets.md 4). Pure.

A stored offset always wins, however old. While it cannot be determined whether there is one, no policy applies:
clients of 4.9 take every error for "none", and jump to the end of a queue that they have half consumed.
"""

import enum
from typing import Final

import msgspec

from controller.offsets.commits.results import OffsetNotFound, OffsetUnavailable, ReadAnswer
from controller.offsets.values import OFFSET_MAX, StoredOffset
from remoting.protocol.topic_kinds import TopicKind, kind_of


class InitialPolicy(enum.StrEnum):
    """Java's `ConsumeFromWhere`; its three deprecated values mean LAST_OFFSET."""

    LAST_OFFSET = "last_offset"
    FIRST_OFFSET = "first_offset"
    TIMESTAMP = "timestamp"


class QueueLookup(msgspec.Struct, frozen=True, kw_only=True):
    """What the broker answers for a queue; None: not requested, or no answer."""

    #: 31: the first message that is still there.
    min_offset: int | None = None
    #: 30: the next message to be written.
    max_offset: int | None = None
    #: 29: the first message stored at the time of the policy or later.
    offset_at_time: int | None = None


class InitialOffset(msgspec.Struct, frozen=True):
    """Where to begin, and by which rule."""

    offset: int
    rule: str


#: What decides where a group begins: a stored offset, a rule, or nothing that can be relied on.
InitialAnswer = StoredOffset | InitialOffset | OffsetUnavailable

_UNKNOWN: Final = "{} of the queue is not known: look it up at the master"


def resolve_initial(answer: ReadAnswer, topic: str, policy: InitialPolicy, lookup: QueueLookup) -> InitialAnswer:
    """Return where a group begins in a queue that was there before it."""
    if not isinstance(answer, OffsetNotFound):
        return answer
    is_retry = kind_of(topic) is TopicKind.RETRY
    match policy:
        case InitialPolicy.TIMESTAMP if not is_retry:
            return _at_time(lookup)
        case InitialPolicy.TIMESTAMP:
            return _last(lookup, "TIMESTAMP begins at the end of a retry topic")
        case InitialPolicy.LAST_OFFSET if not is_retry:
            return _last(lookup, "LAST_OFFSET begins at the end")
        case _:
            return _first(lookup, "retry topics are consumed from their start" if is_retry else "FIRST_OFFSET")


def resolve_new_queue(answer: ReadAnswer, lookup: QueueLookup) -> InitialAnswer:
    """Return where a group begins in a queue that came after it: at the first message, whatever its policy.

    The policy is for messages from before the group.
    """
    return _first(lookup, "a new queue is consumed from its start") if isinstance(answer, OffsetNotFound) else answer


def _first(lookup: QueueLookup, rule: str) -> InitialAnswer:
    """0, which the broker corrects to the first message that is still there."""
    lowest = lookup.min_offset
    return InitialOffset(0 if lowest is None or not _is_offset(lowest) else lowest, rule)


def _last(lookup: QueueLookup, rule: str) -> InitialAnswer:
    highest = lookup.max_offset
    if highest is None or not _is_offset(highest):
        return OffsetUnavailable(_UNKNOWN.format("the end (30)"))
    return InitialOffset(highest, rule)


def _at_time(lookup: QueueLookup) -> InitialAnswer:
    at_time = lookup.offset_at_time
    if at_time is None or not _is_offset(at_time):
        return OffsetUnavailable(_UNKNOWN.format("the offset of that time (29)"))
    return InitialOffset(at_time, "TIMESTAMP")


def _is_offset(value: int) -> bool:
    """Return whether a broker's answer is an offset: -1 is its way to say that it failed."""
    return 0 <= value <= OFFSET_MAX
