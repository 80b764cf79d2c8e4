"""Requests for a connection (TCP packets with SYN alone) as bytes, from their IP header on, and the filter for them.

Pure. The filter is a program of the kernel's classic BPF (Documentation/networking/filter.rst), and begins to count at
the IP header too.
"""

import struct
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from role_agent.network.frames import Ip, with_tcp_checksum

#: A longer one carries data (TCP Fast Open), which neither brokers nor their clients use.
SYN_BYTES_MAX: Final = 256

_VERSION_4: Final = 4
_IPV4_BYTES: Final = 20
_IPV6_BYTES: Final = 40
_TCP_BYTES: Final = 20
_PROTOCOL_TCP: Final = 6
_FRAGMENT: Final = 0x1FFF
_FLAGS_AT: Final = 13
#: FIN, SYN, RST and ACK: a request has SYN alone.
_FLAGS: Final = 0x17
_SYN: Final = 0x02

#: struct sock_filter: operation, steps to skip if true and if false, value.
_STEP: Final = struct.Struct("=HBBI")
_LOAD_WORD: Final = 0x20
_LOAD_HALF: Final = 0x28
_LOAD_BYTE: Final = 0x30
_LOAD_BYTE_AFTER_X: Final = 0x50
_IPV4_HEADER_BYTES_TO_X: Final = 0xB1
_AND: Final = 0x54
_IF_EQUAL: Final = 0x15
_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
#: Where the kernel shows a program to whom a frame was sent; 0 is this host.
_SENT_TO: Final = 0xFFFFF004
#: Where a jump leads: to the next step, or to one of the two at the end.
_NEXT: Final = "next"
_DROP: Final = "drop"
_ACCEPT: Final = "accept"

#: Operation, value, where it goes on if true and if false; a number skips as many steps.
Step = tuple[int, int, str | int, str | int]


def syn_filter(addresses: Sequence[Ip]) -> bytes:
    """Return a program that accepts requests for a connection to these addresses, all of one family, at this host."""
    is_ipv4 = isinstance(addresses[0], IPv4Address)
    steps = [_load(_LOAD_WORD, _SENT_TO), _only_if(0)]
    if is_ipv4:
        steps += [_load(_LOAD_BYTE, 9), _only_if(_PROTOCOL_TCP)]
        steps += [_load(_LOAD_HALF, 6), (_IF_ANY_BIT, _FRAGMENT, _DROP, _NEXT)]
        steps += [_load(_IPV4_HEADER_BYTES_TO_X, 0), _load(_LOAD_BYTE_AFTER_X, _FLAGS_AT)]
    else:
        steps += [_load(_LOAD_BYTE, 6), _only_if(_PROTOCOL_TCP), _load(_LOAD_BYTE, _IPV6_BYTES + _FLAGS_AT)]
    steps += [(_AND, _FLAGS, 0, 0), _only_if(_SYN)]
    for address in addresses:
        steps += _accept_if_sent_to(address)
    # An address that is none of them falls through to the first of these two.
    return _program([*steps, (_RETURN, 0, 0, 0), (_RETURN, SYN_BYTES_MAX, 0, 0)])


def connection_of(packet: bytes) -> bytes | None:
    """Return the addresses and ports of a request for a connection; None if the packet is not whole."""
    if (layout := _layout(packet)) is None:
        return None
    return packet[layout.addresses] + packet[layout.header_bytes : layout.header_bytes + 4]


def connection_name(client: Ip, client_port: int, address: Ip, port: int) -> bytes:
    """Return what `connection_of` returns for a request of this client to this address."""
    return client.packed + address.packed + struct.pack("!HH", client_port, port)


def relayed(packet: bytes) -> bytes | None:
    """Return a packet as a router passes it on; None if it is not whole, or has passed as many as it may.

    Its checksum is computed: one from a virtual machine or container of the same hardware may have come without.
    """
    layout = _layout(packet)
    if layout is None or packet[layout.hops_at] <= 1:
        return None
    header, segment = bytearray(packet[: layout.header_bytes]), packet[layout.header_bytes : layout.all_bytes]
    header[layout.hops_at] -= 1
    return bytes(header) + with_tcp_checksum(packet[layout.addresses], segment)


def target_of(packet: bytes) -> Ip:
    return IPv4Address(packet[16:20]) if packet[0] >> 4 == _VERSION_4 else IPv6Address(packet[24:40])


class _Layout(NamedTuple):
    header_bytes: int
    #: Without what a network card appended to a short one.
    all_bytes: int
    hops_at: int
    addresses: slice


def _layout(packet: bytes) -> _Layout | None:
    if len(packet) < _IPV4_BYTES:
        return None
    match packet[0] >> 4:
        case 4 if packet[9] == _PROTOCOL_TCP:
            found = _Layout((packet[0] & 15) * 4, int.from_bytes(packet[2:4]), 8, slice(12, 20))
            is_valid = found.header_bytes >= _IPV4_BYTES
        case 6 if packet[6] == _PROTOCOL_TCP:
            found = _Layout(_IPV6_BYTES, _IPV6_BYTES + int.from_bytes(packet[4:6]), 7, slice(8, 40))
            is_valid = True
        case _:
            return None
    return found if is_valid and found.header_bytes + _TCP_BYTES <= found.all_bytes <= len(packet) else None


def _load(operation: int, at: int) -> Step:
    return operation, at, 0, 0


def _only_if(value: int) -> Step:
    return _IF_EQUAL, value, _NEXT, _DROP


def _accept_if_sent_to(address: Ip) -> list[Step]:
    """Return the steps that compare it, which go on behind themselves if the packet is sent to another one."""
    at = 16 if isinstance(address, IPv4Address) else 24
    words = [value for (value,) in struct.iter_unpack("!I", address.packed)]
    steps: list[Step] = []
    for number, word in enumerate(words):
        left = len(words) - 1 - number
        steps += [_load(_LOAD_WORD, at + 4 * number), (_IF_EQUAL, word, _NEXT if left else _ACCEPT, 2 * left)]
    return steps


def _program(steps: Sequence[Step]) -> bytes:
    ends = {_DROP: len(steps) - 2, _ACCEPT: len(steps) - 1}

    def skipped(target: str | int, number: int) -> int:
        if isinstance(target, int):
            return target
        return 0 if target == _NEXT else ends[target] - number - 1

    return b"".join(
        _STEP.pack(operation, skipped(if_true, number), skipped(if_false, number), value)
        for number, (operation, value, if_true, if_false) in enumerate(steps)
    )
