"""What is proved of one queue: up to where its messages are old, and from where on they are new. Pure.

Messages of a queue are in the order of the log, so one old message proves all before it, and one new message all after
it. A search looks at one message at a time. It begins at the highest offset that anybody has: most often that message
is old, and nothing else has to be looked at. Else it goes back in growing steps, as few messages are new soon after a
promotion, and then halves what is left. A late message leads further back as a new one does, where that matters.
Brokers search by time themselves: where one names the first late message, two looks there prove it, or nothing is lost.
A third one, in the middle of many late messages, shows whether these are of the last seconds: where a clock was ahead,
they are of hours, and the store time of that one is still to come.
"""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from controller.offsets.guard.boundaries import Age, Boundary, PlacedMessage

#: So many late messages are read again whenever they were stored.
READ_AGAIN_MAX: Final = 1_000


class QueueLook(NamedTuple):
    """What a queue has at one offset."""

    #: None: no readable message.
    message: PlacedMessage | None
    min_offset: int
    #: The next offset to be written.
    max_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """The messages of a queue as far as they were looked at.

    `min_offset <= old_until <= late_from <= new_from <= max_offset`.
    """

    min_offset: int
    #: The next offset to be written, when the queue was looked at last.
    max_offset: int
    #: All messages below it are old, or expired.
    old_until: int
    #: All messages from it on are late, or new.
    late_from: int
    #: All messages from it on are new; `max_offset` while none is proved to be.
    new_from: int
    #: How far the next look goes back.
    step: int = 1
    #: Where the broker finds the first late message; None: it was not requested.
    hint: int | None = None
    #: Up to there nothing was looked at behind the first late message, as the broker has named that; None: it was.
    unseen_until: int | None = None
    #: A message between them is on no side, or could not be read.
    is_blocked: bool = False

    @property
    def end_of_old(self) -> int | None:
        """The first offset whose message is new, or will be: the queue's max at the promotion. None: unknown."""
        return self.old_until if self.old_until == self.new_from else None

    @property
    def begin_of_late(self) -> int | None:
        """The first offset whose message is late, or new: from there on it is a matter of seconds. None: unknown."""
        is_found = self.old_until == self.late_from and not self.is_blocked and self._unseen_middle is None
        return self.old_until if is_found else None

    @property
    def _unseen_middle(self) -> int | None:
        """The late message in the middle of those that nobody has looked at, if these are many."""
        if self.unseen_until is None or self.unseen_until - self.old_until <= READ_AGAIN_MAX:
            return None
        return (self.old_until + self.unseen_until) // 2

    def next_look(self, highest: int, *, is_late_enough: bool) -> int | None:
        """Return the offset to look at next, if offsets up to `highest` matter; None if no look would show more.

        `is_late_enough`: where a message is late, it does not matter where the late ones begin.
        """
        if highest <= self.old_until or self.is_blocked or (is_late_enough and self.late_from < self.new_from):
            return None
        if self.old_until == self.late_from:
            return self._unseen_middle
        if self.hint is not None and self.old_until < self.hint <= self.late_from:
            return self.hint - 1
        if self.hint == self.old_until:
            return self.hint
        if self.old_until == self.min_offset and self.late_from - self.step > self.old_until:
            return self.late_from - self.step
        return (self.old_until + self.late_from) // 2

    def hinted(self, offset: int | None) -> "QueueView":
        """Return the view with where the broker finds the first late message; None: it does not search."""
        return replace(self, hint=offset, unseen_until=None if offset is None else self.late_from)

    def looked(self, offset: int, look: QueueLook, boundary: Boundary) -> "QueueView":
        """Return the view after a look at `offset`, which `next_look` named."""
        if look.message is None:
            return self._after_nothing(offset, look)
        if offset > self.late_from:
            return self._after_middle(offset, boundary.age_of(look.message))
        match boundary.age_of(look.message):
            case Age.OLD:
                return replace(self, old_until=offset + 1)
            case Age.NEW:
                return replace(self, late_from=offset, new_from=offset, step=self.step * 2)
            case Age.LATE:
                return replace(self, late_from=offset, step=self.step * 2)
            case Age.UNKNOWN:
                return replace(self, is_blocked=True)

    def _after_middle(self, offset: int, age: Age) -> "QueueView":
        """Return the view after a look behind the first late message."""
        match age:
            case Age.OLD:
                # What the broker has named is not the first late message: a clock was set in between.
                assert self.unseen_until is not None, "nothing is looked at behind a late message otherwise"
                late_from = self.unseen_until
                return replace(self, old_until=offset + 1, late_from=late_from, hint=None, unseen_until=None)
            case Age.NEW:
                return replace(self, new_from=min(self.new_from, offset), unseen_until=offset)
            case Age.LATE:
                return replace(self, unseen_until=None)
            case Age.UNKNOWN:
                return replace(self, is_blocked=True)

    def _after_nothing(self, offset: int, look: QueueLook) -> "QueueView":
        if self.min_offset <= offset < look.min_offset <= self.new_from:
            # It expired meanwhile, with all before it.
            begin = look.min_offset
            return replace(
                self,
                min_offset=begin,
                old_until=max(self.old_until, begin),
                late_from=max(self.late_from, begin),
            )
        return replace(self, is_blocked=True)


def first_view(offset: int, look: QueueLook, boundary: Boundary) -> QueueView:
    """Return what the first look at a queue, at `offset`, proves."""
    # A queue that was emptied may begin behind its end for a moment.
    lowest = max(min(look.min_offset, look.max_offset), 0)
    end = max(look.max_offset, lowest)
    view = QueueView(min_offset=lowest, max_offset=look.max_offset, old_until=lowest, late_from=end, new_from=end)
    # Nothing is expected beyond the end.
    return view.looked(offset, look, boundary) if lowest <= offset < view.new_from else view
