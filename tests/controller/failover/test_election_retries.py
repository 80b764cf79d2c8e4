"""When an election of a set is tried again."""

import pytest

from controller.failover import election_starter
from controller.failover.election_starter import ElectionRetries


@pytest.fixture
def retries():
    return ElectionRetries()


def test_failed_election_is_tried_again_after_a_second(retries):
    retries.pause("a", 0)
    retries.drop_ended(999)
    assert retries.is_paused("a")
    retries.drop_ended(1_000)
    assert not retries.is_paused("a")


def test_election_that_waits_for_a_broker_is_tried_again_soon_for_five_seconds(retries):
    assert retries.try_soon("a", 0)
    retries.drop_ended(200)
    assert not retries.is_paused("a")
    assert retries.try_soon("a", 4_999)
    assert not retries.try_soon("a", 5_000)


def test_ended_wait_counts_anew(retries):
    assert retries.try_soon("a", 0)
    retries.end_wait("a")
    assert retries.try_soon("a", 60_000)


def test_deposed_controller_forgets_all_waits(retries):
    retries.try_soon("a", 0)
    retries.clear_waits()
    assert retries.try_soon("a", 60_000)


def test_only_so_many_sets_are_tried_soon_at_a_time(retries, monkeypatch):
    monkeypatch.setattr(election_starter, "_SOON_SETS_MAX", 1)
    assert retries.try_soon("a", 0)
    assert not retries.try_soon("b", 0)
    retries.end_wait("a")
    assert retries.try_soon("b", 1)


def test_broker_that_answered_lets_its_set_elect_at_once(retries):
    retries.pause("a", 0)
    retries.end_pause("a")
    assert not retries.is_paused("a")
