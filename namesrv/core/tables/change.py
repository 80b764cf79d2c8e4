"""What one event changes in the tables: decided in `registration.py` or `departure.py`, applied in `changes.py`.

A change concerns one broker set and is a plain value; until it is applied nothing has happened.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

import msgspec

from namesrv.core.tables.broker_table import BrokerTable, RegisteredSet
from namesrv.core.tables.live_table import LiveKey, LiveRow, LiveTable
from namesrv.core.tables.topic_table import MappingTable, PermissionOverrides, QueueChanges, TopicTable
from namesrv.core.values.effects import RouteChanges
from remoting.protocol.shapes.route import PERM_WRITE, QueueData, TopicQueueMappingInfo

#: So many topic names go into an event, as a sample for the log.
SAMPLE_TOPICS_MAX = 5
#: Of so many changed topics it is kept what they were before.
OLD_QUEUES_MAX = 1000


class RouteTables(msgspec.Struct, frozen=True):
    """The tables of one NameServer; rules read them, `changes.py` alone changes topics and sets."""

    brokers: BrokerTable = msgspec.field(default_factory=BrokerTable)
    topics: TopicTable = msgspec.field(default_factory=TopicTable)
    live: LiveTable = msgspec.field(default_factory=LiveTable)
    mappings: MappingTable = msgspec.field(default_factory=MappingTable)
    permission_overrides: PermissionOverrides = msgspec.field(default_factory=PermissionOverrides)


class SetChange(msgspec.Struct, frozen=True, kw_only=True):
    """The new state of one broker set, as differences to the tables."""

    #: The set as it will be; without members it goes, and all that is its own with it.
    broker_set: RegisteredSet
    removed_members: tuple[LiveKey, ...] = ()
    #: The member that registers, with its new row.
    registrant: tuple[LiveKey, LiveRow] | None = None
    queue_changes: QueueChanges = QueueChanges()
    removed_topics: tuple[str, ...] = ()
    mappings: Mapping[str, TopicQueueMappingInfo] = msgspec.field(default_factory=dict)
    #: Topics whose operator-set permission ends.
    lifted_overrides: tuple[str, ...] = ()
    #: Topic -> permission that an operator sets from now on.
    permission_overrides: Mapping[str, int] = msgspec.field(default_factory=dict)

    def is_heartbeat_only(self, before: RegisteredSet | None) -> bool:
        """Return whether nothing changes but the row of the registrant."""
        changes = self.removed_members or self.queue_changes.queues or self.removed_topics or self.mappings
        return not (changes or self.lifted_overrides or self.permission_overrides) and self.broker_set == before


class AppliedChange(msgspec.Struct, frozen=True, kw_only=True):
    change: SetChange
    before: RegisteredSet | None
    #: What the set had of the topics that changed or left, unless there are more of them than anybody wants to see.
    old_queues: Mapping[str, QueueData]


def applied_change(tables: RouteTables, change: SetChange) -> AppliedChange:
    """Return a change with what it is about to replace."""
    name = change.broker_set.broker_name
    topics = (*change.queue_changes.queues, *change.removed_topics)
    has = tables.topics.of_broker(name)
    old = {topic: has[topic] for topic in topics if topic in has} if len(topics) <= OLD_QUEUES_MAX else {}
    return AppliedChange(change=change, before=tables.brokers.get(name), old_queues=old)


def counted(changes: QueueChanges, removed: tuple[str, ...] = ()) -> RouteChanges:
    """Return how many topics are added, changed and removed, by kind."""
    added = altered = perm = 0
    for before, after, topics in changes.transitions:
        if before is None:
            added += topics
            continue
        perm += topics * (before.perm != after.perm)
        queues_before = before.read_queue_nums, before.write_queue_nums, before.topic_sys_flag
        altered += topics * (queues_before != (after.read_queue_nums, after.write_queue_nums, after.topic_sys_flag))
    sample = (*islice(changes.queues, SAMPLE_TOPICS_MAX), *removed[:SAMPLE_TOPICS_MAX])[:SAMPLE_TOPICS_MAX]
    return RouteChanges(topics_added=added, topics_removed=len(removed), queues=altered, perm=perm, sample=sample)


def without_write(queues: Mapping[str, QueueData]) -> Iterator[tuple[str, QueueData]]:
    return with_perms(queues.items(), lambda _, data: data.perm & ~PERM_WRITE)


def with_perms(
    queues: Iterable[tuple[str, QueueData]], perm_of: Callable[[str, QueueData], int]
) -> Iterator[tuple[str, QueueData]]:
    """Return topics with other permissions; what is equal is one value afterwards, too."""
    made: dict[tuple[QueueData, int], QueueData] = {}
    for topic, data in queues:
        perm = perm_of(topic, data)
        if (wanted := made.get((data, perm))) is None:
            wanted = made[data, perm] = msgspec.structs.replace(data, perm=perm)
        yield topic, wanted
