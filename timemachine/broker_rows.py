"""Finds the rows that are about a broker, and those that say when servers observed nothing."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from history.columns import WATCHES_NO_BROKERS
from history.schemas import BROKER_STATE, CONTROLLER, NS_LIFECYCLE, NS_TICK, SCALING, UNOBSERVED_AFTER_MS
from timemachine.rows import History, StoredRow, as_written

#: Matches the line of a tick after an unobserved pause; may match too often.
_PAUSE: Final = re.compile(rb'"interval_ms":\d{5}')


def broker_rows(history: History, broker_name: str, first: datetime, last: datetime) -> list[StoredRow]:
    """Return the rows about a broker set, snapshots of it included."""
    name = as_written(broker_name)
    return [
        row
        for family in (BROKER_STATE.name, CONTROLLER.name, SCALING.name)
        for row in history.rows(family, first, last, None, lambda line: name in line)
        if row.broker_name == broker_name or broker_name in row.broker_names
    ]


def server_rows(history: History, first: datetime, last: datetime) -> list[StoredRow]:
    """Return the lifecycle of servers that watch brokers, and their pauses: no event then means nothing."""
    lifecycle = history.rows(NS_LIFECYCLE.name, first, last)
    return [*(row for row in lifecycle if row.source not in WATCHES_NO_BROKERS), *_pauses(history, first, last)]


def _pauses(history: History, first: datetime, last: datetime) -> Iterator[StoredRow]:
    """Yield the ticks that came after an unobserved pause."""
    ticks = history.rows(NS_TICK.name, first, last, None, lambda line: _PAUSE.search(line) is not None)
    return (row for row in ticks if (row.interval_ms or 0) > UNOBSERVED_AFTER_MS)
