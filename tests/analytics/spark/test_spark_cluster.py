"""The same commands on a Spark cluster: a master and two workers from the PySpark package, on loopback."""

import json
import os
import sys
from pathlib import Path

import pyspark
import pytest
from landed import DAY, a_heartbeat, land, stored_ids
from peers.processes import Process, free_port

from analytics.__main__ import main

PROJECT = Path(__file__).parents[3]
SPARK_HOME = Path(pyspark.__file__).parent
SPARK_CLASS = SPARK_HOME / "bin" / "spark-class"
BROKERS = 4

pytestmark = [pytest.mark.broad, pytest.mark.timeout(900)]

#: One command after the other: a session of a cluster takes as long to begin as what they do.
BOTH = "import json, sys; from analytics.__main__ import main; sys.exit(any(map(main, json.loads(sys.argv[1]))))"


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
def start(spark, tmp_path):
    """Starts processes of a cluster; asks for `spark` so that it is skipped where Java is missing."""
    started = []

    def start(name, *words):
        command = [SPARK_CLASS, f"org.apache.spark.deploy.{words[0]}", "--host", "127.0.0.1", "--webui-port", "0"]
        started.append(Process(name, [*command, *words[1:]], folder=tmp_path / "cluster", env=environment()))
        return started[-1]

    yield start
    for process in started:
        process.terminate()
    for process in reversed(started):
        process.stop()


def a_day_of_heartbeats(root):
    for hour in range(0, 24, 6):
        rows = [
            a_heartbeat(
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


def test_a_cluster_stores_and_finds_the_same_as_one_machine(spark, tmp_path, start):
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    here, there, window = tmp_path / "here", tmp_path / "there", ["--job", "A2", "--from", DAY, "--to", "2026-03-03"]
    # While processes of the cluster start, this machine does its own part.
    master = start("master", "master.Master", "--port", port)
    a_day_of_heartbeats(here)
    a_day_of_heartbeats(there)
    assert main(["ingest", "--history", str(here)]) == 0
    master.wait_for("New state: ALIVE", seconds=280)
    own = ["-c", "1", "-m", "700m", address]
    workers = [start(name, "worker.Worker", "-d", tmp_path / name, *own) for name in ("worker-0", "worker-1")]
    assert main(["run", "--history", str(here), *window]) == 0
    for worker in workers:
        worker.wait_for("Successfully registered with master", seconds=280)
    on_cluster = ["--history", str(there), "--master", address, "--driver-memory", "500m"]
    small = (
        "driver.host=127.0.0.1",
        "driver.bindAddress=127.0.0.1",
        "executor.memory=500m",
        "sql.shuffle.partitions=2",
    )
    for setting in small:
        on_cluster += ["--conf", f"spark.{setting}"]
    commands = json.dumps([["ingest", *on_cluster], ["run", *on_cluster, *window]])
    client = Process("client", [sys.executable, "-c", BOTH, commands], folder=tmp_path / "logs", env=environment())
    try:
        assert client.wait(seconds=280) == 0, client.text()
    finally:
        client.kill()
    for worker in workers:
        assert worker.text().count("Asked to launch executor") == 1
    assert stored_ids(spark, there) == stored_ids(spark, here)
    assert published(there) == published(here) != []
