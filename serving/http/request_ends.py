"""The two ends of a request: the host that the client used, and the client's address."""

from aiohttp import hdrs, web


def requested_host(request: web.Request) -> str:
    """Return the host that the client used; aiohttp's own property would look this machine's name up, and wait."""
    if (header := request.headers.get(hdrs.HOST)) is not None:
        return header
    host = own_host(request)
    return f"[{host}]" if ":" in host else host


def requested_hosts(request: web.Request) -> list[str]:
    """Return the hosts that the request names: one in Host, and another one where its target is a whole URL."""
    hosts = request.headers.getall(hdrs.HOST, [])
    target = request.message.url
    if target.absolute and target.authority not in hosts:
        hosts.append(target.authority)
    return hosts


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
