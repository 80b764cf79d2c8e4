"""Who is thought to be dead, and what has to be asked before: stories with explicit times.

Brokers beat each second with a heartbeat timeout of 10 s and are suspect after 3 s of silence. Every story begins with
a controller that has started at 0 and runs long enough to judge. It hears a broker of another set all the while, unless
a story is about a controller that hears nobody.
"""

import pytest
from controller_builders import SET, an_address, heard
from hypothesis import given
from hypothesis import strategies as st

from controller.failure_detection import failed_brokers, probes
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
#: Of a set that no story is about, over a connection of its own.
ELSEWHERE = BrokerKey("elsewhere", 1)
#: Brokers of the stories share a host; `test_hosts.py` is about more of them.
A_HOST = "10.0.0.10:30911"


def nobody(_):
    return False


class Story:
    """A controller, told what happens when."""

    def __init__(self, *, hears_others=True):
        self.live, self.masters = HeartbeatTable(), set()
        self.detector = FailureDetector(self.live, HostLiveness(nobody), lambda key: key in self.masters, 0)
        self.dead = []
        self.hears_others = hears_others
        self.last_contact_ms = 0
        self.known = set()

    def others(self, now_ms):
        """Hear who beats elsewhere, each second."""
        while self.hears_others and self.last_contact_ms < now_ms:
            self.last_contact_ms = min(self.last_contact_ms + 1_000, now_ms)
            self.detector.heartbeat(
                ELSEWHERE, heard(last_contact_ms=self.last_contact_ms, connection_id=99), "10.0.0.99:30911"
            )

    def beat(self, now_ms, *keys, connection_id=OLD, **values):
        self.others(now_ms)
        for key in keys:
            is_new = key not in self.known and self.live.get(key) is None
            self.known.add(key)
            # How often a broker beats is known from two heartbeats on.
            for last_contact_ms in (now_ms - 1_000, now_ms) if is_new else (now_ms,):
                row = heard(
                    last_contact_ms=last_contact_ms,
                    connection_id=connection_id,
                    address=an_address(key.broker_id),
                    **values,
                )
                self.detector.heartbeat(key, row, A_HOST)

    def look(self, now_ms):
        """Return whom the controller asks."""
        self.others(now_ms)
        probes, dead = self.detector.look(now_ms, SUSPECT_MS)
        self.dead += dead
        return probes

    def closes(self, now_ms, connection_id=OLD):
        return self.detector.connection_lost(connection_id, now_ms)

    def told(self, now_ms, outcome, key=ONE):
        self.dead += self.detector.probed(key, outcome, now_ms)

    def trusted(self, now_ms):
        return set(self.detector.trusted(SET, now_ms))

    @property
    def who_died(self):
        return [(dead.key, dead.why, dead.judged_ms) for dead in self.dead]


@pytest.fixture
def story():
    return Story()


@pytest.fixture
def alone():
    """A controller that hears only the brokers of its story."""
    return Story(hears_others=False)


def asked(probes):
    return [probe.key for probe in probes]


# A connection that closes


def test_broker_with_a_closed_connection_and_a_refused_port_fails_at_once(story):
    story.beat(10_000, ONE)
    assert story.closes(10_400) == [ONE]
    assert story.trusted(10_400) == set()
    assert story.look(10_400) == [Probe(ONE, ANSWER_MS)]
    story.told(10_402, ProbeOutcome.REFUSED)
    (dead,) = story.dead
    assert dead == BrokerFailure(
        ONE, SuspicionReason.CLOSED, ProbeOutcome.REFUSED, dead.last, suspected_ms=10_400, judged_ms=10_402
    )
    assert dead.reason == "its connection closed and its port refuses connections; last heard 402 ms before"
    assert story.live.get(ONE) is None
    assert story.detector.failed_broker(ONE).last == dead.last


def test_broker_that_reconnects_after_answering_a_probe_did_not_fail(story):
    story.beat(10_000, ONE)
    story.closes(10_400)
    story.look(10_400)
    story.told(10_402, ProbeOutcome.ANSWERED)
    assert story.trusted(10_402) == set()
    story.beat(11_000, ONE, connection_id=NEW)
    assert story.trusted(11_000) == {1}
    assert story.detector.suspects == set()
    for now_ms in range(11_000, 13_000, 100):
        assert story.look(now_ms) == []
    assert story.dead == []


