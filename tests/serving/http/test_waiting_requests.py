"""HTTP requests that wait for something to happen, at a real server: their views end with their clients."""

import asyncio
import socket

import aiohttp
import msgspec
import pytest
from fakes.clock import FakeClock
from fakes.lines import Lines
from other_server import OTHER

from serving.http import connections
from serving.http.admin_access import AdminToken, HttpTokens
from serving.http.endpoints import Parameter
from serving.http.paths import endpoints_of, get
from serving.http.server import make_app, start_http
from serving.http.views import ViewRequest, requested_number
from serving.logging.logs import Logs, json_line
from serving.metrics.server_counters import ServerCounters

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


class WaitingServer:
    """An HTTP server on a free port of loopback."""

    async def __aenter__(self):
        self.views, self.counters = Views(), ServerCounters()
        self.logs = Logs(Lines(), json_line(), FakeClock(), {})
        app = make_app(OTHER, endpoints_of(self.views), self.counters, self.logs, HttpTokens(AdminToken()))
        self.server = await start_http(app, socket.create_server(("127.0.0.1", 0)))
        (self.connections,) = app[connections.CONNECTIONS]
        self.session = aiohttp.ClientSession(f"http://127.0.0.1:{self.server.port}")
        return self

    async def __aexit__(self, *_):
        await self.session.close()
        await self.server.stop()
        self.logs.close(1)

    async def get(self, path):
        async with self.session.get(path) as response:
            return response.status, await response.json()

    async def abandoned(self, path):
        """Request something, and leave once the view has begun."""
        with socket.create_connection(("127.0.0.1", self.server.port)) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            await self.until(lambda: self.views.under_way)

    async def closed(self):
        """Return once all connections are closed, and whoever was cancelled for it has ended."""
        await self.until(lambda: not self.connections._open)
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
    await server.until(lambda: server.views.under_way)
    server.views.happened.set()
    assert await asyncio.wait_for(task, 5) == (200, {"number": 7})


async def test_view_that_waits_ends_with_its_client(server):
    await server.abandoned("/waiting")
    await server.until(lambda: not server.views.under_way)
    assert server.views.cancelled == 1
    server.views.happened.set()
    assert (await server.get("/waiting"))[0] == 200


async def test_view_that_does_not_wait_goes_on_without_its_client(server):
    await server.abandoned("/working")
    await server.closed()
    assert server.views.under_way == 1
    server.views.happened.set()
    await server.until(lambda: not server.views.under_way)
    assert server.views.cancelled == 0


async def test_connection_that_has_waited_ends_no_later_view_that_does_not(server):
    server.views.happened.set()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.server.port)
    writer.write(b"GET /waiting HTTP/1.1\r\nHost: h\r\n\r\n")
    await reader.readuntil(b'{"number":0}')
    server.views.happened.clear()
    writer.write(b"GET /working HTTP/1.1\r\nHost: h\r\n\r\n")
    await server.until(lambda: server.views.under_way)
    writer.transport.abort()
    await server.closed()
    assert (server.views.under_way, server.views.cancelled) == (1, 0)
    server.views.happened.set()


async def test_wait_is_closed_last_when_all_places_are_taken(server, monkeypatch):
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 2)
    task = asyncio.create_task(server.get("/waiting"))
    await server.until(lambda: server.views.under_way)
    idle = [await asyncio.open_connection("127.0.0.1", server.server.port) for _ in range(3)]
    for reader, _ in idle[:2]:
        assert await asyncio.wait_for(reader.read(), 10) == b""
    assert server.views.under_way == 1
    server.views.happened.set()
    assert (await asyncio.wait_for(task, 5))[0] == 200
    for _, writer in idle:
        writer.close()


@pytest.mark.parametrize(
    ("text", "answer"), [("0", 200), ("10", 200), ("11", 400), ("010", 400), ("", 400), ("²", 400), ("-1", 400)]
)
async def test_number_of_a_query_is_whole_and_has_a_limit(server, text, answer):
    server.views.happened.set()
    assert (await server.get(f"/waiting?number={text}"))[0] == answer
