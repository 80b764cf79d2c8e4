"""The HTTP server beside the remoting one, in the same loop: probes, metrics, views as JSON, addresses for clients.

Reading authenticates nobody, and nothing it shows is secret; but whoever reaches it learns every broker's address. It
listens on loopback by default and sends no CORS header: on another address, put it behind a proxy that authenticates.
What changes something needs the admin token (`admin_access.py`), over loopback too. This port has no TLS, so elsewhere
the proxy has to have it, or the token is sent in clear text. Importing aiohttp takes longer than all the rest of the
start, so NameServers and controllers import this module for the first client of the port.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache, partial
from inspect import isawaitable
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from remoting.server.limits import ServerLimits
from serving.config.checks import shortened
from serving.config.server_config import Config
from serving.config.server_kind import ServerKind
from serving.http import openapi
from serving.http.admin_access import AccessHeaders, AdminDenied, HttpTokens
from serving.http.connections import CONNECTIONS, HttpConnections, cancelled_with_client
from serving.http.denials import begin_try, record_denial
from serving.http.event_stream import streaming
from serving.http.pages import LIMIT_DEFAULT, LIMIT_MAX, PageRequest
from serving.http.paths import ANSWER_HEADERS, JSON_TYPE, Endpoint
from serving.http.request_bodies import read_body
from serving.http.request_ends import own_host, peer_address, peer_host, requested_host, requested_hosts
from serving.http.same_site import check_on_loopback
from serving.http.views import ErrorAnswer, Fault, HttpRefused, Places, TooManyRequests, ViewRequest
from serving.logging.logs import Logs
from serving.logging.server_events import (
    HTTP_ADMIN_REQUEST_ACCEPTED,
    HTTP_REQUEST_FAILED,
    HTTP_REQUEST_REJECTED,
)
from serving.metrics.server_counters import ServerCounters

#: Seconds after which a connection without a further request is closed.
IDLE_S: Final = 60

#: Seconds that requests under way have at the stop, and that unread bodies of requests are read for.
STOP_S: Final = 0.5

_UNAUTHORIZED: Final = 401
_CHALLENGE: Final[str] = hdrs.WWW_AUTHENTICATE
_RETRY_AFTER: Final[str] = hdrs.RETRY_AFTER

_LAST_EVENT_ID: Final = "Last-Event-ID"

#: Label of requests that no path matches.
UNMATCHED: Final = "unmatched"

_LOGS: Final = web.AppKey("logs", Logs)

_encode: Final = msgspec.json.Encoder().encode

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpServer:
    def __init__(self, runner: web.AppRunner, listener: asyncio.Server) -> None:
        self._runner = runner
        self._listener = listener

    @property
    def port(self) -> int:
        return int(self._listener.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close the port and the connections; requests under way have STOP_S."""
        self._listener.close()
        await self._runner.cleanup()


def make_app(
    kind: ServerKind[Config],
    endpoints: Sequence[Endpoint],
    counters: ServerCounters,
    logs: Logs,
    tokens: HttpTokens,
) -> web.Application:
    """Return the application that answers every endpoint of the table.

    Those that change something answer only who shows the token that they need; while there is none, they answer nobody.
    """
    headers = {"Server": kind.program, **ANSWER_HEADERS}
    app = web.Application(middlewares=[_observing(headers, counters, logs, tokens)])
    app[_LOGS] = logs
    app[CONNECTIONS] = {}
    # One for all methods of a path: aiohttp looks through those of another path in between.
    resources = {path: app.router.add_resource(path) for path in dict.fromkeys(each.path for each in endpoints)}
    for endpoint in endpoints:
        checked = partial(_view_request, endpoint)
        streams = endpoint.streams
        answer = streaming(endpoint.view, checked, headers) if streams else _answering(endpoint, tokens, logs)
        if endpoint.concurrent_max:
            answer = _limited(answer, endpoint.concurrent_max)
        if endpoint.is_for_clients:
            answer = _checked(answer, tokens, tokens.check_client, counters, logs)
        elif endpoint.changes:
            answer = _for_admins(answer, tokens, counters, logs)
        else:
            resources[endpoint.path].add_route(hdrs.METH_HEAD, answer)
        resources[endpoint.path].add_route(endpoint.method, answer)
        # A rate misses a counter that is born at 1.
        counters.http_requests.add((endpoint.method, endpoint.path, "2xx"), 0)
    described = cache(lambda: _encode(openapi.document(kind, endpoints)))

    async def describe(_: web.Request) -> web.Response:
        return web.Response(body=described(), headers={hdrs.CONTENT_TYPE: JSON_TYPE})

    app.router.add_get(openapi.PATH, describe)
    return app


