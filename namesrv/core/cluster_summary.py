"""Clusters in numbers, for metrics and HTTP alike: one walk over the broker sets, none over topics."""

from collections import defaultdict
from enum import Enum
from typing import Final

import msgspec

from namesrv.core.route_state import RouteState
from namesrv.core.tables.broker_table import RegisteredSet
from namesrv.core.values.cooperative import CooperativeTask
from remoting.protocol.shapes.route import MASTER_ID
from remoting.protocol.topic_kinds import TopicKind, kind_of, topics_of

#: Broker sets, or names of system topics, that are looked at in one step, about 1 ms of work.
_AT_ONCE: Final = 256


class SetLeadership(Enum):
    """Who leads a broker set; the values are the metric's labels."""

    MASTER = "master"
    NO_MASTER = "no_master"
    ACTING_MASTER = "acting_master"


class BrokerRole(Enum):
    """What a broker is in its set; the values are the metric's labels."""

    MASTER = "master"
    SLAVE = "slave"


class ClusterSummary(msgspec.Struct):
    sets: dict[SetLeadership, int] = msgspec.field(default_factory=lambda: dict.fromkeys(SetLeadership, 0))
    brokers: dict[BrokerRole, int] = msgspec.field(default_factory=lambda: dict.fromkeys(BrokerRole, 0))
    topics: dict[TopicKind, int] = msgspec.field(default_factory=lambda: dict.fromkeys(TopicKind, 0))
    read_queues: int = 0
    write_queues: int = 0


def state_of(broker_set: RegisteredSet) -> SetLeadership:
    if broker_set.master_address is not None:
        return SetLeadership.MASTER
    return SetLeadership.ACTING_MASTER if broker_set.has_acting_master else SetLeadership.NO_MASTER


def role_of(broker_id: int) -> BrokerRole:
    return BrokerRole.MASTER if broker_id == MASTER_ID else BrokerRole.SLAVE


def clusters(state: RouteState) -> CooperativeTask[dict[str, ClusterSummary]]:
    """Return the numbers of every cluster, by name; a cooperative task."""
    numbers: defaultdict[str, ClusterSummary] = defaultdict(ClusterSummary)
    topics = state.tables.topics
    # A copy: sets come and go while others are served in between.
    for number, broker_set in enumerate(list(state.tables.brokers.sets())):
        if number % _AT_ONCE == 0:
            yield
        cluster = numbers[broker_set.cluster]
        cluster.sets[state_of(broker_set)] += 1
        queues = topics.queue_sum(broker_set.broker_name)
        cluster.read_queues += queues.read
        cluster.write_queues += queues.write
        for broker_id, member in broker_set.members.items():
            # Members of one set can have registered in two clusters.
            numbers[member.cluster].brokers[role_of(broker_id)] += 1
    for name, counts in state.topic_counts.counts().items():
        if name in numbers:
            numbers[name].topics = dict(counts)
    yield from _count_system_topics(state, numbers)
    return dict(numbers)


def _count_system_topics(state: RouteState, numbers: dict[str, ClusterSummary]) -> CooperativeTask[None]:
    """Count topics with the names of clusters and sets as those of the system: the tables know names alone."""
    brokers, topics = state.tables.brokers, state.tables.topics
    for number, topic in enumerate(topics_of(brokers.topic_owners())):
        if number % _AT_ONCE == 0:
            yield
        # Few have topics of their names.
        if (names := topics.holders_of(topic)) and kind_of(topic, ()) is TopicKind.NORMAL:
            holders = (brokers.get(name) for name in names)
            for name in {broker_set.cluster for broker_set in holders if broker_set is not None} & numbers.keys():
                numbers[name].topics[TopicKind.NORMAL] -= 1
                numbers[name].topics[TopicKind.SYSTEM] += 1
