"""From which host a broker's requests come, and whether one in its name comes from elsewhere.

Requests carry no credentials, so anybody can name a broker. The network only shows where a connection comes from: a
broker that was reached at the host of its address, and connects from there, is not at another host at the same time.
Brokers behind proxies or at other addresses of their machines cannot be distinguished from others this way.
"""

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
from controller.failure_detection.reachability import Reachability
from remoting.protocol.addresses import host_number


class Senders:
    """Who sends requests in the names of the brokers of a live table."""

    def __init__(self, live: HeartbeatTable, detector: FailureDetector, reach: Reachability) -> None:
        self._live = live
        self._detector = detector
        self._reach = reach
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
        """Forget over which connection a broker's requests came."""
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
