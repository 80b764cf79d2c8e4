"""Answers one query about the past and ends: `python -m history.past.answers`, started by a server.

Reading a history takes up to seconds and much memory, so a server does not do it itself. The query is JSON on standard
input, so that no name of a topic is an argument; the answer is JSON on standard output. Where the history knows
nothing, the answer has the reason.
"""

import os
import resource
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from heapq import nlargest
from pathlib import Path
from typing import Final

import msgspec

from history.landing import LANDING
from history.past.broker_events import broker_rows, server_rows, timeline
from history.past.broker_life import life_of
from history.past.moments import Moments, NotRecorded
from history.past.rows import History, StoredRow, as_written
from history.schemas import BROKER_STATE, NS_TICK, ROUTE_CHANGE, ROUTE_SNAPSHOT, UNOBSERVED_AFTER_MS
from history.times import time_of, unix_us
from remoting.clock import SystemClock
from remoting.protocol.shapes.history import (
    PastAnswer,
    PastLife,
    PastQuery,
    PastRouteChange,
    PastRouteChanges,
    PastRoutes,
    nothing_known,
)
from serving.process.system_limits import usable_memory_bytes

#: Changes of a route, and events and spans of life of a broker, that are answered.
ITEMS_MAX: Final = 1000
#: The server that waits for the answer goes first.
_NICENESS: Final = 5
#: What a process may take, or a third of the memory (of the container): two run at a time, beside the server.
MEMORY_BYTES_MAX: Final = 384 * 1024 * 1024
_MEMORY_SHARE: Final = 3
#: Python and all that is imported need so much.
_MEMORY_BYTES_MIN: Final = 96 * 1024 * 1024
#: If memory runs out all the same, the kernel ends this process first; in a container it may end the server with it.
_OOM_SCORE: Final = Path("/proc/self/oom_score_adj")
_OOM_SCORE_MAX: Final = "1000"
#: A NameServer takes a snapshot at least so often: what was known at a time is in rows from so long before on.
_SNAPSHOT_WITHIN: Final = timedelta(hours=26)
#: Events whose reasons have what a probe has shown.
_PROBED: Final = frozenset({"failure_detected", "election_started"})
_HOUR: Final = timedelta(hours=1)
_UNOBSERVED_AFTER: Final = timedelta(milliseconds=UNOBSERVED_AFTER_MS)


def main() -> int:
    os.nice(_NICENESS)
    memory_bytes = memory_bytes_max(usable_memory_bytes())
    _limit_memory(memory_bytes)
    query = msgspec.json.decode(sys.stdin.buffer.read(), type=PastQuery)
    # Outside of `except`, where all that was read is still held.
    problem = f"Reading this takes more than {memory_bytes // 1024**2} MiB of memory: request a shorter period."
    answer: PastAnswer | None = None
    try:
        answer = answer_to(query)
    except (NotRecorded, OSError) as error:
        problem = f"{error}."
    except MemoryError:
        pass
    if answer is None:
        answer = nothing_known(query, problem)
    sys.stdout.buffer.write(msgspec.json.encode(answer))
    return 0


def memory_bytes_max(usable_bytes: int) -> int:
    """Return how much of the usable memory this process may take."""
    return min(max(usable_bytes // _MEMORY_SHARE, _MEMORY_BYTES_MIN), MEMORY_BYTES_MAX)


def _limit_memory(memory_bytes: int) -> None:
    # Where a limit cannot be set, for example below a lower one, the answer counts more.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    with suppress(OSError):
        _OOM_SCORE.write_text(_OOM_SCORE_MAX)


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


def answer_to(query: PastQuery) -> PastAnswer:
    """Return what the history knows; raises NotRecorded and OSError."""
    folder = Path(query.folder).expanduser()
    if not (folder / LANDING).is_dir():
        raise NotRecorded("nothing is recorded yet")
    history, now = History(folder), time_of(SystemClock().unix_us())
    first, last = time_of(query.first_ms * 1000), time_of(query.last_ms * 1000)
    match query.kind:
        case "route":
            return _routes(history, now, query.name, last)
        case "route-changes":
            return _changes(history, now, query.name, first, last)
        case "timeline":
            # A browser's clock may be ahead: of what comes nobody knows anything.
            return _life(history, query, min(first, now), min(last, now))


def _routes(history: History, now: datetime, topic: str, at: datetime) -> PastRoutes:
    return PastRoutes(topic=topic, at_unix_ms=unix_us(at) // 1000, items=Moments(history, now).seen(topic, at))


def _changes(history: History, now: datetime, topic: str, first: datetime, last: datetime) -> PastRouteChanges:
    names: set[str] = set()
    for moment in (first, last):
        names.update(_holders(history, now, topic, moment))
    found = route_changes(history, topic, names, (first, last), ITEMS_MAX + 1)
    return PastRouteChanges(topic=topic, items=found[-ITEMS_MAX:], is_complete=len(found) <= ITEMS_MAX)


def _holders(history: History, now: datetime, topic: str, at: datetime) -> Iterable[str]:
    try:
        seen = Moments(history, now).seen(topic, min(at, now))
    except NotRecorded:
        return
    for each in seen:
        if each.route is not None:
            yield from (data.broker_name for data in each.route.broker_datas)


def _life(history: History, query: PastQuery, first: datetime, last: datetime) -> PastLife:
    since = first - _SNAPSHOT_WITHIN
    about_set, of_servers = broker_rows(history, query.name, since, last), server_rows(history, since, last)
    rows = [*about_set, *of_servers]
    ends = [row for ns_id in {row.ns_id for row in about_set} for row in _last_tick(history, ns_id, first, last)]
    events = timeline(_shown(query, row) for row in rows if row.event_time >= first)
    life = life_of([*rows, *ends], query.broker_id, unix_us(first), unix_us(last))
    newest = nlargest(ITEMS_MAX, life, key=lambda each: each.last_unix_ms)
    return PastLife(
        broker_name=query.name,
        broker_id=query.broker_id,
        events=events[-ITEMS_MAX:],
        is_complete=max(len(events), len(life)) <= ITEMS_MAX,
        first_unix_ms=unix_us(first) // 1000,
        last_unix_ms=unix_us(last) // 1000,
        life=sorted(newest, key=lambda each: (each.ns_id, each.first_unix_ms)),
    )


def _shown(query: PastQuery, row: StoredRow) -> StoredRow:
    """Return a row without what a probe has shown, unless details are wanted: what made the broker suspect remains."""
    is_hidden = row.event_type in _PROBED and not query.with_details
    return msgspec.structs.replace(row, reason=row.cause) if is_hidden else row


def _last_tick(history: History, ns_id: str, first: datetime, last: datetime) -> list[StoredRow]:
    """Return the last tick of a server that had ended before a time without a word, as an event; none of others."""
    until = last
    while until > first - _HOUR:
        ticks = list(history.rows(NS_TICK.name, max(until - _HOUR, first - _HOUR), until, ns_id))
        if ticks:
            tick = max(ticks, key=lambda each: each.event_time)
            is_watching = last - tick.event_time <= _UNOBSERVED_AFTER
            return [] if is_watching else [msgspec.structs.replace(tick, event_type="last_tick", interval_ms=None)]
        until -= _HOUR
    return []


if __name__ == "__main__":
    sys.exit(main())
