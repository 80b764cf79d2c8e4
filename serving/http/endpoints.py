"""What an HTTP path is, and those that any server has; the web server and OpenAPI are made from a table of them."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from serving.http.pages import LIMIT_DEFAULT, LIMIT_MAX
from serving.http.views import ConfigView, HealthAnswer, ServerViews, ViewRequest

#: The text format of Prometheus.
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
TEXT_TYPE: Final = "text/plain; charset=utf-8"
JSON_TYPE: Final = "application/json"

#: Takes the views of the server and the request.
View = Callable[[Any, ViewRequest], Any | Awaitable[Any]]


class Parameter(msgspec.Struct, frozen=True):
    """Something that a path takes in its query."""

    name: str
    explanation: str
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "string"})


class Endpoint(msgspec.Struct, frozen=True):
    """One path."""

    path: str
    #: Turns a request into the value that is answered.
    view: View
    summary: str
    #: Shape of the answer; None for text.
    shape: type | None = None
    content_type: str = JSON_TYPE
    #: What the query may hold; None takes anything and reads nothing.
    parameters: tuple[Parameter, ...] | None = ()
    #: Parts of the path, explained.
    parts: tuple[Parameter, ...] = ()
    #: Statuses of refusals, beside 500.
    refusals: tuple[int, ...] = ()


#: What a path takes whose answer is a list in pages.
PAGED: Final = (
    Parameter(
        "limit",
        f"Items on a page; {LIMIT_DEFAULT} by default.",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
    Parameter("cursor", "The nextCursor of the page before."),
)
#: Probes and metrics.
PROBES: Final = (
    Endpoint("/healthz", ServerViews.alive, "The process is up (startup probe).", HealthAnswer, parameters=None),
    Endpoint("/livez", ServerViews.alive, "The event loop answers (liveness probe).", HealthAnswer, parameters=None),
    Endpoint(
        "/readyz",
        ServerViews.ready,
        "Brokers and clients are served, and the stop has not begun (readiness probe).",
        HealthAnswer,
        parameters=None,
        refusals=(503,),
    ),
    Endpoint(
        "/metrics",
        ServerViews.metrics,
        "Metrics in the text format of Prometheus.",
        content_type=METRICS_TYPE,
        parameters=None,
    ),
)

CONFIG: Final = Endpoint(
    "/v1/config", ServerViews.config, "The properties in force, secrets masked.", ConfigView, refusals=(400,)
)
