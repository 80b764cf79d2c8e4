"""The one proof of the offset manager: how far the log of a broker is the log that was read before. Pure.

A *fingerprint* is one message of the log: where it lies, which queue it is in, when it was stored, how long it is, and
the CRC of its body. Messages are copied byte by byte, so two logs that show the same message at the same place were
copied from one another up to there, unless they have parted and met again at equal lengths: therefore **all** kept
fingerprints are compared, oldest to newest, and the first that does not match is where the logs have parted.

    proof = prove(LogBefore(fingerprints, reading.second_end, reading.epochs), LogNow(begin, end, epochs), looks)
    proof.proves(reading.first_end)      # everything in the log below `first_end` is the same

Master epochs, where there are such, say exactly where a log ends in another one. They are believed only beside messages
that match: a list of epochs outlives the log that it tells of.

A reading takes the end of the log first, then the offsets, then the end again. Its offsets are proved if the log is
the same up to its *first* end: what lies behind it was written while the offsets were read.

Source: docs/protocol/offsets.md.
"""

import enum
from collections.abc import Iterable, Sequence
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

    #: Where its first message lies; earlier ones have expired.
    begin: int
    #: Read before the first look.
    end: int
    #: Where each master epoch begins; None of a broker without a controller.
    epochs: Sequence[LogEpoch] | None


class LogProof(NamedTuple):
    """How far the log of a broker is the one that was read."""

    #: Below this place the logs are the same; 0 if nothing is proved.
    same_until: int
    #: Where they have parted: messages of the former log from here on are lost, and others may lie there. None: no loss
    #: is known.
    parted_at: int | None
    #: Why nothing is known; blank where every look was answered.
    problem: str = ""

    def proves(self, first_end: int) -> bool:
        """Return whether everything below the first end of a reading is in the log of the broker."""
        return first_end <= self.same_until


def prove(before: LogBefore, now: LogNow, looks: Iterable[Look]) -> LogProof:
    """Return how far the log of a broker is the one that was read.

    `looks` are what the broker shows at the place of each fingerprint. Fingerprints below the begin of the log have
    expired and say nothing. One look without an answer leaves everything unknown.
    """
    by_epochs = None if before.epochs is None or now.epochs is None else _common_end(before.epochs, now)
    same_until = 0
    for fingerprint, look in zip(before.fingerprints, looks, strict=True):
        if fingerprint.place < now.begin:
            continue
        if look is NoMessage.UNKNOWN:
            return LogProof(0, None, f"the message at {fingerprint.place} of the log could not be looked at")
        if look != fingerprint:
            parted_at = max(same_until, now.begin)
            if by_epochs is not None and parted_at < by_epochs <= fingerprint.place:
                parted_at = by_epochs
            return LogProof(same_until, parted_at)
        same_until = fingerprint.end
    if not same_until:
        return LogProof(0, None, "no message that was read before is still in the log")
    if by_epochs is None:
        # The end of a shorter log has moved since the promotion: only messages that match are the same for certain.
        return LogProof(same_until, same_until if now.end < before.end else None)
    if by_epochs < same_until:
        return LogProof(0, None, f"its epochs part from the former ones at {by_epochs}, and its messages do not")
    return LogProof(by_epochs, by_epochs if by_epochs < before.end else None)


def _common_end(before: Sequence[LogEpoch], now: LogNow) -> int | None:
    """Return up to where two logs are the same by their epochs; None if they have no epoch in common.

    Whatever was written in one epoch was written by one master, so what two logs have of it is equal.
    """
    assert now.epochs is not None, "both have epochs"
    common = {*before} & {*now.epochs}
    if not common:
        return None
    last = max(common)
    ends = [epoch.start_offset for epochs in (before, now.epochs) for epoch in epochs if epoch > last]
    return min([*ends, now.end])