def test_broker_with_a_closed_connection_fails_once_its_next_heartbeat_is_overdue(story):
    story.beat(10_000, ONE)
    story.closes(10_400)
    asked_ms = []
    for now_ms in range(10_400, 12_000, 50):
        if story.look(now_ms):
            asked_ms.append(now_ms)
            story.told(now_ms, ProbeOutcome.NO_ANSWER)
    assert asked_ms == [10_400, 10_450, 10_550, 10_750, 11_150, 11_550, 11_950]
    assert story.dead == []
    story.look(12_000)
    assert story.who_died == [(ONE, SuspicionReason.CLOSED, 12_000)]
    assert story.dead[0].reason.startswith("its connection closed and it does not answer")


def test_broker_whose_connection_closes_late_has_a_second_to_reconnect(story):
    story.beat(10_000, ONE)
    story.closes(11_900)
    story.look(11_900)
    story.told(11_901, ProbeOutcome.NO_ANSWER)
    story.look(12_899)
    assert story.dead == []
    story.look(12_951)
    story.told(12_951, ProbeOutcome.NO_ANSWER)
    story.look(12_952)
    assert story.who_died == [(ONE, SuspicionReason.CLOSED, 12_952)]


def test_broker_that_answers_a_probe_when_its_heartbeat_is_overdue_is_alive(story):
    story.beat(10_000, ONE)
    story.closes(10_400)
    for now_ms in range(10_400, 12_001, 50):
        if story.look(now_ms):
            story.told(now_ms, ProbeOutcome.ANSWERED)
    assert story.detector.suspects == set()
    assert story.trusted(12_000) == {1}
    assert story.dead == []
    assert story.live.get(ONE).last_contact_ms == 12_000


def test_broker_that_answers_one_probe_and_refuses_the_next_fails(story):
    story.beat(10_000, ONE)
    story.closes(10_400)
    story.look(10_400)
    story.told(10_401, ProbeOutcome.ANSWERED)
    assert story.look(10_450) == []
    assert asked(story.look(10_451)) == [ONE]
    story.told(10_452, ProbeOutcome.REFUSED)
    assert story.who_died == [(ONE, SuspicionReason.CLOSED, 10_452)]


def test_late_close_of_a_replaced_connection_suspects_nobody(story):
    story.beat(10_000, ONE, connection_id=OLD)
    story.beat(11_000, ONE, connection_id=NEW)
    assert story.closes(11_100, OLD) == []
    assert story.trusted(11_100) == {1}
    assert story.closes(11_200, NEW) == [ONE]


def test_brokers_that_share_a_connection_are_suspected_together_and_fail_separately(story):
    story.beat(10_000, ONE, TWO)
    story.beat(10_000, THREE, connection_id=NEW)
    assert story.closes(10_400) == [ONE, TWO]
    assert asked(story.look(10_400)) == [ONE, TWO]
    story.told(10_401, ProbeOutcome.REFUSED, ONE)
    story.beat(10_900, TWO, connection_id=NEW)
    assert story.who_died == [(ONE, SuspicionReason.CLOSED, 10_401)]
    assert story.trusted(10_900) == {2, 3}


def test_close_of_the_connection_of_a_suspect_starts_no_second_suspicion(story):
    story.beat(10_000, ONE)
    story.look(13_001)
    assert story.closes(13_100) == []
    story.told(13_101, ProbeOutcome.REFUSED)
    assert story.who_died == [(ONE, SuspicionReason.SILENT, 13_101)]


# Silence


def test_silent_broker_is_probed_and_trusted_again_when_it_answers(story):
    story.beat(10_000, ONE)
    assert story.look(13_000) == []
    assert story.look(13_001) == [Probe(ONE, ANSWER_MS)]
    assert story.trusted(13_001) == set()
    story.told(13_200, ProbeOutcome.ANSWERED)
    assert story.trusted(13_200) == {1}
    assert story.look(16_200) == []
    assert asked(story.look(16_201)) == [ONE]


