"""What a new master locks for clients, and which of these locks are given up."""

import pytest
from holder_builders import BROKER, GROUP, a_member, a_queue, a_table, an_answer, members_at
from hypothesis import given
from hypothesis import strategies as st

from controller.offsets.locks import replay_rules
from controller.offsets.locks.holders import BROKER_LOCK_MS
from controller.offsets.locks.replay_rules import (
    BATCH_QUEUES,
    FRESH_MS,
    MemberLocks,
    Readiness,
    ReplayedLocks,
    ReplayOutcome,
    Unlock,
    batches,
    locks_given_back,
    locks_of_lost,
    locks_to_replay,
    outcomes,
)

FIRST = "10.0.0.1:10911"
MEMBERS = members_at({FIRST: ["c1", "c2"]})
NOTHING = MemberLocks(readiness=Readiness.NOTHING_HELD)
NOT_ORDERLY = MemberLocks(readiness=Readiness.NOT_ORDERLY)


def locks(table, *, now_ms=0, members=MEMBERS, broker_name=BROKER, client_id="c1"):
    return locks_to_replay(table, members, a_member(client_id), broker_name, now_ms)


def test_holder_that_was_confirmed_within_2_s_is_replayed():
    table = a_table(an_answer(0, "c1", 1, 0))
    ready = MemberLocks(readiness=Readiness.READY, queues=(a_queue(0), a_queue(1)))
    assert locks(table, now_ms=FRESH_MS) == ready
    assert locks(table, now_ms=FRESH_MS + 1).readiness is Readiness.UNCONFIRMED


def test_time_of_a_confirmation_is_that_of_its_request():
    table = a_table(an_answer(0, "c1", 0, took_ms=1000))
    assert locks(table, now_ms=FRESH_MS + 1).readiness is Readiness.UNCONFIRMED


@pytest.mark.parametrize("held", [{"is_dropped": True}, {"is_locked": False}], ids=str)
def test_queue_that_is_dropped_or_not_locked_is_not_replayed(held):
    assert locks(a_table(an_answer(0, "c1", 0, **held))) == NOTHING


def test_holder_whose_lock_has_expired_while_there_was_no_master_is_replayed():
    table = a_table(an_answer(0, "c1", 0), an_answer(40_000, "c1", 0))
    assert locks(table, now_ms=40_000).readiness is Readiness.READY


def test_queues_of_other_broker_sets_are_not_replayed():
    assert locks(a_table(an_answer(0, "c1", 0)), broker_name="broker-b") == NOTHING


@pytest.mark.parametrize("is_orderly", [False, None])
def test_group_that_is_not_orderly_gets_no_lock(is_orderly):
    assert locks(a_table(an_answer(0, "c1", 0, is_orderly=is_orderly))) == NOT_ORDERLY


def test_group_with_one_client_that_is_not_orderly_gets_no_lock():
    assert locks(a_table(an_answer(0, "c1", 0), an_answer(0, "c2", is_orderly=False))) == NOT_ORDERLY


def test_broadcasting_group_gets_no_lock():
    members = members_at({FIRST: ["c1"]}, model="BROADCASTING")
    assert locks(a_table(an_answer(0, "c1", 0)), members=members) == NOT_ORDERLY


def test_unknown_client_gets_no_lock():
    assert locks(a_table()) == NOT_ORDERLY
    assert locks(a_table(an_answer(0, "c1", 0)), client_id="c2") == NOTHING


def test_queue_that_two_clients_hold_by_their_last_answers_is_replayed_for_neither():
    table = a_table(an_answer(0, "c1", 0, 1), an_answer(0, "c2", 0))
    assert locks(table).queues == (a_queue(1),)
    assert locks(table, client_id="c2") == NOTHING


def test_owner_of_a_queue_that_another_client_still_consumes_is_replayed_and_that_one_is_not():
    table = a_table(an_answer(0, "c1", 0), an_answer(0, "c2", 0, is_dropped=True, in_work=1))
    assert locks(table).queues == (a_queue(0),)
    assert locks(table, client_id="c2") == NOTHING


