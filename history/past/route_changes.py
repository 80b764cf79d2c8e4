"""When the route of a topic may have changed: rows about the topic, and about broker sets that have it.

A month of changes may be far more than is answered, so no more rows are held than that.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import nlargest
from typing import Final

from history.past.rows import History, StoredRow, as_written
from history.schemas import BROKER_STATE, ROUTE_CHANGE, ROUTE_SNAPSHOT
from remoting.protocol.shapes.history import PastRouteChange

#: Rows that show what there is, and no change.
_SHOWING: Final = frozenset({"snapshot", "summary", "finished"})


def route_changes(
    history: History, topic: str, broker_names: Iterable[str], within: tuple[datetime, datetime], items_max: int
) -> list[PastRouteChange]:
    """Return the last `items_max` changes between two times, in their order.

    `broker_names` are the sets that had the topic at some time within.
    """
    rows = nlargest(items_max, _rows(history, topic, set(broker_names), within), key=_place)
    return [_change(row) for row in sorted(rows, key=_place)]


def _place(row: StoredRow) -> tuple[int, str, int]:
    return row.unix_us, row.ns_id, row.number


def _rows(history: History, topic: str, names: set[str], within: tuple[datetime, datetime]) -> Iterator[StoredRow]:
    first, last = within
    for row in _topic_rows(history, topic, first, last):
        if row.broker_name is not None:
            names.add(row.broker_name)
        yield row
    # Only now all sets that had the topic are known.
    yield from _set_rows(history, names, first, last)


def _topic_rows(history: History, topic: str, first: datetime, last: datetime) -> Iterator[StoredRow]:
    name = as_written(topic)
    for row in history.rows(ROUTE_CHANGE.name, first, last, None, lambda line: name in line):
        if row.topic == topic and row.event_type not in _SHOWING:
            yield row
    # A registration with many topics groups them in rows like those of a snapshot.
    for row in history.rows(ROUTE_SNAPSHOT.name, first, last, None, lambda line: name in line and b'"change"' in line):
        if row.scope == "change" and isinstance(row.topics, tuple) and topic in row.topics:
            yield row


def _set_rows(history: History, names: set[str], first: datetime, last: datetime) -> Iterator[StoredRow]:
    written = [as_written(name) for name in names]
    found = history.rows(BROKER_STATE.name, first, last, None, lambda line: any(name in line for name in written))
    for row in found:
        # Without its members the row is about nothing that routes have.
        if row.broker_name in names and row.set_ids is not None and row.event_type not in _SHOWING:
            yield row


def _change(row: StoredRow) -> PastRouteChange:
    name = row.broker_name if row.broker_name is not None else next(iter(row.broker_names), None)
    if row.event_type == "queues":
        event = "removed" if row.read is None else "queues"
    else:
        event = row.kind if row.event_type == "topic_changed" and row.kind is not None else row.event_type
    return PastRouteChange(unix_ms=row.unix_us // 1000, ns_id=row.ns_id, broker_name=name, event=event)
