"""Queues given up by their holders."""

import pytest
from lock_builders import GROUP, TTL_MS, Locks, a_session, queues
from offset_builders import Offsets, a_queue, a_scope

from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.freezes import Freeze, decide_freeze
from controller.offsets.commits.results import STORED, OffsetResult, OffsetStatus
from controller.offsets.locks.sessions import handover
from controller.offsets.locks.sessions.acquire import AcquireStatus
from controller.offsets.locks.sessions.handover import FinalOffset, ReleaseStatus, decide_release, final_commits
from controller.offsets.locks.sessions.refusals import SessionEnded, TooManyQueues, TransferRefused
from controller.offsets.locks.sessions.values import NO_CHANGES, QUEUES_PER_SESSION_MAX

RELEASED, NOT_HELD, KEPT = ReleaseStatus.RELEASED, ReleaseStatus.NOT_HELD, ReleaseStatus.KEPT


def two_sessions():
    locks = Locks(a_session("a"), a_session("b"))
    locks.acquire("a")
    return locks


def commit_finals(locks, offsets, session_id, finals):
    entries = final_commits(locks.table, session_id, finals)
    return dict(zip([each.key for each in entries], offsets.commits(*entries), strict=True))


def test_successor_begins_exactly_where_the_holder_stopped():
    locks = two_sessions()
    offsets = Offsets(tokens=locks.table)
    offsets.commit(100, token=1)
    committed = commit_finals(locks, offsets, "a", {a_queue(): FinalOffset(142)})
    assert locks.release("a", committed=committed) == [RELEASED]
    assert locks.acquire("b") == [AcquireStatus.GRANTED]
    assert offsets.read().offset == 142


def test_release_by_another_session_changes_nothing():
    locks = two_sessions()
    assert locks.release("b") == [NOT_HELD]
    assert locks.acquire("b") == [AcquireStatus.HELD_BY]
    assert final_commits(locks.table, "b", {a_queue(): FinalOffset(7)}) == ()


def test_release_can_be_repeated():
    locks = two_sessions()
    assert [locks.release("a"), locks.release("a"), locks.release("nobody")] == [[RELEASED], [NOT_HELD], [NOT_HELD]]
    assert decide_release(locks.table, "a", [a_queue()], {}).changes == NO_CHANGES


def test_queue_named_twice_is_released_once():
    assert two_sessions().release("a", a_queue(), a_queue()) == [RELEASED, NOT_HELD]


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (STORED, RELEASED),
        (OffsetResult(OffsetStatus.STALE, None, "was reset"), RELEASED),
        (OffsetResult(OffsetStatus.UNKNOWN, None, "the store does not answer"), KEPT),
        (OffsetResult(OffsetStatus.FENCED, None, "frozen"), KEPT),
        (OffsetResult(OffsetStatus.REFUSED, None, "negative"), KEPT),
    ],
)
def test_queue_whose_final_offset_is_not_stored_stays_with_its_holder(result, status):
    locks = two_sessions()
    assert locks.release("a", committed={a_queue(): result}) == [status]
    expected = AcquireStatus.HELD_BY if status is KEPT else AcquireStatus.GRANTED
    assert locks.acquire("b") == [expected]
    decision = decide_release(locks.table, "a", [a_queue()], {a_queue(): result})
    assert decision.answer[0].reason == (result.reason if status is KEPT else "")


def test_kept_queue_is_released_without_a_final_offset():
    locks = two_sessions()
    refused = {a_queue(): OffsetResult(OffsetStatus.REFUSED, None, "negative")}
    assert [locks.release("a", committed=refused), locks.release("a")] == [[KEPT], [RELEASED]]


def test_session_whose_lease_is_over_releases_what_nobody_took():
    locks = Locks(a_session("a"), a_session("b", ttl_ms=120_000))
    locks.acquire("a", *queues(0, 1))
    locks.now_ms = TTL_MS + 1
    locks.acquire("b", a_queue(1))
    assert locks.release("a", *queues(0, 1)) == [RELEASED, NOT_HELD]
    assert locks.acquire("b", a_queue(1)) == [AcquireStatus.GRANTED]


