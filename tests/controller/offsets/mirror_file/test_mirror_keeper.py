"""The file takes what changes, and what it cannot take now it has later."""

import asyncio
import itertools
import random
from pathlib import Path

import pytest
from fakes.clock import FakeClock
from filed_mirror import BEGIN_MS, FiledMirror
from mirror_builders import SET, a_read, a_reading

from controller.offsets.entry_keys import EntryKey
from controller.offsets.mirror.broker_mirror import BrokerMirror
from controller.offsets.mirror.kept_rewinds import KeptRewinds
from controller.offsets.mirror.masters import SetName
from controller.offsets.mirror.mirrored_offsets import MirrorFileFailed
from controller.offsets.mirror.regressions import Regression, RegressionCause, RegressionLog, SetQueue
from controller.offsets.mirror_file import waiting as waiting_module
from controller.offsets.mirror_file.keeper import THIN_MS, KeeperParts, MirrorKeeper
from controller.offsets.mirror_file.mirror_file import FILE_NAME
from controller.offsets.mirror_file.updates import MirrorUpdate, SetUpdate
from controller.offsets.mirror_file.waiting import WaitingChanges
from controller.offsets.storage.sqlite_file import FileProblem

WAIT_S = 60
BYTES_MAX = 1 << 30
DAY_MS = 24 * 3_600_000
KEY = EntryKey("t", "g")


class Site:
    """The mirrors of some sets, their keeper, and what it has reported."""

    def __init__(self, folder, bytes_max=BYTES_MAX):
        self.mirrors = {}
        self.log, self.rewinds = RegressionLog(), KeptRewinds()
        self.clock = FakeClock(unix_ms=BEGIN_MS)
        self.failures, self.failed_s, self.aside, self.set_back = [], [], [], []
        self.stores = self.began_without = 0
        self.late, self.leapt = [], []
        parts = KeeperParts(
            folder=folder,
            bytes_max=bytes_max,
            mirrors=self,
            regressions=self.log,
            rewinds=self.rewinds,
            opened_late=self.late.append,
            clock=self.clock,
            observer=self,
        )
        self.keeper = MirrorKeeper(parts)

    # The mirrors

    @property
    def set_names(self):
        return self.mirrors.keys()

    def mirror_of(self, set_name):
        return self.mirrors.get(set_name)

    def read(self, table, *, set_name=SET, **read):
        mirror = self.mirrors.setdefault(set_name, BrokerMirror(set_name))
        self.clock.pass_ms(5000)
        changes = mirror.take(a_reading(table, unix_ms=self.clock.unix_ms(), **read))
        for _ in self.rewinds.slices(changes):
            pass
        self.keeper.changed(changes)

    # The observer

    def loaded(self, *_):
        pass

    def moved_aside(self, error):
        self.aside.append(error)

    def stored(self, _file_bytes):
        self.stores += 1

    def began_without_file(self):
        self.began_without += 1

    def clock_leapt(self, leap_ms):
        self.leapt.append(leap_ms)

    def clock_set_back(self, sets):
        self.set_back.append(sets)

    def store_failed(self, error):
        self.failures.append(error)
        self.failed_s.append(asyncio.get_running_loop().time())


@pytest.fixture
async def site(tmp_path):
    site = Site(tmp_path)
    await site.keeper.open()
    yield site
    await site.keeper.close()


async def loaded(site, folder):
    """Return what the next process finds."""
    await site.keeper.close()
    site.keeper = MirrorKeeper(site.keeper._parts)  # the same ones
    return await site.keeper.open()


def offsets(saved):
    return {each.key: dict(each.offsets) for each in saved.entries() if each}


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.02)


async def run_until_clock_is_stored(site):
    """Let the keeper work until the file knows what time it is."""
    running = asyncio.create_task(site.keeper.run())
    await until(lambda: site.keeper._clock_stored_ms == site.clock.now_ms())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def is_thinned(site):
    return site.keeper._thinned_ms == site.clock.now_ms() and not site.keeper._to_thin


async def test_stop_stores_what_is_new(site, tmp_path):
    site.read({"t@g": {0: 5}})
    site.read({"t@g": {0: 6}}, log_max_offset=70)
    (found,) = (await loaded(site, tmp_path)).sets
    assert (offsets(found.saved), found.saved.read.log_max_offset) == ({KEY: {0: 6}}, 70)


