"""Takes fingerprints of a master's log: one look (33) at each reading if it moves, a short walk if not. The edge.

The end of a log at one reading is where a message begins at the next, if the log has moved. In a log that stands still
no message begins at its end: there a walk finds the last one, from message to message, and at each of them to the last
one of its queue (321). It passes no queue twice, so it is short. Bodies are received and dropped.
"""

from typing import Final

from offsets.at_broker import fingerprint_of, none_by
from offsets.proof import Fingerprint, Look
from remoting.admin.client import AdminClient
from remoting.admin.stored_messages import LogFileEnds, message_in_log, queue_entry
from remoting.protocol.errors import BodyError, InvokeError, Refused

#: Messages that are looked at in one reading of a log that stands still.
WALK_MAX: Final = 32
#: Messages that are looked at in a log of which nothing is known yet: the first ones of some of its files.
FILES_MAX: Final = 16


async def look_at(admin: AdminClient, address: str, place: int) -> Look:
    """Return the message that begins at a place of the log now."""
    try:
        return fingerprint_of(await admin.call(address, message_in_log(place)))
    except (InvokeError, Refused, BodyError) as error:
        return none_by(error)


class LogWatch:
    """The log of one master, from its first reading on."""

    def __init__(self) -> None:
        #: Where the log ended at the reading before.
        self._former_end: int | None = None
        self._newest: Fingerprint | None = None

    async def look(
        self, admin: AdminClient, address: str, begin: int, first_end: int, second_end: int
    ) -> Fingerprint | None:
        """Return a message below `second_end` that was not known before: the newest that is found, None without any."""
        former_end, self._former_end = self._former_end, first_end
        found = None
        if former_end is not None and former_end < first_end:
            found = await _first_from(admin, address, former_end)
        elif former_end is not None and (self._newest is None or self._newest.end < first_end):
            found = await self._walk(admin, address, begin, first_end)
        if found is None or found.end > second_end:
            return None
        self._newest = found
        return found

    async def _walk(self, admin: AdminClient, address: str, begin: int, end: int) -> Fingerprint | None:
        """Return the last message of a log that stands still, or one that is nearer to it than the newest known one."""
        place, last = begin if self._newest is None else self._newest.end, None
        for _ in range(WALK_MAX):
            found = await _first_from(admin, address, place)
            if found is None or found.end > end:
                break
            last = found
            if found.end == end:
                break
            place = max(found.end, await _last_place_of_queue(admin, address, found))
        return last


async def first_of_files(admin: AdminClient, address: str, begin: int, end: int, file_bytes: int) -> list[Fingerprint]:
    """Return the first messages of the log and of some of its files, by place: what a log that is new is known by."""
    first_file = (begin // file_bytes + 1) * file_bytes
    files = range(first_file, end, file_bytes)
    places = [begin, *files[:: max(1, -(-len(files) // FILES_MAX))]] if begin < end else []
    looks = [await look_at(admin, address, place) for place in places]
    return [look for look in looks if isinstance(look, Fingerprint) and look.end <= end]


async def _first_from(admin: AdminClient, address: str, place: int) -> Fingerprint | None:
    """Return the message that begins at a place, or in the next file of the log if one ends there; None without any."""
    try:
        return fingerprint_of(await admin.call(address, message_in_log(place)))
    except LogFileEnds as ends:
        look = await look_at(admin, address, ends.next_offset)
        return look if isinstance(look, Fingerprint) else None
    except (InvokeError, Refused, BodyError):
        return None


async def _last_place_of_queue(admin: AdminClient, address: str, message: Fingerprint) -> int:
    """Return where the last message of a message's queue is in the log; 0 if the broker does not tell."""
    try:
        entry = await admin.call(address, queue_entry(message.topic, message.queue_id, message.queue_offset))
        if entry is not None and entry.max_offset - 1 > message.queue_offset:
            entry = await admin.call(address, queue_entry(message.topic, message.queue_id, entry.max_offset - 1))
    except (InvokeError, Refused, BodyError):
        return 0
    return 0 if entry is None else entry.physical_offset
