"""The mirror in a file: what is newest, what was at a moment, and what is given up."""

import contextlib
import random
import sqlite3
from dataclasses import replace

import pytest
from fakes.clock import FakeClock
from filed_mirror import BEGIN_MS, DAY_MS, HOUR_MS, MINUTE_MS, FiledMirror
from mirror_builders import SET, a_read, a_reading, unreadable

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.kept_rewinds import KeptRewinds
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.mirrored_offsets import MomentNotKept
from controller.offsets.mirror.regressions import REGRESSIONS_MAX, Regression, RegressionCause, SetQueue
from controller.offsets.mirror.saved_offsets import UnusableOffsets
from controller.offsets.mirror_file.clock_leaps import ClockLeap, ClockLeaps, ClockReading
from controller.offsets.mirror_file.frames import encoded_frame, table_of
from controller.offsets.mirror_file.mirror_file import ASIDE_SUFFIX, FILE_NAME
from controller.offsets.mirror_file.updates import MirrorUpdate, SetUpdate
from controller.offsets.storage.sqlite_file import FileDamaged

NO_LEAPS = ClockLeaps()


@pytest.fixture
def filed(tmp_path):
    filed = FiledMirror(tmp_path, FakeClock())
    yield filed
    filed.file.close()


@contextlib.contextmanager
def rewriting(path):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        yield connection


def loaded(filed):
    (found,) = filed.reopened().opened.loaded.sets
    return found


def a_regression(queue_id=0, times=1):
    return Regression(
        queue=SetQueue(SET, EntryKey("t", "g"), queue_id),
        cause=RegressionCause.REWIND,
        unix_ms=5,
        from_offset=10,
        to_offset=None,
        former=a_read(),
        now=a_read(log_max_offset=9),
        times=times,
    )


def test_next_process_has_the_newest_offsets_and_the_run_they_are_of(filed):
    filed.read({"t@g": {0: 5, 1: 7}, "u@g": {0: 1}}, epoch=3, log_max_offset=900)
    filed.read({"t@g": {0: 6, 1: 7}}, at_ms=BEGIN_MS + 5000, epoch=3, log_max_offset=901)
    found = loaded(filed)
    assert found.set_name == SET
    assert [each for each in found.saved.entries() if each] == [(EntryKey("t", "g"), {0: 6, 1: 7})]
    assert found.saved.read == filed.mirror.saved.read


def test_readings_of_former_runs_are_there_until_they_are_settled(filed):
    filed.read({"t@g": {0: 500}}, epoch=1)
    filed.read({"t@g": {0: 5}}, at_ms=BEGIN_MS + 5000, epoch=2)
    second = filed.reopened()
    (found,) = second.opened.loaded.sets
    (former,) = found.former_runs
    assert former.read.run.master_epoch == 1
    assert [each for each in former.entries() if each] == [(EntryKey("t", "g"), {0: 500})]
    second.file.store(MirrorUpdate(sets={SET: SetUpdate(saved=found.saved, former_runs=())}))
    assert loaded(second).former_runs == ()


def test_moment_has_the_last_offset_not_later_than_it(filed):
    for place in range(3):
        filed.read({"t@g": {0: 10 * place}}, at_ms=BEGIN_MS + 5000 * place)
    assert [filed.offset_at(BEGIN_MS + ms) for ms in (0, 4999, 5000, 9999, 10_000, DAY_MS)] == [0, 0, 10, 10, 20, 20]
    assert filed.file.at(SET, BEGIN_MS + 9999).unix_ms == BEGIN_MS + 5000


def test_moment_before_all_that_is_kept_is_refused_and_says_since_when(filed):
    filed.read({"t@g": {0: 1}})
    with pytest.raises(MomentNotKept, match=f"they are kept since {BEGIN_MS}"):
        filed.file.at(SET, BEGIN_MS - 1)
    with pytest.raises(MomentNotKept, match="nothing is kept of it"):
        filed.file.at(SetName("c", "other"), BEGIN_MS)


