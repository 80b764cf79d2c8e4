"""Passes requests of the console on to other servers: fixed targets, paths below /v1/ alone, and answers with a limit.

It is no open proxy: the operator names the servers, no redirect is followed, and only the headers listed here pass.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import unquote

import aiohttp
from aiohttp import hdrs, web
from yarl import URL

from serving.config.checks import shortened
from serving.http.connections import cancelled_with_client
from serving.http.console.peers import NumberedPeer, new_session
from serving.http.console.shapes import PeerView
from serving.http.paths import ANSWER_HEADERS, JSON_TYPE, TEXT_TYPE
from serving.http.request_bodies import BODY_S
from serving.http.views import BodyTooLarge, HttpRefused, Places, RequestTimedOut, UnsupportedMediaType

#: Longest answer that is passed on, in bytes; a stream has no limit.
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
#: Longest body of a request, in bytes.
BODY_BYTES_MAX: Final = 1024 * 1024
#: Seconds in which an answer has to be complete.
ANSWER_S: Final = 5
#: The same of a request that changes something, or shows what it would change: a restore of 10,000 offsets takes up to
#: 30 s, and so does a plan of a resize while a broker is silent.
CHANGE_S: Final = 35
#: The same of reads that take a server up to 20 s: of its history, and of lags, for which it reads from brokers.
SLOW_READ_S: Final = 25
_SLOW_PATHS: Final = ("/v1/history/", "/v1/offsets/lag")
#: Seconds after which a stream without a single byte ends.
STREAM_IDLE_S: Final = 60
#: Seconds after which any stream ends: the page connects again, for which its session has to be open still.
STREAM_S: Final = 600
#: Requests that are passed on at a time, beside streams.
REQUESTS_MAX: Final = 32
#: Slow reads at a time, beside these: they are to take no place of what a page needs at once.
SLOW_READS_MAX: Final = 8
STREAMS_MAX: Final = 32
#: Seconds that a server has to answer a probe.
PROBE_S: Final = 1

EVENTS_TYPE: Final = "text/event-stream"
_PASSED_TYPES: Final = {JSON_TYPE, TEXT_TYPE.partition(";")[0], "application/x-ndjson"}
_PASSED_HEADERS: Final = (hdrs.CONTENT_TYPE, hdrs.RETRY_AFTER, hdrs.ALLOW)
_REDIRECTS: Final = range(300, 400)
_CHUNK_BYTES: Final = 64 * 1024


class BadPath(HttpRefused):
    """The path leads out of /v1/."""


class BadPeerAnswer(HttpRefused):
    """A server is not reached, or its answer is none that is passed on."""

    status = 502
    code = "bad_gateway"


class PeerTimedOut(HttpRefused):
    """A server has not answered in time."""

    status = 504
    code = "gateway_timeout"


def _places(places_max: int, what: str) -> Places:
    return Places(places_max, f"The console passes {places_max} {what} on at a time, as many as allowed.")


class PeerRelay:
    """Sends requests to other servers, over connections that it keeps open."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._requests = _places(REQUESTS_MAX, "requests")
        self._slow_reads = _places(SLOW_READS_MAX, "reads of the history and of lags")
        self._streams = _places(STREAMS_MAX, "streams")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def relay(self, request: web.Request, peer: NumberedPeer, token: str) -> web.StreamResponse:
        """Return the answer of a server to a request, sent with `token` unless that is blank; raises HttpRefused."""
        url = _target(request, peer)
        headers: dict[str, str] = {hdrs.ACCEPT: JSON_TYPE, hdrs.ACCEPT_ENCODING: "identity"}
        if token:
            headers[hdrs.AUTHORIZATION] = f"Bearer {token}"
        if request.method == hdrs.METH_GET and EVENTS_TYPE in request.headers.get(hdrs.ACCEPT, ""):
            headers[hdrs.ACCEPT] = EVENTS_TYPE
            if (last := request.headers.get("Last-Event-ID")) is not None:
                headers["Last-Event-ID"] = last
            return await self._stream(request, url, headers)
        body = await _body_of(request, headers)
        places, total_s = self._requests, CHANGE_S
        if request.method == hdrs.METH_GET:
            places, total_s = (self._slow_reads, SLOW_READ_S) if _is_slow(url) else (self._requests, ANSWER_S)
        timeout = aiohttp.ClientTimeout(total=total_s, sock_connect=ANSWER_S)
        with places.one():
            async with self._answer(request.method, url, headers, body, timeout) as answer:
                return await _whole(answer)

    async def probe(self, peer: NumberedPeer) -> PeerView:
        loop = asyncio.get_running_loop()
        began, problem = loop.time(), ""
        try:
            timeout = aiohttp.ClientTimeout(total=PROBE_S)
            async with self._client().get(f"{peer.url}/livez", timeout=timeout, allow_redirects=False) as answer:
                if answer.status != web.HTTPOk.status_code:
                    problem = f"It answers {answer.status} at /livez."
        except TimeoutError:
            problem = f"It has not answered within {PROBE_S} s."
        except (aiohttp.ClientError, OSError) as error:
            problem = _sentence(error)
        took_ms = round((loop.time() - began) * 1000)
        return PeerView(
            kind=peer.kind,
            number=peer.number,
            is_self=peer.is_self,
            address=peer.address,
            reachable=not problem,
            round_trip_ms=None if problem else took_ms,
            problem=problem,
        )

    async def _stream(self, request: web.Request, url: URL, headers: dict[str, str]) -> web.StreamResponse:
        with self._streams.one():
            timeout = aiohttp.ClientTimeout(total=STREAM_S, sock_connect=ANSWER_S, sock_read=STREAM_IDLE_S)
            async with self._answer(request.method, url, headers, None, timeout) as answer:
                if answer.content_type != EVENTS_TYPE:
                    return await _whole(answer)
                response = web.StreamResponse(headers={**_STREAM_HEADERS, **_PROTECTING})
                await response.prepare(request)
                # The answer has begun: whatever ends the stream, the page connects again.
                with suppress(TimeoutError, aiohttp.ClientError, OSError), cancelled_with_client(request):
                    await _copy(answer, response)
                return response

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        url: URL,
        headers: dict[str, str],
        body: bytes | None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  # aiohttp's own, of two kinds
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            async with self._client().request(
                method, url, headers=headers, data=body, timeout=timeout, allow_redirects=False
            ) as answer:
                if answer.status in _REDIRECTS:
                    raise BadPeerAnswer(f"{url.authority} answers {answer.status}, and no redirect is followed.")
                yield answer
        except TimeoutError:
            raise PeerTimedOut(f"{url.authority} has not answered in time.") from None
        except (aiohttp.ClientError, OSError) as error:
            raise BadPeerAnswer(f"{url.authority} is not reached: {_sentence(error)}") from None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = new_session(REQUESTS_MAX + SLOW_READS_MAX + STREAMS_MAX)
        return self._session


