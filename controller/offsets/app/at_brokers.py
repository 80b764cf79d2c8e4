"""What a manager does at brokers, put together: it follows masters, mirrors offsets, guards them and holds locks.

The parts are there together, or none of them is: each needs to know who is master.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from controller.offsets.app.following import Following
from controller.offsets.app.guarding import Guarding
from controller.offsets.app.guarding_parts import GuardingParts
from controller.offsets.app.holding import HoldingParts, LockHolding
from controller.offsets.app.mirroring import Mirroring, MirroringParts
from controller.offsets.app.restoring import resets_of
from controller.offsets.config import OffsetManagerConfig
from controller.offsets.guard.rules import Tail
from controller.offsets.locks.sessions.values import LockGroup
from controller.offsets.mirror.regressions import Regression
from controller.offsets.observability.counters import OffsetCounters
from controller.offsets.observability.guard_event_log import GuardEventLog
from controller.offsets.observability.holding_event_log import HoldingEventLog
from controller.offsets.observability.mirror_event_log import MirrorEventLog
from controller.offsets.observability.topology_event_log import TopologyEventLog
from controller.offsets.recording.offset_recorder import OffsetRecorder
from controller.offsets.restore.kept_operations import KeptOperations
from controller.offsets.service.manager_role import ManagerRole
from remoting.client import Requester
from serving.process.process import Runtime

if TYPE_CHECKING:
    from serving.process.background_tasks import BackgroundTask


class AtBrokersParts(NamedTuple):
    """What the manager has for them."""

    runtime: Runtime
    #: Requests brokers and NameServers.
    client: Requester
    counters: OffsetCounters
    recorder: OffsetRecorder
    role: ManagerRole
    #: Restores and resets that this manager did.
    operations: KeptOperations
    #: Returns the groups that are declared orderly.
    declared: Callable[[], Collection[LockGroup]]


class AtBrokers:
    """Everything that a manager does that follows brokers."""

    def __init__(self, config: OffsetManagerConfig, parts: AtBrokersParts) -> None:
        """Wire it for a configuration that follows brokers."""
        self._config, self._parts = config, parts
        event_log = TopologyEventLog(parts.runtime.logs, parts.counters)
        self.following: Final = Following(config, parts.client, parts.runtime.clock, event_log)
        # In this order they learn of other masters.
        self.mirroring: Final = self._make_mirroring()
        self.guarding: Final = self._make_guarding()
        self.holding: Final = self._make_holding()

    def work(self) -> "list[BackgroundTask]":
        """Return what runs for as long as the manager serves."""
        return [self.following.run, *self.mirroring.work(), *self.guarding.work(), *self.holding.work()]

    def stop(self) -> None:
        """Wait for no broker any more that does not serve: the process is to end."""
        self.guarding.stop()

    async def close(self) -> None:
        """Store what is new."""
        await self.mirroring.close()

    def _make_mirroring(self) -> Mirroring:
        runtime, counters = self._parts.runtime, self._parts.counters
        event_log = MirrorEventLog(runtime.logs, counters.mirror, self._record_regressions)
        role, operations = self._parts.role, self._parts.operations
        parts = MirroringParts(
            self.following,
            self._parts.client,
            runtime.tasks,
            runtime.clock,
            event_log,
            leads=lambda: role.is_serving,
            earlier_resets=lambda: resets_of(operations, runtime.clock),
        )
        return Mirroring(self._config, parts)

    def _make_guarding(self) -> Guarding:
        runtime, role = self._parts.runtime, self._parts.role
        parts = GuardingParts(
            client=self._parts.client,
            clock=runtime.clock,
            tasks=runtime.tasks,
            mirror=self.mirroring,
            following=self.following,
            serves=lambda: role.is_serving,
            other_leads=lambda: role.leader is not None,
            observer=GuardEventLog(runtime.logs, self._parts.counters.guard, self._parts.recorder),
        )
        return Guarding(parts, self._config.guard, Tail[self._config.guard_tail.upper()])

    def _make_holding(self) -> LockHolding:
        runtime = self._parts.runtime
        parts = HoldingParts(
            following=self.following,
            client=self._parts.client,
            declared=self._parts.declared,
            role=self._parts.role,
            tasks=runtime.tasks,
            clock=runtime.clock,
            observer=HoldingEventLog(runtime.logs, self._parts.counters.holding, self._parts.recorder),
        )
        return LockHolding(parts, replays=self._config.lock_replay == "on")

    def _record_regressions(self, found: Sequence[Regression]) -> None:
        """Record what went back: each manager mirrors, and one of them records."""
        if self._parts.role.is_serving:
            self._parts.recorder.regressed(found)
