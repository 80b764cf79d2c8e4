"""Which requests come from a page of another site: Host, Origin and Sec-Fetch-Site, as values.

A page of another site can send requests here with the user's browser, and reach this server under a name of its own
(DNS rebinding). The first shows in Origin and Sec-Fetch-Site (Fetch Metadata), the second in Host, which browsers set
and no page can change.
"""

import re
from collections.abc import Sequence
from typing import Final

from multidict import CIMultiDictProxy

from remoting.protocol.addresses import NamedAddress, ip_of, is_loopback
from serving.config.checks import shortened
from serving.http.admin_access import AdminDenied
from serving.http.views import HttpRefused

_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253})(?::([0-9]{1,5}))?")
_ORIGIN: Final = re.compile(r"https?://(.+)")
_OWN_PAGE: Final = "same-origin"
#: The user typed the address, or opened a bookmark.
_NO_PAGE: Final = "none"


class MisdirectedRequest(HttpRefused):
    """The name in Host is none under which this server is reached."""

    status = 421
    code = "misdirected"


class OtherSite(HttpRefused):
    """A page of another site sent the request."""

    status = 403
    code = "forbidden"


def host_of(header: str) -> tuple[str, int] | None:
    """Return name and port of a Host header, 0 without a port; None if it is none."""
    found = _HOST.fullmatch(header)
    return (found[1].strip("[]").lower(), int(found[2] or 0)) if found else None


def check_host(headers: Sequence[str], own_address: str, also: Sequence[NamedAddress]) -> None:
    """Raise MisdirectedRequest unless Host is loopback, the address that the request came to, or one of `also`."""
    host = host_of(headers[0]) if len(headers) == 1 else None
    if host is not None:
        name, port = host
        ip = ip_of(name)
        if is_loopback(name) or (ip is not None and ip == ip_of(own_address)):
            return
        if any(each.matches(name, ip, port) for each in also):
            return
    shown = shortened(", ".join(headers)) or "blank"
    raise MisdirectedRequest(
        f"This server is not reached at this host: Host is {shown}. Use localhost or the address of this server, let a "
        "proxy send that, or add the name to consoleHosts, where there is a console, and restart."
    )


def is_loopback_host(headers: Sequence[str]) -> bool:
    """Return whether Host is a name of loopback, under which no proxy for others is opened."""
    host = host_of(headers[0]) if len(headers) == 1 else None
    return host is not None and is_loopback(host[0])


def check_on_loopback(
    hosts: Sequence[str], own_address: str, also: Sequence[NamedAddress], headers: CIMultiDictProxy[str]
) -> None:
    """Raise MisdirectedRequest or OtherSite for what a page of another site requests of a server that has no password.

    Programs may send no Host. Who follows a link opens a document, which the page with the link cannot read.
    """
    if hosts:
        check_host(hosts, own_address, also)
    if headers.get("Sec-Fetch-Mode") != "navigate" or headers.get("Sec-Fetch-Dest") != "document":
        check_reader(headers.getall("Sec-Fetch-Site", []))


def check_reader(fetch_sites: Sequence[str]) -> None:
    """Raise OtherSite for data that a page of another site requests; browsers say so, programs say nothing."""
    if any(each not in {_OWN_PAGE, _NO_PAGE} for each in fetch_sites):
        raise OtherSite("A page of another site may not read this: Sec-Fetch-Site is not same-origin.")


def check_changer(host: str, origins: Sequence[str], fetch_sites: Sequence[str]) -> None:
    """Raise AdminDenied unless the request comes from the console's own page.

    Browsers send Origin with every request that is no GET; a program uses /v1 with its token instead.
    """
    if len(origins) != 1 or not _is_origin_of(origins[0], host) or any(each != _OWN_PAGE for each in fetch_sites):
        raise AdminDenied(
            "other_origin",
            "Only the console's own page may send this: Origin must be this host. Programs use the paths below /v1/ "
            "with Authorization.",
        )


def is_secure(origins: Sequence[str]) -> bool:
    """Return whether the page was loaded over TLS, which a proxy in front of this server has."""
    return any(each.startswith("https://") for each in origins)


def _is_origin_of(origin: str, host: str) -> bool:
    found = _ORIGIN.fullmatch(origin.lower())
    return found is not None and found[1] == host.lower()