def test_silent_broker_that_does_not_answer_its_probe_in_time_fails(story):
    story.beat(10_000, ONE)
    story.look(13_001)
    story.look(14_000)
    assert story.dead == []
    story.told(14_001, ProbeOutcome.NO_ANSWER)
    story.look(14_001)
    assert story.who_died == [(ONE, SuspicionReason.SILENT, 14_001)]
    assert story.dead[0].reason == "its heartbeats stopped and it does not answer; last heard 4001 ms before"


def test_unreachable_silent_broker_fails_only_after_its_full_time(story):
    story.beat(10_000, ONE)
    ends_ms = 13_001 + ANSWER_MS
    for now_ms in range(13_001, ends_ms, 100):
        if story.look(now_ms):
            story.told(now_ms, ProbeOutcome.NO_ANSWER)
    assert story.dead == []
    story.look(ends_ms)
    assert story.who_died == [(ONE, SuspicionReason.SILENT, ends_ms)]


def test_shorter_heartbeat_timeout_of_a_broker_counts_for_it(story):
    story.beat(10_000, ONE, timeout_ms=1_500)
    assert story.look(11_500) == []
    assert asked(story.look(11_501)) == [ONE]


def test_broker_that_pauses_for_two_seconds_is_never_suspect(story):
    for now_ms in (*range(10_000, 12_001, 1_000), *range(14_000, 17_001, 1_000)):
        assert story.look(now_ms) == []
        story.beat(now_ms, ONE)
        assert story.trusted(now_ms) == {1}
    assert story.dead == []


def test_any_contact_ends_a_suspicion(story):
    story.beat(10_000, ONE, TWO)
    story.look(13_001)
    assert story.detector.suspects == {ONE, TWO}
    story.detector.contact(ONE, 13_002, NEW, A_HOST)
    story.detector.restart(TWO, 13_003, NEW, A_HOST)
    assert story.detector.suspects == set()
    assert story.live.get(TWO).awaits_heartbeat
    story.told(13_500, ProbeOutcome.REFUSED, ONE)
    story.told(13_500, ProbeOutcome.NO_ANSWER, TWO)
    story.look(13_501)
    assert story.dead == []


def test_starting_broker_may_send_heartbeats_five_seconds_apart(story):
    # It beats once for each try, 5 s apart, and serves nobody yet.
    story.detector.restart(ONE, 10_000, OLD, A_HOST)
    for heartbeat_ms in (10_050, 15_050, 20_050):
        story.beat(heartbeat_ms, ONE)
        assert [story.look(now_ms) for now_ms in range(heartbeat_ms, heartbeat_ms + 5_000, 500)] == [[]] * 10
    assert story.trusted(25_000) == {1}
    assert asked(story.look(30_051)) == [ONE]


def test_started_broker_with_a_heartbeat_each_second_is_probed_after_three_seconds(story):
    story.detector.restart(ONE, 10_000, OLD, A_HOST)
    for heartbeat_ms in (10_050, 11_050, 12_050):
        story.beat(heartbeat_ms, ONE)
    assert story.look(15_050) == []
    assert asked(story.look(15_051)) == [ONE]


def probed_without_an_answer(story, from_ms, to_ms):
    """Let time pass while nobody can be reached; returns whom the controller asked."""
    found = []
    for now_ms in range(from_ms, to_ms, 50):
        for probe in story.look(now_ms):
            found.append(probe.key)
            story.told(now_ms, ProbeOutcome.NO_ANSWER, probe.key)
    return found


def test_unreachable_broker_does_not_fail_between_heartbeats_five_seconds_apart(story):
    for heartbeat_ms in range(10_000, 60_000, 5_000):
        story.detector.heartbeat(ONE, heard(last_contact_ms=heartbeat_ms, connection_id=OLD), A_HOST)
        assert probed_without_an_answer(story, heartbeat_ms, heartbeat_ms + 5_000) == []
    assert story.dead == []


def test_broker_with_a_heartbeat_each_five_seconds_is_probed_two_seconds_after_a_missed_one(story):
    for heartbeat_ms in (10_000, 15_000, 20_000):
        story.detector.heartbeat(ONE, heard(last_contact_ms=heartbeat_ms, connection_id=OLD), A_HOST)
    assert probed_without_an_answer(story, 20_000, 27_001) == []
    assert set(probed_without_an_answer(story, 27_001, 27_500)) == {ONE}
    assert story.who_died == [(ONE, SuspicionReason.SILENT, 27_301)]


