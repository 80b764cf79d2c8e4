"""Requests over HTTP, their refusals, and the bodies that every server has, as values; imports no web server."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import msgspec

from serving.config.checks import shortened
from serving.http.pages import BadCursor, Key, ListPage, PageRequest, page_of

Shape = TypeVar("Shape", bound=msgspec.Struct)

# Bodies of answers; `openapi.py` describes them from here


class Fault(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What went wrong."""

    #: One word for programs: `bad_request`, `unauthorized`, `forbidden`, `not_found`, `method_not_allowed`,
    #: `timed_out`, `conflict`, `too_large`, `unsupported_media_type`, `unprocessable`, `too_many_requests`, `internal`,
    #: `unavailable`, `not_leader`; of the console also `misdirected`, `bad_gateway`, `gateway_timeout`.
    code: str
    #: One sentence for people.
    message: str
    #: host:port of the server that leads, where this one does not and another one is known to.
    leader_address: str = ""


class ErrorAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """Body of every answer with status 400 or above."""

    error: Fault


class HealthAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The probe succeeded."""

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
    #: Seconds after which the same request may succeed; 0: not said.
    retry_after_s = 0
    leader_address = ""


class NotFound(HttpRefused):
    """Not found."""

    status = 404
    code = "not_found"


class RequestTimedOut(HttpRefused):
    """The request did not arrive in time."""

    status = 408
    code = "timed_out"


class StateConflict(HttpRefused):
    """The request conflicts with the present state; later, or after another request, it may succeed."""

    status = 409
    code = "conflict"


class BodyTooLarge(HttpRefused):
    """The body is longer than its limit."""

    status = 413
    code = "too_large"


class UnsupportedMediaType(HttpRefused):
    """The body is not plain JSON."""

    status = 415
    code = "unsupported_media_type"


class UnprocessableBody(HttpRefused):
    """The body is JSON with fields or values that are not allowed."""

    status = 422
    code = "unprocessable"


class TooManyRequests(HttpRefused):
    """The server is at its limit; nothing of the request was done."""

    status = 429
    code = "too_many_requests"

    def __init__(self, sentence: str, retry_after_s: int = 1) -> None:
        super().__init__(sentence)
        self.retry_after_s = retry_after_s


class Places:
    """How many requests of one kind are worked on at a time."""

    def __init__(self, places_max: int, refusal: str) -> None:
        self._free = places_max
        self._refusal = refusal

    @contextmanager
    def one(self) -> Iterator[None]:
        """Take a place for as long as this lasts; raises TooManyRequests if none is free."""
        if not self._free:
            raise TooManyRequests(self._refusal)
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1


class Unavailable(HttpRefused):
    """This server cannot answer now."""

    status = 503
    code = "unavailable"

    def __init__(self, sentence: str, retry_after_s: int | None = None) -> None:
        super().__init__(sentence)
        if retry_after_s is not None:
            self.retry_after_s = retry_after_s


class ViewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request, checked against the parameters that its path takes."""

    #: Parts of the path by name.
    path: Mapping[str, str] = msgspec.field(default_factory=dict)
    page: PageRequest = msgspec.field(default_factory=PageRequest)
    prefix: str = ""
    #: The parameters that are given, by name.
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    #: The values of those that may be given more than once, by name.
    repeated: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    #: The Last-Event-ID header: where a client of events goes on.
    last_event_id: str = ""
    #: The Host header, or the address the request came to.
    host: str = ""
    #: The address of the peer, without its port: several clients may share one.
    client: str = ""
    #: Who reads is on this machine, or has shown the admin token; set where the endpoint has details.
    sees_details: bool = False
    #: The decoded body, of the shape that the endpoint takes; None where it takes none.
    body: Any = None


def view_of(shape: type[Shape], value: object, **others: Any) -> Shape:
    """Return a view of a value: the fields that are given, and the rest from its attributes of the same names."""
    names = zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True)
    fields = {encoded: others[name] if name in others else getattr(value, name) for name, encoded in names}
    return msgspec.convert(fields, shape, from_attributes=True)


def requested_page(keys: Sequence[Key], request: ViewRequest, kind: type[Key]) -> ListPage[Key]:
    """Return the part of sorted `keys` that is requested; raises HttpRefused."""
    try:
        return page_of(keys, request.page, kind)
    except BadCursor:
        raise HttpRefused("cursor must be the nextCursor of the previous page of the same list.") from None


def requested_number(request: ViewRequest, name: str, most: int, default: int = 0) -> int:
    """Return a parameter that is a whole number from 0 to `most`; raises HttpRefused."""
    text = request.query.get(name)
    if text is None:
        return default
    # The length first: turning a million digits into a number takes a while.
    if len(text) > len(str(most)) or not (text.isascii() and text.isdigit()) or int(text) > most:
        raise HttpRefused(f"{name} must be a whole number from 0 to {most}, not {shortened(text)}.")
    return int(text)
