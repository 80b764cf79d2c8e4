"""Tables as registrations leave them: every member lives, and every set has the topics of the default registration."""

from builders import TOPIC, a_live_row, queue_datas

from namesrv.core.tables.change import RouteTables
from namesrv.core.tables.live_table import LiveKey
from namesrv.recording.rows import snapshot


def route_tables(*sets):
    """Return tables with these broker sets."""
    tables = RouteTables()
    for broker_set in sets:
        name = broker_set.broker_name
        tables.brokers.put(broker_set)
        tables.topics.put(name, queue_datas(TOPIC, name, broker_name=name))
        for broker_id, member in broker_set.members.items():
            row = a_live_row(cluster=member.cluster, broker_id=broker_id)
            tables.live.put(LiveKey(name, member.address), row)
    return tables


def pieces_of(tables):
    """Return a snapshot of routes that nothing changes meanwhile."""
    return [piece for piece in snapshot(tables, "S", lambda: 0) if piece is not None]
