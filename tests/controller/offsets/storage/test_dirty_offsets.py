"""Dirty offsets: which of two is newest, what a deletion takes with it, and what the remote store is to hold."""

from hypothesis import given
from hypothesis import strategies as st
from stored_offset_builders import a_commit, a_deletion, an_offset, queue_key, row_name

from controller.offsets.storage.dirty_offsets import DirtyOffset, DirtyTable, is_older, merged, settled, superseding
from controller.offsets.values import DELETED

small = st.builds(an_offset, st.integers(0, 3), st.integers(0, 2), token=st.integers(0, 2), unix_ms=st.integers(0, 2))


def dirty(after=None, *, deleted=None, number=1):
    return DirtyOffset(after, deleted, number)


def test_higher_epoch_wins_over_a_higher_offset_and_the_offset_over_the_time():
    assert is_older(an_offset(900, epoch=1), an_offset(5, epoch=2))
    assert is_older(an_offset(5, unix_ms=9), an_offset(6, unix_ms=1))
    assert not is_older(an_offset(5), an_offset(5))


def test_newer_local_offset_of_the_same_epoch_is_pushed():
    assert settled(dirty(an_offset(120)), an_offset(100)) == an_offset(120)
    assert settled(dirty(an_offset(120)), None) == an_offset(120)


def test_older_copy_of_the_journal_does_not_win_over_the_remote_store():
    assert settled(dirty(an_offset(80)), an_offset(100)) == an_offset(100)


def test_local_offset_from_before_a_reset_is_dropped_however_high():
    after_reset = an_offset(10, epoch=1)
    assert settled(dirty(an_offset(900, epoch=0)), after_reset) == after_reset


def test_local_reset_goes_back_in_the_remote_store():
    after_reset = an_offset(10, epoch=1)
    assert settled(dirty(after_reset), an_offset(900, epoch=0)) == after_reset


def test_deletion_removes_what_was_deleted_and_keeps_what_came_after():
    deletion = dirty(deleted=an_offset(100))
    assert settled(deletion, an_offset(100)) is None
    assert settled(deletion, an_offset(90)) is None
    assert settled(deletion, an_offset(150)) == an_offset(150)


def test_group_that_is_made_anew_after_its_deletion_begins_at_its_own_offset():
    """Else the first reset epoch of the new group would lose against that of the deleted one."""
    deleted = an_offset(900, epoch=3)
    table = DirtyTable()
    table.take([a_deletion(deleted), a_commit(5)], 1, now_ms=0)
    assert settled(table.get(queue_key()), deleted) == an_offset(5)


def deleted(epoch, **more):
    return an_offset(DELETED, epoch, **more)


def test_late_deletion_of_a_killed_manager_removes_nothing_that_came_after_it():
    """Its answer was lost, the store had it, and under the next manager the group began anew."""
    assert settled(dirty(deleted(1)), an_offset(50, epoch=1)) == an_offset(50, epoch=1)


def test_commit_that_was_not_flushed_does_not_come_again_after_a_deletion():
    assert settled(dirty(an_offset(150)), deleted(1)) == deleted(1)
    assert settled(dirty(an_offset(150)), an_offset(30, epoch=1)) == an_offset(30, epoch=1)


def test_group_that_began_anew_goes_on_from_where_the_next_manager_has_it():
    table = DirtyTable()
    table.take([a_commit(before=an_offset(100))._replace(after=deleted(1)), a_commit(5, epoch=1)], 1, now_ms=0)
    assert settled(table.get(queue_key()), an_offset(50, epoch=1)) == an_offset(50, epoch=1)


def test_deletion_reaches_a_store_that_has_an_older_offset():
    assert settled(dirty(deleted(1)), an_offset(90)) == deleted(1)


def test_token_of_an_older_offset_stays_when_it_is_higher():
    assert superseding(dirty(an_offset(120, token=3)), a_commit(100, token=8), 2).after == an_offset(120, token=8)
    assert settled(dirty(an_offset(100, token=8)), an_offset(120, token=3)) == an_offset(120, token=8)


def test_higher_fencing_token_stays_when_an_older_holder_is_ahead():
    pushed = settled(dirty(an_offset(120, token=3)), an_offset(100, token=8))
    assert (pushed.offset, pushed.token) == (120, 8)


def test_offset_that_went_back_without_a_reset_leaves_the_newest():
    newest = superseding(dirty(an_offset(120)), a_commit(100), 2)
    assert (newest.after, newest.number) == (an_offset(120), 2)


@given(small, st.none() | small)
def test_what_is_settled_is_settled_again_without_a_change(local, remote):
    """A flush whose answer was lost is repeated."""
    once = settled(dirty(local), remote)
    assert settled(dirty(local), once) == once


@given(st.lists(st.none() | small, min_size=1), st.none() | small)
def test_flushing_all_at_once_leaves_what_flushing_one_by_one_leaves(afters, remote):
    present, before, together = remote, remote, None
    for after in afters:
        change = a_deletion(before) if after is None else a_commit()._replace(before=before, after=after)
        if after is not None and before is not None and is_older(after, before):
            continue
        together = superseding(together, change, 1)
        present = settled(superseding(None, change, 1), present)
        before = present
    if together is not None:
        assert settled(together, remote) == present


def test_offset_changed_during_its_flush_stays_dirty():
    table = DirtyTable()
    table.take([a_commit(100), a_commit(7, queue_id=1)], 1, now_ms=1000)
    table.take([a_commit(200)], 2, now_ms=1500)
    table.flushed(row_name(), {0: 1, 1: 1}, began_ms=1400)
    assert len(table) == 1
    assert table.get(queue_key(0)).after == an_offset(200)
    assert table.oldest_ms() == 1400
    table.flushed(row_name(), {0: 2}, began_ms=1600)
    assert (len(table), table.oldest_ms(), dict(table.rows)) == (0, None, {})


def test_only_queues_that_are_not_dirty_yet_need_room():
    table = DirtyTable()
    table.take([a_commit(1), a_commit(1, queue_id=1)], 1, now_ms=0)
    assert table.fresh([a_commit(2), a_commit(2, queue_id=1)]) == 0
    assert table.fresh([a_commit(2), a_commit(2, queue_id=2), a_commit(2, group="other")]) == 2


def test_flush_of_what_is_not_dirty_changes_nothing():
    table = DirtyTable()
    table.flushed(row_name(), {0: 9}, began_ms=0)
    table.take([a_commit(1)], 1, now_ms=0)
    table.flushed(row_name(), {5: 9}, began_ms=0)
    assert len(table) == 1


def test_queues_of_a_row_that_are_not_dirty_stay_in_it():
    row = {0: an_offset(10), 1: an_offset(20), 2: an_offset(30)}
    changed = {0: dirty(an_offset(11)), 2: dirty(deleted=an_offset(30))}
    assert merged(changed, row) == {0: an_offset(11), 1: an_offset(20)}
