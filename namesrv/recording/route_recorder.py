"""Hands over to the recorder what a NameServer sees; the event loop's side of the history.

A snapshot is taken soon after the start, each hour in which a route changed, once a day at least, and as soon as
changes are missing: it is where the reading of a route begins.
"""

import asyncio
from typing import Final, Literal

from history.heartbeats import Heartbeat, HeartbeatAggregator
from history.recorder import Recorder
from history.rows import BrokerRef, Moment, Record
from history.schemas import ROLE_ADDRESS
from history.server_rows import lifecycle
from namesrv.core.role_addresses.checks import AddressMove
from namesrv.core.role_addresses.rules import RoleAddressRule
from namesrv.core.route_cache import RouteCounts
from namesrv.core.route_state import RouteState
from namesrv.core.values.effects import BrokerHeartbeat, BrokerRemoved, Event
from namesrv.recording import rows
from namesrv.settings.config import NameServerConfig
from namesrv.settings.kv_config import KvConfig
from remoting.clock import SystemClock
from remoting.protocol.shapes.namesrv import ORDER_TOPIC_CONFIG
from remoting.protocol.shapes.route import MASTER_ID


def role_address_event(
    event_type: Literal["given", "leads"],
    broker: BrokerRef,
    address: str,
    former: str | None = None,
    *,
    is_checked: bool,
) -> Record:
    """Return what happened to the role address of a master; see the event types of ROLE_ADDRESS."""
    columns = {"role_address": address, "is_checked": is_checked, "former_addr": former}
    return Record(ROLE_ADDRESS, event_type, broker, columns)


class GivenRoleAddresses:
    """The role addresses of masters that are recorded as given, compared with those of now."""

    def __init__(self, state: RouteState) -> None:
        self._state = state
        #: By set and address.
        self._given: dict[tuple[str, str], Record] = {}

    def changes(self) -> list[Record]:
        """Return what clients get since the last call, and what they do not any more.

        Of a set without brokers nothing new is returned: there is no route in which clients could get it.
        """
        now = {(rule.set_name, str(rule.master)): rule for rule in self._state.role_addresses.given_of_masters()}
        withdrawn = [self._given.pop(key) for key in sorted(self._given.keys() - now.keys())]
        new: list[Record] = []
        for key in sorted(now.keys() - self._given.keys()):
            if (event := self._given_event(now[key])) is not None:
                self._given[key] = event
                new.append(event)
        return [*(event._replace(event_type="withdrawn") for event in withdrawn), *new]

    def all(self) -> list[Record]:
        return list(self._given.values())

    def moved(self, move: AddressMove) -> Record | None:
        """Return that an address led to a master; None for that of a slave, and where the set has left meanwhile."""
        use, broker_set = move.use, self._state.tables.brokers.get(move.use.set_name)
        if use.broker_id != MASTER_ID or broker_set is None:
            return None
        broker = BrokerRef(broker_set.cluster, use.set_name, MASTER_ID, move.target)
        return role_address_event("leads", broker, use.address, move.former, is_checked=True)

    def _given_event(self, rule: RoleAddressRule) -> Record | None:
        broker_set = self._state.tables.brokers.get(rule.set_name)
        if broker_set is None:
            return None
        broker = BrokerRef(broker_set.cluster, rule.set_name, MASTER_ID)
        return role_address_event("given", broker, str(rule.master), is_checked=rule.is_verified)


_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
#: So long after the start the first snapshot is taken: all brokers have registered by then, which they do each minute.
_FIRST_SNAPSHOT_MS: Final = 2 * 60_000
#: A snapshot rests so many times as long as it works.
_REST_PER_WORK: Final = 9
#: How often it is looked whether a snapshot is due, and which role addresses clients get.
_LOOK_S: Final = 1.0


