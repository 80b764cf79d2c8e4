"""Which queues a session gets."""

import pytest
from lock_builders import GROUP, TTL_MS, Locks, a_session, queues
from offset_builders import a_queue, a_scope

from controller.offsets.commits.freezes import Freeze, decide_freeze, decide_thaw
from controller.offsets.locks.sessions import acquire
from controller.offsets.locks.sessions.acquire import AcquireStatus
from controller.offsets.locks.sessions.operator_rules import declare_orderly, withdraw_orderly
from controller.offsets.locks.sessions.refusals import SessionEnded, TooManyQueues
from controller.offsets.locks.sessions.values import QUEUES_PER_SESSION_MAX, LockGroup
from controller.offsets.values import QUEUES_MAX

GRANTED, HELD_BY, FROZEN, REFUSED = (
    AcquireStatus.GRANTED,
    AcquireStatus.HELD_BY,
    AcquireStatus.FROZEN,
    AcquireStatus.REFUSED,
)


def two_sessions():
    return Locks(a_session("a"), a_session("b"))


def test_client_gets_the_queues_that_nobody_holds():
    locks = two_sessions()
    assert locks.acquire("a", *queues(0, 1, 2, 3)) == [GRANTED] * 4
    assert locks.acquire("b", *queues(*range(8))) == [HELD_BY] * 4 + [GRANTED] * 4


def test_refused_client_gets_the_holder_and_when_its_lease_ends():
    locks = two_sessions()
    locks.acquire("a")
    locks.now_ms = 20_000
    (result,) = locks.acquire_all("b", a_queue())
    assert (result.holder, result.remaining_ms) == ("client-of-a", 40_001)


def test_holder_acquires_its_queue_again_with_the_same_token():
    locks = two_sessions()
    first = locks.token("a")
    locks.now_ms = 30_000
    assert locks.token("a") == first


def test_queue_named_twice_is_granted_once():
    locks = two_sessions()
    first, second = locks.acquire_all("a", a_queue(), a_queue())
    assert first == second
    assert locks.table.count == 1


def test_other_group_gets_the_same_queue():
    locks = two_sessions()
    audit = LockGroup(*GROUP._replace(group="audit"))
    locks.table.apply(declare_orderly(locks.table, audit), 0)
    locks.open(a_session("c", group=audit))
    locks.acquire("a")
    assert locks.acquire("c", a_queue(group="audit")) == [GRANTED]


@pytest.mark.parametrize("ttl_ms", [10_000, 60_000, 300_000])
def test_silent_holder_loses_its_queue_after_its_ttl_and_not_before(ttl_ms):
    locks = Locks(a_session("a", ttl_ms=ttl_ms), a_session("b", ttl_ms=300_000))
    locks.acquire("a")
    locks.now_ms = 5_000
    locks.renew("a")
    locks.renew("b")
    locks.now_ms = 5_000 + ttl_ms
    (refused,) = locks.acquire_all("b", a_queue())
    assert refused.status is HELD_BY
    locks.now_ms += refused.remaining_ms
    locks.open(a_session("b2"))
    assert locks.acquire("b2") == [GRANTED]
    assert ttl_ms < locks.now_ms - 5_000 <= ttl_ms + 1_000


def test_renewing_holder_keeps_its_queue():
    locks = two_sessions()
    locks.acquire("a")
    for _ in range(10):
        locks.now_ms += TTL_MS // 3
        locks.renew("a")
        locks.renew("b")
        assert locks.acquire("b") == [HELD_BY]


def test_tokens_rise_with_every_grant_of_a_queue_even_if_it_was_free():
    locks = two_sessions()
    tokens = [locks.token("a")]
    locks.release("a")
    tokens.append(locks.token("b"))
    locks.release("b")
    tokens.append(locks.token("b"))
    assert tokens == sorted(set(tokens))


def test_concurrent_group_gets_no_lock():
    locks = Locks(a_session("c"))
    locks.table.apply(withdraw_orderly(locks.table, GROUP, 0), 0)
    (result,) = locks.acquire_all("c", a_queue())
    assert result.status is REFUSED
    assert "group billing is not declared orderly" in result.reason
    assert "dead-letter" in result.reason


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (a_queue(group="audit"), "belongs to group audit, the session to billing"),
        (a_queue(topic=""), "the topic is blank"),
        (a_queue(QUEUES_MAX), "queue id"),
        (a_queue(-1), "queue id -1"),
    ],
)
def test_bad_queue_is_refused_and_the_others_granted(key, reason):
    locks = two_sessions()
    bad, good = locks.acquire_all("a", key, a_queue())
    assert (bad.status, good.status) == (REFUSED, GRANTED)
    assert reason in bad.reason


def test_frozen_queue_is_granted_to_nobody_but_its_holder():
    locks = two_sessions()
    token = locks.token("a", a_queue(0))
    freeze = Freeze(operation="op-1", reason="queues grow", scopes=(a_scope("billing"),))
    locks.table.freezes.apply(decide_freeze(locks.table.freezes, freeze), 0)
    assert locks.token("a", a_queue(0)) == token
    (result,) = locks.acquire_all("b", a_queue(1))
    assert (result.status, result.reason) == (
        FROZEN,
        "frozen by operation op-1: queues grow; repeat it when the operation has ended",
    )
    assert locks.acquire("b", a_queue(1), operation="op-1") == [GRANTED]


@pytest.mark.parametrize("end", ["thaw", "lease"])
def test_freeze_ends_with_a_thaw_or_with_the_lease_of_its_operation(end):
    locks = two_sessions()
    freeze = Freeze(operation="op-1", reason="queues grow", scopes=(a_scope("billing"),), lease_ms=30_000)
    locks.table.freezes.apply(decide_freeze(locks.table.freezes, freeze), 0)
    locks.now_ms = 30_000
    assert locks.acquire("b") == [FROZEN]
    if end == "thaw":
        for change in decide_thaw(locks.table.freezes, "op-1"):
            locks.table.freezes.apply(change, locks.now_ms)
    else:
        locks.now_ms = 30_001
    assert locks.acquire("b") == [GRANTED]


def test_session_that_has_ended_gets_nothing():
    locks = two_sessions()
    locks.now_ms = TTL_MS + 1
    with pytest.raises(SessionEnded, match="open a new session"):
        locks.acquire("a")
    with pytest.raises(SessionEnded, match="session x has ended"):
        locks.acquire("x")


def test_number_of_queues_in_a_request_is_limited():
    with pytest.raises(TooManyQueues, match="10001 queues in one request, at most 10000"):
        two_sessions().acquire("a", *[a_queue()] * (QUEUES_PER_SESSION_MAX + 1))


@pytest.mark.parametrize("limit", ["QUEUES_PER_SESSION_MAX", "LOCKS_MAX"])
def test_number_of_locks_is_limited(monkeypatch, limit):
    monkeypatch.setattr(acquire, limit, 2)
    locks = two_sessions()
    assert locks.acquire("a", a_queue(0), a_queue(1)) == [GRANTED, GRANTED]
    assert locks.acquire("a", a_queue(2), a_queue(0)) == [REFUSED, GRANTED]
