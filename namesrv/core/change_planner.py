"""Plans changes of the tables: what a registration or an operator's command changes, and what it takes to store that.

Reads the tables and changes nothing; `change_applier.py` stores what is planned here. What walks over very many topics
is a cooperative task. A plan is of no use once another change was applied.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from namesrv.core.registration import registration
from namesrv.core.registration.registration import TopicPlaces
from namesrv.core.registration.request import Registration
from namesrv.core.tables.broker_table import RegisteredSet
from namesrv.core.tables.change import RouteTables, SetChange, with_perms
from namesrv.core.tables.mapping_table import PreparedMappingRemoval, PreparedMappings
from namesrv.core.tables.topic_counts import kinds_of
from namesrv.core.tables.topic_table import PreparedQueues, PreparedRemoval
from namesrv.core.values.cooperative import CooperativeTask, in_batches, run_to_completion
from namesrv.core.values.effects import RegistrationConflicted
from namesrv.core.values.topics import QueueChanges, compare_topics
from remoting.protocol.shapes.route import QueueData, TopicQueueMappingInfo
from remoting.protocol.topic_kinds import TopicKind


class PreparedChange(NamedTuple):
    """What it takes to store a change of topics."""

    queues: PreparedQueues
    #: How many of the topics are new to the set's cluster.
    added: Counter[TopicKind]
    removal: PreparedRemoval
    #: How many of the topics no set of the cluster has any longer.
    removed: Counter[TopicKind]
    mappings: PreparedMappings
    unmapped: PreparedMappingRemoval


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
    needs_others = queues.added or removal.holders.remaining
    others = tables.brokers.counted_in(change.broker_set.cluster) - {name} if needs_others else set()
    added: Counter[TopicKind] = Counter()
    for joined in in_batches(queues.added.items()):
        added += kinds_of([topic for topic, holders in joined if others.isdisjoint(holders)])
        yield
    removed: Counter[TopicKind] = Counter()
    for unheld in in_batches(removal.holders.unheld):
        removed += kinds_of(unheld)
        yield
    for remaining in in_batches(removal.holders.remaining.items()):
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
    queues = yield from registration.compare_queues(tables, request, topic_sets_max)
    mappings = yield from registration.compare_mappings(tables, request)
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
            queue_changes=_queue_changes(tables, data.broker_name, queues),
            lifted_overrides=(topic,),
        )


def permission_change(tables: RouteTables, broker_name: str, perm_of: Callable[[int], int]) -> SetChange | None:
    """Return the change that gives all topics of a set another permission; None for a set without topics."""
    topics = tables.topics.topics_of(broker_name)
    broker_set = tables.brokers.get(broker_name)
    if not topics or broker_set is None:
        return None
    queues = dict(with_perms(topics.items(), lambda _, data: perm_of(data.perm)))
    return SetChange(
        broker_set=broker_set,
        queue_changes=_queue_changes(tables, broker_name, queues),
        permission_overrides={topic: data.perm for topic, data in queues.items()},
    )


def _unmapped_topics(tables: RouteTables, change: SetChange) -> Iterable[str]:
    """Return the topics whose mappings go: with the last member those of topics that nobody registered, too."""
    if not change.broker_set.members:
        return list(tables.mappings.of_broker(change.broker_set.broker_name))
    return change.removed_topics


def _queue_changes(tables: RouteTables, broker_name: str, queues: Mapping[str, QueueData]) -> QueueChanges:
    return run_to_completion(compare_topics(tables.topics.topics_of(broker_name), queues.items()))


def _known_set(tables: RouteTables, broker_name: str) -> RegisteredSet:
    broker_set = tables.brokers.get(broker_name)
    assert broker_set is not None, "topics belong to sets that exist"
    return broker_set
