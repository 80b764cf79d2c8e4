"""A16 read again: sums of what an offset manager recorded: groups by cause, changes, repairs, locks."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from plain.spans import Span
from plain.watching import Row, Rows

Answer = dict[str, Any]

#: Nobody has wanted that.
UNWANTED = {"failover", "restart", "lost"}
REPAIR = ("queues", "pushed", "set_back", "would_change", "not_proved", "failed")
REPAIR += ("messages_spared", "messages_again", "messages_skipped")
REPLAY = ("queues", "granted", "held_by_another", "unanswered", "unconfirmed")


def read_again(rows: Rows, window: Span) -> list[Answer]:
    """A16: one answer for each thing that is told apart."""
    jumped, changes, repairs, locks = (
        [row for row in rows[family] if window[0] <= row["event_time"] < window[1]]
        for family in ("offset_jump", "offset_change_by_operator", "offset_repair", "lock_event")
    )
    return [
        *_each("group", jumped, ("cluster", "group", "topic", "cause"), _of_group),
        *_each(
            "change",
            [row | {"operation": row["event_type"]} for row in changes],
            ("cluster", "group", "topic", "operation", "target", "writer"),
            lambda mine: _added(mine, ("queues", "created", "removed", "failed", "messages_again", "messages_skipped")),
        ),
        *_each("run", _of_type(repairs, "run"), ("cluster", "broker_name"), _of_runs),
        *_each(
            "repaired", _of_type(repairs, "repaired"), ("cluster", "group", "topic"), lambda mine: _added(mine, REPAIR)
        ),
        *_each("locks", locks, ("cluster", "group", "topic"), _of_locks),
    ]


def _of_type(rows: Iterable[Row], event_type: str) -> list[Row]:
    return [row for row in rows if row["event_type"] == event_type]


def _each(
    kind: str, rows: Iterable[Row], keys: tuple[str, ...], told: Callable[[list[Row]], Answer]
) -> Iterable[Answer]:
    by_key: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        by_key[tuple(row.get(key) for key in keys)].append(row)
    for values, mine in by_key.items():
        times = [row["event_time"] for row in mine]
        yield {
            "kind": kind,
            **dict(zip(keys, values, strict=True)),
            "events": len(mine),
            "sets": sorted({row["broker_name"] for row in mine if "broker_name" in row}),
            "first": min(times),
            "last": max(times),
            **told(mine),
        }


def _added(rows: list[Row], names: Iterable[str]) -> Answer:
    return {name: sum(row.get(name, 0) for row in rows) for name in names}


def _longest(rows: list[Row]) -> int | None:
    return max((row["duration_ms"] for row in rows if "duration_ms" in row), default=None)


def _of_group(rows: list[Row]) -> Answer:
    sums = _added(rows, ("queues", "removed", "messages_again", "messages_skipped"))
    return sums | {"is_wanted": rows[0]["cause"] not in UNWANTED}


def _of_runs(rows: list[Row]) -> Answer:
    problems = sum(1 for row in rows if "problem" in row)
    return _added(rows, REPAIR) | {"problems": problems, "longest_ms": _longest(rows)}


def _of_locks(rows: list[Row]) -> Answer:
    replays, began, ended = (_of_type(rows, name) for name in ("replayed", "overlap_began", "overlap_ended"))
    return _added(replays, REPLAY) | {
        "replays": len(replays),
        "longest_ms": _longest(replays),
        "overlaps": len(began),
        "overlap_longest_ms": _longest(ended),
    }
