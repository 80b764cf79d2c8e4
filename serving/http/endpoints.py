"""What an HTTP endpoint is; the web server and OpenAPI are made from a table of them.

One that is no GET changes something, so it needs a token (`admin_access.py`): that of operators, unless clients send it
as a part of their work.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import msgspec

from serving.http.pages import LIMIT_DEFAULT, LIMIT_MAX
from serving.http.views import ViewRequest

TEXT_TYPE: Final = "text/plain; charset=utf-8"
EVENT_STREAM_TYPE: Final = "text/event-stream"
JSON_TYPE: Final = "application/json"

#: Longest body of a request, in bytes, where the endpoint has no limit of its own.
BODY_BYTES_MAX: Final = 64 * 1024

Method = Literal["GET", "POST", "PUT", "DELETE"]

View = Callable[[ViewRequest], Any | Awaitable[Any]]


class Parameter(msgspec.Struct, frozen=True):
    """Something that a path takes in its query."""

    name: str
    explanation: str
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "string"})
    #: It may be given more than once.
    is_repeated: bool = False


class Endpoint(msgspec.Struct, frozen=True):
    """One method of one path; a body is decoded strictly, so all shapes in it forbid unknown fields."""

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
    #: Statuses of refusals, beside 500 and those that every request with this method or a body may get.
    refusals: tuple[int, ...] = ()
    #: HEAD is answered wherever GET is.
    method: Method = "GET"
    #: Shape of the request's body, JSON; None for no body.
    body: type[msgspec.Struct] | None = None
    body_bytes_max: int = BODY_BYTES_MAX
    #: Of an answer that is no refusal.
    status: Literal[200, 201, 202] = 200
    #: Clients send it, often: the token of clients is enough, and no line is logged of each.
    is_for_clients: bool = False
    #: So many are worked on at a time, their bodies in memory; those beyond it are answered 429. 0: no limit.
    concurrent_max: int = 0
    #: A GET that may wait for something to happen; the view is cancelled once its client is gone.
    waits: bool = False
    #: The view returns an `EventStream`.
    streams: bool = False
    #: Its answer has details that strangers do not see: `ViewRequest.sees_details`.
    has_details: bool = False
    #: Clients look it up: the port for look-ups answers it, and nothing else.
    is_lookup: bool = False

    @property
    def changes(self) -> bool:
        return self.method != "GET"

    @property
    def repeated(self) -> tuple[Parameter, ...]:
        return tuple(each for each in self.parameters or () if each.is_repeated)

    @property
    def all_refusals(self) -> tuple[int, ...]:
        admin = (400, 401, 403) if self.changes else ()
        body = (408, 413, 415, 422) if self.body else ()
        busy = (429,) if self.concurrent_max else ()
        return tuple(sorted({*self.refusals, *admin, *body, *busy, 500}))


LIMIT: Final = Parameter(
    "limit",
    f"Items on a page; {LIMIT_DEFAULT} by default.",
    {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
)
#: What a path takes whose answer is a list in pages.
PAGED: Final = (LIMIT, Parameter("cursor", "nextCursor of the previous page."))


ANSWER_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