def test_broker_with_a_heartbeat_each_five_seconds_fails_after_a_close_once_the_next_is_overdue(story):
    for heartbeat_ms in (10_000, 15_000, 20_000):
        story.detector.heartbeat(ONE, heard(last_contact_ms=heartbeat_ms, connection_id=OLD), A_HOST)
    story.closes(20_500)
    probed_without_an_answer(story, 20_500, 26_000)
    assert story.dead == []
    probed_without_an_answer(story, 26_000, 26_200)
    assert [key for key, *_ in story.who_died] == [ONE]


# A controller that hears nobody


def hears_one_and_two(story):
    for now_ms in range(1_000, 20_001, 1_000):
        story.beat(now_ms, ONE, TWO, connection_id=now_ms)


def told_of_hosts(story):
    return [(news.event, news.silent_ms) for news in story.detector.take_changes()]


def test_no_broker_fails_by_silence_during_a_gap_of_all_heartbeats_or_soon_after(alone):
    hears_one_and_two(alone)
    assert set(probed_without_an_answer(alone, 20_000, 59_950)) == {ONE, TWO}
    assert alone.dead == []
    assert alone.detector.has_no_contact(59_950)
    assert [event for event, _ in told_of_hosts(alone)] == [HostsChangeKind.SILENT]
    for now_ms in range(60_000, 72_001, 1_000):
        alone.beat(now_ms, TWO)
        assert set(probed_without_an_answer(alone, now_ms, now_ms + 1_000)) <= {ONE}
    assert told_of_hosts(alone) == [(HostsChangeKind.BACK, 40_000)]
    assert told_of_hosts(alone) == []
    assert alone.dead == []
    alone.beat(73_000, TWO)
    probed_without_an_answer(alone, 73_000, 74_000)
    assert [key for key, *_ in alone.who_died] == [ONE]


def test_brokers_whose_port_refused_before_or_during_a_gap_stay_failed(alone):
    hears_one_and_two(alone)
    alone.beat(20_000, THREE, connection_id=NEW)
    alone.closes(20_000, NEW)
    alone.look(20_000)
    alone.told(20_001, ProbeOutcome.REFUSED, THREE)
    alone.beat(21_000, TWO)
    alone.look(24_001)
    alone.told(24_002, ProbeOutcome.REFUSED, ONE)
    alone.beat(60_000, TWO)
    assert alone.detector.is_lost(ONE, 60_000)
    assert alone.detector.is_lost(THREE, 60_000)


def test_first_heartbeat_after_a_gap_gives_all_brokers_time_for_theirs(alone):
    hears_one_and_two(alone)
    alone.look(23_001)
    alone.told(23_100, ProbeOutcome.NO_ANSWER, ONE)
    alone.beat(23_500, TWO)
    assert alone.look(23_500) == []
    assert alone.look(24_999) == []
    assert asked(alone.look(25_000)) == [ONE]
    assert alone.dead == []


def test_no_broker_fails_by_silence_before_a_gap_of_all_heartbeats_is_ruled_out(alone):
    # Cut off at 20,100, and the connections end.
    hears_one_and_two(alone)
    assert alone.closes(20_100, 20_000) == [ONE, TWO]
    for now_ms in range(20_100, 22_001, 50):
        for probe in alone.look(now_ms):
            alone.told(now_ms, ProbeOutcome.NO_ANSWER, probe.key)
    assert alone.dead == []
    alone.look(22_050)
    assert alone.dead == []
    assert alone.detector.has_no_contact(22_050)


def test_process_pause_of_the_controller_is_no_gap(alone):
    hears_one_and_two(alone)
    alone.detector.after_pause(60_000)
    alone.beat(60_000, TWO)
    alone.look(60_000)
    assert told_of_hosts(alone) == []
    assert alone.detector.pause_ends_ms == 13_000


