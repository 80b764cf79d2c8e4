"""The network side of this host, for all addresses of a set together: who has them, and who learns that it has."""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from remoting.background_tasks import all_results
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
    stray_acknowledgement,
)
from role_agent.network.kernel import AddressTable, RoleAddress, Session, close_connections_at, close_sessions

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
        self._interface = interface

    async def owner_of(self, address: Ip) -> str | None:
        """Return the MAC, or for IPv6 the address, of another host that has `address`; None after 75 ms without one."""
        if isinstance(address, IPv4Address):
            return await self._arp_owner_of(address)
        return await self._nd_owner_of(address)

    def announce(self, address: Ip) -> None:
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


_IPPROTO_RAW: Final = 255


def notify(sessions: Iterable[Session]) -> None:
    """Send a stray acknowledgement to the client of each closed connection; raises OSError without a raw socket."""
    by_family: dict[int, list[Session]] = {socket.AF_INET: [], socket.AF_INET6: []}
    for session in sessions:
        by_family[socket.AF_INET if isinstance(session.remote, IPv4Address) else socket.AF_INET6].append(session)
    for family, members in by_family.items():
        if members:
            _notify(family, members)


def _notify(family: int, sessions: list[Session]) -> None:
    with socket.socket(family, socket.SOCK_RAW, _IPPROTO_RAW) as raw:
        raw.setblocking(False)
        for session in sessions:
            packet = stray_acknowledgement(session.local, session.local_port, session.remote, session.remote_port)
            try:
                raw.sendto(packet, (str(session.remote), 0))
            except OSError:
                # No route to it, or a full queue: its own next packet meets the new host.
                continue


class HostNetwork:
    """Adds, removes and announces addresses of one interface; each method raises OSError where the kernel refuses."""

    def __init__(self, interface: str, addresses: tuple[RoleAddress, ...], ha_port: int | None) -> None:
        """Serve these addresses, on the interface of that name; `ha_port` is where slaves of the broker connect."""
        self._addresses, self._ha_port = addresses, ha_port
        self._table = AddressTable(interface)
        self._neighbours = Neighbours(interface)

    def add(self, lifetime_s: int) -> None:
        for address in self._addresses:
            self._table.add(address, lifetime_s)

    def remove(self) -> None:
        """Remove all addresses, those that are not there too."""
        failures = [failure for failure in map(self._failure_to_remove, self._addresses) if failure is not None]
        if failures:
            raise failures[0]

    def lifetime_s(self) -> int | None:
        """Return for how many seconds at least one of the addresses is there; None if none is."""
        found = [lifetime for each in self._addresses if (lifetime := self._table.lifetime_s(each)) is not None]
        return max(found, default=None)

    def announce(self) -> None:
        for address in self._addresses:
            self._neighbours.announce(address.ip)

    async def owner(self) -> tuple[RoleAddress, str] | None:
        """Return the first address that another host answers for, with that host's MAC; None if there is none."""
        owners = await all_results(self._neighbours.owner_of(each.ip) for each in self._addresses)
        found = zip(self._addresses, owners, strict=True)
        return next(((address, owner) for address, owner in found if owner is not None), None)

    def close_sessions(self) -> list[Session]:
        return [session for address in self._addresses for session in close_sessions(address.ip)]

    def close_ha_connections(self) -> int:
        """Close the connections of the broker's slaves, and return how many; 0 where their port is not known."""
        return close_connections_at(self._ha_port) if self._ha_port else 0

    def notify_clients(self, sessions: Iterable[Session]) -> None:
        notify(sessions)

    def _failure_to_remove(self, address: RoleAddress) -> OSError | None:
        try:
            self._table.remove(address)
        except OSError as error:
            return error
        return None
