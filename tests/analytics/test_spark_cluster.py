"""The same commands on a Spark cluster: a master and two workers from the PySpark package, on loopback."""

import json
import os
import sys
from pathlib import Path

import pyspark
import pytest
from landed import DAY, a_beat, land, stored_ids
from peers.processes import Process, free_port

from analytics.__main__ import main

PROJECT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
SPARK_CLASS = SPARK_HOME / "bin" / "spark-class"
BROKERS = 4


def environment():
    """Settings of a machine where Spark is at home; those of this test run stay out."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    return env | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "128m",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(PROJECT),
    }


@pytest.fixture
def cluster(spark, tmp_path):
    """The master's address and its two workers; asks for `spark` so that it is skipped where Java is missing."""
    port, env, folder = free_port(), environment(), tmp_path / "cluster"
    started = []

    def start(name, *words):
        started.append(Process(name, [SPARK_CLASS, *words], folder=folder, env=env))
        return started[-1]

    try:
        where = ["--host", "127.0.0.1", "--port", port, "--webui-port", "0"]
        start("master", "org.apache.spark.deploy.master.Master", *where).wait_for("New state: ALIVE", seconds=280)
        address = f"spark://127.0.0.1:{port}"
        own = ["--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "700m"]
        workers = [
            start(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *own, "-d", folder / str(number), address
            )
            for number in range(2)
        ]
        for worker in workers:
            worker.wait_for("Successfully registered with master", seconds=280)
        yield address, workers
    finally:
        for process in reversed(started):
            process.stop()


def a_day_of_beats(root):
    for hour in range(0, 24, 6):
        rows = [
            a_beat(
                number + 1000 * hour,
                at=f"{DAY}T{hour:02}:{number // 8:02}:{number // BROKERS % 2 * 30:02}.{number % 7}Z",
                server=f"ns-{server}",
                broker_name=f"broker-{number % BROKERS}",
            )
            for number in range(100)
            for server in range(2)
        ]
        land(root, rows, name=f"ns-1-1-{hour}.jsonl", hour=f"{hour:02}")


def published(root):
    latest = json.loads((root / "results/latest/heartbeat_gaps.json").read_bytes())
    rows = [{key: value for key, value in row.items() if key != "run_id"} for row in latest["rows"]]
    return sorted(rows, key=lambda row: row["broker_name"])


def test_a_cluster_stores_and_finds_the_same_as_one_machine(spark, tmp_path, cluster):
    address, workers = cluster
    a_day_of_beats(tmp_path / "here")
    a_day_of_beats(tmp_path / "there")
    window = ["--job", "A2", "--from", DAY, "--to", "2026-03-03"]
    assert main(["ingest", "--history", str(tmp_path / "here")]) == 0
    assert main(["run", "--history", str(tmp_path / "here"), *window]) == 0
    on_cluster = ["--history", tmp_path / "there", "--master", address, "--driver-memory", "500m"]
    here = ("driver.host=127.0.0.1", "driver.bindAddress=127.0.0.1", "executor.memory=500m", "sql.shuffle.partitions=2")
    for setting in here:
        on_cluster += ["--conf", f"spark.{setting}"]
    for name, arguments in (("ingest", []), ("run", window)):
        words = [sys.executable, "-m", "analytics", name, *on_cluster, *arguments]
        client = Process(name, words, folder=tmp_path / "logs", env=environment())
        try:
            assert client.wait(seconds=280) == 0, client.text()
        finally:
            client.kill()
    for worker in workers:
        assert worker.text().count("Asked to launch executor") == 2
    assert stored_ids(spark, tmp_path / "there") == stored_ids(spark, tmp_path / "here")
    assert published(tmp_path / "there") == published(tmp_path / "here") != []
