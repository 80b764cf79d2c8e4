"""What any server records of itself: that it serves, that it is watching, which properties are in force. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from history.rows import NOBODY, Moment, Row, RowMaker
from history.schemas import NS_LIFECYCLE, NS_TICK

#: Why recording has to say that it resumed: what is missing, and with it whether routes are known.
STATES_MISSING: Final = "state changes are missing"
BEATS_MISSING: Final = "heartbeats are missing"


class Life(NamedTuple):
    """Something in the life of a server; see the event types of NS_LIFECYCLE."""

    event_type: str
    reason: str | None = None
    address: str | None = None
    #: JSON.
    detail: str | None = None

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[Row]:
        """Yield one row."""
        yield maker.row(
            NS_LIFECYCLE,
            self.event_type,
            moment,
            NOBODY,
            reason=self.reason,
            address=self.address,
            detail=self.detail,
        )


#: The event type of a wall clock that was set.
CLOCK_SET: Final = "clock_set"


class ClockSet(msgspec.Struct, frozen=True, rename="camel"):
    """How the wall clock of a server was set, in us; how far it is ahead of the monotonic clock, before and after."""

    former_offset_us: int
    offset_us: int
    #: The last moment, by the monotonic clock, of which is known that it was as before.
    since_mono_us: int

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[Row]:
        """Yield a row by either time, so that whoever looks near either of them finds it."""
        ahead_ms = (self.offset_us - self.former_offset_us) // 1000
        detail = msgspec.json.encode(self).decode()
        for offset_us in (self.former_offset_us, self.offset_us):
            at = Moment(moment.mono_us + offset_us, moment.mono_us)
            yield maker.row(NS_LIFECYCLE, CLOCK_SET, at, NOBODY, reason=f"by {ahead_ms} ms", detail=detail)


class Tick(NamedTuple):
    """The server is watching; see the columns of NS_TICK."""

    columns: Mapping[str, int | float | None]

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[Row]:
        """Yield one row."""
        yield maker.row(NS_TICK, "tick", moment, NOBODY, **self.columns)
