"""What a family of recorded rows is made of: columns with their types, and the envelope that all rows have.

Imports nothing but the standard library, as `schemas.py`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class Type(Enum):
    """Types of columns; the values are those of Spark SQL."""

    STRING = "string"
    LONG = "bigint"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    #: In JSON as `2026-11-21T20:00:00.123456Z`.
    TIMESTAMP = "timestamp"
    LONGS = "array<bigint>"
    DOUBLES = "array<double>"
    STRINGS = "array<string>"


class Column(NamedTuple):
    """One column of a family."""

    name: str
    type: Type
    #: Its meaning, with its unit.
    doc: str
    #: The version that brought it.
    since: int = 1


ENVELOPE: Final = (
    Column("schema_version", Type.LONG, "version of these shapes that the row was written with"),
    Column("event_id", Type.STRING, "<ns_id>-<boot_ms>-<seq>; unique, whatever is copied or delivered twice"),
    Column("event_type", Type.STRING, "what happened; the values of each family are listed with it"),
    Column("event_time", Type.TIMESTAMP, "when, by the server's wall clock"),
    Column("mono_us", Type.LONG, "the same moment by its monotonic clock, us; as a rule since the machine was started"),
    Column("ns_id", Type.STRING, "the server that saw it: a NameServer, or a controller where `source` says so"),
    Column("boot_id", Type.STRING, "<ns_id>-<boot_ms>: the process that saw it"),
    Column("cluster", Type.STRING, "cluster of the broker"),
    Column("broker_name", Type.STRING, "broker set"),
    Column("broker_id", Type.LONG, "broker id in its set; 0 is the master for NameServers, never for controllers"),
    Column("broker_addr", Type.STRING, "host:port of the broker"),
    Column("source", Type.STRING, "namesrv, controller, sampler or offset-manager"),
)


class RowFamily(NamedTuple):
    """One kind of rows; each has a directory of its own."""

    name: str
    columns: tuple[Column, ...]
    #: The values of `event_type`, each with its meaning.
    event_types: Mapping[str, str]

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The columns of a row in order, the envelope first."""
        return ENVELOPE + self.columns


#: What rows of `rmq sample` and `rmq-offset-manager` have as their `source`.
SAMPLER: Final = "sampler"
OFFSET_MANAGER_SOURCE: Final = "offset-manager"
#: Who records, and sees no broker come or go.
WATCHES_NO_BROKERS: Final = frozenset({SAMPLER, OFFSET_MANAGER_SOURCE})
