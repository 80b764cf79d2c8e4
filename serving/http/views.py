"""Requests over HTTP, their refusals, the views of any server and their bodies, as values; imports no web server."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, Protocol

import msgspec

from serving.config.server_config import Config
from serving.config.server_kind import ServerKind, listed_properties
from serving.config.stored_config import StoredConfig
from serving.http.pages import BadCursor, Key, ListPage, PageRequest, page_of
from serving.metrics.health import Health, Serving

# Bodies of answers; `openapi.py` describes them from here


class Fault(msgspec.Struct, frozen=True, rename="camel"):
    """What went wrong."""

    #: One word for programs: `bad_request`, `unauthorized`, `forbidden`, `not_found`, `method_not_allowed`,
    #: `timed_out`, `conflict`, `too_large`, `unsupported_media_type`, `unprocessable`, `internal`, `unavailable`.
    code: str
    #: One sentence for people.
    message: str


class ErrorAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Body of every answer from 400 on."""

    error: Fault


class HealthAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The probe holds."""

    status: Literal["ok", "ready"]


class ConfigView(msgspec.Struct, frozen=True, rename="camel"):
    """The properties in force."""

    #: As in a configuration file, secrets masked.
    properties: dict[str, str]


# Requests and their refusals


class HttpRefused(Exception):
    """A request is answered with an error; the text is a sentence for people."""

    status = 400
    code = "bad_request"


class NotFound(HttpRefused):
    """There is no such thing."""

    status = 404
    code = "not_found"


class RequestTimedOut(HttpRefused):
    """The request did not come in time."""

    status = 408
    code = "timed_out"


class StateConflict(HttpRefused):
    """What is requested does not go together with what there is; later, or after another request, it may."""

    status = 409
    code = "conflict"


class BodyTooLarge(HttpRefused):
    """The body is longer than its limit."""

    status = 413
    code = "too_large"


class UnsupportedMediaType(HttpRefused):
    """The body is no plain JSON."""

    status = 415
    code = "unsupported_media_type"


class UnprocessableBody(HttpRefused):
    """The body is JSON, and its fields or their values are not allowed."""

    status = 422
    code = "unprocessable"


class Unavailable(HttpRefused):
    """This server does not want to be used now."""

    status = 503
    code = "unavailable"


class ViewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request, checked against the parameters that its path takes."""

    #: Parts of the path by name.
    path: Mapping[str, str] = msgspec.field(default_factory=dict)
    page: PageRequest = msgspec.field(default_factory=PageRequest)
    prefix: str = ""
    #: The Host header, or the address the request came to.
    host: str = ""
    #: The decoded body, of the shape that the endpoint takes; None where it takes none.
    body: Any = None


class MetricsText(Protocol):
    """What renders the metrics."""

    async def text(self) -> bytes:
        """Return the text format of Prometheus."""


class ServerViews(Generic[Config]):
    """One method per path; the views of a server are its children."""

    def __init__(
        self, kind: ServerKind[Config], health: Health, metrics: MetricsText, settings: StoredConfig[Config]
    ) -> None:
        self._kind = kind
        self._health = health
        self._metrics = metrics
        self._settings = settings

    def alive(self, _: ViewRequest) -> HealthAnswer:
        """Answer from the loop: who can answer lives."""
        return HealthAnswer("ok")

    def ready(self, _: ViewRequest) -> HealthAnswer:
        """Answer whether peers should be sent here; raises Unavailable."""
        self.check_ready()
        return HealthAnswer("ready")

    async def metrics(self, _: ViewRequest) -> bytes:
        """Return the metrics."""
        return await self._metrics.text()

    def config(self, _: ViewRequest) -> ConfigView:
        """Return the properties in force."""
        return ConfigView(listed_properties(self._kind, self._settings.config))

    def check_ready(self) -> None:
        """Raise Unavailable unless peers are served."""
        serving = self._health.serving
        if serving is not Serving.READY:
            raise Unavailable(f"This {self._kind.name} is {serving.value}.")


def requested_page(keys: Sequence[Key], request: ViewRequest, kind: type[Key]) -> ListPage[Key]:
    """Return the part of sorted `keys` that is requested; raises HttpRefused."""
    try:
        return page_of(keys, request.page, kind)
    except BadCursor:
        raise HttpRefused("cursor must be the nextCursor of the page before, of the same list.") from None
