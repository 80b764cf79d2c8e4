"""Offsets that went back, and why."""

import pytest
from mirror_builders import BOOT_MS, SET, a_read, a_reading

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.changes import OffsetMove
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.regressions import (
    RESET_SEEN_MS,
    RESET_SENT_MS,
    RESETS_MAX,
    GuardWrites,
    KnownResets,
    KnownWrites,
    RegressionCause,
    RegressionLog,
    Reset,
    SetQueue,
    cause_between,
    regressions_of,
)

KEY = EntryKey("t", "g")
QUEUE = SetQueue(SET, KEY, 0)
OTHER = {"epoch": 2, "address": "10.0.0.2:10911"}


def regressions(before, after, resets=None, former=None, now=None, guard=None):
    mirror = BrokerMirror(SET)
    mirror.take(a_reading(before, **(former or {})))
    known = KnownWrites(resets or KnownResets(), guard or GuardWrites(), is_leading=True)
    return list(regressions_of(mirror.take(a_reading(after, **(now or {}))), known))


def a_regression(number=0, **changes):
    (found,) = regressions({f"t{number}@g": {0: 9}}, {f"t{number}@g": {0: 5}}, **changes)
    return found


def test_rewind_says_from_where_to_where_and_how_many_messages_are_read_again():
    found = a_regression(now={"unix_ms": 7000})
    assert (found.queue, found.cause) == (SetQueue(SET, EntryKey("t0", "g"), 0), RegressionCause.REWIND)
    assert (found.unix_ms, found.from_offset, found.to_offset, found.messages_again) == (7000, 9, 5, 4)


@pytest.mark.parametrize(
    ("former", "now", "cause"),
    [
        ({}, {}, RegressionCause.REWIND),
        ({}, OTHER, RegressionCause.ROLE_CHANGE),
        ({}, {"epoch": 2}, RegressionCause.REWIND),
        ({}, {"epoch": 3}, RegressionCause.ROLE_CHANGE),
        ({}, {"epoch": 2, "boot_ms": BOOT_MS + 1}, RegressionCause.ROLE_CHANGE),
        ({"epoch": None}, {"epoch": None, "address": "10.0.0.2:10911"}, RegressionCause.ROLE_CHANGE),
        ({}, {"boot_ms": BOOT_MS + 1}, RegressionCause.RESTART),
        ({"log_max_offset": 900}, {"boot_ms": BOOT_MS + 1, "log_max_offset": 900}, RegressionCause.RESTART),
        ({"log_max_offset": 900}, {"boot_ms": BOOT_MS + 1}, RegressionCause.RESTART),
        ({"log_max_offset": 900}, {"boot_ms": BOOT_MS + 1, "log_max_offset": 0}, RegressionCause.DISK_REPLACED),
        ({"log_max_offset": 900}, OTHER | {"log_max_offset": 0}, RegressionCause.ROLE_CHANGE),
    ],
)
def test_cause_is_found_from_epochs_boot_times_and_the_end_of_the_log(former, now, cause):
    assert cause_between(a_read(**former), a_read(**now)) is cause
    assert [each.cause for each in regressions({"t@g": {0: 9}}, {"t@g": {0: 5}}, former=former, now=now)] == [cause]


def test_regression_after_a_role_change_has_both_epochs():
    found = a_regression(now=OTHER)
    assert (found.former.run.master_epoch, found.now.run.master_epoch) == (1, 2)


def test_offset_that_another_run_does_not_have_went_back_to_nothing_and_not_to_0():
    (found,) = regressions({"t@g": {0: 9}}, {}, now=OTHER)
    assert (found.from_offset, found.to_offset, found.messages_again) == (9, None, None)


def test_offset_that_vanishes_within_a_run_was_deleted():
    (found,) = regressions({"t@g": {0: 9}}, {})
    assert (found.cause, found.from_offset, found.to_offset) == (RegressionCause.DELETED, 9, None)
    resets = KnownResets()
    resets.note(QUEUE, Reset(0, 1000))
    (found,) = regressions({"t@g": {0: 9}}, {}, resets)
    assert found.cause is RegressionCause.DELETED


def test_offsets_that_advance_have_not_gone_back():
    assert regressions({"t@g": {0: 9}}, {"t@g": {0: 10, 1: 1}}, now=OTHER) == []


def test_smallest_offset_of_a_broadcasting_group_may_go_back():
    assert regressions({"t@g@broadcast": {0: 9}}, {"t@g@broadcast": {0: 5}}) == []


def test_first_reading_of_a_set_has_nothing_that_went_back():
    changes = BrokerMirror(SET).take(a_reading({"t@g": {0: 9}}))
    assert list(regressions_of(changes, KnownWrites(KnownResets(), GuardWrites(), is_leading=True))) == []


