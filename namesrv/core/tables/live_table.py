"""brokerLiveTable and filterServerTable: each broker's last heartbeat, its connection, and when it expires.

A row belongs to one member of one set. Java keys by cluster and address alone, so two names at one address share a row
and the second to leave stays for ever; here each has its own.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from remoting.protocol.shapes.route import DataVersion

#: How often a broker registers unless it shows another period, in ms: registerNameServerPeriod of Java brokers.
PERIOD_MS_DEFAULT: Final = 30_000
#: How long a slave may take to copy the topics of its master, in ms: it looks each 10 s.
TOPIC_COPY_MS_MAX: Final = 20_000


class LiveKey(NamedTuple):
    """A member of a broker set."""

    broker_name: str
    address: str


class OlderConnection(NamedTuple):
    """A connection over which a broker registered before it did over another."""

    connection_id: int
    #: Monotonic ms of the last registration over it.
    registered_ms: int


class LiveRow(NamedTuple):
    """A live broker, from its last registration and the heartbeats since."""

    cluster: str
    broker_id: int
    #: Monotonic ms of the last heartbeat.
    last_heartbeat_ms: int
    #: Heartbeat timeout, in ms.
    timeout_ms: int
    data_version: DataVersion
    #: The connection of the latest registration.
    connection_id: int
    ha_server_addr: str
    #: Ordinal of the broker's release.
    version: int
    filter_servers: tuple[str, ...]
    #: Monotonic ms of the latest registration, and of the first one with the present data version.
    registered_ms: int = 0
    version_since_ms: int = 0
    #: How often the broker registers, as far as is known, in ms.
    period_ms: int = PERIOD_MS_DEFAULT
    #: Open connections of registrations before the latest, oldest first.
    older_connections: tuple[OlderConnection, ...] = ()
    #: Since it lost its latest connection, until when it must send a heartbeat, in monotonic ms; None in general.
    grace_ends_ms: int | None = None

    @property
    def connections(self) -> tuple[int, ...]:
        """All connections of the broker, the latest registration's last."""
        return (*(number for number, _ in self.older_connections), self.connection_id)

    @property
    def deadline_ms(self) -> int:
        """Until when the broker may be silent, in monotonic ms."""
        deadline_ms = self.last_heartbeat_ms + self.timeout_ms
        return deadline_ms if self.grace_ends_ms is None else min(deadline_ms, self.grace_ends_ms)

    def lacks_topics_of(self, master: "LiveRow") -> bool:
        """Return whether this slave still has other topics than its master, long after it should have copied them."""
        is_late = self.registered_ms - master.version_since_ms >= TOPIC_COPY_MS_MAX
        return is_late and self.data_version != master.data_version


class LiveTable:
    """Member -> row, with the members of each connection."""

    def __init__(self) -> None:
        self._rows: dict[LiveKey, LiveRow] = {}
        #: Member -> until when it may be silent: all that a scan looks at.
        self._deadlines: dict[LiveKey, int] = {}
        #: No deadline lies before this: heartbeats only move them on.
        self._earliest_ms = 0
        self._by_connection: dict[int, dict[LiveKey, None]] = {}
        #: Cluster and address -> the members of any set there.
        self._by_address: dict[tuple[str, str], dict[LiveKey, None]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: LiveKey) -> LiveRow | None:
        """Return a member's row, if it lives."""
        return self._rows.get(key)

    def rows(self) -> Iterable[tuple[LiveKey, LiveRow]]:
        """Return every living member."""
        return self._rows.items()

    def at_address(self, cluster: str, address: str) -> LiveKey | None:
        """Return the member of any set that came first to an address of a cluster and is still there."""
        return next(iter(self._by_address.get((cluster, address), ())), None)

    def of_connection(self, connection_id: int) -> list[LiveKey]:
        """Return the members that have registered over a connection."""
        return list(self._by_connection.get(connection_id, ()))

    def count_of_connection(self, connection_id: int) -> int:
        """Return how many members have registered over a connection."""
        return len(self._by_connection.get(connection_id, ()))

    def has_registered_over(self, connection_id: int) -> bool:
        """Return whether a living member has registered over a connection."""
        return connection_id in self._by_connection

    def expired(self, now_ms: int) -> list[LiveKey]:
        """Return the members whose deadline lies before `now_ms`."""
        self._earliest_ms = min(self._deadlines.values(), default=now_ms)
        return [key for key, deadline_ms in self._deadlines.items() if deadline_ms < now_ms]

    @property
    def earliest_ms(self) -> int | None:
        """A time before which no deadline lies, as near as the last look found; None if nobody lives."""
        return self._earliest_ms if self._deadlines else None

    def is_expired(self, key: LiveKey, now_ms: int) -> bool:
        """Return whether a member's deadline lies before `now_ms`; False for one that is not there."""
        return self._deadlines.get(key, now_ms) < now_ms

    def put(self, key: LiveKey, row: LiveRow) -> None:
        """Store a member's row."""
        self._leave_connections(key)
        before = self._rows.get(key)
        if before is None or before.cluster != row.cluster:
            self._leave_address(key)
            self._by_address.setdefault((row.cluster, key.address), {})[key] = None
        self._rows[key] = row
        self._deadlines[key] = deadline_ms = row.deadline_ms
        self._earliest_ms = min(self._earliest_ms, deadline_ms)
        for number in row.connections:
            self._by_connection.setdefault(number, {})[key] = None

    def refresh(self, key: LiveKey, now_ms: int) -> None:
        """Record a heartbeat of a registered member."""
        row = self._rows[key]
        self._rows[key] = row._replace(last_heartbeat_ms=now_ms, grace_ends_ms=None)
        self._deadlines[key] = now_ms + row.timeout_ms

    def remove(self, key: LiveKey) -> None:
        """Remove a member, if it is known."""
        self._leave_connections(key)
        self._leave_address(key)
        self._rows.pop(key, None)
        self._deadlines.pop(key, None)

    def _leave_address(self, key: LiveKey) -> None:
        row = self._rows.get(key)
        if row is None:
            return
        place = row.cluster, key.address
        keys = self._by_address[place]
        del keys[key]
        if not keys:
            del self._by_address[place]

    def _leave_connections(self, key: LiveKey) -> None:
        row = self._rows.get(key)
        if row is None:
            return
        for number in row.connections:
            keys = self._by_connection[number]
            del keys[key]
            if not keys:
                del self._by_connection[number]