#: What comes from other servers is data: shown as a page of its own, it does nothing.
_PROTECTING: Final = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


#: A stream begins before anybody adds what other answers have. Proxies are to pass events on at once.
_STREAM_HEADERS: Final = {**ANSWER_HEADERS, hdrs.CONTENT_TYPE: EVENTS_TYPE, "X-Accel-Buffering": "no"}


def _target(request: web.Request, peer: NumberedPeer) -> URL:
    """Return the address at the server; its path is below /v1/, whatever is encoded in it."""
    # "", "ui", "peer", kind, number, then what the server gets.
    path = "/" + request.rel_url.raw_path.split("/", 5)[5]
    parts = unquote(path).replace("\\", "/").split("/")
    if not path.startswith("/v1/") or {".", ".."}.intersection(parts):
        raise BadPath(f"{shortened(path)} is no path below /v1/.")
    query = request.rel_url.raw_query_string
    return URL(f"{peer.url}{path}" + (f"?{query}" if query else ""), encoded=True)


def _is_slow(url: URL) -> bool:
    return url.raw_path.startswith(_SLOW_PATHS)


async def _body_of(request: web.Request, headers: dict[str, str]) -> bytes | None:
    if not request.body_exists:
        return None
    if request.content_type != JSON_TYPE:
        raise UnsupportedMediaType(f"Content-Type must be {JSON_TYPE}.")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > BODY_BYTES_MAX:
                    raise BodyTooLarge(f"The console passes bodies of at most {BODY_BYTES_MAX} bytes on.")
    except TimeoutError:
        raise RequestTimedOut(f"The body has not come within {BODY_S} s.") from None
    headers[hdrs.CONTENT_TYPE] = JSON_TYPE
    return bytes(body)


async def _whole(answer: aiohttp.ClientResponse) -> web.Response:
    if answer.content_type not in _PASSED_TYPES or hdrs.CONTENT_ENCODING in answer.headers:
        raise BadPeerAnswer(f"The answer is {shortened(answer.content_type)}, which the console does not pass on.")
    body = bytearray()
    if (answer.content_length or 0) <= ANSWER_BYTES_MAX:
        async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
            body += chunk
            if len(body) > ANSWER_BYTES_MAX:
                break
        else:
            headers = {name: answer.headers[name] for name in _PASSED_HEADERS if name in answer.headers}
            return web.Response(status=answer.status, body=bytes(body), headers=headers | _PROTECTING)
    answer.close()
    raise BadPeerAnswer(f"The answer is longer than {ANSWER_BYTES_MAX} bytes; request a shorter page of the list.")


async def _copy(answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
    async for chunk in answer.content.iter_any():
        await response.write(chunk)


def _sentence(error: BaseException) -> str:
    return f"{shortened(str(error)) or type(error).__name__}."
