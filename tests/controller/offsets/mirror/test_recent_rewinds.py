"""Where groups were before they went back."""

import pytest
from mirror_builders import SET, a_reading

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.recent_rewinds import KEPT_MS, RecentRewinds
from controller.offsets.mirror.regressions import (
    GuardWrites,
    KnownResets,
    KnownWrites,
    RegressionCause,
    Reset,
    SetQueue,
    regressions_of,
)

KEY = EntryKey("t", "g")


def rewinds_after(*offsets, step_ms=5000, **last):
    """Return what is remembered after these readings of one queue, `step_ms` apart."""
    mirror, rewinds = BrokerMirror(SET), RecentRewinds()
    for number, offset in enumerate(offsets):
        other = last if number == len(offsets) - 1 else {}
        rewinds.note(mirror.take(a_reading({"t@g": {0: offset}}, unix_ms=number * step_ms, **other)))
    return rewinds


def test_offset_before_a_rewind_is_remembered_while_slaves_may_show_it():
    rewinds = rewinds_after(9, 5)
    assert rewinds.of_set(SET, 5000 + KEPT_MS) == {(KEY, 0): 9}
    assert rewinds.of_set(SET, 5001 + KEPT_MS) == {}


def test_highest_of_several_rewinds_is_remembered():
    assert rewinds_after(9, 5, 7, 3).of_set(SET, 15_000) == {(KEY, 0): 9}


def test_group_that_goes_on_has_no_rewind():
    assert rewinds_after(5, 9).of_set(SET, 5000) == {}


def test_what_another_master_shows_is_no_rewind():
    assert rewinds_after(9, 5, epoch=3).of_set(SET, 5000) == {}


def test_what_the_same_process_shows_in_its_next_epoch_is_a_rewind():
    assert rewinds_after(9, 5, epoch=2).of_set(SET, 5000) == {(KEY, 0): 9}


def test_old_rewinds_are_forgotten_and_other_sets_have_none():
    rewinds = rewinds_after(9, 5, 4, step_ms=KEPT_MS + 1)
    assert rewinds.of_set(SET, 2 * (KEPT_MS + 1)) == {(KEY, 0): 5}
    assert rewinds.of_set(SetName("c", "other"), 0) == {}


@pytest.mark.parametrize("is_reversed", [False, True])
def test_rewinds_of_an_earlier_process_count_as_its_own_did(is_reversed):
    mirror, rewinds, log = BrokerMirror(SET), RecentRewinds(), []
    known = KnownWrites(KnownResets(), GuardWrites(), is_leading=True)
    for number, offset in enumerate((9, 5, 7, 3)):
        if offset == 3:
            known.resets.note(SetQueue(SET, KEY, 0), Reset(3, 15_000))
        log += regressions_of(mirror.take(a_reading({"t@g": {0: offset}}, unix_ms=number * 5000)), known)
    assert [each.cause for each in log] == [RegressionCause.REWIND, RegressionCause.OPERATOR_RESET]
    for each in reversed(log) if is_reversed else log:
        rewinds.restore(each)
    assert rewinds.of_set(SET, 15_000 + KEPT_MS) == {(KEY, 0): 9}
    assert rewinds.of_set(SET, 15_001 + KEPT_MS) == {}
