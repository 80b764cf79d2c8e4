"""A2 missed heartbeats: which beats were due, and which of them did not come."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from math import ceil
from statistics import median
from typing import Any, NamedTuple

from history.heartbeats import LATE_PERIODS
from history.schemas import INTERVAL_BINS
from plain.spans import Span, common, joined
from plain.uptime import Key, key_of
from plain.watching import Row, Rows, number, proven

Answer = dict[str, Any]

#: Ms between two beats of each kind as brokers promise them, where a broker is not configured otherwise.
PROMISED_MS = {"register": 30_000, "heartbeat": 1_000, "data_version": 1_000, "controller": 1_000}

#: An interval up to so many periods keeps the promise.
USUAL = Fraction(5, 4)
#: Intervals that are alike: a twentieth longer or shorter at most. Fewer than so many show no period of their own.
ALIKE, OFTEN = Fraction(1, 20), 20

#: A beat proves that its server was watching, as ticks do.
SIGNS = ("ns_tick", "ns_lifecycle", "heartbeat")

#: What a broker was told: its period by kind; None where it has the default.
Configured = Callable[[Key, str], int | None]


class Stream(NamedTuple):
    """Beats of one broker as one process of one server heard them."""

    source: str
    key: Key
    ns_id: str
    boot_id: str


class Silence(NamedTuple):
    """Time between two beats, and how many were due in it."""

    from_us: int
    to_us: int
    interval_ms: int


def heartbeat_gaps(rows: Rows, window: Span, configured: Configured = lambda key, kind: None) -> list[Answer]:
    """A2: one row for each broker by whom it beats to, of intervals that ended in the window and were watched."""
    seen = {ns_id: _watched(rows, ns_id) for ns_id in {row["ns_id"] for row in rows["ns_tick"]}}
    silences: dict[tuple[str, Key], list[Silence]] = defaultdict(list)
    kinds: dict[tuple[str, Key], set[str]] = defaultdict(set)
    for stream, heartbeats in _streams(rows, "heartbeat").items():
        place = (stream.source, stream.key)
        kinds[place] |= {row["kind"] for row in heartbeats}
        silences[place] += [
            silence
            for silence in _silences(heartbeats)
            if window[0] <= silence.to_us < window[1] and _is_seen(silence, seen.get(stream.ns_id, []))
        ]
    late: dict[tuple[str, Key], list[int]] = defaultdict(list)
    for stream, heartbeats in _streams(rows, "gap").items():
        late[stream.source, stream.key] += [row["interval_ms"] for row in heartbeats]
    summaries = _summaries(rows, window)
    for place, reported in summaries.items():
        kinds[place] |= {row["kind"] for row in reported}
    periods = {place: _promise(place[1], own, configured) for place, own in kinds.items()}
    found = [_answer(*place, silences[place], periods[place]) for place in silences if place not in summaries]
    found += [
        _summed(*place, [each.interval_ms for each in silences[place]], late[place], reported, periods[place])
        for place, reported in summaries.items()
    ]
    return [answer for answer in found if answer]


def _is_seen(silence: Silence, seen: list[Span]) -> bool:
    """Tell whether a server watched all of the time between two beats; of two at one moment there is none."""
    span = (silence.from_us, silence.to_us)
    return span[0] >= span[1] or common([span], seen) == [span]


def _watched(rows: Rows, ns_id: str) -> list[Span]:
    """Return when a server heard beats, written down or not: what it measured while it wrote nothing counts."""
    own = [row["event_time"] for family in SIGNS for row in rows[family] if row["ns_id"] == ns_id]
    pauses = [
        (max(at_us for at_us in own if at_us <= row["unobserved_from"]), row["event_time"])
        for row in rows["ns_lifecycle"]
        if (row["ns_id"], row["event_type"]) == (ns_id, "recording_resumed") and "unobserved_from" in row
    ]
    return joined([*proven(rows, ns_id, SIGNS), *pauses])


def _streams(rows: Rows, event_type: str) -> dict[Stream, list[Row]]:
    found = defaultdict(list)
    for row in sorted(rows["heartbeat"], key=number):
        if row["event_type"] == event_type:
            found[Stream(row["source"], key_of(row), row["ns_id"], row["boot_id"])].append(row)
    return found


class Promise(NamedTuple):
    """How often a broker should beat."""

    period_ms: int
    #: It is configured so, and not only taken to be.
    is_sure: bool


def _promise(key: Key, kinds: set[str], configured: Configured) -> Promise:
    """Return the shortest period of its kinds of beats."""
    reported = {kind: configured(key, kind) for kind in kinds}
    shortest = min(kinds, key=lambda kind: reported[kind] or PROMISED_MS[kind])
    return Promise(reported[shortest] or PROMISED_MS[shortest], reported[shortest] is not None)


def period_of(lengths: list[int], promise: Promise) -> int | None:
    """Return the period of a broker whose intervals were so long; None where they leave it open.

    What is promised is so unless intervals contradict it: too many that are longer, and too few that are as promised.
    They may be of another period then, if most of the longer ones are alike.
    """
    longer = sorted(each for each in lengths if each > USUAL * promise.period_ms)
    as_promised = _alike(lengths, promise.period_ms)
    if promise.is_sure or 2 * as_promised >= len(longer):
        return promise.period_ms
    other = quantile(longer, "0.5")
    as_other = _alike(lengths, other)
    # Each lost beat of a broker that is twice as quick makes one such interval; it has more of the usual ones.
    is_twice = _alike(lengths, Fraction(other, 2)) >= as_other
    seldom = len(lengths) < OFTEN or OFTEN * as_other < len(lengths)
    return None if seldom or is_twice or 2 * as_other <= len(longer) else other


def _alike(lengths: list[int], length: Fraction | int) -> int:
    return sum((1 - ALIKE) * length <= each <= (1 + ALIKE) * length for each in lengths)


def _silences(heartbeats: list[Row]) -> Iterator[Silence]:
    """Yield what lies between beats that followed each other."""
    for row in heartbeats:
        if "interval_ms" in row:
            from_us = row["event_time"] - row["interval_ms"] * 1000
            yield Silence(from_us, row["event_time"], row["interval_ms"])


def due_in(interval_ms: int, period_ms: int) -> int:
    """Return how many beats were due between two of them, and did not come: those that came late came.

    A beat that nobody waited for ends an interval early. So an extra one never makes others missed; of beats that are
    lost beside it at most one is forgiven.
    """
    late_ms = max(period_ms / 4, min(3 * period_ms / 4, 750))
    return max(0, ceil((interval_ms - late_ms) / period_ms) - 1)


def _answer(source: str, key: Key, silences: list[Silence], promise: Promise) -> Answer | None:
    lengths = sorted(silence.interval_ms for silence in silences)
    if not lengths:
        return None
    middle = quantile(lengths, "0.5")
    return {
        "source": source,
        **key._asdict(),
        "n": len(lengths),
        "median_ms": float(median(lengths)),
        "mean_ms": sum(lengths) / len(lengths),
        "p50_ms": middle,
        "p95_ms": quantile(lengths, "0.95"),
        "p99_ms": quantile(lengths, "0.99"),
        "p999_ms": quantile(lengths, "0.999"),
        "max_ms": lengths[-1],
        "mad_ms": quantile(sorted(abs(each - middle) for each in lengths), "0.5"),
        **_missed(lengths, promise),
    }


def quantile(ordered: list[int], share: str) -> int:
    """Return the least value of which so large a share is not longer."""
    return ordered[max(0, ceil(Fraction(share) * len(ordered)) - 1)]


def _summaries(rows: Rows, window: Span) -> dict[tuple[str, Key], list[Row]]:
    found = defaultdict(list)
    for row in rows["heartbeat_summary"]:
        if window[0] <= row["minute"] < window[1]:
            found[row["source"], key_of(row)].append(row)
    return found


def _summed(source: str, key: Key, single: list[int], late: list[int], reported: list[Row], promise: Promise) -> Answer:
    """Add up minutes and beats told singly. Those that came late have rows; of others the bin is known."""
    summed = len(single) + sum(row["n"] for row in reported)
    # A process that ends does not summarise its last minute.
    lengths = [*single, *late, *(ceil(each) for row in reported for each, n in _not_late(row) for _ in range(n))]
    sum_ms = sum(single) + sum(row["interval_sum_ms"] for row in reported)
    return {
        "source": source,
        **key._asdict(),
        "n": len(lengths),
        "mean_ms": sum_ms / summed,
        "max_ms": max([*single, *late, *(row["interval_max_ms"] for row in reported)]),
        **_missed(lengths, promise),
    }


def _missed(lengths: list[int], promise: Promise) -> Answer:
    """Return the period, and how many beats did not come by it; nothing is said of an unknown one."""
    period_ms = period_of(lengths, promise)
    if period_ms is None:
        return {"period_ms": None, "missed": None, "miss_ratio": None, "confidence": "low"}
    missed = sum(due_in(each, period_ms) for each in lengths)
    due = missed + len(lengths)
    return {"period_ms": float(period_ms), "missed": missed, "miss_ratio": missed / due, "confidence": sure(due)}


def _not_late(row: Row) -> Iterator[tuple[float, int]]:
    """Yield the middles of the bins of intervals that were not late, ms, and how many are in them."""
    edges = [0.0, *(edge for edge in INTERVAL_BINS if edge <= LATE_PERIODS)]
    for (low, high), n in zip(pairwise(edges), row["hist"], strict=False):
        yield (low + high) / 2 * row["period_ms"], n


def sure(due: int) -> str:
    """Return whether so many beats tell a share."""
    return "high" if due >= 100 else "low"
