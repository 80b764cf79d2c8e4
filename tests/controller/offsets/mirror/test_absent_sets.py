"""Mirrors of sets that nobody shows are kept for two weeks, and not without a limit."""

from controller.offsets.mirror.absent_sets import KEPT_MS, AbsentSets
from controller.offsets.mirror.masters import SetName

A, B, C = (SetName("c", name) for name in "abc")
NOW_MS = 1_800_000_000_000


def look(absent, mirrored, shown, now_ms, *, leapt_ms=0):
    return absent.look(mirrored, shown, now_ms, lambda since_ms: now_ms - leapt_ms - since_ms)


def test_set_that_nobody_shows_is_dropped_after_two_weeks():
    absent = AbsentSets()
    assert set(look(absent, {A, B}, {A}, NOW_MS).absent) == {B}
    later = look(absent, {A, B}, {A}, NOW_MS + KEPT_MS)
    assert not any(later)
    assert absent.since(B) == NOW_MS
    assert list(look(absent, {A, B}, {A}, NOW_MS + KEPT_MS + 1).dropped) == [(B, NOW_MS)]
    assert absent.since(B) is None


def test_set_that_is_shown_again_begins_anew():
    absent = AbsentSets()
    absent.restore(B, NOW_MS - KEPT_MS - 5)
    assert set(look(absent, {A, B}, {A, B}, NOW_MS).back) == {B}
    assert set(look(absent, {A, B}, {A}, NOW_MS).absent) == {B}
    assert absent.since(B) == NOW_MS


def test_of_too_many_sets_those_go_first_that_are_absent_for_the_longest_time():
    absent = AbsentSets(sets_max=2)
    absent.restore(B, NOW_MS - 5)
    absent.restore(C, NOW_MS - 7)
    assert list(look(absent, {A, B, C}, {A}, NOW_MS).dropped) == [(C, NOW_MS - 7)]


def test_clock_that_leaps_ahead_drops_no_set():
    absent = AbsentSets()
    look(absent, {A, B}, {A}, NOW_MS)
    assert not any(look(absent, {A, B}, {A}, NOW_MS + 10 * KEPT_MS, leapt_ms=10 * KEPT_MS))
