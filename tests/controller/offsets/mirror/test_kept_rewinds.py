"""Where groups were before they went back, until they are there again."""

from mirror_builders import SET, a_reading

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.kept_rewinds import KeptRewinds
from controller.offsets.mirror.masters import SetName

KEY = EntryKey("t", "g")
DAY_MS = 24 * 3_600_000


OTHER = SetName("c", "other")


def noted(rewinds, changes):
    for _ in rewinds.slices(changes):
        pass


def rewinds_after(*offsets, **last):
    """Return what is kept of t@g after these readings, a day apart; None for one without its offset."""
    mirror, rewinds = BrokerMirror(SET), KeptRewinds()
    for number, offset in enumerate(offsets):
        other = last if number == len(offsets) - 1 else {}
        table = {"t@g": {} if offset is None else {0: offset}}
        noted(rewinds, mirror.take(a_reading(table, unix_ms=number * DAY_MS, **other)))
    return rewinds.of_set(SET)


def note_many(rewinds, queues, set_name, *, before=9, topic="t"):
    """Let all these queues of a set go back."""
    mirror = BrokerMirror(set_name)
    for number, offset in enumerate((before, 5)):
        table = {f"{topic}@g": dict.fromkeys(range(queues), offset)}
        noted(rewinds, mirror.take(a_reading(table, unix_ms=number * 5000)))


def test_offset_before_a_rewind_is_kept_until_the_group_is_there_again_however_long_that_takes():
    assert rewinds_after(9, 4, 5, 6, 8) == {(KEY, 0): 9}
    assert rewinds_after(9, 4, 5, 6, 8, 9) == {}
    assert rewinds_after(9, 4, 12) == {}


def test_highest_of_several_rewinds_is_kept():
    assert rewinds_after(9, 5, 7, 3) == {(KEY, 0): 9}
    assert rewinds_after(9, 5, 12, 3) == {(KEY, 0): 12}


def test_group_that_goes_on_has_no_rewind():
    assert rewinds_after(5, 9) == {}


def test_offset_that_was_deleted_is_kept_until_the_group_has_begun_anew_and_is_there_again():
    assert rewinds_after(9, None) == {(KEY, 0): 9}
    assert rewinds_after(9, None, 2, 8) == {(KEY, 0): 9}
    assert rewinds_after(9, None, 2, 10) == {}
    assert rewinds_after(9, None, 10) == {}


def test_what_another_master_shows_is_no_rewind_and_passes_none():
    assert rewinds_after(9, 5, epoch=3) == {}
    assert rewinds_after(9, None, epoch=3) == {}
    # The older copy that the rewind is kept for.
    assert rewinds_after(9, 5, 9, epoch=3) == {(KEY, 0): 9}


def test_what_the_same_process_shows_in_its_next_epoch_is_a_rewind():
    assert rewinds_after(9, 5, epoch=2) == {(KEY, 0): 9}


def test_offsets_that_are_not_guarded_leave_no_rewinds():
    mirror, rewinds = BrokerMirror(SET), KeptRewinds()
    for offset in (9, 5):
        table = {"t@g@broadcast": {0: offset}}
        noted(rewinds, mirror.take(a_reading(table, lmq={"%LMQ%x@%LMQ%x": offset}, unix_ms=offset)))
    assert rewinds.of_set(SET) == {}


def test_rewinds_of_a_set_are_forgotten_with_it_and_other_sets_have_none():
    rewinds = KeptRewinds()
    note_many(rewinds, 1, SET)
    rewinds.forget(OTHER)
    assert (len(rewinds.of_set(SET)), rewinds.of_set(OTHER)) == (1, {})
    rewinds.forget(SET)
    assert rewinds.of_set(SET) == {}


def test_set_with_the_most_rewinds_forgets_its_oldest_above_the_limit():
    rewinds = KeptRewinds(limit=10)
    note_many(rewinds, 4, OTHER)
    note_many(rewinds, 5, SET, topic="first")
    note_many(rewinds, 5, SET)
    found = rewinds.of_set(SET)
    assert (len(rewinds.of_set(OTHER)), len(found)) == (4, 6)
    assert {each for each in found if each[0] == KEY} == {(KEY, queue_id) for queue_id in range(5)}
    note_many(rewinds, 30, OTHER, before=8)
    assert (len(rewinds.of_set(OTHER)), len(rewinds.of_set(SET))) == (4, 6)


def test_long_names_count_more_as_they_take_more_of_the_file():
    rewinds = KeptRewinds(limit=20)
    note_many(rewinds, 10, OTHER)
    note_many(rewinds, 10, SET, topic="x" * 255)
    assert (len(rewinds.of_set(OTHER)), len(rewinds.of_set(SET))) == (10, 3)


def test_what_was_stored_counts_and_is_the_first_to_be_forgotten():
    rewinds = KeptRewinds(limit=6)
    note_many(rewinds, 1, SET, topic="known")
    rewinds.restore(SET, {(KEY, queue_id): 9 for queue_id in range(6)})
    known = {(EntryKey("known", "g"), 0): 9}
    assert rewinds.of_set(SET) == {(KEY, queue_id): 9 for queue_id in range(1, 6)} | known
