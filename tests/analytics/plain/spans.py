"""Spans of time, Unix us: `(from, to)`, the end not included; lists of them are in order and do not touch."""

from collections.abc import Iterable

Span = tuple[int, int]


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return what any of them covers."""
    found: list[Span] = []
    for begin, end in sorted(each for each in spans if each[0] < each[1]):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def common(one: Iterable[Span], other: Iterable[Span]) -> list[Span]:
    """Return what both cover."""
    others = list(other)
    return joined((max(a, c), min(b, d)) for a, b in one for c, d in others)


def without(one: Iterable[Span], other: Iterable[Span]) -> list[Span]:
    """Return what the one covers and the other does not."""
    left = joined(one)
    for begin, end in joined(other):
        left = [piece for a, b in left for piece in ((a, min(b, begin)), (max(a, end), b)) if piece[0] < piece[1]]
    return left


def seconds(spans: Iterable[Span]) -> float:
    """Return how long they are together."""
    return sum(end - begin for begin, end in spans) / 1e6


def covers(spans: Iterable[Span], at_us: int) -> bool:
    """Tell whether a moment lies in one of them."""
    return any(begin <= at_us < end for begin, end in spans)


def clipped(spans: Iterable[Span], begin_us: int, end_us: int) -> list[Span]:
    """Return what of spans lies in a window."""
    return common(spans, [(begin_us, end_us)])
