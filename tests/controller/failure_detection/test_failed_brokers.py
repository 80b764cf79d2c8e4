"""Which failed brokers are remembered, and which claims in their names are believed."""

import pytest
from controller_builders import SET, last_heartbeat

from controller.failure_detection import suspicion
from controller.failure_detection.heartbeats import BrokerKey, Source
from controller.failure_detection.suspicion import CLAIMED_MS, FailedBroker, FailedBrokers, ProbeOutcome

ONE, TWO = BrokerKey(SET, 1), BrokerKey(SET, 2)
HERE, THERE = Source(1, "10.0.0.1:5000"), Source(2, "10.0.0.2:5000")


@pytest.fixture
def failed():
    return FailedBrokers({ONE: FailedBroker(1_000, last_heartbeat(), ProbeOutcome.NO_ANSWER)})


def test_claim_is_believed_once_it_has_come_from_one_host_for_ten_seconds(failed):
    for now_ms in range(2_000, 2_001 + CLAIMED_MS, 1_000):
        assert not failed.take_claim(ONE, HERE, now_ms)
    assert failed.take_claim(ONE, HERE, 2_001 + CLAIMED_MS)


def test_claim_after_a_pause_or_from_another_host_counts_anew(failed):
    failed.take_claim(ONE, HERE, 2_000)
    assert not failed.take_claim(ONE, HERE, 2_001 + CLAIMED_MS)
    assert not failed.take_claim(ONE, THERE, 2_002 + CLAIMED_MS)


def test_claim_in_the_name_of_a_broker_that_has_not_failed_is_not_believed(failed):
    assert not failed.take_claim(TWO, HERE, 2_000)


def test_only_the_last_failed_brokers_are_remembered(failed, monkeypatch):
    monkeypatch.setattr(suspicion, "_FAILED_MAX", 1)
    failed.add(TWO, failed[ONE])
    assert failed.keys() == {TWO}


@pytest.mark.parametrize(
    ("outcome", "judged_ms", "stays"),
    [
        (ProbeOutcome.REFUSED, 9_000, True),
        (ProbeOutcome.NO_ANSWER, 9_000, False),
        (ProbeOutcome.NO_ANSWER, 7_999, True),
    ],
)
def test_returned_hosts_clear_only_brokers_that_failed_to_answer_since(failed, outcome, judged_ms, stays):
    failed[ONE] = FailedBroker(judged_ms, last_heartbeat(), outcome)
    failed.drop_unproven(8_000)
    assert (ONE in failed) is stays
