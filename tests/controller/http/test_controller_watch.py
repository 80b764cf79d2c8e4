"""What those who watch a controller are told: which lists have changed, now and after a cut."""

import asyncio
import contextlib

import pytest
from fakes.event_reader import EventReader

from controller.http import cluster_watch
from serving.metrics.health import Serving

ALL = ["leader", "brokerSets", "elections", "scaling"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(cluster_watch, "LOOK_S", 0.01)


@pytest.fixture
async def controller(controller):
    return await controller.serve_http()


def watching(controller, last_id=None, query=""):
    url = f"http://127.0.0.1:{controller.server.port}/v1/cluster/watch"
    return EventReader.open(url, query, last_id)


async def test_stream_begins_with_all_lists_and_names_those_that_change(controller):
    async with watching(controller) as reader:
        first = await reader.next()
        assert (first.name, first.data["changed"]) == ("cluster", ALL)
        assert await reader.nothing_comes()
        await controller.a_set(1, 2)
        event = await reader.next()
        changed = set(event.data["changed"])
        while not {"brokerSets", "elections"} <= changed:
            changed |= set((await reader.next()).data["changed"])
        assert "leader" not in changed
        controller.group.follows(None)
        assert "leader" in (await reader.next()).data["changed"]


async def test_watcher_that_was_away_is_told_what_has_changed_meanwhile(controller):
    async with watching(controller) as reader:
        await reader.next()
    async with watching(controller, reader.last_id) as reader:
        assert await reader.nothing_comes()
    known = reader.last_id or (await _first_id(controller))
    await controller.a_set(1)
    for last_id, query in ((known, ""), (None, f"?after={known}")):
        async with watching(controller, last_id, query) as reader:
            assert {"brokerSets", "elections"} <= set((await reader.next()).data["changed"]) < set(ALL)
    async with watching(controller, "0123456789abcdef-7") as reader:
        assert (await reader.next()).data["changed"] == ALL


async def _first_id(controller):
    async with watching(controller) as reader:
        return (await reader.next()).id


async def test_text_that_is_no_id_and_watchers_beyond_the_limit_are_refused(controller):
    for wrong in ("7", "a-b", "-1", "a-" + "9" * 1000):
        status, body = await controller.get(f"/v1/cluster/watch?after={wrong}")
        assert (status, "must be the id of an event" in body["error"]["message"]) == (400, True)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(cluster_watch.WATCHERS_MAX):
            await (await stack.enter_async_context(watching(controller))).next()
        status, body = await controller.get("/v1/cluster/watch")
        assert (status, body["error"]["code"]) == (503, "unavailable")
    async with asyncio.timeout(10):
        while True:
            with contextlib.suppress(AssertionError):
                async with watching(controller) as reader:
                    await reader.next()
                    break
            await asyncio.sleep(0.05)


async def test_streams_end_in_order_when_the_controller_stops(controller):
    async with watching(controller) as reader:
        await reader.next()
        controller.health.serving = Serving.DRAINING
        closing = await reader.next()
        assert (closing.name, closing.retry_ms) == ("closing", cluster_watch.RETRY_MS)
        assert await reader.next() is None
    assert (await controller.get("/v1/cluster/watch"))[0] == 503
