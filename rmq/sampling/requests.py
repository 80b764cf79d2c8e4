"""The requests of a sampler, and what it takes of their responses. Pure."""

from collections.abc import Mapping

from remoting.admin.admin_request import AdminRequest
from remoting.admin.groups import GroupConnections, QueueLag, connections_of_group, lag_of_group
from remoting.admin.message_queues import MessageQueue
from remoting.admin.routes import TopicRoute, route_of
from remoting.admin.topics import QueueOffsets, queue_offsets
from rmq.sampling.samples import GroupMembers, GroupProgress, Master


def masters_of(topic: str) -> AdminRequest[tuple[Master, ...]]:
    """Request of a NameServer (105) the sets that have a topic, each with its master."""
    return route_of(topic).mapped(_masters)


def ends_of(topic: str) -> AdminRequest[int]:
    """Request of a broker (202) the sum of the ends of a topic's queues; before 5.3 without those only read from."""
    return queue_offsets(topic).mapped(_ends)


def progress_of(group: str, topic: str) -> AdminRequest[GroupProgress | None]:
    """Request of a broker (208) how far a group is; None for one whose members no longer subscribe to the topic."""
    return lag_of_group(group, topic).mapped(_progress)


def members_of(group: str) -> AdminRequest[GroupMembers]:
    """Request of a broker (203) who of a group is connected."""
    return connections_of_group(group).mapped(_members)


def _masters(route: TopicRoute) -> tuple[Master, ...]:
    sets = (Master(each.cluster, each.broker_name, each.master_address) for each in route.broker_sets.values())
    return tuple(sorted(sets, key=lambda each: (each.cluster, each.broker_name)))


def _ends(queues: Mapping[MessageQueue, QueueOffsets]) -> int:
    return sum(max(queue.max_offset, 0) for queue in queues.values())


def _progress(queues: Mapping[MessageQueue, QueueLag]) -> GroupProgress | None:
    if not queues:
        return None
    return GroupProgress(
        sum(max(queue.broker_offset, 0) for queue in queues.values()),
        sum(max(queue.consumer_offset, 0) for queue in queues.values()),
    )


def _members(connections: GroupConnections | None) -> GroupMembers:
    if connections is None:
        return GroupMembers()
    return GroupMembers(frozenset(each.client_id for each in connections.clients), connections.is_broadcasting)