async def start_http(app: web.Application, port: socket.socket, connections_max: int = 0) -> HttpServer:
    """Serve the connections of a port that is open already, so many at a time; 0 for the usual limit."""
    runner = web.AppRunner(
        app,
        handle_signals=False,
        access_log=None,
        logger=_server_logger(app[_LOGS]),
        keepalive_timeout=IDLE_S,
        shutdown_timeout=STOP_S,
        lingering_time=STOP_S,
        # Few bytes may be many once they are decompressed; a body that is compressed is refused.
        auto_decompress=False,
    )
    await runner.setup()
    server = runner.server
    assert server is not None, "setup made it"

    def rejected(peer: str, problem: str) -> None:
        app[_LOGS].write(HTTP_REQUEST_REJECTED, peer=peer, error=problem)

    connections = HttpConnections(server, app[CONNECTIONS], connections_max, rejected)
    listener = await asyncio.get_running_loop().create_server(connections, sock=port, backlog=ServerLimits().backlog)
    return HttpServer(runner, listener)


def _server_logger(logs: Logs) -> logging.Logger:
    """Return what aiohttp logs with: bytes that are no HTTP are a peer's fault, and no error with a traceback."""

    def is_ours(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ConnectionError):
            # The client left before it was told to go on (100-continue).
            return False
        if not isinstance(error, HttpProcessingError):
            return True
        # The lines after the first repeat what the peer sent.
        problem = error.message.partition("\n")[0]
        peer = record.args[0] if isinstance(record.args, tuple) else ""
        logs.write(HTTP_REQUEST_REJECTED, peer=peer, error=problem)
        return False

    logger = logging.Logger("aiohttp.server")  # noqa: LOG001  # one of its own, so that its filter goes with it
    logger.parent = logging.getLogger()
    logger.addFilter(is_ours)
    return logger


def _answering(endpoint: Endpoint, tokens: HttpTokens, logs: Logs) -> _Handler:
    headers = {hdrs.CONTENT_TYPE: endpoint.content_type}

    async def answer(request: web.Request) -> web.Response:
        checked = _view_request(endpoint, request)
        if endpoint.changes:
            checked = msgspec.structs.replace(checked, body=await read_body(endpoint, request))
        if endpoint.has_details:
            checked = msgspec.structs.replace(checked, sees_details=_sees_details(request, tokens, logs))
        value = endpoint.view(checked)
        if isawaitable(value):
            with cancelled_with_client(request) if endpoint.waits else nullcontext():
                value = await value
        connection = request.app[CONNECTIONS].get(request.protocol)
        encode = partial(_body, value)
        body = encode() if connection is None else await connection.connections.in_turn(encode)
        return web.Response(status=endpoint.status, body=body, headers=headers)

    return answer


def _limited(handler: _Handler, concurrent_max: int) -> _Handler:
    """Return a handler that works on so many requests at a time, and refuses the others before it reads their body."""
    places = Places(concurrent_max, f"{concurrent_max} requests of this kind are in progress, which is the limit.")

    async def answer(request: web.Request) -> web.StreamResponse:
        with places.one():
            return await handler(request)

    return answer


def _for_admins(handler: _Handler, tokens: HttpTokens, counters: ServerCounters, logs: Logs) -> _Handler:
    """Return a handler that serves operators; it counts and logs others, and logs what was done."""
    checked = _checked(handler, tokens, tokens.check_admin, counters, logs)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await checked(request)
        about = {"peer": peer_address(request), "method": request.method, "path": request.path}
        logs.write(HTTP_ADMIN_REQUEST_ACCEPTED, **about, status=response.status)
        return response

    return answer


def _checked(
    handler: _Handler,
    tokens: HttpTokens,
    check: Callable[[AccessHeaders], None],
    counters: ServerCounters,
    logs: Logs,
) -> _Handler:
    """Return a handler that serves who passes the check; it counts and logs others."""

    async def answer(request: web.Request) -> web.StreamResponse:
        headers = request.headers
        origins, authorizations = headers.getall(hdrs.ORIGIN, []), headers.getall(hdrs.AUTHORIZATION, [])
        is_try = bool(authorizations) and not tokens.is_open
        if is_try:
            begin_try(request, tokens.tries, logs)
        wrong = None
        try:
            check(AccessHeaders(requested_host(request), origins, authorizations))
        except AdminDenied as denied:
            wrong = str(authorizations) if denied.reason == "wrong_token" else None
            record_denial(request, denied, counters, logs)
            raise
        finally:
            # A request without a token must not take back a try of another one.
            if is_try:
                tokens.tries.end(peer_host(request), wrong)
        return await handler(request)

    return answer


def _sees_details(request: web.Request, tokens: HttpTokens, logs: Logs) -> bool:
    """Return whether whoever reads is on this machine, or shows the admin token.

    A wrong one counts as a try. After too many of them none is looked at, and reading goes on without details.
    """
    headers = AccessHeaders(requested_host(request), (), request.headers.getall(hdrs.AUTHORIZATION, []))
    if tokens.loopback_hosts is not None or not headers.shows_any:
        return tokens.loopback_hosts is not None
    try:
        begin_try(request, tokens.tries, logs)
    except TooManyRequests:
        return False
    is_admin = headers.shows(tokens.admin)
    tokens.tries.end(peer_host(request), None if is_admin else str(headers.authorizations))
    return is_admin


