"""Queue scaling of one controller: what operators request, and the operations that run while this controller leads.

It depends on the store and on brokers, and nothing depends on it: elections go on whatever happens here.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import Any, Final, NamedTuple

from msgspec import structs

from controller.config import ControllerConfig
from controller.failover.group import Group
from controller.scaling.execution.events import ResizeCreated, phase_entered, resize_measures
from controller.scaling.execution.group_views import GroupKinds
from controller.scaling.execution.observer import TopicObserver
from controller.scaling.execution.operations import OperationExists, Operations
from controller.scaling.execution.performer import ActionPerformer
from controller.scaling.execution.requests import ClientQueries
from controller.scaling.execution.runner import LOOK_S, ResizeRunner
from controller.scaling.resize.operation import ResizeOperation
from controller.scaling.rules import commands
from controller.scaling.rules.plan import planned_operation
from remoting.admin.client import AdminClient, AdminLimits
from remoting.client import Requester
from remoting.clock import Clock
from serving.shapes.scaling import ResizePlan, ResizeRequest
from serving.telemetry.events import Emit, Measure
from store.document_store import DocumentStore
from store.documents import OPERATION_KINDS
from store.store import SetStore, StoreBackend, StoreError

#: As mqadmin's: a broker answers 17 once its NameServers have, and 307 once its client has.
_REQUESTS: Final = AdminLimits(timeout_ms=5_000, requests_max=64, requests_per_peer_max=8)
#: Requests that clients answer: a broker has 16 threads for them, and one that hangs keeps its thread for 10 s.
_REQUESTS_OF_CLIENTS: Final = AdminLimits(timeout_ms=5_000, requests_max=32, requests_per_peer_max=4)
#: A write is not sent if the lead could end before it arrives.
WRITE_MS: Final = 1_000
#: Missing answers that a refusal names.
MISSING_SHOWN: Final = 5


class ScalingOptions(NamedTuple):
    """What is configured; read again at each use."""

    name_servers: tuple[str, ...]
    #: Operations that run at one time.
    running_max: int
    #: Of a round of the autoscaler.
    interval_ms: int = 15_000

    @classmethod
    def of(cls, config: ControllerConfig) -> "ScalingOptions":
        name_servers = tuple(each for each in config.namesrv_addr.split(";") if each)
        return cls(name_servers, config.scaling_operations_max, config.scaling_interval_ms)


class ResizeRefused(Exception):
    def __init__(self, plan: ResizePlan) -> None:
        self.plan = plan
        super().__init__("; ".join(plan.problems))


class OperationUnknown(Exception):
    def __init__(self, operation_id: str) -> None:
        super().__init__(f"there is no operation {operation_id}")


class QueueScaling:
    def __init__(
        self,
        *,
        group: Group,
        sets: SetStore,
        backend: StoreBackend,
        client: Requester,
        clock: Clock,
        options: Callable[[], ScalingOptions],
        emit: Emit,
        begin: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]],
    ) -> None:
        """Take what it reaches the world through; `begin` runs what nobody waits for."""
        self._group = group
        self.sets = sets
        self.client = client
        self.clock = clock
        self.options = options
        self.emit = emit
        self.begin = begin
        self.documents = DocumentStore(backend, OPERATION_KINDS)
        self.operations = Operations(self.documents)
        self.group_kinds = GroupKinds(self.documents)
        admin = AdminClient(client, _REQUESTS)
        self._observer = TopicObserver(
            admin,
            lambda: options().name_servers,
            sets,
            ClientQueries(AdminClient(client, _REQUESTS_OF_CLIENTS), clock),
            self.group_kinds,
            clock,
        )
        self.runner = ResizeRunner(
            self.operations, self._observer, ActionPerformer(admin, clock), emit, clock, self._may_write
        )
        #: The term for which the documents are loaded.
        self._term = 0

    @property
    def is_ready(self) -> bool:
        """Whether this controller leads, and knows all operations."""
        return self._group.is_leader and self._term == self._group.term

    def under_way(self) -> list[ResizeOperation]:
        """Return the operations that have not ended, none on a controller that does not lead."""
        return self.operations.under_way() if self.is_ready else []

    def measures(self) -> Iterator[Measure]:
        """Yield the gauges of what is under way; none on a controller that does not lead."""
        return resize_measures(self.under_way(), self.clock.unix_ms()) if self._group.is_leader else iter(())

    @property
    def term(self) -> int:
        """How often this controller has begun to lead."""
        return self._group.term

    async def run(self) -> None:
        try:
            while True:
                await self.look()
                await asyncio.sleep(LOOK_S)
        finally:
            self.runner.stop()

    async def look(self) -> None:
        if not self._group.is_leader:
            self.runner.stop()
            return
        if self._term != self._group.term:
            self.runner.stop()
            term = self._group.term
            with contextlib.suppress(StoreError):
                await self.documents.load(lambda: self._group.leads_in(term))
                await self.operations.read_all()
                self._term = term
        if self.is_ready:
            self.runner.look(self._term, self.options().running_max, self.begin)

    def _may_write(self, term: int) -> bool:
        """Return whether this controller leads since that term began, and for long enough for a write to arrive."""
        return self._group.leads_in(term) and self._group.leads_for(WRITE_MS)

    # Requests of operators and of the autoscaler

    async def plan(self, request: ResizeRequest) -> ResizePlan:
        """Return what a resize would do, and what is in its way; changes nothing."""
        self._group.check_leads()
        plan = (await self.runner.plan(request)).plan
        under_way = self.operations.of_topic(request.topic)
        # What else it finds are the numbers of that resize.
        return plan if under_way is None else structs.replace(plan, problems=(str(OperationExists(under_way)),))

    async def start(self, request: ResizeRequest, before: int | None = None) -> ResizeOperation:
        """Store a new operation, which starts within a second; raises ResizeRefused, OperationExists and StoreError.

        It is refused unless the set with the most queues has `before`: a growth must not become a shrink.
        """
        self.check_leads()
        facts = await self.runner.plan(request)
        plan = facts.plan
        most = max((max(planned.read, planned.write) for planned in plan.sets), default=before)
        if before is not None and most != before:
            moved = f"{request.topic} has {most} queues by now, and this was decided for {before}"
            plan = structs.replace(plan, problems=(*plan.problems, moved))
        if plan.problems:
            raise ResizeRefused(plan)
        operation_id = f"{request.topic}.{self.clock.unix_ms()}"
        operation = planned_operation(operation_id, request, facts.traits, facts.observation)
        await self.operations.add(operation)
        self.emit(ResizeCreated(operation=operation))
        return operation

    async def abort(self, operation_id: str, reason: str, *, is_dry_run: bool = False) -> ResizeOperation:
        """Undo an operation; raises OperationUnknown, ResizeCommandRefused and StoreError.

        A dry run returns, or raises, the same, and changes nothing.
        """
        return await self._change(
            operation_id, lambda each, unix_ms: commands.aborted(each, unix_ms, reason), is_dry_run=is_dry_run
        )

    async def resume(self, operation_id: str, reason: str, *, is_dry_run: bool = False) -> ResizeOperation:
        """Go on with a blocked operation, or after a conflict; raises as `abort` does."""
        return await self._change(
            operation_id, lambda each, unix_ms: commands.resumed(each, unix_ms, reason), is_dry_run=is_dry_run
        )

    async def waive(self, operation_id: str, group: str, *, is_dry_run: bool = False) -> ResizeOperation:
        """Give up what a group has not consumed; raises as `abort` does."""
        self.check_leads()
        found = self.find(operation_id)
        known = {*found.gated_groups, *self.runner.groups_seen(operation_id)}
        # Nobody else has to answer about a group that the resize waits for.
        groups = known if found.is_finished or group in known else await self._groups_of(found.topic)
        return await self._change(
            operation_id, lambda each, unix_ms: commands.waived(each, group, groups, unix_ms), is_dry_run=is_dry_run
        )

    async def give_up(
        self, operation_id: str, broker_name: str, why: str, *, is_dry_run: bool = False
    ) -> ResizeOperation:
        """Go on without a broker set that does not have the topic any more; raises as `abort` does."""
        self.check_leads()
        found = self.find(operation_id)
        commands.check_gives_up(found, broker_name)
        having = await self._observer.brokers_with(found.topic, broker_name)
        if having is None:
            raise commands.ResizeCommandRefused(
                f"no NameServer answers which brokers belong to {broker_name}: try again"
            )
        if having:
            raise commands.ResizeCommandRefused(
                f"{broker_name} has {found.topic} at {', '.join(having)}: wait for it, or delete the topic there first"
            )
        return await self._change(
            operation_id,
            lambda each, unix_ms: commands.given_up(each, broker_name, why, unix_ms),
            is_dry_run=is_dry_run,
        )

    async def _groups_of(self, topic: str) -> Collection[str]:
        groups, missing = await self._observer.groups(topic)
        if groups is None:
            raise commands.ResizeCommandRefused(
                f"which groups {topic} has is not known, try again: {'; '.join(missing[:MISSING_SHOWN])}"
            )
        return tuple(each.name for each in groups)

    def find(self, operation_id: str) -> ResizeOperation:
        operation = self.operations.find(operation_id)
        if operation is None:
            raise OperationUnknown(operation_id)
        return operation

    async def _change(
        self, operation_id: str, command: Callable[[ResizeOperation, int], ResizeOperation], *, is_dry_run: bool
    ) -> ResizeOperation:
        self.check_leads()
        found = self.find(operation_id)
        if is_dry_run or found.is_finished:
            # Of one that has ended the command says so.
            return command(found, self.clock.unix_ms())
        before, after = await self.operations.change(found, lambda each: command(each, self.clock.unix_ms()))
        if after.phase is not before.phase:
            self.emit(phase_entered(before, after))
        self.runner.wake(operation_id)
        return after

    def check_leads(self) -> None:
        """Raise NotLeader on another controller than the leader, and StoreError until the operations are loaded."""
        self._group.check_leads()
        if not self.is_ready:
            raise StoreError("operations are being loaded: try again in a second")
