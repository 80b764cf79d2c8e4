"""How far a queue is the one that was read: the two searches by the places of its messages in the log. Pure.

A message of a queue is never looked at itself, only where it lies in the log (321): the queue that a reading saw has no
message at or behind the end of the log at that reading, so a topic that was made anew since shows itself, whatever its
offsets and clocks say. Places rise with offsets, so one look proves all lower offsets of a queue.

    until = await proved_offset(place_of, wanted=120, first_end=reading.first_end, second_end=reading.second_end)
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple


class QueuePlace(NamedTuple):
    """Where the message at an offset of a queue is, and the limits of the queue."""

    #: In the log; None if there is no message at the offset.
    place: int | None
    min_offset: int
    #: The next offset to be written.
    max_offset: int


class QueueEnds(NamedTuple):
    min_offset: int
    #: The next offset to be written.
    max_offset: int


class Proved(NamedTuple):
    """How far an offset may be raised."""

    #: None: nothing is proved, and `why` says so.
    until: int | None
    why: str = ""
    #: The message before this offset was there when the reading was over; with it the whole queue below.
    was_there_until: int = 0
    #: What lies before it has expired.
    min_offset: int = 0

    def at(self, wanted: int) -> "Proved | None":
        """Return what is proved of a lower offset of the same queue; None: it has to be looked at itself."""
        if self.until is not None and wanted <= max(self.until, self.was_there_until):
            return self._replace(until=min(self.until, wanted))
        return None


#: Returns where the message at an offset of one queue is; None if the broker does not have the queue.
PlaceOf = Callable[[int], Awaitable[QueuePlace | None]]


async def proved_offset(place_of: PlaceOf, wanted: int, first_end: int, second_end: int) -> Proved:
    """Return the greatest offset up to `wanted` before which each message lies below the first end of a reading.

    `wanted` was read between the two ends, which are of a log that is the same now. A message before it that lies
    behind the second end was stored later, so the queue is not the one that was read, and nothing is proved. An offset
    whose messages have expired is returned as it is.
    """
    if wanted == 0:
        return Proved(0)
    at = await place_of(wanted - 1)
    if at is None:
        return Proved(None, "the broker does not have the queue")
    if wanted <= at.min_offset:
        return Proved(wanted, min_offset=at.min_offset)
    if at.place is None or at.place >= second_end:
        why = "there is no message before it" if at.place is None else "the message before it is later than the reading"
        return Proved(None, f"{why}: the topic was made anew, or the end of its queue is lost", 0, at.min_offset)
    if at.place < first_end:
        return Proved(wanted, "", wanted, at.min_offset)
    # Messages were stored while the offsets were read.
    until = await _last_below(place_of, wanted, at.min_offset, first_end)
    if until == at.min_offset:
        return Proved(None, "all messages of the queue are later than the reading", 0, at.min_offset)
    return Proved(until, "", wanted, at.min_offset)


async def begins_behind(place_of: PlaceOf, offset: int, place: int) -> bool:
    """Return whether the message at an offset, or the first one that has not expired, lies at or behind a place."""
    at = await place_of(offset)
    if at is not None and offset < at.min_offset:
        at = await place_of(at.min_offset)
    return at is not None and at.place is not None and at.place >= place


async def first_behind(place_of: PlaceOf, from_offset: int, place: int) -> int | None:
    """Return the first offset of a queue whose message lies at or behind a place of the log; its end if none does.

    Searched from `from_offset` downwards: where all messages before that lie below the place, or have expired, it is
    returned itself. None: the broker does not have the queue.
    """
    if from_offset == 0:
        return 0
    at = await place_of(from_offset - 1)
    if at is None:
        # A store without the queue has none of its messages.
        return None
    if from_offset <= at.min_offset or (at.place is not None and at.place < place):
        return from_offset
    above = min(from_offset, at.max_offset)
    if above < from_offset and (above <= at.min_offset or await _is_below(place_of, above, place)):
        return above
    return await _last_below(place_of, above, at.min_offset, place)


async def _last_below(place_of: PlaceOf, above: int, min_offset: int, limit: int) -> int:
    """Return the greatest offset below `above` before which no message lies at or behind a place; at least the min.

    The message before `above` does lie there. It is looked for by steps of 1, 2, 4, ..., and by halves then.
    """
    step = 1
    while True:
        below = max(above - step, min_offset)
        if below == min_offset or await _is_below(place_of, below, limit):
            break
        above, step = below, step * 2
    while above - below > 1:
        middle = (above + below) // 2
        if await _is_below(place_of, middle, limit):
            below = middle
        else:
            above = middle
    return below


async def _is_below(place_of: PlaceOf, offset: int, limit: int) -> bool:
    """Return whether the message before an offset lies below a place of the log; one that has expired does."""
    at = await place_of(offset - 1)
    if at is None:
        return False
    return at.place < limit if at.place is not None else offset <= at.min_offset
