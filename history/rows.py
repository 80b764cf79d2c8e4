"""Rows of the history as one server writes them: flat, numbered, without nulls. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from history.schemas import SCHEMA_VERSION, Family


class Moment(NamedTuple):
    """When something happened, by both clocks of the server."""

    unix_us: int
    #: Monotonic, since some fixed time.
    mono_us: int


class Row(NamedTuple):
    """One row of a family; columns that are null are left out."""

    family: Family
    columns: Mapping[str, object]
    unix_us: int


class Who(NamedTuple):
    """The broker that a row is about; None where it is about no broker, or not known."""

    cluster: str | None = None
    broker_name: str | None = None
    broker_id: int | None = None
    broker_addr: str | None = None


#: A row is about no broker.
NOBODY: Final = Who()


class RowMaker:
    """Gives rows their envelope and their numbers; used by one thread."""

    def __init__(self, ns_id: str, boot_ms: int, source: str) -> None:
        """Take who writes, the Unix ms of its start, and `namesrv` or `controller`."""
        self.boot_id = f"{ns_id}-{boot_ms}"
        self._ns_id = ns_id
        self._source = source
        self._seq = 0

    def row(self, family: Family, event_type: str, moment: Moment, who: Who = NOBODY, **columns: object) -> Row:
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
            **who._asdict(),
            "source": self._source,
            **columns,
        }
        return Row(family, {name: value for name, value in envelope.items() if value is not None}, moment.unix_us)
