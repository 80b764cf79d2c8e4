"""A NameServer's HTTP side with its console, and servers of any kind that it shows."""

import contextlib
import socket

from aiohttp import web

from fakes.admin_token import ADMIN_TOKEN
from fakes.site import Site
from namesrv.settings.config import NameServerConfig
from serving.http.admin_access import AdminToken, HttpTokens
from serving.http.console.site import Console
from serving.metrics.health import Serving

READ_TOKEN = "read-token-of-the-console"

#: An address that is not this machine's loopback: the console takes it for one that others reach.
ELSEWHERE = "192.0.2.7"


class ConsoleSite(Site):
    """Listens on loopback; `config` says where it is to believe that it listens."""

    def __init__(self, *, admin_token=ADMIN_TOKEN, read_token="", **config):
        # A console knows its own port.
        self.listening = socket.create_server(("127.0.0.1", 0))
        super().__init__(NameServerConfig(http_port=self.listening.getsockname()[1], **config))
        self.admin_token = AdminToken(admin_token)
        self.read_token = AdminToken(read_token)
        # Before, nobody may watch it.
        self.health.serving = Serving.READY

    def app(self):
        app = super().app()
        tokens = HttpTokens(self.admin_token)
        Console("rmq-namesrv", self.config, tokens, self.read_token, self.clock, self.counters, self.logs).add_to(app)
        return app

    @property
    def host(self):
        return f"127.0.0.1:{self.server.port}"

    async def change(self, method, path, **kwargs):
        """Send a request as the console's own page does."""
        headers = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"} | kwargs.pop("headers", {})
        return await self.request(method, path, headers=headers, **kwargs)

    async def sign_in(self, token):
        """Return status, headers and body; the client keeps the cookie."""
        return await self.change("POST", "/ui/session", json={"token": token})

    def events(self, name):
        return [line for line in self.lines.decoded() if line["event"] == name]


@contextlib.asynccontextmanager
async def a_peer(handler):
    """Another server: answers every request with `handler`; yields its URL."""

    async def answer(request):
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    port = socket.create_server(("127.0.0.1", 0))
    try:
        await web.SockSite(runner, port).start()
        yield f"http://127.0.0.1:{port.getsockname()[1]}"
    finally:
        await runner.cleanup()
