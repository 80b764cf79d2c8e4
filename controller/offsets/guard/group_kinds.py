"""Requests of members whether their groups pull (203, then 307 of each), as only they know. The edge.

A group that pulls and one that pops look alike in the offset table of a broker. Below the offset of one that pops lie
messages that nobody has acknowledged, and what leads to them may be lost: such an offset must not be raised. So a group
pulls only if all its members show it now. Consumers are connected to the slaves of their brokers as well, so a slave
that was promoted can pass the request on at once; a broker that was started again has no client for up to 30 s.

Source: docs/protocol/broker-admin.md 18.
"""

import asyncio
from collections.abc import Collection
from itertools import islice
from typing import Final

from controller.offsets.guard.master_queries import MasterQueries
from remoting.admin.clients import running_consumer
from remoting.admin.groups import GroupConnections, connections_of_group
from remoting.background_tasks import all_results
from remoting.protocol.errors import BodyError, InvokeError, Refused

#: Of more groups the rest is left out; each costs a broker two requests, seconds after it became master.
GROUPS_MAX: Final = 2_000
#: How long all of it may take: offsets are to be written within seconds.
WITHIN_S: Final = 3.0
#: Of a group with more members nothing is shown.
MEMBERS_MAX: Final = 50

#: What 203 has of consumers that pull by themselves, and of gRPC consumers that pop.
PULL: Final = "CONSUME_ACTIVELY"


async def pulling_among(queries: MasterQueries, groups: Collection[str], requests_max: int) -> frozenset[str]:
    """Return those of some groups that push or pull for certain; what does not answer in time is left out."""
    pulling = set[str]()
    left = iter(list(islice(groups, GROUPS_MAX)))

    async def worker() -> None:
        for group in left:
            if await _pulls(queries, group):
                pulling.add(group)

    try:
        async with asyncio.timeout(WITHIN_S):
            await all_results(worker() for _ in range(min(requests_max, len(groups))))
    except TimeoutError:
        pass
    return frozenset(pulling)


async def _pulls(queries: MasterQueries, group: str) -> bool:
    try:
        connections = await queries.call(connections_of_group(group))
    except (Refused, InvokeError, BodyError):
        return False
    return connections is not None and await pulls(queries, group, connections)


async def pulls(queries: MasterQueries, group: str, connections: GroupConnections) -> bool:
    """Return whether a group pushes or pulls for certain: some members hold queues, and none pops or may pop."""
    if len(connections.clients) > MEMBERS_MAX:
        return False
    has_queues = False
    for client in connections.clients:
        try:
            running = await queries.call(running_consumer(group, client.client_id))
        except (Refused, InvokeError, BodyError):
            return False
        if running.pop_queues or not (running.queues or running.started_unix_ms):
            # A member without any queue tells at least when it started. A proxy tells nothing of its gRPC clients.
            return False
        has_queues |= bool(running.queues)
    return has_queues
