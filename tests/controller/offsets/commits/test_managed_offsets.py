"""What readers and decisions see of the offsets, while changes are being stored and after deletions."""

import pytest
from offset_builders import EPOCH, Offsets, a_queue, a_row, a_scope, an_offset

from controller.offsets.commits import managed_offsets
from controller.offsets.commits.changes import OffsetChange
from controller.offsets.commits.commit import CommitEntry
from controller.offsets.commits.read_all import read_page
from controller.offsets.commits.refusals import PageExpired
from controller.offsets.commits.results import OffsetNotFound, OffsetStatus, OffsetUnavailable

NOT_FOUND = OffsetNotFound()


def a_change(before, after, key=None):
    before, after = (None if each is None else an_offset(each) for each in (before, after))
    return OffsetChange(key or a_queue(), before, after)


def test_absent_zero_and_unavailable_are_three_answers():
    offsets = Offsets(is_loaded=False)
    table = offsets.table
    table.load(a_row(), {0: an_offset(0)})
    table.mark_unreadable(a_row(topic="damaged"), "row is damaged")
    assert table.read(a_queue(0)) == an_offset(0)
    assert table.read(a_queue(1)) == NOT_FOUND
    assert isinstance(table.read(a_queue(topic="payments")), OffsetUnavailable)
    table.finish_loading()
    assert table.read(a_queue(topic="payments")) == NOT_FOUND
    assert table.read(a_queue(topic="damaged")) == OffsetUnavailable("row is damaged")


def test_row_that_was_repaired_can_be_read():
    table = Offsets().table
    table.mark_unreadable(a_row(), "row is damaged")
    table.load(a_row(), {0: an_offset(7)})
    assert table.read(a_queue()).offset == 7
    assert table.unreadable == {}


def test_readers_see_a_change_when_it_is_durable():
    table = Offsets().table
    change = a_change(None, 10)
    table.stage([change])
    assert table.read(a_queue()) == NOT_FOUND
    assert table.queues_of(a_row()) == {0: an_offset(10)}
    table.confirm([change])
    assert table.read(a_queue()) == an_offset(10)


def test_readers_see_changes_of_one_queue_one_after_the_other():
    table = Offsets().table
    first, second = a_change(None, 10), a_change(10, 12)
    table.stage([first])
    table.stage([second])
    table.confirm([first])
    assert table.read(a_queue()) == an_offset(10)
    table.confirm([second])
    assert table.read(a_queue()) == an_offset(12)


def test_offset_never_goes_back_where_commits_are_confirmed_in_another_order():
    table = Offsets().table
    first, second, third = a_change(None, 10), a_change(10, 12), a_change(12, 14)
    for each in (first, second, third):
        table.stage([each])
    table.confirm([second])
    revision = table.revision
    table.confirm([first])
    assert (table.read(a_queue()), table.revision) == (an_offset(12), revision)
    table.withdraw([third])
    assert table.queues_of(a_row()) == {0: an_offset(12)}


def test_last_decided_offset_stays_when_the_first_one_is_confirmed_last():
    table = Offsets().table
    first, second = a_change(None, 10), a_change(10, 12)
    table.stage([first])
    table.stage([second])
    table.confirm([second])
    table.confirm([first])
    assert table.queues_of(a_row()) == {0: an_offset(12)}
    assert table.read(a_queue()) == an_offset(12)


def test_late_failure_of_an_earlier_change_leaves_the_later_one():
    table = Offsets().table
    first, second, third = a_change(None, 10), a_change(10, 12), a_change(12, 14)
    for each in (first, second, third):
        table.stage([each])
    table.confirm([second])
    table.withdraw([first])
    table.confirm([third])
    assert table.read(a_queue()) == an_offset(14)


def test_deleted_offset_is_read_until_the_deletion_is_durable():
    table = Offsets().table
    table.load(a_row(), {0: an_offset(10)})
    change = a_change(10, None)
    table.stage([change])
    assert table.read(a_queue()) == an_offset(10)
    assert table.durable_queues_of(a_row()) == {0: an_offset(10)}
    table.confirm([change])
    assert table.read(a_queue()) == NOT_FOUND


def test_change_that_could_not_be_stored_leaves_nothing():
    table = Offsets().table
    table.load(a_row(), {0: an_offset(10)})
    changes = [a_change(10, 12), a_change(None, 5, a_queue(1))]
    table.stage(changes)
    table.withdraw(changes)
    assert (table.queues_of(a_row()), table.count) == ({0: an_offset(10)}, 1)
    assert table.read(a_queue(1)) == NOT_FOUND


