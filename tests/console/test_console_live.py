"""The one stream of events of each page: what servers report reaches every page, and costs each server one watcher."""

import asyncio
import contextlib

import pytest
from aiohttp import web
from fakes.console_site import ELSEWHERE, READ_TOKEN, ConsoleSite, a_peer
from fakes.event_reader import EventReader

from serving.http.console import live
from serving.http.views import Unavailable


class WatchedPeer:
    """A server whose `/v1/cluster/watch` sends what a test lets it send."""

    def __init__(self, status=200):
        self.status = status
        #: Last-Event-ID of each stream that was opened.
        self.opened = []
        self.open = 0
        self._queues = []

    def send(self, text):
        for each in self._queues:
            each.put_nowait(text)

    def cut(self):
        self.send(None)

    async def __call__(self, request):
        if request.path == "/livez":
            return web.json_response({})
        if self.status != 200:
            return web.json_response({}, status=self.status)
        assert request.raw_path == "/v1/cluster/watch"
        self.opened.append(request.headers.get("Last-Event-ID"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue = asyncio.Queue()
        self._queues.append(queue)
        self.open += 1
        try:
            await response.write(b"id: p-1\nevent: cluster\ndata: {}\n\n")
            while (text := await _next_of(queue)) is not None:
                await response.write(text.encode())
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            self._queues.remove(queue)
        return response


async def _next_of(queue):
    """Return what is next, or a comment after a while: it finds out whether the client is still there."""
    try:
        return await asyncio.wait_for(queue.get(), 0.2)
    except TimeoutError:
        return ":\n\n"


@contextlib.asynccontextmanager
async def a_console(peer, **settings):
    async with a_peer(peer) as url, ConsoleSite(console_peers=f"controller={url}", **settings) as site:
        yield site


def a_page(site, last_id=None, query=""):
    return EventReader.open(f"{site.url}/ui/live", query, last_id)


def states(event):
    return {each["kind"]: each["state"] for each in event.data["watched"]}


async def next_change(reader):
    while (event := await reader.next()).name == "ping":
        pass
    return event


async def watched(reader):
    """Read on until all servers are watched and nothing has changed for a while."""
    event = await reader.next()
    assert event.name == "live"
    async with asyncio.timeout(30):
        while set(states(event).values()) != {"watched"}:
            event = await next_change(reader)
        while (await reader.next()).name != "ping":
            pass
    return event


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name, seconds in {"PING_S": 0.3, "RETRY_S": 0.1, "UNWATCHED_RETRY_S": 0.1, "LINGER_S": 0.2}.items():
        monkeypatch.setattr(live, name, seconds)


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


async def test_a_change_at_a_server_reaches_all_pages_over_one_stream_to_that_server():
    peer = WatchedPeer()
    async with a_console(peer) as site, contextlib.AsyncExitStack() as stack:
        pages = [await stack.enter_async_context(a_page(site)) for _ in range(10)]
        for each in pages:
            await watched(each)
        assert peer.opened == [None]
        assert site.watches.cluster.counts.watchers == 1
        peer.send("id: p-2\nevent: cluster\ndata: {}\n\n")
        for each in pages:
            event = await next_change(each)
            assert (event.name, event.data["changed"]) == ("changed", [{"kind": "controller", "number": 0}])
        await stack.aclose()
        # With the last page the streams to servers end.
        await until(lambda: peer.open == 0 and not site.watches.cluster.counts.watchers)


async def test_a_stream_that_is_cut_goes_on_after_its_last_event():
    peer = WatchedPeer()
    async with a_console(peer) as site, a_page(site) as page:
        await watched(page)
        peer.send("id: p-7\nevent: cluster\ndata: {}\n\n")
        await next_change(page)
        peer.cut()
        seen = []
        while "watched" not in seen:
            seen.append(states(await next_change(page))["controller"])
        assert peer.opened == [None, "p-7"]


@pytest.mark.parametrize("status", [404, 503])
async def test_server_that_cannot_be_watched_is_named_and_tried_again(status):
    peer = WatchedPeer(status)
    async with a_console(peer) as site, a_page(site) as page:
        event = await page.next()
        while states(event) != {"namesrv": "watched", "controller": "unwatched"}:
            event = await next_change(page)
        peer.status = 200
        while states(event)["controller"] != "watched":
            event = await next_change(page)


async def test_page_that_connects_again_is_told_whether_anything_has_changed():
    peer = WatchedPeer()
    async with a_console(peer) as site:
        async with a_page(site) as page:
            await watched(page)
        last_id = page.last_id
        async with a_page(site, last_id) as page:
            assert (await page.next()).data["isCurrent"]
            peer.send("event: cluster\ndata: {}\n\n")
            await next_change(page)
        async with a_page(site, last_id) as page:
            assert not (await page.next()).data["isCurrent"]
        async with a_page(site, "of-another-process-7") as page:
            assert not (await page.next()).data["isCurrent"]


async def test_route_of_a_topic_is_followed_for_pages_that_show_it():
    async with ConsoleSite() as site:
        publishing = asyncio.ensure_future(site.watches.routes.publish_route_changes())
        async with a_page(site, query="?topic=%E8%AE%A2%E5%8D%95%26%3D") as page:
            await watched(page)
            assert len(site.watches.routes.log.keys) == 1
        publishing.cancel()
        assert (await site.get("/ui/live?topic="))[0] == 400


async def test_page_with_more_topics_than_are_followed_learns_that_some_are_not_and_keeps_nobody_out(monkeypatch):
    monkeypatch.setattr(live, "TOPICS_MAX", 2)
    async with ConsoleSite() as site:
        publishing = asyncio.ensure_future(site.watches.routes.publish_route_changes())
        async with a_page(site, query="?topic=a&topic=b&topic=c") as greedy, a_page(site, query="?topic=d") as other:
            for page in (greedy, other):
                event = await page.next()
                while sorted(each["state"] for each in event.data["watched"])[-1:] != ["watched"]:
                    event = await next_change(page)
                assert states(event) == {"namesrv": "unwatched"}
            await until(lambda: len(site.watches.routes.log.keys) == 2)
        # Nobody needs the routes of the first page any more, though they are watched for a while.
        async with a_page(site, query="?topic=d") as page:
            await watched(page)
        publishing.cancel()


async def test_server_that_sends_an_id_that_no_header_can_have_is_watched_again():
    peer = WatchedPeer()
    async with a_console(peer) as site, a_page(site) as page:
        await watched(page)
        peer.send("id: p\r7\nevent: cluster\ndata: {}\n\n")
        await next_change(page)
        peer.cut()
        await until(lambda: len(peer.opened) == 2)
        assert peer.opened == [None, "p-1"]


async def test_whatever_happens_to_a_stream_the_page_learns_that_it_is_not_watched(monkeypatch):
    class Broken:
        def take(self, _):
            raise ValueError("nobody expected this")

    peer, failures = WatchedPeer(), []
    async with a_console(peer) as site, a_page(site) as page:
        await watched(page)
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["message"]))
        monkeypatch.setattr(live, "EventHeads", Broken)
        peer.cut()
        event = await next_change(page)
        while states(event)["controller"] != "unwatched":
            event = await next_change(page)
        monkeypatch.undo()
        while states(event) != {"namesrv": "watched", "controller": "watched"}:
            event = await next_change(page)
    assert failures
    assert all("cannot be watched" in each for each in failures)


