"""From landing files to stored rows: each event once, whatever was delivered, in whatever order."""

import json
import random
import shutil
from datetime import UTC, datetime

import pytest
from landed import (
    DAY,
    a_heartbeat,
    as_lines,
    every_file,
    heartbeats,
    ingest_all,
    land,
    places_at,
    seen_by_anybody,
    silent,
    stored_ids,
    stored_rows,
)

from analytics.ingest.ingest import ingest
from analytics.ingest.manifest import CorruptLine, load_days
from analytics.spark.failures import SomeFailed
from analytics.spark.storage import LocalStorage
from history.schemas import FAMILIES, HEARTBEAT, SCHEMA_VERSION


def ids(numbers, server="ns-1"):
    return sorted(f"{server}-1-{number}" for number in numbers)


def day_of(root, family="heartbeat", date=DAY):
    return load_days(LocalStorage(root), family)[date]


def test_a_landed_row_is_stored_as_it_was_written(spark, tmp_path):
    land(tmp_path, [a_heartbeat(1, at=f"{DAY}T05:59:59.123456Z", dv_counter=7)])
    ingest_all(spark, tmp_path)
    (row,) = stored_rows(spark, tmp_path)
    kept = {name: value for name, value in row.items() if value is not None}
    assert kept == a_heartbeat(1, dv_counter=7) | {"event_time": kept["event_time"]}
    assert kept["event_time"].astimezone(UTC) == datetime(2026, 3, 2, 5, 59, 59, 123456, UTC)


def test_an_event_that_is_delivered_again_under_another_name_counts_once(spark, tmp_path):
    land(tmp_path, heartbeats(range(10)), name="a.jsonl")
    land(tmp_path, heartbeats(range(10)), name="a-again.jsonl")
    land(tmp_path, heartbeats(range(5, 15)), name="b.jsonl")
    done = ingest_all(spark, tmp_path)
    assert stored_ids(spark, tmp_path) == ids(range(15))
    assert (done.lines, done.rows, done.duplicates, done.corrupt_lines) == (30, 15, 15, 0)


def test_running_again_reads_nothing_and_leaves_every_file_as_it_was(spark, tmp_path):
    land(tmp_path, heartbeats(range(10)))
    ingest_all(spark, tmp_path)
    before = every_file(tmp_path)
    assert ingest_all(spark, tmp_path).files == 0
    assert every_file(tmp_path) == before


def test_a_late_file_is_read_into_its_hour_and_other_hours_are_left_alone(spark, tmp_path):
    land(tmp_path, heartbeats(range(3)), name="a.jsonl")
    land(tmp_path, heartbeats(range(10, 13), at=f"{DAY}T06:00:00Z"), hour="06")
    ingest_all(spark, tmp_path)
    six = day_of(tmp_path).hours["06"]
    land(tmp_path, heartbeats(range(3, 6)), name="late.jsonl")
    done = ingest_all(spark, tmp_path)
    assert done.hours == 1
    assert stored_ids(spark, tmp_path) == seen_by_anybody(spark, tmp_path) == ids([*range(6), *range(10, 13)])
    assert day_of(tmp_path).hours["06"] == six


def test_a_file_that_was_mended_since_is_read_again(spark, tmp_path):
    path = land(tmp_path, as_lines(heartbeats(range(3)))[:-40])
    assert ingest_all(spark, tmp_path).corrupt_lines == 1
    assert stored_ids(spark, tmp_path) == ids(range(2))
    path.write_bytes(as_lines(heartbeats(range(4))))
    ingest_all(spark, tmp_path)
    assert stored_ids(spark, tmp_path) == seen_by_anybody(spark, tmp_path) == ids(range(4))
    assert day_of(tmp_path).hours["05"].corrupt_lines == 0


