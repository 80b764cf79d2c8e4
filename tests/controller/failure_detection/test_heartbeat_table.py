"""Who was heard lately, and how far its log is."""

import pytest
from controller_builders import SET, last_heartbeat

from controller.failure_detection.heartbeats import TIMEOUT_BELIEVED_MS_MAX, UNKNOWN, BrokerKey, HeartbeatTable

ONE, TWO = BrokerKey(SET, 1), BrokerKey(SET, 2)


@pytest.fixture
def table():
    return HeartbeatTable()


def heartbeats_each_second(table, key, until_ms, **values):
    for last_contact_ms in (until_ms - 1_000, until_ms):
        table.record_heartbeat(key, last_heartbeat(last_contact_ms=last_contact_ms, **values))


def test_broker_is_alive_until_its_own_timeout(table):
    table.record_heartbeat(ONE, last_heartbeat(timeout_ms=3_000))
    assert set(table.alive(SET, 3_000)) == {1}
    assert table.alive(SET, 3_001) == {}


@pytest.mark.parametrize(
    ("epoch", "max_offset", "kept"), [(5, 999, (5, 1000)), (4, 9999, (5, 1000)), (6, 1, (6, 1)), (5, 1001, (5, 1001))]
)
def test_late_heartbeat_does_not_shorten_a_log(table, epoch, max_offset, kept):
    table.record_heartbeat(ONE, last_heartbeat())
    table.record_heartbeat(ONE, last_heartbeat(epoch=epoch, max_offset=max_offset))
    assert table.of_set(SET)[1].progress == kept


def test_restarted_broker_may_have_a_shorter_log(table):
    table.record_heartbeat(ONE, last_heartbeat())
    table.record_restart(ONE, now_ms=9, connection_id=3)
    assert table.of_set(SET)[1].progress == (UNKNOWN, UNKNOWN)
    table.record_heartbeat(ONE, last_heartbeat(max_offset=500))
    assert table.of_set(SET)[1].progress == (5, 500)


def test_any_request_counts_as_contact_and_keeps_the_values_of_heartbeats(table):
    table.record_heartbeat(ONE, last_heartbeat(timeout_ms=3_000, connection_id=7))
    table.record_contact(ONE, now_ms=5_000, connection_id=8)
    row = table.of_set(SET)[1]
    assert (row.last_contact_ms, row.connection_id, row.progress, row.timeout_ms) == (5_000, 8, (5, 1000), 3_000)


def test_first_request_of_a_broker_makes_it_alive_without_a_log(table):
    table.record_contact(ONE, now_ms=5, connection_id=8)
    assert table.alive(SET, 6)[1].progress == (UNKNOWN, UNKNOWN)


def test_set_leaves_the_table_with_its_last_broker(table):
    table.record_heartbeat(ONE, last_heartbeat())
    table.remove(TWO)
    table.remove(ONE)
    table.remove(BrokerKey("other", 1))
    assert list(table.rows()) == []
    assert vars(table) == vars(HeartbeatTable())


def test_connection_has_the_brokers_whose_last_heartbeat_came_over_it(table):
    table.record_heartbeat(TWO, last_heartbeat(connection_id=7))
    table.record_heartbeat(ONE, last_heartbeat(connection_id=7))
    assert table.over(7) == (ONE, TWO)
    table.record_heartbeat(ONE, last_heartbeat(connection_id=8))
    assert (table.over(7), table.over(8), table.over(9)) == ((TWO,), (ONE,), ())


def test_one_member_of_a_set_can_be_removed(table):
    table.record_heartbeat(ONE, last_heartbeat(connection_id=7))
    table.record_heartbeat(TWO, last_heartbeat(connection_id=7))
    assert table.brokers == 2
    table.remove(ONE)
    assert (list(table.rows()), table.over(7), table.brokers) == (
        [(TWO, last_heartbeat(connection_id=7, period_ms=0))],
        (TWO,),
        1,
    )


def test_started_broker_awaits_its_heartbeat(table):
    table.record_restart(ONE, now_ms=5, connection_id=8)
    assert table.get(ONE).awaits_heartbeat
    table.record_contact(ONE, now_ms=6, connection_id=8)
    assert table.get(ONE).awaits_heartbeat
    table.record_heartbeat(ONE, last_heartbeat())
    assert not table.get(ONE).awaits_heartbeat


def test_registration_counts_as_contact(table):
    table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=0, timeout_ms=10_000))
    table.record_restart(ONE, now_ms=9_000, connection_id=8)
    assert table.get(ONE).is_alive(19_000)
    assert table.silent(19_000, 10_000) == []
    assert table.silent(19_001, 10_000) == [ONE]


