"""Rows of the history as one server writes them: flat, numbered, without nulls. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from history.columns import RowFamily, Type
from history.schemas import FAMILIES, SCHEMA_VERSION
from history.times import time_text

_encode: Final = msgspec.json.Encoder().encode
#: Family -> its columns that are times.
_TIMES: Final = {
    name: frozenset(column.name for column in family.all_columns if column.type is Type.TIMESTAMP)
    for name, family in FAMILIES.items()
}


class Moment(NamedTuple):
    """When something happened, by both clocks of the server."""

    unix_us: int
    #: Monotonic, since some fixed time.
    mono_us: int


class HistoryRow(NamedTuple):
    """One row of a family; columns that are null are left out."""

    family: RowFamily
    columns: Mapping[str, object]
    unix_us: int


class BrokerRef(NamedTuple):
    """The broker that a row is about; a field that is not known is None."""

    cluster: str | None = None
    broker_name: str | None = None
    broker_id: int | None = None
    broker_addr: str | None = None


#: The row is about no broker.
NO_BROKER: Final = BrokerRef()


class RowMaker:
    """Gives rows their envelope and their numbers; used by one thread."""

    def __init__(self, ns_id: str, boot_ms: int, source: str) -> None:
        """Take who writes, the Unix ms of its start, and its `source`: `namesrv`, `controller`, ..."""
        self.boot_id = f"{ns_id}-{boot_ms}"
        self._ns_id = ns_id
        self._source = source
        self._seq = 0

    def row(
        self, family: RowFamily, event_type: str, moment: Moment, broker: BrokerRef = NO_BROKER, **columns: object
    ) -> HistoryRow:
        """Return the next row; `columns` are those of the family, and None where nothing is known."""
        assert event_type in family.event_types, f"{event_type} is no event type of {family.name}"
        self._seq += 1
        envelope: dict[str, object] = {
            "schema_version": SCHEMA_VERSION,
            "event_id": f"{self.boot_id}-{self._seq}",
            "event_type": event_type,
            "event_time": moment.unix_us,
            "mono_us": moment.mono_us,
            "ns_id": self._ns_id,
            "boot_id": self.boot_id,
            **broker._asdict(),
            "source": self._source,
            **columns,
        }
        known = {name: value for name, value in envelope.items() if value is not None}
        return HistoryRow(family, known, moment.unix_us)


class Recordable(Protocol):
    """Something to record, handed over as values that nobody changes any more."""

    def rows(self, maker: RowMaker, moment: Moment) -> Iterable[HistoryRow]:
        """Yield its rows; called in the recorder's thread."""


class Record(NamedTuple):
    """A row that is known already."""

    family: RowFamily
    event_type: str
    broker: BrokerRef
    columns: Mapping[str, object]

    def rows(self, maker: RowMaker, moment: Moment) -> tuple[HistoryRow]:
        return (maker.row(self.family, self.event_type, moment, self.broker, **self.columns),)


def encoded(row: HistoryRow) -> bytes:
    columns = dict(row.columns)
    for name in _TIMES[row.family.name] & columns.keys():
        columns[name] = time_text(columns[name])
    return _encode(columns) + b"\n"
