"""The two ends of a request: the host that the client used, and the client's address."""

import re
from typing import Final

from aiohttp import hdrs, web

_WHOLE_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")


def requested_host(request: web.Request) -> str:
    """Return the host that the client used; aiohttp's own property would look this machine's name up, and wait."""
    if (header := request.headers.get(hdrs.HOST)) is not None:
        return header
    host = own_host(request)
    return f"[{host}]" if ":" in host else host


def requested_hosts(request: web.Request) -> list[str]:
    """Return the hosts that the request names: one in Host, and another one where its target is a whole URL."""
    hosts = request.headers.getall(hdrs.HOST, [])
    found = _WHOLE_URL.match(request.raw_path)
    return hosts if found is None or found[1] in hosts else [*hosts, found[1]]


def own_host(request: web.Request) -> str:
    """Return the address of this machine that the request came to, without its port; blank if it is unknown."""
    sockname = request.transport.get_extra_info("sockname") if request.transport else None
    return str(sockname[0]) if sockname else ""


def peer_host(request: web.Request) -> str:
    """Return the address of the client, without its port; blank if it is unknown."""
    peer = request.transport.get_extra_info("peername") if request.transport else None
    return str(peer[0]) if peer else ""


def peer_address(request: web.Request) -> str:
    """Return `address:port` of the client; blank if it is unknown."""
    peer = request.transport.get_extra_info("peername") if request.transport else None
    return f"{peer[0]}:{peer[1]}" if peer else ""
