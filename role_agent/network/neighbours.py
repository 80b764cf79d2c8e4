"""Finds out who has an address on the network of an interface, and announces that this host has it now."""

import asyncio
import socket
import struct
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from role_agent.network.frames import (
    ADVERTISEMENT,
    ETHERTYPE_ARP,
    ETHERTYPE_IPV6,
    Ip,
    advertised_address,
    arp_announcements,
    arp_probe,
    arp_sender,
    nd_announcement,
    nd_probe,
)

#: Between queries who has an address; the last one is answered within the same time.
PROBE_GAP_S: Final = 0.025
_PROBES: Final = 3
_FRAME_BYTES_MAX: Final = 2048
_IPPROTO_ICMPV6: Final = 58
_ICMP6_FILTER: Final = 1
_SO_BINDTODEVICE: Final = 25


class Neighbours:
    """The network of one interface; each method raises OSError where the interface is down or the kernel refuses."""

    def __init__(self, interface: str) -> None:
        """Speak on this interface."""
        self._interface = interface

    async def owner_of(self, address: Ip) -> str | None:
        """Return the MAC, or for IPv6 the address, of another host that has `address`; None after 75 ms without one."""
        if isinstance(address, IPv4Address):
            return await self._arp_owner_of(address)
        return await self._nd_owner_of(address)

    def announce(self, address: Ip) -> None:
        """Tell all neighbours once that `address` is at this interface."""
        is_ipv4 = isinstance(address, IPv4Address)
        with self._frames(ETHERTYPE_ARP if is_ipv4 else ETHERTYPE_IPV6, receives=False) as sender:
            mac = sender.getsockname()[4]
            if isinstance(address, IPv4Address):
                frames = arp_announcements(mac, address)
            else:
                frames = (nd_announcement(mac, address),)
            for frame in frames:
                sender.send(frame)

    async def _arp_owner_of(self, address: IPv4Address) -> str | None:
        with self._frames(ETHERTYPE_ARP, receives=True) as arp:
            mac = arp.getsockname()[4]

            def owner(frame: bytes) -> str | None:
                found = arp_sender(frame)
                return found[0].hex(":") if found and found[1] == address and found[0] != mac else None

            return await _answer_to(arp_probe(mac, address), arp, arp, owner)

    async def _nd_owner_of(self, address: IPv6Address) -> str | None:
        with (
            self._frames(ETHERTYPE_IPV6, receives=False) as sender,
            socket.socket(socket.AF_INET6, socket.SOCK_RAW, _IPPROTO_ICMPV6) as listener,
        ):
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, self._interface.encode())
            # A set bit keeps that type of message out.
            passed = struct.pack(
                "=8I", *(0xFFFFFFFF ^ ((1 << ADVERTISEMENT % 32) * (n == ADVERTISEMENT // 32)) for n in range(8))
            )
            listener.setsockopt(_IPPROTO_ICMPV6, _ICMP6_FILTER, passed)

            def owner(message: bytes) -> str | None:
                return str(address) if advertised_address(message) == address else None

            return await _answer_to(nd_probe(sender.getsockname()[4], address), sender, listener, owner)

    def _frames(self, ethertype: int, *, receives: bool) -> socket.socket:
        frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ethertype) if receives else 0)
        try:
            frames.bind((self._interface, ethertype if receives else 0))
        except OSError:
            frames.close()
            raise
        frames.setblocking(False)
        return frames


async def _answer_to(
    probe: bytes, sender: socket.socket, listener: socket.socket, owner: Callable[[bytes], str | None]
) -> str | None:
    loop = asyncio.get_running_loop()
    for _ in range(_PROBES):
        sender.send(probe)
        try:
            async with asyncio.timeout(PROBE_GAP_S):
                while True:
                    if found := owner(await loop.sock_recv(listener, _FRAME_BYTES_MAX)):
                        return found
        except TimeoutError:
            continue
    return None
