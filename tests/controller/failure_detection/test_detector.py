"""Which brokers fail, and which probes precede that: scenarios with explicit times.

Brokers beat each second with a heartbeat timeout of 10 s and are suspect after 3 s without one. Each scenario begins
with a controller that started at 0 and detects failures. It gets heartbeats of a broker of another set all the while,
except in scenarios without other brokers.
"""

import pytest
from controller_builders import SET, an_address, last_heartbeat
from hypothesis import given
from hypothesis import strategies as st

from controller.failure_detection import suspicion
from controller.failure_detection.detector import FailureDetector
from controller.failure_detection.heartbeats import BrokerKey, HeartbeatTable
from controller.failure_detection.hosts import HostLiveness
from controller.failure_detection.suspicion import (
    ANSWER_MS,
    BrokerFailure,
    HostsChangeKind,
    Probe,
    ProbeOutcome,
    SuspicionReason,
)

ONE, TWO, THREE = BrokerKey(SET, 1), BrokerKey(SET, 2), BrokerKey(SET, 3)
SUSPECT_MS = 3_000
OLD, NEW = 7, 8
#: A broker of another set, over a connection of its own.
ELSEWHERE = BrokerKey("elsewhere", 1)
#: Brokers of the scenarios share a host; `test_hosts.py` is about more of them.
A_HOST = "10.0.0.10:30911"


def nobody(_):
    return False


class DetectionScenario:
    """A failure detector, and what happens to it at which time."""

    def __init__(self, *, has_other_brokers=True):
        self.live, self.masters = HeartbeatTable(), set()
        self.detector = FailureDetector(self.live, HostLiveness(nobody), lambda key: key in self.masters, 0)
        self.failures = []
        self.has_other_brokers = has_other_brokers
        self.last_contact_ms = 0
        self.known = set()

    def other_heartbeats(self, now_ms):
        """Record a heartbeat of the other set each second."""
        while self.has_other_brokers and self.last_contact_ms < now_ms:
            self.last_contact_ms = min(self.last_contact_ms + 1_000, now_ms)
            self.detector.heartbeat(
                ELSEWHERE, last_heartbeat(last_contact_ms=self.last_contact_ms, connection_id=99), "10.0.0.99:30911"
            )

    def heartbeat(self, now_ms, *keys, connection_id=OLD, **values):
        self.other_heartbeats(now_ms)
        for key in keys:
            is_new = key not in self.known and self.live.get(key) is None
            self.known.add(key)
            # How often a broker beats is known from two heartbeats on.
            for last_contact_ms in (now_ms - 1_000, now_ms) if is_new else (now_ms,):
                row = last_heartbeat(
                    last_contact_ms=last_contact_ms,
                    connection_id=connection_id,
                    address=an_address(key.broker_id),
                    **values,
                )
                self.detector.heartbeat(key, row, A_HOST)

    def scan(self, now_ms):
        """Return the probes that are due."""
        self.other_heartbeats(now_ms)
        probes, failed = self.detector.look(now_ms, SUSPECT_MS)
        self.failures += failed
        return probes

    def connection_closed(self, now_ms, connection_id=OLD):
        return self.detector.connection_lost(connection_id, now_ms)

    def probed(self, now_ms, outcome, key=ONE):
        self.failures += self.detector.probed(key, outcome, now_ms)

    def trusted(self, now_ms):
        return set(self.detector.trusted(SET, now_ms))

    @property
    def failure_times(self):
        return [(failed.key, failed.why, failed.judged_ms) for failed in self.failures]


@pytest.fixture
def scenario():
    return DetectionScenario()


@pytest.fixture
def scenario_without_others():
    """A controller with heartbeats of the brokers of its scenario only."""
    return DetectionScenario(has_other_brokers=False)


def probed_keys(probes):
    return [probe.key for probe in probes]


# A connection that closes


def test_broker_with_a_closed_connection_and_a_refused_port_fails_at_once(scenario):
    scenario.heartbeat(10_000, ONE)
    assert scenario.connection_closed(10_400) == [ONE]
    assert scenario.trusted(10_400) == set()
    assert scenario.scan(10_400) == [Probe(ONE, ANSWER_MS)]
    scenario.probed(10_402, ProbeOutcome.REFUSED)
    (failed,) = scenario.failures
    assert failed == BrokerFailure(
        ONE, SuspicionReason.CLOSED, ProbeOutcome.REFUSED, failed.last, suspected_ms=10_400, judged_ms=10_402
    )
    assert failed.reason == "its connection closed and its port refuses connections; last contact 402 ms before"
    assert scenario.live.get(ONE) is None
    assert scenario.detector.failed_broker(ONE).last == failed.last


