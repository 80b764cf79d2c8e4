"""Queries of a history: its folder, times as they are typed, the timeline of a broker, bodies as they were served."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec

from history.landing import LANDING
from history.past.broker_events import SENTENCES, broker_rows, server_rows, timeline
from history.past.rows import History
from remoting.protocol.fastjson import Dialect, encode
from remoting.protocol.shapes.history import PastEvent, PastRoute

#: Where `make run` has the servers write.
DEFAULT_FOLDER: Final = "~/rocketmq-history"

#: All that can be added to a time and taken away from it stays a time.
_YEARS: Final = range(1971, 9998)
_HOUR: Final = timedelta(hours=1)


class NoHistory(Exception):
    """The folder is not one that servers write their history to."""


def open_history(folder: str) -> History:
    """Return the history in a folder; raises NoHistory."""
    if "://" in folder:
        raise NoHistory(f"{folder} is a URI: histories are read from folders of this machine, mounted ones too")
    path = Path(folder).expanduser()
    if not (path / LANDING).is_dir():
        raise NoHistory(f"there is no history in {path}: give the historyDir of the servers with --history")
    return History(path)


def time_in(text: str) -> datetime:
    """Return a time as people type it, UTC without an offset; raises ValueError with a sentence."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time; write 2026-11-21T20:00:00 (UTC)") from None
    if time.year not in _YEARS:
        raise ValueError(f"{text!r} is no time of a history")
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def span_of(first: datetime | None, last: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """Return the times between which a timeline is, the hour until `last` or now; raises ValueError with a sentence."""
    if first is not None and first > (last or now):
        raise ValueError(f"--from must be before {'--to' if last else 'now'}")
    end = last or now
    return first or end - _HOUR, end


def timeline_of(history: History, broker: str, first: datetime, last: datetime) -> tuple[list[PastEvent], str]:
    """Return what happened to a broker between two times, and why there is nothing of it; blank if there is.

    The times that nobody observed are in it: without them their lack of events would read as no failures.
    """
    rows = broker_rows(history, broker, first, last)
    events = timeline([*rows, *server_rows(history, first, last)])
    return events, "" if any(row.event_type in SENTENCES for row in rows) else _nothing(broker, first, last)


def body_line(seen: PastRoute) -> str:
    """Return what one NameServer served as a line of JSON, `route` being the body to the byte."""
    body = None if seen.route is None else encode(seen.route, Dialect.STANDARD).decode()
    return msgspec.json.encode({"ns_id": seen.ns_id, "doubt": seen.doubt, "route": body}).decode()


def _nothing(broker: str, first: datetime, last: datetime) -> str:
    return (
        f"nothing happened to {broker} between {first.isoformat()} and {last.isoformat()}; "
        "look at another time with --from and --to, or at how the name is spelled"
    )
