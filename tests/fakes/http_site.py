"""Views over real HTTP, on a free port of loopback."""

import json
import socket

import aiohttp

from fakes.clock import FakeClock
from fakes.lines import Lines
from serving.http.admin_access import AdminToken, HttpTokens
from serving.http.paths import endpoints_of
from serving.http.server import make_app, start_http
from serving.logging.logs import Logs, json_line
from serving.metrics.server_counters import ServerCounters


class HttpSite:
    """The HTTP side of one kind of server, with the paths of some views, and a client of it."""

    def __init__(self, kind, *views, token="", clock=None):
        self.kind, self.views, self.table = kind, views, None
        self.clock, self.lines, self.counters = clock or FakeClock(), Lines(), ServerCounters()
        self.logs = Logs(self.lines, json_line(), self.clock, {})
        self.token = AdminToken(token)

    async def __aenter__(self):
        table = self.table or endpoints_of(*self.views)
        self.app = make_app(self.kind, table, self.counters, self.logs, HttpTokens(self.token))
        self.server = await start_http(self.app, socket.create_server(("127.0.0.1", 0)))
        self.session = aiohttp.ClientSession(f"http://127.0.0.1:{self.server.port}")
        return self

    async def __aexit__(self, *_):
        await self.session.close()
        await self.server.stop()
        self.logs.close(1)

    async def request(self, method, path, *, token=None, headers=None, **kwargs):
        """Return status, headers, and the body: decoded JSON, other text, or None."""
        headers = {**({} if token is None else {"Authorization": f"Bearer {token}"}), **(headers or {})}
        async with self.session.request(method, path, headers=headers, **kwargs) as response:
            text = await response.text()
            is_json = text and response.content_type == "application/json"
            return response.status, response.headers, json.loads(text) if is_json else text or None

    async def get(self, path):
        return (await self.request("GET", path))[::2]
