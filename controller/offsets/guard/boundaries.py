"""Which messages of a log are old, that is: were there when the mirror read the offsets, and which came later. Pure.

An offset means something only in the log that it was committed for. Two masters of a set share the beginning of their
logs, up to where the later one was promoted. A queue offset alone does not show on which side of that point its message
is: after a lost tail new messages have the queue offsets of those that are gone. Where the message is in the log shows
it (master epochs, 1007), and where there are no epochs, when it was stored (28).

A master may have been started again within its epoch, and several times, and have lost the end of its log each time. So
what was stored after the mirror had read the offsets is never old by its store time.

A message whose side is not certain is UNKNOWN, and proves nothing. A LATE one was stored when the offsets were read, or
less than a minute later, and is not proved to be new: nothing behind it is old.

Source: docs/protocol/offsets.md 8.2, docs/protocol/broker-admin.md 25 and 33.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple, Protocol

from remoting.admin.log_epochs import LogEpoch

#: How far the clocks of two brokers may differ, or that of one may be set back.
CLOCK_MARGIN_MS: Final = 5_000
#: What was stored later than so long after the reading, and before the start, is of a clock that was ahead, or of a run
#: that nobody has read.
LATE_MAX_MS: Final = 60_000


class Age(Enum):
    """On which side of the boundary a message is."""

    OLD = auto()
    NEW = auto()
    #: Stored when the offsets were read, or within LATE_MAX_MS, and not proved to be new.
    LATE = auto()
    UNKNOWN = auto()


class PlacedMessage(NamedTuple):
    """Where a message is in the log, and since when."""

    physical_offset: int
    #: Unix ms by the clock of the master that stored it; None: not requested.
    store_unix_ms: int | None
    #: Unix ms by the clock of its producer; None: not requested.
    born_unix_ms: int | None = None


class Boundary(Protocol):
    """Where the log that offsets were committed for ends, and that of the new master goes on by itself."""

    @property
    def needs_store_time(self) -> bool:
        """Whether the place of a message does not show its age."""

    @property
    def late_since_ms(self) -> int | None:
        """Since when messages are late, Unix ms: a broker finds the first of them. None: their places show it."""

    @property
    def log_end(self) -> int | None:
        """Where the log ended that was read; None: it is unknown, or needless, as it is known where the logs part."""

    def age_of(self, message: PlacedMessage) -> Age:
        """Return on which side a message is."""

    def is_former(self, message: PlacedMessage) -> bool:
        """Return whether a message was in the log before the new master went on by itself, by its store time."""

    def shows_loss(self, message: PlacedMessage) -> bool:
        """Return whether a message lies where another one was when the offsets were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBoundary:
    """By master epochs: exact where both fields are equal."""

    #: What begins below it in the log is old.
    old_below: int
    #: What begins there or later is new; None: nothing is proved to be new.
    new_from: int | None
    #: What was not stored before (Unix ms) is not old; None: its place proves it.
    old_stored_before_ms: int | None = None
    #: As BootBoundary has it.
    latest_unix_ms: int | None = None

    @property
    def needs_store_time(self) -> bool:
        """Whether the place of a message does not show its age."""
        return self.old_stored_before_ms is not None

    @property
    def late_since_ms(self) -> int | None:
        """Since when messages are late, Unix ms; None where places alone count."""
        return self.old_stored_before_ms

    @property
    def log_end(self) -> int | None:
        """None: it is known where the logs part."""
        return None

    def age_of(self, message: PlacedMessage) -> Age:
        """Return on which side a message is, by its place in the log."""
        if message.physical_offset < self.old_below:
            limit_ms = self.old_stored_before_ms
            return Age.OLD if limit_ms is None else _age_before(message, limit_ms, self.latest_unix_ms)
        is_new = self.new_from is not None and message.physical_offset >= self.new_from
        return Age.NEW if is_new else Age.UNKNOWN

    def is_former(self, _: PlacedMessage) -> bool:
        """Return False: it does not matter here."""
        return False

    def shows_loss(self, _: PlacedMessage) -> bool:
        """Return False: it does not matter here."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class BootBoundary:
    """By the start of the broker: what it has stored since has a store time of its own clock, after its start.

    What was stored between the mirror's reading and the start is late: it may be of a run that nobody has read.
    """

    #: What was stored before is old, Unix ms.
    old_stored_before_ms: int
    #: When the broker has started, by its own clock: nothing new was stored before.
    boot_unix_ms: int
    #: What was stored after it is new, Unix ms.
    new_stored_after_ms: int
    #: What was stored after it is on no side, Unix ms: it is still to come, so a clock is or was wrong. None: unknown.
    latest_unix_ms: int | None = None
    #: Where the log ended that was read; None: unknown.
    log_end: int | None = None

    @property
    def needs_store_time(self) -> bool:
        """True: places show nothing."""
        return True

    @property
    def late_since_ms(self) -> int | None:
        """Since when messages are late, Unix ms."""
        return self.old_stored_before_ms

    def age_of(self, message: PlacedMessage) -> Age:
        """Return on which side a message is, by when it was stored."""
        stored_ms = message.store_unix_ms
        if stored_ms is None or stored_ms < self.boot_unix_ms or is_to_come(stored_ms, self.latest_unix_ms):
            return _age_before(message, self.old_stored_before_ms, self.latest_unix_ms)
        return Age.NEW if stored_ms > self.new_stored_after_ms else Age.LATE

    def is_former(self, message: PlacedMessage) -> bool:
        """Return whether a message was stored before the start, or is still to come."""
        stored_ms = message.store_unix_ms
        return stored_ms is not None and (stored_ms < self.boot_unix_ms or is_to_come(stored_ms, self.latest_unix_ms))

    def shows_loss(self, message: PlacedMessage) -> bool:
        """Return whether a new message lies before the end of the log that was read."""
        return self.log_end is not None and message.physical_offset < self.log_end and self.age_of(message) is Age.NEW


def is_to_come(stored_unix_ms: int, latest_unix_ms: int | None) -> bool:
    """Return whether a message was stored later than any clock that is right shows; None: that is unknown."""
    return latest_unix_ms is not None and stored_unix_ms > latest_unix_ms


def boundary_of_start(
    read_unix_ms: int, boot_unix_ms: int, former_boot_unix_ms: int | None = None
) -> BootBoundary | None:
    """Return what the start of a broker proves about offsets that were read at `read_unix_ms`.

    `former_boot_unix_ms`, where the process that was read had the same address: when that one had started. A later
    start is that of another process then, also within the margin around the reading, and what was stored since counts
    as new without a margin. Where the clock was set back in between, or another machine with a later clock has got the
    address, a few messages count as new that are not: groups read them twice, and skip none.

    None: it may have run already when they were read, so the start parts nothing.
    """
    margin_ms = CLOCK_MARGIN_MS
    if former_boot_unix_ms is not None and boot_unix_ms > max(former_boot_unix_ms, read_unix_ms - CLOCK_MARGIN_MS):
        margin_ms = 0
    elif boot_unix_ms <= read_unix_ms + CLOCK_MARGIN_MS:
        return None
    return BootBoundary(
        old_stored_before_ms=read_unix_ms - CLOCK_MARGIN_MS,
        boot_unix_ms=boot_unix_ms,
        new_stored_after_ms=boot_unix_ms + margin_ms,
    )


def doubtful_from(epochs: Sequence[LogEpoch], saved_epoch: int) -> int | None:
    """Return where a part of the log begins whose epoch is doubtful; None if there is none.

    A broker notes no epoch that begins where the one before it did. So if all that `saved_epoch` had written was lost,
    the messages of the next master may stand under its number. They do not if the very next epoch is noted, and not if
    the doubtful part begins with a message that was stored before the mirror had read the offsets: then the next epoch
    began behind it, and would be noted.
    """
    earlier, later = _divided(epochs, saved_epoch)
    if not earlier or not later or later[0].epoch == saved_epoch + 1:
        return None
    return earlier[-1].start_offset if earlier[-1].start_offset < later[0].start_offset else None


def boundary_of_epochs(epochs: Sequence[LogEpoch], saved_epoch: int, *, is_doubtful: bool) -> EpochBoundary:
    """Return what the epochs of the new master's log prove about offsets that were committed in `saved_epoch`.

    The next epoch begins where the log of `saved_epoch` and the new one part; what further masters wrote is new as
    well, for whoever has not read the offsets since. Epochs without a master, or whose master died before this broker
    copied from it, are absent. If the part before the next epoch `is_doubtful`, its messages are on no side.
    """
    earlier, later = _divided(epochs, saved_epoch)
    new_from = later[0].start_offset if later else None
    if new_from is None or is_doubtful:
        return EpochBoundary(old_below=earlier[-1].start_offset if earlier else 0, new_from=new_from)
    return EpochBoundary(old_below=new_from, new_from=new_from)


def _age_before(message: PlacedMessage, old_stored_before_ms: int, latest_unix_ms: int | None) -> Age:
    """Return the age of a message that is old if it was stored early enough, and late otherwise."""
    stored_ms = message.store_unix_ms
    if stored_ms is None or is_to_come(stored_ms, latest_unix_ms):
        return Age.UNKNOWN
    if stored_ms < old_stored_before_ms:
        return Age.OLD
    return Age.LATE if stored_ms <= old_stored_before_ms + CLOCK_MARGIN_MS + LATE_MAX_MS else Age.UNKNOWN


def _divided(epochs: Sequence[LogEpoch], saved_epoch: int) -> tuple[list[LogEpoch], list[LogEpoch]]:
    earlier = [each for each in epochs if each.epoch <= saved_epoch]
    return earlier, list(epochs[len(earlier) :])
