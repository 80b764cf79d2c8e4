"""The one proof of the offset manager: how far the log of a broker is the log that was read before. Pure.

A *fingerprint* is one message of the log: where it lies, which queue it is in, when it was stored, how long it is, and
the CRC of its body. Messages are copied byte by byte, so two logs that show the same message at the same place were
copied from one another up to there, unless they have parted and met again at equal lengths: therefore **all** kept
fingerprints are compared, oldest to newest, and the first that does not match is where the logs have parted.

    before = LogBefore(fingerprints, reading.second_end, reading.epochs)
    proof = prove(before, LogNow(begin, end, epochs, master_epoch), looks)
    proof.proves(reading.first_end)      # everything in the log below `first_end` is the same

Master epochs, where there are such, say exactly where a log ends in another one. A broker leaves out an epoch that
began where the one before it did, and keeps its list when it loses its log. So the list counts only if it goes up to
the epoch of the present master without a gap, and no message that matches contradicts it.

A reading takes the end of the log first, then the offsets, then the end again. Its offsets are proved if the log is
the same up to its *first* end: what lies behind it was written while the offsets were read.

Source: docs/protocol/offsets.md 6.1, docs/protocol/broker-admin.md 32 and 33.
"""

import enum
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from remoting.admin.log_epochs import LogEpoch


class Fingerprint(NamedTuple):
    """One message of the log of a broker set, without its body."""

    #: Of its first byte in the log; the same on a master and its slaves.
    place: int
    #: Bytes in the log.
    length: int
    topic: str
    queue_id: int
    queue_offset: int
    #: Unix ms by the clock of the master that stored it.
    store_unix_ms: int
    body_crc: int

    @property
    def end(self) -> int:
        """Where the next message begins, unless a file of the log ends there."""
        return self.place + self.length


class NoMessage(enum.Enum):
    """Why a look at a place brought no message."""

    #: No message begins there.
    ABSENT = enum.auto()
    #: The broker has not answered, or refused for another reason: nothing is known.
    UNKNOWN = enum.auto()


#: What a broker shows at the place of a fingerprint now.
Look = Fingerprint | NoMessage


class LogBefore(NamedTuple):
    """The log of a set as it was read from its former master."""

    #: All that are kept of this log, by place.
    fingerprints: Sequence[Fingerprint]
    #: Where the log ended when the newest reading was over.
    end: int
    #: Where each master epoch began then; None of a broker without a controller.
    epochs: Sequence[LogEpoch] | None


class LogNow(NamedTuple):
    """The log of a broker as it is now."""

    #: Where its first message lies; earlier ones have expired. Read after the last look, so that a message which
    #: expires meanwhile is not taken for one that was lost.
    begin: int
    #: Read before the first look.
    end: int
    #: Where each master epoch begins; None of a broker without a controller.
    epochs: Sequence[LogEpoch] | None
    #: In which the broker is master; None where no controller elects, or that is not known.
    master_epoch: int | None


class LogProof(NamedTuple):
    """How far the log of a broker is the one that was read."""

    #: Below this place the logs are the same; 0 if nothing is proved.
    same_until: int
    #: The logs part here or, without epochs, later: messages of the former log behind it are lost, and others may lie
    #: there. None: no loss is known.
    parted_at: int | None
    #: Why nothing is known; blank where every look was answered.
    problem: str = ""
    #: Epochs say so, of the log of the newest reading.
    is_exact: bool = False
    #: Without epochs, what lies before this place may be another tail, behind which this log has copied the rest.
    same_from: int = 0
    #: Where the log began: fingerprints below it were not compared.
    begin: int = 0

    def of_run(self, own: Iterable[Fingerprint], began_at: int = 0, *, lasted: bool = False) -> "LogProof":
        """Return the proof for readings of one run of a master, of which these fingerprints are.

        `began_at` is where the log ended at the first of its readings: what lies behind was written by this master.

        Fingerprints of earlier runs may be of another log that has parted from this one unnoticed: a broker that leads
        again has all of its own, whatever others wrote meanwhile. So they prove nothing beyond the last of this run.
        Epochs do if the run `lasted` until its epoch ended: a master that loses power goes on in the same epoch.
        """
        if self.is_exact and lasted:
            return self
        seen = [mark for mark in own if self.begin <= mark.place and mark.end <= self.same_until]
        return self._replace(
            same_until=max((mark.end for mark in seen), default=0),
            same_from=min((mark.place for mark in seen if mark.place >= began_at), default=self.same_until),
        )

    def proves(self, first_end: int) -> bool:
        """Return whether everything below the first end of a reading is in the log of the broker."""
        return first_end <= self.same_until


def prove(before: LogBefore, now: LogNow, looks: Iterable[Look]) -> LogProof:
    """Return how far the log of a broker is the one that was read.

    `looks` are what the broker shows at the place of each fingerprint. Fingerprints below the begin of the log have
    expired and say nothing. A look without an answer leaves everything unknown, unless the logs parted before it.
    """
    epochs_part = _end_by_epochs(before.epochs, now)
    same_until = 0
    for fingerprint, look in zip(before.fingerprints, looks, strict=True):
        if fingerprint.place < now.begin:
            continue
        if look is NoMessage.UNKNOWN:
            return LogProof(0, None, f"the message at {fingerprint.place} of the log could not be looked at")
        if look != fingerprint:
            part = max(same_until, now.begin)
            # A master that lost its log goes on in its epoch: without a message that matches it may be any log.
            if same_until and epochs_part is not None and part <= epochs_part <= fingerprint.place:
                return LogProof(epochs_part, epochs_part, is_exact=True, begin=now.begin)
            return LogProof(same_until, part, begin=now.begin)
        same_until = fingerprint.end
    if not same_until:
        return LogProof(0, None, "no message that was read before is still in the log")
    if epochs_part is None:
        # The end of a shorter log has moved since the promotion: only messages that match are the same for certain.
        return LogProof(same_until, same_until if now.end < before.end else None, begin=now.begin)
    if epochs_part < same_until:
        return LogProof(0, None, f"the epochs diverge at {epochs_part}, but the messages match")
    parted_at = epochs_part if epochs_part < before.end else None
    return LogProof(epochs_part, parted_at, is_exact=True, begin=now.begin)


def _end_by_epochs(before: Sequence[LogEpoch] | None, now: LogNow) -> int | None:
    """Return up to where exactly two logs are the same by their epochs; None if these do not tell.

    What was written in one epoch was written by one master, so what two logs have of it is equal, up to where either
    goes on with a later epoch. An epoch that neither lists may have written behind the last one that both have. That
    one tells nothing while it lasts: its master may have lost the end of its log and gone on in the same epoch.
    """
    if before is None or not now.epochs or now.epochs[-1].epoch != now.master_epoch:
        return None
    last = max({*before} & {*now.epochs}, default=None)
    if last is None or last.epoch >= now.master_epoch:
        return None
    later = [epoch for epoch in (*before, *now.epochs) if epoch.epoch > last.epoch]
    numbers = {epoch.epoch for epoch in later}
    if any(number not in numbers for number in range(last.epoch + 1, now.master_epoch)):
        return None
    return min(epoch.start_offset for epoch in later)


# One queue. Its messages are never looked at, only where they lie in the log (321): the queue that a reading saw has
# no message at or behind the end of the log at that reading, so a topic that was made anew since shows itself, whatever
# its offsets and clocks say. Places rise with offsets, so one look proves all lower offsets of a queue.


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
