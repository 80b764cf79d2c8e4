"""How sets are read and what jumped, over real HTTP."""

import pytest
from fakes.http_site import HttpSite
from read_site import NAME, running

from offsets.config import OFFSET_MANAGER
from offsets.http.readings import ReadingViews
from offsets.readings import readings as module


@pytest.fixture
async def site(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_TICK_S", 0.001)
    async with running(tmp_path) as site, HttpSite(OFFSET_MANAGER, ReadingViews(site.readings)) as http:

        async def get(path):
            status, body = await http.get(path)
            assert status == 200, body
            return body

        site.get = get
        await site.pass_ms(0)
        yield site


async def test_sets_show_how_fresh_they_are_and_whether_replicas_copy(site):
    (shown,) = (await site.get("/v1/offsets/sets"))["sets"]
    assert (shown["master"], shown["readUnixMs"], shown["fresh"], shown["oldestUnixMs"]) == (
        site.master.address,
        None,
        False,
        None,
    )
    await site.read(3, offset=7)
    answer = await site.get("/v1/offsets/sets?limit=1")
    (shown,) = answer["sets"]

    assert (answer["total"], answer["nextCursor"]) == (1, None)
    assert (shown["cluster"], shown["brokerName"]) == NAME
    assert (shown["readFrom"], shown["readEpoch"], shown["fresh"]) == (site.master.address, 5, True)
    assert (shown["groups"], shown["logEnd"], shown["problem"]) == (1, site.brokers[1].end, "")
    assert shown["fingerprints"] >= 2
    assert shown["oldestUnixMs"] < shown["readUnixMs"]
    assert [(replica["copies"], replica["problem"]) for replica in shown["replicas"]] == [(None, "")]
    site.following.sets = {}
    (shown,) = (await site.get("/v1/offsets/sets"))["sets"]
    assert (shown["master"], shown["readFrom"]) == (None, site.master.address)


async def test_jumps_are_listed_for_those_who_are_named(site):
    await site.read(2, offset=900)
    await site.read(1, offset=100)
    (jump,) = (await site.get("/v1/offsets/jumps"))["jumps"]

    assert (jump["cause"], jump["messagesAgain"], jump["queues"]) == ("reset", 800, [[0, 900, 100]])
    for query, count in (
        ("group=g", 1),
        ("group=other", 0),
        ("topic=orders&broker=broker-a&cause=reset", 1),
        ("cause=failover", 0),
        ("broker=b", 0),
    ):
        assert len((await site.get(f"/v1/offsets/jumps?{query}"))["jumps"]) == count
