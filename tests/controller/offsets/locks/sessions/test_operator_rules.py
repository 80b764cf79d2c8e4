"""Which groups have locks, and queues taken from their holders."""

import pytest
from lock_builders import GROUP, TTL_MS, Locks, a_session
from offset_builders import UNIX_MS, Offsets, a_queue

from controller.offsets.commits.results import OffsetStatus
from controller.offsets.locks.sessions import operator_rules
from controller.offsets.locks.sessions.acquire import AcquireStatus
from controller.offsets.locks.sessions.operator_rules import (
    FENCED_MS_MAX,
    decide_fences_end,
    declare_orderly,
    fences_of,
    withdraw_orderly,
)
from controller.offsets.locks.sessions.refusals import ForceRefused, GroupRefused
from controller.offsets.locks.sessions.values import NO_CHANGES

AUDIT = GROUP._replace(group="audit")


def test_group_is_declared_once():
    locks = Locks()
    assert locks.table.is_orderly(GROUP)
    assert declare_orderly(locks.table, GROUP) == NO_CHANGES


@pytest.mark.parametrize(
    ("group", "match"),
    [
        (GROUP._replace(group=" "), "the group is blank"),
        (GROUP._replace(cluster=""), "the cluster is blank"),
        (GROUP._replace(namespace=" "), "the namespace is blank"),
        (GROUP._replace(group="g" * 256), "the group has 256 characters"),
    ],
)
def test_bad_group_is_refused(group, match):
    with pytest.raises(GroupRefused, match=match):
        declare_orderly(Locks().table, group)


def test_number_of_groups_is_limited(monkeypatch):
    monkeypatch.setattr(operator_rules, "GROUPS_MAX", 1)
    with pytest.raises(GroupRefused, match="1 groups are declared orderly"):
        declare_orderly(Locks().table, AUDIT)


def test_group_whose_queues_are_held_stays_orderly():
    locks = Locks(a_session("a"))
    locks.acquire("a")
    with pytest.raises(GroupRefused, match="1 queues of group billing are held: stop its consumers first"):
        withdraw_orderly(locks.table, GROUP, TTL_MS)
    locks.table.apply(withdraw_orderly(locks.table, GROUP, TTL_MS + 1), TTL_MS + 1)
    assert (locks.table.is_orderly(GROUP), locks.table.count) == (False, 0)


def test_withdrawal_can_be_repeated():
    locks = Locks()
    locks.table.apply(withdraw_orderly(locks.table, GROUP, 0), 0)
    assert withdraw_orderly(locks.table, GROUP, 0) == NO_CHANGES


def test_former_holder_is_fenced_before_anybody_acquires_the_queue():
    locks = Locks(a_session("a"), a_session("b"))
    offsets = Offsets(tokens=locks.table)
    old = locks.token("a")
    offsets.commit(100, token=old)
    fence = locks.force_release()
    assert offsets.commit(101, token=old).status is OffsetStatus.FENCED
    assert offsets.commit(101).status is OffsetStatus.FENCED
    new = locks.token("b")
    assert new > fence > old
    assert offsets.commit(101, token=new).status is OffsetStatus.OK


def fenced(locks, offsets, unix_ms=UNIX_MS):
    """Store the fences with the offsets, and let the locks end that are not needed then."""
    (fences,) = fences_of(locks.table)
    locks.table.apply(decide_fences_end(locks.table, fences, offsets.fence(*fences), unix_ms), 0)


def test_former_holder_stays_fenced_after_the_queue_was_released_again_and_the_forced_lock_does_not_stay():
    locks = Locks(a_session("a"), a_session("b"))
    offsets = Offsets(tokens=locks.table)
    old = locks.token("a")
    offsets.commit(100, token=old)
    locks.force_release()
    fenced(locks, offsets)
    assert locks.table.count == 0
    assert offsets.commit(101, token=old).status is OffsetStatus.FENCED
    new = locks.token("b")
    locks.release("b")
    assert offsets.commit(101, token=old).status is OffsetStatus.FENCED
    assert offsets.commit(101, token=new).status is OffsetStatus.OK


