"""What the history may take of a disk: the oldest goes, file by file, and nothing that somebody writes."""

import fcntl
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from history.landing import SEAL_BYTES
from history.retention import QUIET_US, Forgotten, Room

AT = datetime(2026, 11, 21, 20, 30, tzinfo=UTC)
AT_US = int(AT.timestamp()) * 1_000_000
#: What the clock shows: everything was written two hours and more ago.
LATE_US = AT_US + QUIET_US
LEFT = ".other_9876-1-1.jsonl.part"


def a_file(folder, family="heartbeat", hour=20, name="host_9876-17-1.jsonl", *, date="2026-11-21", written_us=AT_US):
    """Write a file of 10 bytes."""
    path = folder / f"landing/v1/family={family}/date={date}/hour={hour}" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"123456789\n")
    os.utime(path, ns=(written_us * 1000, written_us * 1000))
    return path


def room(folder, bytes_max):
    return Room(folder, "host:9876-17", bytes_max)


def left_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_days_that_are_over_go(tmp_path):
    for family in ("heartbeat", "broker_state"):
        a_file(tmp_path, family)
    assert room(tmp_path, 100).forget_old(datetime(2026, 12, 22, tzinfo=UTC).date()) == Forgotten("age", 0, 0)
    assert len(left_in(tmp_path)) == 2
    gone = room(tmp_path, 100).forget_old(datetime(2026, 12, 23, tzinfo=UTC).date())
    assert gone == Forgotten("age", files=2, size_bytes=20)
    assert not list((tmp_path / "landing/v1").glob("family=*/date=*"))


def test_too_many_bytes_cost_the_oldest_beats_first_and_then_the_oldest_others(tmp_path):
    paths = [a_file(tmp_path, family, hour) for family in ("heartbeat", "broker_state") for hour in (19, 20, 21)]
    assert room(tmp_path, 60).make_room(AT.date(), LATE_US) == Forgotten("size", 0, 0)
    assert room(tmp_path, 40).make_room(AT.date(), LATE_US) == Forgotten("size", files=2, size_bytes=20)
    assert [path.exists() for path in paths] == [False, False, True, True, True, True]
    assert room(tmp_path, 20).make_room(AT.date(), LATE_US) == Forgotten("size", files=2, size_bytes=20)
    assert [path.exists() for path in paths] == [False, False, False, False, True, True]
    assert not paths[0].parent.exists()


def test_of_what_routes_are_made_of_whole_hours_go_snapshots_first_and_nothing_of_the_present_one(tmp_path):
    hours = [
        [a_file(tmp_path, family, hour, name) for name in ("host_9876-17-1.jsonl", "host_9876-17-2.jsonl")]
        for hour in (21, 22)
        for family in ("broker_state", "route_snapshot")
    ]
    assert room(tmp_path, 75).make_room(AT.date(), LATE_US) == Forgotten("size", files=2, size_bytes=20)
    assert [[path.exists() for path in paths] for paths in hours] == [[True] * 2, [False] * 2, [True] * 2, [True] * 2]
    assert room(tmp_path, 0).make_room(AT.date(), LATE_US) == Forgotten("size", files=2, size_bytes=20)
    assert [path.exists() for path in (*hours[2], *hours[3])] == [True] * 4


def test_that_a_process_started_is_given_up_before_what_happened_in_it(tmp_path):
    started, left = (a_file(tmp_path, family) for family in ("ns_lifecycle", "broker_state"))
    assert room(tmp_path, 15).make_room(AT.date(), LATE_US) == Forgotten("size", files=1, size_bytes=10)
    assert (started.exists(), left.exists()) == (False, True)


def test_what_a_wrong_clock_wrote_stays_and_takes_room_from_the_rest(tmp_path):
    of_today, to_come = (a_file(tmp_path, date=date) for date in ("2026-11-21", "2026-11-23"))
    assert room(tmp_path, 15).make_room(AT.date(), LATE_US) == Forgotten("size", files=1, size_bytes=10)
    assert (of_today.exists(), to_come.exists()) == (False, True)


