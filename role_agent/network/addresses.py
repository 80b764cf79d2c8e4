"""Adds an address to an interface for a few seconds, after which the kernel removes it by itself."""

import errno
import socket
import struct
from ipaddress import IPv4Interface, IPv6Interface
from typing import Final

from role_agent.network.netlink import (
    ACKNOWLEDGE,
    CREATE,
    DUMP,
    NETLINK_ROUTE,
    REPLACE,
    Netlink,
    attribute,
    attributes,
)

_NEW_ADDRESS: Final = 20
_DELETE_ADDRESS: Final = 21
_GET_ADDRESS: Final = 22
#: struct ifaddrmsg: family, prefix length, flags, scope, interface.
_ADDRESS: Final = struct.Struct("=BBBBI")
_IFA_ADDRESS: Final = 1
_IFA_LOCAL: Final = 2
_IFA_CACHEINFO: Final = 6
_IFA_FLAGS: Final = 8
#: struct ifa_cacheinfo: preferred and valid lifetime in seconds, two stamps.
_LIFETIMES: Final = struct.Struct("=IIII")
#: The agent has probed for it itself, and no route to a network hangs on it.
_NO_DUPLICATE_DETECTION: Final = 0x02
_NO_PREFIX_ROUTE: Final = 0x200

#: An address of the kernel's that has no end.
ENDLESS_S: Final = 0xFFFFFFFF

RoleAddress = IPv4Interface | IPv6Interface


class AddressTable:
    """Addresses of one interface; each method raises OSError where the kernel refuses."""

    def __init__(self, interface: str) -> None:
        """Work on the interface of this name, also if it is removed and made again."""
        self._interface = interface

    def add(self, address: RoleAddress, lifetime_s: int) -> None:
        """Add the address, or renew it: the kernel removes it `lifetime_s` from now, up to a second later.

        Nobody begins a connection from it: its preferred lifetime is 0.
        """
        lifetimes = attribute(_IFA_CACHEINFO, _LIFETIMES.pack(0, lifetime_s, 0, 0))
        flags = attribute(_IFA_FLAGS, struct.pack("=I", _NO_PREFIX_ROUTE | _NO_DUPLICATE_DETECTION))
        with Netlink(NETLINK_ROUTE) as kernel:
            kernel.request(_NEW_ADDRESS, ACKNOWLEDGE | CREATE | REPLACE, self._named(address) + lifetimes + flags)

    def remove(self, address: RoleAddress) -> bool:
        """Remove the address; False if it was not there."""
        try:
            with Netlink(NETLINK_ROUTE) as kernel:
                kernel.request(_DELETE_ADDRESS, ACKNOWLEDGE, self._named(address))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return False
            raise
        return True

    def lifetime_s(self, address: RoleAddress) -> int | None:
        """Return for how many seconds the interface has the address, None if it has not."""
        with Netlink(NETLINK_ROUTE) as kernel:
            dumped = kernel.request(_GET_ADDRESS, DUMP, _ADDRESS.pack(_family(address), 0, 0, 0, 0))
        own_index = socket.if_nametoindex(self._interface)
        for _, body in dumped:
            *_, index = _ADDRESS.unpack_from(body)
            found = attributes(body[_ADDRESS.size :])
            packed = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)
            if index == own_index and packed == address.packed:
                return int(_LIFETIMES.unpack_from(found[_IFA_CACHEINFO])[1]) if _IFA_CACHEINFO in found else ENDLESS_S
        return None

    def _named(self, address: RoleAddress) -> bytes:
        header = _ADDRESS.pack(
            _family(address), address.network.prefixlen, 0, 0, socket.if_nametoindex(self._interface)
        )
        return header + attribute(_IFA_LOCAL, address.packed) + attribute(_IFA_ADDRESS, address.packed)


def _family(address: RoleAddress) -> int:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004  # IPv4