async def test_changes_are_stored_within_a_second_and_standstill_is_not(site):
    running = asyncio.create_task(site.keeper.run())
    site.read({"t@g": {0: 5}})
    await until(lambda: site.stores == 1)
    site.mirrors[SET].take(a_reading({"t@g": {0: 5}}, unix_ms=site.clock.unix_ms() + 1))
    await site.keeper.store()
    assert site.stores == 1
    running.cancel()


async def test_end_of_a_log_is_stored_once_a_minute_where_offsets_stand_still(site, tmp_path):
    site.read({"t@g": {0: 5}}, log_max_offset=70)
    await site.keeper.store()
    site.mirrors[SET].take(a_reading({"t@g": {0: 5}}, unix_ms=site.clock.unix_ms() + 1, log_max_offset=90))
    site.clock.pass_ms(60_000)
    running = asyncio.create_task(site.keeper.run())
    await until(lambda: site.stores == 2)
    running.cancel()
    (found,) = (await loaded(site, tmp_path)).sets
    assert found.saved.read.log_max_offset == 90


async def test_file_that_was_removed_is_made_anew_with_everything(site, tmp_path):
    regression = Regression(
        queue=SetQueue(SET, KEY, 0),
        cause=RegressionCause.REWIND,
        unix_ms=5,
        from_offset=9,
        to_offset=5,
        former=a_read(),
        now=a_read(),
    )
    site.read({"t@g": {0: 9}, "u@g": {0: 1}})
    site.log.add(regression)
    site.keeper.went_back([regression])
    await site.keeper.store()
    (tmp_path / FILE_NAME).unlink()
    site.read({"t@g": {0: 5}, "u@g": {0: 1}})
    await site.keeper.store()
    assert FILE_NAME in site.failures[0]
    with pytest.raises(MirrorFileFailed, match="not open"):
        await site.keeper.at(SET, BEGIN_MS)
    running = asyncio.create_task(site.keeper.run())
    await until(lambda: (tmp_path / FILE_NAME).exists() and site.stores == 2)
    running.cancel()
    found = await loaded(site, tmp_path)
    assert offsets(found.sets[0].saved) == {KEY: {0: 5}, EntryKey("u", "g"): {0: 1}}
    assert found.regressions == [regression]
    assert found.rewinds == {SET: {(KEY, 0): 9}}


async def test_damage_that_a_write_meets_moves_the_file_aside_and_the_next_one_has_everything(site, tmp_path):
    site.read({"t@g": {0: 5}, "u@g": {0: 1}})
    await site.keeper.store()
    site.keeper._file._file.connection.execute("UPDATE offset_tables SET body = x'00'")  # as a disk does
    site.read({"t@g": {0: 6}, "u@g": {0: 1}})
    site.keeper._waiting.fall_behind([SET])
    await site.keeper.store()
    assert FILE_NAME in site.failures[0]
    running = asyncio.create_task(site.keeper.run())
    await until(lambda: site.stores == 2)
    running.cancel()
    assert FILE_NAME in site.aside[0]
    assert offsets((await loaded(site, tmp_path)).sets[0].saved) == {KEY: {0: 6}, EntryKey("u", "g"): {0: 1}}


async def test_what_a_stop_of_the_write_leaves_out_is_in_the_next_one(site, tmp_path):
    site.read({"t@g": {0: 5}})
    storing = asyncio.create_task(site.keeper.store())
    await asyncio.sleep(0)
    storing.cancel()
    await asyncio.gather(storing, return_exceptions=True)
    await site.keeper.store()
    assert site.stores == 1
    assert offsets((await loaded(site, tmp_path)).sets[0].saved) == {KEY: {0: 5}}


