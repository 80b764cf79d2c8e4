"""What happened to brokers and routes, as rows of the history: enough to rebuild any route exactly as it was served.

Changes come first, then the snapshot of all routes, which is read piece by piece between requests. Values are handed
over by the event loop and become rows in the recorder's thread; nobody changes them meanwhile. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, Literal, NamedTuple, TypeGuard

import msgspec

from history.rows import NO_BROKER, BrokerRef, HistoryRow, Moment, Record, RowMaker
from history.schemas import BROKER_STATE, ROUTE_CHANGE, ROUTE_CHANGE_ROWS_MAX, ROUTE_SNAPSHOT
from history.server_rows import lifecycle
from namesrv.core.tables.broker_table import RegisteredSet
from namesrv.core.tables.change import AppliedChange, RouteTables
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.values.effects import (
    BrokerRegistered,
    BrokerRemoved,
    DepartureReason,
    Event,
    RegistrationConflicted,
    RegistrationResult,
    TopicsChangedByAdmin,
)
from remoting.protocol.codes import RequestCode
from remoting.protocol.shapes.route import MASTER_ID, DataVersion, QueueData, TopicQueueMappingInfo

#: Topics of a snapshot that are recorded together: those with equal settings share rows.
SNAPSHOT_TOPICS: Final = 32
#: Topics read at a time; with 300 brokers that takes a third of a millisecond.
_TOPICS_AT_ONCE: Final = 2
_SNAPSHOT_SETS: Final = 50


class QueueSettings(NamedTuple):
    """What a topic is on a broker set."""

    read: int
    write: int
    perm: int
    topic_sys_flag: int


class BrokerSetRun(NamedTuple):
    """Broker sets that have a topic with the same settings, one behind the other in its route."""

    broker_names: tuple[str, ...]
    settings: QueueSettings


class SnapshotSets(NamedTuple):
    """Some broker sets as they stand."""

    snapshot_id: str
    broker_sets: Sequence[RegisteredSet]
    #: Broker set, address and filter servers of those that have some.
    filters: Sequence[tuple[str, str, tuple[str, ...]]]

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        for broker_set in self.broker_sets:
            broker = BrokerRef(broker_set.cluster, broker_set.broker_name)
            yield maker.row(
                BROKER_STATE, "snapshot", moment, broker, reason=self.snapshot_id, **member_columns(broker_set)
            )
        for name, address, servers in self.filters:
            broker = BrokerRef(broker_name=name, broker_addr=address)
            yield maker.row(BROKER_STATE, "snapshot", moment, broker, reason=self.snapshot_id, filter_servers=servers)


class SnapshotTopics(NamedTuple):
    """Some topics as they stand, and their mappings."""

    snapshot_id: str
    groups: Mapping[tuple[BrokerSetRun, ...], Sequence[str]]

    @property
    def row_count(self) -> int:
        """How many rows it has: one for each run, however many topics are alike."""
        return sum(len(runs) for runs in self.groups)

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        """Yield rows in whose order the sets stand in the routes."""
        for runs, topics in self.groups.items():
            for run in runs:
                yield maker.row(
                    ROUTE_SNAPSHOT,
                    "queues",
                    moment,
                    snapshot_id=self.snapshot_id,
                    scope="all",
                    broker_names=run.broker_names,
                    topics=topics,
                    **run.settings._asdict(),
                )


class MappingsSnapshot(NamedTuple):
    """The mappings of some static topics as they stand."""

    mappings: Mapping[str, Mapping[str, TopicQueueMappingInfo]]

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        for topic, by_broker in self.mappings.items():
            for name, mapping in by_broker.items():
                broker = BrokerRef(broker_name=name)
                yield maker.row(ROUTE_CHANGE, "snapshot", moment, broker, topic=topic, **mapping_columns(mapping))


def finished(snapshot_id: str, topic_rows: int) -> Record:
    """Return that a snapshot is whole; who finds fewer rows of topics knows that some were lost."""
    columns = {"snapshot_id": snapshot_id, "scope": "all", "rows": topic_rows}
    return Record(ROUTE_SNAPSHOT, "finished", NO_BROKER, columns)


Piece = SnapshotSets | SnapshotTopics | MappingsSnapshot | Record


def snapshot(tables: RouteTables, snapshot_id: str, changes: Callable[[], int]) -> Iterator[Piece | None]:
    """Yield the routes as they stand, piece by piece, and None where others may have their turn.

    Each piece is true when it is yielded: what changed while it was put together, as `changes` counts, has it made
    anew. What changes between two pieces has rows of its own, and later rows count.
    """
    yield from _snapshot_of_sets(tables, snapshot_id)
    topics = list(tables.topics.topics())
    topic_rows = 0
    for first in range(0, len(topics), SNAPSHOT_TOPICS):
        some = topics[first : first + SNAPSHOT_TOPICS]
        before, reading = changes(), _Reading(tables)
        for nth in range(0, len(some), _TOPICS_AT_ONCE):
            reading.read(some[nth : nth + _TOPICS_AT_ONCE])
            yield None
        if changes() != before:
            reading = _Reading(tables)
            reading.read(some)
        piece = SnapshotTopics(snapshot_id, reading.groups)
        topic_rows += piece.row_count
        yield piece
        yield MappingsSnapshot(reading.mappings)
    yield finished(snapshot_id, topic_rows)


class _Reading:
    def __init__(self, tables: RouteTables) -> None:
        self._tables = tables
        self.groups: dict[tuple[BrokerSetRun, ...], list[str]] = {}
        self.mappings: dict[str, Mapping[str, TopicQueueMappingInfo]] = {}

    def read(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if queues := self._tables.topics.of_topic(topic):
                self.groups.setdefault(_runs(queues), []).append(topic)
            if found := self._tables.mappings.of_topic(topic):
                self.mappings[topic] = dict(found)


def _snapshot_of_sets(tables: RouteTables, snapshot_id: str) -> Iterator[SnapshotSets]:
    sets = list(tables.brokers.sets())
    for first in range(0, len(sets), _SNAPSHOT_SETS):
        names = [each.broker_name for each in sets[first : first + _SNAPSHOT_SETS]]
        present = [each for name in names if (each := tables.brokers.get(name))]
        yield SnapshotSets(snapshot_id, present, list(_filters(tables, present)))


def _filters(tables: RouteTables, broker_sets: Iterable[RegisteredSet]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for broker_set in broker_sets:
        for member in broker_set.members.values():
            row = tables.live.get(LiveKey(broker_set.broker_name, member.address))
            if row is not None and row.filter_servers:
                yield broker_set.broker_name, member.address, row.filter_servers


def _runs(queues: Mapping[str, QueueData]) -> tuple[BrokerSetRun, ...]:
    return tuple(
        BrokerSetRun(tuple(name for name, _ in run), settings)
        for settings, run in groupby(queues.items(), key=lambda item: settings_of(item[1]))
    )


def settings_of(data: QueueData) -> QueueSettings:
    return QueueSettings(data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag)


def member_columns(broker_set: RegisteredSet) -> dict[str, object]:
    members = broker_set.members
    return {
        "set_ids": tuple(members),
        "set_addrs": tuple(member.address for member in members.values()),
        "set_clusters": tuple(member.cluster for member in members.values()),
        "set_cluster": broker_set.cluster,
        "zone_name": broker_set.zone_name,
        "enable_acting_master": broker_set.enable_acting_master,
    }


def mapping_columns(mapping: TopicQueueMappingInfo) -> dict[str, object]:
    return {"kind": "mapping", "detail": msgspec.json.encode(mapping).decode()}


#: So many names of topics stand in one row.
_TOPICS_IN_ROW: Final = 1000

_LEFT: Final = {
    DepartureReason.REQUEST: "unregistered",
    DepartureReason.TIMEOUT: "expired",
    DepartureReason.CHANNEL_CLOSED: "channel_closed",
    DepartureReason.CONFLICT: "conflict",
}
_PERMS: Final = frozenset({RequestCode.WIPE_WRITE_PERM_OF_BROKER.name, RequestCode.ADD_WRITE_PERM_OF_BROKER.name})


class RouteProperties(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The properties that routes depend on; fields that older rows lack are None."""

    support_acting_master: bool
    order_message_enable: bool
    need_wait_for_service: bool | None = None
    wait_seconds_for_service: int | None = None


