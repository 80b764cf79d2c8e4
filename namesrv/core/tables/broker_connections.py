"""Over which connections a broker registers, and which of them still show that its process lives.

Java knows only the latest, and a broker goes with it. A broker that has two names for this server registers over two
connections in each period, and must not go with one of them; but one that its former process left half open, as a
machine does that loses its power, proves nothing about the present process. What separates them is whether the other
end still answers, which is probed as soon as there is a doubt; and as a proxy answers too, when the broker last
registered over each. Pure: a row in, a row out.
"""

from typing import Final

from namesrv.core.tables.live_table import LiveKey, LiveRow, OlderConnection
from namesrv.core.values.effects import (
    BrokerHeartbeat,
    BrokerRemoved,
    DepartureReason,
    HeartbeatKind,
    ProbeConnection,
    RouteChanges,
)
from remoting.protocol.shapes.route import MASTER_ID

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