def test_queue_without_an_offset_is_fenced_for_a_day_and_not_for_good():
    locks = Locks(a_session("a"))
    offsets = Offsets(tokens=locks.table)
    old = locks.token("a")
    locks.force_release()
    fenced(locks, offsets, UNIX_MS + FENCED_MS_MAX)
    assert offsets.commit(5, token=old).status is OffsetStatus.FENCED
    fenced(locks, offsets, UNIX_MS + FENCED_MS_MAX + 1)
    assert (locks.table.count, fences_of(locks.table)) == (0, ())


def test_all_queues_that_were_taken_from_their_holders_are_fenced_in_parts(monkeypatch):
    monkeypatch.setattr(operator_rules, "ENTRIES_MAX", 10)
    locks = Locks(a_session("a"))
    keys = [a_queue(each) for each in range(21)]
    for key in keys:
        locks.force_release(key)
    parts = fences_of(locks.table)
    assert [len(each) for each in parts] == [10, 10, 1]
    assert {each.key for part in parts for each in part} == set(keys)


def test_fence_that_is_not_stored_yet_keeps_its_lock():
    locks = Locks(a_session("a"))
    locks.acquire("a")
    locks.force_release()
    fenced(locks, Offsets(is_loaded=False))
    assert locks.table.count == 1


def test_queue_that_was_acquired_or_taken_again_while_its_fence_was_stored_stays_locked():
    locks = Locks(a_session("a"))
    offsets = Offsets(tokens=locks.table)
    offsets.commit(100, token=locks.token("a"))
    locks.force_release()
    (fences,) = fences_of(locks.table)
    stored = offsets.fence(*fences)
    locks.force_release()
    assert decide_fences_end(locks.table, fences, stored, UNIX_MS) == NO_CHANGES
    locks.acquire("a")
    assert decide_fences_end(locks.table, fences, stored, UNIX_MS) == NO_CHANGES
    locks.release("a")
    assert decide_fences_end(locks.table, fences, stored, UNIX_MS) == NO_CHANGES


def test_former_holder_may_acquire_the_queue_again():
    locks = Locks(a_session("a"))
    locks.acquire("a")
    locks.force_release()
    assert locks.renew("a") == {}
    assert locks.acquire("a") == [AcquireStatus.GRANTED]


def test_free_queue_can_be_fenced_too():
    locks = Locks(a_session("a"))
    offsets = Offsets(tokens=locks.table)
    old = locks.token("a")
    locks.release("a")
    locks.force_release()
    assert offsets.commit(101, token=old).status is OffsetStatus.FENCED


def test_withdrawn_group_commits_without_tokens_after_a_forced_release():
    locks = Locks(a_session("a"))
    offsets = Offsets(tokens=locks.table)
    locks.acquire("a")
    locks.force_release()
    locks.table.apply(withdraw_orderly(locks.table, GROUP, 0), 0)
    assert offsets.commit(5).status is OffsetStatus.OK


@pytest.mark.parametrize(
    ("key", "match"),
    [
        (a_queue(group="audit"), "group audit is not declared orderly"),
        (a_queue(topic=""), "the topic is blank"),
        (a_queue(-1), "queue id -1"),
    ],
)
def test_bad_forced_release_is_refused(key, match):
    with pytest.raises(ForceRefused, match=match):
        Locks().force_release(key)


def test_forced_releases_of_free_queues_are_limited(monkeypatch):
    monkeypatch.setattr(operator_rules, "LOCKS_MAX", 1)
    locks = Locks()
    locks.force_release()
    with pytest.raises(ForceRefused, match="there are 1 locks"):
        locks.force_release(a_queue(1))
    locks.force_release()
