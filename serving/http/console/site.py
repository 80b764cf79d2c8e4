"""The paths below /ui/: the page with its files, signing in and out, and what other servers answer.

Not a part of the HTTP API: no path here is in the OpenAPI document. Each request passes `same_site.py` first.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import hdrs, web

from remoting.background_tasks import all_results, start_task
from remoting.clock import Clock
from remoting.protocol.addresses import is_loopback, named_addresses
from serving import __version__
from serving.config.console_options import READER_PROPERTY, console_peers
from serving.config.server_config import ServerConfig
from serving.http import same_site
from serving.http.admin_access import PROPERTY, AdminDenied, AdminToken, HttpTokens
from serving.http.console import shapes
from serving.http.console.live import LiveChanges, LiveStream
from serving.http.console.peers import NumberedPeer, kind_of, peer_table
from serving.http.console.relay import BadPeerAnswer, PeerRelay
from serving.http.console.sessions import SESSION_MS, ConsoleSession, ConsoleSessions
from serving.http.console.static_files import ConsoleFiles, StaticFile, load_files
from serving.http.denials import begin_try, record_denial
from serving.http.event_stream import streaming
from serving.http.paths import ANSWER_HEADERS, JSON_TYPE, Endpoint
from serving.http.request_bodies import read_body
from serving.http.request_ends import own_host, peer_address, peer_host, requested_host, requested_hosts
from serving.http.views import HttpRefused, NotFound
from serving.logging.logs import Logs
from serving.logging.server_events import (
    CONSOLE_SESSION_OPENED,
    HTTP_ADMIN_REQUEST_ACCEPTED,
)
from serving.metrics.server_counters import ServerCounters

ROOT: Final = "/ui/"
_RELAYED: Final = "/ui/peer/{kind}/{number:[0-9]+}/v1/{path:.+}"

#: As NameServers take them.
_TOPIC_CHARS_MAX: Final = 1_024

#: Probes of servers are answered again for so long: several pages may be open.
PROBED_MS: Final = 1_000

#: No script, style or picture of anywhere else, none within the page, and no frame around it.
_PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: A stream begins before anybody adds what other answers have; it is no page.
_STREAM_HEADERS: Final = {**_PAGE_HEADERS, **ANSWER_HEADERS}
_UNTIL_IT_CHANGES: Final = "no-cache"
_FOR_EVER: Final = "public, max-age=31536000, immutable"

_CHANGING: Final = (hdrs.METH_POST, hdrs.METH_PUT, hdrs.METH_DELETE)
_SIGN_IN: Final = Endpoint(
    "/ui/session", lambda _: None, "Sign in.", method="POST", body=shapes.SignIn, body_bytes_max=8 * 1024
)
_encode: Final = msgspec.json.Encoder().encode

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class SignInNeeded(HttpRefused):
    """Nothing is shown without a session."""

    status = 401
    code = "unauthorized"


async def _to_root(_: web.Request) -> web.StreamResponse:
    # Relative: a proxy may serve it below another path.
    return web.Response(status=308, headers={hdrs.LOCATION: "ui/"})


class Console:
    """Answers the paths below /ui/."""

    def __init__(
        self,
        program: str,
        config: ServerConfig,
        tokens: HttpTokens,
        reader: AdminToken,
        clock: Clock,
        counters: ServerCounters,
        logs: Logs,
    ) -> None:
        """Take the command of the server, such as `rmq-namesrv`, and `reader`, the token of consoleReadTokenFile."""
        self._clock, self._counters, self._logs = clock, counters, logs
        self._tries = tokens.tries
        self._sessions = ConsoleSessions(tokens.admin, reader, lambda: secrets.token_urlsafe(32))
        self._relay = PeerRelay()
        self._files: asyncio.Task[ConsoleFiles] | None = None
        self._probes: asyncio.Task[list[shapes.PeerView]] | None = None
        self._probed_ms = 0
        self._kind = kind_of(program)
        self._is_on_loopback = is_loopback(config.http_bind_address)
        self._hosts = named_addresses(config.console_hosts) or ()
        self._peers = peer_table(
            self._kind, config.http_bind_address, config.http_port, console_peers(config.console_peers) or ()
        )
        self._live = LiveChanges(self._peers.values())
        # Browsers send a cookie to all ports of a host, where other servers may have consoles too.
        self._cookie = f"rmq-console-{self._kind}-{config.http_port}"

    def add_to(self, app: web.Application) -> None:
        """Serve the console with an application that has not started; its files are read when a browser comes."""
        for path, handler in (
            (ROOT.rstrip("/"), _to_root),
            (ROOT, self.page),
            ("/ui/static/{digest}/{file:.+}", self.file),
            ("/ui/session", self.session),
            ("/ui/peers", self.peers),
            ("/ui/live", streaming(self.live, self.may_read, _STREAM_HEADERS)),
            (_RELAYED, self.relayed),
        ):
            app.router.add_get(path, self.guarded(handler))
        app.router.add_post("/ui/session", self.guarded(self.changing(self.sign_in)))
        app.router.add_delete("/ui/session", self.guarded(self.changing(self.sign_out)))
        for method in _CHANGING:
            app.router.add_route(method, _RELAYED, self.guarded(self.changing(self.relayed_change)))
        app.on_shutdown.append(self.end_pages)
        app.on_cleanup.append(self.close)

    async def end_pages(self, _: web.Application) -> None:
        self._live.end_pages()

    async def close(self, _: web.Application) -> None:
        await self._live.close()
        await self._relay.close()

    # Who may send a request

    def guarded(self, handler: _Handler) -> _Handler:
        """Return a handler that answers only at the hosts of this console, and only its own page."""

        async def answer(request: web.Request) -> web.StreamResponse:
            headers = request.headers
            same_site.check_host(requested_hosts(request), own_host(request), self._hosts)
            # A link on another site may open the page, which shows nothing by itself.
            if request.path.rstrip("/") != ROOT.rstrip("/"):
                same_site.check_reader(headers.getall("Sec-Fetch-Site", []))
            return await handler(request)

        return answer

    def changing(self, handler: _Handler) -> _Handler:
        """Return a handler that refuses other pages, and logs and counts what is refused."""

        async def answer(request: web.Request) -> web.StreamResponse:
            headers = request.headers
            origins, sites = headers.getall(hdrs.ORIGIN, []), headers.getall("Sec-Fetch-Site", [])
            try:
                same_site.check_changer(requested_host(request), origins, sites)
                return await handler(request)
            except AdminDenied as denied:
                record_denial(request, denied, self._counters, self._logs)
                raise

        return answer

    def _session_of(self, request: web.Request) -> ConsoleSession | None:
        session_id = request.cookies.get(self._cookie)
        return self._sessions.find(session_id, self._clock.now_ms()) if session_id else None

    def _is_open(self, request: web.Request) -> bool:
        """Return whether whoever sends the request may read without a session: it is somebody on this machine."""
        is_local = self._is_on_loopback and same_site.is_loopback_host(requested_hosts(request))
        return is_local and not self._sessions.needs_reader

    def may_read(self, request: web.Request) -> web.Request:
        """Return the request of somebody who may read; raises SignInNeeded."""
        if not self._is_open(request) and self._session_of(request) is None:
            raise SignInNeeded(
                "Sign in to the console first."
                if self._sessions.can_open
                else f"Nobody can sign in: set {PROPERTY} or {READER_PROPERTY} to the path of a file with a token, and "
                "restart."
            )
        return request

    # Files

    async def page(self, request: web.Request) -> web.StreamResponse:
        return _served(request, (await self._loaded()).page, _UNTIL_IT_CHANGES)

    async def file(self, request: web.Request) -> web.StreamResponse:
        """Answer a file that the page loads; NotFound for one of another release."""
        files = await self._loaded()
        found = files.others.get(request.match_info["file"])
        if found is None or request.match_info["digest"] != files.digest:
            raise NotFound("The console has no such file; reload the page.")
        return _served(request, found, _FOR_EVER)

    async def _loaded(self) -> ConsoleFiles:
        if self._files is None:
            self._files = start_task(asyncio.to_thread(load_files))
        return await asyncio.shield(self._files)

    # Sessions

    async def session(self, request: web.Request) -> web.StreamResponse:
        return _json(self._view(request, self._session_of(request)))

    async def sign_in(self, request: web.Request) -> web.StreamResponse:
        """Open a session for a token; the answer has its cookie."""
        now_ms = self._clock.now_ms()
        begin_try(request, self._tries, self._logs)
        body = await read_body(_SIGN_IN, request)
        if not self._sessions.can_open:
            raise AdminDenied("off", f"Nobody can sign in: {PROPERTY} and {READER_PROPERTY} are blank.")
        opened = self._sessions.open(body.token, now_ms)
        self._tries.end(peer_host(request), None if opened else body.token)
        if opened is None:
            raise AdminDenied("wrong_token", f"This is neither the token of {PROPERTY} nor that of {READER_PROPERTY}.")
        self._close_session(request)
        session_id, session = opened
        self._logs.write(CONSOLE_SESSION_OPENED, peer=peer_address(request), rights=session.rights)
        response = _json(self._view(request, session))
        response.set_cookie(
            self._cookie,
            session_id,
            max_age=SESSION_MS // 1000,
            httponly=True,
            samesite="Strict",
            path="/",
            secure=same_site.is_secure(request.headers.getall(hdrs.ORIGIN, [])),
        )
        return response

    async def sign_out(self, request: web.Request) -> web.StreamResponse:
        self._close_session(request)
        response = _json(self._view(request, None))
        response.del_cookie(self._cookie, path="/", httponly=True, samesite="Strict")
        return response

    def _close_session(self, request: web.Request) -> None:
        if session_id := request.cookies.get(self._cookie):
            self._sessions.close(session_id)

    def _view(self, request: web.Request, session: ConsoleSession | None) -> shapes.SessionView:
        is_open, can_sign_in = self._is_open(request), self._sessions.can_open
        return shapes.SessionView(
            server=self._kind,
            version=__version__,
            may_read=is_open or session is not None,
            may_change=session is not None and session.rights == "change",
            sign_in="off" if not can_sign_in else "optional" if is_open else "needed",
            signed_in=session is not None,
            ends_in_ms=session.ends_ms - self._clock.now_ms() if session is not None else None,
        )

    # Other servers

    async def peers(self, request: web.Request) -> web.StreamResponse:
        """Answer the servers of this console, and which are reachable."""
        self.may_read(request)
        now_ms = self._clock.now_ms()
        if self._probes is None or now_ms - self._probed_ms >= PROBED_MS:
            self._probed_ms, self._probes = now_ms, start_task(self._probe_all())
        return _json(shapes.PeersView(await asyncio.shield(self._probes)))

    async def _probe_all(self) -> list[shapes.PeerView]:
        return await all_results(map(self._relay.probe, self._peers.values()))

    def live(self, request: web.Request) -> LiveStream:
        """Return the events of a page, with the routes of the topics that it names."""
        topics = request.query.getall("topic", [])
        if any(not 0 < len(each) <= _TOPIC_CHARS_MAX for each in topics):
            raise HttpRefused(f"A topic's name has 1 to {_TOPIC_CHARS_MAX} characters.")
        return self._live.open(topics, request.headers.get("Last-Event-ID", ""))

    async def relayed(self, request: web.Request) -> web.StreamResponse:
        """Answer what another server answers, without a token: reading needs none there."""
        self.may_read(request)
        return await self._relay.relay(request, self._peer(request), "")

    async def relayed_change(self, request: web.Request) -> web.StreamResponse:
        """Answer what another server answers to a request that changes something, with the token of the session."""
        session = self._session_of(request)
        if session is None or session.rights != "change":
            raise AdminDenied("no_token", f"Sign in with the token of {PROPERTY}: this changes something.")
        status = BadPeerAnswer.status
        try:
            response = await self._relay.relay(request, self._peer(request), session.token)
            status = response.status
        except HttpRefused as refusal:
            # A server that has not answered in time may have done it.
            status = refusal.status
            raise
        finally:
            about = {"peer": peer_address(request), "method": request.method, "path": request.path}
            self._logs.write(HTTP_ADMIN_REQUEST_ACCEPTED, **about, status=status)
        return response

    def _peer(self, request: web.Request) -> NumberedPeer:
        kind, number = request.match_info["kind"], request.match_info["number"]
        # Few digits: turning a million of them into a number takes a while.
        peer = self._peers.get((kind, int(number[:4])))
        if peer is None:
            raise NotFound("The console has no such server; see /ui/peers.")
        return peer


def _served(request: web.Request, file: StaticFile, caching: str) -> web.Response:
    headers = {**_PAGE_HEADERS, hdrs.ETAG: file.etag, hdrs.CACHE_CONTROL: caching, hdrs.VARY: "Accept-Encoding"}
    if file.etag in request.headers.get(hdrs.IF_NONE_MATCH, ""):
        return web.Response(status=304, headers=headers)
    body = file.body
    if "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
        body, headers[hdrs.CONTENT_ENCODING] = file.zipped, "gzip"
    return web.Response(body=body, headers=headers | {hdrs.CONTENT_TYPE: file.content_type})


def _json(value: msgspec.Struct) -> web.Response:
    return web.Response(body=_encode(value), headers={**_PAGE_HEADERS, hdrs.CONTENT_TYPE: JSON_TYPE})
