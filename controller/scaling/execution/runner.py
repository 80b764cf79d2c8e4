"""Runs the stored operations while this controller leads: observe, decide, store, perform, again and again.

What is decided is stored before anything is done, so that a new leader enters the stored phase. Each operation has a
task of its own: a broker that hangs holds up the topics that it has, and no other.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

import msgspec

from controller.scaling.execution.events import ACTIONS, ResizeActionsFailed, ResizeRoundFailed, phase_entered
from controller.scaling.execution.observer import TopicObserver
from controller.scaling.execution.operations import OperationMoved, Operations, why_no_turn
from controller.scaling.execution.performer import ActionPerformer
from controller.scaling.resize.decision import PhaseProgress, ResizeDecision
from controller.scaling.resize.observation import ResizeObservation, TopicTraits
from controller.scaling.resize.operation import ResizeOperation, first_sentences
from controller.scaling.rules.phases import begin_phase, decide_step, round_ms
from controller.scaling.rules.plan import checked, plan_resize
from controller.scaling.rules.round import ResizeRound
from remoting.clock import Clock
from serving.shapes.scaling import ResizeKind, ResizePhase, ResizePlan, ResizeRequest
from serving.telemetry.events import Count, Counted, Emit
from store.store import StoreError

#: Between two looks for operations that are to start.
LOOK_S: Final = 1.0
#: After a round that failed by a fault of ours, or of the store.
FAILED_ROUND_S: Final = 5.0
#: Sentences about what an operation waits for that operators are shown; there can be one for each queue and client.
WAITS_SHOWN_MAX: Final = 50
#: How long a check before the start may lack answers.
PRECHECK_MS: Final = 60_000


class ResizeStatus(NamedTuple):
    #: The operation in that phase.
    operation: ResizeOperation
    waits_for: tuple[str, ...]
    #: None before the first round of the phase.
    observed_unix_ms: int | None
    #: How long the phase has waited; time in which an answer was missing does not count.
    waited_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFacts:
    plan: ResizePlan
    traits: TopicTraits
    observation: ResizeObservation


class _Run:
    def __init__(self, term: int) -> None:
        #: The term in which it acts, and in no later one.
        self.term = term
        #: None until it is started.
        self.task: asyncio.Task[Any] | None = None
        #: Set to begin a round at once: an operator has changed the operation.
        self.wake = asyncio.Event()
        #: Actions of the last round that did not succeed.
        self.failures: tuple[str, ...] = ()
        #: Groups of the topic in the last round that knew them.
        self.groups: frozenset[str] = frozenset()

    async def sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wake.wait()
        self.wake.clear()


class ResizeRunner:
    def __init__(
        self,
        operations: Operations,
        observer: TopicObserver,
        performer: ActionPerformer,
        emit: Emit,
        clock: Clock,
        may_write: Callable[[int], bool],
    ) -> None:
        """Take what it works with; `may_write` returns whether this controller leads without a break since a term.

        It is False as well if the lead could end before a request arrives.
        """
        self._operations = operations
        self._observer = observer
        self._performer = performer
        self._emit = emit
        self._clock = clock
        self._may_write = may_write
        #: Tasks by id, those that were stopped and have not ended included.
        self._runs: dict[str, _Run] = {}
        #: What each operation waits for, by id.
        self.statuses: dict[str, ResizeStatus] = {}

    def status_of(self, operation: ResizeOperation) -> ResizeStatus:
        """Return what an operation waits for, by the last round of its present phase."""
        status = self.statuses.get(operation.id)
        began = operation.phase, operation.phase_since_unix_ms
        if status is None or (status.operation.phase, status.operation.phase_since_unix_ms) != began:
            return ResizeStatus(operation, (), None, operation.waited_ms)
        return status

    def groups_seen(self, operation_id: str) -> frozenset[str]:
        """Return the groups of the topic that a running operation has seen last; none of one that does not run."""
        run = self._runs.get(operation_id)
        return frozenset() if run is None else run.groups

    def wake(self, operation_id: str) -> None:
        if (run := self._runs.get(operation_id)) is not None:
            run.wake.set()

    def look(
        self, term: int, running_max: int, start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[Any]]
    ) -> None:
        """Start what is stored and does not run, to act while this term lasts; what is planned waits for its turn."""
        self._runs = {name: run for name, run in self._runs.items() if run.task is None or not run.task.done()}
        ahead = {each.id: number for number, each in enumerate(self._operations.turns())}
        for operation in self._operations.under_way():
            # One that was stopped may still wait for an answer: two would act at the same time.
            if operation.id in self._runs:
                continue
            if operation.phase is ResizePhase.PLANNED and ahead[operation.id] >= running_max:
                self._set_status(operation, (why_no_turn(ahead[operation.id]),), 0)
                continue
            run = self._runs[operation.id] = _Run(term)
            run.task = start(self._run(operation, run))

    def stop(self) -> None:
        """Stop all tasks: another controller leads, or this one ends."""
        for run in self._runs.values():
            if run.task is not None:
                run.task.cancel()
        self.statuses.clear()

    async def _run(self, operation: ResizeOperation, run: "_Run") -> None:
        try:
            progress = begin_phase(operation, self._clock.now_ms())
            while not operation.is_finished:
                try:
                    operation, progress, pause_s = await self._round(operation, progress, run)
                except OperationMoved:
                    stored = self._stored(operation)
                    if stored is None:
                        return
                    operation, progress, pause_s = stored, begin_phase(stored), 0.0
                except (StoreError, Exception) as error:  # noqa: BLE001  # whatever it is, it is reported and tried again
                    self._round_failed(operation, error)
                    pause_s = FAILED_ROUND_S
                await run.sleep(pause_s)
            await self._end(operation)
        finally:
            self.statuses.pop(operation.id, None)

    def _stored(self, operation: ResizeOperation) -> ResizeOperation | None:
        """Return what an operator has made of an operation; None if it is gone, or cannot be read."""
        try:
            stored = self._operations.of_topic(operation.topic)
        except StoreError as error:
            self._round_failed(operation, error)
            return None
        return stored if stored is not None and stored.id == operation.id else None

    async def _round(
        self, operation: ResizeOperation, progress: PhaseProgress, run: "_Run"
    ) -> tuple[ResizeOperation, PhaseProgress, float]:
        """Make one round, and return the operation after it, its progress, and how long to wait for the next one."""
        if operation.phase in {ResizePhase.PLANNED, ResizePhase.PRECHECK}:
            return await self._precheck(operation, progress)
        self._operations.check_stored(operation)
        observation = await self._observer.observe(operation, progress.waited_ms)
        observation = replace(observation, failures=run.failures)
        if observation.groups is not None:
            run.groups = frozenset(each.name for each in observation.groups)
        decision = decide_step(operation, progress, observation)
        await self._store(operation, decision.operation)
        # A round that could not be stored is made again, and has to know of them too.
        run.failures = ()
        await self._perform(decision, run)
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
        self._operations.check_stored(operation)
        facts = await self.plan(request_of(operation))
        missing = facts.observation.missing
        progress = progress.at(facts.observation.now_ms, is_complete=not missing)
        if missing and progress.lasted_ms < PRECHECK_MS:
            this = ResizeRound(operation=operation, progress=progress, observation=facts.observation)
            decision = this.stay(missing)
            await self._store(operation, decision.operation)
            self._set_status(decision.operation, missing, progress.waited_ms)
            return decision.operation, decision.progress, LOOK_S
        after = checked(operation, facts.plan, facts.observation)
        await self._store(operation, after)
        return after, begin_phase(after), 0.0

    async def plan(self, request: ResizeRequest) -> PlanFacts:
        traits, observation = await self._observer.facts(request.topic)
        traits = msgspec.structs.replace(traits, former_sets=self._operations.former_sets(request.topic))
        return PlanFacts(plan=plan_resize(request, traits, observation), traits=traits, observation=observation)

    async def _store(self, before: ResizeOperation, after: ResizeOperation) -> None:
        if after == before:
            # What an operator has changed since the round began replaces its decision.
            self._operations.check_stored(before)
            return
        await self._operations.replace(before, after)
        if after.phase is not before.phase:
            self._emit(phase_entered(before, after))

    async def _perform(self, decision: ResizeDecision, run: "_Run") -> None:
        if not decision.actions:
            return
        failures = await self._performer.perform(
            decision.operation.topic, decision.actions, lambda: self._may_write(run.term)
        )
        if failures:
            run.failures = failures
            self._emit(ResizeActionsFailed(operation=decision.operation, failures=failures))
        else:
            self._emit(Counted(count=Count(ACTIONS, ("done",), len(decision.actions))))

    async def _end(self, operation: ResizeOperation) -> None:
        while True:
            try:
                await self._operations.end(operation)
            except StoreError as error:
                self._round_failed(operation, error)
                await asyncio.sleep(FAILED_ROUND_S)
            else:
                return

    def _round_failed(self, operation: ResizeOperation, error: Exception) -> None:
        self._emit(ResizeRoundFailed(operation=operation, error=error, is_fault=not isinstance(error, StoreError)))

    def _set_status(self, operation: ResizeOperation, waits_for: tuple[str, ...], waited_ms: int) -> None:
        shown = first_sentences(waits_for, WAITS_SHOWN_MAX)
        self.statuses[operation.id] = ResizeStatus(operation, shown, self._clock.unix_ms(), waited_ms)


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
