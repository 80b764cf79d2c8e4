"""The `rmq-analytics` command: what it says to wrong options, and the whole way from landing to a result."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from landed import DAY, a_heartbeat, heartbeats, land, stored_ids

from analytics.__main__ import FAILED, INTERRUPTED, NOT_INSTALLED, WRONG_OPTIONS, main
from analytics.cli.options import WrongOptions, limits, periods, require_history, require_stored, settings, window
from analytics.cli.session import spark_settings
from analytics.engine.registry import MODULES, UnknownJob, job_id, load_jobs
from analytics.shared.days import DAY_US, date_at, span_of
from analytics.spark.storage import HadoopStorage

PROJECT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def same_time_zone_afterwards(monkeypatch):
    """`main` makes UTC the zone of its process, which here is that of the tests."""
    monkeypatch.setenv("TZ", os.environ.get("TZ", "UTC"))
    yield
    monkeypatch.undo()
    time.tzset()


def test_an_unknown_job_is_answered_with_the_known_ones(tmp_path, capsys):
    land(tmp_path, heartbeats([1]))
    assert main(["run", "--history", str(tmp_path), "--job", "A99"]) == WRONG_OPTIONS
    errors = capsys.readouterr().err
    assert "unknown job A99" in errors
    assert all(f"{known} ({module})" in errors for known, module in MODULES.items())


def test_jobs_are_known_by_id_and_by_name():
    assert [job_id(given) for given in ("A5", "a5", "timeout_recommendation", "timeout-recommendation")] == ["A5"] * 4
    with pytest.raises(UnknownJob):
        job_id("A17")


def test_every_analysis_is_found_under_its_id():
    found = {job.id: job.name for job in load_jobs()}
    assert found == dict(MODULES)


def test_analyses_that_share_parts_make_the_same_ones():
    jobs = {job.id: job for job in load_jobs()}
    assert {job.id: job.parts_id for job in jobs.values() if job.parts_id} == {"A3": "A1", "A14": "A1"}
    for job in jobs.values():
        owner = jobs[job.parts_id or job.id]
        assert (job.parts_of, job.inputs, job.part_columns) == (owner.parts_of, owner.inputs, owner.part_columns)


@pytest.mark.parametrize("command", ["ingest", "stream", "compact"])
def test_a_history_folder_that_is_not_there_is_named(tmp_path, capsys, command):
    assert main([command, "--history", str(tmp_path / "nowhere")]) == WRONG_OPTIONS
    assert f"no history folder {tmp_path / 'nowhere'}" in capsys.readouterr().err


def test_default_history_folder_is_that_of_make_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["ingest"]) == WRONG_OPTIONS
    assert f"no history folder {tmp_path / 'rocketmq-history'}" in capsys.readouterr().err
    assert main(["report"]) == WRONG_OPTIONS
    assert f"no results in {tmp_path / 'rocketmq-history'}" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan"])
def test_streams_poll_once_a_second_at_most(capsys, seconds):
    with pytest.raises(SystemExit) as ended:
        main(["stream", "--every", seconds])
    assert ended.value.code == WRONG_OPTIONS
    assert f"'{seconds}' is no time: write seconds, at least 1" in capsys.readouterr().err


def test_folder_without_a_history_is_distinguished_from_a_missing_one(tmp_path, capsys):
    assert main(["ingest", "--history", str(tmp_path)]) == WRONG_OPTIONS
    assert f"{tmp_path} has no landing/v1" in capsys.readouterr().err


def test_run_without_a_stored_history_names_the_command_to_run_first(tmp_path, capsys):
    land(tmp_path, heartbeats([1]))
    for folder in (tmp_path, tmp_path / "nowhere"):
        assert main(["run", "--history", str(folder)]) == WRONG_OPTIONS
        assert f"nothing stored yet in {folder}: run `rmq-analytics ingest` first" in capsys.readouterr().err


def test_folders_that_only_hadoop_reaches_are_checked_too(spark, tmp_path):
    root = f"file://{tmp_path}"
    empty, nowhere = HadoopStorage(root, spark), HadoopStorage(f"{root}/nowhere", spark)
    with pytest.raises(WrongOptions, match="no history folder hdfs://h/nowhere"):
        require_history(nowhere, "hdfs://h/nowhere")
    with pytest.raises(WrongOptions, match="hdfs://h has no landing/v1"):
        require_history(empty, "hdfs://h")
    with pytest.raises(WrongOptions, match="nothing stored yet in hdfs://h"):
        require_stored(empty, "hdfs://h")


def test_a_report_is_made_of_a_folder_of_this_machine_with_whole_results(tmp_path, capsys):
    assert main(["report", "--history", "hdfs://h/out"]) == WRONG_OPTIONS
    assert "report reads a folder of this machine" in capsys.readouterr().err
    torn = tmp_path / "results/latest/flapping.json"
    torn.parent.mkdir(parents=True)
    torn.write_bytes(b'{"version": 1,')
    assert main(["report", "--output", str(tmp_path), "--file", str(tmp_path / "report.html")]) == FAILED
    assert f"failed: {torn} cannot be read" in capsys.readouterr().err


def test_missing_java_is_reported_with_what_to_install(tmp_path, capsys, monkeypatch):
    land(tmp_path, heartbeats([1]))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert main(["ingest", "--history", str(tmp_path)]) == NOT_INSTALLED
    assert "install a JDK 17" in capsys.readouterr().err


def test_help_needs_neither_java_nor_pyspark(tmp_path):
    """As where the servers are installed without the extra: PySpark cannot be imported."""
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text("import sys\nsys.modules['pyspark'] = None\n")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{PROJECT}"}
    command = [sys.executable, "-m", "analytics"]
    helped = subprocess.run([*command, "-h"], env=env, capture_output=True, text=True, check=False)
    assert helped.returncode == 0
    assert all(word in helped.stdout for word in ("ingest", "stream", "run", "compact", "report"))
    refused = subprocess.run([*command, "ingest"], env=env, capture_output=True, text=True, check=False)
    assert refused.returncode == NOT_INSTALLED
    assert f"{sys.executable} -m pip install --editable '.[analytics]'" in refused.stderr


def test_process_exits_at_once_at_a_stop_signal_whatever_its_threads_do(tmp_path):
    """The task of the test's own waits for ever, and so does a thread of it."""
    (tmp_path / "waiting.py").write_text(
        "import os, signal, threading\n"
        "def wait(options):\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    threading.Event().wait()\n"
    )
    program = (
        "from analytics import __main__ as command\n"
        "command.TASKS = (command.Task('wait', 'wait', lambda parser: None, 'waiting'),)\n"
        "command.main(['wait'])\n"
    )
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{PROJECT}"}
    words = [sys.executable, "-c", program]
    left = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert (left.returncode, "interrupted" in left.stderr) == (INTERRUPTED, True)


