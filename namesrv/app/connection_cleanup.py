"""Removes the brokers of lost connections; a large removal keeps no single broker waiting."""

from collections.abc import Callable
from typing import Any, Final

from namesrv.core.route_state import GUARANTEED_PER_CONNECTION, RouteState
from namesrv.core.values.cooperative import BATCH_TOPICS
from namesrv.core.values.effects import RouteOutcome
from namesrv.wire.cooperative_runner import CooperativeRunner
from remoting.background_tasks import BackgroundTasks
from remoting.clock import Clock
from serving.process.background_tasks import SerialQueue

#: Name of the tasks that remove brokers.
_REMOVE: Final = "remove_lost_brokers"


class ConnectionCleanup:
    """Two queues of lost connections: a large one waits for other large ones, a small one for other small ones."""

    def __init__(
        self,
        state: RouteState,
        clock: Clock,
        runner: CooperativeRunner,
        perform: Callable[[RouteOutcome[Any]], None],
        tasks: BackgroundTasks,
    ) -> None:
        self._state = state
        self._clock = clock
        self._runner = runner
        self._perform = perform
        self._small = SerialQueue(self._remove, _REMOVE, tasks)
        self._large = SerialQueue(self._remove, _REMOVE, tasks)
        self._is_stopped = False

    def put(self, connection_id: int) -> None:
        """Queue a lost connection if a broker registered over it."""
        if not self._is_stopped and self._state.tables.live.has_registered_over(connection_id):
            (self._large if self._is_large(connection_id) else self._small).put(connection_id)

    def stop(self) -> None:
        """Ignore the connections that the server closes itself: their brokers are alive."""
        self._is_stopped = True

    def _is_large(self, connection_id: int) -> bool:
        tables = self._state.tables
        members = tables.live.of_connection(connection_id)
        if len(members) > GUARANTEED_PER_CONNECTION:
            return True
        return any(len(tables.topics.topics_of(member.broker_name)) > BATCH_TOPICS for member in members)

    async def _remove(self, connection_id: int) -> None:
        steps = self._state.connection_loss_steps(connection_id, self._clock.now_ms())
        self._perform(await self._runner.run_first(steps))
