"""Sees requests for a connection before the rules and the TCP of the kernel do, and sends them on to another host."""

import ctypes
import socket
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address
from typing import Final

from role_agent.network.frames import ETHERTYPE_IPV6, Ip
from role_agent.network.syns import SYN_BYTES_MAX, syn_filter, target_of

_ETHERTYPE_IPV4: Final = 0x0800
_IPPROTO_RAW: Final = 255
_SO_ATTACH_FILTER: Final = 26
_SO_BINDTODEVICE: Final = 25
_SO_RCVBUFFORCE: Final = 33
#: struct sock_fprog: number of steps, and where they are.
_PROGRAM: Final = struct.Struct("@HP")
_STEP_BYTES: Final = 8
#: For what arrives between two reads, and what comes beyond is lost. The kernel gives twice as much, and counts 1 to
#: 2 KiB for each packet.
_BUFFER_BYTES: Final = 8 << 20


class SynSockets:
    """Requests for a connection to some addresses at one interface; methods raise OSError where the kernel refuses."""

    def __init__(self, interface: str, addresses: Sequence[Ip]) -> None:
        """Open nothing yet."""
        self._interface = interface
        families = (
            (_ETHERTYPE_IPV4, [each for each in addresses if isinstance(each, IPv4Address)]),
            (ETHERTYPE_IPV6, [each for each in addresses if not isinstance(each, IPv4Address)]),
        )
        self._filters = [(ethertype, syn_filter(members)) for ethertype, members in families if members]
        self._open: list[socket.socket] = []

    def read(self, packets_max: int) -> list[bytes]:
        """Return packets that have arrived, from their IP header on; the first call opens the sockets.

        After an error the next call opens them anew: the interface may have been made anew.
        """
        try:
            if not self._open:
                self._open = [self._listener(ethertype, program) for ethertype, program in self._filters]
            # A flood over one family takes nothing from the other one.
            each_max = packets_max // len(self._open)
            return [packet for each in self._open for packet in _read(each, each_max)]
        except OSError:
            self.close()
            raise

    def send(self, packets: Iterable[bytes]) -> int:
        """Send packets with the addresses that they have, and return how many the kernel took.

        One that it refuses is left out; if it takes none, its last refusal is raised.
        """
        taken = 0
        refusal: OSError | None = None
        senders: dict[int, socket.socket] = {}
        try:
            for packet in packets:
                target = target_of(packet)
                family = socket.AF_INET if isinstance(target, IPv4Address) else socket.AF_INET6
                if family not in senders:
                    senders[family] = self._sender(family)
                try:
                    senders[family].sendto(packet, (str(target), 0))
                    taken += 1
                except OSError as error:
                    # No route, or a full queue: the client sends it again.
                    refusal = error
        finally:
            for each in senders.values():
                each.close()
        if refusal is not None and not taken:
            raise refusal
        return taken

    def close(self) -> None:
        """Close what is open."""
        for each in self._open:
            each.close()
        self._open = []

    def _listener(self, ethertype: int, program: bytes) -> socket.socket:
        # It gets nothing before it has its filter and is bound.
        listener = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        try:
            steps = ctypes.create_string_buffer(program)
            attached = _PROGRAM.pack(len(program) // _STEP_BYTES, ctypes.addressof(steps))
            listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, attached)
            listener.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            listener.setblocking(False)
            listener.bind((self._interface, ethertype))
        except OSError:
            listener.close()
            raise
        return listener

    def _sender(self, family: int) -> socket.socket:
        sender = socket.socket(family, socket.SOCK_RAW, _IPPROTO_RAW)
        try:
            sender.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, self._interface.encode())
            sender.setblocking(False)
        except OSError:
            sender.close()
            raise
        return sender


def _read(listener: socket.socket, packets_max: int) -> list[bytes]:
    packets: list[bytes] = []
    with suppress(BlockingIOError):
        while len(packets) < packets_max:
            packets.append(listener.recv(SYN_BYTES_MAX))
    return packets