def test_broker_that_reconnects_after_answering_a_probe_did_not_fail(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.connection_closed(10_400)
    scenario.scan(10_400)
    scenario.probed(10_402, ProbeOutcome.ANSWERED)
    assert scenario.trusted(10_402) == set()
    scenario.heartbeat(11_000, ONE, connection_id=NEW)
    assert scenario.trusted(11_000) == {1}
    assert scenario.detector.suspects == set()
    for now_ms in range(11_000, 13_000, 100):
        assert scenario.scan(now_ms) == []
    assert scenario.failures == []


def test_broker_with_a_closed_connection_fails_once_its_next_heartbeat_is_overdue(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.connection_closed(10_400)
    probed_ms = []
    for now_ms in range(10_400, 12_000, 50):
        if scenario.scan(now_ms):
            probed_ms.append(now_ms)
            scenario.probed(now_ms, ProbeOutcome.NO_ANSWER)
    assert probed_ms == [10_400, 10_450, 10_550, 10_750, 11_150, 11_550, 11_950]
    assert scenario.failures == []
    scenario.scan(12_000)
    assert scenario.failure_times == [(ONE, SuspicionReason.CLOSED, 12_000)]
    assert scenario.failures[0].reason.startswith("its connection closed and it does not answer")


def test_broker_whose_connection_closes_late_has_a_second_to_reconnect(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.connection_closed(11_900)
    scenario.scan(11_900)
    scenario.probed(11_901, ProbeOutcome.NO_ANSWER)
    scenario.scan(12_899)
    assert scenario.failures == []
    scenario.scan(12_951)
    scenario.probed(12_951, ProbeOutcome.NO_ANSWER)
    scenario.scan(12_952)
    assert scenario.failure_times == [(ONE, SuspicionReason.CLOSED, 12_952)]


def test_broker_that_answers_a_probe_when_its_heartbeat_is_overdue_is_alive(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.connection_closed(10_400)
    for now_ms in range(10_400, 12_001, 50):
        if scenario.scan(now_ms):
            scenario.probed(now_ms, ProbeOutcome.ANSWERED)
    assert scenario.detector.suspects == set()
    assert scenario.trusted(12_000) == {1}
    assert scenario.failures == []
    assert scenario.live.get(ONE).last_contact_ms == 12_000


def test_broker_that_answers_one_probe_and_refuses_the_next_fails(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.connection_closed(10_400)
    scenario.scan(10_400)
    scenario.probed(10_401, ProbeOutcome.ANSWERED)
    assert scenario.scan(10_450) == []
    assert probed_keys(scenario.scan(10_451)) == [ONE]
    scenario.probed(10_452, ProbeOutcome.REFUSED)
    assert scenario.failure_times == [(ONE, SuspicionReason.CLOSED, 10_452)]


def test_late_close_of_a_replaced_connection_suspects_nobody(scenario):
    scenario.heartbeat(10_000, ONE, connection_id=OLD)
    scenario.heartbeat(11_000, ONE, connection_id=NEW)
    assert scenario.connection_closed(11_100, OLD) == []
    assert scenario.trusted(11_100) == {1}
    assert scenario.connection_closed(11_200, NEW) == [ONE]


def test_brokers_that_share_a_connection_are_suspected_together_and_fail_separately(scenario):
    scenario.heartbeat(10_000, ONE, TWO)
    scenario.heartbeat(10_000, THREE, connection_id=NEW)
    assert scenario.connection_closed(10_400) == [ONE, TWO]
    assert probed_keys(scenario.scan(10_400)) == [ONE, TWO]
    scenario.probed(10_401, ProbeOutcome.REFUSED, ONE)
    scenario.heartbeat(10_900, TWO, connection_id=NEW)
    assert scenario.failure_times == [(ONE, SuspicionReason.CLOSED, 10_401)]
    assert scenario.trusted(10_900) == {2, 3}


def test_close_of_the_connection_of_a_suspect_starts_no_second_suspicion(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.scan(13_001)
    assert scenario.connection_closed(13_100) == []
    scenario.probed(13_101, ProbeOutcome.REFUSED)
    assert scenario.failure_times == [(ONE, SuspicionReason.SILENT, 13_101)]


# Silence


def test_silent_broker_is_probed_and_trusted_again_when_it_answers(scenario):
    scenario.heartbeat(10_000, ONE)
    assert scenario.scan(13_000) == []
    assert scenario.scan(13_001) == [Probe(ONE, ANSWER_MS)]
    assert scenario.trusted(13_001) == set()
    scenario.probed(13_200, ProbeOutcome.ANSWERED)
    assert scenario.trusted(13_200) == {1}
    assert scenario.scan(16_200) == []
    assert probed_keys(scenario.scan(16_201)) == [ONE]


def test_silent_broker_that_does_not_answer_its_probe_in_time_fails(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.scan(13_001)
    scenario.scan(14_000)
    assert scenario.failures == []
    scenario.probed(14_001, ProbeOutcome.NO_ANSWER)
    scenario.scan(14_001)
    assert scenario.failure_times == [(ONE, SuspicionReason.SILENT, 14_001)]
    assert scenario.failures[0].reason == "its heartbeats stopped and it does not answer; last contact 4001 ms before"


def test_unreachable_silent_broker_fails_only_after_its_full_time(scenario):
    scenario.heartbeat(10_000, ONE)
    ends_ms = 13_001 + ANSWER_MS
    for now_ms in range(13_001, ends_ms, 100):
        if scenario.scan(now_ms):
            scenario.probed(now_ms, ProbeOutcome.NO_ANSWER)
    assert scenario.failures == []
    scenario.scan(ends_ms)
    assert scenario.failure_times == [(ONE, SuspicionReason.SILENT, ends_ms)]


def test_any_contact_ends_a_suspicion(scenario):
    scenario.heartbeat(10_000, ONE, TWO)
    scenario.scan(13_001)
    assert scenario.detector.suspects == {ONE, TWO}
    scenario.detector.contact(ONE, 13_002, NEW, A_HOST)
    scenario.detector.restart(TWO, 13_003, NEW, A_HOST)
    assert scenario.detector.suspects == set()
    assert scenario.live.get(TWO).awaits_heartbeat
    scenario.probed(13_500, ProbeOutcome.REFUSED, ONE)
    scenario.probed(13_500, ProbeOutcome.NO_ANSWER, TWO)
    scenario.scan(13_501)
    assert scenario.failures == []


def test_starting_broker_may_send_heartbeats_five_seconds_apart(scenario):
    # It beats once for each try, 5 s apart, and serves nobody yet.
    scenario.detector.restart(ONE, 10_000, OLD, A_HOST)
    for heartbeat_ms in (10_050, 15_050, 20_050):
        scenario.heartbeat(heartbeat_ms, ONE)
        assert [scenario.scan(now_ms) for now_ms in range(heartbeat_ms, heartbeat_ms + 5_000, 500)] == [[]] * 10
    assert scenario.trusted(25_000) == {1}
    assert probed_keys(scenario.scan(30_051)) == [ONE]


def test_started_broker_with_a_heartbeat_each_second_is_probed_after_three_seconds(scenario):
    scenario.detector.restart(ONE, 10_000, OLD, A_HOST)
    for heartbeat_ms in (10_050, 11_050, 12_050):
        scenario.heartbeat(heartbeat_ms, ONE)
    assert scenario.scan(15_050) == []
    assert probed_keys(scenario.scan(15_051)) == [ONE]


def probed_without_an_answer(scenario, from_ms, to_ms):
    """Let time pass while nobody can be reached; returns the brokers that were probed."""
    found = []
    for now_ms in range(from_ms, to_ms, 50):
        for probe in scenario.scan(now_ms):
            found.append(probe.key)
            scenario.probed(now_ms, ProbeOutcome.NO_ANSWER, probe.key)
    return found


def test_unreachable_broker_does_not_fail_between_heartbeats_five_seconds_apart(scenario):
    for heartbeat_ms in range(10_000, 60_000, 5_000):
        scenario.detector.heartbeat(ONE, last_heartbeat(last_contact_ms=heartbeat_ms, connection_id=OLD), A_HOST)
        assert probed_without_an_answer(scenario, heartbeat_ms, heartbeat_ms + 5_000) == []
    assert scenario.failures == []


def test_broker_with_a_heartbeat_each_five_seconds_is_probed_two_seconds_after_a_missed_one(scenario):
    for heartbeat_ms in (10_000, 15_000, 20_000):
        scenario.detector.heartbeat(ONE, last_heartbeat(last_contact_ms=heartbeat_ms, connection_id=OLD), A_HOST)
    assert probed_without_an_answer(scenario, 20_000, 27_001) == []
    assert set(probed_without_an_answer(scenario, 27_001, 27_500)) == {ONE}
    assert scenario.failure_times == [(ONE, SuspicionReason.SILENT, 27_301)]


def test_broker_with_a_heartbeat_each_five_seconds_fails_after_a_close_once_the_next_is_overdue(scenario):
    for heartbeat_ms in (10_000, 15_000, 20_000):
        scenario.detector.heartbeat(ONE, last_heartbeat(last_contact_ms=heartbeat_ms, connection_id=OLD), A_HOST)
    scenario.connection_closed(20_500)
    probed_without_an_answer(scenario, 20_500, 26_000)
    assert scenario.failures == []
    probed_without_an_answer(scenario, 26_000, 26_200)
    assert [key for key, *_ in scenario.failure_times] == [ONE]


# A controller without heartbeats


def heartbeats_of_one_and_two(scenario):
    for now_ms in range(1_000, 20_001, 1_000):
        scenario.heartbeat(now_ms, ONE, TWO, connection_id=now_ms)


def host_changes(scenario):
    return [(news.event, news.silent_ms) for news in scenario.detector.take_changes()]


def test_no_broker_fails_by_silence_during_a_gap_of_all_heartbeats_or_soon_after(scenario_without_others):
    heartbeats_of_one_and_two(scenario_without_others)
    assert set(probed_without_an_answer(scenario_without_others, 20_000, 59_950)) == {ONE, TWO}
    assert scenario_without_others.failures == []
    assert scenario_without_others.detector.has_no_contact(59_950)
    assert [event for event, _ in host_changes(scenario_without_others)] == [HostsChangeKind.SILENT]
    for now_ms in range(60_000, 72_001, 1_000):
        scenario_without_others.heartbeat(now_ms, TWO)
        assert set(probed_without_an_answer(scenario_without_others, now_ms, now_ms + 1_000)) <= {ONE}
    assert host_changes(scenario_without_others) == [(HostsChangeKind.BACK, 40_000)]
    assert host_changes(scenario_without_others) == []
    assert scenario_without_others.failures == []
    scenario_without_others.heartbeat(73_000, TWO)
    probed_without_an_answer(scenario_without_others, 73_000, 74_000)
    assert [key for key, *_ in scenario_without_others.failure_times] == [ONE]


def test_brokers_whose_port_refused_before_or_during_a_gap_stay_failed(scenario_without_others):
    heartbeats_of_one_and_two(scenario_without_others)
    scenario_without_others.heartbeat(20_000, THREE, connection_id=NEW)
    scenario_without_others.connection_closed(20_000, NEW)
    scenario_without_others.scan(20_000)
    scenario_without_others.probed(20_001, ProbeOutcome.REFUSED, THREE)
    scenario_without_others.heartbeat(21_000, TWO)
    scenario_without_others.scan(24_001)
    scenario_without_others.probed(24_002, ProbeOutcome.REFUSED, ONE)
    scenario_without_others.heartbeat(60_000, TWO)
    assert scenario_without_others.detector.is_lost(ONE, 60_000)
    assert scenario_without_others.detector.is_lost(THREE, 60_000)


def test_first_heartbeat_after_a_gap_gives_all_brokers_time_for_theirs(scenario_without_others):
    heartbeats_of_one_and_two(scenario_without_others)
    scenario_without_others.scan(23_001)
    scenario_without_others.probed(23_100, ProbeOutcome.NO_ANSWER, ONE)
    scenario_without_others.heartbeat(23_500, TWO)
    assert scenario_without_others.scan(23_500) == []
    assert scenario_without_others.scan(24_999) == []
    assert probed_keys(scenario_without_others.scan(25_000)) == [ONE]
    assert scenario_without_others.failures == []


def test_no_broker_fails_by_silence_before_a_gap_of_all_heartbeats_is_ruled_out(scenario_without_others):
    # Cut off at 20,100, and the connections end.
    heartbeats_of_one_and_two(scenario_without_others)
    assert scenario_without_others.connection_closed(20_100, 20_000) == [ONE, TWO]
    for now_ms in range(20_100, 22_001, 50):
        for probe in scenario_without_others.scan(now_ms):
            scenario_without_others.probed(now_ms, ProbeOutcome.NO_ANSWER, probe.key)
    assert scenario_without_others.failures == []
    scenario_without_others.scan(22_050)
    assert scenario_without_others.failures == []
    assert scenario_without_others.detector.has_no_contact(22_050)


def test_process_pause_of_the_controller_is_no_gap(scenario_without_others):
    heartbeats_of_one_and_two(scenario_without_others)
    scenario_without_others.detector.after_pause(60_000)
    scenario_without_others.heartbeat(60_000, TWO)
    scenario_without_others.scan(60_000)
    assert host_changes(scenario_without_others) == []
    assert scenario_without_others.detector.pause_ends_ms == 13_000


def test_controller_without_contact_since_its_start_waits_from_its_first_heartbeat_on(scenario_without_others):
    for now_ms in (60_000, 71_500):
        scenario_without_others.heartbeat(now_ms, TWO)
    # It was heard at 59,000 first.
    assert not scenario_without_others.detector.is_lost(ONE, 71_999)
    assert scenario_without_others.detector.is_lost(ONE, 72_000)


def test_heartbeat_soon_after_the_start_does_not_lengthen_the_pause(scenario_without_others):
    scenario_without_others.heartbeat(4_500, TWO)
    assert scenario_without_others.detector.pause_ends_ms == 13_000
    scenario_without_others.scan(4_500)
    assert host_changes(scenario_without_others) == []


# Questions


def test_probe_that_could_not_be_sent_is_repeated_and_fails_nobody(scenario):
    scenario.heartbeat(10_000, ONE)
    now_ms = 13_001
    while now_ms < 20_000:
        for _ in scenario.scan(now_ms):
            scenario.probed(now_ms, ProbeOutcome.NOT_PROBED)
        now_ms += 50
    assert scenario.failures == []
    scenario.scan(now_ms + 400)
    scenario.probed(now_ms + 1_100, ProbeOutcome.NO_ANSWER)
    scenario.scan(now_ms + 1_100)
    assert scenario.failure_times == [(ONE, SuspicionReason.SILENT, now_ms + 1_100)]


def test_delayed_probe_has_its_full_time(scenario, monkeypatch):
    monkeypatch.setattr(suspicion, "PROBES_MAX", 1)
    scenario.heartbeat(10_000, ONE, TWO)
    assert scenario.scan(13_001) == [Probe(ONE, ANSWER_MS)]
    assert scenario.scan(13_650) == []
    scenario.probed(13_701, ProbeOutcome.NO_ANSWER, ONE)
    assert scenario.scan(13_701) == [Probe(TWO, ANSWER_MS)]
    assert scenario.failure_times == [(ONE, SuspicionReason.SILENT, 13_701)]


def test_masters_are_probed_first(scenario, monkeypatch):
    monkeypatch.setattr(suspicion, "NEW_PROBES_MAX", 2)
    scenario.masters = {THREE}
    scenario.heartbeat(10_000, ONE, TWO, THREE)
    assert probed_keys(scenario.scan(13_001)) == [THREE, ONE]
    assert probed_keys(scenario.scan(13_051)) == [TWO]


def test_closed_connection_probes_only_its_brokers_at_once(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.heartbeat(10_000, TWO, connection_id=NEW)
    scenario.connection_closed(10_100)
    suspects = scenario.connection_closed(10_100, NEW)
    assert probed_keys(scenario.detector.probes_for(suspects, 10_100)) == [TWO]
    assert scenario.detector.probes_for(suspects, 10_100) == []
    assert probed_keys(scenario.scan(10_100)) == [ONE]
    scenario.detector.suspend(10_200)
    assert scenario.detector.probes_for(suspects, 10_300) == []


def test_another_broker_at_the_port_of_a_suspect_is_its_failure(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.scan(13_001)
    scenario.probed(13_002, ProbeOutcome.ANOTHER)
    assert scenario.failure_times == [(ONE, SuspicionReason.SILENT, 13_002)]
    assert "another broker answers at its port" in scenario.failures[0].reason


def test_broker_has_one_probe_at_a_time(scenario):
    scenario.heartbeat(10_000, ONE)
    assert probed_keys(scenario.scan(13_001)) == [ONE]
    assert [scenario.scan(now_ms) for now_ms in range(13_002, 14_900, 100)] == [[]] * 19


def test_probe_without_a_result_counts_as_unanswered(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.scan(13_001)
    given_up_ms = 13_001 + ANSWER_MS + 1_000
    scenario.scan(given_up_ms - 1)
    assert scenario.failures == []
    scenario.scan(given_up_ms)
    assert scenario.failure_times == [(ONE, SuspicionReason.SILENT, given_up_ms)]
    assert scenario.failures[0].outcome is ProbeOutcome.NO_ANSWER


def test_probe_without_a_result_is_repeated_while_there_is_time(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.connection_closed(10_000)
    scenario.scan(10_000)
    scenario.heartbeat(10_100, ONE, connection_id=NEW)
    given_up_ms = 10_000 + ANSWER_MS + 1_000
    scenario.connection_closed(given_up_ms - 100, NEW)
    assert scenario.scan(given_up_ms - 100) == []
    assert probed_keys(scenario.scan(given_up_ms)) == [ONE]


def test_result_of_a_probe_from_before_a_heartbeat_does_not_count_later(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.connection_closed(10_100)
    scenario.scan(10_100)
    scenario.heartbeat(10_200, ONE, connection_id=NEW)
    scenario.connection_closed(10_300, NEW)
    scenario.scan(10_300)
    scenario.probed(10_400, ProbeOutcome.REFUSED)
    assert scenario.failures == []
    assert probed_keys(scenario.scan(10_400)) == [ONE]
    scenario.probed(10_401, ProbeOutcome.REFUSED)
    assert scenario.failure_times == [(ONE, SuspicionReason.CLOSED, 10_401)]


def test_result_without_a_probe_is_ignored(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.connection_closed(10_100)
    scenario.probed(10_100, ProbeOutcome.REFUSED, ONE)
    scenario.probed(10_100, ProbeOutcome.REFUSED, TWO)
    assert scenario.failures == []


# A controller that stood still


def test_brokers_have_time_for_a_heartbeat_after_a_process_pause_of_the_controller(scenario):
    scenario.heartbeat(10_000, ONE, TWO)
    scenario.connection_closed(10_100)
    scenario.scan(10_100)
    scenario.detector.suspend(30_000)
    scenario.probed(30_000, ProbeOutcome.REFUSED, ONE)
    scenario.probed(30_000, ProbeOutcome.NO_ANSWER, TWO)
    for now_ms in range(30_000, 31_500, 100):
        assert scenario.scan(now_ms) == []
    scenario.heartbeat(31_400, ONE, TWO, connection_id=NEW)
    assert scenario.scan(31_500) == []
    assert scenario.failures == []
    assert scenario.trusted(31_500) == {1, 2}


def test_broker_silent_after_a_process_pause_is_probed_before_it_fails(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.scan(13_001)
    scenario.probed(13_900, ProbeOutcome.NO_ANSWER)
    scenario.detector.suspend(30_000)
    assert scenario.scan(31_499) == []
    assert scenario.scan(31_500) == [Probe(ONE, ANSWER_MS)]
    assert scenario.failures == []
    scenario.probed(32_500, ProbeOutcome.NO_ANSWER)
    scenario.scan(32_500)
    assert scenario.failure_times == [(ONE, SuspicionReason.SILENT, 32_500)]


def test_probe_that_timed_out_during_a_process_pause_fails_nobody(scenario):
    # What was due meanwhile is told in any order, the timeout of a question before the standstill is noticed.
    scenario.heartbeat(10_000, ONE)
    scenario.scan(13_001)
    scenario.probed(30_000, ProbeOutcome.NO_ANSWER)
    scenario.detector.suspend(30_000)
    scenario.heartbeat(30_001, ONE)
    scenario.scan(31_500)
    assert scenario.failures == []
    assert scenario.trusted(31_500) == {1}


def test_heartbeats_do_not_expire_through_a_process_pause(scenario):
    scenario.heartbeat(10_000, ONE, TWO)
    scenario.connection_closed(10_000, NEW)
    assert scenario.trusted(30_000) == set()
    scenario.detector.suspend(30_000)
    assert scenario.trusted(30_000) == {1, 2}
    scenario.heartbeat(30_500, TWO)
    assert scenario.trusted(31_500) == {2}


def test_second_process_pause_gives_brokers_their_time_again(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.detector.suspend(20_000)
    scenario.detector.suspend(21_000)
    assert scenario.scan(22_499) == []
    assert probed_keys(scenario.scan(22_500)) == [ONE]


# Who was never heard, who has gone


def test_broker_without_heartbeat_is_lost_only_after_the_pause(scenario):
    assert scenario.detector.pause_ends_ms == 13_000
    assert not scenario.detector.is_lost(ONE, 12_999)
    assert scenario.detector.is_lost(ONE, 13_000)


def test_pause_lasts_as_long_as_the_longest_reported_heartbeat_timeout(scenario):
    scenario.heartbeat(1_000, TWO, timeout_ms=20_000)
    scenario.heartbeat(1_000, THREE, timeout_ms=5_000)
    assert scenario.detector.pause_ends_ms == 23_000
    assert not scenario.detector.is_lost(ONE, 22_999)


def test_largest_heartbeat_timeout_lengthens_the_pause_to_a_minute_at_most(scenario):
    scenario.heartbeat(1_000, TWO, timeout_ms=2**62)
    assert scenario.detector.pause_ends_ms == 63_000


def test_process_pause_lengthens_the_pause_after_a_start(scenario):
    scenario.detector.suspend(50_000)
    assert not scenario.detector.is_lost(ONE, 51_499)
    assert scenario.detector.is_lost(ONE, 51_500)


def test_failed_broker_is_lost_without_the_pause_until_it_restarts(scenario):
    scenario.heartbeat(1_000, ONE)
    assert not scenario.detector.is_lost(ONE, 1_000)
    scenario.connection_closed(1_100)
    scenario.scan(1_100)
    scenario.probed(1_101, ProbeOutcome.REFUSED)
    assert scenario.detector.is_lost(ONE, 1_101)
    scenario.detector.restart(ONE, 2_000, NEW, A_HOST)
    assert not scenario.detector.is_lost(ONE, 2_000)
    assert scenario.detector.failed_broker(ONE) is None


def test_a_suspect_is_not_lost(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.scan(60_000)
    assert scenario.detector.suspects == {ONE}
    assert not scenario.detector.is_lost(ONE, 60_000)


def test_only_the_last_failed_brokers_are_kept(scenario, monkeypatch):
    monkeypatch.setattr(suspicion, "_FAILED_MAX", 2)
    scenario.heartbeat(10_000, ONE, TWO, THREE)
    scenario.connection_closed(10_100)
    scenario.scan(10_100)
    for key in (TWO, ONE, THREE):
        scenario.probed(10_101, ProbeOutcome.REFUSED, key)
    assert scenario.detector.failed_broker(TWO) is None
    assert scenario.detector.failed_broker(ONE)
    assert scenario.detector.failed_broker(THREE)


def test_removed_broker_leaves_nothing_behind(scenario):
    empty = [len(each) for each in vars(scenario.detector).values() if isinstance(each, dict)]
    scenario.heartbeat(10_000, ONE)
    scenario.connection_closed(10_100)
    scenario.scan(10_100)
    scenario.detector.remove(ONE)
    scenario.probed(10_200, ProbeOutcome.REFUSED)
    assert [len(each) for each in vars(scenario.detector).values() if isinstance(each, dict)] == empty
    assert scenario.detector.failed_broker(ONE) is None
    assert scenario.failures == []


def test_suspect_that_left_the_heartbeat_table_does_not_fail(scenario):
    scenario.heartbeat(10_000, ONE)
    scenario.connection_closed(10_100)
    scenario.scan(10_100)
    scenario.live.remove(ONE)
    scenario.probed(10_101, ProbeOutcome.REFUSED)
    assert scenario.failures == []
    assert scenario.detector.suspects == set()


# Masters that a new leader has not heard


def test_master_without_heartbeat_whose_port_refuses_fails_without_the_pause(scenario):
    scenario.detector.expect(ONE, 500)
    assert scenario.scan(500) == [Probe(ONE, ANSWER_MS)]
    scenario.probed(502, ProbeOutcome.REFUSED)
    assert scenario.failure_times == [(ONE, SuspicionReason.NO_CONTACT_YET, 502)]
    began = "it has sent no heartbeat since this controller started"
    assert scenario.failures[0].reason.startswith(f"{began} and its port refuses")
    assert scenario.detector.is_lost(ONE, 502)


def test_master_without_heartbeat_that_does_not_answer_is_lost_when_the_pause_ends(scenario):
    scenario.detector.expect(ONE, 500)
    for now_ms in range(500, 14_000, 50):
        for _ in scenario.scan(now_ms):
            scenario.probed(now_ms, ProbeOutcome.NO_ANSWER)
    assert scenario.failures == []
    assert not scenario.detector.is_lost(ONE, 12_999)
    assert scenario.detector.is_lost(ONE, 13_000)
    assert scenario.detector.suspects == set()


def test_master_without_heartbeat_that_answers_its_probe_is_alive_and_probed_again_later(scenario):
    scenario.detector.expect(ONE, 500)
    scenario.scan(500)
    scenario.probed(502, ProbeOutcome.ANSWERED)
    assert scenario.detector.suspects == set()
    assert not scenario.detector.is_lost(ONE, 60_000)
    assert scenario.scan(3_503) == [Probe(ONE, ANSWER_MS)]


def test_brokers_with_a_heartbeat_or_a_failure_are_not_expected(scenario):
    scenario.heartbeat(10_000, ONE, TWO)
    scenario.connection_closed(10_000)
    scenario.scan(10_000)
    scenario.probed(10_001, ProbeOutcome.REFUSED, TWO)
    for key in (ONE, TWO):
        scenario.detector.expect(key, 10_002)
    assert scenario.detector.suspects == {ONE}


# Whatever happens

KEYS = st.sampled_from([ONE, TWO])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("heartbeat"), KEYS, st.sampled_from([OLD, NEW])),
        st.tuples(st.just("connection_closed"), st.sampled_from([OLD, NEW])),
        st.tuples(st.just("probed"), st.sampled_from(ProbeOutcome), KEYS),
        st.tuples(st.just("doubts")),
        st.tuples(st.just("waits"), st.integers(0, 4_000)),
    ),
    max_size=40,
)


def apply_step(scenario, now_ms, step):
    match step:
        case "heartbeat", key, connection_id:
            scenario.heartbeat(now_ms, key, connection_id=connection_id)
        case "connection_closed", connection_id:
            scenario.connection_closed(now_ms, connection_id)
        case "probed", outcome, key:
            scenario.probed(now_ms, outcome, key)
        case ("doubts",):
            scenario.detector.suspend(now_ms)
        case "waits", for_ms:
            return now_ms + for_ms
    return now_ms


@given(STEPS)
def test_every_suspicion_ends_and_no_broker_fails_that_sent_a_heartbeat_during_it(steps):
    scenario, now_ms, heartbeats = DetectionScenario(), 0, []
    for step in steps:
        now_ms = apply_step(scenario, now_ms, step)
        if step[0] == "heartbeat":
            heartbeats.append((step[1], now_ms))
        scenario.scan(now_ms)
    for failed in scenario.failures:
        assert failed.outcome is not ProbeOutcome.ANSWERED
        assert failed.last.last_contact_ms <= failed.suspected_ms
        assert not [at for key, at in heartbeats if key == failed.key and failed.suspected_ms < at < failed.judged_ms]
    # There is no heartbeat and no result of a probe: in the end all have failed, and nothing is left over.
    for _ in range(300):
        now_ms += 50
        scenario.scan(now_ms)
    assert scenario.detector.suspects == set()
    assert [key for key, _ in scenario.live.rows()] == [ELSEWHERE]
    assert not scenario.detector._probes._open


# Hosts whose brokers have failed


@pytest.mark.parametrize(("outcome", "hosts"), [(ProbeOutcome.REFUSED, 1), (ProbeOutcome.NO_ANSWER, 3)])
def test_refused_ports_are_failures_and_unanswered_probes_make_hosts_silent(outcome, hosts):
    detector = FailureDetector(HeartbeatTable(), HostLiveness(nobody), nobody, 0)
    for last_contact_ms in (9_000, 10_000, 11_000, 12_000, 13_000, 14_000):
        for key in (ONE, TWO, THREE) if last_contact_ms < 11_000 else (THREE,):
            row = last_heartbeat(last_contact_ms=last_contact_ms, connection_id=key.broker_id)
            detector.heartbeat(key, row, f"10.0.0.{key.broker_id}:30911")
        if last_contact_ms == 10_000:
            detector.connection_lost(ONE.broker_id, last_contact_ms)
            detector.connection_lost(TWO.broker_id, last_contact_ms)
    failed = set()
    for now_ms in range(14_000, 15_000, 50):
        probes, judged = detector.look(now_ms, SUSPECT_MS)
        failed |= {each.key for each in judged}
        for probe in probes:
            failed |= {each.key for each in detector.probed(probe.key, outcome, now_ms)}
    assert failed == ({ONE, TWO} if outcome is ProbeOutcome.REFUSED else set())
    assert detector.hosts.look(15_000).hosts == hosts


def test_broker_expected_after_the_pause_counts_for_no_host(scenario):
    scenario.heartbeat(1_000, ONE)
    ends_ms = scenario.detector.pause_ends_ms
    before = scenario.detector.hosts.look(1_001).hosts
    scenario.detector.expect_host(TWO, "10.0.0.77:30911", ends_ms)
    assert scenario.detector.hosts.look(1_002).hosts == before
    scenario.detector.expect_host(TWO, "10.0.0.77:30911", ends_ms - 1)
    assert scenario.detector.hosts.look(1_003).hosts == before + 1


def test_failure_by_silence_has_the_timeout_that_passed(scenario):
    scenario.heartbeat(10_000, ONE)
    for now_ms in range(13_000, 14_000, 50):
        for probe in scenario.scan(now_ms):
            scenario.detector.probed(probe.key, ProbeOutcome.NO_ANSWER, now_ms + 10)
    ((key, timeout_ms),) = [(each.key, each.timeout_ms) for each in scenario.failures]
    assert (key, timeout_ms) == (ONE, SUSPECT_MS + ANSWER_MS)