@pytest.mark.parametrize(
    ("offset", "cause"),
    [(5, RegressionCause.OPERATOR_RESET), (4, RegressionCause.OPERATOR_RESET), (6, RegressionCause.REWIND)],
)
def test_reset_explains_what_went_back_to_it_or_not_so_far(offset, cause):
    resets = KnownResets()
    resets.note(QUEUE, Reset(offset, 1000))
    assert [each.cause for each in regressions({"t@g": {0: 9}}, {"t@g": {0: 5}}, resets)] == [cause]


def test_reset_explains_nothing_later_or_elsewhere_or_in_another_run():
    resets = KnownResets()
    resets.note(QUEUE, Reset(5, 1000))
    tables = {"t@g": {0: 9}}, {"t@g": {0: 5}}
    late = {"unix_ms": 1001 + RESET_SEEN_MS}
    assert [each.cause for each in regressions(*tables, resets, now=late)] == [RegressionCause.REWIND]
    assert [each.cause for each in regressions(*tables, resets, now=OTHER)] == [RegressionCause.ROLE_CHANGE]
    assert [each.cause for each in regressions({"t@g": {1: 9}}, {"t@g": {1: 5}}, resets)] == [RegressionCause.REWIND]


@pytest.mark.parametrize(
    ("offset", "cause"),
    [(5, RegressionCause.GUARD), (4, RegressionCause.GUARD), (6, RegressionCause.REWIND)],
)
def test_what_the_guard_has_set_back_is_nobodys_rewind(offset, cause):
    guard = GuardWrites()
    guard.written.note(QUEUE, Reset(offset, 1000))
    assert [each.cause for each in regressions({"t@g": {0: 9}}, {"t@g": {0: 5}}, guard=guard)] == [cause]


def test_manager_that_does_not_lead_tells_no_rewind_from_a_write_of_the_guard_while_the_run_is_new():
    guard, mirror = GuardWrites(), BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 20}}))
    guard.note_run(mirror.take(a_reading({"t@g": {0: 9}}, **OTHER, unix_ms=10_000)))
    changes = mirror.take(a_reading({"t@g": {0: 5}}, **OTHER, unix_ms=15_000))
    later = mirror.take(a_reading({"t@g": {0: 4}}, **OTHER, unix_ms=10_001 + RESET_SEEN_MS))

    def cause(changes, *, is_leading):
        (found,) = regressions_of(changes, KnownWrites(KnownResets(), guard, is_leading))
        return found.cause

    assert cause(changes, is_leading=False) is RegressionCause.GUARD_OR_REWIND
    assert cause(changes, is_leading=True) is RegressionCause.REWIND
    assert cause(later, is_leading=False) is RegressionCause.REWIND
    guard.forget(SET)
    assert cause(changes, is_leading=False) is RegressionCause.REWIND


def test_reading_from_before_a_reset_was_written_may_not_show_it():
    resets = KnownResets()
    resets.note(QUEUE, Reset(5, 1000))
    assert resets.unseen(SET, 1000 + RESET_SENT_MS) == {(QUEUE.key, QUEUE.queue_id): 5}
    assert resets.unseen(SET, 1001 + RESET_SENT_MS) == {}
    assert resets.unseen(SetName("c", "other"), 0) == {}


def test_oldest_resets_are_forgotten_above_the_limit():
    resets = KnownResets()
    for number in range(RESETS_MAX + 1):
        resets.note(QUEUE._replace(queue_id=number), Reset(5, 0))
    move = OffsetMove(0, 9, 5)
    assert not resets.explains(QUEUE, move, 0)
    assert resets.explains(QUEUE._replace(queue_id=1), move, 0)


def test_last_regressions_are_kept_and_all_are_counted():
    log = RegressionLog(limit=3)
    for number in range(5):
        log.add(a_regression(number))
    assert [each.queue.key.topic for each in log.last(2)] == ["t4", "t3"]
    assert len(log.last(10)) == len(log) == 3
    assert log.dropped == 2
    assert log.totals[RegressionCause.REWIND] == (5, 20)


def test_queue_that_goes_back_again_and_again_has_one_entry():
    """One group that goes to and fro would push all others out of the log."""
    log = RegressionLog(limit=3)
    log.add(a_regression(1))
    for _ in range(100):
        log.add(a_regression(0))
    log.add(a_regression(0, now=OTHER))
    assert [(each.queue.key.topic, each.cause, each.times) for each in log.last(10)] == [
        ("t0", RegressionCause.ROLE_CHANGE, 1),
        ("t0", RegressionCause.REWIND, 100),
        ("t1", RegressionCause.REWIND, 1),
    ]


def test_regressions_of_an_earlier_process_are_older_than_those_of_this_one_and_count_with_them():
    log, earlier = RegressionLog(limit=3), RegressionLog()
    for number in (0, 1, 1):
        earlier.add(a_regression(number))
    log.add(a_regression(1))
    log.add(a_regression(2))
    log.restore_earlier(reversed(earlier.last(10)))
    assert [(each.queue.key.topic, each.times) for each in log.last(10)] == [("t2", 1), ("t1", 3), ("t0", 1)]