RecordedEvent = BrokerRegistered | BrokerRemoved | RegistrationConflicted | TopicsChangedByAdmin


class SetsChanged(NamedTuple):
    """Something happened to brokers or routes."""

    events: Sequence[RecordedEvent]
    changes: Sequence[AppliedChange]

    @property
    def topics(self) -> int:
        """How many topics it holds values of."""
        changes = (each.change for each in self.changes)
        return sum(len(each.queue_changes.queues) + len(each.removed_topics) for each in changes)

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        """Yield what happened to brokers, and then what it did to routes."""
        unrecorded = {each.change.broker_set.broker_name: each for each in self.changes}
        causes: dict[str, str] = {}
        for event in self.events:
            name = event.broker_name
            row = _state_row(maker, moment, event, unrecorded.get(name))
            # Who is turned away may have to leave the set as well: the row of that has the state of the set.
            if not isinstance(event, RegistrationConflicted):
                unrecorded.pop(name, None)
            causes.setdefault(name, str(row.columns["event_id"]))
            yield row
        for name, change in unrecorded.items():
            if change.before != change.change.broker_set:
                yield maker.row(BROKER_STATE, "changed", moment, BrokerRef(broker_name=name), **_set_columns(change))
        for change in self.changes:
            yield from _route_rows(maker, moment, change, causes.get(change.change.broker_set.broker_name))