def test_number_of_queues_is_limited():
    with pytest.raises(TooManyQueues):
        two_sessions().release("a", *[a_queue()] * (QUEUES_PER_SESSION_MAX + 1))


class TestTransfer:
    def test_other_client_finds_the_queue_in_its_renewal_with_a_higher_token(self):
        locks = two_sessions()
        token = locks.transfer("a", "client-of-b")
        assert token > 1
        assert locks.renew("b") == {a_queue(): token}
        assert locks.renew("a") == {}

    def test_former_holder_is_fenced(self):
        locks = two_sessions()
        offsets = Offsets(tokens=locks.table)
        offsets.commit(100, token=1)
        locks.transfer("a", "client-of-b")
        assert offsets.commit(150, token=1).status is OffsetStatus.FENCED
        assert offsets.read().offset == 100

    def test_final_offset_comes_first(self):
        locks = two_sessions()
        not_stored = {a_queue(): OffsetResult(OffsetStatus.UNKNOWN, None, "the store does not answer")}
        with pytest.raises(TransferRefused, match="the final offset was not stored: the store does not answer"):
            locks.transfer("a", "client-of-b", committed=not_stored)
        locks.transfer("a", "client-of-b", committed={a_queue(): STORED})

    def test_only_the_holder_transfers(self):
        locks = two_sessions()
        with pytest.raises(TransferRefused, match="only its holder"):
            locks.transfer("b", "client-of-a")
        locks.now_ms = TTL_MS + 1
        with pytest.raises(SessionEnded):
            locks.transfer("a", "client-of-b")

    def test_client_without_a_session_of_the_group_gets_nothing(self):
        locks = two_sessions()
        with pytest.raises(TransferRefused, match="client nobody has no session of group billing"):
            locks.transfer("a", "nobody")
        locks.now_ms = TTL_MS
        locks.renew("a")
        locks.now_ms = TTL_MS + 1
        with pytest.raises(TransferRefused, match="client client-of-b has no session"):
            locks.transfer("a", "client-of-b")

    def test_client_gets_the_queue_in_the_session_that_it_uses(self):
        locks = two_sessions()
        locks.open(a_session("b2", client_id="client-of-b"))
        locks.now_ms = 20_000
        locks.renew("a")
        locks.renew("b2")
        token = locks.transfer("a", "client-of-b")
        assert (locks.renew("b"), locks.renew("b2")) == ({}, {a_queue(): token})

    def test_frozen_queue_is_transferred_by_its_operation_alone(self):
        locks = two_sessions()
        freeze = Freeze(operation="op-1", reason="queues grow", scopes=(a_scope("billing"),))
        locks.table.freezes.apply(decide_freeze(locks.table.freezes, freeze), 0)
        with pytest.raises(TransferRefused, match="frozen by operation op-1"):
            locks.transfer("a", "client-of-b")
        locks.transfer("a", "client-of-b", operation="op-1")

    def test_client_that_holds_as_much_as_it_may_gets_no_more(self, monkeypatch):
        locks = two_sessions()
        locks.acquire("b", a_queue(1))
        monkeypatch.setattr(handover, "QUEUES_PER_SESSION_MAX", 1)
        with pytest.raises(TransferRefused, match="client client-of-b holds 1 queues"):
            locks.transfer("a", "client-of-b")


def test_paused_holder_resumes_and_is_fenced_while_its_successors_offset_is_intact():
    locks = Locks(a_session("a"), a_session("b", ttl_ms=120_000))
    offsets = Offsets(tokens=locks.table)
    old = locks.token("a")
    offsets.commit(100, token=old)
    # The process of a is stopped for 70 s.
    locks.now_ms = 70_000
    new = locks.token("b")
    offsets.commit(160, token=new)
    results = offsets.commits(CommitEntry(a_queue(), 170, 0, old), CommitEntry(a_queue(), 120, 0, old))
    assert {each.status for each in results} == {OffsetStatus.FENCED}
    assert (offsets.read().offset, offsets.read().token) == (160, new)
    assert locks.table.lock_of(a_queue()).session_id == "b"
    assert locks.table.sessions_of(GROUP) == {"a", "b"}
