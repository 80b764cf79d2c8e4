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


class Told:
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
def told():
    return Told()


def finds(told, operation, lives=None):
    verdict = check(told.operations, lives or AllLive())
    assert verdict.is_decided
    assert verdict.violation == operation, str(verdict)
    assert str(operation) in str(verdict)
    return verdict


def accepts(told, lives=None):
    verdict = check(told.operations, lives or AllLive())
    assert verdict.holds, str(verdict)
    return verdict


def test_sequential_history_is_linearizable(told):
    told.a_set()
    told.info(1, 1, {1, 2}, 2)
    told.add(NEXT_ID, answer=(OK, 3))
    accepts(told)


def test_concurrent_requests_may_apply_in_any_order(told):
    told.a_set()
    told.alter(1, {1}, 2, begin=10, end=20)
    told.info(1, 1, {1}, 3, begin=11, end=12)
    told.info(1, 1, {1}, 3, begin=13, end=14)
    accepts(told)


def test_an_acknowledged_alteration_that_is_lost_is_found(told):
    told.a_set()
    told.alter(1, {1}, 2)
    told.info(1, 1, {1}, 3)
    finds(told, told.info(1, 1, {1, 2}, 2))


def test_two_alterations_from_the_same_epoch_are_found(told):
    told.a_set(3)
    told.alter(1, {1}, 2)
    finds(told, told.alter(1, {1, 2}, 2))


def test_two_brokers_with_one_id_are_found(told):
    told.apply_id(1)
    finds(told, told.add(APPLY_ID, 1, "b1", "other", answer=(OK,)))


def test_broker_id_assigned_out_of_order_is_found(told):
    told.apply_id(1)
    finds(told, told.apply_id(3))


def test_next_broker_id_that_was_assigned_before_is_found(told):
    told.apply_id(1)
    told.apply_id(2)
    finds(told, told.add(NEXT_ID, answer=(OK, 2)))


def test_decreasing_master_epoch_is_found(told):
    told.a_set()
    told.elect(2, (OK, told.shows(2, 2, {2}, 3, ((1, "a1"), (2, "a2")))), is_designated=True)
    finds(told, told.info(1, 1, {1, 2}, 2), AllMayBe())


def test_two_masters_of_one_epoch_are_found(told):
    told.a_set(3)
    told.add(ELECT, 2, True)
    told.add(ELECT, 3, True)
    told.info(2, 2, {2}, 3)
    finds(told, told.info(3, 2, {3}, 3), AllMayBe())


def test_epochs_that_restart_after_cleaning_are_found(told):
    told.a_set()
    told.add(CLEAN, None, True, answer=(OK,))
    told.add(REPLICA_INFO, answer=(UNKNOWN_SET,))
    told.apply_id(3)
    finds(told, told.info(None, 0, (), 0))


def test_response_for_a_cleaned_set_is_found(told):
    told.a_set()
    told.add(CLEAN, None, True, answer=(OK,))
    finds(told, told.info(1, 1, {1, 2}, 2))


def test_cleaned_broker_in_a_response_is_found(told):
    told.a_set(3)
    told.add(CLEAN, frozenset({2}), False, answer=(OK,))
    everybody = tuple((i, f"a{i}") for i in (1, 2, 3))
    view = told.shows(1, 1, {1, 3}, 3, everybody)
    finds(told, told.add(SYNC_STATE_DATA, answer=(OK, view)))


def test_stale_response_after_a_newer_one_is_found_during_the_change(told):
    told.a_set()
    told.alter(1, {1}, 2, begin=10, end=20)
    told.info(1, 1, {1}, 3, begin=11, end=12)
    finds(told, told.info(1, 1, {1, 2}, 2, begin=13, end=14))


def test_refusal_with_a_change_that_never_happened_is_found(told):
    told.a_set()
    finds(told, told.add(ALTER, 1, 1, frozenset({1}), 2, answer=(STALE_SET_EPOCH,)))


def test_refusal_of_a_free_broker_id_is_found(told):
    told.apply_id(1)
    finds(told, told.apply_id(2, ID_INVALID))


