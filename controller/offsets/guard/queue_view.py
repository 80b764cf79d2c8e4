"""What is proved of one queue: up to where its messages are old, and from where on they are new. Pure.

Messages of a queue are in the order of the log, so one old message proves all before it, and one new message all after
it. A search looks at one message at a time. It begins at the highest offset that anybody has: most often that message
is old, and nothing else has to be looked at. Else it goes back in growing steps, as few messages are new soon after a
promotion, and then halves what is left.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

from controller.offsets.guard.boundaries import Age, Boundary, PlacedMessage


class QueueLook(NamedTuple):
    """What a queue has at one offset."""

    #: None: no readable message.
    message: PlacedMessage | None
    min_offset: int
    #: The next offset to be written.
    max_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """The messages of a queue as far as they were looked at; `min_offset <= old_until <= new_from <= max_offset`."""

    min_offset: int
    #: The next offset to be written, when the queue was looked at last.
    max_offset: int
    #: All messages below it are old, or expired.
    old_until: int
    #: All messages from it on are new; `max_offset` while none is proved to be.
    new_from: int
    #: How far the next look goes back.
    step: int = 1
    #: A message between them is on no side, or could not be read.
    is_blocked: bool = False

    @property
    def end_of_old(self) -> int | None:
        """The first offset whose message is new, or will be: the queue's max at the promotion. None: unknown."""
        return self.old_until if self.old_until == self.new_from else None

    def next_look(self, highest: int) -> int | None:
        """Return the offset to look at next, if offsets up to `highest` matter; None if no look would show more."""
        if highest <= self.old_until or self.is_blocked or self.end_of_old is not None:
            return None
        if self.old_until == self.min_offset and self.new_from - self.step > self.old_until:
            return self.new_from - self.step
        return (self.old_until + self.new_from) // 2

    def looked(self, offset: int, look: QueueLook, boundary: Boundary) -> "QueueView":
        """Return the view after a look at `offset`, which `next_look` named."""
        if look.message is None:
            return self._after_nothing(offset, look)
        match boundary.age_of(look.message):
            case Age.OLD:
                return replace(self, old_until=offset + 1)
            case Age.NEW:
                return replace(self, new_from=offset, step=self.step * 2)
            case Age.UNKNOWN:
                return replace(self, is_blocked=True)

    def _after_nothing(self, offset: int, look: QueueLook) -> "QueueView":
        if self.min_offset <= offset < look.min_offset <= self.new_from:
            # It expired meanwhile, with all before it.
            return replace(self, min_offset=look.min_offset, old_until=max(self.old_until, look.min_offset))
        return replace(self, is_blocked=True)


def first_view(offset: int, look: QueueLook, boundary: Boundary) -> QueueView:
    """Return what the first look at a queue, at `offset`, proves."""
    # A queue that was emptied may begin behind its end for a moment.
    lowest = max(min(look.min_offset, look.max_offset), 0)
    view = QueueView(
        min_offset=lowest, max_offset=look.max_offset, old_until=lowest, new_from=max(look.max_offset, lowest)
    )
    # Nothing is expected beyond the end.
    return view.looked(offset, look, boundary) if lowest <= offset < view.new_from else view
