"""Frames and packets as bytes: ARP (RFC 826, 5227), neighbour discovery (RFC 4861), TCP (RFC 9293). Pure."""

import struct
from ipaddress import IPv4Address, IPv6Address
from typing import Final

ETHERTYPE_ARP: Final = 0x0806
ETHERTYPE_IPV6: Final = 0x86DD
BROADCAST: Final = b"\xff" * 6

_ETHERNET: Final = struct.Struct("!6s6sH")
_ARP: Final = struct.Struct("!HHBBH6s4s6s4s")
_ARP_REQUEST: Final = 1
_ARP_REPLY: Final = 2
_IPV6: Final = struct.Struct("!IHBB16s16s")
_IPV4: Final = struct.Struct("!BBHHHBBH4s4s")
_TCP: Final = struct.Struct("!HHIIBBHHH")
_ICMPV6: Final = 58
_PROTOCOL_TCP: Final = 6
_SOLICITATION: Final = 135
ADVERTISEMENT: Final = 136
_OVERRIDE: Final = 0x20000000
#: Discovery is taken only from packets that no router has passed on.
_HOPS: Final = 255
_TTL: Final = 64
_ALL_NODES: Final = IPv6Address("ff02::1")
_ACK: Final = 0x10

Ip = IPv4Address | IPv6Address


def arp_probe(mac: bytes, address: IPv4Address) -> bytes:
    """Return the query who has `address`, of somebody who has none yet."""
    return _arp(_ARP_REQUEST, mac, IPv4Address(0), bytes(6), address)


def arp_announcements(mac: bytes, address: IPv4Address) -> tuple[bytes, ...]:
    """Return the two forms of gratuitous ARP: some hosts follow a request, some a reply."""
    return (
        _arp(_ARP_REQUEST, mac, address, bytes(6), address),
        _arp(_ARP_REPLY, mac, address, BROADCAST, address),
    )


def arp_sender(frame: bytes) -> tuple[bytes, IPv4Address] | None:
    """Return the MAC and the address that the sender of a frame claims to have; None if it is no ARP of IPv4."""
    if len(frame) < _ETHERNET.size + _ARP.size or _ETHERNET.unpack_from(frame)[2] != ETHERTYPE_ARP:
        return None
    _, protocol, _, _, _, mac, address, _, _ = _ARP.unpack_from(frame, _ETHERNET.size)
    return (mac, IPv4Address(address)) if protocol == 0x0800 else None  # noqa: PLR2004  # IPv4


def nd_probe(mac: bytes, address: IPv6Address) -> bytes:
    """Return the query who has `address`, of somebody who has none yet (RFC 4862 5.4.2)."""
    solicited = IPv6Address(IPv6Address("ff02::1:ff00:0").packed[:13] + address.packed[13:])
    message = struct.pack("!BBHI", _SOLICITATION, 0, 0, 0) + address.packed
    return _icmpv6(mac, IPv6Address(0), solicited, message)


def nd_announcement(mac: bytes, address: IPv6Address) -> bytes:
    """Return the unsolicited notice that `address` is at `mac`; it replaces what neighbours know (RFC 4861 7.2.6)."""
    message = struct.pack("!BBHI", ADVERTISEMENT, 0, 0, _OVERRIDE) + address.packed + b"\x02\x01" + mac
    return _icmpv6(mac, address, _ALL_NODES, message)


def advertised_address(message: bytes) -> IPv6Address | None:
    """Return the address that a neighbour advertisement, from its ICMPv6 header on, is about; None if it is none."""
    return IPv6Address(message[8:24]) if len(message) >= 24 and message[0] == ADVERTISEMENT else None  # noqa: PLR2004


def stray_acknowledgement(source: Ip, source_port: int, target: Ip, target_port: int) -> bytes:
    """Return a TCP packet, from its IP header on, that belongs to no place of its connection.

    Whoever has the other end of the connection answers it with an acknowledgement of its own (RFC 9293 3.10.7.4), to
    the host that has `source` by now, and that one resets a connection that it does not know. It has one byte: Linux
    answers stray packets without any only twice a second.
    """
    segment = _TCP.pack(source_port, target_port, 0, 0, 5 << 4, _ACK, 1024, 0, 0) + bytes(1)
    segment = with_tcp_checksum(source.packed + target.packed, segment)
    if isinstance(source, IPv6Address):
        return _IPV6.pack(6 << 28, len(segment), _PROTOCOL_TCP, _TTL, source.packed, target.packed) + segment
    length = _IPV4.size + len(segment)
    # The kernel fills in the checksum of the header.
    return _IPV4.pack(0x45, 0, length, 0, 0, _TTL, _PROTOCOL_TCP, 0, source.packed, target.packed) + segment


def with_tcp_checksum(addresses: bytes, segment: bytes) -> bytes:
    """Return a TCP segment with its checksum; `addresses` are those of its sender and its target."""
    segment = segment[:16] + bytes(2) + segment[18:]
    pseudo = addresses + struct.pack("!HH", _PROTOCOL_TCP, len(segment))
    return segment[:16] + struct.pack("!H", _checksum(pseudo + segment)) + segment[18:]


def _arp(operation: int, mac: bytes, sender: IPv4Address, target_mac: bytes, target: IPv4Address) -> bytes:
    ethernet = _ETHERNET.pack(BROADCAST, mac, ETHERTYPE_ARP)
    return ethernet + _ARP.pack(1, 0x0800, 6, 4, operation, mac, sender.packed, target_mac, target.packed)


def _icmpv6(mac: bytes, source: IPv6Address, target: IPv6Address, message: bytes) -> bytes:
    pseudo = source.packed + target.packed + struct.pack("!II", len(message), _ICMPV6)
    message = message[:2] + struct.pack("!H", _checksum(pseudo + message)) + message[4:]
    ethernet = _ETHERNET.pack(b"\x33\x33" + target.packed[12:], mac, ETHERTYPE_IPV6)
    return ethernet + _IPV6.pack(6 << 28, len(message), _ICMPV6, _HOPS, source.packed, target.packed) + message


def _checksum(data: bytes) -> int:
    """Return the checksum of RFC 1071."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