def test_offset_that_was_deleted_is_there_at_the_moment_before(filed):
    filed.read({"t@g": {0: 5}, "u@g": {0: 1}})
    filed.read({"t@g": {0: 5}}, at_ms=BEGIN_MS + 5000)
    assert EntryKey("u", "g") in filed.file.at(SET, BEGIN_MS).by_entry
    assert EntryKey("u", "g") not in filed.file.at(SET, BEGIN_MS + 5000).by_entry


def test_old_changes_are_thinned_to_one_a_minute_and_one_an_hour(filed):
    filed.read({"t@g": {0: 0}})
    for place in range(1, 3 * 180):
        filed.read({"t@g": {0: place}}, at_ms=BEGIN_MS + 20_000 * place)
    end_ms = BEGIN_MS + 3 * HOUR_MS
    filed.file.thin(SET, NO_LEAPS, end_ms)
    assert filed.offset_at(end_ms) == 539
    assert filed.offset_at(end_ms - 40_000) == 538, "every change of the last hour"
    assert filed.offset_at(BEGIN_MS + 90 * MINUTE_MS - 1) == 269, "the last one of each minute"
    assert filed.offset_at(BEGIN_MS + 90 * MINUTE_MS + 30_000) == 269
    filed.file.thin(SET, NO_LEAPS, end_ms + DAY_MS)
    filed.file.thin(SET, NO_LEAPS, end_ms + DAY_MS)
    assert filed.offset_at(BEGIN_MS + HOUR_MS) == 179, "the last one of each hour"
    assert filed.offset_at(BEGIN_MS + 90 * MINUTE_MS) == 179
    assert filed.offset_at(end_ms) == 539


def test_moments_before_two_weeks_are_given_up_and_the_newest_offsets_stay(filed):
    for place in range(3):
        filed.read({"t@g": {0: place}, f"u{place}@g": {0: 1}}, at_ms=BEGIN_MS + place * HOUR_MS)
    filed.file.thin(SET, NO_LEAPS, BEGIN_MS + 14 * DAY_MS + 2 * HOUR_MS)
    assert filed.file.kept_since(SET) == BEGIN_MS + HOUR_MS
    filed.file.thin(SET, NO_LEAPS, BEGIN_MS + 40 * DAY_MS)
    with pytest.raises(MomentNotKept):
        filed.file.at(SET, BEGIN_MS + HOUR_MS)
    assert by_name(loaded(filed).saved) == {"t": {0: 2}, "u2": {0: 1}}


def by_name(saved):
    return {each.key.topic: dict(each.offsets) for each in saved.entries() if each}


def test_oldest_moments_are_given_up_where_room_is_short(filed):
    for place in range(10):
        filed.read({"t@g": {0: place}}, at_ms=BEGIN_MS + place * MINUTE_MS)
    assert filed.file.give_up_of_largest(NO_LEAPS, BEGIN_MS + 10 * MINUTE_MS)
    assert filed.file.kept_since(SET) > BEGIN_MS
    while filed.file.give_up_of_largest(NO_LEAPS, BEGIN_MS + 10 * MINUTE_MS):
        pass
    assert by_name(loaded(filed).saved) == {"t": {0: 9}}


def counted(filed):
    """Return what the changes of the set take, as it is known, and as the file has it."""
    query = "SELECT total(length(body)) FROM changes"
    return filed.file._stored[SET].kept_bytes, filed.file._file.connection.execute(query).fetchone()[0]


def test_size_of_a_set_is_known_whatever_becomes_of_its_changes(filed):
    for place in range(3 * 180):
        filed.read({"t@g": {0: place}}, at_ms=BEGIN_MS + 20_000 * place)
    end_ms, sizes = BEGIN_MS + 3 * HOUR_MS, []
    steps = [
        lambda: filed.file.give_up_of_largest(NO_LEAPS, end_ms),
        lambda: filed.read({"t@g": {0: 1000}}, at_ms=end_ms + 5000),
        lambda: filed.file.thin(SET, NO_LEAPS, end_ms),
        lambda: filed.read({"t@g": {0: 1001}}, at_ms=BEGIN_MS + 90 * MINUTE_MS),
        lambda: filed.file.give_up_of_largest(NO_LEAPS, end_ms),
    ]
    for step in steps:
        step()
        known, size = counted(filed)
        assert known in (size, None)
        sizes.append(size)
    assert sizes[0] < sizes[1] > sizes[2] > sizes[3] > sizes[4] > 0
    assert counted(filed)[0] is not None
    filed.read({"t@g": {0: 1}}, at_ms=BEGIN_MS - DAY_MS)
    assert counted(filed) == (0, 0)


