"""The locks after a restart and after a pause, and what they cost when none is held."""

import pytest
from lock_builders import GROUP, TTL_MS, Locks, a_session, queues
from offset_builders import UNIX_MS, Offsets, a_queue

from controller.offsets.commits.results import OffsetStatus
from controller.offsets.locks.sessions.acquire import AcquireStatus
from controller.offsets.locks.sessions.lock_table import LockTable, load_locks
from controller.offsets.locks.sessions.refusals import LeadUncertain, SessionEnded
from controller.offsets.locks.sessions.values import Lead, LockChange, LockChanges, QueueLock


def restart(locks, now_ms, last_token=None):
    """The table that a new manager loads, with a monotonic clock of its own."""
    table = load_locks(
        locks.table.sessions.values(),
        dict(locks.table.locks_of(GROUP)),
        locks.table.orderly_groups,
        last_token=locks.table.last_token if last_token is None else last_token,
        now_ms=now_ms,
    )
    again = Locks(table=table)
    again.now_ms = now_ms
    return again


def test_holders_keep_their_queues_and_tokens_over_a_restart():
    locks = Locks(a_session("a"), a_session("b"))
    locks.acquire("a", *queues(0, 1))
    again = restart(locks, now_ms=7)
    assert again.renew("a") == locks.renew("a")
    assert again.acquire("b") == [AcquireStatus.HELD_BY]


def test_restart_delays_the_hand_over_by_up_to_a_ttl_and_is_never_early():
    locks = Locks(a_session("a"), a_session("b", ttl_ms=300_000))
    locks.acquire("a")
    locks.now_ms = 59_000
    again = restart(locks, now_ms=1_000)
    again.now_ms = 1_000 + TTL_MS
    assert again.acquire("b") == [AcquireStatus.HELD_BY]
    again.now_ms += 1
    assert again.acquire("b") == [AcquireStatus.GRANTED]


def test_tokens_rise_over_a_restart_also_of_free_queues():
    locks = Locks(a_session("a"))
    token = locks.token("a")
    locks.release("a")
    again = restart(locks, now_ms=0)
    assert again.token("a") > token


def test_tokens_rise_even_if_the_locks_come_from_an_old_backup():
    locks = Locks(a_session("a"))
    offsets = Offsets(tokens=locks.table)
    for _ in range(5):
        token = locks.token("a")
        offsets.commit(token, token=token)
        locks.release("a")
    again = restart(locks, now_ms=0, last_token=1)
    again.table.raise_last_token(offsets.table.highest_token)
    offsets.tokens = again.table
    assert again.token("a") == token + 1
    assert offsets.commit(100, token=token).status is OffsetStatus.FENCED


def test_forced_release_outlasts_a_restart():
    locks = Locks(a_session("a"))
    old = locks.token("a")
    locks.force_release()
    again = restart(locks, now_ms=0)
    assert Offsets(tokens=again.table).commit(5, token=old).status is OffsetStatus.FENCED


def test_lock_whose_session_was_not_stored_is_free():
    lock = QueueLock(token=7, session_id="lost", since_unix_ms=UNIX_MS)
    table = load_locks([a_session("b")], {a_queue(): lock}, [GROUP], last_token=0, now_ms=0)
    locks = Locks(table=table)
    assert locks.token("b") == 8


def test_leases_that_lasted_when_the_manager_was_paused_begin_again():
    locks = Locks(a_session("a"), a_session("b", ttl_ms=10_000))
    locks.acquire("a")
    locks.now_ms = 20_000
    locks.table.begin_leases(paused_ms=20_000, now_ms=100_000, lead=Lead(0, 105_000))
    locks.now_ms = 100_000 + TTL_MS
    assert list(locks.renew("a")) == [a_queue()]
    with pytest.raises(SessionEnded):
        locks.renew("b")


def test_manager_that_lost_its_lead_in_a_pause_renews_and_grants_nothing_that_its_successor_has_granted():
    former = Locks(a_session("a"))
    former.lead = Lead(0, 30_000)
    former.acquire("a")
    former.now_ms = 20_000
    successor = restart(former, now_ms=0)
    successor.open(a_session("c", ttl_ms=300_000))
    successor.now_ms = TTL_MS + 1
    assert successor.acquire("c") == [AcquireStatus.GRANTED]
    # It was paused for 70 s, and has not heard of its successor.
    former.now_ms = 90_001
    with pytest.raises(LeadUncertain, match="repeat the request, at the one that leads"):
        former.table.begin_leases(20_000, former.now_ms, former.lead)
    with pytest.raises(LeadUncertain):
        former.renew("a")
    with pytest.raises(LeadUncertain):
        former.acquire("a")


def test_leases_last_over_a_pause_only_if_the_lead_was_never_lost_in_it():
    locks = Locks(a_session("a"))
    locks.now_ms = 100_000
    # It has gained the lead again: others may have granted queues before.
    with pytest.raises(LeadUncertain):
        locks.table.begin_leases(20_000, locks.now_ms, Lead(95_000, 110_000))
    locks.lead = Lead(20_000, 110_000)
    locks.table.begin_leases(20_000, locks.now_ms, locks.lead)
    assert locks.renew("a") == {}


def test_no_commit_needs_a_token_where_nothing_is_locked():
    assert LockTable().required_token(a_queue()) == 0
    locks = Locks(a_session("a"))
    locks.acquire("a")
    assert locks.table.required_token(a_queue(1)) == 0
    assert locks.table.required_token(a_queue(group="audit")) == 0


def test_change_decided_on_another_lock_is_our_fault():
    locks = Locks(a_session("a"))
    locks.acquire("a")
    late = LockChange(a_queue(), None, QueueLock(token=9, session_id="a", since_unix_ms=UNIX_MS))
    with pytest.raises(AssertionError, match="decided on another lock"):
        locks.table.apply(LockChanges(locks=(late,)), 0)