def test_controller_without_contact_since_its_start_waits_from_its_first_heartbeat_on(alone):
    for now_ms in (60_000, 71_500):
        alone.beat(now_ms, TWO)
    # It was heard at 59,000 first.
    assert not alone.detector.is_lost(ONE, 71_999)
    assert alone.detector.is_lost(ONE, 72_000)


def test_heartbeat_soon_after_the_start_does_not_lengthen_the_pause(alone):
    alone.beat(4_500, TWO)
    assert alone.detector.pause_ends_ms == 13_000
    alone.look(4_500)
    assert told_of_hosts(alone) == []


# Questions


def test_probe_that_could_not_be_sent_is_repeated_and_fails_nobody(story):
    story.beat(10_000, ONE)
    now_ms = 13_001
    while now_ms < 20_000:
        for _ in story.look(now_ms):
            story.told(now_ms, ProbeOutcome.NOT_PROBED)
        now_ms += 50
    assert story.dead == []
    story.look(now_ms + 400)
    story.told(now_ms + 1_100, ProbeOutcome.NO_ANSWER)
    story.look(now_ms + 1_100)
    assert story.who_died == [(ONE, SuspicionReason.SILENT, now_ms + 1_100)]


def test_delayed_probe_has_its_full_time(story, monkeypatch):
    monkeypatch.setattr(probes, "PROBES_MAX", 1)
    story.beat(10_000, ONE, TWO)
    assert story.look(13_001) == [Probe(ONE, ANSWER_MS)]
    assert story.look(13_650) == []
    story.told(13_701, ProbeOutcome.NO_ANSWER, ONE)
    assert story.look(13_701) == [Probe(TWO, ANSWER_MS)]
    assert story.who_died == [(ONE, SuspicionReason.SILENT, 13_701)]


def test_masters_are_probed_first(story, monkeypatch):
    monkeypatch.setattr(probes, "NEW_PROBES_MAX", 2)
    story.masters = {THREE}
    story.beat(10_000, ONE, TWO, THREE)
    assert asked(story.look(13_001)) == [THREE, ONE]
    assert asked(story.look(13_051)) == [TWO]


def test_closed_connection_probes_only_its_brokers_at_once(story):
    story.beat(10_000, ONE)
    story.beat(10_000, TWO, connection_id=NEW)
    story.closes(10_100)
    suspects = story.closes(10_100, NEW)
    assert asked(story.detector.probes_for(suspects, 10_100)) == [TWO]
    assert story.detector.probes_for(suspects, 10_100) == []
    assert asked(story.look(10_100)) == [ONE]
    story.detector.suspend(10_200)
    assert story.detector.probes_for(suspects, 10_300) == []


def test_another_broker_at_the_port_of_a_suspect_is_its_failure(story):
    story.beat(10_000, ONE)
    story.look(13_001)
    story.told(13_002, ProbeOutcome.ANOTHER)
    assert story.who_died == [(ONE, SuspicionReason.SILENT, 13_002)]
    assert "another broker answers at its port" in story.dead[0].reason


def test_broker_has_one_probe_at_a_time(story):
    story.beat(10_000, ONE)
    assert asked(story.look(13_001)) == [ONE]
    assert [story.look(now_ms) for now_ms in range(13_002, 14_900, 100)] == [[]] * 19


def test_probe_without_a_result_counts_as_unanswered(story):
    story.beat(10_000, ONE)
    story.look(13_001)
    given_up_ms = 13_001 + ANSWER_MS + 1_000
    story.look(given_up_ms - 1)
    assert story.dead == []
    story.look(given_up_ms)
    assert story.who_died == [(ONE, SuspicionReason.SILENT, given_up_ms)]
    assert story.dead[0].outcome is ProbeOutcome.NO_ANSWER


def test_probe_without_a_result_is_repeated_while_there_is_time(story):
    story.beat(10_000, ONE)
    story.closes(10_000)
    story.look(10_000)
    story.beat(10_100, ONE, connection_id=NEW)
    given_up_ms = 10_000 + ANSWER_MS + 1_000
    story.closes(given_up_ms - 100, NEW)
    assert story.look(given_up_ms - 100) == []
    assert asked(story.look(given_up_ms)) == [ONE]


