"""One request over HTTP, and the whole answer to it: the HTTP client of all tools. The edge.

Time and bytes are limited, and neither redirections nor proxies of the environment are followed. `http.client` of the
standard library: a client of aiohttp takes 150 ms to import.
"""

import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024


class HttpMessage(NamedTuple):
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None


def connection_to(url: str, timeout_s: float, tls_ca: str = "") -> http.client.HTTPConnection:
    """Return a connection, not opened yet; each wait has the timeout. `tls_ca` is a file, blank for the system's."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=tls_ca or None)
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(host, port, timeout=timeout_s)


def exchange(
    connection: http.client.HTTPConnection, message: HttpMessage, timeout_s: float, bytes_max: int = ANSWER_BYTES_MAX
) -> tuple[int, bytes]:
    """Return status and body, of which `bytes_max` and one more are read at most. The connection is open.

    Raises TimeoutError if all of it has not come in time, however busy the peer is, OSError and HTTPException.
    """
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
        connection.request(message.method, message.target, message.body, dict(message.headers))
        with connection.getresponse() as answer:
            status, body = answer.status, answer.read(bytes_max + 1)
            if answer.length and len(body) <= bytes_max:
                raise http.client.IncompleteRead(body, answer.length)
    except (OSError, http.client.HTTPException):
        if not is_late.is_set():
            raise
    finally:
        timer.cancel()
    if is_late.is_set():
        raise TimeoutError
    return status, body
