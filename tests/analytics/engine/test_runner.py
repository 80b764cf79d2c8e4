"""Parts of days, kept and made again, and the results that are published of them."""

import json
import shutil
import threading
from datetime import UTC, datetime, timedelta

import pytest
from landed import a_heartbeat, every_file, heartbeats, ingest_all, land, places_at, silent
from pyspark.sql import functions as F

from analytics.engine.parts import parts_of
from analytics.engine.publication import LatestRun, latest_path
from analytics.engine.retention import delete_expired
from analytics.engine.runner import Run, run_jobs
from analytics.ingest.compaction import compact
from analytics.ingest.ingest import Places, ingest
from analytics.ingest.manifest import load_days, save_day
from analytics.shared.days import DAY_US, HOUR_US, span_of
from analytics.shared.job import RESULT_COLUMNS, Job, Span
from analytics.spark.failures import SomeFailed
from analytics.spark.storage import HadoopStorage, LocalStorage
from history.columns import Column, Type
from history.schemas import HEARTBEAT

FIRST = "2026-03-02"
CLUSTER = Column("cluster", Type.STRING, "cluster of the broker")
BROKER = Column("broker_name", Type.STRING, "broker set")
COUNT = Column("beats", Type.LONG, "beats of the span")
EARLIER = Column("earlier", Type.STRINGS, "events before the span that the job was given")


def counted(inputs, span):
    """Parts: beats of the span by broker, and which rows from before the span were there."""
    at_us = F.unix_micros("event_time")
    of_span = (at_us >= span.start_us) & (at_us < span.end_us)
    earlier = F.sort_array(F.collect_list(F.when(at_us < span.start_us, F.col("event_id"))))
    rows = inputs["heartbeat"].groupBy("cluster", "broker_name")
    return rows.agg(F.count_if(of_span).alias("beats"), earlier.alias("earlier"))


def added_up(parts, span):
    assert isinstance(span, Span)
    rows = parts.groupBy("cluster", "broker_name")
    totals = rows.agg(
        F.sum("beats").alias("beats"), F.sort_array(F.flatten(F.collect_list("earlier"))).alias("earlier")
    )
    return totals.orderBy(F.desc("broker_name"))


HEARTBEATS = Job(
    id="A2",
    name="beats",
    question="How many beats came?",
    inputs=("heartbeat",),
    parts_of=counted,
    result_of=added_up,
    part_columns=(CLUSTER, BROKER, COUNT, EARLIER),
    columns=(BROKER, COUNT, EARLIER),
    order=("beats DESC NULLS LAST",),
)


