"""Which brokers this controller has reached at their ports; a refused connection proves nothing where it never could.

Firewalls refuse too, and so does whoever has the same address in another network. So each broker that sends heartbeats
is probed once, before that is needed. Pure: `monitor.py` probes.
"""

from sys import intern
from typing import Final, NamedTuple

from controller.failure_detection.heartbeats import BrokerKey
from controller.failure_detection.hosts import BrokerHost
from remoting.protocol.addresses import host_number

#: How soon a broker that was not reached is probed again: doubled up to the longest.
_AGAIN_MS: Final = 1_000
_AGAIN_MS_MAX: Final = 300_000
#: After so many probes in vain, half a minute, somebody should know; a broker that starts listens late.
_TRIES_UNREACHED: Final = 6
#: A broker sends a heartbeat within this, also while it starts; one that did not has failed, and begins anew later.
_CONTACT_MS: Final = 10_000
#: How many brokers are remembered, the last ones.
_REMEMBERED_MAX: Final = 100_000


class _Tries(NamedTuple):
    """Probes of a broker that were not answered so far."""

    address: str
    number: int
    again_ms: int
    #: When its last request came.
    last_contact_ms: int


class _Reached(NamedTuple):
    """Where a broker has answered."""

    address: str
    #: Its host has no number if that is unknown.
    host: BrokerHost
    #: It is there; a name may lead to another host since.
    is_sure: bool


class Reachability:
    """Broker -> the address where it was reached."""

    def __init__(self) -> None:
        self._reached: dict[BrokerKey, _Reached] = {}
        self._tries: dict[BrokerKey, _Tries] = {}
        #: When a request of any unreached broker came last.
        self._contact_ms = 0
        #: Some broker was reached since the start, so this controller can reach brokers at all.
        self.has_reached_any = False

    def reached(self, key: BrokerKey, address: str, peer: str = "") -> None:
        """Remember that a broker was reached; `peer` is the other end of that connection, if that is known."""
        self._tries.pop(key, None)
        host = intern(host_number(peer) or host_number(address))
        is_sure = host != ""
        before = self._reached.get(key)
        if not host and before is not None and before.address == address:
            host, is_sure = before.host.host, before.is_sure
        _evict_oldest(self._reached)
        self._reached[key] = _Reached(address, BrokerHost(host, is_proven=host != ""), is_sure)
        self.has_reached_any = True

    def no_response(self, key: BrokerKey) -> None:
        """Record that a broker did not answer: its name may lead to another host when it comes back."""
        before = self._reached.get(key)
        if before is not None and before.is_sure and not host_number(before.address):
            self._reached[key] = before._replace(is_sure=False)

    def has_reached(self, key: BrokerKey, address: str) -> bool:
        """Return whether this broker was reached at this address."""
        reached = self._reached.get(key)
        return reached is not None and reached.address == address

    def found_host(self, key: BrokerKey, address: str) -> BrokerHost | None:
        """Return where this address leads, if that is known for certain."""
        reached = self._reached.get(key)
        return reached.host if reached is not None and reached.is_sure and reached.address == address else None

    def host_of(self, key: BrokerKey, address: str) -> str:
        """Return the number of the host where this broker was reached at this address; blank if it was not."""
        reached = self._reached.get(key)
        return reached.host.host if reached is not None and reached.address == address else ""

    def record_contact(self, key: BrokerKey, now_ms: int) -> None:
        """Note that a broker sends heartbeats which there is no time to probe now."""
        self._contact_ms = now_ms
        if (tries := self._tries.get(key)) is not None and now_ms - tries.last_contact_ms <= _CONTACT_MS:
            self._tries[key] = tries._replace(last_contact_ms=now_ms)

    def begin(self, key: BrokerKey, address: str, now_ms: int) -> bool:
        """Return whether a broker that sends a heartbeat now is to be probed, and count it."""
        self._contact_ms = now_ms
        before = self._tries.get(key)
        if before is None or before.address != address or now_ms - before.last_contact_ms > _CONTACT_MS:
            before = _Tries(address, 0, now_ms, now_ms)
        if now_ms < before.again_ms:
            self._tries[key] = before._replace(last_contact_ms=now_ms)
            return False
        pause_ms = min(_AGAIN_MS << min(before.number, 10), _AGAIN_MS_MAX)
        _evict_oldest(self._tries)
        self._tries[key] = _Tries(address, before.number + 1, now_ms + pause_ms, now_ms)
        return True

    @property
    def unreached(self) -> list[BrokerKey]:
        """Return which brokers never answered a probe and still send heartbeats."""
        since_ms = self._contact_ms - _CONTACT_MS
        return [
            key
            for key, tries in self._tries.items()
            if tries.number >= _TRIES_UNREACHED and tries.last_contact_ms >= since_ms
        ]

    def remove(self, key: BrokerKey) -> None:
        """Forget that a broker was reached, or that it was not."""
        self._reached.pop(key, None)
        self._tries.pop(key, None)


def _evict_oldest(remembered: dict[BrokerKey, _Reached] | dict[BrokerKey, _Tries]) -> None:
    while len(remembered) >= _REMEMBERED_MAX:
        del remembered[next(iter(remembered))]