def test_processes_that_make_room_at_once_delete_no_more_than_is_too_much(tmp_path, monkeypatch):
    for number in range(10, 30):
        a_file(tmp_path, name=f"host_9876-17-{number}.jsonl", written_us=AT_US + number)
    unlink = Path.unlink

    def unlink_after_another(path):
        unlink(path)
        unlink(path)

    monkeypatch.setattr(Path, "unlink", unlink_after_another)
    assert room(tmp_path, 100).make_room(AT.date(), LATE_US) == Forgotten("size", 0, 0)
    assert len(left_in(tmp_path)) == 10


def test_of_an_hour_the_oldest_files_go_and_the_others_stay(tmp_path):
    for number in (1, 2, 10):
        a_file(tmp_path, name=f"host_9876-17-{number}.jsonl", written_us=AT_US + number)
    growing = a_file(tmp_path, name=".host_9876-17-11.jsonl.part")
    assert room(tmp_path, 20).make_room(AT.date(), LATE_US) == Forgotten("size", files=2, size_bytes=20)
    assert left_in(tmp_path) == [growing.name, "host_9876-17-10.jsonl"]
    assert room(tmp_path, 0).make_room(AT.date(), LATE_US) == Forgotten("size", files=1, size_bytes=10)
    assert left_in(tmp_path) == [growing.name]


@pytest.mark.parametrize("name", [LEFT, f"{LEFT}.gz"])
def test_what_nobody_has_written_to_for_two_hours_goes(tmp_path, name):
    a_file(tmp_path, name=name)
    assert room(tmp_path, 0).make_room(AT.date(), LATE_US - 1) == Forgotten("size", 0, 0)
    assert room(tmp_path, 0).make_room(AT.date(), LATE_US) == Forgotten("size", files=1, size_bytes=10)


@pytest.mark.parametrize("names", [[LEFT], [LEFT, f"{LEFT}.gz"]])
def test_what_a_living_writer_has_locked_stays_however_long_it_waits(tmp_path, names):
    paths = [a_file(tmp_path, name=name) for name in names]
    with paths[0].open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert room(tmp_path, 0).make_room(AT.date(), LATE_US) == Forgotten("size", 0, 0)
    assert room(tmp_path, 0).make_room(AT.date(), LATE_US).files == len(names)


def test_where_locks_are_not_seen_only_time_tells_that_nobody_writes(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    a_file(tmp_path, name=LEFT)
    assert room(tmp_path, 0).make_room(AT.date(), LATE_US - 1).files == 0
    assert room(tmp_path, 0).make_room(AT.date(), LATE_US).files == 1


def test_a_small_disk_is_not_filled_with_history(tmp_path, monkeypatch):
    for hour in (20, 21, 22):
        a_file(tmp_path, hour=hour)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(total=40, used=30, free=10))
    assert room(tmp_path, 100).make_room(AT.date(), LATE_US) == Forgotten("size", files=1, size_bytes=10)


def test_what_is_of_a_day_to_come_or_no_folder_of_ours_is_left_alone(tmp_path):
    for date in ("2026-11-22", "of-nobody"):
        a_file(tmp_path, date=date)
    assert room(tmp_path, 0).make_room(AT.date(), LATE_US) == Forgotten("size", 0, 0)


def test_a_file_that_cannot_be_deleted_costs_the_next_one(tmp_path):
    stays = a_file(tmp_path, name="a")
    stays.unlink()
    stays.mkdir()
    a_file(tmp_path, name="b")
    assert room(tmp_path, 0).make_room(AT.date(), LATE_US) == Forgotten("size", files=1, size_bytes=10)
    assert stays.exists()


def test_it_is_looked_again_after_a_part_of_a_small_limit_and_a_file_of_a_large_one(tmp_path):
    assert room(tmp_path, 1600).bytes_between_looks == 100
    assert room(tmp_path, 1 << 62).bytes_between_looks == SEAL_BYTES