def test_result_of_a_probe_from_before_a_heartbeat_does_not_count_later(story):
    story.beat(10_000, ONE)
    story.closes(10_100)
    story.look(10_100)
    story.beat(10_200, ONE, connection_id=NEW)
    story.closes(10_300, NEW)
    story.look(10_300)
    story.told(10_400, ProbeOutcome.REFUSED)
    assert story.dead == []
    assert asked(story.look(10_400)) == [ONE]
    story.told(10_401, ProbeOutcome.REFUSED)
    assert story.who_died == [(ONE, SuspicionReason.CLOSED, 10_401)]


def test_result_without_a_probe_is_ignored(story):
    story.beat(10_000, ONE)
    story.closes(10_100)
    story.told(10_100, ProbeOutcome.REFUSED, ONE)
    story.told(10_100, ProbeOutcome.REFUSED, TWO)
    assert story.dead == []


# A controller that stood still


def test_brokers_have_time_for_a_heartbeat_after_a_process_pause_of_the_controller(story):
    story.beat(10_000, ONE, TWO)
    story.closes(10_100)
    story.look(10_100)
    story.detector.suspend(30_000)
    story.told(30_000, ProbeOutcome.REFUSED, ONE)
    story.told(30_000, ProbeOutcome.NO_ANSWER, TWO)
    for now_ms in range(30_000, 31_500, 100):
        assert story.look(now_ms) == []
    story.beat(31_400, ONE, TWO, connection_id=NEW)
    assert story.look(31_500) == []
    assert story.dead == []
    assert story.trusted(31_500) == {1, 2}


def test_broker_silent_after_a_process_pause_is_probed_before_it_fails(story):
    story.beat(10_000, ONE)
    story.look(13_001)
    story.told(13_900, ProbeOutcome.NO_ANSWER)
    story.detector.suspend(30_000)
    assert story.look(31_499) == []
    assert story.look(31_500) == [Probe(ONE, ANSWER_MS)]
    assert story.dead == []
    story.told(32_500, ProbeOutcome.NO_ANSWER)
    story.look(32_500)
    assert story.who_died == [(ONE, SuspicionReason.SILENT, 32_500)]


def test_probe_that_timed_out_during_a_process_pause_fails_nobody(story):
    # What was due meanwhile is told in any order, the timeout of a question before the standstill is noticed.
    story.beat(10_000, ONE)
    story.look(13_001)
    story.told(30_000, ProbeOutcome.NO_ANSWER)
    story.detector.suspend(30_000)
    story.beat(30_001, ONE)
    story.look(31_500)
    assert story.dead == []
    assert story.trusted(31_500) == {1}


def test_heartbeats_do_not_expire_through_a_process_pause(story):
    story.beat(10_000, ONE, TWO)
    story.closes(10_000, NEW)
    assert story.trusted(30_000) == set()
    story.detector.suspend(30_000)
    assert story.trusted(30_000) == {1, 2}
    story.beat(30_500, TWO)
    assert story.trusted(31_500) == {2}


def test_second_process_pause_gives_brokers_their_time_again(story):
    story.beat(10_000, ONE)
    story.detector.suspend(20_000)
    story.detector.suspend(21_000)
    assert story.look(22_499) == []
    assert asked(story.look(22_500)) == [ONE]


# Who was never heard, who has gone


def test_broker_without_heartbeat_is_lost_only_after_the_pause(story):
    assert story.detector.pause_ends_ms == 13_000
    assert not story.detector.is_lost(ONE, 12_999)
    assert story.detector.is_lost(ONE, 13_000)


def test_pause_lasts_as_long_as_the_longest_reported_heartbeat_timeout(story):
    story.beat(1_000, TWO, timeout_ms=20_000)
    story.beat(1_000, THREE, timeout_ms=5_000)
    assert story.detector.pause_ends_ms == 23_000
    assert not story.detector.is_lost(ONE, 22_999)


def test_largest_heartbeat_timeout_lengthens_the_pause_to_a_minute_at_most(story):
    story.beat(1_000, TWO, timeout_ms=2**62)
    assert story.detector.pause_ends_ms == 63_000