def test_unfounded_refusal_of_a_cleaning_is_found(told):
    told.a_set(3)
    finds(told, told.add(CLEAN, frozenset({3}), True, answer=(CLEAN_REFUSED,)))


def test_request_without_a_response_may_apply_at_once_late_or_never(told):
    told.a_set()
    told.add(ALTER, 1, 1, frozenset({1}), 2)
    accepts(told)
    told.info(1, 1, {1, 2}, 2)
    accepts(told)
    told.info(1, 1, {1}, 3)
    accepts(told)
    finds(told, told.info(1, 1, {1, 2}, 2))


def test_request_without_a_response_applies_once_at_most(told):
    told.a_set()
    told.add(ALTER, 1, 1, frozenset({1}), 2)
    told.info(1, 1, {1}, 3)
    told.alter(1, {1, 2}, 3)
    finds(told, told.info(1, 1, {1}, 5))


def test_request_does_not_apply_a_minute_after_its_timeout(told):
    told.a_set()
    told.add(ALTER, 1, 1, frozenset({1}), 2)
    finds(told, told.info(1, 1, {1}, 3, begin=70))


def test_registration_of_the_recorded_master_ends_its_mastership_in_the_model(told):
    told.a_set()
    no_master = View(None, None, None, frozenset({1, 2}), 2)
    told.add(REGISTER, 1, "a1", answer=(OK, no_master))
    told.info(None, 2, {1, 2}, 2)
    told.info(2, 3, {2}, 3)
    accepts(told)
    finds(told, told.info(1, 4, {1}, 4))


def test_second_master_beside_a_living_one_is_found(told):
    told.a_set()
    finds(told, told.info(2, 2, {2}, 3))


def test_silent_master_may_be_replaced(told):
    told.a_set()
    lives = Lives()
    for broker_id, until in ((1, 100), (2, 400)):
        for beat in range(until):
            lives.beat(broker_id, beat / 10)
    lives.ends(1)
    told.info(2, 2, {2}, 3, begin=13, end=14)
    accepts(told, lives)
    finds(told, told.info(1, 3, {1}, 4, begin=30, end=31), lives)


def test_election_of_a_broker_out_of_sync_is_found(told):
    told.a_set(3)
    told.alter(1, {1, 2}, 2)
    finds(told, told.info(3, 2, {3}, 4), AllMayBe())


def test_an_election_that_keeps_the_master_shows_the_present_state(told):
    told.a_set()
    view = View(1, "a1", 1, frozenset({1, 2}), 2)
    told.elect(2, (MASTER_STILL_EXISTS, view))
    told.elect(9, (ELECTION_FAILED,), is_designated=True)
    accepts(told)
    finds(told, told.elect(2, (MASTER_STILL_EXISTS, view._replace(set_epoch=1))))


def test_outdated_address_in_a_response_is_found(told):
    told.a_set()
    view = View(1, "a1", 1, frozenset({1, 2}), 2)
    told.add(REGISTER, 2, "elsewhere", answer=(OK, view))
    finds(told, told.add(SYNC_STATE_DATA, answer=(OK, view._replace(addresses=((1, "a1"), (2, "a2"))))))


def test_violation_is_shown_without_irrelevant_requests(told):
    told.a_set()
    for _ in range(200):
        told.info(1, 1, {1, 2}, 2)
    told.alter(1, {1}, 2)
    verdict = finds(told, told.info(1, 1, {1, 2}, 2))
    assert len(verdict.history) == 5
    told.info(1, 1, {1}, 3)
    assert check(told.operations, AllLive()).violation == verdict.violation


def test_search_beyond_its_limit_ends_undecided(told):
    told.a_set(8)
    for _ in range(10):
        for broker_id in range(2, 9):
            told.add(ELECT, broker_id, True)
    told.info(3, 20, {3}, 21)
    verdict = check(told.operations, AllMayBe(), pairs_max=1000)
    assert not verdict.is_decided
    assert not verdict.holds
    assert "not decided" in str(verdict)