def test_clock_that_leaps_ahead_makes_no_moment_older(filed):
    """Neither in this process nor in the next one, and time goes on."""
    for place in range(3):
        filed.read({"t@g": {0: place}}, at_ms=BEGIN_MS + 20_000 * place)
    leapt_ms = BEGIN_MS + 40 * DAY_MS
    filed.read({"t@g": {0: 3}}, at_ms=leapt_ms)
    leaps = NO_LEAPS.passed(ClockReading(0, BEGIN_MS + 40_000), ClockReading(5_000, leapt_ms))
    filed.file.store_clock(leaps, leapt_ms)
    filed.file.thin(SET, leaps, leapt_ms)
    filed.file.give_up_of_largest(leaps, leapt_ms)
    assert [filed.offset_at(BEGIN_MS + 20_000 * place) for place in (1, 2)] == [1, 2]
    second = filed.reopened()
    leaps = second.opened.loaded.leaps
    second.file.thin(SET, leaps, leapt_ms + 2 * HOUR_MS)
    assert second.file.kept_since(SET) <= BEGIN_MS + 20_000
    assert second.offset_at(BEGIN_MS + 40_000) == 2
    assert second.offset_at(BEGIN_MS + 39_999) < 2, "one of each minute, as after two hours"
    second.file.thin(SET, leaps, leapt_ms + 14 * DAY_MS + MINUTE_MS)
    assert second.file.kept_since(SET) == leapt_ms
    second.file.close()


def test_room_is_made_by_part_of_the_changes_where_hardly_any_time_has_passed(filed):
    """As after a leap of the clock: the file must not outgrow its limit."""
    for place in range(64):
        filed.read({"t@g": {0: place}}, at_ms=BEGIN_MS + 1000 * place)
    leaps = ClockLeaps((ClockLeap(BEGIN_MS + 63_000, 30 * DAY_MS + 63_000),))
    filed.file.give_up_of_largest(leaps, BEGIN_MS + 63_000 + 30 * DAY_MS)
    assert filed.file.kept_since(SET) >= BEGIN_MS + 4000
    assert filed.offset_at(BEGIN_MS + 10_000) == 10


def test_nothing_is_written_for_groups_that_stand_still(filed, tmp_path):
    filed.read({"t@g": {0: 5}})
    before = (tmp_path / f"{FILE_NAME}-wal").stat().st_size
    for hour in range(48):
        filed.file.thin(SET, NO_LEAPS, BEGIN_MS + hour * HOUR_MS)
    filed.file.used_bytes()
    assert (tmp_path / f"{FILE_NAME}-wal").stat().st_size == before


def test_set_that_fell_behind_is_compared_with_the_file(filed):
    filed.read({"t@g": {0: 5, 1: 1}, "u@g": {0: 1}})
    for place in range(3):
        filed.mirror.take(a_reading({"t@g": {0: 6 + place}, "v@g": {0: 1}}, unix_ms=BEGIN_MS + 5000 * place))
    filed.file.store(MirrorUpdate(sets={SET: SetUpdate(saved=filed.mirror.saved, changes=None)}))
    assert by_name(filed.file.at(SET, BEGIN_MS)) == {"t": {0: 5, 1: 1}, "u": {0: 1}}
    assert by_name(loaded(filed).saved) == {"t": {0: 8}, "v": {0: 1}}


def test_clock_that_was_set_back_far_begins_the_moments_anew(filed):
    filed.read({"t@g": {0: 5}}, at_ms=BEGIN_MS + DAY_MS)
    assert filed.file.store(filed.update({"t@g": {0: 6}}, at_ms=BEGIN_MS)).sets_set_back == 1
    filed.read({"t@g": {0: 7}}, at_ms=BEGIN_MS - 5000)
    assert filed.file.kept_since(SET) == BEGIN_MS
    assert [filed.offset_at(BEGIN_MS + ms) for ms in (0, 1)] == [6, 7]


