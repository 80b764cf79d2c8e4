"""A gap is from the last acknowledged send before a failure to the first after it."""

from controller.role_probe.events import ProbeGap
from controller.role_probe.service import AcknowledgedSends

USUAL_MS = 500
OLD, NEW = "10.0.0.1:10911", "10.0.0.2:10911"


def test_steady_acknowledgements_have_no_gap():
    sends = AcknowledgedSends()
    assert [sends.acknowledged(now_ms, OLD, USUAL_MS) for now_ms in (0, 200, 700)] == [None] * 3


def test_gap_with_failed_sends_counts_however_short_it_is():
    sends = AcknowledgedSends()
    sends.acknowledged(100, OLD, USUAL_MS)
    sends.failed("closed")
    sends.failed("refused")
    assert sends.acknowledged(400, NEW, USUAL_MS) == ProbeGap(300, 2, "refused", OLD, NEW)
    assert sends.acknowledged(600, NEW, USUAL_MS) is None


def test_send_that_only_takes_long_is_a_gap_without_failures():
    sends = AcknowledgedSends()
    sends.acknowledged(100, OLD, USUAL_MS)
    assert sends.acknowledged(601, OLD, USUAL_MS) == ProbeGap(501, 0, "", OLD, OLD)


def test_failures_before_the_first_acknowledgement_are_no_gap():
    sends = AcknowledgedSends()
    sends.failed("refused")
    assert sends.acknowledged(10_000, OLD, USUAL_MS) is None
    assert sends.acknowledged(10_200, OLD, USUAL_MS) is None


def test_nothing_is_measured_over_a_pause_of_this_process():
    sends = AcknowledgedSends()
    sends.acknowledged(100, OLD, USUAL_MS)
    sends.failed("timeout")
    sends.discard_before(5_000)
    assert sends.acknowledged(5_100, OLD, USUAL_MS) is None
    sends.discard_before(5_000)
    assert sends.acknowledged(6_000, OLD, USUAL_MS).gap_ms == 900
