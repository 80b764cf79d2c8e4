"""Clusters in numbers, for metrics and HTTP alike: one walk over the broker sets, none over topics."""

from collections import defaultdict
from enum import Enum

import msgspec

from namesrv.core.route_state import RouteState
from namesrv.core.tables.broker_table import RegisteredSet
from remoting.protocol.shapes.route import MASTER_ID
from remoting.protocol.topic_kinds import TopicKind, kind_of, topics_of


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
    """One cluster."""

    sets: dict[SetLeadership, int] = msgspec.field(default_factory=lambda: dict.fromkeys(SetLeadership, 0))
    #: Living brokers.
    brokers: dict[BrokerRole, int] = msgspec.field(default_factory=lambda: dict.fromkeys(BrokerRole, 0))
    topics: dict[TopicKind, int] = msgspec.field(default_factory=lambda: dict.fromkeys(TopicKind, 0))
    read_queues: int = 0
    write_queues: int = 0


def state_of(broker_set: RegisteredSet) -> SetLeadership:
    """Return who leads a set."""
    if broker_set.master_address is not None:
        return SetLeadership.MASTER
    return SetLeadership.ACTING_MASTER if broker_set.has_acting_master else SetLeadership.NO_MASTER


def role_of(broker_id: int) -> BrokerRole:
    """Return what a broker is by its id."""
    return BrokerRole.MASTER if broker_id == MASTER_ID else BrokerRole.SLAVE


def clusters(state: RouteState) -> dict[str, ClusterSummary]:
    """Return the numbers of every cluster, by name."""
    numbers: defaultdict[str, ClusterSummary] = defaultdict(ClusterSummary)
    topics = state.tables.topics
    for broker_set in state.tables.brokers.sets():
        cluster = numbers[broker_set.cluster]
        cluster.sets[state_of(broker_set)] += 1
        read, write = topics.queue_sum(broker_set.broker_name)
        cluster.read_queues += read
        cluster.write_queues += write
        for broker_id, member in broker_set.members.items():
            # Members of one set can have registered in two clusters.
            numbers[member.cluster].brokers[role_of(broker_id)] += 1
    for name, counts in state.topic_counts.counts().items():
        if name in numbers:
            numbers[name].topics = dict(counts)
    # These counts are kept by name alone, as clusters and sets come and go.
    brokers = state.tables.brokers
    for topic in topics_of(brokers.topic_owners()):
        # Few have topics of their names.
        if (names := topics.holders_of(topic)) and kind_of(topic, ()) is TopicKind.NORMAL:
            holders = (brokers.get(name) for name in names)
            for name in {broker_set.cluster for broker_set in holders if broker_set is not None}:
                numbers[name].topics[TopicKind.NORMAL] -= 1
                numbers[name].topics[TopicKind.SYSTEM] += 1
    return dict(numbers)