@given(st.sets(st.integers(0, 5 * BATCH_QUEUES)))
def test_batches_have_every_queue_once(queue_ids):
    parts = batches([a_queue(each) for each in queue_ids])
    assert [each.queue_id for part in parts for each in part] == sorted(queue_ids)
    assert all(1 <= len(part) <= BATCH_QUEUES for part in parts)


def test_queue_that_an_answer_does_not_list_is_held_by_another():
    assert outcomes([a_queue(1), a_queue(0)], {a_queue(0), a_queue(7)}) == {
        a_queue(0): ReplayOutcome.GRANTED,
        a_queue(1): ReplayOutcome.HELD_BY_ANOTHER,
    }


@pytest.fixture
def replayed():
    locks = ReplayedLocks()
    locks.add(a_member(), [a_queue(0), a_queue(1)], 1000)
    return locks


def test_replayed_lock_whose_client_has_lost_the_queue_is_given_up(replayed):
    table = a_table(an_answer(1000, "c1", 1))
    unlock = Unlock(a_member(), BROKER, (a_queue(0),))
    assert locks_given_back(table, replayed, 1000 + FRESH_MS) == (unlock,)
    replayed.forget(unlock.member, unlock.queues)
    assert (locks_given_back(table, replayed, 1000), len(replayed)) == ((), 1)


def test_replayed_lock_of_a_queue_that_its_client_has_dropped_and_still_shows_is_left_to_it(replayed):
    assert locks_given_back(a_table(an_answer(1000, "c1", 0, 1, is_dropped=True)), replayed, 1000) == ()


def test_replayed_lock_of_a_client_that_may_still_consume_what_it_shows_no_more_is_not_given_up(replayed):
    assert locks_given_back(a_table(an_answer(1000, "c1", version="2.1.2")), replayed, 1000) == ()


@pytest.mark.parametrize(
    ("answered_ms", "now_ms"), [(999, 1500), (1000, 1001 + FRESH_MS)], ids=["before the replay", "too long ago"]
)
def test_answer_that_is_older_gives_no_lock_up(replayed, answered_ms, now_ms):
    assert locks_given_back(a_table(an_answer(answered_ms, "c1")), replayed, now_ms) == ()


def test_lock_of_a_client_that_never_answered_is_not_given_up(replayed):
    assert locks_given_back(a_table(), replayed, 1000) == ()


def test_locks_of_a_client_that_is_gone_are_given_up_replayed_ones_too(replayed):
    table = a_table(an_answer(0, "c1", 1, 2), an_answer(0, "c2", 3))
    everything = tuple(map(a_queue, (0, 1, 2)))
    assert locks_of_lost(table, replayed, [a_member("c1")]) == (Unlock(a_member("c1"), BROKER, everything),)
    assert locks_of_lost(table, replayed, [a_member("c9")]) == ()


def test_replayed_lock_is_forgotten_once_brokers_have_ended_it(replayed):
    replayed.add(a_member("c2"), [a_queue(5)], 2000)
    replayed.forget_ended(1000 + BROKER_LOCK_MS)
    assert len(replayed) == 3
    replayed.forget_ended(1001 + BROKER_LOCK_MS)
    assert list(replayed.members()) == [a_member("c2")]
    replayed.forget(a_member("c2"), [a_queue(5)])
    assert (len(replayed), list(replayed.members())) == (0, [])


def test_lock_that_is_taken_again_counts_from_then(replayed):
    replayed.add(a_member(), [a_queue(0)], 5000)
    assert dict(replayed.of(a_member())) == {a_queue(0): 5000, a_queue(1): 1000}
    assert len(replayed) == 2


def test_locks_beyond_the_limit_are_not_remembered(monkeypatch):
    monkeypatch.setattr(replay_rules, "REPLAYED_MAX", 2)
    locks = ReplayedLocks()
    locks.add(a_member(), [a_queue(0)], 0)
    locks.add(a_member("c2"), [a_queue(1), a_queue(2)], 0)
    assert (len(locks), list(locks.of(a_member("c2")))) == (2, [a_queue(1)])


def test_group_of_the_builders_may_lock():
    assert MEMBERS.may_lock(GROUP)