def test_lines_that_are_torn_or_no_events_are_counted_and_shown_with_their_file(spark, tmp_path):
    good = as_lines(heartbeats(range(2)))
    bad = [
        as_lines([a_heartbeat(8)])[:70],
        b"\0" * 50,
        b'{"event_id": "x", \xff\xfe}',
        json.dumps(a_heartbeat(9, interval_ms="soon")).encode(),
        json.dumps(a_heartbeat(10, event_id=None)).encode(),
        json.dumps(a_heartbeat(11, at="yesterday")).encode(),
        b"12",
    ]
    land(tmp_path, good + b"\n".join(bad) + b"\n\n" + as_lines([a_heartbeat(2)]), name="torn.jsonl")
    done = ingest_all(spark, tmp_path)
    hour = day_of(tmp_path).hours["05"]
    assert stored_ids(spark, tmp_path) == ids(range(3))
    assert (done.lines, done.corrupt_lines, hour.corrupt_lines) == (10, 7, 7)
    assert {line.file for line in hour.corrupt} == {"torn.jsonl"}
    assert sum("soon" in line.line for line in hour.corrupt) == 1
    assert sum('"kind":"register"' in line.line for line in hour.corrupt) == 1


@pytest.fixture
def adaptive(spark):
    """Spark plans each stage anew, as it does wherever nobody turns that off."""
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield
    spark.conf.set("spark.sql.adaptive.enabled", "false")


@pytest.mark.usefixtures("adaptive")
def test_very_long_and_very_many_unreadable_lines_do_not_fill_the_manifest(spark, tmp_path):
    """Nothing can be read, and then Spark leaves out most of what it has planned."""
    land(tmp_path, b"x" * 100_000 + b"\n" + b"torn\n" * 500)
    ingest_all(spark, tmp_path)
    hour = day_of(tmp_path).hours["05"]
    assert hour.corrupt_lines == 501
    assert len(hour.corrupt) == 100
    assert max(len(line.line) for line in hour.corrupt) <= 1000
    late = land(tmp_path, b"torn\n" * 3, name="late.jsonl")
    (tmp_path / "landing/v1/family=heartbeat" / f"date={DAY}" / "hour=05" / "ns-1-1-1.jsonl").unlink()
    done = ingest_all(spark, tmp_path)
    assert (done.lines, done.corrupt_lines, done.rows, late.exists()) == (3, 3, 0, True)


@pytest.fixture
def many_ids(spark):
    """What is stored has more events than Spark sends to all of its workers."""
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)


def bytes_read(spark):
    """What this process has read of all files by now."""
    return sum(each.getBytesRead() for each in spark._jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics())


@pytest.mark.usefixtures("adaptive", "many_ids")
def test_a_late_file_of_which_no_line_can_be_read_is_counted_with_two_readings_of_it(spark, tmp_path):
    """Spark finds no rows to compare with those that are stored, and tells nothing of what it has seen."""
    first = land(tmp_path, heartbeats(range(3)), name="a.jsonl")
    ingest_all(spark, tmp_path)
    first.unlink()
    late = land(tmp_path, b"torn\n" * 40_000 + as_lines(heartbeats(range(3), interval_ms="soon")), name="late.jsonl")
    before = bytes_read(spark)
    done = ingest_all(spark, tmp_path)
    readings = (bytes_read(spark) - before) / late.stat().st_size
    hour = day_of(tmp_path).hours["05"]
    assert (done.lines, done.corrupt_lines, done.rows) == (40_003, 40_003, 0)
    assert (hour.rows, hour.corrupt_lines, len(hour.corrupt)) == (3, 40_003, 100)
    assert readings == pytest.approx(2, abs=0.5), "for its rows, and for its lines"


def test_files_being_written_and_hidden_ones_are_not_read(spark, tmp_path):
    land(tmp_path, heartbeats(range(2)), name=".ns-1-1-2.jsonl.part")
    land(tmp_path, heartbeats(range(2, 4)), name="ns-1-1-3.jsonl.part")
    land(tmp_path, heartbeats(range(4, 6)), name=".ns-1-1-4.jsonl")
    land(tmp_path, heartbeats(range(6, 8)), name="notes.txt")
    land(tmp_path, heartbeats(range(8, 9)))
    assert ingest_all(spark, tmp_path).files == 1
    assert stored_ids(spark, tmp_path) == ids([8])


