"""Mirrors of sets that nobody shows are kept for two weeks, and not without a limit."""

from controller.offsets.mirror.absent_sets import KEPT_MS, AbsentSets
from controller.offsets.mirror.masters import SetName

A, B, C = (SetName("c", name) for name in "abc")
NOW_MS = 1_800_000_000_000


def test_set_that_nobody_shows_is_dropped_after_two_weeks():
    absent = AbsentSets()
    assert set(absent.look({A, B}, {A}, NOW_MS).absent) == {B}
    later = absent.look({A, B}, {A}, NOW_MS + KEPT_MS)
    assert not any(later)
    assert absent.since(B) == NOW_MS
    assert list(absent.look({A, B}, {A}, NOW_MS + KEPT_MS + 1).dropped) == [(B, NOW_MS)]
    assert absent.since(B) is None


def test_set_that_is_shown_again_begins_anew():
    absent = AbsentSets()
    absent.restore(B, NOW_MS - KEPT_MS - 5)
    assert set(absent.look({A, B}, {A, B}, NOW_MS).back) == {B}
    assert set(absent.look({A, B}, {A}, NOW_MS).absent) == {B}
    assert absent.since(B) == NOW_MS


def test_of_too_many_sets_those_go_first_that_are_absent_for_the_longest_time():
    absent = AbsentSets(sets_max=2)
    absent.restore(B, NOW_MS - 5)
    absent.restore(C, NOW_MS - 7)
    assert list(absent.look({A, B, C}, {A}, NOW_MS).dropped) == [(C, NOW_MS - 7)]
