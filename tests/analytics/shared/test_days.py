"""Days and hours of UTC, and the hours and files that a span needs."""

from datetime import UTC, datetime, timedelta, timezone

from analytics.ingest.curated import all_there, hours_of, paths_of
from analytics.ingest.manifest import WHOLE_DAY, Day, Hour
from analytics.shared.days import (
    DAY_US,
    HOUR_US,
    date_at,
    earlier,
    hour_at,
    is_whole_day,
    iso,
    joined,
    moment,
    span_of,
    spans_by_day,
    unix_us,
)
from analytics.shared.job import Span

DATE, NEXT = "2026-03-02", "2026-03-03"
START_US = span_of(DATE).start_us


def test_times_are_exact_to_the_microsecond():
    at = datetime(2026, 3, 2, 5, 59, 59, 123457, UTC)
    assert unix_us(at) - START_US == 21_599_123_457
    assert moment(unix_us(at)) == at
    assert iso(unix_us(at)) == "2026-03-02T05:59:59.123457Z"
    assert unix_us(at.astimezone(timezone(timedelta(hours=-5)))) == unix_us(at.replace(tzinfo=None)) == unix_us(at)


def test_a_span_is_cut_at_midnights():
    span = Span(START_US - HOUR_US, START_US + DAY_US + 1)
    cut = spans_by_day(span)
    assert [(each.start_us - START_US, each.end_us - START_US) for each in cut] == [
        (-HOUR_US, 0),
        (0, DAY_US),
        (DAY_US, DAY_US + 1),
    ]
    assert [is_whole_day(each) for each in cut] == [False, True, False]
    assert not is_whole_day(Span(START_US + 1, START_US + 1 + DAY_US))


def test_days_without_one_between_them_are_one_span():
    first, second, third, fourth = (Span(START_US + day * DAY_US, START_US + (day + 1) * DAY_US) for day in range(4))
    assert joined([first, second, fourth]) == [Span(first.start_us, second.end_us), fourth]
    assert joined(spans_by_day(Span(START_US + 1, third.end_us))) == [Span(START_US + 1, third.end_us)]
    assert joined([]) == []


def test_days_have_names():
    assert (date_at(START_US - 1), hour_at(START_US - 1)) == ("2026-03-01", "2026-03-01/23")
    assert earlier(DATE, 2) == "2026-02-28"


def a_history(**units):
    return {
        DATE: Day(
            hours={f"{hour:02}": Hour(rows=1) for hour in range(24)},
            stored=units or {f"{hour:02}": (f"{DATE}-{hour:02}",) for hour in range(24)},
        )
    }


def test_a_span_needs_its_hours_and_the_one_before_whose_files_may_run_over():
    span = Span(START_US + 5 * HOUR_US, START_US + 7 * HOUR_US)
    assert paths_of(a_history(), span) == [f"{DATE}-04", f"{DATE}-05", f"{DATE}-06"]
    assert list(hours_of(a_history(), span)) == [f"{DATE}/04", f"{DATE}/05", f"{DATE}/06"]
    within = Span(START_US + 5 * HOUR_US + 1, START_US + 5 * HOUR_US + 2)
    assert paths_of(a_history(), within) == [f"{DATE}-04", f"{DATE}-05"]
    assert paths_of(a_history(), span_of(NEXT)) == [f"{DATE}-23"]
    assert paths_of(a_history(), span_of("2026-03-04")) == []


def test_of_a_compacted_day_all_is_needed():
    day = a_history(**{WHOLE_DAY: ("whole",), "07": ("late",)})
    assert paths_of(day, Span(START_US, START_US + 1)) == ["whole"]
    assert paths_of(day, span_of(DATE)) == ["late", "whole"]


def test_a_span_is_there_as_long_as_no_day_of_it_was_forgotten():
    days = a_history()
    assert all_there(days, span_of(NEXT))
    forgotten = {DATE: days[DATE].emptied(), NEXT: Day()}
    assert not all_there(forgotten, span_of(DATE))
    assert not all_there(forgotten, span_of(NEXT))
    assert all_there(forgotten, Span(span_of(NEXT).start_us + 2 * HOUR_US, span_of(NEXT).end_us))
