"""Requests of clients whether their groups pull (203, then 307 of one client), as only they know. The edge.

A group that pulls and one that pops look alike in the offset table of a broker. Consumers are connected to the slaves
of their brokers as well, so a slave that was promoted can pass the request on at once. One that was started again has
no client for up to 30 s: its groups are taken for groups that may pop, unless it shows their pulls itself.

Source: docs/protocol/broker-admin.md 18.
"""

import asyncio
from collections.abc import Collection
from itertools import islice
from typing import Final

from controller.offsets.guard.master_queries import MasterQueries
from remoting.admin.clients import RunningConsumer, running_consumer
from remoting.admin.groups import GroupConnections, connections_of_group
from remoting.background_tasks import all_results
from remoting.protocol.errors import BodyError, InvokeError, Refused

#: Of more groups the rest is left out; each costs a broker two requests, seconds after it became master.
GROUPS_MAX: Final = 2_000
#: How long all of it may take: offsets are to be written within seconds.
WITHIN_S: Final = 3.0
#: Clients of a group that are requested until one shows it.
CLIENTS_MAX: Final = 2

#: What 203 has of consumers that pull by themselves.
PULL: Final = "CONSUME_ACTIVELY"
_PUSH: Final = "CONSUME_PASSIVELY"


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
    return connections is not None and await pulls(queries, group, connections, CLIENTS_MAX)


async def pulls(queries: MasterQueries, group: str, connections: GroupConnections, clients_max: int) -> bool:
    """Return whether a group pushes or pulls for certain, as one of so many of its members shows it."""
    if connections.consume_type == PULL:
        return True
    return connections.consume_type == _PUSH and await _pushes(queries, group, connections, clients_max)


async def _pushes(queries: MasterQueries, group: str, connections: GroupConnections, clients_max: int) -> bool:
    """Return whether push consumers pull, and do not pop as their brokers may make them."""
    for client in connections.clients[:clients_max]:
        try:
            running = await queries.call(running_consumer(group, client.client_id))
        except (Refused, InvokeError, BodyError):
            continue
        # One without any queue shows nothing: there are more members than queues.
        if running.queues or running.pop_queues:
            return _shows_pull(running)
    return False


def _shows_pull(running: RunningConsumer) -> bool:
    return bool(running.queues) and not running.pop_queues
