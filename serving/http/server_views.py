"""The paths that every server has: probes, metrics, and the properties in force."""

from collections.abc import Awaitable, Callable
from typing import Final, Generic

from serving.config.server_config import Config
from serving.config.server_kind import ServerKind, listed_properties
from serving.http.paths import get
from serving.http.views import ConfigView, HealthAnswer, Unavailable
from serving.metrics.health import Health, Serving

#: The text format of Prometheus.
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class ProbeViews:
    def __init__(self, check_ready: Callable[[], None], metrics: Callable[[], Awaitable[bytes]]) -> None:
        """`check_ready` raises Unavailable unless peers should be sent here."""
        self._check_ready = check_ready
        self._metrics = metrics

    @get("/healthz", parameters=None)
    def healthz(self) -> HealthAnswer:
        """The process is up (startup probe)."""
        return HealthAnswer("ok")

    @get("/livez", parameters=None)
    def livez(self) -> HealthAnswer:
        """The event loop answers (liveness probe)."""
        return HealthAnswer("ok")

    @get("/readyz", parameters=None, refusals=(503,))
    def readyz(self) -> HealthAnswer:
        """Whether the server serves its peers and is not stopping (readiness probe)."""
        self._check_ready()
        return HealthAnswer("ready")

    @get("/metrics", content_type=METRICS_TYPE, parameters=None)
    async def metrics(self) -> bytes:
        """Metrics in the text format of Prometheus."""
        return await self._metrics()


class ConfigViews(Generic[Config]):
    def __init__(self, kind: ServerKind[Config], config: Callable[[], Config]) -> None:
        self._kind = kind
        self._config = config

    @get("/v1/config", refusals=(400,))
    def config(self) -> ConfigView:
        """The properties in force, secrets masked."""
        return ConfigView(listed_properties(self._kind, self._config()))


def check_serving(name: str, health: Health) -> None:
    """Raise Unavailable unless the server of this name serves its peers."""
    if health.serving is not Serving.READY:
        raise Unavailable(f"This {name} is {health.state}.")