@pytest.mark.parametrize("has_newer_table", [False, True])
def test_clock_that_leapt_ahead_and_was_set_back_costs_only_the_moments_of_the_time_to_come(
    filed, monkeypatch, has_newer_table
):
    filed.read({"t@g": {0: 1}, "u@g": {0: 1}})
    filed.read({"t@g": {0: 2}, "u@g": {0: 1}}, at_ms=BEGIN_MS + MINUTE_MS)
    if has_newer_table:
        monkeypatch.setattr("controller.offsets.mirror_file.mirror_file.is_newer_table_due", lambda _: True)
    filed.read({"t@g": {0: 3}, "u@g": {0: 1}}, at_ms=BEGIN_MS + 2 * DAY_MS)
    filed.read({"t@g": {0: 4}}, at_ms=BEGIN_MS + 2 * DAY_MS + 5000)
    monkeypatch.undo()
    update = filed.update({"t@g": {0: 5}}, at_ms=BEGIN_MS + 2 * MINUTE_MS)
    assert filed.file.store(update).sets_set_back == 1
    assert filed.file.store(filed.update({"t@g": {0: 6}}, at_ms=BEGIN_MS + 3 * MINUTE_MS)).sets_set_back == 0
    assert filed.file.kept_since(SET) == BEGIN_MS
    moments = [by_name(filed.file.at(SET, BEGIN_MS + minutes * MINUTE_MS)) for minutes in range(4)]
    both = {"u": {0: 1}}
    assert moments == [{"t": {0: 1}} | both, {"t": {0: 2}} | both, {"t": {0: 5}}, {"t": {0: 6}}]
    assert by_name(loaded(filed).saved) == {"t": {0: 6}}


def test_table_is_written_again_so_that_a_start_reads_few_changes(filed, tmp_path):
    numbers = random.Random(3)
    table = {f"topic-{numbers.random()}@g": {each: numbers.randrange(1 << 40) for each in range(8)} for _ in range(60)}
    for place in range(60):
        for offsets in table.values():
            offsets.update({queue: offset + numbers.randrange(1000) for queue, offset in offsets.items()})
        filed.read(table, at_ms=BEGIN_MS + 5000 * place)
    query = "SELECT count(*) FROM changes JOIN offset_tables USING (set_id) WHERE is_newer AND changes.unix_ms > {}"
    filed.file.close()
    with rewriting(tmp_path / FILE_NAME) as connection:
        (after,) = connection.execute(query.format("offset_tables.unix_ms")).fetchone()
    assert after < 50
    again = filed.reopened()
    assert table_of(again.opened.loaded.sets[0].saved) == table_of(filed.mirror.saved)
    again.file.close()


def test_regressions_are_there_in_their_order_and_the_newest_of_a_queue_counts(filed):
    filed.file.store(MirrorUpdate(regressions=[a_regression(0), a_regression(1)]))
    filed.file.store(MirrorUpdate(regressions=[a_regression(0, times=2)]))
    found = filed.reopened().opened.loaded.regressions
    assert found == [a_regression(1), a_regression(0, times=2)]


