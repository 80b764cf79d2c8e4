"""Seeds: stored where nothing is."""

from offset_builders import EPOCH, Offsets, a_queue, a_scope, a_writer, an_offset

from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.delete import decide_deletion
from controller.offsets.commits.results import OffsetStatus
from controller.offsets.commits.seed import OffsetEntry, decide_seed
from controller.offsets.values import OffsetSource


def test_new_queue_gets_the_offset_of_the_seed():
    offsets = Offsets()
    assert offsets.seed(0, source=OffsetSource.SEED).status is OffsetStatus.OK
    assert offsets.read() == an_offset(0, epoch=EPOCH, source=OffsetSource.SEED, writer="alice")


def test_stored_offset_stays_and_is_answered():
    offsets = Offsets()
    offsets.commit(100)
    result = offsets.seed(0)
    assert (result.status, result.stored.offset) == (OffsetStatus.PRESENT, 100)
    assert offsets.read() == an_offset(100)


def test_repeated_seed_changes_nothing():
    offsets = Offsets()
    offsets.seed(5)
    assert offsets.seed(9).stored.offset == 5


def test_bad_seed_is_refused():
    offsets = Offsets(rows_max=1)
    assert offsets.seed(-1).status is OffsetStatus.REFUSED
    offsets.seed(5)
    assert offsets.seed(5, a_queue(1)).status is OffsetStatus.REFUSED


def test_seed_waits_until_the_row_is_loaded():
    offsets = Offsets(is_loaded=False)
    assert offsets.seed(0).status is OffsetStatus.UNKNOWN


def test_answer_about_an_offset_that_is_being_stored_waits_for_it():
    offsets = Offsets()
    offsets.table.stage(offsets.decide_commits(CommitEntry(a_queue(), 100)).changes)
    decision = decide_seed(offsets.table, offsets.freezes, [OffsetEntry(a_queue(), 5)], a_writer())
    assert [each.status for each in decision.results] == [OffsetStatus.PRESENT]
    assert [(each.before.offset, each.after.offset) for each in decision.changes] == [(100, 100)]


def test_nothing_is_stored_over_a_deletion_that_may_still_fail():
    offsets = Offsets()
    offsets.commit(100)
    deletion = decide_deletion(offsets.table, offsets.freezes, a_scope("billing"), a_writer())
    offsets.table.stage(deletion.changes)
    for result in (offsets.seed(5), offsets.commit(5), *offsets.reset(5).results):
        assert (result.status, result.reason) == (
            OffsetStatus.UNKNOWN,
            "the offset is being reset, seeded or deleted: repeat in a second",
        )
    offsets.table.withdraw(deletion.changes)
    assert offsets.seed(5).status is OffsetStatus.PRESENT
