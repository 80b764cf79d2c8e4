"""What the history may take of a disk: the oldest goes, file by file, and nothing that somebody writes."""

import fcntl
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from history.landing import SEAL_BYTES
from history.retention import QUIET_US, DeletedFiles, Retention

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


def retention(folder, bytes_max):
    return Retention(folder, "host:9876-17", bytes_max)


def left_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_expired_days_are_deleted(tmp_path):
    for family in ("heartbeat", "broker_state"):
        a_file(tmp_path, family)
    assert retention(tmp_path, 100).delete_old(datetime(2026, 12, 22, tzinfo=UTC).date()) == DeletedFiles("age", 0, 0)
    assert len(left_in(tmp_path)) == 2
    gone = retention(tmp_path, 100).delete_old(datetime(2026, 12, 23, tzinfo=UTC).date())
    assert gone == DeletedFiles("age", files=2, size_bytes=20)
    assert not list((tmp_path / "landing/v1").glob("family=*/date=*"))


def test_size_limit_deletes_oldest_heartbeats_first_then_oldest_others(tmp_path):
    paths = [a_file(tmp_path, family, hour) for family in ("heartbeat", "broker_state") for hour in (19, 20, 21)]
    assert retention(tmp_path, 60).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", 0, 0)
    assert retention(tmp_path, 40).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", files=2, size_bytes=20)
    assert [path.exists() for path in paths] == [False, False, True, True, True, True]
    assert retention(tmp_path, 20).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", files=2, size_bytes=20)
    assert [path.exists() for path in paths] == [False, False, False, False, True, True]
    assert not paths[0].parent.exists()


def test_route_families_are_deleted_by_whole_past_hours_snapshots_first(tmp_path):
    hours = [
        [a_file(tmp_path, family, hour, name) for name in ("host_9876-17-1.jsonl", "host_9876-17-2.jsonl")]
        for hour in (21, 22)
        for family in ("broker_state", "route_snapshot")
    ]
    assert retention(tmp_path, 75).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", files=2, size_bytes=20)
    assert [[path.exists() for path in paths] for paths in hours] == [[True] * 2, [False] * 2, [True] * 2, [True] * 2]
    assert retention(tmp_path, 0).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", files=2, size_bytes=20)
    assert [path.exists() for path in (*hours[2], *hours[3])] == [True] * 4


def test_lifecycle_rows_are_deleted_before_the_rest_of_their_hour(tmp_path):
    started, left = (a_file(tmp_path, family) for family in ("ns_lifecycle", "broker_state"))
    assert retention(tmp_path, 15).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", files=1, size_bytes=10)
    assert (started.exists(), left.exists()) == (False, True)


def test_files_of_days_to_come_are_kept_but_count(tmp_path):
    of_today, to_come = (a_file(tmp_path, date=date) for date in ("2026-11-21", "2026-11-23"))
    assert retention(tmp_path, 15).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", files=1, size_bytes=10)
    assert (of_today.exists(), to_come.exists()) == (False, True)


def test_concurrent_processes_delete_no_more_than_the_excess(tmp_path, monkeypatch):
    for number in range(10, 30):
        a_file(tmp_path, name=f"host_9876-17-{number}.jsonl", written_us=AT_US + number)
    unlink = Path.unlink

    def unlink_after_another(path):
        unlink(path)
        unlink(path)

    monkeypatch.setattr(Path, "unlink", unlink_after_another)
    assert retention(tmp_path, 100).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", 0, 0)
    assert len(left_in(tmp_path)) == 10


def test_oldest_files_of_an_hour_are_deleted_first(tmp_path):
    for number in (1, 2, 10):
        a_file(tmp_path, name=f"host_9876-17-{number}.jsonl", written_us=AT_US + number)
    growing = a_file(tmp_path, name=".host_9876-17-11.jsonl.part")
    assert retention(tmp_path, 20).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", files=2, size_bytes=20)
    assert left_in(tmp_path) == [growing.name, "host_9876-17-10.jsonl"]
    assert retention(tmp_path, 0).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", files=1, size_bytes=10)
    assert left_in(tmp_path) == [growing.name]


@pytest.mark.parametrize("name", [LEFT, f"{LEFT}.gz"])
def test_part_file_unwritten_for_two_hours_is_deleted(tmp_path, name):
    a_file(tmp_path, name=name)
    assert retention(tmp_path, 0).enforce_size(AT.date(), LATE_US - 1) == DeletedFiles("size", 0, 0)
    assert retention(tmp_path, 0).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", files=1, size_bytes=10)


@pytest.mark.parametrize("names", [[LEFT], [LEFT, f"{LEFT}.gz"]])
def test_file_locked_by_a_running_writer_is_kept(tmp_path, names):
    paths = [a_file(tmp_path, name=name) for name in names]
    with paths[0].open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert retention(tmp_path, 0).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", 0, 0)
    assert retention(tmp_path, 0).enforce_size(AT.date(), LATE_US).files == len(names)


def test_part_file_without_visible_locks_is_deleted_by_its_age(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    a_file(tmp_path, name=LEFT)
    assert retention(tmp_path, 0).enforce_size(AT.date(), LATE_US - 1).files == 0
    assert retention(tmp_path, 0).enforce_size(AT.date(), LATE_US).files == 1


def test_history_takes_at_most_half_of_the_disk(tmp_path, monkeypatch):
    for hour in (20, 21, 22):
        a_file(tmp_path, hour=hour)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(total=40, used=30, free=10))
    assert retention(tmp_path, 100).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", files=1, size_bytes=10)


def test_days_to_come_and_foreign_folders_are_left_alone(tmp_path):
    for date in ("2026-11-22", "of-nobody"):
        a_file(tmp_path, date=date)
    assert retention(tmp_path, 0).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", 0, 0)


def test_undeletable_file_leads_to_deletion_of_the_next(tmp_path):
    stays = a_file(tmp_path, name="a")
    stays.unlink()
    stays.mkdir()
    a_file(tmp_path, name="b")
    assert retention(tmp_path, 0).enforce_size(AT.date(), LATE_US) == DeletedFiles("size", files=1, size_bytes=10)
    assert stays.exists()


def test_size_is_checked_after_a_sixteenth_of_the_limit_or_one_file(tmp_path):
    assert retention(tmp_path, 1600).bytes_between_checks == 100
    assert retention(tmp_path, 1 << 62).bytes_between_checks == SEAL_BYTES
