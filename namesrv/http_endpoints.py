"""Every HTTP path: its view, its answer, what it takes; the web server and OpenAPI are made from this table."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from namesrv.http_pages import LIMIT_DEFAULT, LIMIT_MAX
from namesrv.http_shapes import (
    BrokerListing,
    BrokerSetView,
    ClusterListing,
    ConfigView,
    HealthAnswer,
    KvListing,
    KvNamespaceListing,
    TopicListing,
)
from namesrv.http_views import Asked, Views
from remoting.shapes.route import TopicRouteData

#: The text format of Prometheus.
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
TEXT_TYPE: Final = "text/plain; charset=utf-8"
JSON_TYPE: Final = "application/json"

View = Callable[[Views, Asked], Any | Awaitable[Any]]


class Parameter(msgspec.Struct, frozen=True):
    """Something that a path takes in its query."""

    name: str
    explanation: str
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "string"})


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One path."""

    path: str
    #: Turns what is asked into the value that is answered.
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


_PAGED: Final = (
    Parameter(
        "limit",
        f"Items on a page; {LIMIT_DEFAULT} unless told.",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
    Parameter("cursor", "The nextCursor of the page before."),
)
_PREFIX: Final = Parameter("prefix", "Only topics that begin with this.")

ENDPOINTS: Final = (
    Endpoint(
        path="/healthz",
        view=Views.alive,
        summary="The process is up (startup probe).",
        shape=HealthAnswer,
        parameters=None,
    ),
    Endpoint(
        path="/livez",
        view=Views.alive,
        summary="The event loop answers (liveness probe).",
        shape=HealthAnswer,
        parameters=None,
    ),
    Endpoint(
        path="/readyz",
        view=Views.ready,
        summary="Brokers and clients are served, and the stop has not begun (readiness probe).",
        shape=HealthAnswer,
        parameters=None,
        refusals=(503,),
    ),
    Endpoint(
        path="/metrics",
        view=Views.metrics,
        summary="Metrics in the text format of Prometheus.",
        content_type=METRICS_TYPE,
        parameters=None,
    ),
    Endpoint(
        path="/v1/clusters",
        view=Views.clusters,
        summary="Clusters in numbers.",
        shape=ClusterListing,
        parameters=_PAGED,
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/brokers",
        view=Views.brokers,
        summary="Living brokers.",
        shape=BrokerListing,
        parameters=_PAGED,
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/brokers/{name}",
        view=Views.broker_set,
        summary="One broker set.",
        shape=BrokerSetView,
        parts=(Parameter("name", "The brokerName."),),
        refusals=(400, 404),
    ),
    Endpoint(
        path="/v1/topics",
        view=Views.topics,
        summary="Topics.",
        shape=TopicListing,
        parameters=(_PREFIX, *_PAGED),
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/topics/{topic}/route",
        view=Views.route,
        summary="The route of a topic, as a client without a zone gets it.",
        shape=TopicRouteData,
        parts=(Parameter("topic", "Name of the topic, percent-encoded: %25RETRY%25group for a retry topic."),),
        refusals=(400, 404),
    ),
    Endpoint(
        path="/v1/kv",
        view=Views.kv_namespaces,
        summary="KV namespaces.",
        shape=KvNamespaceListing,
        parameters=_PAGED,
        refusals=(400,),
    ),
    Endpoint(
        path="/v1/kv/{namespace}",
        view=Views.kv_entries,
        summary="Entries of a KV namespace.",
        shape=KvListing,
        parameters=_PAGED,
        parts=(Parameter("namespace", "Name of the namespace."),),
        refusals=(400, 404),
    ),
    Endpoint(
        path="/v1/config",
        view=Views.config,
        summary="The properties in force, secrets masked.",
        shape=ConfigView,
        refusals=(400,),
    ),
    Endpoint(
        path="/rocketmq/nsaddr",
        view=Views.nsaddr,
        summary="NameServers for clients that look them up: namesrvAddrList, else this server by the asked host name.",
        content_type=TEXT_TYPE,
        parameters=None,
        refusals=(400, 503),
    ),
    Endpoint(
        path="/rocketmq/nsaddr-{unit}",
        view=Views.nsaddr,
        summary="The same for clients with a unit name; every unit gets the same NameServers.",
        content_type=TEXT_TYPE,
        parameters=None,
        parts=(Parameter("unit", "The unitName of the client."),),
        refusals=(400, 503),
    ),
)
