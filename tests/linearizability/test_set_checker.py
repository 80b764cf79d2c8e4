"""The checker finds what is not linearizable, and nothing else: histories written by hand."""

import itertools

import pytest
from linearizability.lives import AllLive, AllMayBe, Lives
from linearizability.set_checker import check
from linearizability.set_model import (
    ALTER,
    APPLY_ID,
    CLEAN,
    CLEAN_REFUSED,
    ELECT,
    ELECTION_FAILED,
    ID_INVALID,
    MASTER_STILL_EXISTS,
    NEXT_ID,
    OK,
    REGISTER,
    REPLICA_INFO,
    STALE_SET_EPOCH,
    SYNC_STATE_DATA,
    UNKNOWN_SET,
    Operation,
    View,
)


class Reported:
    """A history as it is told: each operation a step after the last one, unless it says when it was."""

    def __init__(self):
        self.operations = []
        self._now = itertools.count(1)

    def add(self, code, *arguments, answer=None, begin=None, end=None):
        begin = next(self._now) if begin is None else begin
        end = begin + 0.5 if end is None else end
        client = f"client{len(self.operations)}"
        operation = Operation(
            len(self.operations), client, code, arguments, begin, None if answer is None else end, answer
        )
        self.operations.append(operation)
        return operation

    def apply_id(self, broker_id, code=OK, **when):
        return self.add(APPLY_ID, broker_id, f"a{broker_id}", f"code{broker_id}", answer=(code,), **when)

    def elect(self, broker_id, answer, *, is_designated=False, **when):
        return self.add(ELECT, broker_id, is_designated, answer=answer, **when)

    def alter(self, master_epoch, in_sync, set_epoch, *, master=1, **when):
        answer = (OK, set_epoch + 1, frozenset(in_sync))
        return self.add(ALTER, master, master_epoch, frozenset(in_sync), set_epoch, **{"answer": answer} | when)

    def info(self, master, master_epoch, in_sync, set_epoch, **when):
        view = View(master, f"a{master}" if master else None, master_epoch, frozenset(in_sync), set_epoch)
        return self.add(REPLICA_INFO, answer=(OK, view), **when)

    def shows(self, master, master_epoch, in_sync, set_epoch, addresses):
        return View(master, f"a{master}", master_epoch, frozenset(in_sync), set_epoch, addresses)

    def a_set(self, brokers=2):
        """Tell of a set of so many brokers that broker 1 leads, with all in sync: epochs 1 and 2."""
        for broker_id in range(1, brokers + 1):
            self.apply_id(broker_id)
        addresses = tuple((i, f"a{i}") for i in range(1, brokers + 1))
        self.elect(1, (OK, self.shows(1, 1, {1}, 1, addresses)))
        self.alter(1, range(1, brokers + 1), 1)
        return self


@pytest.fixture
def reported():
    return Reported()


def finds(reported, operation, lives=None):
    verdict = check(reported.operations, lives or AllLive())
    assert verdict.is_decided
    assert verdict.violation == operation, str(verdict)
    assert str(operation) in str(verdict)
    return verdict


def accepts(reported, lives=None):
    verdict = check(reported.operations, lives or AllLive())
    assert verdict.holds, str(verdict)
    return verdict


def test_sequential_history_is_linearizable(reported):
    reported.a_set()
    reported.info(1, 1, {1, 2}, 2)
    reported.add(NEXT_ID, answer=(OK, 3))
    accepts(reported)


def test_concurrent_requests_may_apply_in_any_order(reported):
    reported.a_set()
    reported.alter(1, {1}, 2, begin=10, end=20)
    reported.info(1, 1, {1}, 3, begin=11, end=12)
    reported.info(1, 1, {1}, 3, begin=13, end=14)
    accepts(reported)


def test_an_acknowledged_alteration_that_is_lost_is_found(reported):
    reported.a_set()
    reported.alter(1, {1}, 2)
    reported.info(1, 1, {1}, 3)
    finds(reported, reported.info(1, 1, {1, 2}, 2))


def test_two_alterations_from_the_same_epoch_are_found(reported):
    reported.a_set(3)
    reported.alter(1, {1}, 2)
    finds(reported, reported.alter(1, {1, 2}, 2))


def test_two_brokers_with_one_id_are_found(reported):
    reported.apply_id(1)
    finds(reported, reported.add(APPLY_ID, 1, "b1", "other", answer=(OK,)))


def test_broker_id_assigned_out_of_order_is_found(reported):
    reported.apply_id(1)
    finds(reported, reported.apply_id(3))


def test_next_broker_id_that_was_assigned_before_is_found(reported):
    reported.apply_id(1)
    reported.apply_id(2)
    finds(reported, reported.add(NEXT_ID, answer=(OK, 2)))


def test_decreasing_master_epoch_is_found(reported):
    reported.a_set()
    reported.elect(2, (OK, reported.shows(2, 2, {2}, 3, ((1, "a1"), (2, "a2")))), is_designated=True)
    finds(reported, reported.info(1, 1, {1, 2}, 2), AllMayBe())


def test_two_masters_of_one_epoch_are_found(reported):
    reported.a_set(3)
    reported.add(ELECT, 2, True)
    reported.add(ELECT, 3, True)
    reported.info(2, 2, {2}, 3)
    finds(reported, reported.info(3, 2, {3}, 3), AllMayBe())


def test_epochs_that_restart_after_cleaning_are_found(reported):
    reported.a_set()
    reported.add(CLEAN, None, True, answer=(OK,))
    reported.add(REPLICA_INFO, answer=(UNKNOWN_SET,))
    reported.apply_id(3)
    finds(reported, reported.info(None, 0, (), 0))


