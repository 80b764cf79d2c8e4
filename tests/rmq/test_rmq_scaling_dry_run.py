"""`rmq scaling dry-run` over landed rows."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from controller.dry_run.published_run import DRY_RUN
from history.landing import Landing
from history.rows import BrokerRef, Moment, RowMaker, encoded
from history.schemas import OFFSET_SAMPLE, ROUTE_SNAPSHOT
from rmq.cli import command_line
from rmq.commands.table import COMMANDS

START = datetime(2026, 3, 2, 10, tzinfo=UTC)
POLICIES = """
[[policy]]
topic = "orders*"
min = 4
max = 64
mode = "auto"
"""


class Samplers:
    """What a sampler and a NameServer have recorded."""

    def __init__(self, folder):
        self._landing = Landing(folder, "sampler-1700000000000")
        self._maker = RowMaker("sampler", 1_700_000_000_000, "sampler")

    def row(self, family, event_type, at, cluster=None, **columns):
        moment = Moment(int(at.timestamp() * 1e6), 0)
        row = self._maker.row(family, event_type, moment, BrokerRef(cluster=cluster), **columns)
        self._landing.append(family.name, encoded(row), row.unix_us)

    def samples(self, topic="orders", *, cluster="c", minutes=60, tps=700, consumed=400, consumers=8):
        for minute in range(minutes):
            at = START + timedelta(minutes=minute)
            values = {"topic": topic, "max_offset": tps * 60 * minute, "tps": float(tps)}
            self.row(OFFSET_SAMPLE, "sample", at, cluster, **values)
            # Rows of one round are written one after the other.
            group = {"group": "billing", "consumer_offset": consumed * 60 * minute, "consumers": consumers}
            self.row(OFFSET_SAMPLE, "sample", at + timedelta(milliseconds=7), cluster, **values, **group)

    def snapshot(self, at, snapshot_id, queues, *, sets=("broker-a",), topic="orders"):
        about = {"snapshot_id": snapshot_id, "scope": "all", "broker_names": sets, "topics": (topic,)}
        self.row(ROUTE_SNAPSHOT, "queues", at, **about, read=queues, write=queues, perm=6)

    def close(self):
        self._landing.seal_all()


@pytest.fixture
def samplers(tmp_path):
    found = Samplers(tmp_path)
    yield found
    found.close()


@pytest.fixture
def command(tmp_path, samplers, capsys):
    """Run the command over the recorded hours; returns its code and what it said of errors."""
    policies = tmp_path / "policies.toml"
    policies.write_text(POLICIES)

    def run(*words, topics="orders"):
        samplers.close()
        span = ("--from", START.isoformat(), "--to", (START + timedelta(hours=3)).isoformat())
        named = ("--history", str(tmp_path), "--policies", str(policies), "--topics", topics)
        code = command_line.run(COMMANDS, ["scaling", "dry-run", *named, *span, *words])
        return code, capsys.readouterr().err

    return run


def written(folder):
    rows = json.loads((folder / DRY_RUN).read_text())["rows"]
    return {kind: [row for row in rows if row["kind"] == kind] for kind in ("topic", "change", "kept", "hour")}


def test_consumers_without_a_queue_would_have_led_to_a_resize(tmp_path, samplers, command):
    samplers.samples()
    samplers.snapshot(START, "s-1", 4)
    samplers.snapshot(START + timedelta(hours=1), "s-2", 32)
    assert command() == (0, "")
    rows = written(tmp_path)
    (topic,) = rows["topic"]
    assert (topic["queues_before"], topic["queues_after"], topic["changes"], topic["samples"]) == (4, 8, 1, 120)
    (change,) = rows["change"]
    assert (change["queues_before"], change["queues_after"], change["mode"]) == (4, 8, "auto")
    assert "8 consumers, 4 queues: 4 have none" in change["reason"]
    assert [(row["tps"], row["queues"]) for row in rows["hour"]] == [(700.0, 8)]


def test_queues_are_those_of_the_first_snapshot_on_all_of_its_sets(tmp_path, samplers, command):
    samplers.samples(minutes=3)
    samplers.snapshot(START + timedelta(minutes=1), "s-1", 6, sets=("broker-a", "broker-b"))
    samplers.snapshot(START + timedelta(minutes=2), "s-2", 9)
    assert command()[0] == 0
    (topic,) = written(tmp_path)["topic"]
    assert (topic["queues_before"], topic["sets"]) == (6, 2)


def test_queues_may_be_given(tmp_path, samplers, command):
    samplers.samples(minutes=3)
    assert command("--queues", "5", "--sets", "3")[0] == 0
    (topic,) = written(tmp_path)["topic"]
    assert (topic["queues_before"], topic["sets"]) == (5, 3)


@pytest.mark.parametrize(
    ("topic", "sentence"),
    [
        ("orders", "give its queues with --queues and --sets"),
        ("orders-eu", "orders-eu was not sampled"),
        ("payments", "matches payments"),
    ],
)
def test_what_is_not_recorded_is_named(samplers, command, topic, sentence):
    samplers.samples(minutes=3)
    code, error = command(topics=topic)
    assert (code, sentence in error) == (4, True), error


def test_topic_of_two_clusters_has_a_run_for_each(tmp_path, samplers, command):
    samplers.samples(minutes=3, cluster="east")
    samplers.samples(minutes=3, cluster="west")
    code, error = command()
    assert (code, "orders is in the clusters east, west" in error) == (4, True)
    assert command("--queues", "4")[0] == 0
    assert [row["cluster"] for row in written(tmp_path)["topic"]] == ["east", "west"]


def test_mistakes_of_policies_are_named(tmp_path, samplers, command):
    samplers.samples(minutes=3)
    (tmp_path / "policies.toml").write_text('[[policy]]\ntopic = "orders"\nmin = 0\n')
    code, error = command()
    assert (code, "policies.toml: line 3, policy 1: min: 0 is not allowed" in error) == (2, True)
