import pytest

from controller.scaling.autoscaler.daily_peaks import DAY_MS, QUARTER_MS, DailyPeaks, TrafficForecast

MONDAY_MS = 1_772_409_600_000
NOON_MS = DAY_MS // 2


def peaks_of(days: int, noon_tps=lambda day: 1000.0) -> DailyPeaks:
    """So many days: 100 messages/s of 4 clients, at noon more of 12."""
    peaks = DailyPeaks()
    for day in range(days):
        for within_ms in range(0, DAY_MS, QUARTER_MS):
            at_noon = within_ms == NOON_MS
            peaks.add(MONDAY_MS + day * DAY_MS + within_ms, noon_tps(day) if at_noon else 100.0, 12 if at_noon else 4)
    return peaks


def test_peak_that_days_had_is_expected_half_an_hour_before():
    forecast = peaks_of(5).forecast(MONDAY_MS + 5 * DAY_MS + NOON_MS - 30 * 60_000)
    assert (forecast.expected_tps, forecast.expected_clients) == (1000.0, 12)


def test_peak_is_not_expected_long_before_nor_after_it():
    peaks = peaks_of(5)
    for hours in (10, 13):
        assert peaks.forecast(MONDAY_MS + 5 * DAY_MS + hours * 3_600_000).expected_tps == 100.0


def test_peak_of_one_wild_day_is_not_expected():
    peaks = peaks_of(5, lambda day: 9000.0 if day == 2 else 200.0)
    forecast = peaks.forecast(MONDAY_MS + 5 * DAY_MS + NOON_MS)
    assert forecast.expected_tps == 200.0
    assert forecast.peak_tps == 9000.0


def test_two_days_foretell_nothing():
    assert peaks_of(2).forecast(MONDAY_MS + 2 * DAY_MS + NOON_MS).expected_tps is None


@pytest.mark.parametrize(("days", "known"), [(3, 3), (7, 7), (12, 7)])
def test_last_seven_days_count(days, known):
    assert peaks_of(days).forecast(MONDAY_MS + days * DAY_MS).days == known


def test_day_that_was_hardly_sampled_is_no_evidence():
    peaks = DailyPeaks()
    peaks.add(MONDAY_MS, 5.0, 1)
    assert peaks.forecast(MONDAY_MS + DAY_MS).days == 0


def test_days_long_ago_are_left_out():
    assert peaks_of(7).forecast(MONDAY_MS + 30 * DAY_MS) == TrafficForecast()


def test_unknown_rate_is_no_zero():
    peaks = DailyPeaks()
    peaks.add(MONDAY_MS, None, 4)
    assert peaks.forecast(MONDAY_MS) == TrafficForecast()


def test_unknown_clients_stay_unknown():
    peaks = DailyPeaks()
    peaks.add(MONDAY_MS, 5.0, None)
    assert peaks.forecast(MONDAY_MS).peak_clients is None


def test_what_a_queue_carries_follows_new_measurements():
    peaks = DailyPeaks()
    peaks.measured_queue(100.0)
    assert peaks.forecast(MONDAY_MS).queue_tps == 100.0
    for _ in range(40):
        peaks.measured_queue(50.0)
    assert peaks.forecast(MONDAY_MS).queue_tps == pytest.approx(50.0, abs=0.1)


def test_clock_that_was_far_ahead_for_a_moment_does_not_end_the_memory():
    peaks = peaks_of(3)
    peaks.add(MONDAY_MS + 3650 * DAY_MS, 5.0, 1)
    for within_ms in range(0, DAY_MS, QUARTER_MS):
        peaks.add(MONDAY_MS + 3 * DAY_MS + within_ms, 700.0, 4)
    forecast = peaks.forecast(MONDAY_MS + 4 * DAY_MS)
    assert (forecast.days, forecast.peak_tps) == (4, 1000.0)
