"""The past over HTTP: what is answered, and what becomes of the processes that read it."""

import asyncio
from pathlib import Path

import pytest
from fakes.site import Site
from peers.waiting import wait_until
from written_history import SECOND, THEN, Server, seal_all

from namesrv.settings.config import NameServerConfig
from remoting.protocol.shapes.history import PastQuery
from serving.http import history_views as history_reader
from serving.http.history_views import HistoryReader
from serving.http.views import TooManyRequests, Unavailable


def ms(at):
    return round(at.timestamp() * 1000)


def query(folder):
    return PastQuery(kind="route", folder=str(folder), name="orders", first_ms=0, last_ms=ms(THEN + 20 * SECOND))


def children():
    """Return the process ids of the readers: fixtures of other tests may have processes too."""
    found = {child for path in Path("/proc/self/task").glob("*/children") for child in path.read_text().split()}
    return [process_id for process_id in found if b"history.past.answers" in _command(process_id)]


def _command(process_id):
    try:
        return Path(f"/proc/{process_id}/cmdline").read_bytes()
    except FileNotFoundError:
        return b""


@pytest.fixture
def folder(tmp_path):
    server = Server(tmp_path)
    server.starts(THEN)
    server.registers(THEN, "a", orders=4)
    server.ticks(THEN, THEN + 60 * SECOND)
    seal_all()
    return tmp_path


async def test_past_route_is_answered_from_the_history_of_the_server(folder):
    async with Site(NameServerConfig(history_dir=str(folder))) as site:
        status, answer = await site.get(f"/v1/history/route?topic=orders&at={ms(THEN + 20 * SECOND)}")
        assert (status, answer["problem"]) == (200, "")
        (item,) = answer["items"]
        assert item["route"]["queueDatas"][0]["readQueueNums"] == 4


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("route", "topic must be given."),
        ("route?topic=orders&at=yesterday", "at must be a whole number from 0 to 253000000000000, not yesterday."),
        ("route-changes?topic=orders&from=2&to=1", "from must be before to, by at most 31 days; both are Unix ms."),
        ("route-changes?topic=a&from=0&to=2678400001", "from must be before to, by at most 31 days; both are Unix ms."),
        ("broker", "broker must be given."),
        ("broker?broker=a&brokerId=x", "brokerId must be a whole number from 0 to 2147483647, not x."),
    ],
)
async def test_invalid_parameters_are_refused_with_their_reason(path, sentence):
    async with Site() as site:
        status, answer = await site.get(f"/v1/history/{path}")
        assert (status, answer["error"]["message"]) == (400, sentence)


async def test_server_without_a_history_says_so():
    async with Site() as site:
        for path in ("route?topic=a", "route-changes?topic=a", "broker?broker=a"):
            status, answer = await site.get(f"/v1/history/{path}")
            assert (status, answer["problem"]) == (200, "This server records no history: historyDir is blank.")


async def test_requests_beyond_those_that_may_wait_are_refused(folder, monkeypatch):
    monkeypatch.setattr(history_reader, "RUNNING_MAX", 1)
    monkeypatch.setattr(history_reader, "WAITING_MAX", 1)
    reader = HistoryReader()
    found = await asyncio.gather(*(reader.answer(query(folder)) for _ in range(3)), return_exceptions=True)
    assert [isinstance(each, TooManyRequests) for each in found] == [False, False, True]
    assert found[0] == found[1]


async def test_reading_that_takes_too_long_is_ended(folder, monkeypatch):
    monkeypatch.setattr(history_reader, "ANSWER_S", 0.01)
    with pytest.raises(Unavailable, match="was not read within"):
        await HistoryReader().answer(query(folder))
    assert children() == []


async def test_process_ends_once_nobody_waits_for_its_answer(folder):
    reading = asyncio.ensure_future(HistoryReader().answer(query(folder)))
    await asyncio.to_thread(wait_until, children, seconds=30, what="a process reads")
    reading.cancel()
    await asyncio.to_thread(wait_until, lambda: not children(), seconds=30, what="the process ends")
    with pytest.raises(asyncio.CancelledError):
        await reading
