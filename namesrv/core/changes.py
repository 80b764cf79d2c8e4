"""Plans changes of the tables, and applies them with all that is derived from the tables.

What a registration or an operator's command changes is planned first; that reads the tables and changes nothing, and
what walks over very many topics is a cooperative task. A plan is of no use once another change was applied.
`ChangeApplier` is the only code that changes topics and sets in the tables. What is derived follows in the same step:
topic counts and sizes, cached routes, the list of all sets, last registrations, and changes for the history.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from namesrv.core.cluster_info import ClusterInfoText
from namesrv.core.registration import registration
from namesrv.core.registration.accepted_topics import ReportedTopics
from namesrv.core.registration.registration import Registration, TopicPlaces
from namesrv.core.role_addresses.state import RoleAddresses
from namesrv.core.route_cache import RouteCache
from namesrv.core.tables.broker_table import RegisteredSet
from namesrv.core.tables.change import AppliedChange, RouteTables, SetChange, applied_change, with_perms
from namesrv.core.tables.lost_topics import LostTopicTable
from namesrv.core.tables.topic_table import PreparedPut, PreparedRemoval, QueueChanges, queue_changes
from namesrv.core.values.cooperative import CooperativeTask, in_batches, run_to_completion
from namesrv.core.values.effects import RegistrationConflicted
from remoting.protocol.shapes.route import QueueData, TopicQueueMappingInfo
from remoting.protocol.topic_kinds import SYSTEM_PREFIX, SYSTEM_TOPICS, TopicKind, kind_of

if TYPE_CHECKING:
    from namesrv.core.tables.live_table import LiveKey


def kinds_of(topics: Collection[str]) -> Counter[TopicKind]:
    """Return how many of the topics are of each kind by their names alone, whatever clusters and sets there are."""
    # Nearly all are normal, and counting an enum for each would take longer than all the rest.
    special = [topic for topic in topics if topic[:1] == "%" or topic in SYSTEM_TOPICS or topic[:8] == SYSTEM_PREFIX]
    kinds = Counter(kind_of(topic, ()) for topic in special)
    kinds[TopicKind.NORMAL] += len(topics) - len(special)
    return kinds


class TopicCountTable:
    """Counts by cluster and kind; each topic once per cluster, however many of its broker sets have it."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[TopicKind, int]] = {}

    def counts(self) -> Mapping[str, Mapping[TopicKind, int]]:
        return self._counts

    def add(self, cluster: str, kinds: Counter[TopicKind]) -> None:
        """Count topics that no broker set of the cluster had before."""
        if not any(kinds.values()):
            return
        counts = self._counts.setdefault(cluster, dict.fromkeys(TopicKind, 0))
        for kind, topics in kinds.items():
            counts[kind] += topics

    def remove(self, cluster: str, kinds: Counter[TopicKind]) -> None:
        """Count topics that no broker set of the cluster has any longer."""
        if not any(kinds.values()):
            return
        counts = self._counts[cluster]
        for kind, topics in kinds.items():
            counts[kind] -= topics
        if not any(counts.values()):
            del self._counts[cluster]


#: Such a part of all may the topics of a host have, and of a connection.
_SHARE_OF_HOST: Final = 2
_SHARE_OF_CONNECTION: Final = 8
#: A host has such a part though others have taken all, until it is twice as much.
_SHARE_LEFT: Final = 16
#: One registration of as many topics as it may have fits into it.
CONNECTION_BYTES_MIN: Final = 64 * 1024 * 1024


