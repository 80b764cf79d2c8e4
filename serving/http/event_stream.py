"""Sends streams of events.

A client that reads too slowly holds up nobody: its view is asked for more only once the client has read what there was.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, TypeVar

from aiohttp import HttpVersion11, hdrs, web

from serving.http.connections import STALL_S, cancelled_with_client
from serving.http.paths import EVENT_STREAM_TYPE
from serving.http.server_sent_events import EventStream

#: Proxies pass events on at once: nginx would collect some kilobytes first.
_HEADERS: Final = {hdrs.CONTENT_TYPE: EVENT_STREAM_TYPE, "X-Accel-Buffering": "no"}


Checked = TypeVar("Checked")


def streaming(
    view: Callable[[Checked], Any], checked: Callable[[web.Request], Checked], headers: Mapping[str, str]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return a handler that sends the events of the stream that the view returns; HEAD gets the headers alone."""

    async def answer(request: web.Request) -> web.StreamResponse:
        accepted = checked(request)
        if request.method == hdrs.METH_HEAD:
            return web.Response(headers={**headers, **_HEADERS})
        stream: EventStream = view(accepted)
        response = web.StreamResponse(headers={**headers, **_HEADERS})
        response.force_close()
        is_stalled = False
        try:
            with cancelled_with_client(request):
                await _send(stream, request, response)
        except TimeoutError:
            is_stalled = True
            _abort(request)
        except ConnectionError:
            # The client has left: that is how streams end.
            pass
        except Exception:
            # No other answer may follow what was sent.
            _abort(request)
            raise
        finally:
            stream.close(is_stalled=is_stalled)
        return response

    return answer


async def _send(stream: EventStream, request: web.Request, response: web.StreamResponse) -> None:
    """Send what the stream yields; raises TimeoutError if the client reads nothing for STALL_S."""
    await response.prepare(request)
    stream.attach(_TransportWriter(request))
    async with aclosing(stream.chunks()) as chunks:
        async for chunk in chunks:
            async with asyncio.timeout(STALL_S):
                await response.write(chunk)
            # While its socket takes everything, others would have no turn.
            await asyncio.sleep(0)


class _TransportWriter:
    """Writes chunks as aiohttp does, to a client whose socket has taken all before: that takes half the time."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._is_chunked = request.version >= HttpVersion11

    @property
    def is_free(self) -> bool:
        transport = self._request.transport
        return transport is not None and not transport.is_closing() and transport.get_write_buffer_size() == 0

    def write(self, chunk: bytes) -> None:
        transport = self._request.transport
        assert transport is not None, "it was free"
        transport.write(b"%x\r\n%s\r\n" % (len(chunk), chunk) if self._is_chunked else chunk)


def _abort(request: web.Request) -> None:
    """Close the connection; an orderly close would wait for a client that does not read."""
    if request.transport is not None:
        request.transport.abort()
