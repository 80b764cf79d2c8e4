"""Passes on what arrived while nobody answered for the address: its clients need not wait until they send it again."""

import asyncio
from collections.abc import Iterable
from typing import Final

from remoting.clock import Clock
from role_agent import events
from role_agent.log import AgentLog
from role_agent.network.sessions import Session
from role_agent.network.syn_sockets import SynSockets
from role_agent.network.syns import connection_name, connection_of, relayed
from role_agent.rules.pending_syns import PendingSyns

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
        """Begin with none."""
        self._sockets = sockets
        self._clock = clock
        self._log = log
        self._pending = PendingSyns()
        #: Until then everything is passed on, by one task.
        self._until_ms = 0
        self._is_passing = False

    def tick(self) -> None:
        """Read what has arrived; to be called several times in a second."""
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
            self._log.write(events.CONNECTIONS_PASSED_ON, epoch=epoch, connections=passed)

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
            self._log.write(events.CONNECTIONS_NOT_PASSED_ON, error=str(error))
            return
        for packet in packets:
            if connection := connection_of(packet):
                self._pending.add(connection, packet, now_ms)

    def _send(self, arrived: list[bytes]) -> int:
        packets = [packet for each in arrived if (packet := relayed(each))]
        try:
            return self._sockets.send(packets)
        except OSError as error:
            self._log.write(events.CONNECTIONS_NOT_PASSED_ON, error=str(error))
            return 0