def test_an_empty_file_and_an_empty_family_are_nothing_to_stop_at(spark, tmp_path):
    land(tmp_path, b"")
    assert ingest_all(spark, tmp_path, families=["heartbeat", "scaling"]).rows == 0
    assert ingest_all(spark, tmp_path).files == 0


def test_compressed_snapshots_are_read_up_to_where_they_are_cut_off(spark, tmp_path):
    rows = [a_heartbeat(number, event_type="queues", topics=["T"] * 50) for number in range(2000)]
    land(tmp_path, rows[:5], family="route_snapshot", name="whole.jsonl.gz")
    cut = land(tmp_path, rows[5:], family="route_snapshot", name="cut.jsonl.gz")
    cut.write_bytes(cut.read_bytes()[:-200])
    done = ingest_all(spark, tmp_path, families=["route_snapshot"])
    stored = stored_ids(spark, tmp_path, "route_snapshot")
    assert set(ids(range(5))) <= set(stored)
    assert 5 < done.rows < 2000
    hour = day_of(tmp_path, "route_snapshot").hours["05"]
    assert hour.corrupt == (CorruptLine("cut.jsonl.gz", "cut off"),)
    assert (done.corrupt_lines, hour.corrupt_lines, done.duplicates) == (1, 1, 0)


def test_old_and_new_versions_stand_beside_each_other(spark, tmp_path):
    old = {key: value for key, value in a_heartbeat(1).items() if key not in {"timeout_ms", "mono_us", "source"}}
    newer = a_heartbeat(2, schema_version=9, event_type="beat_of_tomorrow", mood="good", depth={"a": [1]})
    land(tmp_path, [old, newer, a_heartbeat(3)])
    messages = []
    done = ingest(places_at(spark, tmp_path), messages.append, [HEARTBEAT])
    assert messages[1:] == [f"heartbeat: rows of schema version 9, newer than {SCHEMA_VERSION}: upgrade rmq-analytics"]
    first, second, third = stored_rows(spark, tmp_path)
    assert done.corrupt_lines == 0
    assert (first["timeout_ms"], third["timeout_ms"]) == (None, 120_000)
    assert (second["event_type"], second["schema_version"]) == ("beat_of_tomorrow", 9)
    assert "mood" not in second


def test_stored_files_that_lack_a_newer_column_are_read_with_nulls(spark, tmp_path):
    land(tmp_path, heartbeats(range(3)))
    ingest_all(spark, tmp_path)
    for path in day_of(tmp_path).parquet_files:
        narrow = spark.read.parquet(str(tmp_path / path)).drop("epoch", "max_offset", "kind").coalesce(1)
        narrow.write.parquet(str(tmp_path / "narrow"))
        (written,) = (tmp_path / "narrow").glob("*.parquet")
        (tmp_path / path).with_name(f".{(tmp_path / path).name}.crc").unlink()
        written.replace(tmp_path / path)
    assert [row["kind"] for row in stored_rows(spark, tmp_path)] == [None] * 3


def test_rows_of_one_hour_are_sorted_by_broker_server_and_time(spark, tmp_path):
    rows = heartbeats(range(40)) + heartbeats(range(40), server="ns-2")
    random.Random(1).shuffle(rows)
    land(tmp_path, rows)
    ingest_all(spark, tmp_path)
    (path,) = day_of(tmp_path).parquet_files
    keys = [
        (row.broker_name, row.broker_id, row.ns_id, row.event_time, row.event_id)
        for row in spark.read.parquet(str(tmp_path / path)).collect()
    ]
    assert keys == sorted(keys)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_and_the_cut_of_files_make_no_difference(spark, tmp_path, seed):
    rows = heartbeats(range(60))
    land(tmp_path / "whole", rows)
    chance = random.Random(seed)
    chance.shuffle(rows)
    for part in range(7):
        land(tmp_path / "parts", rows[part::7] + chance.sample(rows, 5), name=f"{chance.random()}.jsonl")
    for root in ("whole", "parts"):
        ingest_all(spark, tmp_path / root)
    whole, parts = (day_of(tmp_path / root).hours["05"] for root in ("whole", "parts"))
    assert stored_rows(spark, tmp_path / "parts") == stored_rows(spark, tmp_path / "whole")
    assert (parts.rows, parts.digest) == (whole.rows, whole.digest)


