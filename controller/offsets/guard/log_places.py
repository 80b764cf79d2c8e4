"""What messages that were looked at show of those before and behind them in the log, whatever their queue. Pure.

A broker has one log for all its queues. What lies before an old message is old, what lies behind a new one is new, and
what lies between two late ones is late. So where one queue is searched, most messages need no look at their store time,
which is a request of its own.

That holds as long as store times rise with the places. Where a message contradicts another one, or is still to come, a
clock was set: then places show nothing any more, and a new message does not show that others are lost.
"""

from dataclasses import dataclass

from controller.offsets.guard.boundaries import Age, Boundary, PlacedMessage, is_to_come


@dataclass(slots=True)
class LogPlaces:
    """The ages of messages by their places, as far as they are known."""

    boundary: Boundary
    #: Messages before it are old.
    _old_below: int = 0
    #: Late messages: the first and the last that were seen; None: none was.
    _late: tuple[int, int] | None = None
    #: Messages from it on are new; None: none was seen.
    _new_from: int | None = None
    #: A clock was set.
    is_contradicted: bool = False

    def age_at(self, place: int) -> Age | None:
        """Return the age of the message at a place; None: its store time is to be looked at."""
        if self.is_contradicted:
            return None
        if place < self._old_below:
            return Age.OLD
        if self._new_from is not None and place >= self._new_from:
            return Age.NEW
        return Age.LATE if self._late is not None and self._late[0] <= place <= self._late[1] else None

    def age_of(self, message: PlacedMessage) -> Age:
        """Return the age of a message, by its store time or else by its place, and keep what it shows of others."""
        if message.store_unix_ms is None and (known := self.age_at(message.physical_offset)) is not None:
            return known
        age = self.boundary.age_of(message)
        self._learn(message.physical_offset, age)
        self.is_contradicted |= is_to_come(message, self.boundary.latest_unix_ms)
        return age

    def _learn(self, place: int, age: Age) -> None:
        match age:
            case Age.OLD:
                self._old_below = max(self._old_below, place + 1)
            case Age.NEW:
                self._new_from = place if self._new_from is None else min(self._new_from, place)
            case Age.LATE:
                first, last = self._late or (place, place)
                self._late = min(first, place), max(last, place)
        later = [] if self._late is None else [self._late[0]]
        later += [] if self._new_from is None else [self._new_from]
        is_late_after_new = self._late is not None and self._new_from is not None and self._late[1] >= self._new_from
        self.is_contradicted |= is_late_after_new or any(each < self._old_below for each in later)
