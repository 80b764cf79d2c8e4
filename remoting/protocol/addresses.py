"""Addresses and names: of brokers, as every peer writes them, and of peers, as an operator lists them."""

import re
from collections import Counter
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeVar

import msgspec

from remoting.protocol.plain_text import is_plain

#: The longest name or address that is kept; RocketMQ's own names are far shorter, and host names end at 253.
NAME_CHARS_MAX: Final = 255

_ADDRESS: Final = re.compile(r"[A-Za-z0-9._:%\[\]-]{1,249}:([0-9]{1,5})")
_PORT_MAX: Final = 65_535
#: Some write zeros in front. Python raises an error for a number of very many digits.
_PORT_DIGITS_MAX: Final = 10

_OCTET: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_STANDARD_IPV4: Final = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_IN_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\](?::([0-9]{1,5}))?")
_BESIDE_COLON: Final = re.compile(r"([^\[\]:]*)(?::([0-9]{1,5}))?")
_NAME: Final = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,252}")
#: Ends like an IP address: such an entry is meant as none of the names that exist.
_NUMBER_LAST: Final = re.compile(r"(?:.*\.)?[0-9]+")
#: The bits before an IPv4 address that is written as an IPv6 one.
_MAPPED_BITS: Final = 96

Network = IPv4Network | IPv6Network
Ip = IPv4Address | IPv6Address

Key = TypeVar("Key")


def host_and_port(host: str, port: int) -> str:
    """Return "host:port", with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_address(text: str) -> bool:
    """Return True for the name or number of a host with a port, as a connection can be opened to."""
    parts = _ADDRESS.fullmatch(text)
    return parts is not None and 0 < int(parts[1]) <= _PORT_MAX


def is_name(text: str) -> bool:
    """Return True for a possible name: operators type blanks and Chinese, but neither controls nor hidden marks."""
    return len(text) <= NAME_CHARS_MAX and is_plain(text)


def is_ipv4(text: str) -> bool:
    """Return True for an IPv4 address in its standard form."""
    return _STANDARD_IPV4.fullmatch(text) is not None


def host_number(address: str) -> str:
    """Return the IP address in "host:port" in its one standard form; blank for a host name."""
    host = address.rpartition(":")[0]
    # Each request of a broker asks for some, nearly all such numbers.
    if is_ipv4(host):
        return host
    number = ip_of(host.strip("[]"))
    return "" if number is None else str(number)


def is_loopback(host: str) -> bool:
    """Return whether only programs of the same machine reach a host."""
    ip = ip_of(host.strip("[]"))
    return host == "localhost" if ip is None else ip.is_loopback


def split_address(address: str) -> tuple[str, int] | None:
    """Return the host, without brackets, and the port of "host:port"; None if it is no such address."""
    host, _, port = address.rpartition(":")
    is_number = len(port) <= _PORT_DIGITS_MAX and port.isascii() and port.isdigit()
    if not (host and "," not in host and is_number and 0 < int(port) <= _PORT_MAX):
        return None
    return host.removeprefix("[").removesuffix("]"), int(port)


class NamedAddress(msgspec.Struct, frozen=True):
    """One entry of an operator's list: an IP address, a network (`10.0.0.0/16`) or a host name, perhaps with `:port`.

    Addresses and networks match the real end of a connection; a name matches only that very name, however it resolves.
    No name is resolved here: a foreign name may resolve to any address, and to another the next time.
    """

    #: A single IP address is a network of one; a host name is in lower case, without a dot at its end.
    host: Network | str
    #: None for any.
    port: int | None

    def matches(self, host: str, ip: Ip | None, port: int) -> bool:
        """Return True if the entry names a peer known as `host`, whose connection leads to `ip`."""
        if self.port not in {None, port}:
            return False
        if isinstance(self.host, str):
            return _plain(host) == self.host
        return ip is not None and ip in self.host


def named_address(text: str) -> NamedAddress | None:
    """Parse an entry; None if it is invalid, or the network of all addresses."""
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
    """Parse a list with a `;` between its entries; None if one of them is invalid."""
    found = [named_address(part) for each in text.split(";") if (part := each.strip())]
    right = tuple(each for each in found if each is not None)
    return right if len(right) == len(found) else None


def ip_of(text: str) -> Ip | None:
    """Parse the IP address of the other end of a connection; a mapped IPv4 address becomes an IPv4 one."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


def latest_of_largest_network(networks: dict[Key, str], network: str) -> Key | None:
    """Return what makes room for one more of a network: the latest of that with most, None if none has more."""
    of_networks = Counter(networks.values())
    largest = max(of_networks, key=of_networks.__getitem__, default=network)
    if of_networks[network] + 1 >= of_networks[largest]:
        return None
    return next(key for key in reversed(networks) if networks[key] == largest)


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
