"""Restores, undoes and imports offsets at brokers: one operation at a time, over all broker sets that it covers.

An operation is kept, with what every broker shows, before anything is written, and again with the outcomes: whatever
ends this process on the way can be undone.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from msgspec.structs import replace

from controller.offsets.guard.master_queries import MasterQueries
from controller.offsets.mirror.masters import MasterRun, SetName
from controller.offsets.mirror.mirrored_offsets import MirroredOffsets, MirrorFileFailed, MomentNotKept
from controller.offsets.mirror.regressions import Reset
from controller.offsets.mirror.saved_offsets import DECODED_AT_ONCE
from controller.offsets.restore.broker_facts import BROKER_FAILURES
from controller.offsets.restore.broker_run import BrokerRun
from controller.offsets.restore.kept_operations import KeptOperations
from controller.offsets.restore.operations import Operation, OperationKind, undone_at_brokers
from controller.offsets.restore.requests import (
    FORMER,
    AnotherRuns,
    NoSuchSet,
    Restored,
    RestoreRequest,
    SetProblem,
    TooManyRestored,
)
from controller.offsets.restore.saved_source import MasterState, popping_in, stored_before, wanted_offsets, with_pop
from controller.offsets.restore.values import (
    RESTORED_MAX,
    SENT,
    PlannedOffset,
    RestoreOptions,
    RestoreStatus,
    WantedOffset,
)
from controller.offsets.topology.values import FollowedSet, SetMaster
from remoting.admin.brokers import broker_runtime
from remoting.admin.client import AdminClient
from remoting.background_tasks import all_results
from remoting.clock import Clock
from remoting.slices import in_slices
from store.store import StoreError

#: How long all brokers are read, and how long they are written: what was not reached then is reported.
READ_S: Final = 12
WRITE_S: Final = 18
#: Brokers at work at a time.
BROKERS_MAX: Final = 16


class _NoRun(NamedTuple):
    """Why nothing is written at a broker set."""

    status: RestoreStatus
    reason: str


_NO_MASTER: Final = _NoRun(RestoreStatus.NO_MASTER, "the broker set has no master now, or it is not followed")
_OTHER_MASTER: Final = _NoRun(RestoreStatus.ROLE_CHANGED, "the master has changed meanwhile: repeat the request")
_NOT_ANSWERED: Final = "since when its master is one is not known, as it does not answer (28): repeat the request"


class FollowedMasters(Protocol):
    """Who is master of each broker set."""

    @property
    def sets(self) -> Mapping[str, FollowedSet]:
        """All sets by broker name."""

    def is_master(self, master: SetMaster) -> bool:
        """Return whether a broker is still the master of its set; false where that is not known."""


class RestoreObserver(Protocol):
    """Follows what is changed at brokers."""

    def restore_began(self, operation: Operation) -> None:
        """Take an operation whose offsets are about to be written."""

    def restored(self, operation: Operation) -> None:
        """Take an operation that has come to its end."""

    def operation_not_kept(self, kind: str, error: str) -> None:
        """Take that what an operation has done could not be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreParts:
    """What a restorer reaches the world through."""

    admin: AdminClient
    followed: FollowedMasters
    mirrored: MirroredOffsets
    kept: KeptOperations
    clock: Clock
    #: Whether this manager serves: another one may restore otherwise.
    serves: Callable[[], bool]
    observer: RestoreObserver


class BrokerChange(NamedTuple):
    """Who changes offsets at brokers, and why."""

    kind: OperationKind
    writer: str
    options: RestoreOptions
    is_dry_run: bool
    #: The operation that it undoes.
    undoes: str = ""


