"""Applies planned changes: the only code that changes topics and sets in the tables, and all that is derived from them.

What is derived follows in the same step: topic counts, cached routes, the list of all sets, last registrations, and the
changes that the history records.
"""

from typing import TYPE_CHECKING, NamedTuple

from namesrv.core import change_planner
from namesrv.core.change_planner import PreparedChange
from namesrv.core.cluster_info import ClusterInfoText
from namesrv.core.registration.reported_topics import ReportedTopics
from namesrv.core.role_addresses.state import RoleAddresses
from namesrv.core.route_cache import RouteCache
from namesrv.core.tables.broker_table import RegisteredSet
from namesrv.core.tables.change import AppliedChange, RouteTables, SetChange, applied_change
from namesrv.core.tables.lost_topics import LostTopicTable
from namesrv.core.tables.topic_counts import TopicCountTable
from namesrv.core.tables.topic_sizes import TopicSizes
from namesrv.core.values.cooperative import run_to_completion

if TYPE_CHECKING:
    from namesrv.core.tables.live_table import LiveKey


class LastRegistration(NamedTuple):
    """What a member reported in its last registration."""

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
        #: What the topics of all sets take.
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
        """Store one change; `prepared` is what `change_planner.prepare` worked out for it, if that was done before."""
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
            self.route_cache.drop(tables.topics.topics_of(name).keys())
        self._apply_topics(change, before, prepared or run_to_completion(change_planner.prepare(tables, change)))
        if not is_heartbeat_only:
            size = tables.topics.queue_sum(name).size_bytes + tables.mappings.size_bytes(name)
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
        """Return whether the registrant has other filter servers than before."""
        if change.registrant is None:
            return False
        key, row = change.registrant
        stored = self.tables.live.get(key)
        return row.filter_servers != (stored.filter_servers if stored else ())

    def _apply_topics(self, change: SetChange, before: RegisteredSet | None, prepared: PreparedChange) -> None:
        tables, name, cluster = self.tables, change.broker_set.broker_name, change.broker_set.cluster
        if before and before.cluster != cluster:
            topics = tables.topics.topics_of(name)
            exclusive_topics = change_planner.exclusive_topics
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
        self.route_cache.drop(prepared.unmapped.holders.topics)