def test_response_for_a_cleaned_set_is_found(reported):
    reported.a_set()
    reported.add(CLEAN, None, True, answer=(OK,))
    finds(reported, reported.info(1, 1, {1, 2}, 2))


def test_cleaned_broker_in_a_response_is_found(reported):
    reported.a_set(3)
    reported.add(CLEAN, frozenset({2}), False, answer=(OK,))
    everybody = tuple((i, f"a{i}") for i in (1, 2, 3))
    view = reported.shows(1, 1, {1, 3}, 3, everybody)
    finds(reported, reported.add(SYNC_STATE_DATA, answer=(OK, view)))


def test_stale_response_after_a_newer_one_is_found_during_the_change(reported):
    reported.a_set()
    reported.alter(1, {1}, 2, begin=10, end=20)
    reported.info(1, 1, {1}, 3, begin=11, end=12)
    finds(reported, reported.info(1, 1, {1, 2}, 2, begin=13, end=14))


def test_refusal_with_a_change_that_never_happened_is_found(reported):
    reported.a_set()
    finds(reported, reported.add(ALTER, 1, 1, frozenset({1}), 2, answer=(STALE_SET_EPOCH,)))


def test_refusal_of_a_free_broker_id_is_found(reported):
    reported.apply_id(1)
    finds(reported, reported.apply_id(2, ID_INVALID))


def test_unfounded_refusal_of_a_cleaning_is_found(reported):
    reported.a_set(3)
    finds(reported, reported.add(CLEAN, frozenset({3}), True, answer=(CLEAN_REFUSED,)))


def test_request_without_a_response_may_apply_at_once_late_or_never(reported):
    reported.a_set()
    reported.add(ALTER, 1, 1, frozenset({1}), 2)
    accepts(reported)
    reported.info(1, 1, {1, 2}, 2)
    accepts(reported)
    reported.info(1, 1, {1}, 3)
    accepts(reported)
    finds(reported, reported.info(1, 1, {1, 2}, 2))


def test_request_without_a_response_applies_once_at_most(reported):
    reported.a_set()
    reported.add(ALTER, 1, 1, frozenset({1}), 2)
    reported.info(1, 1, {1}, 3)
    reported.alter(1, {1, 2}, 3)
    finds(reported, reported.info(1, 1, {1}, 5))


def test_request_does_not_apply_a_minute_after_its_timeout(reported):
    reported.a_set()
    reported.add(ALTER, 1, 1, frozenset({1}), 2)
    finds(reported, reported.info(1, 1, {1}, 3, begin=70))


def test_registration_of_the_recorded_master_ends_its_mastership_in_the_model(reported):
    reported.a_set()
    no_master = View(None, None, None, frozenset({1, 2}), 2)
    reported.add(REGISTER, 1, "a1", answer=(OK, no_master))
    reported.info(None, 2, {1, 2}, 2)
    reported.info(2, 3, {2}, 3)
    accepts(reported)
    finds(reported, reported.info(1, 4, {1}, 4))


def test_second_master_beside_a_living_one_is_found(reported):
    reported.a_set()
    finds(reported, reported.info(2, 2, {2}, 3))


def test_silent_master_may_be_replaced(reported):
    reported.a_set()
    lives = Lives()
    for broker_id, until in ((1, 100), (2, 400)):
        for heartbeat in range(until):
            lives.heartbeat(broker_id, heartbeat / 10)
    lives.ends(1)
    reported.info(2, 2, {2}, 3, begin=13, end=14)
    accepts(reported, lives)
    finds(reported, reported.info(1, 3, {1}, 4, begin=30, end=31), lives)


def test_election_of_a_broker_out_of_sync_is_found(reported):
    reported.a_set(3)
    reported.alter(1, {1, 2}, 2)
    finds(reported, reported.info(3, 2, {3}, 4), AllMayBe())


def test_an_election_that_keeps_the_master_shows_the_present_state(reported):
    reported.a_set()
    view = View(1, "a1", 1, frozenset({1, 2}), 2)
    reported.elect(2, (MASTER_STILL_EXISTS, view))
    reported.elect(9, (ELECTION_FAILED,), is_designated=True)
    accepts(reported)
    finds(reported, reported.elect(2, (MASTER_STILL_EXISTS, view._replace(set_epoch=1))))


def test_outdated_address_in_a_response_is_found(reported):
    reported.a_set()
    view = View(1, "a1", 1, frozenset({1, 2}), 2)
    reported.add(REGISTER, 2, "elsewhere", answer=(OK, view))
    finds(reported, reported.add(SYNC_STATE_DATA, answer=(OK, view._replace(addresses=((1, "a1"), (2, "a2"))))))


def test_violation_is_shown_without_irrelevant_requests(reported):
    reported.a_set()
    for _ in range(200):
        reported.info(1, 1, {1, 2}, 2)
    reported.alter(1, {1}, 2)
    verdict = finds(reported, reported.info(1, 1, {1, 2}, 2))
    assert len(verdict.history) == 5
    reported.info(1, 1, {1}, 3)
    assert check(reported.operations, AllLive()).violation == verdict.violation


def test_search_beyond_its_limit_ends_undecided(reported):
    reported.a_set(8)
    for _ in range(10):
        for broker_id in range(2, 9):
            reported.add(ELECT, broker_id, True)
    reported.info(3, 20, {3}, 21)
    verdict = check(reported.operations, AllMayBe(), pairs_max=1000)
    assert not verdict.is_decided
    assert not verdict.holds
    assert "not decided" in str(verdict)
