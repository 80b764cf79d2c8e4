"""Reads the HTTP API of our servers. The edge.

`http.client` of the standard library: a client of aiohttp takes 150 ms to import.
"""

import asyncio
import http.client
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec

from rmq.failures import CommandFailed, NoRights, NotReachable, NotSupportedThere
from rmq.site.http_connection import connection_to
from rmq.site.settings import SiteSettings

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024

_OK: Final = 200
_DENIED: Final = frozenset({401, 403})
_NOT_FOUND: Final = 404


Document = TypeVar("Document", bound=msgspec.Struct)


class HttpRefusalBody(msgspec.Struct, frozen=True):
    """How our servers refuse a request."""

    message: str = ""


class HttpProblem(Exception):
    """One server gave no answer of our HTTP API; the text says why."""


async def read_controller(
    settings: SiteSettings, path: str, parameters: Mapping[str, str], shape: type[Document]
) -> Document:
    """Return what the first controller answers, in this shape; raises CommandFailed."""
    problems = []
    for url in settings.controller_http:
        try:
            return await asyncio.to_thread(_read, settings, url, _target(path, parameters), shape)
        except HttpProblem as problem:
            problems.append(f"{url}: {problem}")
    raise NotReachable("; ".join(problems))


def _target(path: str, parameters: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(parameters)}" if parameters else path


def _read(settings: SiteSettings, url: str, target: str, shape: type[Document]) -> Document:
    try:
        connection = connection_to(settings, url, settings.timeout_s)
    except ValueError as error:
        raise HttpProblem(f"no URL: {error}") from None
    try:
        connection.request("GET", target, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        body = answer.read(ANSWER_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        raise HttpProblem(
            f"no HTTP answer: {getattr(error, 'strerror', None) or str(error) or type(error).__name__}"
        ) from None
    finally:
        connection.close()
    return _checked(url, answer.status, body, shape)


def _checked(url: str, status: int, body: bytes, shape: type[Document]) -> Document:
    try:
        if status == _OK:
            return msgspec.json.decode(body, type=shape)
        reason = msgspec.json.decode(body, type=HttpRefusalBody).message
    except (msgspec.DecodeError, UnicodeDecodeError):
        reason = ""
    if status in {_OK, _NOT_FOUND}:
        raise NotSupportedThere(f"{url} has no such HTTP API: is it a controller's, of this product?")
    kind = NoRights if status in _DENIED else CommandFailed
    raise kind(f"{url}: HTTP status {status}" + (f": {reason}" if reason else ", and no JSON"))
