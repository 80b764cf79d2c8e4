"""Resets go back, are not undone by clients, and can be undone by operators."""

import pytest
from offset_builders import EPOCH, Offsets, a_queue, a_scope, a_writer, an_offset

from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.entry_checks import ENTRIES_MAX
from controller.offsets.commits.refusals import TooManyEntries
from controller.offsets.commits.reset import decide_reset, decide_undo
from controller.offsets.commits.results import OffsetNotFound, OffsetStatus
from controller.offsets.commits.seed import OffsetEntry
from controller.offsets.commits.writing import LEADS
from controller.offsets.storage.dirty_offsets import settled, superseding
from controller.offsets.values import OffsetSource

OK, STALE, ABSENT = OffsetStatus.OK, OffsetStatus.STALE, OffsetStatus.ABSENT


def test_reset_goes_back_and_raises_the_epoch():
    offsets = Offsets()
    offsets.commit(100)
    (result,) = offsets.reset(40).results
    assert result.stored == an_offset(40, epoch=EPOCH, source=OffsetSource.OPERATOR, writer="alice")
    assert offsets.read() == result.stored


def test_reset_to_the_same_offset_raises_the_epoch_too():
    offsets = Offsets()
    offsets.commit(100)
    offsets.reset(100)
    assert offsets.commit(500, epoch=0).status is STALE


def test_reset_of_a_queue_without_an_offset_stores_one():
    offsets = Offsets()
    offsets.reset(7)
    assert (offsets.read().offset, offsets.read().reset_epoch) == (7, EPOCH)


def test_reset_keeps_the_highest_token():
    offsets = Offsets()
    offsets.table.load(a_queue().of, {0: an_offset(100, token=9)})
    offsets.reset(40)
    assert offsets.read().token == 9


def test_undone_reset_has_the_former_offset_in_a_new_epoch():
    offsets = Offsets()
    offsets.commit(100)
    reset = offsets.reset(40)
    offsets.commit(45, epoch=EPOCH)
    assert offsets.undo(reset)[0].status is OK
    assert (offsets.read().offset, offsets.read().reset_epoch) == (100, EPOCH + LEADS)
    assert offsets.commit(46, epoch=EPOCH).status is STALE


def test_undone_reset_of_an_absent_offset_leaves_it_absent():
    offsets = Offsets()
    reset = offsets.reset(40)
    assert offsets.undo(reset)[0].status is OK
    assert offsets.read() == OffsetNotFound(EPOCH + LEADS)
    assert offsets.undo(reset)[0].status is ABSENT


def test_progress_on_an_offset_that_was_not_there_before_is_not_undone():
    offsets = Offsets()
    reset = offsets.reset(40)
    offsets.commit(50, epoch=EPOCH)
    (result,) = offsets.undo(reset)
    assert (result.status, "a client has committed since" in result.reason) == (STALE, True)
    assert offsets.read().offset == 50


def test_earlier_reset_is_not_undone_through_a_later_one():
    offsets = Offsets()
    offsets.commit(100)
    first = offsets.reset(40)
    second = offsets.reset(10)
    (result,) = offsets.undo(first)
    assert (result.status, "was reset again since" in result.reason) == (STALE, True)
    assert offsets.undo(second)[0].status is OK
    assert offsets.read().offset == 40


def test_reset_is_not_undone_after_a_deletion():
    offsets = Offsets()
    offsets.commit(100)
    reset = offsets.reset(40)
    offsets.delete(a_scope("billing"))
    (result,) = offsets.undo(reset)
    assert (result.status, "it was deleted since" in result.reason) == (STALE, True)
    assert offsets.read() == OffsetNotFound(EPOCH + LEADS)


def test_undone_deletion_has_the_offsets_again():
    offsets = Offsets()
    offsets.commit(100)
    offsets.commit(7, a_queue(1))
    deletion = offsets.delete(a_scope("billing"))
    assert [each.status for each in offsets.undo(deletion)] == [OK, OK]
    assert [offsets.read(a_queue(each)).offset for each in (0, 1)] == [100, 7]
    assert offsets.read().reset_epoch == EPOCH + LEADS


def test_earlier_deletion_is_not_undone_through_a_later_one():
    offsets = Offsets()
    offsets.commit(100)
    first = offsets.delete(a_scope("billing"))
    offsets.commit(5, epoch=EPOCH)
    second = offsets.delete(a_scope("billing"))
    (result,) = offsets.undo(first)
    assert (result.status, "was deleted again since" in result.reason) == (STALE, True)
    assert offsets.undo(second)[0].status is OK
    assert offsets.read().offset == 5


