"""A2 missed heartbeats: which beats were due, and which of them did not come."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil
from statistics import median
from typing import Any, NamedTuple

from plain.lives import Key, key_of
from plain.spans import Span, common, joined
from plain.watching import Row, Rows, number, watched

Answer = dict[str, Any]

#: Ms between two beats of each kind as brokers promise them, where a broker is not configured otherwise.
PROMISED_MS = {"register": 30_000, "heartbeat": 1_000, "data_version": 1_000, "controller": 1_000}

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
    missed: int

    @property
    def interval_ms(self) -> int:
        """How long it was."""
        return (self.to_us - self.from_us) // 1000


def heartbeat_gaps(rows: Rows, window: Span, configured: Configured = lambda key, kind: None) -> list[Answer]:
    """A2: one row for each broker by whom it beats to, of intervals that ended in the window and were watched."""
    seen = {ns_id: _heard(rows, ns_id) for ns_id in {row["ns_id"] for row in rows["ns_tick"]}}
    silences: dict[tuple[str, Key], list[Silence]] = defaultdict(list)
    periods: dict[tuple[str, Key], int] = {}
    for stream, beats in _streams(rows).items():
        place = (stream.source, stream.key)
        period_ms = periods[place] = _period_ms(stream.key, beats, configured)
        silences[place] += [
            silence
            for silence in _silences(beats, period_ms)
            if window[0] <= silence.to_us < window[1]
            and common([(silence.from_us, silence.to_us)], seen.get(stream.ns_id, [])) == [silence[:2]]
        ]
    summaries = _summaries(rows, window)
    found = [_answer(*place, silences[place], periods[place]) for place in silences if place not in summaries]
    found += [_summed(*place, silences[place], told) for place, told in summaries.items()]
    return [answer for answer in found if answer]


def _heard(rows: Rows, ns_id: str) -> list[Span]:
    """Return when a server heard beats, written down or not: what it measured while it wrote nothing counts."""
    pauses = [
        (row["unobserved_from"], row["event_time"])
        for row in rows["ns_lifecycle"]
        if (row["ns_id"], row["event_type"]) == (ns_id, "recording_resumed") and "unobserved_from" in row
    ]
    return joined([*watched(rows, ns_id, SIGNS), *pauses])


def _streams(rows: Rows) -> dict[Stream, list[Row]]:
    found = defaultdict(list)
    for row in sorted(rows["heartbeat"], key=number):
        if row["event_type"] == "beat":
            found[Stream(row["source"], key_of(row), row["ns_id"], row["boot_id"])].append(row)
    return found


def _period_ms(key: Key, beats: list[Row], configured: Configured) -> int:
    """Return the shortest period that its kinds of beats promise."""
    kinds = {row["kind"] for row in beats}
    return min(configured(key, kind) or PROMISED_MS[kind] for kind in kinds)


def _silences(beats: list[Row], period_ms: int) -> Iterator[Silence]:
    """Yield what lies between beats, with what was due in it.

    Beats are due a period apart, from the first one on. One counts for the time that it is nearest to, so a second one
    there is an extra one. The beat that is on time, or a period after another one, sets the time of the next: clocks do
    not run alike, and a process that was restarted beats at other times.
    """
    due_us: int | None = None
    heard_us: int | None = None
    period_us = period_ms * 1000
    for row in beats:
        at_us = row["event_time"]
        if "interval_ms" not in row:
            due_us, heard_us = at_us + period_us, at_us
            continue
        from_us = at_us - row["interval_ms"] * 1000
        if heard_us is None or abs(from_us - heard_us) > 2_000:
            # Beats before it were not recorded: nothing is known of them but when the last one came.
            due_us, heard_us = from_us + period_us, from_us
        assert due_us is not None, "there is a beat before it"
        missed = 0
        while due_us + period_us // 2 < at_us:
            missed += heard_us < due_us - period_us // 2
            due_us += period_us
        if min(abs(at_us - due_us), abs(at_us - heard_us - period_us)) <= period_us // 10:
            due_us = at_us + period_us
        yield Silence(heard_us, at_us, missed)
        heard_us = at_us


def _answer(source: str, key: Key, silences: list[Silence], period_ms: int) -> Answer | None:
    lengths = sorted(silence.interval_ms for silence in silences)
    if not lengths:
        return None
    middle = quantile(lengths, "0.5")
    missed = sum(silence.missed for silence in silences)
    return {
        "source": source,
        **key._asdict(),
        "n": len(lengths),
        "period_ms": float(period_ms),
        "median_ms": float(median(lengths)),
        "mean_ms": sum(lengths) / len(lengths),
        "p50_ms": middle,
        "p95_ms": quantile(lengths, "0.95"),
        "p99_ms": quantile(lengths, "0.99"),
        "p999_ms": quantile(lengths, "0.999"),
        "max_ms": lengths[-1],
        "mad_ms": quantile(sorted(abs(each - middle) for each in lengths), "0.5"),
        "missed": missed,
        "miss_ratio": missed / (missed + len(lengths)),
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


def _summed(source: str, key: Key, single: list[Silence], told: list[Row]) -> Answer:
    """Add up minutes and beats told singly: the server judged those of minutes; how they lie in bins is left out."""
    n = len(single) + sum(row["n"] for row in told)
    missed = sum(each.missed for each in single) + sum(row["missed"] for row in told)
    sum_ms = sum(each.interval_ms for each in single) + sum(row["interval_sum_ms"] for row in told)
    return {
        "source": source,
        **key._asdict(),
        "n": n,
        "mean_ms": sum_ms / n,
        "max_ms": max([each.interval_ms for each in single] + [row["interval_max_ms"] for row in told]),
        "missed": missed,
        "miss_ratio": missed / (missed + n),
    }