def test_set_that_jitters_costs_no_other_set_its_regressions(filed):
    other = replace(a_regression(), queue=SetQueue(SetName("c", "other"), EntryKey("t", "g"), 0))
    filed.file.store(MirrorUpdate(regressions=[other]))
    jitters = [a_regression(queue_id) for queue_id in range(1000)]
    for _ in range(REGRESSIONS_MAX // len(jitters) + 1):
        filed.file.store(MirrorUpdate(regressions=jitters))
    assert other in filed.reopened().opened.loaded.regressions


def test_set_with_the_most_regressions_loses_its_oldest_above_the_limit(filed):
    other = replace(a_regression(), queue=SetQueue(SetName("c", "other"), EntryKey("t", "g"), 0))
    filed.file.store(MirrorUpdate(regressions=[other]))
    filed.file.store(MirrorUpdate(regressions=[a_regression(number) for number in range(REGRESSIONS_MAX + 9)]))
    found = filed.reopened().opened.loaded.regressions
    assert (len(found), found[0], found[1].queue.queue_id) == (REGRESSIONS_MAX, other, 10)


def rewound(queues=1):
    """Return the rewinds of these queues of a set, which were at 10."""
    mirror, rewinds = BrokerMirror(SET), KeptRewinds()
    for number, offset in enumerate((10, 5)):
        table = {"t@g": dict.fromkeys(range(queues), offset)}
        for _ in rewinds.slices(mirror.take(a_reading(table, unix_ms=5000 * number))):
            pass
    return rewinds


def test_file_has_the_rewinds_that_memory_has_whatever_becomes_of_them(filed):
    numbers, rewinds = random.Random(7), KeptRewinds(limit=30)
    mirrors = [BrokerMirror(SET), BrokerMirror(SetName("c", "other"))]
    tables = [{f"t{n}@g": {0: 50, 1: 50} for n in range(20)} for _ in mirrors]
    for step in range(300):
        which = numbers.randrange(2)
        name, queue = f"t{numbers.randrange(20)}@g", numbers.randrange(2)
        tables[which].setdefault(name, {})[queue] = numbers.randrange(100)
        if step % 10 == 0:
            del tables[which][name]
        for _ in rewinds.slices(mirrors[which].take(a_reading(tables[which], unix_ms=5000 * step))):
            pass
        if step % 7 == 0:
            rewinds.put_back(rewinds.take_changes())
        if step % 50 == 0:
            rewinds.take_all_again()
        if step % 3 == 0:
            filed.file.store(MirrorUpdate(rewinds=rewinds.take_changes()))
    filed.file.store(MirrorUpdate(rewinds=rewinds.take_changes()))
    kept = {each.set_name: rewinds.of_set(each.set_name) for each in mirrors}
    assert filed.reopened().opened.loaded.rewinds == kept
    assert sum(map(len, kept.values())) == 30


def test_nothing_is_stored_of_rewinds_that_have_not_changed():
    mirror, rewinds = BrokerMirror(SET), KeptRewinds()
    for step, offset in enumerate((9, 5, 7, 5)):
        for _ in rewinds.slices(mirror.take(a_reading({"t@g": {0: offset}}, unix_ms=5000 * step))):
            pass
        assert len(rewinds.take_changes()) == (step == 1)


def test_so_many_rewinds_that_they_are_not_named_one_by_one_are_stored_whole(filed, monkeypatch):
    monkeypatch.setattr("controller.offsets.mirror.kept_rewinds._CHANGED_MAX", 10)
    rewinds = rewound(30)
    filed.file.store(MirrorUpdate(rewinds=rewinds.take_changes()))
    assert len(filed.reopened().opened.loaded.rewinds[SET]) == 30


def test_file_of_the_release_before_rewinds_opens_and_takes_them(filed, tmp_path):
    filed.read({"t@g": {0: 5}})
    filed.file.close()
    with rewriting(tmp_path / FILE_NAME) as connection:
        connection.execute("DROP TABLE rewinds")
    again = filed.reopened()
    assert (again.opened.moved_aside, again.opened.loaded.rewinds, again.offset_at(BEGIN_MS)) == (None, {}, 5)
    rewinds = rewound()
    again.file.store(MirrorUpdate(rewinds=rewinds.take_changes()))
    assert again.reopened().opened.loaded.rewinds == {SET: {(EntryKey("t", "g"), 0): 10}}


def test_absence_of_a_set_is_stored_and_a_dropped_set_is_gone(filed):
    filed.read({"t@g": {0: 5}})
    filed.file.store(MirrorUpdate(absent_since_ms={SET: 77}))
    second = filed.reopened()
    assert second.opened.loaded.sets[0].absent_since_ms == 77
    rewinds = rewound()
    second.file.store(MirrorUpdate(rewinds=rewinds.take_changes()))
    second.file.store(MirrorUpdate(dropped=[SET]))
    found = second.reopened().opened.loaded
    assert (found.sets, found.rewinds) == ([], {})


def test_update_that_failed_changes_nothing_and_the_next_one_counts(filed):
    filed.read({"t@g": {0: 5}})
    filed.mirror.take(a_reading({"t@g": {0: 6}}, unix_ms=BEGIN_MS + 5000))
    update = SetUpdate(saved=filed.mirror.saved, changes=None)
    with pytest.raises(AttributeError):
        filed.file.store(MirrorUpdate(sets={SET: update, SetName("c", "other"): None}))
    assert filed.offset_at(DAY_MS + BEGIN_MS) == 5
    filed.file.store(MirrorUpdate(sets={SET: update}))
    assert filed.offset_at(DAY_MS + BEGIN_MS) == 6


@pytest.mark.parametrize("is_former_run", [False, True])
def test_table_in_memory_that_is_not_readable_is_no_damage_of_the_file(filed, is_former_run):
    filed.read({"t@g": {0: 5}})
    saved, odd = filed.mirror.saved, unreadable(filed.mirror.saved)
    update = SetUpdate(saved=saved, former_runs=[odd]) if is_former_run else SetUpdate(saved=odd, changes=None)
    with pytest.raises(UnusableOffsets):
        filed.file.store(MirrorUpdate(sets={SET: update}))
    filed.read({"t@g": {0: 6}}, at_ms=BEGIN_MS + 5000)
    assert [filed.offset_at(BEGIN_MS + ms) for ms in (0, 5000)] == [5, 6]


def damage_bytes(path):
    path.write_bytes(b"this is no database, and it is long enough to be looked at" * 100)


def damage_body(path):
    with rewriting(path) as connection:
        connection.execute("UPDATE offset_tables SET body = x'00'")


def damage_read(path):
    with rewriting(path) as connection:
        connection.execute("UPDATE sets SET read = x'c1'")


def damage_version(path):
    with rewriting(path) as connection:
        connection.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize("damage", [damage_bytes, damage_body, damage_read, damage_version])
def test_file_that_cannot_be_read_is_moved_aside_and_the_mirror_begins_anew(filed, tmp_path, damage):
    filed.read({"t@g": {0: 5}})
    filed.file.close()
    path = tmp_path / FILE_NAME
    damage(path)
    again = FiledMirror(tmp_path, FakeClock())
    assert FILE_NAME in again.opened.moved_aside
    assert again.opened.loaded.sets == []
    assert (tmp_path / f"{FILE_NAME}{ASIDE_SUFFIX}").exists()
    again.read({"t@g": {0: 6}})
    assert by_name(loaded(again).saved) == {"t": {0: 6}}


def test_damaged_change_is_named(filed, tmp_path):
    for place in range(3):
        filed.read({"t@g": {0: place}}, at_ms=BEGIN_MS + 5000 * place)
    filed.file.close()
    with rewriting(tmp_path / FILE_NAME) as connection:
        connection.execute(f"UPDATE offset_tables SET unix_ms = {BEGIN_MS + 90_000} WHERE is_newer")
        connection.execute("UPDATE changes SET body = x'00'")
    again = filed.reopened()
    with pytest.raises(FileDamaged, match=FILE_NAME):
        again.file.at(SET, BEGIN_MS + 5000)
    again.file.close()


def test_key_of_the_file_that_names_nobody_is_damage(filed):
    filed.read({"t@g": {0: 5}})
    body = encoded_frame({(False, b"nobody"): {0: 5}})
    filed.file._file.connection.execute("UPDATE offset_tables SET body = ?", (body,))  # as a disk does
    with pytest.raises(FileDamaged, match="nobody"):
        filed.file.at(SET, BEGIN_MS)


def test_damage_that_a_write_meets_is_named_and_nothing_is_stored(filed):
    filed.read({"t@g": {0: 5}})
    filed.file._file.connection.execute("UPDATE offset_tables SET body = x'00'")  # as a disk does
    filed.mirror.take(a_reading({"t@g": {0: 6}}, unix_ms=BEGIN_MS + 5000))
    with pytest.raises(FileDamaged, match=FILE_NAME):
        filed.file.store(MirrorUpdate(sets={SET: SetUpdate(saved=filed.mirror.saved, changes=None)}))


def test_restored_mirror_takes_the_epochs_of_a_store_that_was_put_back():
    mirror = BrokerMirror(SET)
    mirror.take(a_reading({"t@g": {0: 5}}, epoch=7))
    restored = BrokerMirror.restored(SET, mirror.saved, ())
    restored.take(a_reading({"t@g": {0: 5}}, epoch=1, unix_ms=2000))
    assert restored.saved.read.run.master_epoch == 1