def test_starting_broker_is_silent_only_after_its_own_timeout(table):
    table.record_restart(ONE, now_ms=0, connection_id=3)
    table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=10, timeout_ms=10_000))
    assert table.silent(now_ms=5_000, silence_ms=3_000) == []
    table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=5_010, timeout_ms=10_000))
    assert table.silent(now_ms=9_000, silence_ms=3_000) == []
    assert table.silent(now_ms=15_011, silence_ms=3_000) == [ONE]


def test_broker_with_a_heartbeat_each_second_has_started(table):
    table.record_restart(ONE, now_ms=0, connection_id=3)
    for last_contact_ms in (10, 1_010):
        table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=last_contact_ms, timeout_ms=10_000))
    assert table.silent(now_ms=4_011, silence_ms=3_000) == [ONE]


def test_brokers_become_silent_in_the_order_of_their_last_contact(table):
    for last_contact_ms, key in ((0, ONE), (100, TWO)):
        heartbeats_each_second(table, key, last_contact_ms)
    assert table.silent(now_ms=3_050, silence_ms=3_000) == [ONE]
    table.record_contact(ONE, now_ms=3_060, connection_id=1)
    assert table.silent(now_ms=3_101, silence_ms=3_000) == [TWO]
    table.remove(TWO)
    assert table.silent(now_ms=3_101, silence_ms=3_000) == []


def test_broker_with_a_shorter_timeout_is_silent_earlier_also_after_a_change(table):
    heartbeats_each_second(table, ONE, 0, timeout_ms=1_000)
    heartbeats_each_second(table, TWO, 0, timeout_ms=10_000)
    assert table.silent(now_ms=1_001, silence_ms=3_000) == [ONE]
    assert table.silent(now_ms=1_001, silence_ms=500) == [ONE, TWO]
    assert table.silent(now_ms=1_001, silence_ms=3_000) == [ONE]
    table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=0, timeout_ms=10_000))
    table.record_heartbeat(TWO, last_heartbeat(last_contact_ms=0, timeout_ms=1_000))
    assert table.silent(now_ms=1_001, silence_ms=3_000) == [TWO]


# How far apart heartbeats come


def periods(table, *heartbeats_ms):
    """Return what is known of the interval after each heartbeat."""
    found = []
    for heartbeat_ms in heartbeats_ms:
        table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=heartbeat_ms))
        found.append(table.get(ONE).period_ms)
    return found


def test_heartbeat_period_is_known_from_the_second_heartbeat_on(table):
    assert periods(table, 1_000, 2_010, 3_005) == [0, 1_000, 1_000]


def test_longer_heartbeat_period_survives_one_early_heartbeat(table):
    assert periods(table, 1_000, 6_000, 11_000, 11_100, 16_000) == [0, 5_000, 5_000, 3_750, 4_900]


def test_first_period_that_was_too_long_is_corrected_by_the_next_one(table):
    assert periods(table, 1_000, 4_000, 5_000, 6_000) == [0, 3_000, 1_000, 1_000]


def test_one_late_heartbeat_does_not_change_the_period(table):
    assert periods(table, 1_000, 2_000, 6_000) == [0, 1_000, 1_000]


def test_report_between_two_heartbeats_does_not_change_the_period(table):
    table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=1_000))
    table.record_contact(ONE, now_ms=5_500, connection_id=1)
    assert periods(table, 6_000) == [5_000]


def test_broker_with_a_report_first_has_its_own_timeout_until_two_heartbeats(table):
    table.record_contact(ONE, now_ms=500, connection_id=1)
    assert table.silent(now_ms=10_000, silence_ms=3_000) == []
    assert periods(table, 1_000, 6_000) == [0, 5_000]


def test_restarted_broker_may_have_another_heartbeat_period(table):
    periods(table, 1_000, 2_000)
    table.record_restart(ONE, now_ms=2_500, connection_id=1)
    assert periods(table, 3_000, 8_000, 9_000) == [0, 0, 1_000]


def test_allowed_silence_is_the_own_timeout_at_most(table):
    for last_contact_ms in (0, 9_000, 18_000):
        table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=last_contact_ms))
    assert table.get(ONE).silence_allowed_ms(3_000) == 10_000


def test_largest_timeout_keeps_a_broker_alive_for_a_minute_at_most(table):
    table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=0, timeout_ms=86_400_000))
    assert table.get(ONE).due_ms < TIMEOUT_BELIEVED_MS_MAX
    assert table.silent(TIMEOUT_BELIEVED_MS_MAX, silence_ms=3_000) == []
    assert table.silent(TIMEOUT_BELIEVED_MS_MAX + 1, silence_ms=3_000) == [ONE]


