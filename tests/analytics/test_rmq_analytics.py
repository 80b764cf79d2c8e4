"""The `rmq-analytics` command: what it says to wrong options, and the whole way from landing to a result."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from landed import DAY, a_beat, beats, land, stored_ids

from analytics.__main__ import FAILED, NOT_INSTALLED, WRONG_OPTIONS, main
from analytics.days import DAY_US, span_of
from analytics.jobs import MODULES, UnknownJob, job_id, load_jobs
from analytics.options import WrongOptions, settings, window

PROJECT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def same_time_zone_afterwards(monkeypatch):
    """`main` makes UTC the zone of its process, which here is that of the tests."""
    monkeypatch.setenv("TZ", os.environ.get("TZ", "UTC"))
    yield
    monkeypatch.undo()
    time.tzset()


def test_an_unknown_job_is_answered_with_the_known_ones(tmp_path, capsys):
    land(tmp_path, beats([1]))
    assert main(["run", "--history", str(tmp_path), "--job", "A99"]) == WRONG_OPTIONS
    said = capsys.readouterr().err
    assert "unknown job A99" in said
    assert all(f"{known} ({module})" in said for known, module in MODULES.items())


def test_jobs_are_known_by_id_and_by_name():
    assert [job_id(asked) for asked in ("A5", "a5", "best_timeout", "best-timeout")] == ["A5"] * 4
    with pytest.raises(UnknownJob):
        job_id("A15")


def test_every_analysis_is_found_under_its_id():
    found = {job.id: job.name for job in load_jobs()}
    assert found == dict(MODULES)


@pytest.mark.parametrize("command", ["ingest", "stream", "compact"])
def test_a_history_folder_that_is_not_there_is_named(tmp_path, capsys, command):
    assert main([command, "--history", str(tmp_path / "nowhere")]) == WRONG_OPTIONS
    assert f"no history folder {tmp_path / 'nowhere'}" in capsys.readouterr().err


def test_a_folder_that_is_no_history_is_told_from_one_that_is_missing(tmp_path, capsys):
    assert main(["ingest", "--history", str(tmp_path)]) == WRONG_OPTIONS
    assert f"{tmp_path} has no landing/v1" in capsys.readouterr().err


def test_a_run_without_a_stored_history_says_what_to_do_first(tmp_path, capsys):
    assert main(["run", "--history", str(tmp_path / "nowhere")]) == WRONG_OPTIONS
    assert "rmq-analytics ingest" in capsys.readouterr().err


def test_without_java_it_says_what_to_install(tmp_path, capsys, monkeypatch):
    land(tmp_path, beats([1]))
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
    assert "rocketmq-control-plane[analytics]" in refused.stderr


def test_a_window_is_thirty_whole_days_and_today_unless_it_is_asked_for():
    midnight = span_of(DAY).start_us
    assert window(None, None, midnight + 5) == (midnight - 30 * DAY_US, midnight + 5)
    assert window("2026-03-01", f"{DAY}T06:00:00Z", 0) == (midnight - DAY_US, midnight + DAY_US // 4)
    assert window("2026-03-01T23:00:00-01:00", DAY + "T01:00", 0) == (midnight, midnight + DAY_US // 24)


@pytest.mark.parametrize(("start", "end", "why"), [("soon", None, "--from soon is not a time"), (DAY, DAY, "is empty")])
def test_a_window_that_makes_no_sense_is_refused(start, end, why):
    with pytest.raises(WrongOptions, match=why):
        window(start, end, span_of(DAY).end_us)


def test_settings_of_spark_are_checked():
    assert settings(["spark.a=b=c"]) == {"spark.a": "b=c"}
    with pytest.raises(WrongOptions, match="--conf colour=red is not a setting"):
        settings(["colour=red"])


def test_from_landing_to_a_result_by_commands(spark, tmp_path, capsys):
    history, output = tmp_path / "history", tmp_path / "output"
    for hour in range(3):
        rows = [
            a_beat(number + 120 * hour, at=f"{DAY}T{hour:02}:{number // 2:02}:{number % 2 * 30:02}Z")
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


def test_what_spark_cannot_read_ends_with_a_sentence(spark, tmp_path, capsys):
    land(tmp_path, beats(range(3)))
    assert main(["ingest", "--history", str(tmp_path)]) == 0
    (stored,) = tmp_path.glob("curated/v1/family=heartbeat/date=*/hour=*/*.parquet")
    stored.write_bytes(b"not Parquet")
    capsys.readouterr()
    assert main(["run", "--history", str(tmp_path), "--job", "A2", "--from", DAY, "--to", "2026-03-03"]) == FAILED
    assert "rmq-analytics: failed:" in capsys.readouterr().err
