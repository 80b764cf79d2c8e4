"""Offsets that are to be written at brokers, and what became of each. Pure.

Source: docs/protocol/offsets.md 8.2.
"""

import enum
from typing import Final, NamedTuple

import msgspec

from controller.offsets.mirror.regressions import SetQueue

#: Queues of groups that one operation may change: their offsets are kept, and one answer lists them all.
RESTORED_MAX: Final = 10_000


class RestoreStatus(enum.StrEnum):
    """What becomes, or became, of one queue of a group."""

    #: It would be written, or is about to be.
    READY = "ready"
    #: The broker shows it already.
    UNCHANGED = "unchanged"

    # Nothing was written

    #: It would go back, which was not allowed.
    BACKWARD = "backward"
    #: It is beyond the end of the queue.
    BEYOND_END = "beyond_end"
    #: The message before it is not proved to be one that was there at the moment of the offset: the queue may have
    #: lost its end, or its topic was made anew, and it got other messages, which would be skipped.
    NOT_PROVED = "not_proved"
    #: It would go forward, and members of the group do not show now that they pull: it pops, or may pop, and messages
    #: below the offset may not be acknowledged.
    POPS = "pops"
    #: The broker does not have the queue.
    NO_QUEUE = "no_queue"
    #: The broker set has no master, or is not followed.
    NO_MASTER = "no_master"
    #: Offsets of this kind are not kept by brokers, or there was no offset before.
    NOT_RESTORABLE = "not_restorable"
    #: Members are online, and the broker cannot send them to an offset.
    ONLINE = "online"
    #: The group has moved since, or somebody has set it back.
    MOVED_ON = "moved_on"
    #: A reset that somebody else has requested waits for the group's next pull.
    RESET_PENDING = "reset_pending"
    #: The broker does not answer, or answers errors.
    UNAVAILABLE = "unavailable"
    #: The broker has refused it.
    REFUSED = "refused"
    #: The broker is not the master any more, or this manager does not serve any more.
    ROLE_CHANGED = "role_changed"
    #: The time was over before it was sent.
    NOT_REACHED = "not_reached"

    # It was sent

    #: The broker shows it, or what its group has consumed since.
    RESTORED = "restored"
    #: It was sent, and it is not certain that the broker has stored it.
    UNVERIFIED = "unverified"
    #: A client that is online has overwritten it.
    OVERWRITTEN = "overwritten"


#: What an undo has to look at: the broker has, or may have, the offset.
SENT: Final = frozenset({RestoreStatus.RESTORED, RestoreStatus.UNVERIFIED, RestoreStatus.OVERWRITTEN})


class WantedOffset(NamedTuple):
    """An offset that a queue of a group is to have."""

    queue: SetQueue
    #: None: there was none, which no request to a broker brings back.
    offset: int | None
    #: The message before it must have been stored before this time, Unix ms by the clocks of the master and of its
    #: producer; None: nothing is known of when the offset was read.
    stored_before_unix_ms: int | None = None
    #: Only if the broker shows this; None: whatever it shows.
    expected: int | None = None
    #: The message before it must lie before this place in the log; None: it is not known where the log ended then.
    log_end: int | None = None
    #: To where somebody has set the queue back since, as this manager has listed it; None: nobody has.
    set_back_to: int | None = None
    #: The mirror has a retry topic of its group that only groups have that pop.
    shows_pop: bool = False


class RestoreOptions(NamedTuple):
    """What an operator allows."""

    #: Offsets may go back: messages are read again.
    allow_back: bool = False
    #: Also without proof that no message is skipped that nobody has read.
    allow_unproved: bool = False
    #: The groups pull, as the operator says who names them: their members need not show it.
    pulls: bool = False


class PlannedOffset(msgspec.Struct, frozen=True, array_like=True):
    """What is to become, or became, of one queue of a group."""

    queue: SetQueue
    #: What the broker shows; None for no offset, or if that is not known.
    old: int | None
    #: What it is to show; None for nothing.
    new: int | None
    status: RestoreStatus
    reason: str = ""

    @property
    def messages_again(self) -> int | None:
        """How many messages are read again, if all are still there; None where that is not known."""
        return None if self.old is None or self.new is None else max(self.old - self.new, 0)

    @property
    def messages_skipped(self) -> int | None:
        """How many messages are not read from where the broker shows the group; None where that is not known."""
        return None if self.old is None or self.new is None else max(self.new - self.old, 0)
