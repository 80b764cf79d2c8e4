"""Sends requests to the HTTP API of our servers. The edge.

`http.client` of the standard library: a client of aiohttp takes 150 ms to import.
"""

import asyncio
import http.client
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from rmq.failures import CommandFailed, NoRights, NotReachable, NotSupportedThere, UnknownName
from rmq.site.access import private_text
from rmq.site.settings import SiteSettings

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024

_DONE: Final = frozenset({200, 201})
_DENIED: Final = frozenset({401, 403})
_NOT_FOUND: Final = 404
_NOT_LEADER: Final = "not_leader"
#: How our servers answer a path that they do not have.
_NO_PATH: Final = "There is nothing at "

Document = TypeVar("Document", bound=msgspec.Struct)


class HttpServers(NamedTuple):
    """Servers of one kind, of which one answers for all."""

    urls: tuple[str, ...]
    #: "controller" or "offset manager".
    kind: str
    #: Where its addresses are given: "--controller-http".
    option: str


class ApiRequest(NamedTuple, Generic[Document]):
    """A request, and the shape of its answer. One that is no GET changes something, and shows the admin token."""

    path: str
    shape: type[Document]
    parameters: Mapping[str, str] = {}
    method: str = "GET"
    body: msgspec.Struct | None = None
    #: How long the server may take for it; None: as long as for any request.
    timeout_s: float | None = None
    #: Only previews what it would change: it may be sent again.
    is_preview: bool = False


class _HttpFault(msgspec.Struct, frozen=True, rename="camel"):
    code: str = ""
    message: str = ""
    leader_address: str = ""


class _ErrorAnswer(msgspec.Struct, frozen=True):
    error: _HttpFault


class _Skipped(Exception):
    """This server has not done it, and another one may; the text says why."""


class _Follows(_Skipped):
    """Another server of the group leads."""


def controllers(settings: SiteSettings) -> HttpServers:
    """Return the controllers by HTTP."""
    return HttpServers(settings.controller_http, "controller", "--controller-http")


def offset_managers(settings: SiteSettings) -> HttpServers:
    """Return the offset managers."""
    return HttpServers(settings.offset_manager, "offset manager", "--offset-manager")


def path_of(*parts: str) -> str:
    """Return a path below /v1 with these parts, whatever characters they have."""
    return "/v1/" + "/".join(quote(each, safe="") for each in parts)


async def call(settings: SiteSettings, servers: HttpServers, request: ApiRequest[Document]) -> Document:
    """Return what the first of the servers answers that can, in the shape of the request; raises CommandFailed."""
    skipped: list[tuple[str, _Skipped]] = []
    for url in servers.urls:
        try:
            return await asyncio.to_thread(_answer, settings, servers, url, request)
        except _Skipped as problem:
            skipped.append((url, problem))
    text = "; ".join(f"{url}: {problem}" for url, problem in skipped)
    if any(isinstance(problem, _Follows) for _, problem in skipped):
        raise CommandFailed(f"{text}; name all of them with {servers.option}")
    is_default = servers.option.removeprefix("--").replace("-", "_") in settings.defaults
    raise NotReachable(f"{text}; name it with {servers.option} or a profile" if is_default else text)


async def read_controller(
    settings: SiteSettings, path: str, parameters: Mapping[str, str], shape: type[Document]
) -> Document:
    """Return what the first controller answers to a GET, in this shape; raises CommandFailed."""
    return await call(settings, controllers(settings), ApiRequest(path, shape, parameters))


def _answer(settings: SiteSettings, servers: HttpServers, url: str, request: ApiRequest[Document]) -> Document:
    connection = _connection(settings, url, request.timeout_s)
    headers = {"Accept": "application/json"}
    body = None if request.body is None else msgspec.json.encode(request.body)
    if request.method != "GET":
        headers |= {"Content-Type": "application/json"} | _authorization(settings)
    target = f"{request.path}?{urlencode(request.parameters)}" if request.parameters else request.path
    try:
        connection.connect()
    except (OSError, http.client.HTTPException) as error:
        raise _Skipped(f"no HTTP answer: {_reason(error)}") from None
    try:
        connection.request(request.method, target, body, headers)
        answer = connection.getresponse()
        text = answer.read(ANSWER_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        if request.method == "GET" or request.is_preview:
            raise _Skipped(f"no HTTP answer: {_reason(error)}") from None
        raise NotReachable(
            f"{url}: no HTTP answer: {_reason(error)}; it may be done all the same: look before you repeat it"
        ) from None
    finally:
        connection.close()
    return _checked(servers, url, answer.status, text, request.shape)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _authorization(settings: SiteSettings) -> dict[str, str]:
    if not settings.admin_token_file:
        return {}
    lines = private_text(Path(settings.admin_token_file).expanduser(), "--admin-token-file").split("\n")
    token = lines[0].strip()
    if not token.isascii() or not token.isprintable():
        raise NoRights(f"--admin-token-file: the first line of {settings.admin_token_file} is no token")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _connection(settings: SiteSettings, url: str, timeout_s: float | None) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    timeout = max(timeout_s or 0, settings.timeout_s)
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise _Skipped(f"no URL: {error}") from None
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=settings.tls_ca or None)
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    return http.client.HTTPConnection(host, port, timeout=timeout)


def _checked(servers: HttpServers, url: str, status: int, body: bytes, shape: type[Document]) -> Document:
    try:
        if status in _DONE:
            return msgspec.json.decode(body, type=shape)
        fault = msgspec.json.decode(body, type=_ErrorAnswer).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        if status in _DONE or status == _NOT_FOUND:
            raise _not_this_product(servers, url) from None
        raise _kind_of(status)(f"{url}: HTTP status {status}, and no JSON of this product") from None
    if fault.code == _NOT_LEADER:
        raise _Follows(fault.message)
    if status == _NOT_FOUND and fault.message.startswith(_NO_PATH):
        raise _not_this_product(servers, url)
    advice = " Name a file with the token: --admin-token-file" if status in _DENIED else ""
    raise _kind_of(status)(f"{url}: HTTP status {status}: {fault.message}{advice}")


def _not_this_product(servers: HttpServers, url: str) -> NotSupportedThere:
    article = "an" if servers.kind.startswith("o") else "a"
    return NotSupportedThere(f"{url} has no such HTTP API: is it {article} {servers.kind}'s, of this product?")


def _kind_of(status: int) -> type[CommandFailed]:
    if status in _DENIED:
        return NoRights
    return UnknownName if status == _NOT_FOUND else CommandFailed
