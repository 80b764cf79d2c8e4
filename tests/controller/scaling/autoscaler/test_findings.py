from controller.scaling.autoscaler.findings import (
    FINDINGS_MAX,
    GAP_MS_MAX,
    OLDER_RATES_MAX,
    FindingKey,
    FindingKind,
    SignalWindow,
)

KEY = FindingKey(FindingKind.SLOW_LISTENER, "billing")
STEP_MS = 15_000


def window_of(*seen: bool, step_ms: int = STEP_MS) -> SignalWindow:
    window = SignalWindow()
    for number, each in enumerate(seen):
        window.add(number * step_ms, [KEY] if each else [], 100.0)
    return window


def test_finding_holds_once_it_was_seen_for_the_window():
    assert not window_of(*[True] * 4).holds(KEY, 60_000)
    assert window_of(*[True] * 5).holds(KEY, 60_000)


def test_two_samples_prove_nothing_however_long_apart():
    assert not window_of(True, True, step_ms=60_000).holds(KEY, 60_000)


def test_finding_that_comes_and_goes_never_holds():
    assert not window_of(*[True, False] * 50, True).holds(KEY, 60_000)


def test_one_sample_without_it_does_not_end_a_long_finding():
    window = window_of(*[True] * 10, False)
    assert not window.holds(KEY, 60_000)
    window.add(11 * STEP_MS, [KEY], 100.0)
    assert window.holds(KEY, 60_000)


def test_old_samples_do_not_keep_a_finding_alive():
    assert not window_of(*[True] * 1000, *[False] * 15, True).holds(KEY, 60_000)


def test_everything_begins_anew_after_a_gap():
    window = window_of(*[True] * 5)
    window.add(4 * STEP_MS + GAP_MS_MAX + 1, [KEY], 100.0)
    assert not window.holds(KEY, 60_000)


def test_everything_begins_anew_when_the_clock_was_set_back():
    window = window_of(*[True] * 5)
    window.add(0, [KEY], 100.0)
    assert not window.holds(KEY, 0)


def slope_of(*rates: float) -> float:
    window = SignalWindow()
    for number, rate in enumerate(rates):
        window.add(number * STEP_MS, [], rate)
    return window.put_slope()


def test_ramp_above_all_older_rates_has_a_slope():
    assert slope_of(*[100.0] * 5, 100.0, 145.0, 190.0, 235.0, 280.0) == 3.0


def test_ramp_that_only_returns_to_an_older_rate_has_none():
    assert slope_of(300.0, *[100.0] * 5, 100.0, 145.0, 190.0, 235.0, 280.0) == 0.0


def test_first_rates_have_no_slope():
    assert slope_of(100.0, 145.0, 190.0, 235.0, 280.0) == 0.0


def test_rates_on_no_line_have_no_slope():
    assert slope_of(*[100.0] * 5, 400.0, 110.0, 390.0, 120.0, 380.0) == 0.0


def test_window_is_bounded():
    window = SignalWindow()
    for number in range(1000):
        window.add(number * STEP_MS, [KEY._replace(subject=f"group-{number}-{each}") for each in range(100)], 100.0)
    assert len(window._runs) <= FINDINGS_MAX
    assert len(window._older) <= OLDER_RATES_MAX