def test_what_comes_after_its_landing_files_were_deleted_is_added(spark, tmp_path):
    first = land(tmp_path, heartbeats(range(5)), name="a.jsonl")
    ingest_all(spark, tmp_path)
    before = day_of(tmp_path).hours["05"]
    first.unlink()
    assert ingest_all(spark, tmp_path).files == 0
    land(tmp_path, heartbeats(range(3, 8)), name="late.jsonl")
    done = ingest_all(spark, tmp_path)
    after = day_of(tmp_path).hours["05"]
    assert stored_ids(spark, tmp_path) == seen_by_anybody(spark, tmp_path) == ids(range(8))
    assert (done.rows, after.rows) == (3, 8)
    assert after.digest != before.digest
    assert {file.name for file in after.files} == {"a.jsonl", "late.jsonl"}


def test_landing_and_storage_may_be_different_folders(spark, tmp_path):
    land(tmp_path / "servers", heartbeats(range(3)))
    before = every_file(tmp_path / "servers")
    ingest_all(spark, tmp_path / "servers", stored=tmp_path / "lake")
    assert stored_ids(spark, tmp_path / "lake") == ids(range(3))
    assert every_file(tmp_path / "servers") == before


class DeletesWhatItLists(LocalStorage):
    """Storage of a server whose disk is full: its oldest file goes as soon as somebody has seen it."""

    def files(self, folder):
        found = super().files(folder)
        if len(found) > 1:
            self.delete(found[0].path)
        return found


def test_what_is_deleted_before_it_is_read_keeps_nobody_from_the_rest(spark, tmp_path):
    land(tmp_path, heartbeats(range(3)), name="a.jsonl")
    land(tmp_path, heartbeats(range(3, 5)), name="b.jsonl")
    places = places_at(spark, tmp_path)._replace(landing=DeletesWhatItLists(tmp_path))
    done = ingest(places, silent, [HEARTBEAT])
    assert (done.files, stored_ids(spark, tmp_path)) == (1, ids([3, 4]))


def test_a_family_that_cannot_be_read_is_named_and_the_others_are_stored(spark, tmp_path):
    """Stored rows that are none, a file that the disk does not give, and a manifest that was torn."""
    first = land(tmp_path, heartbeats(range(3)), name="a.jsonl")
    ingest_all(spark, tmp_path)
    (tmp_path / day_of(tmp_path).parquet_files[0]).write_bytes(b"not Parquet")
    first.unlink()
    land(tmp_path, heartbeats(range(3, 5)), name="b.jsonl")
    looping = land(tmp_path, b"", family="broker_state")
    looping.unlink()
    looping.symlink_to(looping.name)
    torn = tmp_path / f"curated/v1/_manifest/family=scaling/date={DAY}.json"
    torn.parent.mkdir()
    torn.write_bytes(b'{"hours": {')
    land(tmp_path, heartbeats([1]), family="ns_tick")
    messages = []
    families = [FAMILIES[name] for name in ("heartbeat", "broker_state", "scaling", "ns_tick")]
    with pytest.raises(SomeFailed) as caught:
        ingest(places_at(spark, tmp_path), messages.append, families)
    assert list(caught.value.why) == ["heartbeat", "broker_state", "scaling"]
    assert str(torn.relative_to(tmp_path)) in caught.value.why["scaling"]
    assert messages[:3] == ["heartbeat: failed", "broker_state: failed", "scaling: failed"]
    assert stored_ids(spark, tmp_path, "ns_tick") == ids([1])