@pytest.mark.parametrize("is_stopped", [True, False])
async def test_rewinds_whose_write_was_stopped_or_failed_are_in_the_next_one(site, tmp_path, is_stopped):
    site.read({"t@g": {0: 9, 1: 4}})
    site.read({"t@g": {0: 5, 1: 2}})
    await site.keeper.store()
    site.read({"t@g": {0: 10, 1: 2}, "u@g": {0: 7}})
    site.read({"t@g": {0: 10, 1: 2}})
    connection = site.keeper._file._file.connection
    if not is_stopped:
        connection.execute("PRAGMA query_only = ON")  # as a disk that fails for a while
    storing = asyncio.create_task(site.keeper.store())
    await asyncio.sleep(0)
    if is_stopped:
        storing.cancel()
    await asyncio.gather(storing, return_exceptions=True)
    connection.execute("PRAGMA query_only = OFF")
    assert bool(site.failures) is not is_stopped
    await site.keeper.store()
    assert (await loaded(site, tmp_path)).rewinds == {SET: {(KEY, 1): 4, (EntryKey("u", "g"), 0): 7}}


async def test_moment_has_changes_that_were_not_stored_yet(site):
    site.read({"t@g": {0: 5}})
    await site.keeper.store()
    first_ms = site.clock.unix_ms()
    site.read({"t@g": {0: 6}})
    assert (await site.keeper.at(SET, first_ms)).by_entry == {KEY: {0: 5}}
    assert (await site.keeper.at(SET, first_ms + 5000)).by_entry == {KEY: {0: 6}}


async def test_clock_that_was_ahead_is_reported_with_the_sets_that_had_moments_to_come(site):
    begin_ms = site.clock.unix_ms()
    site.read({"t@g": {0: 5}})
    await site.keeper.store()
    for unix_ms, offset in ((begin_ms + 7_200_000, 6), (begin_ms + 60_000, 7)):
        site.keeper.changed(site.mirrors[SET].take(a_reading({"t@g": {0: offset}}, unix_ms=unix_ms)))
        await site.keeper.store()
    assert site.set_back == [1]
    assert (await site.keeper.at(SET, begin_ms + 30_000)).by_entry == {KEY: {0: 5}}


async def test_clock_that_leaps_by_weeks_costs_no_moment_also_after_a_restart(site, tmp_path, monkeypatch):
    monkeypatch.setattr("controller.offsets.mirror_file.keeper.STORE_S", 0.01)
    site.read({"t@g": {0: 5}})
    await site.keeper.store()
    first_ms = site.clock.unix_ms()
    site.read({"t@g": {0: 6}})
    await site.keeper.store()
    for number in (1, 2):
        running = asyncio.create_task(site.keeper.run())
        site.clock.leap_ms(30 * 24 * 3_600_000)
        site.clock.pass_ms(THIN_MS)
        site.read({"t@g": {0: site.clock.unix_ms()}})
        await until(lambda number=number: len(site.leapt) == number and is_thinned(site))
        running.cancel()
        assert (await site.keeper.at(SET, first_ms)).by_entry == {KEY: {0: 5}}
        assert site.keeper.age_ms(first_ms) < 24 * 3_600_000
        await loaded(site, tmp_path)


async def test_starts_without_a_reading_count_the_time_without_a_manager_once(site, tmp_path, monkeypatch):
    monkeypatch.setattr("controller.offsets.mirror_file.keeper.STORE_S", 0.01)
    site.read({"t@g": {0: 5}})
    first_ms = site.clock.unix_ms()
    await run_until_clock_is_stored(site)
    site.clock.pass_ms(20 * DAY_MS)
    for _ in range(3):
        # No broker answers, and the process is killed.
        await loaded(site, tmp_path)
        await run_until_clock_is_stored(site)
        site.clock.pass_ms(60_000)
    assert 180_000 <= site.keeper.age_ms(first_ms) < 300_000


async def test_time_in_which_brokers_do_not_answer_makes_moments_older(site, tmp_path, monkeypatch):
    monkeypatch.setattr("controller.offsets.mirror_file.keeper.STORE_S", 0.01)
    site.read({"t@g": {0: 5}})
    first_ms = site.clock.unix_ms()
    await run_until_clock_is_stored(site)
    site.clock.pass_ms(2 * DAY_MS)
    await run_until_clock_is_stored(site)
    await loaded(site, tmp_path)
    assert site.keeper.age_ms(first_ms) == 2 * DAY_MS