def at(hours, microseconds=0):
    """A moment, in hours since the first midnight."""
    moment = datetime.fromisoformat(FIRST).replace(tzinfo=UTC) + timedelta(hours=hours, microseconds=microseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


def heartbeat_at(root, number, hours, **more):
    """Land one beat in the hour where it belongs."""
    moment = at(hours)
    land(root, [a_heartbeat(number, at=moment, **more)], name=f"{number}.jsonl", date=moment[:10], hour=moment[11:13])


def window(first_hour, end_hour):
    start = span_of(FIRST).start_us
    return Span(start + int(first_hour * HOUR_US), start + int(end_hour * HOUR_US))


def run(spark, root, span, *, jobs=(HEARTBEATS,), raw=False, run_id="r"):
    return run_jobs(spark, LocalStorage(root), jobs, Run(run_id, span, raw), silent)


def outcome_of(root, job=HEARTBEATS):
    return json.loads((root / latest_path(job)).read_bytes())


def heartbeats_of(root):
    return {row["broker_name"]: row["beats"] for row in outcome_of(root)["rows"]}


def by_broker(root):
    return {row["broker_name"]: (row["beats"], row["earlier"]) for row in outcome_of(root)["rows"]}


def kept(root):
    return parts_of(LocalStorage(root), HEARTBEATS.id).load()


@pytest.fixture(scope="module")
def prepared(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("prepared")
    for number in range(72):
        heartbeat_at(root, number, number, broker_name="rare" if number == 0 else "often")
    ingest_all(spark, root)
    run(spark, root, window(0, 72))
    return root


@pytest.fixture
def three_days(prepared, tmp_path):
    """One beat an hour over three days, all of one broker set, but for the first, which is of another one.

    It was ingested, and analysed once.
    """
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_a_result_is_published_to_latest_json_and_parquet(spark, three_days):
    (latest,) = run(spark, three_days, window(0, 72), run_id="2026-03-05T00:00:00Z")
    file = outcome_of(three_days)
    assert isinstance(latest, LatestRun)
    assert (file["job"], file["name"], file["run_id"], file["version"]) == ("A2", "beats", "2026-03-05T00:00:00Z", 1)
    assert (file["window_start"], file["window_end"]) == ("2026-03-02T00:00:00.000000Z", "2026-03-05T00:00:00.000000Z")
    assert [column["name"] for column in file["columns"]] == [
        each.name for each in (*RESULT_COLUMNS, *HEARTBEATS.columns)
    ]
    assert (file["row_count"], file["days"]) == (2, 3)
    assert file["input_rows"] >= 72
    assert [row["broker_name"] for row in file["rows"]] == ["often", "rare"]
    assert file["rows"][0]["window_start"] == "2026-03-02T00:00:00.000000Z"
    assert {name: row[0] for name, row in by_broker(three_days).items()} == {"rare": 1, "often": 71}
    table = spark.read.parquet(f"{three_days}/results/v1/job=A2")
    assert [row.beats for row in table.collect()] == [71, 1]
    assert table.schema["window_start"].dataType.simpleString() == "timestamp"


def test_a_later_result_takes_the_place_of_the_one_before(spark, three_days):
    run(spark, three_days, window(24, 48), run_id="second")
    rows = spark.read.parquet(f"{three_days}/results/v1/job=A2").collect()
    assert {row.run_id for row in rows} == {outcome_of(three_days)["run_id"]} == {"second"}
    assert by_broker(three_days)["often"][0] == 24


def left_by_a_killed_run(root):
    """Put a file among the parts that no manifest counts."""
    stray = root / "parts/v1/job=A2/date=2025-01-01/part-of-a-run-that-died.parquet"
    stray.parent.mkdir()
    stray.write_bytes(b"PAR1")
    return stray


def test_kept_parts_are_not_made_again(spark, three_days):
    first = kept(three_days)
    before = every_file(three_days / "parts")
    left_by_a_killed_run(three_days)
    run(spark, three_days, window(0, 72))
    assert set(first) == {"2026-03-02", "2026-03-03", "2026-03-04"}
    assert every_file(three_days / "parts") == before


def test_where_the_manifest_of_parts_was_lost_they_are_not_taken_for_what_a_killed_run_left(spark, three_days):
    (three_days / "parts/v1/_manifest/A2.json").unlink()
    before = every_file(three_days / "parts")
    with pytest.raises(SomeFailed, match=r"parts/v1/_manifest/A2\.json is gone"):
        run(spark, three_days, window(0, 72))
    assert every_file(three_days / "parts") == before


def test_a_manifest_of_parts_that_was_torn_is_named(spark, three_days):
    (three_days / "parts/v1/_manifest/A2.json").write_bytes(b"{")
    with pytest.raises(SomeFailed, match=r"parts/v1/_manifest/A2\.json cannot be read"):
        run(spark, three_days, window(0, 72))


def test_late_rows_recompute_the_parts_of_their_day_and_of_days_that_depend_on_it(spark, three_days):
    first = kept(three_days)
    heartbeat_at(three_days, 100, 30.5)
    ingest_all(spark, three_days)
    run(spark, three_days, window(0, 72))
    second = kept(three_days)
    assert {date for date in second if second[date] != first[date]} == {"2026-03-03", "2026-03-04"}
    assert by_broker(three_days)["broker-1"][0] == 1
    assert sum(row[0] for row in by_broker(three_days).values()) == 73


def test_late_rows_that_no_later_day_depends_on_recompute_one_day(spark, three_days):
    first = kept(three_days)
    heartbeat_at(three_days, 100, 30.5, broker_name="often")
    ingest_all(spark, three_days)
    run(spark, three_days, window(0, 72))
    second = kept(three_days)
    assert {date for date in second if second[date] != first[date]} == {"2026-03-03"}


def test_a_window_that_moves_on_remakes_nothing(spark, three_days):
    first = kept(three_days)
    run(spark, three_days, window(24, 80))
    run(spark, three_days, window(-24, 50))
    assert kept(three_days) == first


def test_another_analysis_of_the_same_name_remakes_its_parts(spark, three_days):
    first = kept(three_days)
    wider = HEARTBEATS._replace(
        parts_of=lambda inputs, span: counted(inputs, span).withColumn("more", F.lit(1)),
        part_columns=(*HEARTBEATS.part_columns, Column("more", Type.LONG, "one more")),
    )
    run(spark, three_days, window(0, 24), jobs=[wider])
    assert kept(three_days)["2026-03-02"].recipe != first["2026-03-02"].recipe


def test_parts_get_the_hour_before_and_the_last_row_of_each_broker_before_that(spark, three_days):
    run(spark, three_days, window(48, 72))
    earlier = by_broker(three_days)
    assert earlier["rare"] == (0, ["ns-1-1-0"])
    assert earlier["often"][1][-1] == "ns-1-1-47"
    assert len(earlier["often"][1]) <= 2


def test_a_window_may_begin_and_end_within_days(spark, three_days):
    before = every_file(three_days / "parts")
    run(spark, three_days, window(5.5, 60.5))
    assert sum(row[0] for row in by_broker(three_days).values()) == 55
    assert every_file(three_days / "parts") == before
    assert by_broker(three_days)["rare"][1].count("ns-1-1-0") >= 1


def test_raw_runs_agree_with_kept_parts_and_leave_them_alone(spark, three_days):
    from_parts = heartbeats_of(three_days)
    before = every_file(three_days / "parts")
    run(spark, three_days, window(0, 72), raw=True)
    assert heartbeats_of(three_days) == from_parts
    # Three days at once have nothing before them.
    assert by_broker(three_days)["often"] == (71, [])
    assert every_file(three_days / "parts") == before


def test_rows_just_after_midnight_in_a_file_of_the_evening_belong_to_their_own_day(spark, tmp_path):
    rows = [a_heartbeat(1, at=at(23.99)), a_heartbeat(2, at=at(24)), a_heartbeat(3, at=at(24, -1))]
    land(tmp_path, rows, date=FIRST, hour="23")
    heartbeat_at(tmp_path, 4, 30)
    ingest_all(spark, tmp_path)
    run(spark, tmp_path, window(0, 24))
    assert sum(row[0] for row in by_broker(tmp_path).values()) == 2
    run(spark, tmp_path, window(24, 48))
    assert sum(row[0] for row in by_broker(tmp_path).values()) == 2


def test_days_without_any_rows_have_no_parts_and_an_empty_history_an_empty_result(spark, tmp_path):
    run(spark, tmp_path, window(0, 48))
    assert kept(tmp_path) == {}
    assert (outcome_of(tmp_path)["row_count"], outcome_of(tmp_path)["rows"], outcome_of(tmp_path)["days"]) == (0, [], 0)


@pytest.mark.parametrize("column", ["no_such_column", "bigint(assert_true(false, 'no_such_column'))"])
def test_a_job_that_fails_is_named_and_the_others_are_published(spark, three_days, column):
    """It cannot be planned, or its work goes wrong; another one has no disk."""
    broken = HEARTBEATS._replace(
        id="A9", name="broken", parts_of=lambda inputs, span: counted(inputs, span).withColumn("beats", F.expr(column))
    )

    def no_disk(inputs, span):
        raise OSError("no space left")

    without_disk = HEARTBEATS._replace(id="A8", name="without_disk", parts_of=no_disk)
    with pytest.raises(SomeFailed, match=r"A8: no space left; A9.*no_such_column"):
        run(spark, three_days, window(0, 24), jobs=[without_disk, broken, HEARTBEATS])
    assert outcome_of(three_days)["row_count"] == 2
    assert not (three_days / latest_path(broken)).exists()


def test_who_is_interrupted_does_not_wait_for_jobs_that_are_at_work(spark, three_days):
    started, go_on = threading.Event(), threading.Event()

    def breaks(inputs, span):
        assert started.wait(timeout=60)
        raise OSError("broken")

    def waits(inputs, span):
        started.set()
        assert go_on.wait(timeout=60)
        raise OSError("nobody waits for this")

    def interrupted(line):
        raise KeyboardInterrupt

    jobs = [HEARTBEATS._replace(id=name, name=name, parts_of=parts) for name, parts in (("A8", breaks), ("A9", waits))]
    try:
        with pytest.raises(KeyboardInterrupt):
            run_jobs(spark, LocalStorage(three_days), jobs, Run("r", window(0, 24)), interrupted)
        assert started.is_set()
        assert any(thread.name.startswith("ThreadPoolExecutor") for thread in threading.enumerate())
    finally:
        go_on.set()


def test_compaction_that_would_lose_rows_fails_and_deletes_nothing(spark, three_days):
    storage = LocalStorage(three_days)
    day = load_days(storage, "heartbeat")[FIRST]
    one_more = day.hours["05"]
    save_day(storage, "heartbeat", FIRST, day.with_hours({"05": type(one_more)(rows=2, digest=one_more.digest)}, {}))
    before = every_file(three_days)
    with pytest.raises(SomeFailed, match="has 25 rows, and compacted 24"):
        compact(places_at(spark, three_days), span_of(FIRST).end_us + DAY_US + 1, silent)
    assert before.items() <= every_file(three_days).items()


@pytest.mark.broad
def test_all_of_it_is_done_where_only_hadoop_reaches_too(spark, three_days):
    heartbeat_at(three_days, 100, 30.5)
    there = HadoopStorage(f"file://{three_days}", spark)
    places = Places(spark, there, there)
    assert ingest(places, silent, [HEARTBEAT]).rows == 2, "those of its hour"
    assert ingest(places, silent, [HEARTBEAT]).files == 0
    assert delete_expired(places, a_day_after(2), silent).landing_files == 24
    assert compact(places, a_day_after(3), silent) == 3
    run_jobs(spark, there, [HEARTBEATS], Run("there", window(0, 72)), silent)
    assert outcome_of(three_days)["run_id"] == "there"
    assert sum(row[0] for row in by_broker(three_days).values()) == 73


def test_compaction_makes_one_file_of_a_day_and_changes_no_result(spark, three_days):
    # The second day looks back on the first one.
    run(spark, three_days, window(24, 48), raw=True)
    before, first = by_broker(three_days), kept(three_days)
    assert before["rare"] == (0, ["ns-1-1-0"])
    noon_of_the_fifth_day = span_of(FIRST).start_us + int(4.5 * DAY_US)
    places = places_at(spark, three_days)
    assert compact(places, noon_of_the_fifth_day, silent) == 3
    assert len(list(three_days.glob("curated/v1/family=heartbeat/date=*/hour=*/*.parquet"))) == 3
    assert compact(places, noon_of_the_fifth_day, silent) == 0
    run(spark, three_days, window(24, 48), raw=True)
    assert by_broker(three_days) == before
    run(spark, three_days, window(0, 72))
    assert kept(three_days) == first


def test_what_comes_late_for_a_compacted_day_is_added_and_compacted_again(spark, three_days):
    places = places_at(spark, three_days)
    now_us = span_of(FIRST).start_us + 5 * DAY_US
    compact(places, now_us, silent)
    land(
        three_days,
        [*heartbeats(range(3, 5), at=at(3)), a_heartbeat(200, at=at(3.5))],
        name="late.jsonl",
        date=FIRST,
        hour="03",
    )
    done = ingest_all(spark, three_days)
    assert (done.rows, done.duplicates) == (1, 2)
    run(spark, three_days, window(0, 72))
    assert sum(row[0] for row in by_broker(three_days).values()) == 73
    assert compact(places, now_us, silent) == 1
    run(spark, three_days, window(0, 72), raw=True)
    assert sum(row[0] for row in by_broker(three_days).values()) == 73


def a_day_after(days):
    return span_of(FIRST).end_us + days * DAY_US


def test_old_landing_files_go_when_they_are_read_and_others_stay(spark, three_days):
    land(three_days, heartbeats([300], at=at(2)), name="unread.jsonl", date=FIRST, hour="02")
    unsealed = land(three_days, b"", name=".ns-1-1-9.jsonl.part", date=FIRST, hour="04")
    done = delete_expired(places_at(spark, three_days), a_day_after(2), silent)
    left = {path.name for path in three_days.glob(f"landing/v1/family=heartbeat/date={FIRST}/hour=*/*")}
    assert done.landing_files == 24
    assert left == {"unread.jsonl", unsealed.name}
    assert len(list(three_days.glob("landing/v1/family=heartbeat/date=2026-03-03/hour=*/*"))) == 24
    assert ingest_all(spark, three_days).rows == 1


def test_old_rows_go_and_the_parts_of_their_day_stay(spark, three_days):
    before, first = by_broker(three_days), kept(three_days)
    delete_expired(places_at(spark, three_days), a_day_after(31), silent)
    assert not (three_days / f"curated/v1/family=heartbeat/date={FIRST}").exists()
    run(spark, three_days, window(0, 72))
    assert (by_broker(three_days), kept(three_days)) == (before, first)
    # What comes now is too late; it is not taken for a day that has only this.
    land(three_days, heartbeats([300], at=at(2)), name="too-late.jsonl", date=FIRST, hour="02")
    assert ingest_all(spark, three_days).files == 0


def test_torn_manifests_keep_nothing_else_from_being_compacted_and_forgotten(spark, three_days):
    for hour in ("00", "01"):
        land(three_days, [a_heartbeat(int(hour), at=at(int(hour)))], family="ns_tick", date=FIRST, hour=hour)
    ingest_all(spark, three_days, families=["ns_tick"])
    of_family, of_parts = f"curated/v1/_manifest/family=heartbeat/date={FIRST}.json", "parts/v1/_manifest/A2.json"
    for path in (of_family, of_parts):
        (three_days / path).write_bytes(b"{")
    kept_folders = [
        three_days / path for path in ("curated/v1/family=heartbeat", "landing/v1/family=heartbeat", "parts")
    ]
    before = [every_file(folder) for folder in kept_folders]
    places = places_at(spark, three_days)
    with pytest.raises(SomeFailed, match=rf"^heartbeat: {of_family} cannot be read"):
        compact(places, a_day_after(2), silent)
    assert {path.parent.name for path in three_days.glob("curated/v1/family=ns_tick/*/*/*.parquet")} == {"hour=all"}
    with pytest.raises(
        SomeFailed, match=rf"^heartbeat: {of_family} cannot be read.*; parts of A2: {of_parts} cannot be read"
    ):
        delete_expired(places, a_day_after(401), silent)
    assert not (three_days / f"curated/v1/family=ns_tick/date={FIRST}").exists()
    assert [every_file(folder) for folder in kept_folders] == before


def test_parts_are_kept_for_four_hundred_days(spark, three_days):
    stray = left_by_a_killed_run(three_days)
    delete_expired(places_at(spark, three_days), a_day_after(400), silent)
    assert not stray.exists()
    assert set(kept(three_days)) == {"2026-03-03", "2026-03-04"}
    assert not (three_days / f"parts/v1/job=A2/date={FIRST}").exists()
