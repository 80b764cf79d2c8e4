"""Passes on what arrived while nobody answered for the address: its clients need not wait until they send it again."""

import asyncio
import ctypes
import socket
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address
from typing import Final

from remoting.clock import Clock
from role_agent.events import AgentEvent
from role_agent.log import AgentLog
from role_agent.network.frames import ETHERTYPE_IPV6, Ip
from role_agent.network.kernel import Session
from role_agent.network.syns import SYN_BYTES_MAX, connection_name, connection_of, relayed, syn_filter, target_of

#: Of as many connections; the oldest makes room. A client whose request is not here sends it again after a second.
SYNS_MAX: Final = 16_384
#: After that nobody waits for an answer any more: a client of RocketMQ gives up after 3 s.
AGE_MAX_MS: Final = 5_000


class PendingSyns:
    """The last request of each connection, oldest first."""

    def __init__(self) -> None:
        self._by_connection: dict[bytes, tuple[int, bytes]] = {}

    def __len__(self) -> int:
        return len(self._by_connection)

    def add(self, connection: bytes, packet: bytes, now_ms: int) -> None:
        """Remember a packet in place of a former one of its connection; the oldest one makes room if it must."""
        self._by_connection.pop(connection, None)
        if len(self._by_connection) >= SYNS_MAX:
            del self._by_connection[next(iter(self._by_connection))]
        self._by_connection[connection] = (now_ms, packet)

    def remove(self, connection: bytes) -> None:
        self._by_connection.pop(connection, None)

    def expire(self, now_ms: int) -> None:
        while self._by_connection:
            oldest = next(iter(self._by_connection))
            if now_ms - self._by_connection[oldest][0] <= AGE_MAX_MS:
                return
            del self._by_connection[oldest]

    def pop(self, count_max: int) -> list[bytes]:
        """Remove the oldest packets and return them, at most so many."""
        oldest = [connection for connection, _ in zip(self._by_connection, range(count_max), strict=False)]
        return [self._by_connection.pop(connection)[1] for connection in oldest]


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
        self._interface = interface
        families = (
            (_ETHERTYPE_IPV4, [each for each in addresses if isinstance(each, IPv4Address)]),
            (ETHERTYPE_IPV6, [each for each in addresses if not isinstance(each, IPv4Address)]),
        )
        self._filters = [(ethertype, syn_filter(members)) for ethertype, members in families if members]
        self._open: list[socket.socket] = []

    def read(self, packets_max: int) -> list[bytes]:
        """Return packets that arrived, from their IP header on; at first, and after an error, it opens the sockets."""
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
        """Send packets with the addresses that they have; returns how many the kernel took, raises if it took none."""
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


#: Packets that one tick reads: 7 ms in a flood, of which the kernel drops the rest.
_TICK_PACKETS: Final = 2_048
#: Packets that are passed on in one turn of 4 ms, and the pause after it: 10,000 clients take 0.6 s.
_TURN_PACKETS: Final = 256
_TURN_GAP_S: Final = 0.01
#: For so long clients may send here, after another host has announced that it has the address.
_LATE_MS: Final = 3_000


class SynRelay:
    """Keeps the requests for connections of the last seconds, for the host that has the address next."""

    def __init__(self, sockets: SynSockets, clock: Clock, log: AgentLog) -> None:
        self._sockets, self._clock, self._log = sockets, clock, log
        self._pending = PendingSyns()
        #: Until then everything is passed on, by one task.
        self._until_ms = 0
        self._is_passing = False

    def tick(self) -> None:
        self._read(_TICK_PACKETS)

    def ended(self, sessions: Iterable[Session]) -> None:
        """Pass on nothing for connections that were answered here, and are closed.

        Another host that gets such a request waits for the end of a handshake, and until then resets no connection of
        the same ports: a client that is notified would not notice.
        """
        self._read(_TICK_PACKETS)
        for each in sessions:
            self._pending.remove(connection_name(each.remote, each.remote_port, each.local, each.local_port))

    async def pass_on(self, epoch: int) -> None:
        """Pass on all that arrived, and for 3 s what arrives: another host has the address."""
        self._until_ms = self._clock.now_ms() + _LATE_MS
        if self._is_passing:
            return
        self._is_passing = True
        passed = 0
        try:
            while self._clock.now_ms() < self._until_ms:
                self._read(_TURN_PACKETS)
                passed += self._send(self._pending.pop(_TURN_PACKETS))
                await asyncio.sleep(_TURN_GAP_S)
        finally:
            self._is_passing = False
        if passed:
            self._log.write(AgentEvent.CONNECTIONS_PASSED_ON, epoch=epoch, connections=passed)

    def stop(self) -> None:
        """Pass on nothing more: a task that does so ends within its pause.

        A host that takes the address does not pass on to itself what arrived before: that would come in by the loopback
        interface, where most firewalls let everything pass. Clients send it again.
        """
        self._until_ms = 0

    def _read(self, packets_max: int) -> None:
        now_ms = self._clock.now_ms()
        self._pending.expire(now_ms)
        try:
            packets = self._sockets.read(packets_max)
        except OSError as error:
            self._log.write(AgentEvent.CONNECTIONS_NOT_PASSED_ON, error=str(error))
            return
        for packet in packets:
            if connection := connection_of(packet):
                self._pending.add(connection, packet, now_ms)

    def _send(self, arrived: list[bytes]) -> int:
        packets = [packet for each in arrived if (packet := relayed(each))]
        try:
            return self._sockets.send(packets)
        except OSError as error:
            self._log.write(AgentEvent.CONNECTIONS_NOT_PASSED_ON, error=str(error))
            return 0
