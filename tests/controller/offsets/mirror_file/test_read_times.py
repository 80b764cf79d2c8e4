"""Until when offsets were the same for certain."""

from mirror_builders import SET

from controller.offsets.mirror_file.read_times import KNOWN_MS, PAUSE_MAX_MS, TIMES_MAX, ReadTimes

BEGIN_MS = 1_700_000_000_000
PERIOD_MS = 5_000


def read_times(*unix_ms, times=None):
    times = times or ReadTimes()
    for each in unix_ms:
        times.note(SET, BEGIN_MS + each, is_continued=True)
    return times


def last_until(times, moment_ms, now_ms=None):
    found = times.last_until(SET, BEGIN_MS + moment_ms, BEGIN_MS + (moment_ms if now_ms is None else now_ms))
    return None if found is None else found - BEGIN_MS


def test_set_that_is_read_regularly_was_read_a_period_before_any_moment_at_the_earliest():
    times = read_times(0, 5_000, 10_000, 15_000, 20_000)

    assert last_until(times, 12_345, now_ms=20_000) == 12_345 - PERIOD_MS
    assert last_until(times, 2_000, now_ms=20_000) == 0
    assert last_until(times, 60_000) == 20_000
    assert last_until(times, -1, now_ms=20_000) is None


def test_time_in_which_nobody_read_is_known():
    times = read_times(0, 5_000, 10_000 + PAUSE_MAX_MS, 15_000 + PAUSE_MAX_MS)

    assert last_until(times, 9_000 + PAUSE_MAX_MS, now_ms=40_000) == 5_000
    assert last_until(times, 12_000 + PAUSE_MAX_MS, now_ms=40_000) == 10_000 + PAUSE_MAX_MS


def test_pause_within_a_time_counts_for_all_of_it():
    times = read_times(0, 12_000, 17_000, 22_000)

    assert last_until(times, 20_000, now_ms=22_000) == 8_000


def test_changes_that_have_no_time_of_their_own_end_a_time():
    times = read_times(0, 5_000)
    times.note(SET, BEGIN_MS + 10_000, is_continued=False)

    assert last_until(times, 9_000, now_ms=10_000) == 5_000
    assert last_until(times, 11_000) == 10_000


def test_moments_whose_changes_may_be_merged_are_not_known():
    times = read_times(0, 5_000)

    assert last_until(times, 5_000, now_ms=5_000 + KNOWN_MS) == 5_000
    assert last_until(times, 5_000, now_ms=5_001 + KNOWN_MS) is None


def test_clock_that_is_set_back_leaves_no_moments_to_come():
    times = read_times(100_000, 105_000, 1_000)

    assert last_until(times, 102_000) == 1_000


def test_times_are_bounded_and_forgotten():
    times = read_times(*(number * 2 * PAUSE_MAX_MS for number in range(TIMES_MAX + 5)))

    assert last_until(times, 4 * 2 * PAUSE_MAX_MS + 1) is None
    assert last_until(times, 5 * 2 * PAUSE_MAX_MS + 1) == 5 * 2 * PAUSE_MAX_MS
    times.forget(SET)
    assert last_until(times, 5 * 2 * PAUSE_MAX_MS + 1) is None