class Restorer:
    """Offsets at brokers, put back."""

    def __init__(self, parts: RestoreParts) -> None:
        self._parts = parts
        self._turn = asyncio.Lock()

    async def restore(self, request: RestoreRequest) -> Restored:
        """Write offsets of the mirror at brokers, or show what that would do. Raises RestoreRefused and StoreError."""
        change = BrokerChange(OperationKind.RESTORE, request.writer, request.options, request.is_dry_run)
        async with self._alone():
            wanted: list[WantedOffset] = []
            problems: list[SetProblem] = []
            if not (sets := self._sets_of(request)):
                raise NoSuchSet(request.scope)
            states = await self._states_of(sets)
            for set_name, state in states.items():
                if request.moment is FORMER and state is None and self._has_master(set_name):
                    # Its newest reading may be of this very master, after its role change.
                    problems.append(SetProblem(set_name, _NOT_ANSWERED))
                    continue
                try:
                    wanted += await wanted_offsets(self._parts.mirrored, set_name, state, request.moment, request.scope)
                except (MomentNotKept, MirrorFileFailed) as error:
                    problems.append(SetProblem(set_name, str(error)))
                if len(wanted) > RESTORED_MAX:
                    raise TooManyRestored(RESTORED_MAX)
            return await self._change(change, wanted, states, problems)

    async def undo(
        self, operation: Operation, writer: str, options: RestoreOptions, *, is_forced: bool, is_dry_run: bool
    ) -> Restored:
        """Bring back what brokers showed before an operation. Raises RestoreRefused and StoreError.

        Without force only where a broker still shows what the operation has written.
        """
        options = options._replace(allow_back=True)
        change = BrokerChange(OperationKind.UNDO, writer, options, is_dry_run, operation.operation_id)
        async with self._alone():
            wanted = []
            by_set = _by_set(undone_at_brokers(operation, is_forced=is_forced))
            states = await self._states_of(by_set)
            for set_name, state in states.items():
                before_ms = stored_before(state, operation.unix_ms, operation.unix_ms + READ_S * 1000)
                wanted += [each._replace(stored_before_unix_ms=before_ms) for each in by_set[set_name]]
            return await self._change(change, wanted, states)

    async def write(self, change: BrokerChange, wanted: Sequence[WantedOffset]) -> Restored:
        """Write offsets of any origin at brokers, or show what that would do. Raises RestoreRefused and StoreError."""
        if len(wanted) > RESTORED_MAX:
            raise TooManyRestored(RESTORED_MAX)
        async with self._alone():
            return await self._change(change, wanted, {})

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Let one operation run; raises AnotherRuns."""
        if self._turn.locked():
            raise AnotherRuns
        async with self._turn:
            yield

    def _sets_of(self, request: RestoreRequest) -> list[SetName]:
        """Return the broker sets of a scope that are mirrored or followed."""
        mirrored = (each.set_name for each in self._parts.mirrored.statuses())
        followed = (SetName(each.cluster, each.broker_name) for each in self._parts.followed.sets.values())
        return sorted({each for each in (*mirrored, *followed) if request.scope.has_set(each)})

    def _set_of(self, set_name: SetName) -> FollowedSet | None:
        found = self._parts.followed.sets.get(set_name.broker_name)
        return found if found is not None and found.cluster == set_name.cluster else None

    def _has_master(self, set_name: SetName) -> bool:
        followed = self._set_of(set_name)
        return followed is not None and followed.master is not None

    async def _states_of(self, names: Iterable[SetName]) -> dict[SetName, MasterState | None]:
        """Return the masters of broker sets; None of one that does not answer."""
        found: dict[SetName, MasterState | None] = dict.fromkeys(names)

        async def read(set_name: SetName) -> None:
            found[set_name] = await self._state_of(set_name)

        await _within(READ_S, [partial(read, each) for each in found])
        return found

    async def _state_of(self, set_name: SetName) -> MasterState | None:
        """Return since when a broker is master; None if there is none, or it does not answer."""
        followed = self._set_of(set_name)
        if followed is None or (master := followed.master) is None:
            return None
        try:
            boot_ms = (await self._parts.admin.call(master.address, broker_runtime())).boot_unix_ms
        except BROKER_FAILURES:
            return None
        if boot_ms is None:
            return None
        run = MasterRun(address=master.address, master_epoch=master.master_epoch, boot_unix_ms=boot_ms)
        return MasterState(master, run, followed.elected_unix_ms)

    async def _change(
        self,
        change: BrokerChange,
        wanted: Sequence[WantedOffset],
        states: Mapping[SetName, MasterState | None],
        problems: Sequence[SetProblem] = (),
    ) -> Restored:
        """Write what is wanted at the masters of `states`; of a set without a state at whoever is master now."""
        unix_ms = self._parts.clock.unix_ms()
        by_set = {name: await self._with_pop(name, each) for name, each in _by_set(wanted).items()}
        of_sets = {name: self._run_of(name, each, states.get(name), change) for name, each in by_set.items()}
        runs = [each for each in of_sets.values() if isinstance(each, BrokerRun)]
        await _within(READ_S, [run.plan for run in runs])
        if change.is_dry_run or not any(run.ready for run in runs):
            return Restored(operation_id="", queues=_queues(by_set, of_sets), problems=problems)
        operation = Operation(
            operation_id=self._parts.kept.new_id(),
            kind=change.kind,
            writer=change.writer,
            unix_ms=unix_ms,
            undoes=change.undoes,
            pulls=change.options.pulls,
            queues=tuple(_queues(by_set, of_sets)),
            is_finished=False,
        )
        await self._parts.kept.keep(operation)
        self._parts.observer.restore_began(operation)
        self._note_resets(operation)
        await _within(WRITE_S, [run.apply for run in runs])
        operation = replace(operation, queues=tuple(_queues(by_set, of_sets)), is_finished=True)
        self._forget_resets(operation)
        try:
            await self._parts.kept.keep(operation)
        except StoreError as error:
            # Its offsets are written, and what was kept before undoes them.
            self._parts.observer.operation_not_kept(change.kind.value, str(error))
        self._parts.observer.restored(operation)
        return Restored(operation_id=operation.operation_id, queues=operation.queues, problems=problems)

    async def _with_pop(self, set_name: SetName, wanted: Sequence[WantedOffset]) -> list[WantedOffset]:
        """Return offsets with what the newest reading shows of groups that pop."""
        saved, popping = self._parts.mirrored.saved(set_name), set[str]()
        async for part in in_slices(() if saved is None else saved.entries(), DECODED_AT_ONCE):
            popping |= popping_in(part)
        return with_pop(wanted, popping)

    def _run_of(
        self, set_name: SetName, wanted: Sequence[WantedOffset], state: MasterState | None, change: BrokerChange
    ) -> BrokerRun | _NoRun:
        """Return the run at the master of a set, or why there is none."""
        followed = self._set_of(set_name)
        if followed is None or (master := followed.master) is None:
            return _NO_MASTER
        if state is not None and state.master != master:
            # What needs proof was decided for the former one.
            return _OTHER_MASTER
        queries = MasterQueries(self._parts.admin, set_name.broker_name, master.address)

        def is_still_master() -> bool:
            return self._parts.serves() and self._parts.followed.is_master(master)

        return BrokerRun(queries, master.address, wanted, change.options, is_still_master)

    def _note_resets(self, operation: Operation) -> None:
        """Let the mirror know what goes back because an operator wants it."""
        for each in operation.queues:
            if each.status is RestoreStatus.READY and each.messages_again and each.new is not None:
                self._parts.mirrored.resets.note(each.queue, Reset(each.new, operation.unix_ms))

    def _forget_resets(self, operation: Operation) -> None:
        """Let the mirror know that what was not sent is nobody's reset."""
        for each in operation.queues:
            if each.status not in SENT and each.new is not None:
                self._parts.mirrored.resets.forget(each.queue, Reset(each.new, operation.unix_ms))


def _by_set(wanted: Iterable[WantedOffset]) -> dict[SetName, list[WantedOffset]]:
    found: dict[SetName, list[WantedOffset]] = {}
    for each in wanted:
        found.setdefault(each.queue.set_name, []).append(each)
    return found


def _queues(
    by_set: Mapping[SetName, Sequence[WantedOffset]], of_sets: Mapping[SetName, BrokerRun | _NoRun]
) -> list[PlannedOffset]:
    found: list[PlannedOffset] = []
    for set_name, wanted in by_set.items():
        run = of_sets[set_name]
        if isinstance(run, BrokerRun):
            found += run.planned
        else:
            found += (PlannedOffset(each.queue, None, each.offset, run.status, run.reason) for each in wanted)
    return found


async def _within(seconds: float, works: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Do `works`, BROKERS_MAX at a time; those that have not ended in time are cancelled."""
    turns = asyncio.Semaphore(BROKERS_MAX)

    async def in_turn(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with turns:
            await work()

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await all_results(map(in_turn, works))