def test_change_on_top_of_one_that_could_not_be_stored_stays():
    table = Offsets().table
    first, second = a_change(None, 10), a_change(10, 12)
    table.stage([first])
    table.stage([second])
    table.withdraw([first])
    assert table.read(a_queue()) == NOT_FOUND
    table.confirm([second])
    assert table.read(a_queue()) == an_offset(12)


def test_two_changes_that_could_not_be_stored_leave_what_was_durable():
    table = Offsets().table
    table.load(a_row(), {0: an_offset(3)})
    first, second = a_change(3, 10), a_change(10, 12)
    table.stage([first])
    table.stage([second])
    table.withdraw([first])
    table.withdraw([second])
    assert table.queues_of(a_row()) == {0: an_offset(3)}


def test_deletion_that_could_not_be_stored_leaves_the_change_before_it():
    table = Offsets().table
    first, deletion = a_change(None, 10), a_change(10, None)
    table.stage([first])
    table.stage([deletion])
    table.withdraw([deletion])
    table.confirm([first])
    assert table.read(a_queue()) == an_offset(10)
    assert (table.queues_of(a_row()), table.count) == ({0: an_offset(10)}, 1)


def test_row_is_loaded_once():
    table = Offsets().table
    table.load(a_row(), {0: an_offset(3)})
    with pytest.raises(AssertionError, match="loaded already"):
        table.load(a_row(), {0: an_offset(4)})


def test_more_than_may_be_stored_is_loaded_and_nothing_dropped():
    offsets = Offsets(rows_max=1)
    offsets.table.load(a_row(), {each: an_offset(each) for each in range(3)})
    assert (offsets.table.count, offsets.table.room) == (3, -2)


def test_locks_get_higher_tokens_than_any_offset_has():
    table = Offsets().table
    table.load(a_row(), {0: an_offset(3, token=41), 1: an_offset(3, token=7)})
    assert table.highest_token == 41
    change = OffsetChange(a_queue(), an_offset(3, token=41), an_offset(4, token=42))
    table.stage([change])
    assert table.highest_token == 42


def test_each_visible_change_raises_the_revision():
    offsets = Offsets()
    before = offsets.table.revision
    offsets.commit(5)
    offsets.commit(5)
    assert offsets.table.revision == before + 1


def test_deleted_offsets_that_are_forgotten_leave_nothing_and_newer_ones_stay():
    offsets = Offsets()
    for queue_id in range(3):
        offsets.commit(1, a_queue(queue_id))
    deleted = [(each.key, each.after) for each in offsets.delete(a_scope("billing")).changes]
    offsets.commit(5, a_queue(1), epoch=EPOCH)
    table = offsets.table
    table.stage([OffsetChange(a_queue(2), deleted[2][1], an_offset(7, epoch=EPOCH))])
    table.forget_deleted([*deleted, (a_queue(group="unknown"), deleted[0][1])])
    assert table.queues_of(a_row()) == {1: an_offset(5, epoch=EPOCH), 2: an_offset(7, epoch=EPOCH)}
    assert offsets.read(a_queue(0)) == NOT_FOUND


def test_deleted_offsets_leave_room_for_others_until_they_are_too_many():
    offsets = Offsets(rows_max=2)
    stored = []
    for topic in ("a", "b", "c"):
        offsets.commits(*(CommitEntry(a_queue(queue_id, topic=topic), 1) for queue_id in range(2)))
        stored.append(offsets.table.count)
        offsets.delete(a_scope(topic=topic))
    assert stored == [2, 2, 0]
    assert offsets.commit(1).status is OffsetStatus.REFUSED


def test_rows_left_empty_by_deletions_are_cleared_away(monkeypatch):
    monkeypatch.setattr(managed_offsets, "EMPTY_ROWS_MIN", 3)
    offsets = Offsets()
    for topic in range(3):
        offsets.commit(1, a_queue(topic=f"orders-{topic}"))
    offsets.commit(1, a_queue(group="audit"))
    cursor = read_page(offsets.table, a_scope(), offsets_max=1).next
    deletion = offsets.delete(a_scope("billing"))
    offsets.table.forget_deleted((each.key, each.after) for each in deletion.changes)
    assert len(offsets.table.order) == 1
    with pytest.raises(PageExpired, match="begin with the first page"):
        read_page(offsets.table, a_scope(), cursor)
    offsets.commit(2, a_queue(topic="orders-0"))
    assert [stored.offset for _, stored in read_page(offsets.table, a_scope()).offsets] == [1, 2]
