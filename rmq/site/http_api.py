"""Reads the HTTP API of our servers. The edge.

`http.client` of the standard library: a client of aiohttp takes 150 ms to import.
"""

import asyncio
import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
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
#: The server failed, or is not ready: another one may answer.
_FAULTS: Final = range(500, 600)
_MS: Final = 1000


Document = TypeVar("Document", bound=msgspec.Struct)


class HttpFault(msgspec.Struct, frozen=True):
    """What went wrong, in a sentence."""

    message: str


class HttpRefusalBody(msgspec.Struct, frozen=True):
    """How our servers refuse a request."""

    error: HttpFault


class HttpProblem(Exception):
    """One server gave no answer of our HTTP API; the text says why."""

    kind: type[CommandFailed] = NotReachable


class ServerFault(HttpProblem):
    """One server answered that it cannot answer now."""

    kind = CommandFailed


async def read_controller(
    settings: SiteSettings, path: str, parameters: Mapping[str, str], shape: type[Document]
) -> Document:
    """Return what the first controller answers, in this shape; raises CommandFailed."""
    problems: list[HttpProblem] = []
    for url in settings.controller_http:
        try:
            return await asyncio.to_thread(_read, settings, url, _target(path, parameters), shape)
        except HttpProblem as problem:
            problems.append(problem)
    # One that answered, if any did, says more than those that are away.
    kind = next((each.kind for each in problems if isinstance(each, ServerFault)), NotReachable)
    raise kind("; ".join(map(str, problems)))


def _target(path: str, parameters: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(parameters)}" if parameters else path


def _read(settings: SiteSettings, url: str, target: str, shape: type[Document]) -> Document:
    try:
        connection = connection_to(settings, url, settings.timeout_s)
    except ValueError as error:
        raise HttpProblem(f"no URL: {error}") from None
    try:
        status, body = _exchange(connection, target, settings.timeout_s)
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", None) or error.reason
        raise NoRights(f"{url}: no TLS session: {why} (is it http://, or does --tls-ca name who signed?)") from None
    except TimeoutError:
        raise HttpProblem(f"{url}: no answer within {settings.timeout_s * _MS:.0f} ms") from None
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise HttpProblem(f"{url}: no HTTP answer: {why}") from None
    finally:
        connection.close()
    return _checked(url, status, body, shape)


def _exchange(connection: http.client.HTTPConnection, target: str, timeout_s: float) -> tuple[int, bytes]:
    """Return status and body; raises TimeoutError if all of it has not come in time, however busy the peer is."""
    connection.connect()
    peer = connection.sock
    is_late = threading.Event()

    def cut() -> None:
        is_late.set()
        with suppress(OSError):
            # Not that of TLS, which changes what the reading thread has in hand.
            socket.socket.shutdown(peer, socket.SHUT_RDWR)

    # The timeout of a socket counts from each byte anew.
    timer = threading.Timer(timeout_s, cut)
    timer.daemon = True
    timer.start()
    try:
        connection.request("GET", target, headers={"Accept": "application/json"})
        with connection.getresponse() as answer:
            status, body = answer.status, answer.read(ANSWER_BYTES_MAX + 1)
            if answer.length and len(body) <= ANSWER_BYTES_MAX:
                raise http.client.IncompleteRead(body, answer.length)
    except (OSError, http.client.HTTPException):
        if not is_late.is_set():
            raise
    finally:
        timer.cancel()
    if is_late.is_set():
        raise TimeoutError
    return status, body


def _checked(url: str, status: int, body: bytes, shape: type[Document]) -> Document:
    if len(body) > ANSWER_BYTES_MAX:
        raise CommandFailed(f"{url}: the answer has more than {ANSWER_BYTES_MAX} bytes")
    try:
        if status == _OK:
            return msgspec.json.decode(body, type=shape)
        reason = msgspec.json.decode(body, type=HttpRefusalBody).error.message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        reason = ""
    if status in {_OK, _NOT_FOUND}:
        raise NotSupportedThere(f"{url} has no such HTTP API: is it a controller's, of this product?")
    sentence = f"{url}: HTTP status {status}" + (f": {reason}" if reason else ", and no reason that can be read")
    if status in _FAULTS:
        raise ServerFault(sentence)
    raise (NoRights if status in _DENIED else CommandFailed)(sentence)
