"""Runs the stored operations while this controller leads: observe, decide, store, perform, again and again.

What is decided is stored before anything is done, so that a new leader enters the stored phase. Each operation has a
task of its own: a broker that hangs holds up the topics that it has, and no other.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

from controller.scaling.execution.observer import TopicObserver
from controller.scaling.execution.operations import OperationMoved, Operations
from controller.scaling.execution.performer import ActionPerformer
from controller.scaling.resize.decision import PhaseProgress, ResizeAction, ResizeDecision
from controller.scaling.resize.observation import ResizeObservation
from controller.scaling.resize.operation import ResizeKind, ResizeOperation, ResizePhase
from controller.scaling.resize.request import ResizePlan, ResizeRequest, TopicTraits
from controller.scaling.rules.needs import round_ms
from controller.scaling.rules.plan import checked, plan_resize
from controller.scaling.rules.step import begin_phase, decide_step
from controller.storage.store import StoreError
from remoting.clock import Clock

#: Between two looks for operations that are to start.
LOOK_S: Final = 1.0
#: After a round that failed by a fault of ours, or of the store.
FAILED_ROUND_S: Final = 5.0
#: How long a check before the start may lack answers.
PRECHECK_MS: Final = 60_000


class ResizeObserver(Protocol):
    """Learns what becomes of operations, to log, count and record it."""

    def resize_created(self, operation: ResizeOperation) -> None:
        """Report a new operation."""

    def phase_entered(self, before: ResizeOperation, after: ResizeOperation) -> None:
        """Report that an operation is in another phase; the last one of an operation ends it."""

    def actions_failed(self, operation: ResizeOperation, failures: tuple[str, ...]) -> None:
        """Report changes of brokers that did not succeed; they are tried again."""

    def actions_done(self, operation: ResizeOperation, actions: tuple[ResizeAction, ...]) -> None:
        """Report changes of brokers that succeeded."""

    def round_failed(self, operation: ResizeOperation, error: Exception) -> None:
        """Report a round that could not be stored, or failed by a fault of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeStatus:
    """What a running operation waits for."""

    waits_for: tuple[str, ...]
    observed_unix_ms: int
    #: How long the phase has waited; time in which an answer was missing does not count.
    waited_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    """A plan, and what it was made of."""

    plan: ResizePlan
    traits: TopicTraits
    observation: ResizeObservation


