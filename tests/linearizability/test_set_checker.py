"""The checker finds what is not linearizable, and nothing else: histories written by hand."""

import itertools

import pytest
from linearizability.lives import AllLive, AllMayBe
from linearizability.set_checker import check
from linearizability.set_model import (
    ALTER,
    APPLY_ID,
    ELECT,
    OK,
    REPLICA_INFO,
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


def test_two_masters_of_one_epoch_are_found(reported):
    reported.a_set(3)
    reported.add(ELECT, 2, True)
    reported.add(ELECT, 3, True)
    reported.info(2, 2, {2}, 3)
    finds(reported, reported.info(3, 2, {3}, 3), AllMayBe())


def test_request_without_a_response_may_apply_at_once_late_or_never(reported):
    reported.a_set()
    reported.add(ALTER, 1, 1, frozenset({1}), 2)
    accepts(reported)
    reported.info(1, 1, {1, 2}, 2)
    accepts(reported)
    reported.info(1, 1, {1}, 3)
    accepts(reported)
    finds(reported, reported.info(1, 1, {1, 2}, 2))


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
