"""Rows as the lines that servers leave in files."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from history.columns import Type
from history.schemas import FAMILIES
from synthetic.plan import SECOND

#: A file is sealed at this age.
SEGMENT_US = 300 * SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMPS = {
    family.name: tuple(column.name for column in family.all_columns if column.type is Type.TIMESTAMP)
    for family in FAMILIES.values()
}


def line(family: str, row: dict[str, Any]) -> bytes:
    """Return a row as one line of JSON."""
    moments = {name: moment(row[name]) for name in _TIMESTAMPS[family] if name in row}
    return msgspec.json.encode(row | moments) + b"\n"


def moment(unix_us: int) -> str:
    """Return a time as history files show it."""
    return (_EPOCH + timedelta(microseconds=unix_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
