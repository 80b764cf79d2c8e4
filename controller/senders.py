"""From which host a broker is heard, and that nobody speaks for it from elsewhere.

Requests carry no credentials, so anybody can name a broker. What the network tells is where a connection comes from: a
broker that was reached at the host of its address, and is heard from there, is not at another host at the same time.
Brokers that come through proxies or from other addresses of their machines are not told from others so.
"""

from controller.detection import Detection
from controller.live_table import HOME_CONNECTION_MS, BrokerKey, LiveTable, Owner, Source
from controller.reach import Reach
from remoting.addresses import host_number


class Senders:
    """Who speaks for the brokers of a live table."""

    def __init__(self, live: LiveTable, detection: Detection, reach: Reach) -> None:
        self._live = live
        self._detection = detection
        self._reach = reach
        #: Brokers whose requests, other than heartbeats, came from their hosts: these may take another way.
        self._asks_from_home: set[BrokerKey] = set()

    def came(self, key: BrokerKey, address: str, source: Source) -> None:
        """Take note where a request of a broker came from that is no heartbeat, and was taken."""
        if self._is_home(self._reach.host_of(key, address), source.peer):
            self._asks_from_home.add(key)
        else:
            self._asks_from_home.discard(key)

    def asked(self, key: BrokerKey, address: str, source: Source) -> None:
        """Take note that a broker of a host asked something; requests about a set do not tell which."""
        if self._is_home(self._reach.host_of(key, address), source.peer):
            self._asks_from_home.add(key)

    def forget(self, key: BrokerKey) -> None:
        """Forget a broker that belongs to no set any more."""
        self._asks_from_home.discard(key)

    def is_elsewhere(self, key: BrokerKey, address: str, source: Source, now_ms: int) -> bool:
        """Tell whether what comes from there is not from the broker, as that was heard from its host lately."""
        heard = self._live.get(key)
        if heard is None or (heard.connection_id == source.connection_id and heard.owner is None):
            # Nearly always: the connection of its last heartbeat.
            return False
        own_ms = max(HOME_CONNECTION_MS, heard.period_ms * 3 // 2)
        return now_ms - heard.own.heard_ms <= own_ms and self._is_apart(key, address, source, heard.own)

    def asks_elsewhere(self, key: BrokerKey, address: str, source: Source, now_ms: int) -> bool:
        """Tell the same of a request that is no heartbeat."""
        return key in self._asks_from_home and self.is_elsewhere(key, address, source, now_ms)

    def was_elsewhere(self, key: BrokerKey, address: str, source: Source) -> bool:
        """Tell the same of what comes in the name of a broker that is dead, and was heard from its host before."""
        last = self._detection.last_of_dead(key)
        return last is not None and self._live.get(key) is None and self._is_apart(key, address, source, last.own)

    def _is_apart(self, key: BrokerKey, address: str, source: Source, own: Owner) -> bool:
        home = self._reach.host_of(key, address)
        return home != "" and self._is_home(home, own.peer) and not self._is_home(home, source.peer)

    def _is_home(self, home: str, peer: str) -> bool:
        """Tell whether a connection comes from the host of this number; all addresses of this machine are one host."""
        number = host_number(peer)
        if not (home and number):
            return False
        is_own = self._detection.hosts.is_own
        return number == home or (is_own(home) and is_own(number))
