"""What routes do not show of their brokers: sets that are away, topics that are lost, slaves without the newest topics.

Read for operators; a client gets none of it.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from namesrv.core import fitting
from namesrv.core.route_state import RouteState
from namesrv.core.tables.broker_table import Addition, Member, RegisteredSet
from namesrv.core.tables.change import RouteTables
from namesrv.core.tables.live_table import LiveKey
from namesrv.core.values.cooperative import CooperativeTask, in_batches
from remoting.protocol.shapes.broker_sets import AwayBrokerSet, LostTopics, StaleReplica

#: So many sets with lost topics, and slaves, are listed, and of each list so many bytes: beside the longest list of
#: sets no peer would read more.
LISTED_MAX: Final = 1_000
LISTED_BYTES_MAX: Final = 512 * 1024


def lost_topics(state: RouteState, broker_name: str, to_unix_ms: int) -> LostTopics | None:
    """Return what is lost of a set, None if nothing is; `to_unix_ms` makes Unix ms of monotonic ms."""
    losses, broker_set = state.lost_topics.of(broker_name), state.tables.brokers.get(broker_name)
    if losses is None or broker_set is None:
        return None
    return LostTopics(
        cluster=broker_set.cluster,
        broker_name=broker_name,
        since_unix_ms=losses.since_ms + to_unix_ms,
        count=len(losses.topics),
        topics=losses.names,
    )


def lacks_topics(tables: RouteTables, broker_set: RegisteredSet, member: Member) -> bool:
    """Return whether a member is a slave that lacks topics of its master."""
    master = tables.live.get(LiveKey(broker_set.broker_name, broker_set.master_address or ""))
    row = tables.live.get(LiveKey(broker_set.broker_name, member.address))
    return master is not None and row is not None and row.lacks_topics_of(master)


def gaps_of(state: RouteState, to_unix_ms: int) -> CooperativeTask[dict[str, object]]:
    """Return the keys of ours in the answer to GET_BROKER_CLUSTER_INFO; a cooperative task."""
    stale: list[StaleReplica] = []
    for part in in_batches(list(state.tables.brokers.sets())):
        stale += (
            StaleReplica(
                cluster=broker_set.cluster,
                broker_name=broker_set.broker_name,
                broker_id=broker_id,
                broker_addr=member.address,
            )
            for broker_set in part
            for broker_id, member in broker_set.members.items()
            if lacks_topics(state.tables, broker_set, member)
        )
        yield
    names = [name for name, _ in state.lost_topics.reported()]
    few = yield from fitting.fitting(names, lambda name: [(_host_of(state, name), None, 1)], size_max=LISTED_MAX)
    lost = (lost_topics(state, name, to_unix_ms) for name in few)
    stale.sort(key=lambda replica: (replica.broker_name, replica.broker_id))
    return {
        "awayBrokerSets": (yield from _listed(state, state.away_sets.away())),
        "lostTopics": (yield from _listed(state, [losses for losses in lost if losses is not None])),
        "staleReplicas": (yield from _listed(state, stale)),
    }


def _listed(
    state: RouteState, gaps: Sequence[AwayBrokerSet | LostTopics | StaleReplica]
) -> CooperativeTask[Sequence[object]]:
    """Return what fits of each host, in bytes and so in number."""

    def additions_of(gap: AwayBrokerSet | LostTopics | StaleReplica) -> list[Addition]:
        size = max(len(msgspec.json.encode(gap)), LISTED_BYTES_MAX // LISTED_MAX)
        return [(_host_of(state, gap.broker_name), None, size)]

    return fitting.fitting(gaps, additions_of, size_max=LISTED_BYTES_MAX)


def _host_of(state: RouteState, broker_name: str) -> str:
    broker_set = state.tables.brokers.get(broker_name)
    return broker_set.network if broker_set else state.away_sets.network_of(broker_name)