def is_recorded(event: Event) -> TypeGuard[RecordedEvent]:
    """Return whether an event gets a row; most registrations change nothing, and must not take the room of others."""
    match event:
        case BrokerRegistered():
            return event.result is not RegistrationResult.UNCHANGED
        case BrokerRemoved():
            return event.reason in _LEFT
        case TopicsChangedByAdmin():
            return event.request in _PERMS
    return isinstance(event, RegistrationConflicted)


def order_configuration(event_type: Literal["topic_changed", "snapshot"], topic: str, value: str | None) -> Record:
    """Return the order configuration of a topic: changed, or as it is in a snapshot."""
    return Record(ROUTE_CHANGE, event_type, NO_BROKER, {"topic": topic, "kind": "order", "detail": value})


def configured(properties: RouteProperties) -> Record:
    """Return that these properties are in force."""
    return lifecycle("configured", detail=msgspec.json.encode(properties).decode())


# Brokers


def _state_row(maker: RowMaker, moment: Moment, event: RecordedEvent, change: AppliedChange | None) -> HistoryRow:
    match event:
        case BrokerRegistered():
            return _registered(maker, moment, event, change)
        case BrokerRemoved():
            return _removed(maker, moment, event, change)
        case RegistrationConflicted():
            broker = BrokerRef(event.cluster, event.broker_name, event.broker_id, event.address)
            reason = f"{event.holder_address} holds the id with state version {event.holder_state_version}"
            columns = {"dv_state_version": event.state_version}
            return maker.row(BROKER_STATE, "conflict", moment, broker, reason=reason, **columns)
        case TopicsChangedByAdmin():
            broker = BrokerRef(event.cluster, event.broker_name)
            return maker.row(BROKER_STATE, "perm_wiped", moment, broker, reason=event.request)


def _registered(maker: RowMaker, moment: Moment, event: BrokerRegistered, change: AppliedChange | None) -> HistoryRow:
    event_type, former = _kind_of(event, change)
    return maker.row(
        BROKER_STATE,
        event_type,
        moment,
        BrokerRef(event.cluster, event.broker_name, event.broker_id, event.address),
        timeout_ms=event.heartbeat_timeout_ms,
        topics=event.topics,
        topics_added=event.changes.topics_added,
        topics_removed=event.changes.topics_removed,
        topics_changed=max(event.changes.queues, event.changes.perm),
        role=_role(event.broker_id),
        former_addr=former,
        **_version(event.data_version),
        **(_set_columns(change) if change else {}),
    )


def _kind_of(event: BrokerRegistered, change: AppliedChange | None) -> tuple[str, str | None]:
    """Return what a registration was, and who had its broker id before if that was another."""
    members = change.before.members if change is not None and change.before is not None else {}
    holder = members.get(event.broker_id)
    if holder is not None and holder.address != event.address:
        return "address_changed", holder.address
    if any(member.address == event.address and i != event.broker_id for i, member in members.items()):
        return "role_changed", None
    return ("registered_first" if event.result is RegistrationResult.FIRST else "changed"), None


