"""How old moments are where the clock leaps."""

from controller.offsets.mirror_file.clock_leaps import LEAP_MS, LEAPS_MAX, ClockLeap, ClockLeaps, ClockReading
from controller.offsets.mirror_file.thinning import HOUR_MS, KEPT_MS

DAY_MS = 24 * HOUR_MS
UNIX_MS = 1_800_000_000_000


def leapt(*steps, leaps=None):
    """Return the leaps after rounds of so many monotonic and Unix ms each, and what the clock shows then."""
    leaps, now_ms, unix_ms = leaps or ClockLeaps(), 0, UNIX_MS
    for passed_ms, shown_ms in steps:
        last = ClockReading(now_ms, unix_ms)
        now_ms, unix_ms = now_ms + passed_ms, unix_ms + shown_ms
        leaps = leaps.passed(last, ClockReading(now_ms, unix_ms))
    return leaps, unix_ms


def test_clock_that_goes_on_or_is_corrected_a_little_has_no_leap():
    leaps, unix_ms = leapt((1000, 1000), (1000, LEAP_MS), (5 * DAY_MS, 5 * DAY_MS), (1000, -5 * DAY_MS))
    assert leaps.leaps == ()
    assert leaps.age_ms(unix_ms - 5000, unix_ms) == 5000


def test_moments_before_a_leap_are_as_old_as_without_it_and_later_ones_as_the_clock_shows():
    leaps, unix_ms = leapt((1000, 30 * DAY_MS), (5000, 5000))
    assert leaps.age_ms(UNIX_MS, unix_ms) == 6000
    assert leaps.age_ms(UNIX_MS + 30 * DAY_MS, unix_ms) == 5000
    assert leaps.old_before(unix_ms) == UNIX_MS + 6000 - KEPT_MS
    assert leaps.age_ms(unix_ms + 7, unix_ms) == 0


def test_leaps_add_up():
    leaps, unix_ms = leapt((1000, 30 * DAY_MS), (1000, 20 * DAY_MS))
    assert leaps.age_ms(UNIX_MS, unix_ms) == 2000
    assert leaps.age_ms(UNIX_MS + 30 * DAY_MS, unix_ms) == 1000


def test_time_in_which_no_manager_ran_makes_no_moment_older():
    leaps = ClockLeaps().passed(ClockReading(None, UNIX_MS), ClockReading(7, UNIX_MS + 20 * DAY_MS))
    assert leaps.age_ms(UNIX_MS, UNIX_MS + 20 * DAY_MS) == 0


def test_clock_that_is_corrected_takes_its_leap_back():
    leaps, unix_ms = leapt((1000, 30 * DAY_MS), (1000, 1000 - 30 * DAY_MS))
    assert leaps.age_ms(UNIX_MS - 5000, unix_ms) <= 7000
    leaps, unix_ms = leapt((1000, 30 * DAY_MS), (1000, -60 * DAY_MS))
    assert leaps.leaps == ()


def test_leap_is_forgotten_once_all_before_it_is_old():
    leaps, unix_ms = leapt((1000, 30 * DAY_MS), (KEPT_MS + 2000, KEPT_MS + 2000))
    assert leaps.leaps == ()
    assert leaps.old_before(unix_ms) == unix_ms - KEPT_MS


def test_of_too_many_leaps_the_oldest_ones_become_one_and_nothing_grows_older():
    leaps, unix_ms = leapt(*[(1000, 2 * DAY_MS)] * (LEAPS_MAX + 3))
    assert len(leaps.leaps) == LEAPS_MAX
    assert leaps.age_ms(UNIX_MS, unix_ms) == 1000 * (LEAPS_MAX + 3)


def test_nothing_is_old_before_the_first_span_is_old_whole():
    leaps = ClockLeaps((ClockLeap(UNIX_MS, 30 * DAY_MS),))
    assert leaps.old_before(UNIX_MS + 31 * DAY_MS) == UNIX_MS + DAY_MS - KEPT_MS
