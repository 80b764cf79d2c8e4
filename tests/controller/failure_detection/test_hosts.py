"""How many hosts of brokers fell silent together, and when that says more of this controller than of them."""

import pytest
from controller_builders import SET

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.hosts import HOST_UNKNOWN, SILENCE_MS_MAX, WINDOW_MS, BrokerHost, HostLiveness

OWN = "10.0.0.1"


@pytest.fixture
def hosts():
    return HostLiveness(lambda host: host == OWN)


def key(number):
    return BrokerKey(SET, number)


def last_heartbeat(hosts, now_ms, *numbers):
    """Hear broker N, which is at 10.0.0.N, and due again in a second."""
    for number in numbers:
        hosts.record_contact(key(number), f"10.0.0.{number}:30911", now_ms + 1_000)


@pytest.mark.parametrize(
    ("all_hosts", "with_heartbeats", "is_most"),
    [
        ((2,), (), True),
        ((1,), (), True),
        ((1, 2), (1,), False),
        ((1, 2), (2,), False),
        ((1, 2), (), True),
        ((2, 3), (3,), False),
        ((1, 2, 3), (1, 3), False),
        ((1, 2, 3), (1,), True),
        ((2, 3, 4), (4,), True),
        ((2, 3, 4), (3, 4), False),
        ((1, 2, 3, 4, 5), (1, 4, 5), False),
        ((1, 2, 3, 4, 5), (1, 5), True),
    ],
)
def test_most_hosts_are_more_than_half_of_the_others(hosts, all_hosts, with_heartbeats, is_most):
    last_heartbeat(hosts, 0, *all_hosts)
    last_heartbeat(hosts, 2_500, *with_heartbeats)
    assert hosts.look(2_500).is_most == is_most


@pytest.mark.parametrize(
    ("proven", "with_heartbeats", "has_any_contact"),
    [
        ((), (), False),
        ((), (1,), True),
        ((), (3,), True),
        ((2,), (1,), True),
        ((2,), (2,), True),
        # Anybody can send heartbeats in the name of a host that is not proven.
        ((2,), (3,), False),
    ],
)
def test_controller_has_contact_if_a_host_that_counts_is_in_contact(hosts, proven, with_heartbeats, has_any_contact):
    last_heartbeat(hosts, 0, 1, 2, 3)
    for number in proven:
        hosts.record_contact(
            key(number), f"10.0.0.{number}:30911", 1_000, BrokerHost(f"10.0.0.{number}", is_proven=True)
        )
    for number in with_heartbeats:
        host = BrokerHost(f"10.0.0.{number}", is_proven=number in proven)
        hosts.record_contact(key(number), f"10.0.0.{number}:30911", 3_500, host)
    assert hosts.has_any_contact(2_500) == has_any_contact


def test_host_is_awaited_for_a_second_before_it_is_silent(hosts):
    last_heartbeat(hosts, 0, 2, 3, 4)
    seen = [hosts.look(now_ms) for now_ms in (1_000, 1_001, 2_000, 2_001)]
    assert [(each.awaited, each.silent, each.may_be_most, each.is_most) for each in seen] == [
        (0, 0, False, False),
        (3, 0, True, False),
        (3, 0, True, False),
        (0, 3, True, True),
    ]


def test_broker_that_moves_counts_at_its_new_host_only(hosts):
    last_heartbeat(hosts, 0, 2)
    hosts.record_contact(key(2), "10.0.0.3:30911", 1_000)
    assert hosts.look(0).hosts == 1


def test_host_of_removed_brokers_is_not_silent(hosts):
    last_heartbeat(hosts, 0, 2, 3)
    hosts.remove(key(2))
    hosts.remove(key(9))
    assert hosts.look(5_000).hosts == 1


def test_given_up_host_counts_for_ten_seconds(hosts):
    last_heartbeat(hosts, 0, 2, 3, 4)
    hosts.give_up(key(2), 3_000)
    last_heartbeat(hosts, 3_000, 3, 4)
    assert (hosts.look(3_000).hosts, hosts.look(3_000).silent) == (3, 1)
    last_heartbeat(hosts, 3_001 + WINDOW_MS, 3, 4)
    assert (hosts.look(3_001 + WINDOW_MS).hosts, hosts.look(3_001 + WINDOW_MS).silent) == (2, 0)


def test_host_with_another_awaited_broker_is_not_given_up(hosts):
    last_heartbeat(hosts, 0, 2, 3)
    hosts.record_contact(key(7), "10.0.0.2:30921", 1_000)
    hosts.give_up(key(2), 3_000)
    assert hosts.look(60_000).hosts == 2