def test_process_pause_lengthens_the_pause_after_a_start(story):
    story.detector.suspend(50_000)
    assert not story.detector.is_lost(ONE, 51_499)
    assert story.detector.is_lost(ONE, 51_500)


def test_failed_broker_is_lost_without_the_pause_until_it_restarts(story):
    story.beat(1_000, ONE)
    assert not story.detector.is_lost(ONE, 1_000)
    story.closes(1_100)
    story.look(1_100)
    story.told(1_101, ProbeOutcome.REFUSED)
    assert story.detector.is_lost(ONE, 1_101)
    story.detector.restart(ONE, 2_000, NEW, A_HOST)
    assert not story.detector.is_lost(ONE, 2_000)
    assert story.detector.failed_broker(ONE) is None


def test_a_suspect_is_not_lost(story):
    story.beat(10_000, ONE)
    story.look(60_000)
    assert story.detector.suspects == {ONE}
    assert not story.detector.is_lost(ONE, 60_000)


def test_only_the_last_failed_brokers_are_kept(story, monkeypatch):
    monkeypatch.setattr(failed_brokers, "_FAILED_MAX", 2)
    story.beat(10_000, ONE, TWO, THREE)
    story.closes(10_100)
    story.look(10_100)
    for key in (TWO, ONE, THREE):
        story.told(10_101, ProbeOutcome.REFUSED, key)
    assert story.detector.failed_broker(TWO) is None
    assert story.detector.failed_broker(ONE)
    assert story.detector.failed_broker(THREE)


def test_removed_broker_leaves_nothing_behind(story):
    empty = [len(each) for each in vars(story.detector).values() if isinstance(each, dict)]
    story.beat(10_000, ONE)
    story.closes(10_100)
    story.look(10_100)
    story.detector.remove(ONE)
    story.told(10_200, ProbeOutcome.REFUSED)
    assert [len(each) for each in vars(story.detector).values() if isinstance(each, dict)] == empty
    assert story.detector.failed_broker(ONE) is None
    assert story.dead == []


def test_suspect_that_left_the_heartbeat_table_does_not_fail(story):
    story.beat(10_000, ONE)
    story.closes(10_100)
    story.look(10_100)
    story.live.remove(ONE)
    story.told(10_101, ProbeOutcome.REFUSED)
    assert story.dead == []
    assert story.detector.suspects == set()


# Masters that a new leader has not heard


def test_master_without_heartbeat_whose_port_refuses_fails_without_the_pause(story):
    story.detector.expect(ONE, 500)
    assert story.look(500) == [Probe(ONE, ANSWER_MS)]
    story.told(502, ProbeOutcome.REFUSED)
    assert story.who_died == [(ONE, SuspicionReason.NO_CONTACT_YET, 502)]
    assert story.dead[0].reason.startswith("it was not heard since this controller runs and its port refuses")
    assert story.detector.is_lost(ONE, 502)


def test_master_without_heartbeat_that_does_not_answer_is_lost_when_the_pause_ends(story):
    story.detector.expect(ONE, 500)
    for now_ms in range(500, 14_000, 50):
        for _ in story.look(now_ms):
            story.told(now_ms, ProbeOutcome.NO_ANSWER)
    assert story.dead == []
    assert not story.detector.is_lost(ONE, 12_999)
    assert story.detector.is_lost(ONE, 13_000)
    assert story.detector.suspects == set()


def test_master_without_heartbeat_that_answers_its_probe_is_alive_and_probed_again_later(story):
    story.detector.expect(ONE, 500)
    story.look(500)
    story.told(502, ProbeOutcome.ANSWERED)
    assert story.detector.suspects == set()
    assert not story.detector.is_lost(ONE, 60_000)
    assert story.look(3_503) == [Probe(ONE, ANSWER_MS)]


def test_brokers_with_a_heartbeat_or_a_failure_are_not_expected(story):
    story.beat(10_000, ONE, TWO)
    story.closes(10_000)
    story.look(10_000)
    story.told(10_001, ProbeOutcome.REFUSED, TWO)
    for key in (ONE, TWO):
        story.detector.expect(key, 10_002)
    assert story.detector.suspects == {ONE}


# Whatever happens

