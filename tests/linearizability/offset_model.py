"""What the offset of one queue does, one request after the other: docs/protocol/offsets.md 7.

Positions only rise: a commit raises the offset within its reset epoch, all other changes raise the epoch. So each
answer that shows a position says between which changes its request took effect.
"""

from dataclasses import dataclass
from typing import NamedTuple

COMMIT, READ, RESET, DELETE = "commit", "read", "reset", "delete"
OK, STALE, ABSENT = "ok", "stale", "absent"
#: In place of an offset that is not there.
NONE = -1
#: Of a deletion whose epoch no answer shows: above the former one, below the next.
UNSEEN = 0.5


class Position(NamedTuple):
    """What is stored of a queue, in the order in which one position follows another."""

    epoch: float = 0
    offset: int = NONE

    @property
    def shown(self):
        """What answers to changes show of it: an epoch without an offset is not shown."""
        return None if self.offset == NONE else self


@dataclass(frozen=True)
class OffsetOperation:
    """One request for one queue, and its answer; None for both times if nobody knows what came of it."""

    number: int
    client: str
    kind: str
    #: The offset and the epoch of a commit; resets have the offset alone.
    wanted: Position
    invoked_s: float
    answered_s: float | None = None
    #: Of a read the position; of all others the status, then what was there, then what is.
    answer: object = None

    def __str__(self):
        ended = "no answer" if self.answered_s is None else f"{self.answered_s:.3f}"
        return f"{self.invoked_s:.3f} to {ended} {self.client}: {self.kind} {tuple(self.wanted)} -> {self.answer}"


def positions_after(position, operation, free_epochs):
    """Return where the queue may be after an operation that takes effect at a position; nothing if it cannot there."""
    return _EFFECTS[operation.kind](position, operation, free_epochs)


def begun_epoch(operation):
    """Return the epoch that an answered operation has begun, None if it shows none."""
    if operation.kind == RESET and operation.answer is not None and operation.answer[0] == OK:
        return operation.answer[2].epoch
    return None


def positions_shown(operation):
    """Return the positions that an answer shows."""
    answer = (operation.answer,) if operation.kind == READ else operation.answer
    return {each for each in answer or () if isinstance(each, Position)}


def epochs_shown(operation):
    """Return the epochs that an operation and its answer show."""
    shown = {each.epoch for each in positions_shown(operation)}
    return shown | {operation.wanted.epoch} if operation.kind == COMMIT else shown


def is_spent(operation, position):
    """Return whether a commit can change nothing any more: it may come late, and stays below what is there."""
    return operation.kind == COMMIT and operation.wanted <= position


def _commit(position, operation, _):
    wanted = operation.wanted
    if wanted.epoch != position.epoch or wanted.offset < position.offset:
        result, after = (STALE, position.shown), position
    else:
        result, after = (OK, None), wanted
    return [after] if operation.answer in (None, result) else []


def _read(position, operation, _):
    return [position] if operation.answer == position else []


def _reset(position, operation, free_epochs):
    if operation.answer is None:
        return [Position(epoch, operation.wanted.offset) for epoch in free_epochs if epoch > position.epoch]
    _, before, after = operation.answer
    fits = before == position.shown and after.epoch > position.epoch and after.offset == operation.wanted.offset
    return [after] if fits else []


def _delete(position, operation, free_epochs):
    if position.shown is None:
        return [position] if operation.answer in (None, (ABSENT, None)) else []
    if operation.answer not in (None, (OK, position)):
        return []
    unseen = int(position.epoch) + UNSEEN
    return [Position(epoch) for epoch in (unseen, *free_epochs) if epoch > position.epoch]


_EFFECTS = {COMMIT: _commit, READ: _read, RESET: _reset, DELETE: _delete}