def test_a_window_is_thirty_whole_days_and_today_by_default():
    midnight = span_of(DAY).start_us
    assert window(None, None, midnight + 5) == (midnight - 30 * DAY_US, midnight + 5)
    assert window("2026-03-01", f"{DAY}T06:00:00Z", 0) == (midnight - DAY_US, midnight + DAY_US // 4)
    assert window("2026-03-01T23:00:00-01:00", DAY + "T01:00", 0) == (midnight, midnight + DAY_US // 24)


@pytest.mark.parametrize(("start", "end", "why"), [("soon", None, "--from soon is not a time"), (DAY, DAY, "is empty")])
def test_a_window_that_makes_no_sense_is_refused(start, end, why):
    with pytest.raises(WrongOptions, match=why):
        window(start, end, span_of(DAY).end_us)


def test_limits_of_resources_are_checked():
    known = ("connections", "resident_memory_bytes")
    assert limits(["resident_memory_bytes=5", "connections=7", "connections=8"], known) == {
        "resident_memory_bytes": 5,
        "connections": 8,
    }
    for wrong in ("resident_memory_bytes", "resident_memory_bytes=2Gi", "resident_memory_bytes=0", "disk=5"):
        with pytest.raises(
            WrongOptions, match=f"--limit {wrong} is no limit: .* resources are connections, resident_memory_bytes"
        ):
            limits([wrong], known)


def test_periods_of_brokers_are_checked():
    intervals = ["register=60000", "broker-a/heartbeat=500", "a/b/register=10000"]
    assert periods(intervals) == {
        (None, "register"): 60_000,
        ("broker-a", "heartbeat"): 500,
        ("a/b", "register"): 10_000,
    }
    for wrong in ("60000", "register", "register=0", "register=1s", "beats=5", "broker-a=500"):
        with pytest.raises(WrongOptions, match=f"--period {wrong} is no period: .* kinds are register, heartbeat"):
            periods([wrong])


def test_settings_of_spark_are_checked():
    assert settings(["spark.a=b=c"]) == {"spark.a": "b=c"}
    with pytest.raises(WrongOptions, match="--conf colour=red is not a setting"):
        settings(["colour=red"])


def test_settings_on_which_results_depend_are_fixed_and_options_of_java_are_added(tmp_path, capsys):
    land(tmp_path, heartbeats([1]))
    fixed = "spark.sql.ansi.enabled=false"
    assert main(["ingest", "--history", str(tmp_path), "--conf", fixed]) == WRONG_OPTIONS
    assert f"--conf {fixed}: it is fixed at true, results would differ" in capsys.readouterr().err
    conf = {"spark.sql.ansi.enabled": "true", "spark.executor.extraJavaOptions": "-XX:+UseZGC"}
    intervals = spark_settings(conf=conf)
    assert intervals["spark.executor.extraJavaOptions"] == "-XX:+UseZGC -Duser.timezone=UTC"
    assert intervals["spark.driver.extraJavaOptions"].endswith("-Duser.timezone=UTC")


def test_java_is_tuned_for_one_machine_unless_somebody_else_did_it(monkeypatch):
    monkeypatch.delenv("JDK_JAVA_OPTIONS", raising=False)
    driver = "spark.driver.extraJavaOptions"
    assert "UseParallelGC" in spark_settings()[driver]
    assert "TieredStopAtLevel=1" in spark_settings(small=True)[driver]
    assert spark_settings("spark://127.0.0.1:7077")[driver] == "-Duser.timezone=UTC"
    assert spark_settings(conf={driver: "-XX:+UseZGC"})[driver] == "-XX:+UseZGC -Duser.timezone=UTC"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    assert spark_settings()[driver] == "-Duser.timezone=UTC"


def test_from_landing_to_a_result_by_commands(spark, tmp_path, capsys):
    history, output = tmp_path / "history", tmp_path / "output"
    for hour in range(3):
        rows = [
            a_heartbeat(number + 120 * hour, at=f"{DAY}T{hour:02}:{number // 2:02}:{number % 2 * 30:02}Z")
            for number in range(120)
        ]
        land(history, rows, hour=f"{hour:02}")
    folders = ["--history", str(history), "--output", str(output)]
    assert main(["ingest", *folders]) == 0
    assert "heartbeat: 3 hours from 3 files: 360 rows, 0 duplicates, 0 unreadable lines" in capsys.readouterr().err
    assert len(stored_ids(spark, output)) == 360
    assert main(["run", *folders, "--job", "A2", "--from", DAY, "--to", "2026-03-03"]) == 0
    assert "1/1 A2 heartbeat_gaps" in capsys.readouterr().err
    latest = json.loads((output / "results/latest/heartbeat_gaps.json").read_bytes())
    assert latest["input_rows"] == 360
    assert not (history / "curated").exists()


def test_update_goes_from_landing_to_the_report_and_names_what_failed(spark, tmp_path, capsys):
    land(tmp_path, heartbeats(range(3)))
    (tmp_path / "curated/v1/_manifest/family=ns_tick").mkdir(parents=True)
    (tmp_path / f"curated/v1/_manifest/family=ns_tick/date={DAY}.json").write_bytes(b"{")
    assert main(["update", "--history", str(tmp_path), "--job", "A16", "--from", DAY, "--to", "2026-03-03"]) == FAILED
    errors = capsys.readouterr().err
    assert "heartbeat: 1 hours from 1 files: 3 rows" in errors
    assert "1/1 A16 read_again: 0 rows of 0 recorded ones" in errors
    assert "failed: ingest ns_tick: curated/v1/_manifest/family=ns_tick" in errors
    assert (tmp_path / "report.html").exists()


def test_what_spark_cannot_read_ends_with_a_sentence_and_keeps_nobody_from_deleting_what_is_old(
    spark, tmp_path, capsys
):
    day = "2020-03-02"
    land(tmp_path, heartbeats(range(3), at=f"{day}T05:00:00Z"), date=day)
    assert main(["ingest", "--history", str(tmp_path)]) == 0
    (stored,) = tmp_path.glob("curated/v1/family=heartbeat/date=*/hour=*/*.parquet")
    stored.write_bytes(b"not Parquet")
    capsys.readouterr()
    assert main(["run", "--history", str(tmp_path), "--job", "A2", "--from", day, "--to", "2020-03-03"]) == FAILED
    assert "rmq-analytics: failed:" in capsys.readouterr().err
    lately = date_at(time.time_ns() // 1000 - 3 * DAY_US)
    torn = tmp_path / "parts/v1/_manifest/A2.json"
    torn.parent.mkdir(parents=True, exist_ok=True)
    torn.write_bytes(b"{")
    land(tmp_path, heartbeats(range(3, 6), at=f"{lately}T05:00:00Z"), date=lately)
    assert main(["ingest", "--history", str(tmp_path)]) == 0
    assert main(["compact", "--history", str(tmp_path)]) == FAILED
    assert "parts of A2: parts/v1/_manifest/A2.json cannot be read" in capsys.readouterr().err
    assert not stored.exists()
    assert [path.parent.name for path in tmp_path.glob(f"curated/v1/*/date={lately}/*/*.parquet")] == ["hour=all"]