def _removed(maker: RowMaker, moment: Moment, event: BrokerRemoved, change: AppliedChange | None) -> HistoryRow:
    return maker.row(
        BROKER_STATE,
        _LEFT[event.reason],
        moment,
        BrokerRef(event.cluster, event.broker_name, event.broker_id, event.address),
        reason=event.reason.value,
        last_heartbeat_time=moment.unix_us - event.silent_ms * 1000,
        silent_ms=event.silent_ms,
        timeout_ms=event.heartbeat_timeout_ms,
        topics_removed=event.changes.topics_removed,
        topics_changed=max(event.changes.queues, event.changes.perm),
        role=_role(event.broker_id),
        **(_set_columns(change) if change else {}),
    )


def _role(broker_id: int) -> str:
    return "master" if broker_id == MASTER_ID else "slave"


def _version(version: DataVersion) -> dict[str, object]:
    return {"dv_counter": version.counter, "dv_timestamp": version.timestamp, "dv_state_version": version.state_version}


def _set_columns(change: AppliedChange) -> dict[str, object]:
    registration = change.change.registrant
    filters = registration[1].filter_servers if registration is not None else None
    return {**member_columns(change.change.broker_set), "filter_servers": filters}


# Routes


def _route_rows(maker: RowMaker, moment: Moment, applied: AppliedChange, cause: str | None) -> Iterator[HistoryRow]:
    change, name = applied.change, applied.change.broker_set.broker_name
    broker = BrokerRef(change.broker_set.cluster, name)
    queues, removed = change.queue_changes.queues, change.removed_topics
    if len(queues) + len(removed) > ROUTE_CHANGE_ROWS_MAX:
        count = len(queues) + len(removed)
        yield maker.row(ROUTE_CHANGE, "summary", moment, broker, cause_event_id=cause, changes=count)
        yield from _grouped(maker, moment, applied, cause)
    else:
        changed: Mapping[str, QueueData | None] = {**queues, **dict.fromkeys(removed)}
        for topic, data in changed.items():
            columns = _changed(applied.old_queues.get(topic), data)
            yield maker.row(ROUTE_CHANGE, "topic_changed", moment, broker, topic=topic, cause_event_id=cause, **columns)
    for topic, mapping in change.mappings.items():
        yield maker.row(ROUTE_CHANGE, "topic_changed", moment, broker, topic=topic, **mapping_columns(mapping))


def _changed(old: QueueData | None, new: QueueData | None) -> dict[str, object]:
    return {
        "kind": _change_kind(old, new),
        "old_read": old.read_queue_nums if old else None,
        "old_write": old.write_queue_nums if old else None,
        "old_perm": old.perm if old else None,
        "new_read": new.read_queue_nums if new else None,
        "new_write": new.write_queue_nums if new else None,
        "new_perm": new.perm if new else None,
        "topic_sys_flag": new.topic_sys_flag if new else None,
    }


def _change_kind(old: QueueData | None, new: QueueData | None) -> str:
    if new is None:
        return "removed"
    if old is None:
        return "added"
    return "perm" if settings_of(old)._replace(perm=new.perm) == settings_of(new) else "queues"


def _grouped(maker: RowMaker, moment: Moment, applied: AppliedChange, cause: str | None) -> Iterator[HistoryRow]:
    """Yield the topics of a change, those with the same settings together."""
    change = applied.change
    groups: dict[QueueSettings | None, list[str]] = {}
    for topic, data in change.queue_changes.queues.items():
        groups.setdefault(settings_of(data), []).append(topic)
    groups[None] = list(change.removed_topics)
    for settings, topics in groups.items():
        for first in range(0, len(topics), _TOPICS_IN_ROW):
            yield maker.row(
                ROUTE_SNAPSHOT,
                "queues",
                moment,
                scope="change",
                broker_names=(change.broker_set.broker_name,),
                topics=topics[first : first + _TOPICS_IN_ROW],
                cause_event_id=cause,
                **(settings._asdict() if settings else {}),
            )
