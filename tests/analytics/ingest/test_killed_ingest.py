"""Ingest as processes of their own that are killed (-9): what is stored is whole, and the next run goes on."""

import os
import sys
import time
from pathlib import Path

import pytest
from landed import DAY, heartbeats, ingest_all, land, places_at, seen_by_anybody, silent, stored_ids
from peers.processes import Process
from test_ingest import ids

from analytics.ingest.streaming import take_what_is_there
from history.schemas import HEARTBEAT

pytestmark = [pytest.mark.broad, pytest.mark.timeout(900)]

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def command(spark, tmp_path):
    """Starts `rmq-analytics` processes; asks for `spark` so that it is skipped where Java is missing."""
    started = []

    def start(name, *arguments):
        words = [sys.executable, "-m", "analytics", *arguments, "--driver-memory", "600m"]
        env = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        env["PYTHONPATH"] = str(PROJECT)
        process = Process(name, words, folder=tmp_path / "logs", env=env)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()


def test_an_ingest_killed_while_spark_writes_leaves_nothing_half_and_the_next_one_repairs(spark, tmp_path, command):
    root = tmp_path / "history"
    for hour in range(24):
        first = 1000 * hour
        land(root, heartbeats(range(first, first + 1000), at=f"{DAY}T{hour:02}:00:00Z"), hour=f"{hour:02}")
    everything = ids(range(24_000))
    process = command("ingest", "ingest", "--history", root, "--master", "local[2]")
    family = root / "curated/v1/family=heartbeat"
    while not list(family.glob("_temporary/**/*.parquet")):
        assert process.running, process.text()
        time.sleep(0.01)
    process.kill()
    assert stored_ids(spark, root) in ([], everything)
    ingest_all(spark, root)
    assert stored_ids(spark, root) == seen_by_anybody(spark, root) == everything
    assert not (family / "_temporary").exists()


def land_one_more(root, number):
    """Files overlap by one event."""
    land(root, heartbeats(range(100 * number, 100 * number + 101)), name=f"{number}.jsonl")


def test_a_stream_killed_in_the_middle_and_started_again_has_every_event_once(spark, tmp_path, command):
    """A real process, killed (-9) while files keep coming; that of the tests goes on from its checkpoint."""
    root = tmp_path / "history"
    land_one_more(root, 0)
    first = command("first", "stream", "--history", root, "--master", "local[2]", "--every", "1")
    files = 1
    # The kill falls into one of the batches after the first.
    while not list(root.glob("curated/v1/_manifest/family=heartbeat/*.json")):
        assert first.running, first.text()
        if files < 100:
            land_one_more(root, files)
            files += 1
        time.sleep(0.5)
    first.kill()
    land_one_more(root, files)
    take_what_is_there(places_at(spark, root), [HEARTBEAT], silent)
    assert stored_ids(spark, root) == seen_by_anybody(spark, root) == ids(range(100 * files + 101))
    assert ingest_all(spark, root).files == 0