def test_response_of_a_port_counts_as_contact_of_its_host(hosts):
    last_heartbeat(hosts, 0, 2)
    hosts.record_response(key(2), 5_000)
    hosts.record_response(key(9), 5_000)
    assert not hosts.look(5_000).is_most


def test_expected_host_is_silent_when_its_time_is_over(hosts):
    last_heartbeat(hosts, 0, 2)
    hosts.expect(key(2), "10.0.0.2:30911", 99_000)
    hosts.expect(key(3), "10.0.0.3:30911", 12_000)
    last_heartbeat(hosts, 13_001, 2)
    assert (hosts.look(13_001).hosts, hosts.look(13_001).silent) == (2, 1)


def test_process_pause_makes_no_host_silent(hosts):
    last_heartbeat(hosts, 0, 2, 3)
    hosts.after_pause(60_000)
    assert hosts.look(61_000).awaited == 0


def test_most_hosts_are_given_up_after_a_minute_with_contact_of_another(hosts):
    last_heartbeat(hosts, 0, 2, 3, 4)
    assert hosts.look(5_000).is_most
    hosts.silent_from_ms = 5_000
    assert not hosts.is_silent_for_good(500_000)
    last_heartbeat(hosts, 500_000, 4)
    hosts.look(500_000)
    assert not hosts.is_silent_for_good(500_000 + SILENCE_MS_MAX)
    assert hosts.is_silent_for_good(500_001 + SILENCE_MS_MAX)
    hosts.drop_silent(500_500)
    assert (hosts.look(500_500).hosts, hosts.look(500_500).silent) == (1, 0)


# Hosts that are proven


def proven(hosts, now_ms, *numbers):
    for number in numbers:
        broker_host = BrokerHost(f"10.0.0.{number}", is_proven=True)
        hosts.record_contact(key(number), f"10.0.0.{number}:30911", now_ms + 1_000, broker_host)


def test_only_proven_hosts_count_where_there_are_any(hosts):
    proven(hosts, 0, 2, 3, 4)
    last_heartbeat(hosts, 0, *range(60, 80))
    proven(hosts, 2_500, 2, 3)
    assert (hosts.look(2_500).hosts, hosts.look(2_500).silent) == (3, 1)


def test_unproven_hosts_do_not_count_beside_two_proven_ones(hosts):
    proven(hosts, 0, 1, 2)
    last_heartbeat(hosts, 0, *range(60, 80))
    proven(hosts, 2_500, 1)
    assert hosts.look(2_500).are_two


def test_host_with_many_names_counts_once_and_is_silent_only_if_all_are(hosts):
    proven(hosts, 0, 2, 3)
    for number in range(60, 80):
        hosts.record_contact(key(number), f"name-{number}:30911", number * 100, BrokerHost("10.0.0.66", is_proven=True))
    assert (hosts.look(8_900).hosts, hosts.look(8_900).silent) == (3, 2)
    assert hosts.look(8_901).silent == 3


def test_name_of_the_controller_host_is_its_own_host(hosts):
    proven(hosts, 0, 2, 3)
    hosts.record_contact(key(9), "me:30911", 1_000, BrokerHost(OWN, is_proven=True))
    assert hosts.look(0).hosts == 2


def test_contact_from_an_unproven_host_does_not_count_for_a_proven_one(hosts):
    proven(hosts, 0, 2, 3)
    hosts.record_contact(key(66), "10.0.0.2:1", 5_000, BrokerHost("10.0.0.2", is_proven=False))
    proven(hosts, 2_500, 3)
    assert hosts.look(2_500).silent == 1


def test_expected_hosts_count_until_their_first_contact(hosts):
    proven(hosts, 0, 2)
    hosts.expect(key(3), "10.0.0.3:30911", 12_000)
    hosts.expect(key(4), "10.0.0.4:30911", 12_000)
    assert hosts.look(0).hosts == 3
    hosts.record_contact(key(3), "10.0.0.3:30911", 13_000, HOST_UNKNOWN)
    proven(hosts, 1, 4)
    assert hosts.look(1).hosts == 2


@pytest.mark.parametrize(("number", "is_given_up"), [(60, True), (1, False)], ids=["another", "its own"])
def test_silent_hosts_are_given_up_after_contact_of_another_host_proven_or_not(hosts, number, is_given_up):
    proven(hosts, 0, 2)
    hosts.silent_from_ms = 2_500
    for now_ms in range(2_500, 2_500 + SILENCE_MS_MAX + 1_500, 500):
        last_heartbeat(hosts, now_ms, number)
        assert hosts.look(now_ms).is_most is (number == 60)
    assert hosts.is_silent_for_good(now_ms) is is_given_up
