"""Changes between two readings of the same rows, and how they are written. Pure.

The fields that say which thing a row is about are named by `row_key` of its type:

    class TopicNameRow(msgspec.Struct):
        row_key: ClassVar[RowKey] = ("topic",)

Without it the whole row is the key: it is added and deleted, never modified.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from rmq.output.formats import Style, rendered

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Rows = Mapping[Hashable, msgspec.Struct]

_ROW_KEY: Final = "row_key"
_TYPE: Final = "type"
_SEEN: Final = "seen_unix_ms"


class RowChange(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One change; in JSON lines it is written as it is."""

    type: ChangeType
    #: When `rmq` read it.
    seen_unix_ms: int
    #: The row as it is now; of a deleted one, as it was last.
    object: Any


def keyed(rows: Iterable[msgspec.Struct]) -> dict[Hashable, msgspec.Struct]:
    """Return the rows by what they are about; of several about the same, the second one has a 1 in its key."""
    counted: Counter[Hashable] = Counter()
    found: dict[Hashable, msgspec.Struct] = {}
    for row in rows:
        key = _key_of(row)
        found[key, counted[key]] = row
        counted[key] += 1
    return found


def changes_between(before: Rows, after: Rows, seen_unix_ms: int) -> list[RowChange]:
    """Return what was deleted, then what was added or modified in the order of the rows."""

    def change(kind: ChangeType, row: msgspec.Struct) -> RowChange:
        return RowChange(type=kind, seen_unix_ms=seen_unix_ms, object=row)

    changes = [change("DELETED", row) for key, row in before.items() if key not in after]
    for key, row in after.items():
        former = before.get(key)
        if former is None:
            changes.append(change("ADDED", row))
        elif former != row:
            changes.append(change("MODIFIED", row))
    return changes


def rendered_changes(changes: Sequence[RowChange], kind: type[msgspec.Struct], style: Style) -> str:
    """Return the changes of rows of one kind: JSON lines as `object`, tables and CSV with `type` in front."""
    if style.output_format == "jsonl":
        return rendered(changes, RowChange, style)
    flat = _flat_kind(kind)
    rows = [flat(each.type, each.seen_unix_ms, *msgspec.structs.astuple(each.object)) for each in changes]
    return rendered(rows, flat, style)


@lru_cache
def _flat_kind(kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
    fields = [(each.name, each.type) for each in msgspec.structs.fields(kind)]
    return msgspec.defstruct(f"Changed{kind.__name__}", [(_TYPE, str), (_SEEN, int), *fields], rename="camel")


def _key_of(row: msgspec.Struct) -> Hashable:
    names: tuple[str, ...] | None = getattr(type(row), _ROW_KEY, None)
    if names is None:
        return msgspec.json.encode(row)
    return tuple(_hashable(getattr(row, name)) for name in names)


def _hashable(value: Any) -> Hashable:
    return value if isinstance(value, Hashable) else msgspec.json.encode(value)
