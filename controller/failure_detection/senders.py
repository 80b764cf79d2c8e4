"""From which host a broker's requests come, and whether one in its name comes from elsewhere.

Requests carry no credentials, so anybody can name a broker. The network only shows where a connection comes from: a
broker that was reached at the host of its address, and connects from there, is not at another host at the same time.
Brokers behind proxies or at other addresses of their machines cannot be distinguished from others this way.
"""

from sys import intern
from typing import Final, NamedTuple

from controller.failure_detection.detector import FailureDetector
from controller.failure_detection.heartbeats import (
    HOME_CONNECTION_MS,
    TIMEOUT_BELIEVED_MS_MAX,
    BrokerKey,
    BrokersByConnection,
    HeartbeatTable,
    Owner,
    Source,
)
from controller.failure_detection.hosts import BrokerHost
from remoting.protocol.addresses import host_number

# A refused connection proves nothing where this controller never reached the broker: firewalls refuse too, and so does
# another host of the same address. So each broker that sends heartbeats is probed once, before that is needed.

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
    address: str
    #: Its host has no number if that is unknown.
    host: BrokerHost
    #: It is there; a name may lead to another host since.
    is_sure: bool


class Reachability:
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
        self._reached.pop(key, None)
        self._tries.pop(key, None)


def _evict_oldest(remembered: dict[BrokerKey, _Reached] | dict[BrokerKey, _Tries]) -> None:
    while len(remembered) >= _REMEMBERED_MAX:
        del remembered[next(iter(remembered))]


class Senders:
    """Who sends requests in the names of the brokers of a live table."""

    def __init__(self, live: HeartbeatTable, detector: FailureDetector, reach: Reachability) -> None:
        self._live, self._detector, self._reach = live, detector, reach
        #: Over which connection a request of a broker came last that is no heartbeat, which may take another way; it
        #: counts while it is open. By broker, and the other way round.
        self._requests_over: dict[BrokerKey, Source] = {}
        self._requesters = BrokersByConnection()

    def record_request(self, key: BrokerKey, source: Source) -> None:
        """Record that a request of a broker other than a heartbeat was accepted."""
        if self._requests_over.get(key) != source:
            self.remove(key)
            self._requests_over[key] = source
            self._requesters.add(source.connection_id, key)

    def record_request_from_host(self, key: BrokerKey, address: str, source: Source) -> None:
        """Record a request that may be this broker's, as it comes from its host."""
        if self._requests_over.get(key) != source and self._is_home(key, address, source.peer):
            self.record_request(key, source)

    def connection_lost(self, connection_id: int) -> None:
        """Forget whose requests came over a closed connection: the broker may come another way."""
        for key in self._requesters.pop(connection_id):
            del self._requests_over[key]

    def remove(self, key: BrokerKey) -> None:
        source = self._requests_over.pop(key, None)
        if source is not None:
            self._requesters.discard(source.connection_id, key)

    def is_from_elsewhere(self, key: BrokerKey, address: str, source: Source, now_ms: int) -> bool:
        """Return whether a request is not the broker's, as others came from the broker's host lately."""
        heartbeat = self._live.get(key)
        if heartbeat is None or (heartbeat.connection_id == source.connection_id and heartbeat.owner is None):
            return False
        # A broker that has sent one heartbeat only is not missed before its timeout.
        due_ms = (
            heartbeat.period_ms * 3 // 2 if heartbeat.period_ms else min(heartbeat.timeout_ms, TIMEOUT_BELIEVED_MS_MAX)
        )
        is_late = now_ms - heartbeat.own.last_contact_ms > max(HOME_CONNECTION_MS, due_ms)
        return not is_late and self._is_apart(key, address, source, heartbeat.own)

    def is_request_from_elsewhere(self, key: BrokerKey, address: str, source: Source, now_ms: int) -> bool:
        """Return the same of a request that is no heartbeat."""
        requests_over = self._requests_over.get(key)
        is_from_host = requests_over is not None and self._is_home(key, address, requests_over.peer)
        return is_from_host and self.is_from_elsewhere(key, address, source, now_ms)

    def is_failed_from_elsewhere(self, key: BrokerKey, address: str, source: Source) -> bool:
        """Return the same of what comes in the name of a failed broker whose requests came from its host before."""
        last = self._detector.last_of_failed(key)
        return last is not None and self._live.get(key) is None and self._is_apart(key, address, source, last.own)

    def broker_host(self, key: BrokerKey, address: str, peer: str = "") -> BrokerHost:
        """Return where a member is that is stored at an address; `peer` is where its requests come from, if known."""
        if host := self._reach.host_of(key, address):
            return BrokerHost(host, is_proven=True)
        host = host_number(address)
        return BrokerHost(host, is_proven=host != "" and host == host_number(peer))

    def _is_apart(self, key: BrokerKey, address: str, source: Source, own: Owner) -> bool:
        return self._is_home(key, address, own.peer) and not self._is_home(key, address, source.peer)

    def _is_home(self, key: BrokerKey, address: str, peer: str) -> bool:
        """Return whether a connection comes from where a broker was reached; addresses of this machine are one host."""
        home, number = self._reach.host_of(key, address), host_number(peer)
        if not (home and number):
            return False
        is_own = self._detector.hosts.is_own
        return number == home or (is_own(home) and is_own(number))
