"""A path of the HTTP API, declared once: on the method that answers it.

    class TopicViews:
        def __init__(self, topics: Topics) -> None:
            self._topics = topics

        @get("/v1/topics/{topic}", parts=(Parameter("topic", "Its name."),), refusals=(404,))
        def topic(self, request: ViewRequest) -> TopicView:
            \"\"\"Queues of a topic.\"\"\"

        @post("/v1/topics", answer=TopicView, status=201, refusals=(409,))
        async def create(self, body: NewTopic) -> Topic:
            \"\"\"A new topic.\"\"\"

    endpoints = endpoints_of(TopicViews(topics), OtherViews())
    make_app(kind, endpoints, ...)

The summary is the first line of the docstring, the shape of the answer is the return annotation, and that of the body
is the annotation of the parameter `body`. A method takes `request`, `body`, both or neither. With `answer` it may
return any object that has the fields of that shape as attributes (a struct or a dataclass, also within lists; no
NamedTuple), or the answer as encoded JSON. Annotations are resolved when the table is made, so their names must exist
at run time.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypedDict, TypeVar, Unpack, get_type_hints

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
    """One method of one path; a body is decoded strictly, so all shapes in it forbid unknown fields.

    One that is no GET changes something, so it needs a token (`admin_access.py`): that of operators, unless clients
    send it as a part of their work.
    """

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


_Function = TypeVar("_Function", bound=Callable[..., Any])

#: The attribute of a function that holds its declaration.
_DECLARED: Final = "declared_path"


class PathOptions(TypedDict, total=False):
    """What a path has beside its method: fields of `Endpoint`, and two of their own."""

    #: Shape of the answer, where the method returns something that is turned into it.
    answer: type[msgspec.Struct]
    #: The answer is a list in pages: the path takes `limit` and `cursor` after its own parameters.
    paged: bool
    content_type: str
    parameters: tuple[Parameter, ...] | None
    parts: tuple[Parameter, ...]
    refusals: tuple[int, ...]
    body_bytes_max: int
    status: Literal[200, 201, 202]
    is_for_clients: bool
    concurrent_max: int
    waits: bool
    streams: bool
    has_details: bool
    is_lookup: bool


class _Declared(NamedTuple):
    method: Method
    path: str
    options: PathOptions


def _declare(method: Method, path: str, **options: Unpack[PathOptions]) -> Callable[[_Function], _Function]:
    """Answer a method of a path with the decorated function; what is no GET, only to whoever shows the token."""

    def declare(function: _Function) -> _Function:
        function.__dict__[_DECLARED] = _Declared(method, path, options)
        return function

    return declare


#: Answers HEAD too.
get: Final = partial(_declare, "GET")
post: Final = partial(_declare, "POST")
put: Final = partial(_declare, "PUT")
delete: Final = partial(_declare, "DELETE")


def endpoints_of(*views: object) -> tuple[Endpoint, ...]:
    """Return all paths that some objects declare, in the order of the objects and of their methods."""
    return tuple(endpoint for owner in views for endpoint in _endpoints(owner))


def _endpoints(owner: object) -> Iterator[Endpoint]:
    names = dict.fromkeys(name for kind in reversed(type(owner).__mro__) for name in vars(kind))
    for name in names:
        function = getattr(type(owner), name)
        if isinstance(declared := getattr(function, _DECLARED, None), _Declared):
            yield _endpoint(getattr(owner, name), declared)


def _endpoint(method: Callable[..., Any], declared: _Declared) -> Endpoint:
    hints = get_type_hints(method)
    takes = tuple(inspect.signature(method).parameters)
    options: dict[str, Any] = {**declared.options}
    returned = hints["return"]
    shape = options.pop("answer", None if returned in (bytes, str) else returned)
    if options.get("streams"):
        shape = None
    if options.pop("paged", False):
        options["parameters"] = (*options.get("parameters", ()), *PAGED)
    return Endpoint(
        path=declared.path,
        view=_view(method, takes, shape),
        summary=(inspect.getdoc(method) or "").partition("\n")[0],
        shape=shape,
        method=declared.method,
        body=hints.get("body"),
        **options,
    )


def _view(method: Callable[..., Any], takes: Sequence[str], shape: type | None) -> View:
    def shaped(value: Any) -> Any:
        if shape is None or isinstance(value, (shape, bytes)):
            return value
        return msgspec.convert(value, shape, from_attributes=True)

    async def later(value: Awaitable[Any]) -> Any:
        return shaped(await value)

    def view(request: ViewRequest) -> Any:
        given = {"request": request, "body": request.body}
        value = method(**{name: given[name] for name in takes})
        return later(value) if inspect.isawaitable(value) else shaped(value)

    return view
