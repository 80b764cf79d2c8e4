"""What an agent does to its host, and repeats: announcements and notices may be lost. Logs each change."""

from contextlib import suppress
from typing import Final

from remoting.clock import Clock
from role_agent import events
from role_agent.log import AgentLog
from role_agent.network.host import HostNetwork
from role_agent.network.sessions import Session
from role_agent.rules.address_holder import lifetime_s
from role_agent.rules.effects import EndSessions, ReleaseAddress, TakeAddress

#: Between two renewals of an address: the kernel reports each to whoever watches addresses.
_RENEWAL_GAP_MS: Final = 400
#: When announcements follow the first one, since any may be lost; after these, one in each `_ANNOUNCEMENT_GAP_MS`.
_ANNOUNCEMENTS_MS: Final = (100, 300, 700, 1500, 3000)
_ANNOUNCEMENT_GAP_MS: Final = 5_000
#: When clients are notified after their connections were closed, in case no other agent reports to have the address: a
#: broker may take seconds until it serves.
_NOTICES_MS: Final = (250, 1000, 2000, 4000, 8000, 16_000)
#: And once more after that report: a neighbour may follow the announcement of the new host a moment later.
_NOTICE_AGAIN_MS: Final = 100
#: For so long slaves of the superseded master are cut off again and again: one that has not yet been notified of its
#: election connects anew, and waits for the frozen master's answer for 5 s.
_HA_CLOSED_FOR_MS: Final = 6_000
#: With 1,000 sockets on the host the kernel takes 6 ms each time, in which the agent does nothing else.
_HA_CLOSED_GAP_MS: Final = 250


class HostActions:
    """Changes this host as the rules have decided."""

    def __init__(self, host: HostNetwork, clock: Clock, log: AgentLog) -> None:
        """Begin with nothing due."""
        self._host = host
        self._clock = clock
        self._log = log
        self._renewed_ms: int | None = None
        self._announce_at_ms: list[int] = []
        self._notify_at_ms: list[int] = []
        self._ha_closed_until_ms = 0
        self._ha_close_again_ms = 0
        #: Connections that were closed last; their clients may not have noticed.
        self._closed: list[Session] = []

    def take(self, effect: TakeAddress, claimed_for_ms: int) -> bool:
        """Add the address and announce it; False if the kernel refuses, and then the address is to be removed."""
        now_ms = self._clock.now_ms()
        try:
            self._host.add(lifetime_s(effect.until_ms, now_ms))
            self._host.announce()
        except OSError as error:
            self._log.write(events.ADDRESS_NOT_TAKEN, epoch=effect.epoch, error=str(error))
            return False
        self._renewed_ms = now_ms
        self._announce_at_ms = [now_ms + each for each in _ANNOUNCEMENTS_MS]
        if effect.without:
            self._log.write(
                events.ADDRESS_TAKEN_WITHOUT_RELEASE,
                epoch=effect.epoch,
                without=sorted(effect.without),
                claimed_for_ms=claimed_for_ms,
            )
        else:
            self._log.write(events.ADDRESS_TAKEN, epoch=effect.epoch, claimed_for_ms=claimed_for_ms)
        return True

    def renew(self, epoch: int, until_ms: int) -> None:
        """Have the kernel remove the address at `until_ms`; one that somebody else removed is added again."""
        now_ms = self._clock.now_ms()
        seconds = lifetime_s(until_ms, now_ms)
        is_early = self._renewed_ms is not None and now_ms - self._renewed_ms < _RENEWAL_GAP_MS
        if seconds < 1 or is_early:
            return
        try:
            self._host.add(seconds)
        except OSError as error:
            self._log.write(events.ADDRESS_NOT_TAKEN, epoch=epoch, error=str(error))
            return
        self._renewed_ms = now_ms
        if not self._announce_at_ms:
            self._announce_at_ms.append(now_ms + _ANNOUNCEMENT_GAP_MS)

    def release(self, effect: ReleaseAddress) -> bool:
        """Remove the address; False if the kernel refuses, which then removes it after its lifetime."""
        self._announce_at_ms.clear()
        try:
            self._host.remove()
        except OSError as error:
            self._log.write(events.ADDRESS_NOT_RELEASED, epoch=effect.epoch, error=str(error))
            return False
        self._log.write(events.ADDRESS_RELEASED, epoch=effect.epoch, cause=effect.cause)
        return True

    def end_sessions(self, effect: EndSessions) -> list[Session]:
        """Close the connections of the address and return them; their clients are notified now and then.

        The connections of the broker's slaves are closed too, for a while: one that is elected reads from its master,
        if that is frozen, for up to a second more before it becomes the master (`AutoSwitchHAClient`).
        """
        now_ms = self._clock.now_ms()
        self._ha_closed_until_ms, self._ha_close_again_ms = now_ms + _HA_CLOSED_FOR_MS, now_ms + _HA_CLOSED_GAP_MS
        try:
            ha_connections = self._host.close_ha_connections()
            self._closed = self._host.close_sessions()
        except OSError as error:
            self._log.write(events.SESSIONS_NOT_ENDED, epoch=effect.epoch, error=str(error))
            return []
        self._notify_at_ms = [now_ms + each for each in _NOTICES_MS]
        if self._closed or ha_connections:
            ended = {"sessions": len(self._closed), "ha_connections": ha_connections}
            self._log.write(events.SESSIONS_ENDED, epoch=effect.epoch, **ended)
        return self._closed

    def notify_clients(self) -> None:
        """Have clients of closed connections notice: another host has the address now."""
        self._notify_at_ms = [self._clock.now_ms() + _NOTICE_AGAIN_MS]
        self._notify()

    def allow_slaves(self) -> None:
        """Close no more connections of slaves: the broker of this host is the master."""
        self._ha_closed_until_ms = 0

    def tick(self) -> None:
        """Repeat what is due."""
        now_ms = self._clock.now_ms()
        if self._ha_close_again_ms <= now_ms < self._ha_closed_until_ms:
            self._ha_close_again_ms = now_ms + _HA_CLOSED_GAP_MS
            # What the kernel refuses it has refused before, and that is logged.
            with suppress(OSError):
                self._host.close_ha_connections()
        if _is_due(self._announce_at_ms, now_ms):
            self._announce(now_ms)
        if _is_due(self._notify_at_ms, now_ms):
            self._notify()

    def _announce(self, now_ms: int) -> None:
        try:
            self._host.announce()
        except OSError as error:
            self._log.write(events.ADDRESS_NOT_ANNOUNCED, error=str(error))
        if not self._announce_at_ms:
            self._announce_at_ms.append(now_ms + _ANNOUNCEMENT_GAP_MS)

    def _notify(self) -> None:
        try:
            self._host.notify_clients(self._closed)
        except OSError as error:
            self._log.write(events.CLIENTS_NOT_NOTIFIED, error=str(error))
        if not self._notify_at_ms:
            self._closed = []


def _is_due(times_ms: list[int], now_ms: int) -> bool:
    """Return whether a time has come, and remove those that have."""
    later = [each for each in times_ms if each > now_ms]
    is_due = len(later) < len(times_ms)
    times_ms[:] = later
    return is_due
