"""A1 availability, A3 flapping, A14 correlated failures: three questions about when brokers were down."""

from itertools import combinations
from math import exp, lgamma, log
from typing import Any

from plain.spans import Span, clipped, seconds
from plain.uptime import Key, lives
from plain.watching import Rows

Answer = dict[str, Any]

FLAP_DECAY_S = 3600
FLAGGED_ABOVE = 3
CLEARED_BELOW = 1.5
SURE = 0.95
MINUTE_US = 60_000_000
#: Brokers that are less alike are not told.
JACCARD_LEAST = 0.1


def availability(rows: Rows, window: Span) -> list[Answer]:
    """A1: one row for each broker of which anything is known in the window."""
    return [found for key, life in lives(rows, window[1]).items() if (found := _available(key, life, window))]


def _available(key: Key, life: Any, window: Span) -> Answer | None:
    up_s = seconds(clipped(life.up, *window))
    lengths = [(outage, seconds(clipped(outage.spans, *window))) for outage in life.outages]
    planned_s = sum(length for outage, length in lengths if outage.planned)
    unplanned_s = sum(length for outage, length in lengths if not outage.planned)
    least_s = sum(seconds(clipped(outage.sure, *window)) for outage in life.outages if not outage.planned)
    down_s = planned_s + unplanned_s
    if not up_s + down_s:
        return None
    began = [
        length
        for outage, length in lengths
        if not outage.planned and outage.sure and window[0] <= outage.from_us < window[1]
    ]
    failures = len(began)
    return {
        **key._asdict(),
        "observed_s": up_s + down_s,
        "up_s": up_s,
        "planned_s": planned_s,
        "unplanned_s": unplanned_s,
        "unplanned_least_s": least_s,
        "failures": failures,
        "mtbf_s": up_s / failures if failures else None,
        "mttr_s": sum(began) / failures if failures else None,
        "availability": up_s / (up_s + down_s),
        "mtbf_lower_s": up_s / _mean_with_at_most(failures, 1 - SURE),
        "mtbf_upper_s": up_s / _mean_with_at_most(failures - 1, SURE) if failures else None,
    }


def _mean_with_at_most(count: int, chance: float) -> float:
    """Return the mean of which a Poisson process brings at most so many with this chance."""
    low, high = 0.0, 10.0 * (count + 5)
    for _ in range(200):
        middle = (low + high) / 2
        at_most = sum(exp(k * log(middle) - middle - lgamma(k + 1)) for k in range(count + 1))
        low, high = (middle, high) if at_most > chance else (low, middle)
    return low


def flapping(rows: Rows, window: Span) -> list[Answer]:
    """A3: one row for each broker that went down in the window."""
    found = []
    for key, life in lives(rows, window[1]).items():
        downs = sorted(outage.from_us for outage in life.outages if outage.sure)
        within = [at_us for at_us in downs if window[0] <= at_us < window[1]]
        if within:
            found.append({**key._asdict(), "transitions": len(within), **_scores(downs, window)})
    return found


def _scores(downs: list[int], window: Span) -> Answer:
    """Follow the score: each time down adds 1, and with time it decays."""
    score, before_us = 0.0, downs[0]
    peak, peak_us = 0.0, 0
    flagged_since: int | None = None
    flagged: list[Span] = []
    for at_us in downs:
        if flagged_since is not None and (cleared_us := _cleared(before_us, score)) <= at_us:
            flagged.append((flagged_since, cleared_us))
            flagged_since = None
        score = score * exp((before_us - at_us) / 1e6 / FLAP_DECAY_S) + 1
        before_us = at_us
        if at_us >= window[0] and score > peak:
            peak, peak_us = score, at_us
        if score > FLAGGED_ABOVE and flagged_since is None:
            flagged_since = at_us
    if flagged_since is not None:
        flagged.append((flagged_since, _cleared(before_us, score)))
    return {
        "peak": peak,
        "peak_time": peak_us,
        "time_flagged_s": seconds(clipped(flagged, *window)),
        "flagged_at_end": any(begin < window[1] <= end for begin, end in flagged),
    }


def _cleared(at_us: int, score: float) -> int:
    """Return when a score has fallen to where the flag is taken off."""
    return at_us + int(FLAP_DECAY_S * 1e6 * log(score / CLEARED_BELOW))


def correlated_failures(rows: Rows, window: Span) -> list[Answer]:
    """A14: one row for each two brokers that were down together, not as planned."""
    minutes = {}
    for key, life in lives(rows, window[1]).items():
        spans = [span for outage in life.outages if not outage.planned for span in clipped(outage.spans, *window)]
        minutes[key] = {minute for begin, end in spans for minute in _minutes(begin, end)}
    found = []
    for one, other in combinations(sorted(minutes, key=_name), 2):
        joint = minutes[one] & minutes[other]
        jaccard = len(joint) / len(minutes[one] | minutes[other]) if joint else 0
        if jaccard >= JACCARD_LEAST:
            found.append(
                {
                    "cluster": one.cluster,
                    "broker_a": _name(one),
                    "broker_b": _name(other),
                    "cluster_b": other.cluster,
                    "jaccard": jaccard,
                    "joint_minutes": len(joint),
                    "joint_outages": sum(minute - 1 not in joint for minute in joint),
                    "minutes_a": len(minutes[one]),
                    "minutes_b": len(minutes[other]),
                }
            )
    return found


def _minutes(begin_us: int, end_us: int) -> range:
    """Return the minutes that a span touches."""
    return range(begin_us // MINUTE_US, (end_us - 1) // MINUTE_US + 1)


def _name(key: Key) -> str:
    return f"{key.broker_name}:{key.broker_id}"
