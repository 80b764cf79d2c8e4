"""Tables as registrations leave them: every member lives, and every set has the topics of the default registration."""

from builders import TOPIC, WRITABLE, a_live_row, queue_datas

from namesrv.core.tables.change import RouteTables
from namesrv.core.tables.live_table import LiveKey
from namesrv.recording.rows import snapshot


def route_tables(*sets, perm=WRITABLE, **row):
    """Return tables with these broker sets; `row` is said of every member."""
    tables = RouteTables()
    for broker_set in sets:
        name = broker_set.broker_name
        tables.brokers.put(broker_set)
        tables.topics.put(name, queue_datas(TOPIC, name, broker_name=name, perm=perm))
        for broker_id, member in broker_set.members.items():
            values = {"cluster": member.cluster, "broker_id": broker_id} | row
            tables.live.put(LiveKey(name, member.address), a_live_row(**values))
    return tables


def pieces_of(tables):
    """Return a snapshot of routes that nothing changes meanwhile."""
    return [piece for piece in snapshot(tables, "S", lambda: 0) if piece is not None]
