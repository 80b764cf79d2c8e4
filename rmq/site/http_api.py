"""Sends requests to the HTTP API of our servers, and reads their answers. The edge."""

import asyncio
import http.client
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from remoting.transport.http_exchange import ANSWER_BYTES_MAX, HttpMessage, connection_to, exchange
from rmq.failures import (
    LOOK_BEFORE_REPEATING,
    WHILE_INTERRUPTED,
    CommandFailed,
    Interrupted,
    NoneNamed,
    NoRights,
    NotReachable,
    NotSupportedThere,
    UnknownName,
    WrongUse,
)
from rmq.site.access import private_text
from rmq.site.settings import SiteSettings

_DONE: Final = frozenset({200, 201})
_DENIED: Final = frozenset({401, 403})
_NOT_FOUND: Final = 404
#: The server failed, or is not ready: another one may answer.
_FAULTS: Final = range(500, 600)
_MS: Final = 1000
_NOT_LEADER: Final = "not_leader"
#: How our servers answer a path that they do not have.
_NO_PATH: Final = "There is nothing at "
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

Document = TypeVar("Document", bound=msgspec.Struct)
Result = TypeVar("Result")


class NotAnsweredNow(CommandFailed):
    """Servers answered that they cannot now: they are not ready, or none of them leads."""


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

    @property
    def is_read(self) -> bool:
        return self.method == "GET" or self.is_preview


class _HttpFault(msgspec.Struct, frozen=True, rename="camel"):
    code: str = ""
    message: str = ""
    leader_address: str = ""


class _ErrorAnswer(msgspec.Struct, frozen=True):
    error: _HttpFault


class _Skipped(Exception):
    """This server has not done it, and another one may; the text says why."""


class _ServerFault(_Skipped):
    """It answered that it cannot answer now."""


class _Follows(_Skipped):
    """Another server of the group leads."""


def controllers(settings: SiteSettings) -> HttpServers:
    """Return the controllers by HTTP; raises CommandFailed if there is none."""
    return _named(HttpServers(settings.controller_http, "controller", "--controller-http"))


def offset_managers(settings: SiteSettings) -> HttpServers:
    """Return the offset managers; raises CommandFailed if there is none."""
    return _named(HttpServers(settings.offset_manager, "offset manager", "--offset-manager"))


def _named(servers: HttpServers) -> HttpServers:
    if not servers.urls:
        raise NoneNamed(servers.kind, servers.option)
    return servers


def path_of(*parts: str) -> str:
    """Return a path below /v1 with these parts, whatever characters they have; raises WrongUse for a blank one."""
    if not all(parts):
        raise WrongUse("an id or a name is blank")
    return "/v1/" + "/".join(quote(each, safe="") for each in parts)


async def call(settings: SiteSettings, servers: HttpServers, request: ApiRequest[Document]) -> Document:
    """Return what the first of the servers answers that can, in the shape of the request; raises CommandFailed."""
    is_default = servers.option.removeprefix("--").replace("-", "_") in settings.defaults
    if is_default and request.method != "GET" and settings.admin_token_file:
        # Whoever listens there on a shared machine would get the token.
        raise WrongUse(
            f"give the server with {servers.option}: the admin token is sent only to addresses that you give"
        )
    skipped: list[tuple[str, _Skipped]] = []
    for url in servers.urls:
        try:
            return await _in_thread(partial(_answer, settings, servers, url, request))
        except _Skipped as problem:
            skipped.append((url, problem))
        except asyncio.CancelledError:
            if request.is_read:
                raise
            raise Interrupted(f"{url}: {WHILE_INTERRUPTED}") from None
    text = "; ".join(f"{url}: {problem}" for url, problem in skipped)
    if any(isinstance(problem, _Follows) for _, problem in skipped):
        raise NotAnsweredNow(f"{text}; give all of them with {servers.option}")
    if any(isinstance(problem, _ServerFault) for _, problem in skipped):
        # One that answered says more than those that are away.
        raise NotAnsweredNow(text)
    raise NotReachable(f"{text}; give it with {servers.option} or a profile" if is_default else text)


async def _in_thread(work: Callable[[], Result]) -> Result:
    """Return what a function returns in a thread that does not hold up the end of the process.

    Whoever is interrupted waits for no server; threads of `asyncio.to_thread` are waited for.
    """
    done = Future[Result]()
    # Whoever waits may give up, and the thread goes on.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  # whoever waits raises it
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(done)


