"""Which landing files have to be read, and how: decided without Spark."""

import gzip

from analytics.ingest.landing import HourWork, How, batches, by_hour, landing_path, pieces, unpacks, work_to_do
from analytics.ingest.manifest import WHOLE_DAY, Day, Hour, LandedFile, strays
from analytics.spark.storage import StoredFile

DATE = "2026-03-02"


def a_file(name="a.jsonl", size=10, modified_ms=1):
    return LandedFile(name, size, modified_ms)


def a_day(*files, hour="05", stored=("05",), deleted=False):
    return {
        DATE: Day(
            hours={hour: Hour(files=files, rows=1)},
            stored={unit: (f"{unit}.parquet",) for unit in stored},
            deleted=deleted,
        )
    }


def landed(*files, hour="05"):
    return {(DATE, hour): list(files)}


def test_files_are_known_by_their_day_and_hour_and_others_are_passed_over():
    good = landing_path("heartbeat", DATE, "05", "ns-1-1-1.jsonl")
    packed = landing_path("heartbeat", DATE, "23", "ns-1-1-1.jsonl.gz")
    strange = [
        landing_path("heartbeat", DATE, "24", "a.jsonl"),
        landing_path("heartbeat", "yesterday", "05", "a.jsonl"),
        landing_path("heartbeat", DATE, "05", "a.json"),
        landing_path("heartbeat", DATE, "05", "a.jsonl.part"),
        landing_path("heartbeat", DATE, "05", "sub/a.jsonl"),
        "landing/v1/family=heartbeat/a.jsonl",
    ]
    found = by_hour(StoredFile(path, 10, 1) for path in (good, packed, *strange))
    assert found == {(DATE, "05"): [a_file("ns-1-1-1.jsonl")], (DATE, "23"): [a_file("ns-1-1-1.jsonl.gz")]}


def test_an_hour_that_was_never_read_is_built_of_all_its_files():
    (work,) = work_to_do(landed(a_file("b.jsonl"), a_file()), {})
    assert work == HourWork(DATE, "05", How.REBUILD, (a_file(), a_file("b.jsonl")))
    assert work.size == 20


def test_an_hour_whose_files_are_all_known_is_left_alone():
    assert work_to_do(landed(a_file()), a_day(a_file(), a_file("gone.jsonl"))) == []
    assert work_to_do({}, a_day(a_file())) == []


def test_a_new_or_changed_file_has_its_hour_built_again():
    days = a_day(a_file())
    assert work_to_do(landed(a_file(), a_file("b.jsonl")), days)[0].how is How.REBUILD
    assert work_to_do(landed(a_file(size=11)), days)[0].files == (a_file(size=11),)
    assert work_to_do(landed(a_file(modified_ms=2)), days)[0].how is How.REBUILD


def test_where_files_are_gone_or_the_day_is_compacted_only_new_ones_are_read():
    new = a_file("new.jsonl")
    (work,) = work_to_do(landed(new), a_day(a_file()))
    assert work == HourWork(DATE, "05", How.ADD, (new,))
    (work,) = work_to_do(landed(a_file(), new), a_day(a_file(), stored=(WHOLE_DAY,)))
    assert work == HourWork(DATE, "05", How.ADD, (new,))
    (work,) = work_to_do(landed(new, hour="07"), a_day(a_file(), stored=(WHOLE_DAY,)))
    assert work.how is How.ADD


def test_a_file_that_is_shorter_than_it_was_takes_no_stored_rows_away():
    """Of a restore that broke off; when it is whole again, its hour is built again."""
    shorter, new = a_file(size=9), a_file("new.jsonl")
    assert work_to_do(landed(shorter, new), a_day(a_file())) == [HourWork(DATE, "05", How.ADD, (shorter, new))]
    (work,) = work_to_do(landed(a_file(), new), a_day(shorter, new))
    assert (work.how, work.files) == (How.REBUILD, (a_file(), new))


def test_a_compressed_file_is_whole_or_not():
    whole = gzip.compress(b"line\n" * 10_000)
    assert unpacks(whole)
    assert unpacks(whole + gzip.compress(b"more\n"))
    flipped = whole[:40] + bytes([whole[40] ^ 0xFF]) + whole[41:]
    assert not any(unpacks(bad) for bad in (whole[:-1], whole[: len(whole) // 2], flipped, b"line\n"))


def test_nothing_is_read_for_a_day_that_was_forgotten():
    assert work_to_do(landed(a_file()), a_day(deleted=True)) == []


def test_batches_hold_hours_of_one_kind_and_are_not_too_large():
    def hours(*kinds):
        return [HourWork(DATE, f"{number:02}", how, (a_file(size=size),)) for number, (how, size) in enumerate(kinds)]

    rebuild, add = How.REBUILD, How.ADD
    work = hours((rebuild, 40), (rebuild, 60), (rebuild, 1), (add, 1), (add, 500), (rebuild, 1))
    sizes = [[hour.size for hour in batch] for batch in batches(work, bytes_max=100)]
    assert sizes == [[40, 60], [1], [1], [500], [1]]
    assert list(batches([])) == []


def test_very_large_hours_are_written_in_pieces():
    assert pieces([HourWork(DATE, "05", How.REBUILD, (a_file(),))]) == 1
    large = HourWork(DATE, "06", How.REBUILD, (a_file(size=3 * 1024**3),))
    assert pieces([HourWork(DATE, "05", How.REBUILD, (a_file(),)), large]) == 7


def test_files_that_no_manifest_names_are_strays():
    files = [StoredFile("05.parquet", 1, 1), StoredFile("left-behind.parquet", 1, 1)]
    assert strays(files, a_day(a_file())) == ["left-behind.parquet"]


def test_emptied_day_has_its_number_of_rows_and_no_files():
    day = a_day(a_file())[DATE].emptied()
    assert (day.deleted, day.rows, day.parquet_files, day.hours["05"].files) == (True, 1, (), ())
