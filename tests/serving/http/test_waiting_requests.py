"""HTTP requests that wait for something to happen, at a real server: their views end with their clients."""

import asyncio
import socket

import msgspec
import pytest
from fakes.http_site import HttpSite
from other_server import OTHER

from serving.http import connections
from serving.http.paths import Parameter, get
from serving.http.views import ViewRequest, requested_number

_NUMBER = (Parameter("number", "Any."),)


class Answer(msgspec.Struct, frozen=True):
    number: int


class Views:
    """Counts what is under way, and how it ended."""

    def __init__(self):
        self.happened = asyncio.Event()
        self.under_way, self.cancelled = 0, 0

    @get("/waiting", parameters=_NUMBER, waits=True)
    async def wait(self, request: ViewRequest) -> Answer:
        self.under_way += 1
        try:
            await self.happened.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        return Answer(requested_number(request, "number", 10))

    @get("/working", parameters=_NUMBER)
    async def work(self, request: ViewRequest) -> Answer:
        return await self.wait(request)


class WaitingServer(HttpSite):
    def __init__(self):
        super().__init__(OTHER, Views())
        (self.waiting,) = self.views

    async def abandoned(self, path):
        """Request something, and leave once the view has begun."""
        with socket.create_connection(("127.0.0.1", self.server.port)) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            await self.until(lambda: self.waiting.under_way)

    async def closed(self):
        """Return once all connections are closed, and whoever was cancelled for it has ended."""
        await self.until(lambda: not self.app[connections.CONNECTIONS])
        for _ in range(5):
            await asyncio.sleep(0)

    async def until(self, holds):
        async with asyncio.timeout(10):
            while not holds():
                await asyncio.sleep(0.005)


@pytest.fixture
async def server():
    async with WaitingServer() as server:
        yield server


async def test_request_that_waits_is_answered_when_something_happens(server):
    task = asyncio.create_task(server.get("/waiting?number=7"))
    await server.until(lambda: server.waiting.under_way)
    server.waiting.happened.set()
    assert await asyncio.wait_for(task, 5) == (200, {"number": 7})


async def test_view_that_waits_ends_with_its_client(server):
    await server.abandoned("/waiting")
    await server.until(lambda: not server.waiting.under_way)
    assert server.waiting.cancelled == 1
    server.waiting.happened.set()
    assert (await server.get("/waiting"))[0] == 200


async def test_view_that_does_not_wait_goes_on_without_its_client(server):
    await server.abandoned("/working")
    await server.closed()
    assert server.waiting.under_way == 1
    server.waiting.happened.set()
    await server.until(lambda: not server.waiting.under_way)
    assert server.waiting.cancelled == 0


async def test_connection_that_has_waited_ends_no_later_view_that_does_not(server):
    server.waiting.happened.set()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.server.port)
    writer.write(b"GET /waiting HTTP/1.1\r\nHost: h\r\n\r\n")
    await reader.readuntil(b'{"number":0}')
    server.waiting.happened.clear()
    writer.write(b"GET /working HTTP/1.1\r\nHost: h\r\n\r\n")
    await server.until(lambda: server.waiting.under_way)
    writer.transport.abort()
    await server.closed()
    assert (server.waiting.under_way, server.waiting.cancelled) == (1, 0)
    server.waiting.happened.set()


async def test_wait_is_closed_last_when_all_places_are_taken(monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 2)
    # Nor are they closed because they request nothing.
    monkeypatch.setattr(connections, "FIRST_REQUEST_S", 60)
    async with WaitingServer() as server, asyncio.timeout(10):
        task = asyncio.create_task(server.get("/waiting"))
        await server.until(lambda: server.waiting.under_way)
        idle = [await asyncio.open_connection("127.0.0.1", server.server.port) for _ in range(3)]
        for reader, _ in idle[:2]:
            assert await reader.read() == b""
        assert server.waiting.under_way == 1
        server.waiting.happened.set()
        assert (await task)[0] == 200
        for _, writer in idle:
            writer.close()


@pytest.mark.parametrize(
    ("text", "answer"), [("0", 200), ("10", 200), ("11", 400), ("010", 400), ("", 400), ("²", 400), ("-1", 400)]
)
async def test_number_of_a_query_is_whole_and_has_a_limit(server, text, answer):
    server.waiting.happened.set()
    assert (await server.get(f"/waiting?number={text}"))[0] == answer
