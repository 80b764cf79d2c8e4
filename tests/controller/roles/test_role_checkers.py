"""Who checks a role, and which of them have ended their sessions because they were answered that it is down."""

import pytest
from fakes.clock import FakeClock

from controller.failure_detection.heartbeats import BrokerKey
from controller.roles.broker_roles import (
    ANSWER_SETTLES_MS,
    CHECKED_WITHIN_MS,
    CHECKS_WITHIN_MS,
    HOSTS_MAX,
    RoleCheckers,
)
from controller.roles.verdict import RoleAnswer, RoleVerdict

KEY = BrokerKey("broker-a", 1)
SERVES, HELD, FAILED, SUPERSEDED = (
    RoleAnswer(each, 3) for each in (RoleVerdict.SERVES, RoleVerdict.HELD, RoleVerdict.FAILED, RoleVerdict.SUPERSEDED)
)
IN_DOUBT = RoleAnswer(RoleVerdict.UNKNOWN, 3, "the master is suspect")
NOT_STORED = RoleAnswer(RoleVerdict.UNKNOWN, 0, "no such broker is stored")


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def checkers(clock):
    return RoleCheckers(clock)


def test_hosts_that_check_are_known_until_they_check_no_more(checkers, clock):
    assert checkers.hosts(KEY) == []
    checkers.record(KEY, "10.0.0.2", SERVES)
    clock.pass_ms(CHECKS_WITHIN_MS)
    checkers.record(KEY, "10.0.0.1", SERVES)
    assert checkers.hosts(KEY) == ["10.0.0.1", "10.0.0.2"]
    clock.pass_ms(1)
    assert checkers.hosts(KEY) == ["10.0.0.1"]
    assert checkers.hosts(BrokerKey("broker-a", 2)) == []


@pytest.mark.parametrize(("interval_ms", "within_ms"), [(100, CHECKS_WITHIN_MS), (700, 1_400), (60_000, 3_000)])
def test_host_with_a_longer_interval_is_waited_for_twice_as_long(checkers, clock, interval_ms, within_ms):
    checkers.record(KEY, "10.0.0.1", SERVES)
    clock.pass_ms(interval_ms)
    checkers.record(KEY, "10.0.0.1", SERVES)
    clock.pass_ms(within_ms)
    assert checkers.not_down(KEY) == ["10.0.0.1"]
    clock.pass_ms(1)
    assert checkers.not_down(KEY) == []


def test_broker_is_checked_as_long_as_somebody_may_check_a_little_late(checkers, clock):
    assert not checkers.is_checked(KEY)
    checkers.record(KEY, "10.0.0.2", SERVES)
    clock.pass_ms(CHECKED_WITHIN_MS)
    assert checkers.is_checked(KEY)
    clock.pass_ms(1)
    assert not checkers.is_checked(KEY)


@pytest.mark.parametrize("down", [HELD, FAILED, SUPERSEDED])
def test_host_is_down_a_moment_after_it_was_answered(checkers, clock, down):
    for host in ("10.0.0.1", "10.0.0.2"):
        checkers.record(KEY, host, SERVES)
    assert checkers.not_down(KEY) == ["10.0.0.1", "10.0.0.2"]
    clock.pass_ms(40)
    checkers.record(KEY, "10.0.0.1", down)
    clock.pass_ms(ANSWER_SETTLES_MS - 1)
    assert checkers.not_down(KEY) == ["10.0.0.1", "10.0.0.2"]
    # Another check does not begin that moment anew.
    checkers.record(KEY, "10.0.0.1", FAILED)
    clock.pass_ms(1)
    assert checkers.not_down(KEY) == ["10.0.0.2"]


def test_host_that_was_answered_up_since_is_not_down(checkers, clock):
    checkers.record(KEY, "10.0.0.1", HELD)
    clock.pass_ms(ANSWER_SETTLES_MS)
    checkers.record(KEY, "10.0.0.1", SERVES)
    clock.pass_ms(ANSWER_SETTLES_MS)
    assert checkers.not_down(KEY) == ["10.0.0.1"]


def test_host_that_checks_no_more_holds_nobody_up(checkers, clock):
    checkers.record(KEY, "10.0.0.1", SERVES)
    clock.pass_ms(CHECKS_WITHIN_MS + 1)
    assert checkers.not_down(KEY) == []


def test_check_of_a_broker_that_is_not_stored_is_not_recorded(checkers):
    checkers.record(KEY, "10.0.0.1", NOT_STORED)
    assert checkers.hosts(KEY) == []


@pytest.mark.parametrize("verdict", [RoleVerdict.SUPERSEDED, RoleVerdict.HELD])
def test_check_of_an_id_that_its_set_does_not_have_is_recorded_only_if_it_was_a_member(checkers, clock, verdict):
    """Anybody can check any id."""
    checkers.record(KEY, "10.0.0.1", SERVES)
    for number in range(1, 4):
        checkers.record(BrokerKey("broker-a", number), "10.0.0.1", RoleAnswer(verdict, 4, is_member=False))
    clock.pass_ms(ANSWER_SETTLES_MS)
    assert (checkers.hosts(KEY), checkers.not_down(KEY)) == (["10.0.0.1"], [])
    assert checkers.hosts(BrokerKey("broker-a", 2)) == []


def test_answer_in_doubt_leaves_a_host_as_it_was_answered_before(checkers, clock):
    checkers.record(KEY, "10.0.0.1", SERVES)
    checkers.record(KEY, "10.0.0.2", HELD)
    for _ in range(10):
        clock.pass_ms(200)
        for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
            checkers.record(KEY, host, IN_DOUBT)
    assert checkers.hosts(KEY) == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert checkers.not_down(KEY) == ["10.0.0.1", "10.0.0.3"]


def test_hosts_that_are_remembered_have_a_limit(checkers):
    for number in range(HOSTS_MAX + 1):
        checkers.record(KEY, f"10.0.1.{number}", SERVES)
    assert len(checkers.hosts(KEY)) == HOSTS_MAX
    assert "10.0.1.0" not in checkers.hosts(KEY)


def test_cleared_checkers_know_nobody(checkers):
    checkers.record(KEY, "10.0.0.1", SERVES)
    checkers.clear()
    assert checkers.hosts(KEY) == []