# A broker that is heard over several connections


OWN, OTHER = 7, 8


@pytest.fixture
def local_heartbeats(table):
    table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=0, connection_id=OWN))
    return table


def claim(last_contact_ms, connection_id=OTHER):
    return last_heartbeat(last_contact_ms=last_contact_ms, connection_id=connection_id, epoch=50, max_offset=9999)


def test_log_reported_over_another_connection_is_ignored_beside_the_own_one(local_heartbeats):
    for last_contact_ms in (100, 200, 1_500):
        local_heartbeats.record_heartbeat(ONE, claim(last_contact_ms))
        assert local_heartbeats.get(ONE).progress == (5, 1000)
    assert local_heartbeats.get(ONE).last_contact_ms == 1_500
    assert local_heartbeats.get(ONE).own.connection_id == OWN


def test_log_reported_over_another_connection_counts_while_the_own_one_is_silent(local_heartbeats):
    local_heartbeats.record_heartbeat(ONE, claim(1_501))
    assert (local_heartbeats.get(ONE).progress, local_heartbeats.get(ONE).own.connection_id) == ((50, 9999), OTHER)
    local_heartbeats.record_heartbeat(ONE, last_heartbeat(last_contact_ms=3_002, connection_id=OWN))
    assert (local_heartbeats.get(ONE).progress, local_heartbeats.get(ONE).own.connection_id) == ((5, 1000), OWN)


@pytest.mark.parametrize(("reported", "kept"), [(1_100, (5, 1_100)), (900, (5, 1_000))])
def test_log_reported_over_the_own_connection_moves_forward(local_heartbeats, reported, kept):
    local_heartbeats.record_heartbeat(ONE, claim(500))
    local_heartbeats.record_heartbeat(
        ONE, last_heartbeat(last_contact_ms=1_000, connection_id=OWN, max_offset=reported)
    )
    assert (local_heartbeats.get(ONE).progress, local_heartbeats.get(ONE).owner) == (kept, None)


def test_request_over_another_connection_does_not_make_it_the_own_one(local_heartbeats):
    local_heartbeats.record_contact(ONE, now_ms=500, connection_id=OTHER)
    local_heartbeats.record_contact(ONE, now_ms=600, connection_id=OTHER)
    local_heartbeats.record_heartbeat(ONE, claim(700))
    assert (local_heartbeats.get(ONE).progress, local_heartbeats.get(ONE).own.connection_id) == ((5, 1000), OWN)


def test_first_heartbeat_after_a_restart_counts_over_any_connection(local_heartbeats):
    local_heartbeats.record_restart(ONE, now_ms=100, connection_id=OTHER)
    local_heartbeats.record_heartbeat(ONE, last_heartbeat(last_contact_ms=200, connection_id=OWN, max_offset=900))
    assert local_heartbeats.get(ONE).progress == (5, 900)


@pytest.mark.parametrize(("last_contact_ms", "counts"), [(12_500, (5, 1000)), (12_501, (50, 9999))])
def test_own_connection_counts_for_longer_with_a_longer_heartbeat_period(table, last_contact_ms, counts):
    for heartbeat_ms in (0, 5_000):
        table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=heartbeat_ms, connection_id=OWN))
    table.record_heartbeat(ONE, claim(last_contact_ms))
    assert table.get(ONE).progress == counts


@pytest.mark.parametrize(
    ("reported", "has"),
    [
        ({"epoch": 1, "max_offset": 0}, True),
        ({"epoch": -1, "max_offset": 5}, True),
        ({"epoch": -1, "max_offset": 0}, False),
    ],
)
def test_epoch_or_offset_means_messages(reported, has):
    assert last_heartbeat(**reported).has_messages is has


def test_own_connection_stays_known_while_others_send_heartbeats_for_the_broker(table):
    def of_one():
        return [number for number in (7, 8, 9) if ONE in table.connected_over(number)]

    heartbeats_each_second(table, ONE, 1_000, connection_id=7)
    for connection_id in (8, 9):
        table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=1_100, connection_id=connection_id))
        assert of_one() == [7, connection_id]
    table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=2_000, connection_id=7))
    assert of_one() == [7]
    # Over its own it is heard no more: the other is believed, and is its own from now on.
    table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=2_100, connection_id=8))
    table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=4_000, connection_id=8))
    assert of_one() == [8]
    table.record_heartbeat(ONE, last_heartbeat(last_contact_ms=4_100, connection_id=9))
    table.remove(ONE)
    assert of_one() == []