class TopicSizes:
    """Broker name -> its host and what its topics take, with sums; in bytes."""

    def __init__(self) -> None:
        self._of_set: dict[str, tuple[str, int]] = {}
        self._of_host: Counter[str] = Counter()
        self.total_bytes = 0

    def of_set(self, broker_name: str) -> int:
        return self._of_set.get(broker_name, ("", 0))[1]

    def put(self, broker_name: str, network: str, size_bytes: int) -> None:
        """Store what the topics of a set take now, 0 if it is gone."""
        former, before = self._of_set.pop(broker_name, ("", 0))
        self.total_bytes += size_bytes - before
        self._of_host[former] -= before
        if not self._of_host[former]:
            del self._of_host[former]
        if size_bytes:
            self._of_set[broker_name] = network, size_bytes
            self._of_host[network] += size_bytes

    def excess(self, more_bytes: int, network: str, of_connection: Iterable[str], all_bytes_max: int) -> str | None:
        """Return which limit so much more of a host exceeds, None for none; `of_connection` names its sets."""
        after = self.total_bytes + more_bytes
        host_bytes_max = all_bytes_max // (_SHARE_OF_HOST if after <= all_bytes_max else _SHARE_LEFT)
        for whose, size, size_max in (
            ("all hosts", after, 2 * all_bytes_max),
            ("this host", self._of_host[network] + more_bytes, host_bytes_max),
            (
                "this connection",
                sum(map(self.of_set, of_connection)) + more_bytes,
                max(CONNECTION_BYTES_MIN, all_bytes_max // _SHARE_OF_CONNECTION),
            ),
        ):
            if size > size_max:
                return f"the topics of {whose} would take {size} bytes; topicBytesMax={all_bytes_max} allows {size_max}"
        return None


class PreparedChange(NamedTuple):
    """What it takes to store a change of topics."""

    queues: PreparedPut[QueueData]
    #: How many of the topics are new to the set's cluster.
    added: Counter[TopicKind]
    removal: PreparedRemoval
    #: How many of the topics no set of the cluster has any longer.
    removed: Counter[TopicKind]
    mappings: PreparedPut[TopicQueueMappingInfo]
    unmapped: PreparedRemoval


class ComparedRegistration(NamedTuple):
    """What a registration changes of topics and mappings, and what it takes to store that; None for a conflict."""

    queues: QueueChanges
    mappings: Mapping[str, TopicQueueMappingInfo]
    prepared: PreparedChange | None


def prepare(tables: RouteTables, change: SetChange) -> CooperativeTask[PreparedChange]:
    """Work out what it takes to store a change of topics."""
    name, topics = change.broker_set.broker_name, tables.topics
    queues = yield from topics.prepare_put(name, change.queue_changes)
    removal = yield from topics.prepare_removal(name, change.removed_topics)
    # Nearly every change keeps to the topics that the set has, and then it does not matter which other sets have them.
    needs_others = queues.added or removal.remaining
    others = tables.brokers.counted_in(change.broker_set.cluster) - {name} if needs_others else set()
    added: Counter[TopicKind] = Counter()
    for joined in in_batches(queues.added.items()):
        added += kinds_of([topic for topic, holders in joined if others.isdisjoint(holders)])
        yield
    removed: Counter[TopicKind] = Counter()
    for unheld in in_batches(removal.unheld):
        removed += kinds_of(unheld)
        yield
    for remaining in in_batches(removal.remaining.items()):
        removed += kinds_of([topic for topic, holders in remaining if others.isdisjoint(holders)])
        yield
    mappings = yield from tables.mappings.prepare_put(name, change.mappings)
    unmapped = yield from tables.mappings.prepare_removal(name, _unmapped_topics(tables, change))
    return PreparedChange(queues, added, removal, removed, mappings, unmapped)


def exclusive_topics(
    tables: RouteTables, broker_name: str, topics: Collection[str], cluster: str
) -> Counter[TopicKind]:
    """Count those of a set's topics that no other set of the cluster has."""
    others = tables.brokers.counted_in(cluster) - {broker_name}
    holders_of = tables.topics.holders_of
    return kinds_of([topic for topic in topics if others.isdisjoint(holders_of(topic))])


def compare(
    tables: RouteTables, request: Registration, *, delete_missing_topics: bool, topic_sets_max: int
) -> CooperativeTask[ComparedRegistration]:
    """Compare the topics of a registration, and work out what it takes to store what differs."""
    queues, mappings = yield from registration.compare(tables, request, topic_sets_max)
    compared = ComparedRegistration(queues, mappings, None)
    decision = registration.decide(
        tables, request, queues, mappings, delete_missing_topics=delete_missing_topics, now_ms=0
    )
    if isinstance(decision, RegistrationConflicted):
        return compared
    return compared._replace(prepared=(yield from prepare(tables, decision.change)))


# Operators' commands. Changes are planned one after another, each on the tables with those before it applied.


def topic_removals(tables: RouteTables, topic: str, cluster: str | None) -> Iterator[SetChange]:
    """Yield a change for each set that has a topic, in one cluster or (None or empty) everywhere."""
    holders = tables.topics.holders_of(topic)
    if cluster:
        mine = set(tables.brokers.names_in(cluster))
        holders = tuple(name for name in holders if name in mine)
    for name in holders:
        yield SetChange(broker_set=_known_set(tables, name), removed_topics=(topic,))


def topic_additions(
    tables: RouteTables, topic: str, queue_datas: Iterable[QueueData], topic_sets_max: int
) -> Iterator[SetChange]:
    """Yield a change for each set that gets a topic, one without queues if its host has no place for it.

    As in Java, a new topic is taken only if all the sets are known, an existing one up to the first unknown.
    """
    offered = list(queue_datas)
    known = [tables.brokers.get(queue_data.broker_name) is not None for queue_data in offered]
    taken = offered[: known.index(False)] if False in known else offered
    if topic not in tables.topics and len(taken) < len(offered):
        return
    for data in taken:
        broker_set = _known_set(tables, data.broker_name)
        queues = dict(TopicPlaces(tables, broker_set, topic_sets_max).admitted([(topic, data)]))
        yield SetChange(
            broker_set=broker_set,
            queue_changes=queue_changes(tables.topics.of_broker(data.broker_name), queues.items()),
            lifted_overrides=(topic,),
        )


def permission_change(tables: RouteTables, broker_name: str, perm_of: Callable[[int], int]) -> SetChange | None:
    """Return the change that gives all topics of a set another permission; None for a set without topics."""
    topics = tables.topics.of_broker(broker_name)
    broker_set = tables.brokers.get(broker_name)
    if not topics or broker_set is None:
        return None
    queues = dict(with_perms(topics.items(), lambda _, data: perm_of(data.perm)))
    return SetChange(
        broker_set=broker_set,
        queue_changes=queue_changes(topics, queues.items()),
        permission_overrides={topic: data.perm for topic, data in queues.items()},
    )


def _unmapped_topics(tables: RouteTables, change: SetChange) -> Iterable[str]:
    """Return the topics whose mappings go: with the last member those of topics that nobody registered, too."""
    if not change.broker_set.members:
        return list(tables.mappings.of_broker(change.broker_set.broker_name))
    return change.removed_topics


def _known_set(tables: RouteTables, broker_name: str) -> RegisteredSet:
    broker_set = tables.brokers.get(broker_name)
    assert broker_set is not None, "topics belong to sets that exist"
    return broker_set


class LastRegistration(NamedTuple):
    #: `Registration.identity`.
    identity: tuple[object, ...]
    topics: ReportedTopics


class ChangeApplier:
    """Holds the tables with what is derived from them."""

    def __init__(self, tables: RouteTables) -> None:
        self.tables = tables
        #: Topics per cluster and kind, for the metrics.
        self.topic_counts = TopicCountTable()
        #: Encoded routes, dropped as soon as they change.
        self.route_cache = RouteCache()
        #: Addresses that some peers get instead of the brokers' own.
        self.role_addresses = RoleAddresses(tables, self.route_cache)
        #: The list of all clusters and sets as it is sent to peers.
        self.cluster_info = ClusterInfoText(tables.brokers)
        #: Topics in routes that their set's master does not have.
        self.lost_topics = LostTopicTable()
        self.topic_sizes = TopicSizes()
        #: Broker name -> the last registration of each member, as long as the tables hold just that.
        self.last_registrations: dict[str, dict[LiveKey, LastRegistration]] = {}
        #: How many changes were applied.
        self.version = 0
        #: Whether changes are kept for `take_changes`.
        self.records_changes = False
        self._recorded_changes: list[AppliedChange] = []

    def invalidate(self) -> None:
        """Drop what depends on the configuration: cached routes and last registrations."""
        self.version += 1
        self.route_cache.clear()
        self.last_registrations.clear()

    def take_changes(self) -> list[AppliedChange]:
        """Return the changes since the last call, without mere heartbeats; none if they are not recorded."""
        changes, self._recorded_changes = self._recorded_changes, []
        return changes

    def apply(self, change: SetChange, prepared: PreparedChange | None = None) -> None:
        """Store one change; `prepared` is what `prepare` worked out for it, if that was done before."""
        tables, name = self.tables, change.broker_set.broker_name
        self.version += 1
        before = tables.brokers.get(name)
        is_heartbeat_only = change.is_heartbeat_only(before)
        filters_differ = self._filter_servers_differ(change)
        if self.records_changes and (filters_differ or not is_heartbeat_only):
            self._recorded_changes.append(applied_change(tables, change))
        if not is_heartbeat_only:
            self.last_registrations.pop(name, None)
        if before != change.broker_set or filters_differ:
            self.route_cache.drop(tables.topics.of_broker(name).keys())
        self._apply_topics(change, before, prepared or run_to_completion(prepare(tables, change)))
        if not is_heartbeat_only:
            size = tables.topics.queue_sum(name).size_bytes + tables.mappings.queue_sum(name).size_bytes
            self.topic_sizes.put(name, change.broker_set.network, size)
        if before != change.broker_set:
            tables.brokers.put(change.broker_set)
            self.cluster_info.put(change.broker_set)
            self.role_addresses.set_changed(before, change.broker_set)
        for key in change.removed_members:
            tables.live.remove(key)
        if change.registrant:
            tables.live.put(*change.registrant)

    def _filter_servers_differ(self, change: SetChange) -> bool:
        if change.registrant is None:
            return False
        key, row = change.registrant
        stored = self.tables.live.get(key)
        return row.filter_servers != (stored.filter_servers if stored else ())

    def _apply_topics(self, change: SetChange, before: RegisteredSet | None, prepared: PreparedChange) -> None:
        tables, name, cluster = self.tables, change.broker_set.broker_name, change.broker_set.cluster
        if before and before.cluster != cluster:
            topics = tables.topics.of_broker(name)
            self.topic_counts.remove(before.cluster, exclusive_topics(tables, name, topics, before.cluster))
            self.topic_counts.add(cluster, exclusive_topics(tables, name, topics, cluster))
        tables.permission_overrides.remove(name, (*change.lifted_overrides, *change.removed_topics))
        tables.permission_overrides.put(name, change.permission_overrides)
        tables.topics.store(prepared.queues)
        self.topic_counts.add(cluster, prepared.added)
        tables.topics.discard(prepared.removal)
        self.lost_topics.remove(name, change.removed_topics)
        self.topic_counts.remove(cluster, prepared.removed)
        tables.mappings.store(prepared.mappings)
        tables.mappings.discard(prepared.unmapped)
        self.route_cache.drop(change.queue_changes.queues.keys())
        self.route_cache.drop(change.removed_topics)
        self.route_cache.drop(change.mappings.keys())
        self.route_cache.drop(prepared.unmapped.topics)
