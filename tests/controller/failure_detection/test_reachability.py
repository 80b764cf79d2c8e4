"""Which brokers were reached, and how often those that were not are greeted."""

import pytest
from controller_builders import SET, an_address

from controller.failure_detection import senders as module
from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.senders import Reachability

ONE, TWO = BrokerKey(SET, 1), BrokerKey(SET, 2)


def test_reachability_counts_for_one_address():
    reach = Reachability()
    assert not reach.has_reached(ONE, an_address(1))
    assert not reach.has_reached_any
    reach.reached(ONE, an_address(1))
    assert reach.has_reached(ONE, an_address(1))
    assert reach.has_reached_any
    assert not reach.has_reached(ONE, an_address(2))
    assert not reach.has_reached(TWO, an_address(1))


def test_reachability_checks_of_an_unreached_broker_become_rarer():
    reach = Reachability()
    greeted_ms = [now_ms for now_ms in range(0, 1_000_001, 500) if reach.begin(ONE, an_address(1), now_ms)]
    assert greeted_ms[:5] == [0, 1_000, 3_000, 7_000, 15_000]
    assert greeted_ms[-1] - greeted_ms[-2] == 300_000


def test_new_address_is_checked_at_once():
    reach = Reachability()
    assert reach.begin(ONE, an_address(1), 0)
    assert not reach.begin(ONE, an_address(1), 10)
    assert reach.begin(ONE, an_address(2), 10)


def test_broker_is_unreached_after_half_a_minute_of_failed_checks():
    reach = Reachability()
    for now_ms in range(0, 31_001, 1_000):
        reach.begin(ONE, an_address(1), now_ms)
        assert reach.unreached == ([] if now_ms < 31_000 else [ONE])
    reach.reached(ONE, an_address(1))
    assert reach.unreached == []


def test_silent_broker_is_not_unreached_and_begins_anew_when_it_returns():
    reach = Reachability()
    for now_ms in range(0, 40_001, 1_000):
        reach.begin(ONE, an_address(1), now_ms)
        reach.begin(TWO, an_address(2), now_ms)
    assert reach.unreached == [ONE, TWO]
    for now_ms in range(41_000, 51_001, 1_000):
        reach.begin(TWO, an_address(2), now_ms)
    assert reach.unreached == [TWO]
    assert reach.begin(ONE, an_address(1), 51_000)
    assert reach.unreached == [TWO]


def test_contact_without_a_check_keeps_the_earlier_checks():
    """Of thousands of brokers behind a firewall only some are greeted in each look."""
    reach = Reachability()
    tries = 0
    for now_ms in range(0, 120_000, 1_000):
        if now_ms % 20_000 == 0:
            tries += reach.begin(ONE, an_address(1), now_ms)
        else:
            reach.record_contact(ONE, now_ms)
    assert tries == 6
    assert reach.unreached == [ONE]


def test_removed_broker_leaves_no_reachability_behind():
    reach = Reachability()
    reach.begin(ONE, an_address(1), 0)
    reach.reached(TWO, an_address(2))
    for key in (ONE, TWO):
        reach.remove(key)
    assert not reach.has_reached(TWO, an_address(2))
    assert reach.begin(ONE, an_address(1), 0)


def test_only_the_last_reached_brokers_are_kept(monkeypatch):
    monkeypatch.setattr(module, "_REMEMBERED_MAX", 2)
    reach = Reachability()
    for number in range(1, 4):
        reach.reached(BrokerKey(SET, number), an_address(number))
    assert [reach.has_reached(BrokerKey(SET, number), an_address(number)) for number in (1, 2, 3)] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("address", "peer", "host"),
    [
        ("10.0.0.1:30911", "", "10.0.0.1"),
        ("[::ffff:10.0.0.1]:30911", "", "10.0.0.1"),
        ("[fe80:0::1]:30911", "", "fe80::1"),
        ("broker-1:30911", "10.0.0.1:30911", "10.0.0.1"),
        ("broker-1:30911", "", ""),
    ],
)
def test_reached_broker_has_the_ip_address_of_its_peer(address, peer, host):
    reach = Reachability()
    reach.reached(ONE, address, peer)
    assert reach.host_of(ONE, address) == host
    assert reach.host_of(ONE, "10.0.0.9:1") == reach.host_of(TWO, address) == ""


def test_known_ip_address_of_a_name_survives_a_response_without_one():
    reach = Reachability()
    reach.reached(ONE, "broker-1:30911", "10.0.0.1:30911")
    reach.reached(ONE, "broker-1:30911")
    assert reach.host_of(ONE, "broker-1:30911") == "10.0.0.1"


def test_ip_address_of_a_name_is_looked_up_again_after_a_missing_response():
    reach = Reachability()
    reach.reached(ONE, "broker-1:30911")
    assert not reach.found_host(ONE, "broker-1:30911")
    reach.reached(ONE, "broker-1:30911", "10.0.0.1:30911")
    reach.reached(TWO, an_address(2))
    assert reach.found_host(ONE, "broker-1:30911")
    for key in (ONE, TWO):
        reach.no_response(key)
        reach.no_response(key)
    reach.reached(ONE, "broker-1:30911")
    assert (reach.found_host(ONE, "broker-1:30911"), reach.host_of(ONE, "broker-1:30911")) == (None, "10.0.0.1")
    assert reach.found_host(TWO, an_address(2))
    assert not reach.found_host(TWO, an_address(3))
