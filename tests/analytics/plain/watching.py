"""When each server was watching: ticks prove it, for the time since the tick before."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from plain.spans import Span, joined, without

Row = Mapping[str, Any]
Rows = Mapping[str, list[Row]]

#: What a server records of itself is at most so far apart while it watches.
UNOBSERVED_AFTER_US = 25_000_000


class Boot(NamedTuple):
    """A process of a server."""

    ns_id: str
    boot_id: str
    start_us: int
    #: The last moment at which it is known to have watched.
    end_us: int


def number(row: Row) -> tuple[int, int]:
    """Return in which order a server's rows were written: by the start of its process, then by number."""
    _, boot_ms, seq = row["event_id"].rsplit("-", 2)
    return int(boot_ms), int(seq)


def servers(rows: Rows, source: str = "namesrv") -> list[str]:
    """Return the names of all servers of a kind that told anything of themselves."""
    own = [*rows["ns_tick"], *rows["ns_lifecycle"]]
    return sorted({row["ns_id"] for row in own if row["source"] == source})


def boots(rows: Rows, ns_id: str) -> list[Boot]:
    """Return the processes of a server in order; a process begins with the first that it tells of itself."""
    times = defaultdict(list)
    for row in [*rows["ns_tick"], *rows["ns_lifecycle"]]:
        if row["ns_id"] == ns_id:
            times[row["boot_id"]].append(row["event_time"])
    found = [Boot(ns_id, boot_id, min(each), max(each)) for boot_id, each in times.items()]
    return sorted(found, key=lambda boot: boot.start_us)


def watched(rows: Rows, ns_id: str, signs: Sequence[str] = ("ns_tick", "ns_lifecycle")) -> list[Span]:
    """Return when a server was watching and recorded what it saw, as these families prove."""
    lost = [
        (row["unobserved_from"], row["event_time"])
        for row in rows["ns_lifecycle"]
        # A process that follows another one knows of its ticks only, and any row of it is a sign.
        if row["ns_id"] == ns_id and "unobserved_from" in row and row["event_type"] != "started"
    ]
    return without(proven(rows, ns_id, signs), lost)


def proven(rows: Rows, ns_id: str, signs: Sequence[str]) -> list[Span]:
    """Return when a server was there, whether or not it recorded all that it saw."""
    return joined(span for boot in boots(rows, ns_id) for span in _proven(rows, boot, signs))


def _proven(rows: Rows, boot: Boot, signs: Sequence[str]) -> Iterable[Span]:
    """Yield the time between any two signs of one process that are near each other."""
    own = [row["event_time"] for family in signs for row in rows[family] if row["boot_id"] == boot.boot_id]
    moments = sorted(own)
    for before, after in pairwise(moments):
        if after - before <= UNOBSERVED_AFTER_US:
            yield before, after
