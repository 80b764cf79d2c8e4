"""Bodies of requests that change something: JSON of a limited size, decoded strictly into the shape of the endpoint."""

import asyncio
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from serving.config.checks import shortened
from serving.http.paths import JSON_TYPE, Endpoint
from serving.http.views import BodyTooLarge, HttpRefused, RequestTimedOut, UnprocessableBody, UnsupportedMediaType

#: Seconds in which a body has to come.
BODY_S: Final = 10


async def read_body(endpoint: Endpoint, request: web.Request) -> Any:
    """Return the decoded body, None for an endpoint that takes none; raises HttpRefused."""
    if endpoint.body is None:
        if request.body_exists:
            raise HttpRefused(f"{request.method} {endpoint.path} takes no body.")
        return None
    _check_type(request)
    try:
        async with asyncio.timeout(BODY_S):
            text = await _limited(request, endpoint.body_bytes_max)
    except TimeoutError:
        raise RequestTimedOut(f"The body has not come within {BODY_S} s.") from None
    return decoded_body(text, endpoint.body)


def decoded_body(text: bytes, shape: type[msgspec.Struct]) -> Any:
    """Return the body as its shape; raises HttpRefused with the path of the field that does not fit."""
    try:
        return msgspec.json.decode(text, type=shape)
    except msgspec.ValidationError as error:
        raise UnprocessableBody(f"The body is invalid: {_with_path(str(error))}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HttpRefused(f"The body is not JSON: {shortened(str(error))}.") from None
    except RecursionError:
        raise HttpRefused("The body is nested too deeply.") from None


def _with_path(problem: str) -> str:
    """Return what does not fit, shortened, with the whole path of its field where there is one."""
    what, at, path = problem.rpartition(" - at ")
    return f"{shortened(what)}{at}{shortened(path)}"


def _check_type(request: web.Request) -> None:
    # A page of another site can send no request of this type unless it is permitted to.
    if request.content_type != JSON_TYPE or hdrs.CONTENT_TYPE not in request.headers:
        raise UnsupportedMediaType(f"Content-Type must be {JSON_TYPE}.")
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        raise UnsupportedMediaType("The body must not be compressed: send it without Content-Encoding.")


async def _limited(request: web.Request, bytes_max: int) -> bytes:
    body = bytearray()
    if (request.content_length or 0) <= bytes_max:
        async for part in request.content.iter_any():
            body += part
            if len(body) > bytes_max:
                break
        else:
            return bytes(body)
    raise BodyTooLarge(f"The body is longer than {bytes_max} bytes.")