def test_deletion_that_nobody_remembers_can_be_undone():
    offsets = Offsets()
    offsets.commit(100)
    deletion = offsets.delete(a_scope("billing"))
    offsets.table.forget_deleted((each.key, each.after) for each in deletion.changes)
    assert offsets.undo(deletion)[0].status is OK
    assert (offsets.read().offset, offsets.read().reset_epoch) == (100, EPOCH + LEADS)


@pytest.mark.parametrize("act", ["reset", "seed"])
def test_managers_that_store_one_offset_unseen_by_each_other_give_different_epochs(act):
    """Else the one that was not acknowledged would win by its higher offset."""
    first, second = Offsets(lead=100), Offsets(lead=250)
    getattr(first, act)(40)
    getattr(second, act)(10)
    late = superseding(None, OffsetChange(a_queue(), None, first.read()), 1)
    assert settled(late, second.read()) == second.read()
    assert second.reset(5).results[0].stored.reset_epoch == EPOCH + LEADS + 250


@pytest.mark.parametrize("before", [None, an_offset(5, epoch=EPOCH)], ids=["absent", "ahead"])
def test_no_two_leads_give_the_same_epoch_whatever_their_clocks_show(before):
    """Of one epoch the higher offset would count as the newer one."""
    writers = {5: a_writer(unix_ms=1000), 6: a_writer(unix_ms=999), 7: a_writer(unix_ms=998)}
    given = {writer.begin_epoch(40, before, lead).reset_epoch for lead, writer in writers.items()}
    assert len(given) == len(writers)


def test_deletion_is_not_undone_over_a_new_commit():
    offsets = Offsets()
    offsets.commit(100)
    deletion = offsets.delete(a_scope("billing"))
    offsets.commit(500, epoch=EPOCH)
    (result,) = offsets.undo(deletion)
    assert (result.status, result.stored.offset) == (STALE, 500)


def test_undo_needs_room():
    offsets = Offsets(rows_max=1)
    offsets.commit(100)
    deletion = offsets.delete(a_scope("billing"))
    offsets.commit(5, a_queue(1))
    assert offsets.undo(deletion)[0].status is OffsetStatus.REFUSED


def test_bad_reset_changes_nothing():
    offsets = Offsets(rows_max=0)
    assert offsets.reset(-5).results[0].status is OffsetStatus.REFUSED
    assert offsets.reset(5).results[0].status is OffsetStatus.REFUSED
    assert offsets.read() == OffsetNotFound()


def test_reset_of_a_row_that_cannot_be_read_is_not_done():
    offsets = Offsets(is_loaded=False)
    decision = offsets.reset(5)
    assert (decision.results[0].status, decision.changes) == (OffsetStatus.UNKNOWN, ())
    assert offsets.undo(Offsets().reset(5))[0].status is OffsetStatus.UNKNOWN


def test_number_of_entries_is_limited():
    offsets = Offsets()
    entries = [OffsetEntry(a_queue(), 1)] * (ENTRIES_MAX + 1)
    with pytest.raises(TooManyEntries, match="split it"):
        decide_reset(offsets.table, offsets.freezes, entries, a_writer())


def an_undone_deletion(offsets):
    undone = offsets.delete(a_scope("billing"))
    return undone, CommitEntry(a_queue(), 500, EPOCH)


def an_undone_reset(offsets):
    undone = offsets.reset(40)
    offsets.reset(30)
    return undone, CommitEntry(a_queue(), 50, EPOCH + LEADS)


def an_undone_creation(offsets):
    undone = offsets.reset(40, a_queue(1))
    return undone, CommitEntry(a_queue(1), 50, EPOCH)


@pytest.mark.parametrize("act", [an_undone_deletion, an_undone_reset, an_undone_creation])
def test_refusal_of_an_undo_waits_for_the_commit_that_is_being_stored(act):
    offsets = Offsets()
    offsets.commit(100)
    undone, entry = act(offsets)
    offsets.table.stage(offsets.decide_commits(entry).changes)
    decision = decide_undo(offsets.table, offsets.freezes, undone.changes, a_writer())
    assert [each.status for each in decision.results] == [STALE]
    assert [(each.before.offset, each.after.offset) for each in decision.changes] == [(entry.offset, entry.offset)]
