"""A DNS server that a test lets answer: addresses by name, NXDOMAIN for others, or nothing at all."""

import asyncio
import socket
import struct

_A, _IN = 1, 1
_NXDOMAIN = 3


class DnsServer(asyncio.DatagramProtocol):
    """Listens at 127.0.0.1; `addresses` has the IPv4 address of each name, None where it has none."""

    def __init__(self, addresses):
        self.addresses, self.is_silent, self.queries = dict(addresses), False, 0

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", 0))
        return self

    async def __aexit__(self, *_):
        self._transport.close()

    @property
    def address(self):
        return "127.0.0.1:{}".format(self._transport.get_extra_info("sockname")[1])

    def datagram_received(self, data, peer):
        self.queries += 1
        if not self.is_silent:
            self._transport.sendto(_answer(data, self.addresses), peer)


def _answer(query, addresses):
    """Return the answer to the one question of a query; options of EDNS are left out."""
    labels, at = [], 12
    while size := query[at]:
        labels.append(query[at + 1 : at + 1 + size].decode())
        at += 1 + size
    kind, _ = struct.unpack_from(">HH", query, at + 1)
    name = ".".join(labels).lower()
    question, address = query[12 : at + 5], addresses.get(name)
    records = b""
    if address is not None and kind == _A:
        records = struct.pack(">HHHIH", 0xC00C, _A, _IN, 5, 4) + socket.inet_aton(address)
    flags = 0x8580 | (0 if name in addresses else _NXDOMAIN)
    return query[:2] + struct.pack(">HHHHH", flags, 1, bool(records), 0, 0) + question + records