async def test_time_in_which_the_file_cannot_be_opened_makes_moments_older(site, tmp_path, monkeypatch):
    for name in ("STORE_S", "OPEN_S", "PAUSE_S"):
        monkeypatch.setattr(f"controller.offsets.mirror_file.keeper.{name}", 0.01)
    site.read({"t@g": {0: 5}})
    first_ms = site.clock.unix_ms()
    await run_until_clock_is_stored(site)
    holder, site.keeper = site.keeper, MirrorKeeper(site.keeper._parts)
    await site.keeper.open()
    site.clock.pass_ms(2 * DAY_MS)
    await holder.close()
    await run_until_clock_is_stored(site)
    assert site.keeper.age_ms(first_ms) == 2 * DAY_MS


async def test_folder_that_cannot_be_written_is_named_and_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr("controller.offsets.mirror_file.keeper.OPEN_S", 0.02)
    blocked = tmp_path / "store"
    blocked.write_text("no folder")
    site = Site(blocked)
    opening = asyncio.create_task(site.keeper.open())
    await until(lambda: len(site.failures) > 1)
    blocked.unlink()
    assert (await opening).sets == []
    await site.keeper.close()


async def test_start_goes_on_without_a_file_that_stays_locked_and_it_has_everything_later(tmp_path, monkeypatch):
    monkeypatch.setattr("controller.offsets.mirror_file.keeper.OPEN_S", 0.02)
    late = SetName("c", "late")
    earlier = FiledMirror(tmp_path, FakeClock())
    earlier.read({"t@g": {0: 4}, "u@g": {0: 1}})
    earlier.file.store(MirrorUpdate(sets={late: SetUpdate(saved=earlier.mirror.saved, changes=None)}))
    site = Site(tmp_path)
    async with asyncio.timeout(WAIT_S):
        assert list((await site.keeper.open()).sets) == []
    assert (site.began_without, "another process has it" in site.failures[0]) == (1, True)
    site.read({"t@g": {0: 5}})
    earlier.file.close()
    running = asyncio.create_task(site.keeper.run())
    await until(lambda: site.stores == 1)
    (found,) = site.late
    earlier_offsets = {KEY: {0: 4}, EntryKey("u", "g"): {0: 1}}
    assert [(each.set_name, offsets(each.saved)) for each in found.sets] == [
        (SET, earlier_offsets),
        (late, earlier_offsets),
    ]
    site.read({"t@g": {0: 6}}, set_name=late)
    await site.keeper.store()
    running.cancel()
    for name in (SET, late):
        assert (await site.keeper.at(name, BEGIN_MS)).by_entry == {KEY: {0: 4}, EntryKey("u", "g"): {0: 1}}
    found = {each.set_name: offsets(each.saved) for each in (await loaded(site, tmp_path)).sets}
    assert found == {SET: {KEY: {0: 5}}, late: {KEY: {0: 6}}}
    await site.keeper.close()


async def test_full_disk_is_tried_again_after_longer_and_longer_pauses_and_loses_nothing(site, tmp_path, monkeypatch):
    for name, seconds in (("STORE_S", 0.01), ("PAUSE_S", 0.05), ("PAUSE_MAX_S", 0.2)):
        monkeypatch.setattr(f"controller.offsets.mirror_file.keeper.{name}", seconds)
    connection = site.keeper._file._file.connection
    connection.execute("PRAGMA max_page_count = 1")
    table = {f"topic-{each}@g": {0: each} for each in range(5000)}
    site.read(table)
    running = asyncio.create_task(site.keeper.run())
    await until(lambda: len(site.failed_s) == 5)
    pauses = [after - before for before, after in itertools.pairwise(site.failed_s)]
    assert [pause >= least for pause, least in zip(pauses, (0.05, 0.1, 0.2, 0.2), strict=True)] == 4 * [True]
    assert "the disk is full" in site.failures[0]
    connection.execute(f"PRAGMA max_page_count = {1 << 30}")
    await until(lambda: site.stores)
    running.cancel()
    assert len((await loaded(site, tmp_path)).sets[0].saved) == len(table)


