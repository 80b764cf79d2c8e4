"""Removes the brokers of lost connections, so that much that is to be removed keeps no single broker waiting."""

from collections.abc import Awaitable, Callable

from namesrv.core.broker_limits import GUARANTEED_PER_CONNECTION
from namesrv.core.tables.change import RouteTables
from namesrv.core.values.cooperative import BATCH_TOPICS
from remoting.background_tasks import BackgroundTasks
from serving.process.background_tasks import SerialQueue

#: What the tasks are called that remove brokers.
_REMOVE = "remove_lost_brokers"


class LostConnections:
    """Lost connections whose brokers are still to be removed: large ones wait for each other, and so do the others."""

    def __init__(self, tables: RouteTables, forget: Callable[[int], Awaitable[None]], tasks: BackgroundTasks) -> None:
        """Take what removes the brokers of a connection."""
        self._tables = tables
        self._few = SerialQueue(forget, _REMOVE, tasks)
        self._many = SerialQueue(forget, _REMOVE, tasks)

    def put(self, connection_id: int) -> None:
        """Let the brokers of a connection have their turn, if it has any."""
        if self._tables.live.has_registered_over(connection_id):
            (self._many if self._is_large(connection_id) else self._few).put(connection_id)

    def _is_large(self, connection_id: int) -> bool:
        members, topics_of = self._tables.live.of_connection(connection_id), self._tables.topics.topics_of
        if len(members) > GUARANTEED_PER_CONNECTION:
            return True
        return any(len(topics_of(member.broker_name)) > BATCH_TOPICS for member in members)