class ResizeRunner:
    """The tasks of all operations under way."""

    def __init__(
        self,
        operations: Operations,
        observer: TopicObserver,
        performer: ActionPerformer,
        listener: ResizeObserver,
        clock: Clock,
    ) -> None:
        self._operations = operations
        self._observer = observer
        self._performer = performer
        self._listener = listener
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._statuses: dict[str, ResizeStatus] = {}
        #: Actions of the last round that did not succeed, by id.
        self._failures: dict[str, tuple[str, ...]] = {}
        #: Set to begin a round at once: an operator has changed the operation.
        self._wakes: dict[str, asyncio.Event] = {}

    @property
    def statuses(self) -> Mapping[str, ResizeStatus]:
        """What each operation waits for, by id."""
        return self._statuses

    def wake(self, operation_id: str) -> None:
        """Begin the next round of an operation at once."""
        if (event := self._wakes.get(operation_id)) is not None:
            event.set()

    def look(self, running_max: int, start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]]) -> None:
        """Start what is stored and does not run, oldest first; at most so many at one time."""
        self._tasks = {name: task for name, task in self._tasks.items() if not task.done()}
        waiting = sorted(self._operations.under_way(), key=lambda each: each.created_unix_ms)
        # Those that have begun come first: after a change of the leader none of them waits for a new one.
        waiting.sort(key=lambda each: each.phase is ResizePhase.PLANNED)
        for operation in waiting:
            if operation.id in self._tasks:
                continue
            if operation.phase is ResizePhase.PLANNED and len(self._tasks) >= running_max:
                reason = f"{len(self._tasks)} other resizes run, which is the limit"
                self._set_status(operation, (reason,), 0)
                continue
            self._wakes[operation.id] = asyncio.Event()
            self._tasks[operation.id] = start(self._run(operation))

    def stop(self) -> None:
        """Stop all tasks: another controller leads, or this one ends."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        self._statuses.clear()
        self._failures.clear()
        self._wakes.clear()

    async def _run(self, operation: ResizeOperation) -> None:
        try:
            await self._run_to_end(operation)
        finally:
            self._statuses.pop(operation.id, None)
            self._failures.pop(operation.id, None)
            self._wakes.pop(operation.id, None)

    async def _run_to_end(self, operation: ResizeOperation) -> None:
        progress = begin_phase(operation)
        while not operation.is_finished:
            try:
                operation, progress, pause_s = await self._round(operation, progress)
            except OperationMoved:
                stored = self._operations.of_topic(operation.topic)
                if stored is None or stored.id != operation.id:
                    return
                operation, progress, pause_s = stored, begin_phase(stored), 0.0
            except (StoreError, Exception) as error:  # noqa: BLE001  # whatever it is, it is reported and tried again
                self._listener.round_failed(operation, error)
                pause_s = FAILED_ROUND_S
            await self._sleep(operation.id, pause_s)
        await self._end(operation)

    async def _round(
        self, operation: ResizeOperation, progress: PhaseProgress
    ) -> tuple[ResizeOperation, PhaseProgress, float]:
        """Make one round, and return the operation after it, its progress, and how long to wait for the next one."""
        if operation.phase in {ResizePhase.PLANNED, ResizePhase.PRECHECK}:
            return await self._precheck(operation, progress)
        observation = replace(await self._observer.observe(operation), failures=self._failures.pop(operation.id, ()))
        decision = decide_step(operation, progress, observation)
        await self._store(operation, decision.operation)
        await self._perform(decision)
        entered = decision.operation.phase is not operation.phase
        self._set_status(decision.operation, decision.waits_for, decision.progress.waited_ms)
        return decision.operation, decision.progress, 0.0 if entered else round_ms(decision.operation) / 1000

    async def _precheck(
        self, operation: ResizeOperation, progress: PhaseProgress
    ) -> tuple[ResizeOperation, PhaseProgress, float]:
        if operation.phase is ResizePhase.PLANNED:
            entered = operation.entered(ResizePhase.PRECHECK, self._clock.unix_ms())
            await self._store(operation, entered)
            return entered, begin_phase(entered), 0.0
        facts = await self.plan(request_of(operation))
        missing = facts.observation.missing
        if missing and self._clock.unix_ms() - operation.phase_since_unix_ms < PRECHECK_MS:
            self._set_status(operation, missing, progress.waited_ms)
            return operation, progress, LOOK_S
        after = checked(operation, facts.plan, facts.observation)
        await self._store(operation, after)
        return after, begin_phase(after), 0.0

    async def plan(self, request: ResizeRequest) -> PlanFacts:
        """Return the plan of a request, and what it was made of."""
        traits, observation = await self._observer.facts(request.topic)
        return PlanFacts(plan=plan_resize(request, traits, observation), traits=traits, observation=observation)

    async def _store(self, before: ResizeOperation, after: ResizeOperation) -> None:
        if after == before:
            return
        await self._operations.replace(before, after)
        if after.phase is not before.phase:
            self._listener.phase_entered(before, after)

    async def _perform(self, decision: ResizeDecision) -> None:
        if not decision.actions:
            return
        failures = await self._performer.perform(decision.operation.topic, decision.actions)
        if failures:
            self._failures[decision.operation.id] = failures
            self._listener.actions_failed(decision.operation, failures)
        else:
            self._listener.actions_done(decision.operation, decision.actions)

    async def _end(self, operation: ResizeOperation) -> None:
        while True:
            try:
                await self._operations.end(operation)
            except StoreError as error:
                self._listener.round_failed(operation, error)
                await asyncio.sleep(FAILED_ROUND_S)
            else:
                return

    async def _sleep(self, operation_id: str, seconds: float) -> None:
        event = self._wakes[operation_id]
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return
        event.clear()

    def _set_status(self, operation: ResizeOperation, waits_for: tuple[str, ...], waited_ms: int) -> None:
        self._statuses[operation.id] = ResizeStatus(
            waits_for=waits_for, observed_unix_ms=self._clock.unix_ms(), waited_ms=waited_ms
        )


_ORDERED: Final[Mapping[ResizeKind, Literal["", "pause", "gate"]]] = {
    ResizeKind.ORDERED: "pause",
    ResizeKind.GATED: "gate",
}


def request_of(operation: ResizeOperation) -> ResizeRequest:
    """Return the request that an operation was made of, for its check before the start."""
    return ResizeRequest(
        topic=operation.topic,
        queues=operation.sets[0].target,
        ordered=_ORDERED.get(operation.kind, ""),
        equalise=len({each.before for each in operation.sets}) > 1,
        waits=operation.waits,
        options=operation.options,
        requested_by=operation.requested_by,
        reason=operation.reason,
    )
