"""What any server records of itself: its start and stop, ticks, the properties in force. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from history.rows import NO_BROKER, HistoryRow, Moment, Record, RowMaker
from history.schemas import NS_LIFECYCLE, NS_TICK

#: Reasons of `recording_resumed`: what is missing, and with it whether routes are known.
STATES_MISSING: Final = "state changes are missing"
HEARTBEATS_MISSING: Final = "heartbeats are missing"


def lifecycle(event_type: str, **columns: str) -> Record:
    """Return an event of the server itself, with some of `reason`, `address` and `detail`; see NS_LIFECYCLE."""
    return Record(NS_LIFECYCLE, event_type, NO_BROKER, columns)


def tick(columns: Mapping[str, int | float | None]) -> Record:
    """Return that the server was watching since the tick before; see the columns of NS_TICK."""
    return Record(NS_TICK, "tick", NO_BROKER, columns)


#: Event type: the wall clock was set.
CLOCK_SET: Final = "clock_set"


class ClockSet(msgspec.Struct, frozen=True, rename="camel"):
    """The wall clock of a server was set: how far it is ahead of the monotonic clock, us, before and after."""

    former_offset_us: int
    offset_us: int
    #: The last moment, by the monotonic clock, at which it is known to have been as before.
    since_mono_us: int

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        """Yield two rows, one by each time, so that readers of either time find one."""
        ahead_ms = (self.offset_us - self.former_offset_us) // 1000
        detail = msgspec.json.encode(self).decode()
        for offset_us in (self.former_offset_us, self.offset_us):
            at = Moment(moment.mono_us + offset_us, moment.mono_us)
            yield maker.row(NS_LIFECYCLE, CLOCK_SET, at, NO_BROKER, reason=f"by {ahead_ms} ms", detail=detail)