async def test_stream_has_the_headers_of_other_answers_and_is_checked_as_these_are():
    async with ConsoleSite() as site:
        expected = {"Content-Security-Policy", "X-Content-Type-Options", "Cross-Origin-Resource-Policy"}
        for method in ("GET", "HEAD"):
            async with site.session.request(method, f"{site.url}/ui/live") as answer:
                assert (answer.status, expected - answer.headers.keys()) == (200, set())
    async with ConsoleSite(http_bind_address=ELSEWHERE, read_token=READ_TOKEN) as site:
        assert (await site.request("HEAD", "/ui/live"))[0] == 401


async def test_only_who_may_read_gets_the_stream_and_pages_have_a_limit(monkeypatch):
    async with ConsoleSite(http_bind_address=ELSEWHERE, read_token=READ_TOKEN) as site:
        assert (await site.get("/ui/live"))[0] == 401
        await site.sign_in(READ_TOKEN)
        assert (await site.get("/ui/live"))[0] == 200
        other = {"Sec-Fetch-Site": "cross-site"}
        assert (await site.get("/ui/live", headers=other))[0] == 403
    async with ConsoleSite() as site:
        monkeypatch.setattr(live, "PAGES_MAX", 1)
        async with a_page(site) as page:
            await page.next()
            assert (await site.get("/ui/live"))[0] == 429


async def test_streams_of_pages_end_in_order_when_the_server_stops():
    async with ConsoleSite() as site:
        async with a_page(site) as page:
            await watched(page)
            stopping = asyncio.ensure_future(site.server.stop())
            names = []
            while (event := await page.next()) is not None:
                names.append(event.name)
            assert names[-1] == "closing"
        await stopping


async def test_no_stream_opens_once_the_server_stops():
    changes = live.LiveChanges([])
    changes.end_pages()
    with pytest.raises(Unavailable, match="is stopping"):
        changes.open([], "")
    await changes.close()