class RouteRecorder:
    def __init__(self, recorder: Recorder, state: RouteState, config: NameServerConfig, kv: KvConfig) -> None:
        self._recorder = recorder
        self._state = state
        #: The configuration and the order topics in force: a snapshot repeats them.
        self._config = config
        self._order_topics = dict(kv.table.get(ORDER_TOPIC_CONFIG, {}))
        self._role_addresses = GivenRoleAddresses(state)
        self._clock = clock = SystemClock()
        self._heartbeats = HeartbeatAggregator()
        #: Routes changed since the last snapshot, and when that was; the first one is due soon.
        self._changed = True
        #: How many there were so far.
        self._changes = 0
        self._snapshot_ms = clock.now_ms() + _FIRST_SNAPSHOT_MS - _HOUR_MS
        state.records_changes = True
        self._record_settings()

    def record(self, events: tuple[Event, ...]) -> None:
        """Record the events of one request, scan or lost connection, and what they did to the routes."""
        changes = self._state.take_changes()
        lasting = tuple(event for event in events if rows.is_recorded(event))
        for event in events:
            if isinstance(event, BrokerRemoved):
                self._remove_heartbeats(event)
        if changes or lasting:
            self._changed = self._changed or bool(changes)
            self._changes += len(changes)
            changed = rows.SetsChanged(lasting, changes)
            self._recorder.enqueue(changed, changed.topics)
        # A registration is a heartbeat: later than that, for who reads both in the order of their times.
        for event in events:
            if isinstance(event, BrokerHeartbeat):
                self._record_heartbeat(event)

    def kv_changed(self, namespace: str, key: str, value: str | None) -> None:
        if namespace == ORDER_TOPIC_CONFIG:
            self._changed = True
            if value is None:
                self._order_topics.pop(key, None)
            else:
                self._order_topics[key] = value
            self._recorder.enqueue(rows.order_configuration("topic_changed", key, value))

    def configured(self, config: NameServerConfig) -> None:
        self._config = config
        properties = rows.RouteProperties(
            support_acting_master=config.support_acting_master,
            order_message_enable=config.order_message_enable,
            need_wait_for_service=config.need_wait_for_service,
            wait_seconds_for_service=config.wait_for_service_seconds,
        )
        self._recorder.enqueue(rows.configured(properties))

    def cold_start(self, event_type: str, reason: str) -> None:
        self._recorder.enqueue(lifecycle(event_type, reason=reason))

    def role_address_moved(self, move: AddressMove) -> None:
        if (event := self._role_addresses.moved(move)) is not None:
            self._recorder.enqueue(event)

    def measure(self, queries: RouteCounts) -> dict[str, int | float | None]:
        """Return what the tables hold, and how questions about them ended, by column of a tick."""
        tables = self._state.tables
        queues = sum(tables.topics.queue_sum(each.broker_name).read for each in tables.brokers.sets())
        return {
            "brokers": sum(1 for _ in tables.live.rows()),
            "topics": len(tables.topics),
            "queues": queues,
            "not_found_total": queries.not_found,
        }

    async def take_snapshots(self) -> None:
        """Record all routes whenever that is due, and role addresses, for as long as the server serves."""
        while True:
            await asyncio.sleep(_LOOK_S)
            for change in self._role_addresses.changes():
                self._recorder.enqueue(change)
            age_ms = self._clock.now_ms() - self._snapshot_ms
            is_due = age_ms >= _DAY_MS or (self._changed and age_ms >= _HOUR_MS)
            if self._recorder.take_snapshot_request() or is_due:
                await self._snapshot()

    async def _snapshot(self) -> None:
        self._changed = False
        self._snapshot_ms = self._clock.now_ms()
        self._record_settings()
        began_us = self._clock.mono_us()
        for piece in rows.snapshot(self._state.tables, f"{self._clock.unix_ms()}", lambda: self._changes):
            if piece is not None:
                self._recorder.enqueue(piece)
            # Requests come first: the whole of it takes seconds of work where there are very many topics.
            await asyncio.sleep(_REST_PER_WORK * (self._clock.mono_us() - began_us) / 1e6)
            began_us = self._clock.mono_us()

    def _record_settings(self) -> None:
        self.configured(self._config)
        for topic, value in self._order_topics.items():
            self._recorder.enqueue(rows.order_configuration("snapshot", topic, value))
        for given in self._role_addresses.all():
            self._recorder.enqueue(given)

    def _record_heartbeat(self, event: BrokerHeartbeat) -> None:
        version = event.data_version
        heartbeat = Heartbeat(
            Moment(self._clock.unix_us(), self._clock.mono_us()),
            BrokerRef(event.cluster, event.broker_name, event.broker_id, event.address),
            event.kind.value,
            event.interval_ms,
            event.heartbeat_timeout_ms,
            (version.counter, version.timestamp, version.state_version),
        )
        for each in self._heartbeats.add(heartbeat):
            self._recorder.enqueue_heartbeat(each)

    def _remove_heartbeats(self, event: BrokerRemoved) -> None:
        moment = Moment(self._clock.unix_us(), self._clock.mono_us())
        for summary in self._heartbeats.remove(event.cluster, event.broker_name, event.broker_id, moment):
            self._recorder.enqueue_heartbeat(summary)