async def test_dropped_set_is_gone_and_what_waited_of_it_too(site, tmp_path):
    other = SetName("c", "other")
    for name in (SET, other):
        site.read({"t@g": {0: 5}}, set_name=name)
    await site.keeper.store()
    site.keeper.absent(other, 77)
    site.read({"t@g": {0: 6}}, set_name=other)
    del site.mirrors[other]
    site.keeper.drop(other)
    assert [each.set_name for each in (await loaded(site, tmp_path)).sets] == [SET]


async def test_former_runs_are_stored_and_their_settlement_too(site, tmp_path):
    site.read({"t@g": {0: 9}}, epoch=1)
    site.read({"t@g": {0: 5}}, epoch=2)
    (found,) = (await loaded(site, tmp_path)).sets
    assert [offsets(each) for each in found.former_runs] == [{KEY: {0: 9}}]
    site.mirrors[SET].settle(found.saved.read.run)
    site.keeper.settled(SET)
    (found,) = (await loaded(site, tmp_path)).sets
    assert found.former_runs == ()


def test_too_much_that_waits_is_found_by_comparison_instead(monkeypatch):
    monkeypatch.setattr(waiting_module, "WAITING_ENTRIES_MAX", 3)
    waiting, mirror = WaitingChanges(), BrokerMirror(SET)

    class Mirrors:
        def mirror_of(self, _):
            return mirror

    waiting.add(mirror.take(a_reading({"t@g": {0: 5}, "u@g": {0: 1}})))
    assert len(waiting.update(Mirrors()).sets[SET].changes) == 1
    waiting.add(mirror.take(a_reading({"t@g": {0: 6}, "u@g": {0: 2}}, unix_ms=6000)))
    waiting.add(mirror.take(a_reading({"t@g": {0: 7}, "u@g": {0: 2}}, unix_ms=7000)))
    assert waiting.update(Mirrors()).sets[SET].changes is None


async def test_moment_at_which_groups_stood_still_was_read_although_nothing_changed(site):
    site.read({"t@g": {0: 1}})
    await site.keeper.store()
    changed_ms = site.clock.unix_ms()
    for _ in range(6):
        site.read({"t@g": {0: 1}})
        await site.keeper.store()
    moment_ms = site.clock.unix_ms()
    site.clock.pass_ms(1000)

    past = await site.keeper.at(SET, moment_ms)
    early = await site.keeper.at(SET, changed_ms + 1)

    assert (past.unix_ms, early.unix_ms) == (moment_ms, changed_ms)


def failing(_update):
    raise FileProblem(Path(FILE_NAME), "the disk is full")


async def test_readings_that_the_file_could_not_take_prove_nothing_of_their_time(site, monkeypatch):
    site.read({"t@g": {0: 1}})
    await site.keeper.store()
    stored_ms = site.clock.unix_ms()
    with monkeypatch.context() as broken:
        broken.setattr(site.keeper._file, "store", failing)
        site.read({"t@g": {0: 2}})
        assert not await site.keeper.store()
        moment_ms = site.clock.unix_ms()
    site.read({"t@g": {0: 3}})
    await site.keeper.store()

    past = await site.keeper.at(SET, moment_ms)

    assert (past.unix_ms, dict(past.by_entry)) == (stored_ms, {KEY: {0: 1}})


async def test_set_that_fills_the_file_costs_no_other_one_its_moments_and_the_limit_holds_after_each_round(tmp_path):
    site, other, numbers = Site(tmp_path, bytes_max=400_000), SetName("c", "other"), random.Random(7)
    await site.keeper.open()
    # The oldest changes are those of the small set.
    for place in range(20):
        site.read({"t@g": {0: place}}, set_name=other)
        await site.keeper.store()
    kept_ms, used = site.keeper.kept_since(other), []
    for _ in range(12):
        for _ in range(6):
            site.read({f"topic-{each}@g": {0: numbers.randrange(1 << 60)} for each in range(1500)})
            await site.keeper.store()
        used.append(site.keeper._file.used_bytes())
        assert await site.keeper._round()
        assert site.keeper.kept_since(other) == kept_ms
        assert site.keeper._file.used_bytes() <= 400_000
    assert max(used) > 400_000
    assert (await site.keeper.at(other, kept_ms)).by_entry == {KEY: {0: 0}}
    await site.keeper.close()