class DiesAt(LocalStorage):
    """Storage of a process that is killed just before its n-th change of a file."""

    def __init__(self, root, number):
        super().__init__(root)
        self.left = number

    def write(self, path, content):
        self.step()
        super().write(path, content)

    def delete(self, path):
        self.step()
        super().delete(path)

    def step(self):
        self.left -= 1
        if self.left < 0:
            raise KilledError


class KilledError(Exception):
    pass


def test_readers_see_old_or_new_hours_after_an_ingest_is_killed_and_the_next_one_repairs(spark, tmp_path):
    """Two hours are there; a late file for one and a first one for a third hour come, and each step may be the last."""
    wanted = ids([*range(6), *range(10, 13)])
    land(tmp_path / "before", heartbeats(range(3)), name="a.jsonl")
    ingest_all(spark, tmp_path / "before")
    for number in range(12):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "before", root)
        land(root, heartbeats(range(3, 6)), name="late.jsonl")
        land(root, heartbeats(range(10, 13), at=f"{DAY}T23:00:00Z"), date="2026-03-03", hour="00")
        storage = DiesAt(root, number)
        try:
            ingest(places_at(spark, root)._replace(stored=storage), silent, [HEARTBEAT])
        except KilledError:
            died = True
        else:
            died = False
        # An hour is what it was or what it shall be, at every moment.
        half = stored_ids(spark, root)
        assert half in (ids(range(3)), ids(range(6)), wanted)
        ingest_all(spark, root)
        assert stored_ids(spark, root) == seen_by_anybody(spark, root) == wanted
        if not died:
            break
    assert not died, "every step was tried"
    assert number > 3


def test_what_a_killed_spark_left_in_the_folders_is_swept_away(spark, tmp_path):
    land(tmp_path, heartbeats(range(3)))
    family = tmp_path / "curated/v1/family=heartbeat"
    with pytest.raises(KilledError):
        ingest(places_at(spark, tmp_path)._replace(stored=DiesAt(tmp_path, 1)), silent, [HEARTBEAT])
    assert len(list(family.rglob("part-*.parquet"))) == 1, "the first ingest wrote rows, and no manifest"
    ingest_all(spark, tmp_path)
    (named,) = (family / f"date={DAY}/hour=05").glob("part-*.parquet")
    stray = named.with_name("part-00000-of-a-run-that-died.parquet")
    stray.write_bytes(named.read_bytes())
    (family / "_temporary/0/task").mkdir(parents=True)
    (family / "_temporary/0/task/half.parquet").write_bytes(b"PAR1")
    assert stored_ids(spark, tmp_path) == ids(range(3))
    ingest_all(spark, tmp_path)
    assert not stray.exists()
    assert not (family / "_temporary").exists()
    assert seen_by_anybody(spark, tmp_path) == ids(range(3))


def test_where_the_manifests_were_lost_nothing_is_taken_for_what_a_killed_run_left(spark, tmp_path):
    land(tmp_path, heartbeats(range(3)))
    ingest_all(spark, tmp_path)
    shutil.rmtree(tmp_path / "curated/v1/_manifest")
    before = every_file(tmp_path)
    with pytest.raises(SomeFailed, match=r"curated/v1/_manifest/family=heartbeat is gone"):
        ingest_all(spark, tmp_path)
    assert every_file(tmp_path) == before


def test_every_family_is_ingested(spark, tmp_path):
    for name, family in FAMILIES.items():
        kind = next(iter(family.event_types))
        land(tmp_path, [a_heartbeat(1, event_type=kind)], family=name)
    ingest_all(spark, tmp_path, families=FAMILIES)
    for name in FAMILIES:
        assert stored_ids(spark, tmp_path, name) == ids([1])
