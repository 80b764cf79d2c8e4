"""All routes of a NameServer as rows of the history: a snapshot, read piece by piece between requests.

Pieces are handed over by the event loop and become rows in the recorder's thread; nobody changes them meanwhile. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from history.rows import BrokerRef, HistoryRow, Moment, RowMaker
from history.schemas import BROKER_STATE, ROUTE_CHANGE, ROUTE_SNAPSHOT
from namesrv.core.tables.broker_table import RegisteredSet
from namesrv.core.tables.change import RouteTables
from namesrv.core.tables.live_table import LiveKey
from remoting.protocol.shapes.route import QueueData, TopicQueueMappingInfo

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
        """Yield a row for each."""
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
        """Yield a row for each set of each topic."""
        for topic, by_broker in self.mappings.items():
            for name, mapping in by_broker.items():
                broker = BrokerRef(broker_name=name)
                yield maker.row(ROUTE_CHANGE, "snapshot", moment, broker, topic=topic, **mapping_columns(mapping))


class SnapshotFinished(NamedTuple):
    """A snapshot is whole."""

    snapshot_id: str
    #: How many rows hold its topics: who finds fewer knows that some were lost.
    topic_rows: int

    def rows(self, maker: RowMaker, moment: Moment) -> Iterator[HistoryRow]:
        """Yield one row."""
        count = self.topic_rows
        yield maker.row(ROUTE_SNAPSHOT, "finished", moment, snapshot_id=self.snapshot_id, scope="all", rows=count)


Piece = SnapshotSets | SnapshotTopics | MappingsSnapshot | SnapshotFinished


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
    yield SnapshotFinished(snapshot_id, topic_rows)


class _Reading:
    """What was read of some topics."""

    def __init__(self, tables: RouteTables) -> None:
        self._tables = tables
        self.groups: dict[tuple[BrokerSetRun, ...], list[str]] = {}
        self.mappings: dict[str, Mapping[str, TopicQueueMappingInfo]] = {}

    def read(self, topics: Iterable[str]) -> None:
        """Read some more."""
        for topic in topics:
            if queues := self._tables.topics.queues_of(topic):
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
    """Return what a topic is on a broker set."""
    return QueueSettings(data.read_queue_nums, data.write_queue_nums, data.perm, data.topic_sys_flag)


def member_columns(broker_set: RegisteredSet) -> dict[str, object]:
    """Return the columns that show a set with its members."""
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
    """Return the columns that show the mapping of a static topic."""
    return {"kind": "mapping", "detail": msgspec.json.encode(mapping).decode()}
