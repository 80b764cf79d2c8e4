"""Addresses as an operator names them, and whether a peer is one of those. Pure.

An entry is an IP address, a network (`10.0.0.0/16`) or the name of a host, with `:port` or without, then for any port.
Addresses and networks mean whoever a connection really leads to; a name means whoever was told to us by that very
name, however it resolves. No name is resolved here: a stranger's name may resolve to anything, and to something else
the next time.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

import msgspec

_IN_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\](?::([0-9]{1,5}))?")
_BESIDE_COLON: Final = re.compile(r"([^\[\]:]*)(?::([0-9]{1,5}))?")
_NAME: Final = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,252}")
#: Ends like an IP address: whoever wrote that meant none of the names that there are.
_NUMBER_LAST: Final = re.compile(r"(?:.*\.)?[0-9]+")
_PORT_MAX: Final = 65_535
#: What stands before an address of version 4 that is written as one of version 6, in bits.
_MAPPED_BITS: Final = 96

Network = IPv4Network | IPv6Network
Ip = IPv4Address | IPv6Address


class NamedAddress(msgspec.Struct, frozen=True):
    """One entry of an operator's list."""

    #: A single IP address is a network of one; the name of a host is in lower case, without a dot at its end.
    host: Network | str
    #: None for any.
    port: int | None

    def means(self, host: str, ip: Ip | None, port: int) -> bool:
        """Tell whether this is a peer that was told to us as `host`, at the `ip` to which the connection leads."""
        if self.port not in {None, port}:
            return False
        if isinstance(self.host, str):
            return _plain(host) == self.host
        return ip is not None and ip in self.host


def named_address(text: str) -> NamedAddress | None:
    """Return what an entry names; None if it is none, and for a network of all there is, which names nobody."""
    is_bare_6 = text.count(":") > 1 and "[" not in text
    found = None if is_bare_6 else (_IN_BRACKETS.fullmatch(text) or _BESIDE_COLON.fullmatch(text))
    if not is_bare_6 and found is None:
        return None
    host, port_text = found.groups() if found else (text, None)
    port = int(port_text) if port_text else None
    if port is not None and not 0 < port <= _PORT_MAX:
        return None
    named = _network(host) or (None if "[" in text else _name(host))
    return NamedAddress(named, port) if named is not None else None


def named_addresses(text: str) -> tuple[NamedAddress, ...] | None:
    """Return what a list with a `;` between its entries names; None if one of them is wrong."""
    found = [named_address(part) for each in text.split(";") if (part := each.strip())]
    right = tuple(each for each in found if each is not None)
    return right if len(right) == len(found) else None


def ip_of(text: str) -> Ip | None:
    """Return an IP address of the other end of a connection; those of version 4 are such in every notation."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def _network(text: str) -> Network | None:
    try:
        found = ip_network(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Network) and found.prefixlen >= _MAPPED_BITS and found.network_address.ipv4_mapped:
        found = IPv4Network((found.network_address.ipv4_mapped, found.prefixlen - _MAPPED_BITS))
    return found if found.prefixlen else None


def _name(text: str) -> str | None:
    name = _plain(text)
    return name if _NAME.fullmatch(name) and not _NUMBER_LAST.fullmatch(name) else None


def _plain(host: str) -> str:
    return host.lower().removesuffix(".")
