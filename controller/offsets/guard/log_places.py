"""What messages that were looked at show of those before and behind them in the log, whatever their queue. Pure.

A broker has one log for all its queues. What lies before an old message is old, what lies behind a new one is new, and
what lies between two late ones is late. So most messages need no look at their store time, which is a request of its
own.
"""

from dataclasses import dataclass

from controller.offsets.guard.boundaries import Age, Boundary, PlacedMessage


@dataclass(slots=True)
class LogPlaces:
    """The ages of messages by their places, as far as they are known. Where two contradict each other, they are not."""

    boundary: Boundary
    #: Messages before it are old.
    _old_below: int = 0
    #: Late messages: the first and the last that were seen; None: none was.
    _late: tuple[int, int] | None = None
    #: Messages from it on are new; None: none was seen.
    _new_from: int | None = None

    def age_at(self, place: int) -> Age | None:
        """Return the age of the message at a place; None: its store time is to be looked at."""
        is_after_new = self._new_from is not None and place >= self._new_from
        is_after_late = self._late is not None and place >= self._late[0]
        if place < self._old_below:
            return None if is_after_new or is_after_late else Age.OLD
        if is_after_new:
            return Age.NEW
        return Age.LATE if self._late is not None and is_after_late and place <= self._late[1] else None

    def age_of(self, message: PlacedMessage) -> Age:
        """Return the age of a message, by its place or by its store time, and keep what that shows of others."""
        known = self.age_at(message.physical_offset) if message.store_unix_ms is None else None
        return known or self._learned(message.physical_offset, self.boundary.age_of(message))

    def _learned(self, place: int, age: Age) -> Age:
        match age:
            case Age.OLD:
                self._old_below = max(self._old_below, place + 1)
            case Age.NEW:
                self._new_from = place if self._new_from is None else min(self._new_from, place)
            case Age.LATE:
                first, last = self._late or (place, place)
                self._late = min(first, place), max(last, place)
        return age
