"""Which lines pass, and that nothing that matters is lost."""

from serving.logging.limits import BUCKETS_MAX, BURST, REFILL_MS, TOTAL_BURST, TOTAL_REFILL_MS, LogLimits

FLAP = ("broker_expired", "broker-a")
FAULT = ("request_failed", "10.0.0.1")


def passed(limits, subject, times, now_ms=0):
    return sum(limits.passes(subject, {}, now_ms) for _ in range(times))


def test_a_burst_passes_and_the_rest_is_counted():
    limits = LogLimits()
    assert passed(limits, FLAP, 20) == BURST
    assert limits.suppressed == {"broker_expired": 20 - BURST}


def test_after_a_pause_one_line_passes_and_counts_those_that_did_not():
    limits = LogLimits()
    passed(limits, FLAP, 20)
    line = {}
    assert not limits.passes(FLAP, line, REFILL_MS - 1)
    assert limits.passes(FLAP, line, REFILL_MS)
    assert line == {"suppressed": 16}
    later = {}
    assert limits.passes(FLAP, later, 2 * REFILL_MS)
    assert later == {}


def test_one_broker_does_not_silence_another():
    limits = LogLimits()
    passed(limits, FLAP, 20)
    assert passed(limits, ("broker_expired", "broker-b"), 1) == 1
    assert passed(limits, ("broker_registered", "broker-a"), 1) == 1


def test_all_lines_together_are_limited_too():
    limits = LogLimits()
    many = TOTAL_BURST + 100
    assert sum(passed(limits, ("broker_expired", str(number)), 1) for number in range(many)) == TOTAL_BURST
    assert limits.suppressed["broker_expired"] == 100
    assert not limits.passes_total("kv_changed", 0)
    assert limits.suppressed["kv_changed"] == 1
    assert limits.passes_total("kv_changed", TOTAL_REFILL_MS)


def test_only_so_many_subjects_are_remembered():
    limits = LogLimits()
    for number in range(BUCKETS_MAX + 10):
        limits.passes(("broker_expired", number), {}, number * TOTAL_REFILL_MS)
    assert len(limits._full_ms) == BUCKETS_MAX


def test_errors_that_repeat_come_as_one_line_when_their_pause_is_over():
    limits = LogLimits()
    passes = [limits.error_passes(FAULT, {"opaque": number}, 0) for number in range(20)]
    assert passes == [True] * BURST + [False] * (20 - BURST)
    assert limits.due(REFILL_MS - 1) == []
    assert limits.due(REFILL_MS) == [{"opaque": 19, "suppressed": 20 - BURST - 1}]
    assert limits.suppressed == {"request_failed": 20 - BURST - 1}
    assert limits.due(10 * REFILL_MS) == []


def test_an_error_that_was_held_alone_comes_as_it_was():
    limits = LogLimits()
    for number in range(BURST + 1):
        limits.error_passes(FAULT, {"opaque": number}, 0)
    assert limits.due(REFILL_MS) == [{"opaque": BURST}]


def test_errors_are_not_subject_to_the_limit_of_all_lines():
    limits = LogLimits()
    for number in range(TOTAL_BURST + 1):
        limits.passes(("broker_expired", number), {}, 0)
    assert limits.error_passes(FAULT, {}, 0)


def test_too_many_held_errors_come_early():
    limits = LogLimits()
    for number in range(BUCKETS_MAX + 3):
        for _ in range(BURST + 1):
            limits.error_passes(("request_failed", number), {"of": number}, 0)
    assert limits.due(0) == [{"of": 0}, {"of": 1}, {"of": 2}]


def test_at_the_end_all_held_errors_come():
    limits = LogLimits()
    for number in range(BURST + 2):
        limits.error_passes(FAULT, {"opaque": number}, 0)
    assert limits.all_held() == [{"opaque": BURST + 1, "suppressed": 1}]
    assert limits.all_held() == []
