"""brokerLiveTable and filterServerTable: each broker's last heartbeat, its connections, and when it expires.

A row belongs to one member of one set. Java keys by cluster and address alone, so two names at one address share a row
and the second to leave stays for ever; here each has its own.

Java knows only the latest connection, and a broker goes with it. A broker that has two names for this server registers
over two connections in each period, and must not go with one of them; but one that its former process left half open,
as a machine does that loses its power, proves nothing about the present process. What separates them is whether the
other end still answers, which is probed as soon as there is a doubt; and as a proxy answers too, when the broker last
registered over each.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from namesrv.core.values.effects import (
    BrokerHeartbeat,
    BrokerRemoved,
    DepartureReason,
    HeartbeatKind,
    ProbeConnection,
    RouteChanges,
)
from remoting.protocol.shapes.route import MASTER_ID, DataVersion

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
    last_heartbeat_ms: int
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
        return self._rows.get(key)

    def rows(self) -> Iterable[tuple[LiveKey, LiveRow]]:
        return self._rows.items()

    def at_address(self, cluster: str, address: str) -> LiveKey | None:
        """Return the member of any set that came first to an address of a cluster and is still there."""
        return next(iter(self._by_address.get((cluster, address), ())), None)

    def of_connection(self, connection_id: int) -> list[LiveKey]:
        return list(self._by_connection.get(connection_id, ()))

    def count_of_connection(self, connection_id: int) -> int:
        return len(self._by_connection.get(connection_id, ()))

    def has_registered_over(self, connection_id: int) -> bool:
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


#: So many connections of a broker are known beside its latest.
OLDER_CONNECTIONS_MAX: Final = 3

#: Brokers register each 10 to 60 s (registerNameServerPeriod, which Java brokers keep within these bounds). What comes
#: sooner after the one before reports changed topics, not the period.
PERIOD_MS_MIN: Final = 10_000
PERIOD_MS_MAX: Final = 60_000


def registered(row: LiveRow, connection_id: int, now_ms: int) -> LiveRow:
    """Return the row of a broker that registers at `now_ms` over a connection, which is its latest from now on."""
    older = row.older_connections
    last_ms: int | None = None
    if row.connection_id == connection_id:
        last_ms = row.registered_ms
    else:
        for number, registered_ms in older:
            if number == connection_id:
                last_ms = registered_ms
        others = (*older, OlderConnection(row.connection_id, row.registered_ms))
        older = tuple(other for other in others if other.connection_id != connection_id)[-OLDER_CONNECTIONS_MAX:]
    return row._replace(
        last_heartbeat_ms=now_ms,
        connection_id=connection_id,
        registered_ms=now_ms,
        period_ms=row.period_ms if last_ms is None else _period_ms(row.period_ms, now_ms - last_ms),
        older_connections=older,
        grace_ends_ms=None,
    )


def without(row: LiveRow, connection_id: int, now_ms: int) -> LiveRow | None:
    """Return the row of a broker that lost one of its connections at `now_ms`; None if it is not to stay.

    It stays with another connection for one and a half periods after it registered over that, and longer only if it is
    registered within this time.
    """
    others = tuple(other for other in row.older_connections if other.connection_id != connection_id)
    if row.connection_id != connection_id:
        return row._replace(older_connections=others)
    if not others:
        return None
    latest = others[-1]
    grace_ends_ms = latest.registered_ms + row.period_ms * 3 // 2
    if grace_ends_ms < now_ms:
        return None
    return row._replace(
        connection_id=latest.connection_id,
        registered_ms=latest.registered_ms,
        older_connections=others[:-1],
        grace_ends_ms=grace_ends_ms,
    )


def probes_of(before: LiveRow | None, after: LiveRow) -> tuple[ProbeConnection, ...]:
    """Probe the connections whose other end may be gone, now that a broker's connections are others than before.

    They are the older ones of a broker that comes over a new connection, and what is left when it lost its latest.
    """
    numbers: tuple[int, ...] = ()
    if before is not None and after.connection_id not in before.connections:
        numbers = tuple(number for number, _ in after.older_connections)
    elif before is not None and before.connection_id not in after.connections:
        numbers = after.connections
    return tuple(map(ProbeConnection, numbers))


def heartbeat_event(key: LiveKey, row: LiveRow, before: LiveRow | None, kind: HeartbeatKind) -> BrokerHeartbeat:
    """Return the event of a heartbeat that made `before`, None for a first registration, into `row`."""
    return BrokerHeartbeat(
        cluster=row.cluster,
        broker_name=key.broker_name,
        broker_id=row.broker_id,
        kind=kind,
        address=key.address,
        interval_ms=row.last_heartbeat_ms - before.last_heartbeat_ms if before else None,
        heartbeat_timeout_ms=row.timeout_ms,
        data_version=row.data_version,
    )


def removal_event(key: LiveKey, row: LiveRow, reason: DepartureReason, now_ms: int) -> BrokerRemoved:
    """Return the event of a broker that leaves a set, as far as its row has it."""
    return BrokerRemoved(
        cluster=row.cluster,
        broker_name=key.broker_name,
        broker_id=row.broker_id,
        address=key.address,
        reason=reason,
        silent_ms=now_ms - row.last_heartbeat_ms,
        heartbeat_timeout_ms=row.timeout_ms,
        was_master=row.broker_id == MASTER_ID,
        set_removed=False,
        changes=RouteChanges(),
    )


def _period_ms(known_ms: int, gap_ms: int) -> int:
    """Return how long a broker's period is, as far as is known; a shorter one is believed little by little."""
    if gap_ms < PERIOD_MS_MIN:
        return known_ms
    return min(PERIOD_MS_MAX, max(gap_ms, known_ms * 3 // 4))
