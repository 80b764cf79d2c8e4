"""Which rows wait for others, and until when."""

import tracemalloc

from stored_offset_builders import a_commit, row_name

from controller.offsets.storage.dirty_offsets import DirtyTable
from controller.offsets.storage.flush_order import FlushOrder
from controller.offsets.storage.formats.records import FlushedRow

FINAL, LOCK, SESSION = row_name("final"), row_name("lock"), row_name("session")
#: Of 10,000 queues; a copy of what comes first for each row would take gigabytes.
ROWS = 10_000
BYTES_MAX = 20_000_000


class Rows:
    """Dirty rows, and the order between them."""

    def __init__(self):
        self.dirty = DirtyTable()
        self.order = FlushOrder(self.dirty)

    def commit(self, number, group="final", queue=0):
        change = a_commit(number, group=group)
        self.dirty.take([change._replace(key=change.key._replace(queue_id=queue))], number, now_ms=0)

    def flushed(self, of, **numbers):
        numbers = {int(queue[1:]): number for queue, number in numbers.items()}
        self.dirty.flushed(of, numbers, 0)
        self.order.flushed(FlushedRow(of, numbers))

    def release(self):
        return self.order.note({LOCK, SESSION}, {FINAL})

    @property
    def held(self):
        return {of for of in (LOCK, SESSION, FINAL) if self.order.is_held(of)}


def test_all_rows_of_a_change_wait_until_the_store_has_what_was_dirty():
    rows = Rows()
    rows.commit(1)
    rows.release()
    rows.commit(2, group="later")
    assert rows.held == {LOCK, SESSION}
    assert list(rows.order.behind_first([SESSION, row_name("later"), LOCK])) == [
        FINAL,
        SESSION,
        row_name("later"),
        LOCK,
    ]
    rows.flushed(FINAL, q0=1)
    assert rows.held == set()


def test_nothing_waits_for_rows_that_are_not_dirty():
    rows = Rows()
    assert rows.release() is None
    assert rows.held == set()


def test_flush_that_began_earlier_does_not_end_the_wait_for_a_later_record():
    rows = Rows()
    rows.commit(1)
    rows.commit(2)
    rows.commit(3, queue=1)
    rows.release()
    rows.flushed(FINAL, q0=1)
    rows.flushed(FINAL, q1=3)
    assert rows.held == {LOCK, SESSION}
    rows.flushed(FINAL, q0=2)
    assert rows.held == set()


def test_offset_that_was_superseded_is_waited_for_and_a_later_one_of_another_queue_is_not():
    rows = Rows()
    rows.commit(1)
    rows.release()
    rows.commit(5)
    rows.commit(6, queue=1)
    assert rows.held == {LOCK, SESSION}
    rows.flushed(FINAL, q0=5)
    assert rows.held == set()


def test_two_changes_of_a_row_wait_each_for_its_own():
    rows = Rows()
    rows.commit(1)
    rows.release()
    rows.commit(2, group="other")
    rows.order.note({LOCK}, {row_name("other")})
    rows.flushed(FINAL, q0=1)
    assert rows.held == {LOCK}
    rows.flushed(row_name("other"), q0=2)
    assert rows.held == set()


def test_change_that_was_not_made_and_row_that_cannot_be_written_hold_nothing_back():
    rows = Rows()
    rows.commit(1)
    rows.order.withdraw(rows.release())
    assert rows.held == set()
    rows.release()
    rows.order.give_up(FINAL)
    assert rows.held == set()


def test_what_another_manager_took_from_the_journal_is_waited_for_no_more():
    rows = Rows()
    rows.commit(1)
    rows.commit(2, queue=1)
    rows.release()
    rows.dirty.flushed(FINAL, {0: 1}, 0)
    rows.order.forget_clean()
    assert rows.held == {LOCK, SESSION}
    rows.dirty.flushed(FINAL, {1: 2}, 0)
    rows.order.forget_clean()
    assert rows.held == set()


def test_release_of_many_queues_takes_memory_in_proportion_to_them_and_leaves_none_behind():
    rows = Rows()
    for n in range(ROWS):
        rows.commit(n + 1, group=f"wide-{n}")
    locks, finals = {row_name(f"lock-{n}") for n in range(ROWS)}, set(rows.dirty.rows)
    tracemalloc.start()
    try:
        rows.order.note(locks, finals)
        taken, _ = tracemalloc.get_traced_memory()
        for n in range(ROWS):
            rows.flushed(row_name(f"wide-{n}"), q0=n + 1)
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < BYTES_MAX
    assert left < BYTES_MAX / 10
    assert not any(rows.order.is_held(of) for of in locks)
