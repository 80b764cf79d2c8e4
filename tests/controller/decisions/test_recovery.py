"""Sets of which the store knows less than their brokers."""

import pytest
from controller_builders import SET, a_set, last_heartbeat

from controller.decisions.membership import WantedSyncStateSet
from controller.decisions.recovery import Recovery
from controller.failure_detection.heartbeats import BrokerKey, HeartbeatTable, Source

OWN, OTHER = 7, 8


@pytest.fixture
def live():
    table = HeartbeatTable()
    for broker_id in (1, 2):
        table.record_heartbeat(BrokerKey(SET, broker_id), last_heartbeat(connection_id=OWN))
    return table


@pytest.fixture
def recovery(live):
    return Recovery(live)


def report(*, master=1, master_epoch=5, sync_state_set_epoch=7):
    return WantedSyncStateSet(
        broker_name=SET,
        master=master,
        master_epoch=master_epoch,
        members=frozenset({1, 2}),
        sync_state_set_epoch=sync_state_set_epoch,
    )


NEWER = report(sync_state_set_epoch=9)


def test_set_that_agrees_with_its_brokers_does_not_wait(recovery):
    assert not recovery.is_behind(a_set())
    assert not recovery.waits(a_set(), 0)


def test_log_at_a_higher_epoch_without_a_living_master_shows_that_the_store_is_behind(recovery, live):
    live.record_heartbeat(BrokerKey(SET, 2), last_heartbeat(epoch=6, connection_id=OWN))
    assert not recovery.is_behind(a_set())
    live.remove(BrokerKey(SET, 1))
    assert recovery.is_behind(a_set())
    assert recovery.waits(a_set(), 0)
    assert recovery.waits(a_set(), 7_999)
    assert not recovery.waits(a_set(), 8_000)


def test_rebuilding_set_waits_for_its_brokers(recovery):
    assert recovery.waits(a_set(is_rebuilding=True), 1_000)
    assert not recovery.waits(a_set(is_rebuilding=True), 9_000)


def test_set_that_is_rebuilt_once_more_waits_again(recovery):
    assert recovery.waits(a_set(is_rebuilding=True), 0)
    assert not recovery.waits(a_set(), 5_000)
    assert recovery.waits(a_set(is_rebuilding=True), 60_000)


def test_recovered_set_waits_again_when_it_is_rebuilt_once_more(recovery):
    assert recovery.waits(a_set(is_rebuilding=True), 0)
    assert not recovery.waits(a_set(is_rebuilding=True), 8_000)
    recovery.is_well(SET)
    assert recovery.waits(a_set(is_rebuilding=True), 60_000)


@pytest.mark.parametrize("forgets", ["a set", "all"])
def test_waits_and_reports_are_dropped_with_the_set_and_with_leadership(recovery, forgets):
    assert recovery.waits(a_set(is_rebuilding=True), 0)
    for now_ms in (0, 5_000):
        recovery.reported(a_set(), NEWER, Source(OWN), now_ms)
    recovery.remove(SET) if forgets == "a set" else recovery.clear()
    assert recovery.reported_epochs(SET) == {}
    assert recovery.waits(a_set(is_rebuilding=True), 60_000)


@pytest.mark.parametrize("newer", [NEWER, report(master_epoch=6), report(master_epoch=6, sync_state_set_epoch=1)])
def test_two_reports_of_newer_epochs_by_a_master_show_that_the_store_is_behind(recovery, newer):
    recovery.reported(a_set(), newer, Source(OWN), 0)
    assert not recovery.is_behind(a_set())
    recovery.reported(a_set(), newer, Source(OWN), 5_000)
    assert recovery.is_behind(a_set())
    assert recovery.reported_epochs(SET) == {1: newer.master_epoch}
    recovery.remove(SET)
    assert not recovery.is_behind(a_set())


@pytest.mark.parametrize("old", [report(), report(sync_state_set_epoch=6), report(master_epoch=4)])
def test_report_of_old_epochs_cancels_a_report_of_newer_ones(recovery, old):
    recovery.reported(a_set(), NEWER, Source(OWN), 0)
    recovery.reported(a_set(), old, Source(OWN), 5_000)
    recovery.reported(a_set(), NEWER, Source(OWN), 6_000)
    assert not recovery.is_behind(a_set())


def test_reports_of_another_member_as_master_count_once_the_stored_master_is_removed(recovery, live):
    newer = report(master=2, master_epoch=9)
    recovery.reported(a_set(), newer, Source(OWN), 0)
    recovery.reported(a_set(), report(), Source(OWN), 2_000)
    recovery.reported(a_set(), newer, Source(OWN), 5_000)
    assert recovery.reported_epochs(SET) == {2: 9}
    assert not recovery.is_behind(a_set())
    live.remove(BrokerKey(SET, 1))
    assert recovery.is_behind(a_set())


def test_reported_epochs_are_kept_for_each_member(recovery):
    for now_ms in (0, 5_000):
        recovery.reported(a_set(), report(master_epoch=8), Source(OWN), now_ms)
        recovery.reported(a_set(), report(master=2, master_epoch=9), Source(OWN), now_ms)
    assert recovery.reported_epochs(SET) == {1: 8, 2: 9}
    assert recovery.is_behind(a_set())


# Claims that prove nothing


def test_disputed_epoch_is_reported_after_eight_seconds(recovery, live):
    live.record_heartbeat(BrokerKey(SET, 3), last_heartbeat(epoch=6))
    assert recovery.disputed(a_set(), 0) == {}
    assert recovery.disputed(a_set(), 7_999) == {}
    assert recovery.disputed(a_set(), 8_000) == {3: 6}
    assert not recovery.waits(a_set(), 8_000)


@pytest.mark.parametrize("ends", ["another epoch", "forget", "clear"])
def test_disputed_epoch_that_ended_is_reported_after_its_time_anew(recovery, live, ends):
    live.record_heartbeat(BrokerKey(SET, 3), last_heartbeat(epoch=6))
    assert recovery.disputed(a_set(), 0) == {}
    if ends == "another epoch":
        assert recovery.disputed(a_set(master_epoch=6), 7_000) == {}
    else:
        recovery.remove(SET) if ends == "forget" else recovery.clear()
    assert recovery.disputed(a_set(), 9_000) == {}
    assert recovery.disputed(a_set(), 17_000) == {3: 6}


@pytest.mark.parametrize(("wanted", "connection"), [(NEWER, OTHER), (report(master=9, master_epoch=9), OWN)])
def test_reports_of_non_members_or_over_other_connections_are_ignored(recovery, live, wanted, connection):
    live.record_heartbeat(BrokerKey(SET, 9), last_heartbeat(connection_id=OWN))
    for now_ms in (0, 5_000, 10_000):
        recovery.reported(a_set(), wanted, Source(connection), now_ms)
    assert not recovery.is_behind(a_set())


def test_reports_of_a_master_without_heartbeat_are_ignored():
    recovery = Recovery(HeartbeatTable())
    for now_ms in (0, 5_000):
        recovery.reported(a_set(), NEWER, Source(OWN), now_ms)
    assert not recovery.is_behind(a_set())