KEYS = st.sampled_from([ONE, TWO])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("beat"), KEYS, st.sampled_from([OLD, NEW])),
        st.tuples(st.just("closes"), st.sampled_from([OLD, NEW])),
        st.tuples(st.just("told"), st.sampled_from(ProbeOutcome), KEYS),
        st.tuples(st.just("doubts")),
        st.tuples(st.just("waits"), st.integers(0, 4_000)),
    ),
    max_size=40,
)


def happens(story, now_ms, step):
    match step:
        case "beat", key, connection_id:
            story.beat(now_ms, key, connection_id=connection_id)
        case "closes", connection_id:
            story.closes(now_ms, connection_id)
        case "told", outcome, key:
            story.told(now_ms, outcome, key)
        case ("doubts",):
            story.detector.suspend(now_ms)
        case "waits", for_ms:
            return now_ms + for_ms
    return now_ms


@given(STEPS)
def test_every_suspicion_ends_and_no_broker_fails_that_sent_a_heartbeat_during_it(steps):
    story, now_ms, beats = Story(), 0, []
    for step in steps:
        now_ms = happens(story, now_ms, step)
        if step[0] == "beat":
            beats.append((step[1], now_ms))
        story.look(now_ms)
    for dead in story.dead:
        assert dead.outcome is not ProbeOutcome.ANSWERED
        assert dead.last.last_contact_ms <= dead.suspected_ms
        assert not [at for key, at in beats if key == dead.key and dead.suspected_ms < at < dead.judged_ms]
    # None of them is heard, and no question is reported of: in the end all are dead, and nothing is left over.
    for _ in range(300):
        now_ms += 50
        story.look(now_ms)
    assert story.detector.suspects == set()
    assert [key for key, _ in story.live.rows()] == [ELSEWHERE]
    assert not story.detector._probes._open


# Hosts whose brokers are dead


@pytest.mark.parametrize(("outcome", "hosts"), [(ProbeOutcome.REFUSED, 1), (ProbeOutcome.NO_ANSWER, 3)])
def test_refused_ports_are_failures_and_unanswered_probes_make_hosts_silent(outcome, hosts):
    detector = FailureDetector(HeartbeatTable(), HostLiveness(nobody), nobody, 0)
    for last_contact_ms in (9_000, 10_000, 11_000, 12_000, 13_000, 14_000):
        for key in (ONE, TWO, THREE) if last_contact_ms < 11_000 else (THREE,):
            row = heard(last_contact_ms=last_contact_ms, connection_id=key.broker_id)
            detector.heartbeat(key, row, f"10.0.0.{key.broker_id}:30911")
        if last_contact_ms == 10_000:
            detector.connection_lost(ONE.broker_id, last_contact_ms)
            detector.connection_lost(TWO.broker_id, last_contact_ms)
    dead = set()
    for now_ms in range(14_000, 15_000, 50):
        probes, judged = detector.look(now_ms, SUSPECT_MS)
        dead |= {each.key for each in judged}
        for probe in probes:
            dead |= {each.key for each in detector.probed(probe.key, outcome, now_ms)}
    assert dead == ({ONE, TWO} if outcome is ProbeOutcome.REFUSED else set())
    assert detector.hosts.look(15_000).hosts == hosts


def test_broker_expected_after_the_pause_counts_for_no_host(story):
    story.beat(1_000, ONE)
    ends_ms = story.detector.pause_ends_ms
    before = story.detector.hosts.look(1_001).hosts
    story.detector.expect_host(TWO, "10.0.0.77:30911", ends_ms)
    assert story.detector.hosts.look(1_002).hosts == before
    story.detector.expect_host(TWO, "10.0.0.77:30911", ends_ms - 1)
    assert story.detector.hosts.look(1_003).hosts == before + 1


def test_failure_by_silence_has_the_timeout_that_passed(story):
    story.beat(10_000, ONE)
    for now_ms in range(13_000, 14_000, 50):
        for probe in story.look(now_ms):
            story.detector.probed(probe.key, ProbeOutcome.NO_ANSWER, now_ms + 10)
    ((key, timeout_ms),) = [(each.key, each.timeout_ms) for each in story.dead]
    assert (key, timeout_ms) == (ONE, SUSPECT_MS + ANSWER_MS)
