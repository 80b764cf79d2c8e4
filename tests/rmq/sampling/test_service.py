"""Samples as they land in the history, and the lines about what they lack."""

import json

import pytest
from fakes.answering_peer import peers
from fakes.lines import Lines
from sampling_site import Topics, a_route

from history.columns import SAMPLER, Type
from history.landing import LANDING, lines_of
from history.recorder import RecorderIdentity
from history.schemas import FAMILIES
from remoting.client import RemotingClient
from remoting.clock import SystemClock
from rmq.sampling.service import Options, Sampler
from serving.config.options import LONG_MAX
from serving.logging.logs import Logs, json_line
from serving.process.recording import Recording

#: What JSON has for a column of a type.
KINDS = {Type.STRING: str, Type.LONG: int, Type.DOUBLE: float, Type.TIMESTAMP: str}


class Desk:
    """A sampler of two topics with what is around it."""

    def __init__(self, folder):
        self.folder = folder
        self.lines = Lines()
        self.logs = Logs(self.lines, json_line(), SystemClock(), {})
        self.client = RemotingClient(SystemClock())
        self.recording = Recording(folder, RecorderIdentity("sampler_h", SAMPLER, "1", ""), self.logs, LONG_MAX)
        self.recording.recorder.start()

    def sampler(self, namesrv):
        options = Options(
            name_servers=(namesrv.address,), topics=("t", "u"), history=self.folder, interval_s=1, name="sampler_h"
        )
        return Sampler(options, self.logs, self.client, self.recording)

    def reported(self, event):
        return [line for line in self.lines.decoded() if line["event"] == event]

    async def rows(self, family):
        """Return what was recorded; nothing more is afterwards."""
        await self.recording.close()
        files = sorted((self.folder / LANDING).glob(f"family={family}/date=*/hour=*/*.jsonl"))
        return [json.loads(line) for file in files for line in lines_of(file)]


@pytest.fixture
async def desk(tmp_path):
    desk = Desk(tmp_path)
    yield desk
    await desk.client.close()
    await desk.recording.close()
    desk.logs.close(1)


async def test_each_sample_has_a_row_for_each_topic_and_each_group(desk):
    topics = Topics({"t": 10, "u": 5}, groups={"g": {"t": 4}}, members={"g": ["x"]})
    async with peers(topics) as (broker,), peers(lambda _, __: a_route(b=broker.address)) as (namesrv,):
        sampler = desk.sampler(namesrv)
        await sampler.sample()
        topics.ends["t"] += 1000
        await sampler.sample()
    rows = await desk.rows("offset_sample")
    recorded = [(row["topic"], row.get("group"), row["max_offset"], row.get("consumer_offset")) for row in rows]
    assert recorded == [
        ("t", None, 10, None),
        ("t", "g", 10, 4),
        ("u", None, 5, None),
        ("t", None, 1010, None),
        ("t", "g", 1010, 4),
        ("u", None, 5, None),
    ]
    assert ["tps" in row for row in rows] == [False] * 3 + [True] * 3
    assert rows[3]["tps"] == rows[4]["tps"] > 0 == rows[5]["tps"]
    assert rows[1]["consumers"] == 1
    assert {(row["source"], row["ns_id"], row["cluster"]) for row in rows} == {("sampler", "sampler_h", "c")}
    columns = {column.name: column.type for column in FAMILIES["offset_sample"].all_columns}
    assert all(isinstance(value, KINDS[columns[name]]) for row in rows for name, value in row.items())


async def test_lifecycle_has_source_sampler_and_no_ticks(desk):
    life = await desk.rows("ns_lifecycle")
    assert [(row["event_type"], row["source"]) for row in life] == [("started", "sampler"), ("stopping", "sampler")]
    assert await desk.rows("ns_tick") == []


async def test_failed_broker_and_its_recovery_are_logged_once_and_that_it_left_the_routes(desk):
    masters = {}
    async with (
        peers(Topics({"t": 1, "u": 1}), Topics({"t": 5, "u": 5})) as (broker, other),
        peers(lambda _, __: a_route(**masters)) as (namesrv,),
    ):
        masters |= {"b": broker.address, "c": other.address}
        sampler = desk.sampler(namesrv)
        await sampler.sample()
        assert desk.reported("samples_missing") == []
        await broker.close()
        for _ in range(3):
            await sampler.sample()
        (missing,) = desk.reported("samples_missing")
        assert list(missing["failing"]) == [f"broker {broker.address}"]
        assert desk.reported("samples_recovered") == []
        await broker.open()
        for _ in range(3):
            await sampler.sample()
        (back,) = desk.reported("samples_recovered")
        assert back["recovered"] == [f"broker {broker.address}"]
        assert len(desk.reported("samples_missing")) == 1
        await broker.close()
        await sampler.sample()
        del masters["b"]
        for _ in range(2):
            await sampler.sample()
        (left,) = desk.reported("samples_not_needed")
        assert left["removed"] == [f"broker {broker.address}"]
        assert len(desk.reported("samples_recovered")) == 1
    rows = [row for row in await desk.rows("offset_sample") if row["topic"] == "t"]
    assert [row.get("max_offset") for row in rows] == [6, None, None, None, 6, 6, 6, None, 5, 5]
