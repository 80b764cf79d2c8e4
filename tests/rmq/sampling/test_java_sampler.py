"""The sampler as an operator runs it, beside a real broker with a producer and a group."""

import json
import os
import sys

import pytest
from peers.jars import REPOSITORY
from peers.processes import Process
from peers.servers import registered
from peers.waiting import wait_until

from history.landing import LANDING, PART, lines_of

pytestmark = [pytest.mark.broad, pytest.mark.java, pytest.mark.timeout(600)]

#: Far longer than anything here takes: a consumer tells its offsets each 5 s.
SOON_S = 120
MESSAGES = 60


class Sampler:
    """The process, and what it has written."""

    def __init__(self, folder, namesrv, topics):
        self.history = folder / "history"
        command = [sys.executable, "-m", "rmq", "sample", "--namesrv", namesrv.address, "--topics", ",".join(topics)]
        command += ["--history", self.history, "--interval", 1, "--name", "sampler_x"]
        env = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        self.process = Process("sampler", command, folder=folder, env=env)

    def files(self):
        return sorted(self.history.glob(f"{LANDING}/family=*/date=*/hour=*/*"))

    def samples(self):
        files = [path for path in self.files() if "family=offset_sample" in str(path)]
        return [json.loads(line) for path in files for line in lines_of(path)]

    def newest(self, **wanted):
        """Return the last row with these values; None is a column that is not there."""
        rows = [row for row in self.samples() if all(row.get(name) == value for name, value in wanted.items())]
        return rows[-1] if rows else {}


def is_behind(row):
    return row.get("group") is not None and row["max_offset"] > row["consumer_offset"]


def test_samples_of_a_java_broker_match_its_offsets(lab):
    namesrv = lab.name_server()
    broker = lab.broker("b1", namesrv=[namesrv.address]).start().ready()
    wait_until(lambda: registered(namesrv, broker), seconds=SOON_S, what="the broker")
    sampler = lab.kept(Sampler(lab.folder, namesrv, ["orders", "nobody-has-it"]))
    sampler.process.wait_for("sampler_started", seconds=SOON_S)
    clients = {"namesrv": [namesrv.address], "topic": "orders"}
    producer = lab.producer("producer", count=MESSAGES, **{"interval-ms": 200}, **clients)
    consumer = lab.consumer("readers", **clients)
    wait_until(lambda: sampler.newest(topic="orders", group=None).get("tps", 0) > 0, seconds=SOON_S, what="a rate")
    assert "tps" not in next(row for row in sampler.samples() if row["topic"] == "orders")
    wait_until(lambda: any(map(is_behind, sampler.samples())), seconds=SOON_S, what="a group with messages left")

    producer.finish(seconds=SOON_S)
    assert len(producer.sent()) == MESSAGES
    consumer.wait_for_all(producer.bodies(), seconds=SOON_S)
    done = {"topic": "orders", "consumer_offset": MESSAGES, "max_offset": MESSAGES, "consumers": 1}
    of_group = wait_until(lambda: sampler.newest(**done), seconds=SOON_S, what="a group that has read all")
    assert of_group["group"].startswith("readers")
    assert (of_group["cluster"], of_group["source"]) == ("DefaultCluster", "sampler")
    at_rest = {"topic": "orders", "group": None, "max_offset": MESSAGES, "tps": 0.0}
    wait_until(lambda: sampler.newest(**at_rest), seconds=SOON_S, what="a topic at rest")

    consumer.process.kill()
    left = {"topic": "orders", "group": of_group["group"], "consumers": 0}
    wait_until(lambda: sampler.newest(**left), seconds=SOON_S, what="a group whose member is gone")

    missing = [json.loads(line) for line in sampler.process.text().splitlines() if '"samples_missing"' in line]
    assert [list(line["failing"]) for line in missing if "topic nobody-has-it" in line["failing"]][1:] == []
    assert sampler.process.stop() == 0
    assert "sampler_stopped" in sampler.process.text()
    assert sampler.files()
    assert not [path for path in sampler.files() if path.name.endswith(PART)]
    assert {path.name.split("-")[0] for path in sampler.files()} == {"sampler_x"}
