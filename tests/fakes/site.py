"""A NameServer's state with its HTTP server on a free port, without the remoting side."""

import socket

import aiohttp
from yarl import URL

from fakes.admin_token import ADMIN_TOKEN
from fakes.clock import FakeClock
from fakes.lines import Lines
from namesrv.core.route_state import RouteState
from namesrv.http.metrics import NameServerMetrics, NameServerMetricSources
from namesrv.http.views import views_of
from namesrv.http.watches import Watches
from namesrv.observability.event_log import NameServerEventLog
from namesrv.observability.metric_catalogue import DECLARED
from namesrv.settings.config import NAMESRV, NameServerConfig
from namesrv.settings.durable_settings import DurableSettings
from namesrv.settings.kv_config import KvConfig
from namesrv.wire.cooperative_runner import CooperativeRunner
from namesrv.wire.route_requests import RouteRequestHandler
from remoting.server.statistics import ServerStatistics
from serving.http.admin_access import AdminToken, HttpTokens
from serving.http.paths import endpoints_of
from serving.http.server import make_app, start_http
from serving.logging.logs import Logs, json_line
from serving.metrics.health import Health
from serving.metrics.server_counters import ServerCounters
from serving.process.background_tasks import logged_tasks
from serving.telemetry.telemetry import Telemetry


class Site:
    #: A port that is open already; None for any free one.
    listening = None

    def __init__(self, config=None, served_at=("0.0.0.0", 9876)):
        self.config = config or NameServerConfig()
        self.clock = FakeClock()
        self.lines = Lines()
        self.logs = Logs(self.lines, json_line(), self.clock, {})
        self.state = RouteState(self.config)
        self.counters = ServerCounters()
        self.telemetry = Telemetry(self.logs, DECLARED, living=self.state.tables.brokers.clusters)
        self.event_log = NameServerEventLog(self.logs, self.counters, self.telemetry, self.config)
        self.settings = DurableSettings(self.config, KvConfig(), self.event_log, self.state.configure, lambda _: None)
        self.health = Health()
        self.admin_token = AdminToken(ADMIN_TOKEN)
        self.background = logged_tasks(self.logs)
        self.background.failures["a_task"] = 0
        self.route_counts = self.state.route_cache.counts
        self.statistics = ServerStatistics()
        self.watches = Watches(self.state, self.settings, self.config.route_watchers_max, self.clock, self.event_log)
        self.metrics = NameServerMetrics(
            NameServerMetricSources(
                state=self.state,
                settings=self.settings,
                statistics=self.statistics,
                counters=self.counters,
                telemetry=self.telemetry,
                logs=self.logs,
                health=self.health,
                task_failures=self.background.failures,
                clock=self.clock,
                watches=self.watches,
            )
        )
        self.views = views_of(
            self.state,
            self.settings,
            self.health,
            self.clock,
            self.watches,
            served_at,
            lambda: self.metrics.text(),  # noqa: PLW0108  # a test may put another in its place
            RouteRequestHandler(self.state, self.settings, self.clock, CooperativeRunner()),
        )

    def record(self, outcome):
        """Log and count the events of an outcome."""
        self.event_log.record(outcome.events)

    def app(self):
        tokens = HttpTokens(self.admin_token)
        return make_app(NAMESRV, endpoints_of(*self.views), self.counters, self.logs, tokens)

    async def __aenter__(self):
        self.server = await start_http(self.app(), self.listening or socket.create_server(("127.0.0.1", 0)))
        self.url = f"http://127.0.0.1:{self.server.port}"
        # Unsafe: it keeps cookies of IP addresses, as browsers do.
        self.session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        return self

    async def __aexit__(self, *_):
        await self.session.close()
        await self.server.stop()
        self.logs.close(1)

    async def get(self, path, **kwargs):
        """Return status and body; JSON bodies decoded."""
        status, _, body = await self.request("GET", path, **kwargs)
        return status, body

    async def request(self, method, path, **kwargs):
        """Return status, headers and body; JSON bodies decoded, a stream of events closed."""
        url = URL(self.url + path, encoded=True)
        async with self.session.request(method, url, **kwargs) as response:
            if response.content_type == "text/event-stream":
                # It never ends; leaving closes it.
                return response.status, response.headers, ""
            is_json = response.content_type == "application/json" and method != "HEAD"
            body = await (response.json() if is_json else response.text())
            return response.status, response.headers, body
