"""Days and hours of the UTC calendar, as the history is divided. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from analytics.shared.job import Span

MINUTE_US: Final = 60_000_000
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(at_us: int) -> datetime:
    """Return a time in Unix us as a time of day, exactly."""
    return _EPOCH + timedelta(microseconds=at_us)


def unix_us(at: datetime) -> int:
    """Return a time of day in Unix us, exactly; without a zone it is UTC."""
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def iso(at_us: int) -> str:
    """Return a time in Unix us as people and JSON write it."""
    return f"{moment(at_us):%Y-%m-%dT%H:%M:%S.%fZ}"


def date_at(at_us: int) -> str:
    """Return the day of a moment, `2026-11-21`."""
    return f"{moment(at_us):%Y-%m-%d}"


def hour_at(at_us: int) -> str:
    """Return the hour of a moment, `2026-11-21/05`."""
    return f"{moment(at_us):%Y-%m-%d/%H}"


def span_of(date: str) -> Span:
    """Return a whole day."""
    start = unix_us(datetime.fromisoformat(date))
    return Span(start, start + DAY_US)


def spans_by_day(span: Span) -> list[Span]:
    """Return the span cut at each midnight."""
    cut = []
    start = span.start_us
    while start < span.end_us:
        end = min(span.end_us, (start // DAY_US + 1) * DAY_US)
        cut.append(Span(start, end))
        start = end
    return cut


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, with those that follow each other without a gap as one."""
    found: list[Span] = []
    for span in spans:
        if found and found[-1].end_us == span.start_us:
            found[-1] = found[-1]._replace(end_us=span.end_us)
        else:
            found.append(span)
    return found


def is_whole_day(span: Span) -> bool:
    """Return whether a span is one day from midnight to midnight."""
    return span.start_us % DAY_US == 0 and span.end_us - span.start_us == DAY_US


def earlier(date: str, days: int) -> str:
    """Return the day so many days before."""
    return date_at(span_of(date).start_us - days * DAY_US)
