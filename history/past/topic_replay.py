"""Replays the rows that one topic's route depends on. Pure.

What a NameServer recorded is applied in its order to the little that the route of one topic depends on; then the
NameServer's own rule makes the route of it, so that it is what was served.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from history.past.rows import StoredRow
from namesrv.core.routes import route_of
from namesrv.core.tables.broker_table import Member, RegisteredSet
from namesrv.core.tables.change import RouteTables
from namesrv.core.tables.live_table import LiveKey, LiveRow
from namesrv.recording.rows import QueueSettings, RouteProperties
from remoting.protocol.shapes.route import DataVersion, QueueData, TopicQueueMappingInfo, TopicRouteData

_DEFAULTS: Final = RouteProperties(support_acting_master=False, order_message_enable=False)


class TopicReplay:
    """What a NameServer knew of one topic, after the rows that were applied."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        #: In the order in which the sets stand in the route.
        self._holders: dict[str, QueueSettings] = {}
        self._sets: dict[str, RegisteredSet] = {}
        self._filters: dict[tuple[str, str], tuple[str, ...]] = {}
        self._mappings: dict[str, TopicQueueMappingInfo] = {}
        self._order_conf: str | None = None
        self._properties = _DEFAULTS
        #: The snapshot that was applied last.
        self._snapshot_id: str | None = None

    def apply(self, rows: Iterable[StoredRow]) -> None:
        for row in rows:
            if row.event_type == "configured" and row.detail is not None:
                self._properties = msgspec.json.decode(row.detail, type=RouteProperties)
            elif row.event_type == "queues":
                self._apply_queues(row)
            elif row.event_type == "topic_changed" or (row.event_type == "snapshot" and row.topic is not None):
                self._apply_change(row)
            elif row.event_type not in ("summary", "finished"):
                self._apply_state(row)

    def _apply_queues(self, row: StoredRow) -> None:
        if not isinstance(row.topics, tuple) or self.topic not in row.topics:
            return
        if row.scope == "all" and row.snapshot_id != self._snapshot_id:
            # The first row of another snapshot: it tells of all sets that have the topic.
            self._snapshot_id = row.snapshot_id
            self._holders.clear()
        settings = _settings(row.read, row.write, row.perm, row.topic_sys_flag)
        for name in row.broker_names:
            self._put(name, settings)

    def _apply_change(self, row: StoredRow) -> None:
        if row.topic != self.topic:
            return
        name = row.broker_name or ""
        if row.kind == "order":
            self._order_conf = row.detail
        elif row.kind == "mapping" and row.detail is not None:
            self._mappings[name] = msgspec.json.decode(row.detail, type=TopicQueueMappingInfo)
        else:
            self._put(name, _settings(row.new_read, row.new_write, row.new_perm, row.topic_sys_flag))

    def _put(self, broker_name: str, settings: QueueSettings | None) -> None:
        if settings is not None:
            self._holders[broker_name] = settings
        else:
            self._holders.pop(broker_name, None)
            self._mappings.pop(broker_name, None)

    def _apply_state(self, row: StoredRow) -> None:
        name = row.broker_name or ""
        if row.filter_servers is not None and row.broker_addr is not None:
            self._filters[name, row.broker_addr] = row.filter_servers
        if row.set_ids is None:
            return
        addresses, clusters = row.set_addrs or (), row.set_clusters or ()
        members = zip(row.set_ids, map(Member, addresses, clusters), strict=True)
        self._sets[name] = RegisteredSet(
            broker_name=name,
            cluster=row.set_cluster or "",
            enable_acting_master=bool(row.enable_acting_master),
            zone_name=row.zone_name,
            members=dict(members),
        )
        if not row.set_ids:
            del self._sets[name]
            self._put(name, None)

    def route(self) -> TopicRouteData | None:
        """Return the route as it is after the rows that were applied, None if no broker has the topic."""
        tables = RouteTables()
        for broker_set in self._sets.values():
            tables.brokers.put(broker_set)
        for name, settings in self._holders.items():
            data = QueueData(
                broker_name=name,
                perm=settings.perm,
                read_queue_nums=settings.read,
                topic_sys_flag=settings.topic_sys_flag,
                write_queue_nums=settings.write,
            )
            tables.topics.put(name, {self.topic: data})
        for name, mapping in self._mappings.items():
            tables.mappings.put(name, {self.topic: mapping})
        for (name, address), servers in self._filters.items():
            tables.live.put(LiveKey(name, address), _live(servers))
        return route_of(
            tables,
            self.topic,
            support_acting_master=self._properties.support_acting_master,
            order_topic_conf=self._order_conf if self._properties.order_message_enable else None,
        )


def _settings(read: int | None, write: int | None, perm: int | None, flag: int | None) -> QueueSettings | None:
    return None if read is None else QueueSettings(read, write or 0, perm or 0, flag or 0)


def _live(filter_servers: tuple[str, ...]) -> LiveRow:
    """Return a row of which nothing but the filter servers is known."""
    return LiveRow(
        cluster="",
        broker_id=0,
        last_heartbeat_ms=0,
        timeout_ms=0,
        data_version=DataVersion(),
        connection_id=0,
        ha_server_addr="",
        version=0,
        filter_servers=filter_servers,
    )