def _answer(settings: SiteSettings, servers: HttpServers, url: str, request: ApiRequest[Document]) -> Document:
    is_read = request.is_read
    timeout_s = max(request.timeout_s or 0, settings.timeout_s)
    connection = connection_to(url, timeout_s, settings.tls_ca)
    message = _message(settings, request)
    is_sent = False
    try:
        connection.connect()
        is_sent = not is_read
        status, body = exchange(connection, message, timeout_s)
    except (OSError, UnicodeError, http.client.HTTPException) as error:
        # UnicodeError: the name of the host is none.
        reason = _reason(error, timeout_s)
        if isinstance(error, ssl.SSLError) and not is_sent:
            raise NoRights(f"{url}: {reason}") from None
        if is_sent:
            raise NotReachable(f"{url}: {reason}; {LOOK_BEFORE_REPEATING}") from None
        raise _Skipped(reason) from None
    finally:
        connection.close()
    return _checked(servers, url, status, body, request.shape, is_read=is_read)


def _message(settings: SiteSettings, request: ApiRequest[Document]) -> HttpMessage:
    headers = {"Accept": "application/json"}
    if request.method != "GET":
        headers |= {"Content-Type": "application/json"} | _authorization(settings)
    target = f"{request.path}?{urlencode(request.parameters)}" if request.parameters else request.path
    body = None if request.body is None else msgspec.json.encode(request.body)
    return HttpMessage(request.method, target, headers, body)


def _reason(error: Exception, timeout_s: float) -> str:
    if isinstance(error, ssl.SSLError):
        why = getattr(error, "verify_message", None) or error.reason
        return f"no TLS session: {why} (is it http://? did the CA of --tls-ca sign the certificate?)"
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s * _MS:.0f} ms"
    return f"no HTTP answer: {getattr(error, 'strerror', None) or str(error) or type(error).__name__}"


def _authorization(settings: SiteSettings) -> dict[str, str]:
    if not settings.admin_token_file:
        return {}
    lines = private_text(Path(settings.admin_token_file).expanduser(), "--admin-token-file").split("\n")
    token = lines[0].strip()
    if not token.isascii() or not token.isprintable():
        raise NoRights(f"--admin-token-file: the first line of {settings.admin_token_file} is not a token")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _checked(
    servers: HttpServers, url: str, status: int, body: bytes, shape: type[Document], *, is_read: bool
) -> Document:
    if len(body) > ANSWER_BYTES_MAX:
        raise CommandFailed(f"{url}: the answer has more than {ANSWER_BYTES_MAX} bytes")
    if status not in _DONE:
        raise _failure(servers, url, status, body, is_read=is_read)
    try:
        return msgspec.json.decode(body, type=shape)
    except _UNREADABLE:
        if is_read:
            raise _not_this_product(servers, url) from None
        raise CommandFailed(f"{url}: it was done, but the answer cannot be read: check before you repeat it") from None


def _failure(servers: HttpServers, url: str, status: int, body: bytes, *, is_read: bool) -> CommandFailed | _Skipped:
    try:
        fault = msgspec.json.decode(body, type=_ErrorAnswer).error
    except _UNREADABLE:
        if status == _NOT_FOUND:
            return _not_this_product(servers, url)
        fault = _HttpFault()
    if fault.code == _NOT_LEADER:
        return _Follows(fault.message)
    if status == _NOT_FOUND and fault.message.startswith(_NO_PATH):
        return _not_this_product(servers, url)
    sentence = f"HTTP status {status}" + (f": {fault.message}" if fault.message else " without a readable reason")
    if status in _FAULTS:
        return _ServerFault(sentence) if is_read else CommandFailed(f"{url}: {sentence}; {LOOK_BEFORE_REPEATING}")
    advice = " Give a file with the token: --admin-token-file" if status in _DENIED else ""
    return _kind_of(status)(f"{url}: {sentence}{advice}")


def _not_this_product(servers: HttpServers, url: str) -> NotSupportedThere:
    article = "an" if servers.kind.startswith("o") else "a"
    return NotSupportedThere(f"{url} has no such HTTP API: is it {article} {servers.kind} of this product?")


def _kind_of(status: int) -> type[CommandFailed]:
    if status in _DENIED:
        return NoRights
    return UnknownName if status == _NOT_FOUND else CommandFailed
