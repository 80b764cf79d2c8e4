"""What the operations on offsets answer, per entry. Pure values."""

import enum
from dataclasses import dataclass
from typing import Final

import msgspec

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.values import StoredOffset


class OffsetStatus(enum.StrEnum):
    """What became of one entry."""

    #: Stored, or stored already.
    OK = "ok"
    #: An offset is there already, and stays: seeds and clones leave it alone.
    PRESENT = "present"
    #: There is no offset, so there is nothing to copy or to restore. It stays absent.
    ABSENT = "absent"
    #: What is stored is newer: a higher offset, or another reset epoch. Read it, and go on from there.
    STALE = "stale"
    #: Another client holds the queue, or an operation has frozen it.
    FENCED = "fenced"
    #: Neither stored nor refused: the row cannot be read now. Repeat the entry.
    UNKNOWN = "unknown"
    #: The entry can never be stored; the reason says why.
    REFUSED = "refused"


class OffsetResult(msgspec.Struct, frozen=True, gc=False):
    """What became of one entry."""

    status: OffsetStatus
    #: What is stored now, where the status depends on it.
    stored: StoredOffset | None = None
    #: What is wrong and what to do; blank if all is well.
    reason: str = ""


#: The answer to nearly every commit.
STORED: Final = OffsetResult(OffsetStatus.OK)


@dataclass(frozen=True, slots=True)
class OffsetDecision:
    """What to store, and what to answer once it is stored."""

    #: In the order in which they were decided; each key once.
    changes: tuple[OffsetChange, ...]
    #: One per entry of the request, in its order.
    results: tuple[OffsetResult, ...]


class OffsetNotFound(msgspec.Struct, frozen=True, gc=False):
    """The queue has no offset. That is not 0: the group has never consumed it, or its offset was deleted."""

    #: In which the first commit is to be made: that of the deletion, 0 if there was none.
    reset_epoch: int = 0


class OffsetUnavailable(msgspec.Struct, frozen=True, gc=False):
    """Whether the queue has an offset cannot be determined now: no policy for new groups may be applied."""

    reason: str


#: The three answers to a read.
ReadAnswer = StoredOffset | OffsetNotFound | OffsetUnavailable
