"""Silent brokers are looked for at their deadlines, and not before they could be heard after a standstill."""

from namesrv.core.departure import ExpirySchedule

INTERVAL_MS = 10_000


def run(expiry, *, to_ms, earliest_ms, held=(), from_ms=0):
    """Return when it looks from `from_ms` to `to_ms`; `held` is (from, to) of standstills."""
    now_ms, looks = from_ms, []
    while now_ms < to_ms:
        now_ms += expiry.wait_ms(now_ms, earliest_ms, INTERVAL_MS)
        for begin_ms, end_ms in held:
            if begin_ms <= now_ms < end_ms:
                now_ms = end_ms
        pause_ms = expiry.pause_ms(now_ms, INTERVAL_MS)
        if pause_ms is None and expiry.is_due(now_ms, earliest_ms, INTERVAL_MS):
            looks.append(now_ms)
    return looks


def test_scan_is_due_a_millisecond_after_the_earliest_deadline():
    assert run(ExpirySchedule(0), to_ms=4_322, earliest_ms=4_321) == [4_322]


def test_an_earlier_deadline_is_seen_within_a_second():
    expiry = ExpirySchedule(0)
    assert expiry.wait_ms(0, 120_000, INTERVAL_MS) == 1_000
    assert expiry.wait_ms(1_000, 1_500, INTERVAL_MS) == 501


def test_scan_is_due_at_each_interval_without_deadlines():
    assert run(ExpirySchedule(0), to_ms=30_000, earliest_ms=None) == [10_000, 20_000, 30_000]
    assert run(ExpirySchedule(0), to_ms=20_000, earliest_ms=10**9) == [10_000, 20_000]


def test_scans_are_at_least_100_ms_apart():
    assert len(run(ExpirySchedule(0), to_ms=1_000, earliest_ms=0)) == 10


def test_scan_is_suspended_for_one_interval_after_a_process_pause():
    assert run(ExpirySchedule(0), to_ms=151_000, earliest_ms=500, held=[(400, 140_000)]) == [
        150_000,
        150_100,
        *range(150_200, 151_001, 100),
    ]


def test_second_process_pause_suspends_scans_for_another_interval():
    looks = run(ExpirySchedule(0), to_ms=60_000, earliest_ms=500, held=[(400, 20_000), (22_000, 40_000)])
    assert looks[0] == 50_000


def test_scans_resume_after_five_process_pauses_in_a_row():
    held = [(begin_ms, begin_ms + 2_500) for begin_ms in range(0, 200_000, 3_000)]
    looks = run(ExpirySchedule(0), to_ms=200_000, earliest_ms=-1, held=held)
    assert looks
    assert looks[0] < 40_000


def test_wait_that_ends_a_little_late_is_no_process_pause():
    expiry = ExpirySchedule(0)
    expiry.wait_ms(0, 500, INTERVAL_MS)
    assert expiry.pause_ms(1_501, INTERVAL_MS) is None
    assert expiry.pause_ms(1_502, INTERVAL_MS) == 1_001
