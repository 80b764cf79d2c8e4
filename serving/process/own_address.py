"""The address at which others reach this machine, where a server listens on all of them.

Nothing is sent, but the name of the machine may be looked up. No Java class answers to it: a Java
controller's operator configures its address.
"""

import contextlib
import ipaddress
import socket
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final

from remoting.protocol.addresses import is_ipv4
from serving.logging.logs import Logs
from serving.logging.server_events import LOOPBACK_ADVERTISED

#: asyncio and uvloop listen at `::` with IPv6 alone, so an IPv4 address would be of no use there.
_FAMILIES: Final = {"0.0.0.0": socket.AF_INET, "::": socket.AF_INET6, "[::]": socket.AF_INET6}
_LOOPBACKS: Final = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
#: Addresses of examples (RFC 5737, RFC 3849): far away, and nobody's.
_FAR: Final = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
_ANY_PORT: Final = 9
#: Hosts for which it is cached whether they are this machine: registrations can name any number.
_HOSTS_MAX: Final = 1_000


def address_towards_others(bind_address: str) -> str | None:
    """Return where others reach who listens there; None if that is every address and no other than loopback is found.

    What was found at first counts as long as the process lives. To look the name up may take some seconds.
    """
    family = _FAMILIES.get(bind_address)
    return bind_address if family is None else _own_address(family)


def advertised_host(bind_address: str) -> str:
    """Return the same, or loopback if no other address is found."""
    return address_towards_others(bind_address) or _LOOPBACKS[_FAMILIES[bind_address]]


def warn_of_loopback(bind_address: str, logs: Logs) -> None:
    if address_towards_others(bind_address) is None:
        logs.write(LOOPBACK_ADVERTISED, addr=advertised_host(bind_address), bind_address=bind_address)


@lru_cache(maxsize=_HOSTS_MAX)
def is_own_host(host: str) -> bool:
    """Return whether an address, or the name of a host, is one of this machine; no name is looked up."""
    if is_ipv4(host):
        return host.startswith("127.") or _can_bind(socket.AF_INET, host)
    try:
        parsed = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host in ("localhost", socket.gethostname())
    family = socket.AF_INET if parsed.version == 4 else socket.AF_INET6  # noqa: PLR2004  # as IP counts them
    return parsed.is_loopback or _can_bind(family, str(parsed))


@cache
def _own_address(family: socket.AddressFamily) -> str | None:
    return next((each for each in _candidates(family) if _is_ours(family, each)), None)


def _candidates(family: socket.AddressFamily) -> Iterator[str]:
    # A kernel without IPv6 has no such sockets.
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: the system only chooses a route.
        probe.connect((_FAR[family], _ANY_PORT))
        yield str(probe.getsockname()[0])
    # There is no default route; the name of the machine shows which of its addresses operators mean.
    try:
        named = socket.getaddrinfo(socket.gethostname(), None, family, socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        # Nobody knows the name, or no name can be like that.
        return
    yield from (str(sockaddr[0]) for *_, sockaddr in named)


def _is_ours(family: socket.AddressFamily, address: str) -> bool:
    """Return whether others can reach this machine there: a name may stand for loopback, or for another machine."""
    parsed = ipaddress.ip_address(address)
    if parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified:
        return False
    return _can_bind(family, address)


def _can_bind(family: socket.AddressFamily, address: str) -> bool:
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False