def _observing(headers: Mapping[str, str], counters: ServerCounters, logs: Logs, tokens: HttpTokens) -> Any:
    """Return what stands around every request: counts it, and turns what goes wrong into a JSON answer.

    Every answer gets the headers that it does not set itself.
    """

    @web.middleware
    async def observe(request: web.Request, handler: _Handler) -> web.StreamResponse:
        connection = request.app[CONNECTIONS].get(request.protocol)
        if connection is None:
            return await answered(request, handler)
        connection.begin()
        try:
            return await answered(request, handler)
        finally:
            connection.end()

    async def answered(request: web.Request, handler: _Handler) -> web.StreamResponse:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            if tokens.loopback_hosts is not None:
                hosts = requested_hosts(request)
                check_on_loopback(hosts, own_host(request), tokens.loopback_hosts, request.headers)
            response = await handler(request)
        except HttpRefused as refusal:
            response = _refusal(refusal)
        except web.HTTPException as error:
            response = _unserved(request, error)
        except Exception as error:  # noqa: BLE001  # a fault of the server: logged once, the peer gets no details
            about = {"peer": peer_address(request), "method": request.method, "path": request.path}
            logs.write(HTTP_REQUEST_FAILED, **about, exc_info=error)
            response = _faulty(500, Fault("internal", "The server failed to answer this request; its log has more."))
        response.headers.extend({name: value for name, value in headers.items() if name not in response.headers})
        _count(counters, request, response, loop.time() - began)
        return response

    return observe


def _count(counters: ServerCounters, request: web.Request, response: web.StreamResponse, seconds: float) -> None:
    resource = request.match_info.route.resource
    # Of other paths any word may come as method.
    is_known = resource is not None or request.method in (hdrs.METH_GET, hdrs.METH_HEAD)
    method = request.method if is_known else "other"
    route = resource.canonical if resource else UNMATCHED
    counters.http_requests.add((method, route, f"{response.status // 100}xx"))
    if not response.prepared:
        # A stream takes as long as its client wants.
        counters.http_durations.observe((method, route), seconds)


def _refusal(refusal: HttpRefused) -> web.Response:
    headers = {_CHALLENGE: "Bearer"} if refusal.status == _UNAUTHORIZED else {}
    if refusal.retry_after_s:
        headers[_RETRY_AFTER] = str(refusal.retry_after_s)
    fault = Fault(refusal.code, str(refusal), refusal.leader_address)
    return _faulty(refusal.status, fault, headers)


def _unserved(request: web.Request, error: web.HTTPException) -> web.Response:
    """Return the answer for a path or method that there is not."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        methods = sorted(error.allowed_methods)
        listed = " and ".join(filter(None, (", ".join(methods[:-1]), methods[-1])))
        sentence = f"{shortened(request.path)} takes {listed} only."
        return _faulty(error.status, Fault("method_not_allowed", sentence), {hdrs.ALLOW: ", ".join(methods)})
    if isinstance(error, web.HTTPNotFound):
        sentence = f"There is nothing at {shortened(request.path)}; see {openapi.PATH}."
        return _faulty(error.status, Fault("not_found", sentence))
    return _faulty(error.status, Fault("bad_request", f"{error.reason}."))


def _faulty(status: int, fault: Fault, headers: Mapping[str, str] | None = None) -> web.Response:
    body = _encode(ErrorAnswer(fault))
    return web.Response(status=status, body=body, headers={hdrs.CONTENT_TYPE: JSON_TYPE, **(headers or {})})


def _body(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else _encode(value)


def _view_request(endpoint: Endpoint, request: web.Request) -> ViewRequest:
    query = {} if endpoint.parameters is None else _query(endpoint, request)
    return ViewRequest(
        path=request.match_info,
        page=PageRequest(_limit(query), query.get("cursor")),
        prefix=query.get("prefix", ""),
        query=query,
        repeated={each.name: request.query.getall(each.name, []) for each in endpoint.repeated},
        last_event_id=request.headers.get(_LAST_EVENT_ID, ""),
        host=requested_host(request),
        client=peer_host(request),
    )


def _query(endpoint: Endpoint, request: web.Request) -> Mapping[str, str]:
    taken = [each.name for each in endpoint.parameters or ()]
    repeated = [each.name for each in endpoint.repeated]
    for name in request.query:
        if name not in taken:
            takes = f"it takes {', '.join(taken)}" if taken else "it takes none"
            raise HttpRefused(f"{endpoint.path} has no parameter {shortened(name)}; {takes}.")
        if name not in repeated and len(request.query.getall(name)) > 1:
            raise HttpRefused(f"The parameter {name} is given more than once.")
    return request.query


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit")
    if text is None:
        return LIMIT_DEFAULT
    # The length first: turning a million digits into a number takes a while.
    limit = int(text) if len(text) <= len(str(LIMIT_MAX)) and text.isascii() and text.isdigit() else 0
    if not 1 <= limit <= LIMIT_MAX:
        raise HttpRefused(f"limit must be a whole number from 1 to {LIMIT_MAX}, not {shortened(text)}.")
    return limit
