"""What any server records of itself: that it serves, that it is watching, which properties are in force. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

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


class Tick(NamedTuple):
    """The server is watching; see the columns of NS_TICK."""

    columns: Mapping[str, int | float | None]

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[Row]:
        """Yield one row."""
        yield maker.row(NS_TICK, "tick", moment, NOBODY, **self.columns)
